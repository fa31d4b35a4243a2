// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The settings that descriptors declare; profiles and safe mode; what plugins provide; descriptions of keys.
#include <nlohmann/json.hpp>

#include "driver/config/descriptor.h"
#include "driver/config/schema.h"
#include "manifest_support.h"

namespace ferrite::core::config {
namespace {

class Settings : public Manifest {
 protected:
  /// The fault of a descriptor with this [config].
  std::string declaring(const std::string& config) {
    auto descriptor = Descriptor::parse(
        "schema = 0\nid = \"a.b\"\nversion = \"1.0\"\nrules = [\"x.fe\"]\n[config]\n" + config, "d.toml");
    if (descriptor) return "fine";
    text_ = descriptor.error().text;
    return descriptor.error().code + " " + descriptor.error().where;
  }
  /// The settings that 'acme.tile' is handed with this `config`, or the fault.
  std::string handed(const std::string& config) {
    write("plugins/acme.tile.plugin.toml",
          "schema = 0\nid = \"acme.tile\"\nversion = \"1.0.0\"\nrules = [\"fuse.fe\"]\n[config]\n"
          "m = { type = \"integer\", min = 1, max = 64, default = 8, doc = \"rows\" }\n"
          "ratio = { type = \"number\", min = 0.5 }\n"
          "kind = { type = \"string\", choices = [\"near\", \"far\"], default = \"near\" }\n"
          "sizes = { type = \"integers\", max = 4, default = [1, 2] }\n"
          "nested = { deep = { type = \"boolean\", default = true }, type = { type = \"string\" } }\n");
    const std::string text = "enable = [\"acme.tile\"]\n[plugin.\"acme.tile\"]\nconfig = " + config;
    auto pipeline = read(text);
    if (!pipeline) return fault(text);
    std::string result;
    for (const auto& [name, value] : pipeline->plugins[0].config)
      result +=
          name +
          (std::holds_alternative<int64_t>(value) ? "=" + std::to_string(std::get<int64_t>(value)) : "") +
          " ";
    return result;
  }
};

TEST_F(Settings, HaveDefaultsThatThePluginIsHanded) {
  EXPECT_EQ(handed("{}"), "kind m=8 nested.deep sizes ");
  EXPECT_EQ(handed("{ m = 64 }"), "m=64 kind nested.deep sizes ");
  EXPECT_EQ(handed("{ nested = { type = \"x\", deep = false } }"), "nested.deep nested.type kind m=8 sizes ");
}

TEST_F(Settings, OfThePipelineAreDefaultsOfPlugins) {
  const auto descriptor = [&](const std::string& type) {
    write("plugins/acme.tile.plugin.toml",
          "schema = 0\nid = \"acme.tile\"\nversion = \"1.0.0\"\nrules = [\"fuse.fe\"]\n[config]\ntf32 = " +
              type);
  };
  const auto value = [&](const std::string& rest) -> std::optional<graph::AttributeValue> {
    auto pipeline = read("enable = [\"acme.tile\"]\n" + rest);
    if (!pipeline || pipeline->plugins[0].config.empty()) return {};
    return pipeline->plugins[0].config[0].value;
  };
  descriptor("{ type = \"boolean\", default = false }");
  EXPECT_EQ(value(""), graph::AttributeValue(false));
  EXPECT_EQ(value("[pipeline]\ntf32 = true"), graph::AttributeValue(true));
  EXPECT_EQ(value("[pipeline]\ntf32 = false"), graph::AttributeValue(false));
  EXPECT_EQ(value("[pipeline]\ntf32 = true\n[plugin.\"acme.tile\"]\nconfig = { tf32 = false }"),
            graph::AttributeValue(false));
  descriptor("{ type = \"boolean\" }");
  EXPECT_EQ(value(""), std::nullopt);
  EXPECT_EQ(value("[pipeline]\ntf32 = true"), graph::AttributeValue(true));
  descriptor("{ type = \"integer\", default = 3 }");  // a setting of the same name that means something else
  EXPECT_EQ(value("[pipeline]\ntf32 = true"), graph::AttributeValue(int64_t{3}));
  EXPECT_EQ(fault("[pipeline]\ntf32 = 1"), "FE-M03 5:8");
}

TEST_F(Settings, AreRefusedOutOfRange) {
  EXPECT_EQ(handed("{ m = 0 }"), "FE-M17 6:16");
  EXPECT_EQ(handed("{ m = 65 }"), "FE-M17 6:16");
  EXPECT_NE(text_.find("65 is greater than 64"), std::string::npos) << text_;
  EXPECT_EQ(handed("{ ratio = 0 }"), "FE-M17 6:20");
  EXPECT_EQ(handed("{ ratio = nan }"), "FE-M17 6:20");
  EXPECT_EQ(handed("{ sizes = [1, 5] }"), "FE-M17 6:20");
  EXPECT_EQ(handed("{ kind = \"fra\" }"), "FE-M17 6:19");
  EXPECT_NE(text_.find("did you mean"), std::string::npos) << text_;
  EXPECT_EQ(handed("{ m = 1.5 }"), "FE-M03 6:16");
  EXPECT_EQ(handed("{ n = 1 }"), "FE-M02 6:12");
}

TEST_F(Settings, AreGivenAndDeclaredOnce) {
  EXPECT_EQ(handed("{ nested = { deep = true }, \"nested.deep\" = false }"), "FE-M08 6:38");
  EXPECT_NE(text_.find(":6:23; drop one"), std::string::npos) << text_;
  EXPECT_EQ(handed("{ \"nested.deep\" = false }"), "nested.deep kind m=8 sizes ");
  EXPECT_EQ(declaring("a = { b = \"integer\" }\n\"a.b\" = \"number\""), "FE-M08 d.toml:7:1");
  EXPECT_EQ(declaring("a = { b = \"integer\" }\n\"a.b\" = { type = \"number\" }"), "FE-M08 d.toml:7:1");
  EXPECT_EQ(declaring("\"\" = \"integer\""), "FE-M03 d.toml:6:1");
  EXPECT_EQ(declaring("a = { \"\" = \"integer\" }"), "FE-M03 d.toml:6:7");
  EXPECT_EQ(declaring("m = { type = \"number\", max = nan }"), "FE-M18 d.toml:6:30");
  EXPECT_EQ(declaring("m = { type = \"numbers\", min = nan }"), "FE-M18 d.toml:6:31");
  // A profile says something else, not the same twice.
  write("p.toml",
        "schema = 0\nextends = \"none\"\nsearch = [\"plugins\"]\nenable = [\"acme.fuse\"]\n"
        "[plugin.\"acme.fuse\"]\nconfig = { limit = 1 }\n[profile.x.plugin.\"acme.fuse\"]\nconfig = { limit "
        "= 2 }\n");
  PipelineRequest request;
  request.manifest = (folder_ / "p.toml").string();
  request.profile = "x";
  EXPECT_TRUE(read_pipeline(request));
}

TEST_F(Settings, AreDeclaredWithoutContradictions) {
  EXPECT_EQ(declaring("m = { type = \"integer\", min = 1, max = 64, choices = [8, 16], default = 8 }"),
            "fine");
  EXPECT_EQ(declaring("m = { type = \"int\" }"), "FE-M03 d.toml:6:14");
  EXPECT_EQ(declaring("m = \"int\""), "FE-M03 d.toml:6:5");
  EXPECT_EQ(declaring("m = { type = \"integer\", mim = 1 }"), "FE-M02 d.toml:6:25");
  EXPECT_NE(text_.find("did you mean 'min'?"), std::string::npos) << text_;
  EXPECT_EQ(declaring("m = { type = \"integer\", choices = 3 }"), "FE-M03 d.toml:6:35");
  EXPECT_EQ(declaring("m = { type = \"integer\", min = 1.5 }"), "FE-M18 d.toml:6:31");
  EXPECT_EQ(declaring("m = { type = \"integer\", min = 9, max = 1 }"), "FE-M18 d.toml:6:40");
  EXPECT_EQ(declaring("m = { type = \"integer\", max = 4, default = 5 }"), "FE-M18 d.toml:6:44");
  EXPECT_EQ(declaring("m = { type = \"integer\", default = \"x\" }"), "FE-M18 d.toml:6:35");
  EXPECT_EQ(declaring("m = { type = \"integer\", choices = [] }"), "FE-M18 d.toml:6:35");
  EXPECT_EQ(declaring("m = { type = \"integer\", choices = [1, \"x\"] }"), "FE-M18 d.toml:6:39");
  EXPECT_EQ(declaring("m = { type = \"string\", min = 1 }"), "FE-M18 d.toml:6:30");
  EXPECT_EQ(declaring("m = { type = \"boolean\", choices = [true] }"), "FE-M18 d.toml:6:35");
}

TEST_F(Manifest, TakesWhatAnotherPluginProvides) {
  const std::string top = "schema = 0\nid = \"acme.top\"\nversion = \"1.0.0\"\nrules = [\"fuse.fe\"]\n";
  write("plugins/acme.top.plugin.toml", top + "requires = [\"blas >= 1.5\"]\n");
  write("plugins/acme.math.plugin.toml",
        "schema = 0\nid = \"acme.math\"\nversion = \"1.6\"\nrules = [\"fuse.fe\"]\nprovides = [\"blas\"]\n");
  auto pipeline = read("enable = [\"acme.top\", \"acme.math\"]");
  ASSERT_TRUE(pipeline) << pipeline.error().message();
  EXPECT_EQ(pipeline->plugins[0].id, "acme.math");
  EXPECT_EQ(fault("enable = [\"acme.top\"]"), "FE-M12 plugins/acme.top.plugin.toml:5:13");
  write("plugins/acme.top.plugin.toml", top + "requires = [\"blass\"]\n");
  EXPECT_EQ(fault("enable = [\"acme.top\", \"acme.math\"]"), "FE-M12 plugins/acme.top.plugin.toml:5:13");
  EXPECT_NE(text_.find("did you mean 'blas'?"), std::string::npos) << text_;
  write("plugins/acme.top.plugin.toml", top + "requires = [\"blas >= 2.0\"]\n");
  EXPECT_EQ(fault("enable = [\"acme.top\", \"acme.math\"]"), "FE-M12 plugins/acme.top.plugin.toml:5:13");
  write("plugins/acme.top.plugin.toml", top + "provides = [\"acme.math\"]\n");
  EXPECT_EQ(fault("enable = [\"acme.math\", \"acme.top\"]"), "FE-M08 plugins/acme.top.plugin.toml:5:12");
  write("plugins/acme.top.plugin.toml", top + "provides = [\"not a name\"]\n");
  EXPECT_EQ(fault("enable = [\"acme.top\"]"), "FE-M03 plugins/acme.top.plugin.toml:5:13");
}

TEST_F(Manifest, TakesARangeOfAbis) {
  auto with = [](const std::string& abi) {
    auto descriptor = Descriptor::parse(
        "schema = 0\nid = \"a.b\"\nversion = \"1.0\"\nlibrary = \"l.so\"\nabi = \"" + abi + "\"", "d.toml");
    return descriptor ? "fine" : descriptor.error().code + " " + descriptor.error().where;
  };
  for (const char* abi : {"0.1", ">= 0.1, < 0.3", ">=0.1", "<= 0.1", "== 0.1", "> 0.0, <1.0"})
    EXPECT_EQ(with(abi), "fine") << abi;
  for (const char* abi : {"0.2", ">= 0.2", "< 0.1", ">= 0.1, < 0.1", "> 0.1"})
    EXPECT_EQ(with(abi), "FE-M16 d.toml:5:7") << abi;
  for (const char* abi : {"", "0", ">= 0.1,", "~ 0.1", ">= x"})
    EXPECT_EQ(with(abi), "FE-M13 d.toml:5:7") << abi;
}

TEST_F(Manifest, PutsAProfileOverTheRest) {
  const std::string text = R"(enable = ["acme.fuse"]
[pipeline]
threads = 4
without = ["split", "fuse"]
[profile.debug]
enable = ["acme.base"]
disable = ["acme.fuse"]
[profile.debug.pipeline]
threads = 1
validate_rules = "strict"
without = ["layout", "split"]
[profile.fast.pipeline]
fuse = true
)";
  auto plain = read(text);
  ASSERT_TRUE(plain) << plain.error().message();
  EXPECT_EQ(plain->plugins[0].id, "acme.fuse");
  EXPECT_EQ(plain->threads, 4);
  EXPECT_EQ(plain->without.text(), "fuse,split");
  EXPECT_EQ(plain->profiles, (std::vector<std::string>{"debug", "fast"}));
  auto debug = read(text, {"", {}, "debug"});
  ASSERT_TRUE(debug) << debug.error().message();
  ASSERT_EQ(debug->plugins.size(), 1u);
  EXPECT_EQ(debug->plugins[0].id, "acme.base");
  EXPECT_EQ(debug->threads, 1);
  EXPECT_EQ(debug->validate_rules, RuleValidation::strict);
  EXPECT_EQ(debug->without.text(), "layout,fuse,split");
  auto fast = read(text, {"", {}, "fast"});
  ASSERT_TRUE(fast) << fast.error().message();
  EXPECT_EQ(fast->without.text(), "split");
  EXPECT_EQ(fault(text, {"", {}, "debgu"}), "FE-M19 --profile debgu");
  EXPECT_NE(text_.find("did you mean 'debug'?"), std::string::npos) << text_;
  EXPECT_EQ(fault("[profile.x]\nextends = \"none\""), "FE-M02 5:1");
}

TEST_F(Manifest, DisablesWhatTheRestConfigures) {
  const std::string text = R"(enable = ["acme.fuse"]
[plugin."acme.fuse"]
on_error = "skip"
config = { limit = 1 }
[pass."acme.drop"]
enabled = false
[profile.plain]
disable = ["acme.fuse"]
)";
  EXPECT_EQ(fault(text), "no error");
  auto plain = read(text, {"", {}, "plain"});
  ASSERT_TRUE(plain) << plain.error().message();
  EXPECT_TRUE(plain->plugins.empty());
  ASSERT_EQ(plain->passes.size(), 1u);
  EXPECT_TRUE(plain->passes[0].may_be_gone);
  // What is said of it there, or later, is a mistake.
  EXPECT_EQ(fault(text + "[profile.plain.plugin.\"acme.fuse\"]\non_error = \"skip\"\n", {"", {}, "plain"}),
            "FE-M05 12:1");
  // Enabled again it is as new.
  write("base.toml", "schema = 0\nextends = \"none\"\n" + text.substr(0, text.find("[pass")));
  write("less.toml", "schema = 0\nextends = \"base.toml\"\ndisable = [\"acme.fuse\"]\n");
  write("again.toml",
        "schema = 0\nextends = \"less.toml\"\nsearch = [\"plugins\"]\nenable = [\"acme.fuse\"]\n");
  auto again = read_pipeline({(folder_ / "again.toml").string(), {}});
  ASSERT_TRUE(again) << again.error().message();
  ASSERT_EQ(again->plugins.size(), 1u);
  EXPECT_EQ(again->plugins[0].on_error, OnError::fail);
}

TEST_F(Manifest, IsLeftOutInSafeMode) {
  write("broken.toml", "schema = 0\nenable = [\"acme.gone\"]\n");
  const std::string broken = (folder_ / "broken.toml").string();
  EXPECT_EQ(read_pipeline({broken, {}}).error().code, "FE-M05");
  auto safe =
      read_pipeline({.manifest = broken, .plugins = {"nowhere"}, .profile = "nothing", .safe_mode = true});
  ASSERT_TRUE(safe) << safe.error().message();
  for (const auto& plugin : safe->plugins) EXPECT_TRUE(plugin.id.starts_with("ferrite.")) << plugin.id;
  EXPECT_EQ(safe->search, std::vector<std::string>{installed_files().plugin_folder});
}

TEST(Schema, DescribesEveryKeyOnce) {
  for (const auto& file : file_keys()) {
    const auto schema = nlohmann::json::parse(json_schema(file));
    EXPECT_EQ(schema["properties"].size(), file.top->keys.size()) << file.name;
    const auto page = key_tables_markdown(file);
    for (const auto& key : file.top->keys) {
      EXPECT_FALSE(key.doc.empty()) << key.name;
      EXPECT_NE(page.find("| `" + std::string(key.name) + "` |"), std::string::npos) << key.name;
      EXPECT_EQ(schema["properties"][std::string(key.name)]["description"].get<std::string>(), key.doc);
    }
  }
  const auto manifest = nlohmann::json::parse(json_schema(file_keys()[0]));
  const auto& plugin = manifest["properties"]["plugin"]["additionalProperties"]["properties"];
  EXPECT_EQ(plugin["on_error"]["enum"], nlohmann::json::array({"fail", "skip"}));
  EXPECT_EQ(plugin["on_error"]["default"], "fail");
  EXPECT_EQ(manifest["properties"]["pipeline"]["properties"]["threads"]["maximum"], 4096);
  const auto& without = manifest["properties"]["pipeline"]["properties"]["without"];
  EXPECT_EQ(without["items"]["enum"], nlohmann::json(schedule::feature_names));
  EXPECT_EQ(manifest["required"], nlohmann::json::array({"schema"}));
}

}  // namespace
}  // namespace ferrite::core::config
