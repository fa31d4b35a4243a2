// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Mistakes of those who write manifests and descriptors: each has a code, a place, and a text that says what
// to do.
#include "core/plugin/registry.h"
#include "core/support/toml/toml_reader.h"
#include "driver/config/descriptor.h"
#include "driver/config/lock.h"
#include "manifest_support.h"
#include "runtime/target/capability.h"

namespace ferrite::core::config {
namespace {

struct Mistake {
  std::string text;   ///< after three lines of a manifest, or the descriptor from its fifth line on
  std::string where;  ///< code and place
  std::string says;   ///< part of the text: the cure
};

class Mistakes : public Manifest {
 protected:
  void expect(const Mistake& mistake, const std::string& manifest) {
    EXPECT_EQ(fault(manifest), mistake.where) << mistake.text;
    EXPECT_NE(text_.find(mistake.says), std::string::npos) << mistake.text << ": " << text_;
  }
};

TEST_F(Mistakes, InAManifest) {
  const std::string fuse = "enable = [\"acme.fuse\"]\n[plugin.\"acme.fuse\"]\n";
  for (const auto& mistake : std::vector<Mistake>{
           {"enable = [\"a\n", "FE-M01 4:13", "string"},
           {"enable =\n", "FE-M01 4:9", "expected value"},
           {"search = []\n", "FE-M01 4:10", "redefine"},
           {"[pipeline]\n[pipeline]", "FE-M01 5:1", "redefine"},
           {"Enable = []", "FE-M02 4:1", "did you mean 'enable'?"},
           {"nothing_like_it = 1", "FE-M02 4:1", "known are schema, extends, enable"},
           {"[pipeline]\nthread = 1", "FE-M02 5:1", "did you mean 'threads'?"},
           {"[pass.\"a.b\"]\nafer = []", "FE-M02 5:1", "did you mean 'after'?"},
           {"[rule.\"a.b\"]\nexpct = \">=1\"", "FE-M02 5:1", "did you mean 'expect'?"},
           {"[plugin.\"a.b\"]\non_eror = \"skip\"", "FE-M02 5:1", "did you mean 'on_error'?"},
           {"[plugin.\"a.b\".process]\nmemory_mb = 100", "FE-M02 5:1", "did you mean 'memory_mib'?"},
           {"[plugin.acme.fuse]\non_error = \"skip\"", "FE-M02 4:14", "in quotes: [plugin.\"acme.fuse\"]"},
           {"[pass.passes.cse]\nenabled = false", "FE-M02 4:14", "in quotes: [pass.\"passes.cse\"]"},
           {"[rule.acme.twice]\nexpect = \">=1\"", "FE-M02 4:12", "in quotes: [rule.\"acme.twice\"]"},
           {"[profile.a]\nenabel = []", "FE-M02 5:1", "did you mean 'enable'?"},
           {"[profile.a]\nextends = \"none\"", "FE-M02 5:1", "known are enable, disable"},
           {"enable = \"acme.fuse\"", "FE-M03 4:10", "must be a list of strings"},
           {"enable = [\"a b\"]", "FE-M03 4:11", "letters, digits, '_' and '-'"},
           {"[[plugin]]\nid = \"x\"", "FE-M03 4:1", "must be a table"},
           {fuse + "on_error = \"skp\"", "FE-M03 6:12", "did you mean 'skip'?"},
           {fuse + "isolation = \"proces\"", "FE-M03 6:13", "did you mean 'process'?"},
           {fuse + "isolation = true", "FE-M03 6:13", "must be a string"},
           {fuse + "config = 3", "FE-M03 6:10", "must be a table"},
           {"[pass.\"a.b\"]\nmode = \"fixpont\"", "FE-M03 5:8", "did you mean 'fixpoint'?"},
           {"[pass.\"a.b\"]\nmax_rewrites = 0", "FE-M17 5:16", "is 1 to 1000000000"},
           {"[pass.\"a.b\"]\ntimeout_ms = -5", "FE-M17 5:14", "is 1 to 86400000"},
           {"[pass.\"a.b\"]\ntimeout_ms = \"5s\"", "FE-M03 5:14", "must be an integer"},
           {"[pass.\"a.b\"]\nexpect = \"1\"", "FE-M03 5:10", "as in \">=1\""},
           {"[pass.\"a.b\"]\nexpect = 1", "FE-M03 5:10", "must be a string"},
           {"[pipeline]\nthreads = 5000", "FE-M17 5:11", "is 0 to 4096"},
           {"[pipeline]\nfuse = \"no\"", "FE-M03 5:8", "must be true or false"},
           {"[pipeline]\nvalidate_rules = \"strikt\"", "FE-M03 5:18", "did you mean 'strict'?"},
           {"[pipeline]\nwithout = [\"layout\", \"spilt\"]", "FE-M03 5:22", "did you mean 'split'?"},
           {"[pipeline]\nwithout = \"split\"", "FE-M03 5:11", "must be a list of strings"},
           {fuse + "process = { memory_mib = 1 }", "FE-M17 6:26", "is 64 to 16777216"},
           {"disable = [\"acme.fuse\"]", "FE-M05 4:12", "drop it"},
           {"enable = [\"acme.fuze\"]", "FE-M05 4:11", "did you mean 'acme.fuse'?"},
           {"enable = [\"zebra\"]", "FE-M05 4:11", "or load it with --plugin"},
           {"enable = [\"acme.fuse\", \"acme.fuse\"]", "FE-M08 4:24", "drop one of the two"},
           {"enable = [\"acme.fuse\"]\n[plugin.\"acme.fuze\"]", "FE-M05 5:1", "did you mean 'acme.fuse'?"},
           {fuse + "library = \"\"", "FE-M03 6:11", "name a file below"},
           {fuse + "config = { names = \"a\\u0000\" }", "FE-M03 6:20", "contains a NUL character"},
           {"[pipeline]\ncache = \"\"", "FE-M03 5:9", "or the path of a folder"},
           {fuse + "library = \"gone.so\"", "FE-M06 6:11", "build it, or correct the path"},
           {fuse + "library = \"../gone.so\"", "FE-M07 6:11", "only files below it"},
       })
    expect(mistake, mistake.text);
}

TEST_F(Mistakes, InWhatAManifestExtends) {
  for (const auto& mistake : std::vector<Mistake>{
           {"extends = \"defualt\"", "FE-M14 2:11", "did you mean 'default'?"},
           {"extends = \"base.toml\"", "FE-M14 2:11", "or the path of a manifest"},
           {"extends = \"p.toml\"", "FE-M15 2:11", "do they form a circle? Drop one"},
           {"extends = \"none\"\nsearch = [\"plugin\"]", "FE-M06 3:11", "correct the path"},
           {"extends = \"none\"\nsearch = [\"\"]", "FE-M03 3:11", "write \".\" for the folder of this file"},
           {"extends = \"more.toml\"\ndisable = [\"acme.fuse\", \"acme.fuse\"]", "FE-M08 3:25",
            "drop one of the two"},
           {"extends = \"more.toml\"\ndisable = [\"acme.fuze\"]", "FE-M05 3:12", "did you mean 'acme.fuse'?"},
       }) {
    const auto text = "schema = 0\n" + mistake.text + "\n";
    write("p.toml", text);
    write("more.toml", "schema = 0\nextends = \"none\"\nsearch = [\"plugins\"]\nenable = [\"acme.fuse\"]\n");
    auto pipeline = read_pipeline_text(text, (folder_ / "p.toml").string(), {});
    ASSERT_FALSE(pipeline) << mistake.text;
    EXPECT_EQ(short_text(pipeline.error()), mistake.where) << mistake.text;
    EXPECT_NE(pipeline.error().text.find(mistake.says), std::string::npos) << pipeline.error().message();
  }
}

TEST_F(Mistakes, InADescriptor) {
  for (const auto& mistake : std::vector<Mistake>{
           {"requirs = []", "FE-M02 5:1", "did you mean 'requires'?"},
           {"rules = [\"fuze.fe\"]", "FE-M06 5:10", "add it, or correct 'rules'"},
           {"rules = [\"../fuse.fe\"]", "FE-M07 5:10", "only files below it"},
           {"rules = [\"fuse.fe\", \"./fuse.fe\"]", "FE-M08 5:21", "name each file once"},
           {"rules = []", "FE-M03 1:1", "write one of them"},
           {"library = \"gone.so\"\nabi = \"0.1\"", "FE-M06 5:11", "build or reinstall it"},
           {"library = \"libbase.so\"", "FE-M03 5:11", "write abi = "},
           {"library = \"libbase.so\"\nabi = \"=> 0.1\"", "FE-M13 6:7", "or a range, as in"},
           {"library = \"libbase.so\"\nabi = \">= 7.0\"", "FE-M16 6:7", "get a build for this version"},
           {"rules = [\"fuse.fe\"]\nplatform = \"linux-x86_46\"", "FE-M03 6:12",
            "did you mean 'linux-x86_64'?"},
           {"rules = [\"fuse.fe\"]\nplatform = \"linux-x86\"", "FE-M03 6:12", "did you mean 'linux-x86_64'?"},
           {"rules = [\"fuse.fe\"]\nrequires = [\"blas\"]", "FE-M12 6:13",
            "add it, or a plugin that provides it"},
           {"rules = [\"fuse.fe\"]\nrequires = [\"acme.fuse\"]", "FE-M12 6:13",
            "requires itself; drop the requirement"},
           {"rules = [\"fuse.fe\"]\nrequires = [\"a.b > 0.1\"]", "FE-M03 6:13", "\"plugin.id >= 1.2.0\""},
           {"rules = [\"fuse.fe\"]\ntargets = [\"npu\"]", "FE-M03 6:12", "a name that may end in '*'"},
           {"rules = [\"fuse.fe\"]\ntargets = [\"npu:v*\", \"npu:*v\"]", "FE-M03 6:22", "as in \"npu:v*\""},
           {"rules = [\"fuse.fe\"]\npasses = [\"a.b\", \"a.b\"]", "FE-M08 6:18", "drop one of the two"},
           {"rules = [\"fuse.fe\"]\n[passes.\"a.b\"]\nphase = \"pre_grd\"", "FE-M03 7:9",
            "did you mean 'pre_grad'?"},
           {"rules = [\"fuse.fe\"]\n[passes.acme.fuse]\nphase = \"pre_grad\"", "FE-M02 6:14",
            "in quotes: [passes.\"acme.fuse\"]"},
       }) {
    write("plugins/acme.fuse.plugin.toml",
          "schema = 0\nid = \"acme.fuse\"\nversion = \"1.2.0\"\n\n" + mistake.text + "\n");
    Mistake in_file = mistake;
    in_file.where.insert(in_file.where.find(' ') + 1, "plugins/acme.fuse.plugin.toml:");
    expect(in_file, "enable = [\"acme.fuse\"]");
  }
}

TEST_F(Mistakes, WhatIsDisabledAndRequired) {
  write("plugins/acme.fuse.plugin.toml",
        "schema = 0\nid = \"acme.fuse\"\nversion = \"1.2.0\"\nrules = [\"fuse.fe\"]\nrequires = "
        "[\"acme.base\"]\n");
  write("more.toml",
        "schema = 0\nextends = \"none\"\nsearch = [\"plugins\"]\nenable = [\"acme.base\", \"acme.fuse\"]\n");
  auto pipeline = read_pipeline_text("schema = 0\nextends = \"more.toml\"\ndisable = [\"acme.base\"]\n",
                                     (folder_ / "p.toml").string(), {});
  ASSERT_FALSE(pipeline);
  EXPECT_EQ(short_text(pipeline.error()), "FE-M12 3:12");
  EXPECT_NE(pipeline.error().text.find("disable 'acme.fuse' too"), std::string::npos)
      << pipeline.error().text;
}

TEST_F(Mistakes, ALinkThatLeadsOutOfTheFolder) {
  write("elsewhere.fe", "rule text");
  fs::create_symlink("../elsewhere.fe", folder_ / "plugins/link.fe");
  fs::create_symlink("fuse.fe", folder_ / "plugins/beside.fe");
  const std::string head = "schema = 0\nid = \"acme.fuse\"\nversion = \"1.2.0\"\nrules = ";
  write("plugins/acme.fuse.plugin.toml", head + "[\"link.fe\"]\n");
  EXPECT_EQ(fault("enable = [\"acme.fuse\"]"), "FE-M07 plugins/acme.fuse.plugin.toml:4:10");
  EXPECT_NE(text_.find("copy it into the folder"), std::string::npos) << text_;
  write("plugins/acme.fuse.plugin.toml", head + "[\"beside.fe\"]\n");
  EXPECT_EQ(fault("enable = [\"acme.fuse\"]"), "no error");
  // The folder itself may be reached through a link, and a lock that is a link to nowhere is one that cannot
  // be read.
  fs::create_directory_symlink("plugins", folder_ / "linked");
  EXPECT_TRUE(Descriptor::read((folder_ / "linked/acme.fuse.plugin.toml").string()));
  fs::create_symlink("nowhere.lock", folder_ / "p.lock");
  EXPECT_EQ(fault("enable = [\"acme.fuse\"]"), "FE-M14 p.lock");
}

TEST_F(Mistakes, WhatIsOnlyNotEnabledIsNotMisspelt) {
  write("plugins/acme.fuse.plugin.toml",
        "schema = 0\nid = \"acme.fuse\"\nversion = \"1.2.0\"\nrules = [\"fuse.fe\"]\nrequires = "
        "[\"acme.base\"]\n");
  write("plugins/acme.bass.plugin.toml",
        "schema = 0\nid = \"acme.bass\"\nversion = \"1.2.0\"\nrules = [\"fuse.fe\"]\n");
  EXPECT_EQ(fault("enable = [\"acme.fuse\", \"acme.bass\"]"), "FE-M12 plugins/acme.fuse.plugin.toml:5:13");
  EXPECT_EQ(text_.find("did you mean"), std::string::npos) << text_;
}

TEST_F(Mistakes, OfAKeyThatIsTooLong) {
  std::string many = "a";
  for (int k = 0; k < 100'000; ++k) many += ".a";
  const std::string most = many.substr(0, 1 + 2 * 63), longer = most + ".a";
  const auto says = [](const auto& read) {
    return read ? "no error" : read.error().code + " " + read.error().where;
  };
  // Each reader of TOML.
  EXPECT_EQ(says(read_pipeline_text("schema = 0\n[" + many + "]\n", "m.toml", {})), "FE-M01 m.toml:2:129");
  EXPECT_EQ(says(Descriptor::parse(many + " = 1", "d.toml")), "FE-M01 d.toml:1:128");
  EXPECT_EQ(says(Lock::parse("[[" + many + "]]", "l.lock")), "FE-M01 l.lock:1:130");
  EXPECT_EQ(says(runtime::CapabilityTable::parse("\"\u00e4\"." + many, "c.toml")), "FE-M01 c.toml:1:130");
  // In every place where keys are, and none where points are no keys' parts.
  const std::string half = most.substr(0, 2 * 40);
  for (const std::string& text :
       {longer + " = 1", "x = { " + longer + " = 1 }", "x = [\n 1.5, { " + longer + " = 1 } ]",
        half + "x = { " + half + "x = 1 }", "x = [[[{ " + half + "x = [{ " + half + "x = 1 }] }]]]",
        "x = [\"\"\"a\"\"\"\", { " + longer + " = 1 }]", "x = [\'\'\'a\'\'\'\'\', { " + longer + " = 1 }]",
        "x = [\"\\\"\", { " + longer + " = 1 }]", "x = ['\\', { " + longer + " = 1 }]",
        "x = 1 # it's \"\n" + longer + " = 1"})
    EXPECT_TRUE(says(parse_toml(text, "t.toml")).starts_with("FE-M01 t.toml:")) << text;
  for (const std::string& text :
       {most + " = 1", "[" + most + "]\n" + most + " = 1", "x = \"" + longer + "\"", "x = '" + longer + "'",
        "x = \"\"\"\n" + longer + "\"\"\"\"", "# " + longer, "x = [1.5, 2.5]\n" + most + " = 1",
        "x = [{ " + half + "x = 1 }, { " + half + "x = 1 }]",
        "x = [\n{ " + half + "x = 1 },\n]\n" + half + "y = 1"})
    EXPECT_EQ(says(parse_toml(text, "t.toml")), "no error") << text;
}

TEST(NamedAt, KeepsThePlaceThatWas) {
  const auto moved = named_at("m.toml:3:10", at("device cpy", error(FE_EINVALID, "FE-D01", "there is none")));
  EXPECT_EQ(moved.message(), "FE-D01 m.toml:3:10: device cpy: there is none");
  EXPECT_EQ(named_at("", moved).message(), moved.message());
}

}  // namespace
}  // namespace ferrite::core::config
