// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Manifests and descriptors: what they give, and that every fault has a code and a place.
#include "core/support/suggest.h"
#include "driver/config/descriptor.h"
#include "manifest_support.h"

namespace ferrite::core::config {
namespace {

TEST_F(Manifest, GivesWhatItEnables) {
  auto pipeline = read(R"(enable = ["acme.fuse", "acme.base"]
[plugin."acme.fuse"]
on_error = "skip"
isolation = "process"
process = { timeout_ms = 2000, memory_mib = 512 }
config = { limit = 3, tile = { m = 4.5 }, names = ["a", "b"], on = true, sizes = [1, 2], ratio = 2, ratios = [1, 2] }
[pass."acme.drop"]
enabled = false
after = ["acme.first"]
[pipeline]
fuse = false
without = ["split"]
threads = 3
)");
  ASSERT_TRUE(pipeline) << pipeline.error().message();
  ASSERT_EQ(pipeline->plugins.size(), 2u);
  const auto& fuse = pipeline->plugins[0];
  EXPECT_EQ(fuse.id, "acme.fuse");
  EXPECT_TRUE(fuse.library.empty());
  EXPECT_EQ(fuse.on_error, OnError::skip);
  EXPECT_EQ(fuse.isolation, Isolation::process);
  EXPECT_EQ(fuse.process_limits.timeout, std::chrono::seconds(2));
  EXPECT_EQ(fuse.process_limits.memory, uint64_t{512} << 20);
  EXPECT_EQ(fuse.process_limits.starts, ProcessLimits().starts);
  ASSERT_EQ(fuse.rule_files.size(), 1u);
  EXPECT_EQ(fuse.rule_files[0].second, "rule text");
  auto config = [&](std::string_view name) -> const graph::AttributeValue* {
    for (const auto& attribute : fuse.config)
      if (attribute.name == name) return &attribute.value;
    return nullptr;
  };
  ASSERT_NE(config("limit"), nullptr);
  EXPECT_EQ(std::get<int64_t>(*config("limit")), 3);
  ASSERT_NE(config("tile.m"), nullptr);
  EXPECT_EQ(std::get<double>(*config("tile.m")), 4.5);
  EXPECT_EQ(std::get<std::vector<std::string>>(*config("names")).size(), 2u);
  EXPECT_EQ(std::get<std::vector<int64_t>>(*config("sizes")).size(), 2u);
  EXPECT_TRUE(std::get<bool>(*config("on")));
  // Declared as numbers, written as integers.
  EXPECT_EQ(std::get<double>(*config("ratio")), 2.0);
  EXPECT_EQ(std::get<std::vector<double>>(*config("ratios")).size(), 2u);
  EXPECT_EQ(pipeline->plugins[1].library, (folder_ / "plugins/libbase.so").string());
  ASSERT_EQ(pipeline->passes.size(), 1u);
  EXPECT_EQ(pipeline->passes[0].enabled, false);
  EXPECT_EQ(pipeline->without.text(), "fuse,split");
  EXPECT_EQ(pipeline->threads, 3);
}

TEST_F(Manifest, ExtendsAnother) {
  write("base.toml",
        "schema = 0\nextends = \"none\"\nsearch = [\"plugins\"]\nenable = [\"acme.fuse\", \"acme.base\"]\n");
  auto pipeline = read_pipeline_text("schema = 0\nextends = \"base.toml\"\ndisable = [\"acme.fuse\"]\n",
                                     (folder_ / "p.toml").string(), {});
  ASSERT_TRUE(pipeline) << pipeline.error().message();
  ASSERT_EQ(pipeline->plugins.size(), 1u);
  EXPECT_EQ(pipeline->plugins[0].id, "acme.base");
  write("circle.toml", "schema = 0\nextends = \"circle.toml\"\n");
  EXPECT_EQ(read_pipeline({(folder_ / "circle.toml").string(), {}}).error().code, "FE-M15");
}

TEST_F(Manifest, LoadsWhatIsRequiredFirst) {
  write("plugins/acme.top.plugin.toml",
        "schema = 0\nid = \"acme.top\"\nversion = \"1.0.0\"\nrules = [\"fuse.fe\"]\n"
        "requires = [\"acme.base >= 1.9\"]\n");
  auto pipeline = read("enable = [\"acme.top\", \"acme.base\"]");
  ASSERT_TRUE(pipeline) << pipeline.error().message();
  EXPECT_EQ(pipeline->plugins[0].id, "acme.base");
  EXPECT_EQ(fault("enable = [\"acme.top\"]"), "FE-M12 plugins/acme.top.plugin.toml:5:13");
}

TEST_F(Manifest, EnablesWhatTheCommandLineNames) {
  for (const char* name : {"plugins", "plugins/acme.base.plugin.toml", "plugins/libbase.so"}) {
    auto pipeline = read("", {"", {(folder_ / name).string()}});
    ASSERT_TRUE(pipeline) << pipeline.error().message();
    EXPECT_EQ(pipeline->plugins.size(), name == std::string("plugins") ? 2u : 1u);
    EXPECT_EQ(pipeline->plugins[0].id, "acme.base");
  }
  write("bare.so", "");
  auto pipeline = read("", {"", {(folder_ / "bare.so").string()}});
  ASSERT_TRUE(pipeline) << pipeline.error().message();
  EXPECT_EQ(pipeline->plugins[0].id, "");
  EXPECT_EQ(read("", {"", {(folder_ / "none.so").string()}}).error().code, "FE-M06");
}

TEST_F(Manifest, NamesEveryFaultWithItsPlace) {
  EXPECT_EQ(fault("enable = [\"acme.fuse\""), "FE-M01 4:22");
  EXPECT_EQ(fault("enabel = []"), "FE-M02 4:1");
  EXPECT_EQ(fault("[pass.x]\naffter = []"), "FE-M02 5:1");
  EXPECT_EQ(fault("enable = [3]"), "FE-M03 4:11");
  EXPECT_EQ(fault("enable = [\"../x\"]"), "FE-M03 4:11");
  EXPECT_EQ(fault("pipeline = 3"), "FE-M03 4:12");
  EXPECT_EQ(fault("[pipeline]\nthreads = -1"), "FE-M17 5:11");
  EXPECT_EQ(fault("enable = [\"acme.fuze\"]"), "FE-M05 4:11");
  EXPECT_EQ(fault("disable = [\"acme.fuse\"]"), "FE-M05 4:12");
  EXPECT_EQ(fault("enable = [\"acme.fuse\"]\n[plugin.\"acme.fuze\"]"), "FE-M05 5:1");
  EXPECT_EQ(fault("enable = [\"acme.fuse\"]\n[plugin.\"acme.fuse\"]\nlibrary = \"gone.so\""), "FE-M06 6:11");
  EXPECT_EQ(fault("enable = [\"acme.fuse\"]\n[plugin.\"acme.fuse\"]\nlibrary = \"../gone.so\""),
            "FE-M07 6:11");
  EXPECT_EQ(fault("enable = [\"acme.fuse\"]\n[plugin.\"acme.fuse\"]\non_error = \"ignore\""), "FE-M03 6:12");
  EXPECT_EQ(fault("enable = [\"acme.fuse\"]\n[plugin.\"acme.fuse\"]\nisolation = \"thread\""), "FE-M03 6:13");
  EXPECT_EQ(fault("enable = [\"acme.fuse\"]\n[plugin.\"acme.fuse\".config]\nwhen = 2020-01-01"),
            "FE-M03 6:8");
  EXPECT_EQ(fault("enable = [\"acme.fuse\", \"acme.fuse\"]"), "FE-M08 4:24");
  for (const char* key : {"enable", "disable", "search"}) {
    // The text that read() puts before it names 'search' itself.
    auto text = "schema = 0\nextends = \"none\"\n" + std::string(key) + " = \"plugins\"\n";
    auto pipeline = read_pipeline_text(text, "p.toml", {});
    ASSERT_FALSE(pipeline) << key;
    EXPECT_EQ(pipeline.error().code, "FE-M03") << key;
    EXPECT_TRUE(pipeline.error().where.starts_with("p.toml:3:")) << pipeline.error().where;
  }
  EXPECT_EQ(fault("[pass.x]\nafter = \"y\""), "FE-M03 5:9");
  EXPECT_EQ(read_pipeline_text("enable = []", "p.toml", {}).error().code, "FE-M03");
  EXPECT_EQ(read_pipeline_text("schema = 9", "p.toml", {}).error().code, "FE-M04");
  EXPECT_EQ(read_pipeline({(folder_ / "none.toml").string(), {}}).error().code, "FE-M14");
  EXPECT_EQ(read_pipeline({folder_.string(), {}}).error().code, "FE-M14");
  auto unknown = read("enabel = []");
  EXPECT_NE(unknown.error().text.find("did you mean 'enable'?"), std::string::npos) << unknown.error().text;
}

TEST_F(Manifest, TakesTheSettingsThatTheDescriptorDeclares) {
  auto with = [&](const std::string& plugin, const std::string& config) {
    return fault("enable = [\"" + plugin + "\"]\n[plugin.\"" + plugin + "\"]\n" + config);
  };
  EXPECT_EQ(with("acme.fuse", "config = { limit = 3 }"), "no error");
  EXPECT_EQ(with("acme.fuse", "config = { zzz = 1 }"), "FE-M02 6:12");
  EXPECT_EQ(with("acme.fuse", "config = { limit = 3, tile = { n = 1 } }"), "FE-M02 6:32");
  EXPECT_EQ(with("acme.fuse", "config = { limit = \"x\" }"), "FE-M03 6:20");
  EXPECT_EQ(with("acme.fuse", "config = { limit = 1.5 }"), "FE-M03 6:20");
  EXPECT_EQ(with("acme.fuse", "on_error = \"skip\"\nconfig = { zzz = 1 }"), "FE-M02 7:12");
  EXPECT_EQ(with("acme.base", "config = { zzz = 1 }"), "FE-M02 6:12");
  auto near = read("enable = [\"acme.fuse\"]\n[plugin.\"acme.fuse\".config]\nlimt = 1");
  ASSERT_FALSE(near);
  EXPECT_NE(near.error().text.find("did you mean 'limit'?"), std::string::npos) << near.error().text;
  // A library without a descriptor declares nothing, and takes anything.
  write("bare.so", "");
  EXPECT_EQ(with("acme.bare", "library = \"" + (folder_ / "bare.so").string() + "\"\nconfig = { zzz = 1 }"),
            "no error");
}

TEST_F(Manifest, SkipsAPluginWhoseFilesAreMissing) {
  auto skipped = [&](const std::string& id, const std::string& more) {
    auto pipeline = read("enable = [\"" + id + "\", \"acme.fuse\"]\n[plugin.\"" + id +
                         "\"]\non_error = \"skip\"\n" + more);
    if (!pipeline) return pipeline.error().message();
    EXPECT_EQ(pipeline->plugins.size(), 2u);
    if (pipeline->plugins[0].id != id || !pipeline->plugins[0].fault) return std::string("not skipped");
    EXPECT_FALSE(pipeline->plugins[1].fault);
    const fe_host host{};
    Registry registry(host);
    auto loaded = registry.load(pipeline->plugins[0]);
    if (loaded) return std::string("loaded all the same");
    EXPECT_EQ(loaded.error().code, pipeline->plugins[0].fault->code);
    return pipeline->plugins[0].fault->code;
  };
  EXPECT_EQ(skipped("acme.gone", ""), "FE-M05");
  EXPECT_EQ(skipped("acme.base", "library = \"gone.so\""), "FE-M06");
  fs::remove(folder_ / "plugins/libbase.so");
  EXPECT_EQ(skipped("acme.base", ""), "FE-M06");
  // What requires it goes with it, or ends the compilation.
  write("plugins/acme.top.plugin.toml",
        "schema = 0\nid = \"acme.top\"\nversion = \"1.0.0\"\nrules = [\"fuse.fe\"]\nrequires = "
        "[\"acme.base\"]\n");
  const std::string both =
      "enable = [\"acme.top\", \"acme.base\"]\n[plugin.\"acme.base\"]\non_error = \"skip\"\n";
  EXPECT_EQ(fault(both), "FE-M12 plugins/acme.top.plugin.toml:5:13");
  auto pipeline = read(both + "[plugin.\"acme.top\"]\non_error = \"skip\"\n");
  ASSERT_TRUE(pipeline) << pipeline.error().message();
  for (const auto& request : pipeline->plugins) EXPECT_TRUE(request.fault) << request.id;
}

TEST_F(Manifest, RefusesBadDescriptors) {
  auto code = [](const std::string& text) {
    auto descriptor = Descriptor::parse("schema = 0\nid = \"a.b\"\n" + text, "/x/a.b.plugin.toml");
    return descriptor ? std::string("fine") : descriptor.error().code;
  };
  EXPECT_EQ(code("version = \"1.0.0\"\nlibrary = \"l.so\"\nabi = \"0.1\""), "fine");
  EXPECT_EQ(code("version = \"1.0.0\"\nlibrary = \"l.so\"\nabi = \"0.99\""), "FE-M16");
  EXPECT_EQ(code("version = \"1.0.0\"\nlibrary = \"l.so\"\nabi = \"0.1\"\nplatform = \"plan9-mips\""),
            "FE-M03");
  EXPECT_EQ(code("version = \"1.0.0\"\nrules = [\"x.fe\"]\nplatform = []"), "FE-M03");
  EXPECT_EQ(code("version = \"1.0.0\"\nrules = [\"x.fe\"]\nabi = \"0.1\""), "FE-M03");
  EXPECT_EQ(code("version = \"1.0.0\"\nlibrary = \"/l.so\"\nabi = \"0.1\""), "FE-M07");
  EXPECT_EQ(code("version = \"1.0.0\"\nrules = [\"a/../../x.fe\"]"), "FE-M07");
  EXPECT_EQ(code("version = \"1.0.0\"\nrules = [\"x.fe\", \"./x.fe\"]"), "FE-M08");
  EXPECT_EQ(code("version = \"1.0.0\"\nrules = [\"x.fe\", \"b/x.fe\"]"), "FE-M08");
  EXPECT_EQ(code("version = \"one\"\nrules = [\"x.fe\"]"), "FE-M13");
  EXPECT_EQ(code("version = \"1.0.0\""), "FE-M03");
  EXPECT_EQ(code("version = \"1.0.0\"\nrules = \"x.fe\""), "FE-M03");
  EXPECT_EQ(code("version = \"1.0.0\"\nrules = [\"x.fe\"]\n[config]\nlimit = \"int\""), "FE-M03");
  EXPECT_EQ(code("version = \"1.0.0\"\nrules = [\"x.fe\"]\n[config]\nlimit = 3"), "FE-M03");
  EXPECT_EQ(code("rules = [\"x.fe\"]"), "FE-M03");
}

TEST(Suggest, FindsTheNearest) {
  const std::string_view names[] = {"after", "before", "enabled"};
  EXPECT_EQ(suggest("affter", names), "after");
  EXPECT_EQ(suggest("befroe", names), "before");
  EXPECT_EQ(suggest("colour", names), "");
  const std::string_view ids[] = {"ferrite.std"};
  EXPECT_EQ(suggest("ferrite.sdt", ids), "ferrite.std");
  EXPECT_EQ(suggest("ferrite.foo", ids), "");
  EXPECT_EQ(suggest("ferr", ids), "ferrite.std");
  EXPECT_EQ(suggest("fer", ids), "");
  const std::string_view two[] = {"linux-x86_64", "linux-aarch64"};
  EXPECT_EQ(suggest("linux-x86", two), "linux-x86_64");
  EXPECT_EQ(suggest("linux", two), "");
  // Of equally near ones the one that begins alike, whichever comes first.
  const std::string_view ops[] = {"full", "mul", "null"}, turned[] = {"null", "mul", "full"};
  EXPECT_EQ(suggest("mull", ops), "mul");
  EXPECT_EQ(suggest("mull", turned), "mul");
}

}  // namespace
}  // namespace ferrite::core::config
