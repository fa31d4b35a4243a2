// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What descriptors and manifests say of passes and rules: order, limits, expectations.
#include "manifest_support.h"

namespace ferrite::core::config {
namespace {

/// The passes 'acme.a' and 'acme.b' of one phase, as a loaded plugin gives them, with a manifest's settings.
class PassSettings : public Manifest {
 protected:
  /// The code and place, or the order of the two.
  std::string apply(const std::string& text, const std::string& profile = {}) {
    auto pipeline = read(text, {"", {}, profile});
    if (!pipeline) {
      text_ = pipeline.error().text;
      return short_text(pipeline.error());
    }
    LoadedPlugin plugin;
    plugin.id = "acme.loaded";
    passes_.clear();
    for (const char* name : {"acme.a", "acme.b"}) {
      auto& pass = passes_.emplace_back();
      pass.name = name;
      pass.phase = phases()[0];
      pass.plugin = &plugin;
      pass.pass = of_library_ ? &table_ : nullptr;
    }
    passes_[1].rules = {"acme.rule"};
    passes_.push_back(passes_[0]);
    passes_.back().name = "acme.later";
    passes_.back().phase = phases()[1];
    auto applied = apply_pass_settings(*pipeline, passes_);
    if (!applied) {
      text_ = applied.error().text;
      return short_text(applied.error());
    }
    auto order = order_passes(passes_, phases()[0]);
    if (!order) return order.error().message();
    edges_.clear();
    for (const auto& edge : order_edges(passes_, phases()[0])) edges_ += edge.reason + "\n";
    std::string names;
    for (const auto* pass : *order) names += (names.empty() ? "" : " ") + pass->name;
    return names;
  }
  /// A descriptor of the loaded plugin that says this of its passes, and a manifest that enables it.
  std::string describe(const std::string& passes) {
    write("plugins/acme.loaded.plugin.toml",
          "schema = 0\nid = \"acme.loaded\"\nversion = \"1.0.0\"\nrules = [\"fuse.fe\"]\n" + passes);
    return apply("enable = [\"acme.loaded\"]\n");
  }
  fe_pass table_{};
  bool of_library_ = false;
  std::vector<PassEntry> passes_;
  std::string edges_;
};

TEST_F(PassSettings, Order) {
  EXPECT_EQ(apply(""), "acme.a acme.b");
  EXPECT_EQ(apply("[pass.\"acme.a\"]\nafter = [\"acme.b\"]"), "acme.b acme.a");
  EXPECT_EQ(edges_, "'acme.a' says after = \"acme.b\", " + (folder_ / "p.toml").string() + ":5:10\n");
  EXPECT_EQ(apply("[pass.\"acme.b\"]\nenabled = false\n[pass.\"acme.a\"]\nafter = [\"acme.b\"]"), "acme.a");
}

TEST_F(PassSettings, OrderWithinAPhase) {
  for (const char* key : {"after", "before"}) {
    EXPECT_EQ(apply(fmt::format("[pass.\"acme.a\"]\n{} = [\"acme.later\"]", key)),
              key[0] == 'a' ? "FE-M11 5:10" : "FE-M11 5:11");
    EXPECT_NE(text_.find("'acme.a' runs in pre_grad and 'acme.later' in joint_pre"), std::string::npos)
        << text_;
  }
}

TEST_F(PassSettings, RefuseCyclesAtTheirPlace) {
  EXPECT_EQ(apply("[pass.\"acme.a\"]\nafter = [\"acme.a\"]"), "FE-M10 5:10");
  EXPECT_NE(text_.find("acme.a -> acme.a"), std::string::npos) << text_;
  EXPECT_EQ(apply("[pass.\"acme.a\"]\nbefore = [\"acme.b\"]\n[pass.\"acme.b\"]\nbefore = [\"acme.a\"]"),
            "FE-M10 7:11");
  // Each edge is said at its own place, also where one pass says both.
  EXPECT_EQ(apply("[pass.\"acme.a\"]\nafter = [\"acme.b\"]\nbefore = [\"acme.b\"]"), "FE-M10 5:10");
  for (const char* edge : {"says after = \"acme.b\", ", "says before = \"acme.b\", "}) {
    const auto place = (folder_ / "p.toml").string() + (edge[5] == 'a' ? ":5:10" : ":6:11");
    EXPECT_NE(text_.find(edge + place), std::string::npos) << text_;
  }
}

TEST_F(PassSettings, AreIdleWhereAPluginIsDisabledLater) {
  const std::string profile =
      "[profile.plain]\ndisable = [\"acme.fuse\"]\n[profile.plain.pass.\"acme.nowhere\"]\nenabled = false\n";
  const std::string base =
      "enable = [\"acme.fuse\"]\n[pass.\"acme.gone\"]\nexpect = \">=1\"\n[rule.\"acme.gone_rule\"]\nexpect = "
      "\">=1\"\n[pass.\"acme.a\"]\nafter = [\"acme.gone\"]\n";
  EXPECT_EQ(apply(base), "FE-M11 10:10");
  EXPECT_EQ(apply(base + "[profile.plain]\ndisable = [\"acme.fuse\"]\n", "plain"), "acme.a acme.b");
  EXPECT_EQ(apply(base + profile, "plain"), "FE-M11 13:1");
}

TEST_F(PassSettings, AreNotOfAPluginThatTheSameProfileDisables) {
  write("plugins/acme.fuse.plugin.toml",
        "schema = 0\nid = \"acme.fuse\"\nversion = \"1.2.0\"\nrules = [\"fuse.fe\"]\npasses = [\"quick\"]\n");
  write("plugins/fuse.fe", "ferrite rules 0\nrule quick_rule at pre_grad {\n}\n");
  const std::string base = "enable = [\"acme.fuse\"]\n[profile.plain]\ndisable = [\"acme.fuse\"]\n";
  // By the descriptor's list, by the name of the rule file, by the rule file's text, and by the plugin's id.
  for (const char* table :
       {"pass.quick]\nenabled = true", "pass.\"acme.fuse/fuse.fe\"]\nmode = \"once\"",
        "rule.quick_rule]\nexpect = \">=1\"", "pass.\"acme.fuse.hidden\"]\nenabled = true"}) {
    EXPECT_EQ(apply(base + "[profile.plain." + table, "plain"), "FE-M05 7:1") << table;
    EXPECT_NE(text_.find("is of plugin 'acme.fuse', which is disabled at "), std::string::npos) << text_;
    EXPECT_NE(text_.find("p.toml:6:12; drop one of the two"), std::string::npos) << text_;
  }
  EXPECT_EQ(apply(base + "[profile.plain.plugin.\"acme.fuse\"]\non_error = \"skip\"", "plain"), "FE-M05 7:1");
  EXPECT_NE(text_.find("is for a plugin that is disabled at "), std::string::npos) << text_;
  // The same of a plugin that is there and was never enabled.
  EXPECT_EQ(apply("[pass.quick]\nenabled = true"), "FE-M05 4:1");
  EXPECT_NE(text_.find("'acme.fuse', which is not enabled; add it to 'enable'"), std::string::npos) << text_;
  // Another name is of no plugin.
  EXPECT_EQ(apply(base + "[profile.plain.pass.\"acme.fused\"]\nenabled = true", "plain"), "FE-M11 7:1");
}

TEST_F(PassSettings, KnowThePassesOfWhatIsNotEnabled) {
  write("plugins/acme.idle.plugin.toml",
        "schema = 0\nid = \"acme.idle\"\nversion = \"1.0.0\"\nrules = [\"fuse.fe\"]\npasses = "
        "[\"acme.quiet\"]\n");
  EXPECT_EQ(apply("[pass.\"acme.a\"]\nafter = [\"acme.quiet\"]"), "acme.a acme.b");
  EXPECT_EQ(apply("[pass.\"acme.a\"]\nafter = [\"acme.quiet\", \"acme.c\"]"), "FE-M11 5:24");
  EXPECT_NE(text_.find("did you mean"), std::string::npos) << text_;
  EXPECT_EQ(apply("[pass.\"acme.nowhere\"]\nenabled = false"), "FE-M11 4:1");
  // A skipped plugin takes the names of its passes with it.
  EXPECT_EQ(
      apply("enable = [\"acme.gone\"]\n[plugin.\"acme.gone\"]\non_error = \"skip\"\n"
            "[pass.\"acme.gone_pass\"]\nenabled = false\n[pass.\"acme.a\"]\nafter = [\"acme.gone_pass\"]"),
      "acme.a acme.b");
}

TEST_F(PassSettings, GiveLimitsAndExpectations) {
  EXPECT_EQ(
      apply("[pass.\"acme.a\"]\nmode = \"fixpoint\"\nmax_rewrites = 7\ntimeout_ms = 250\nexpect = \"<= 3\"\n"
            "[rule.\"acme.rule\"]\nexpect = \"==2\"\n"),
      "acme.a acme.b");
  EXPECT_EQ(passes_[0].limits.mode, PassMode::fixpoint);
  EXPECT_EQ(passes_[0].limits.max_rewrites, 7u);
  EXPECT_EQ(passes_[0].limits.timeout, std::chrono::milliseconds(250));
  ASSERT_TRUE(passes_[0].expect);
  EXPECT_TRUE(passes_[0].expect->holds(3));
  EXPECT_FALSE(passes_[0].expect->holds(4));
  ASSERT_TRUE(passes_[1].rule_expectations.contains("acme.rule"));
  EXPECT_TRUE(passes_[1].rule_expectations.at("acme.rule").holds(2));
  EXPECT_FALSE(passes_[1].rule_expectations.at("acme.rule").holds(1));
  for (const char* wrong : {"1", ">1", ">=", ">= x", ">=1 2", ""})
    EXPECT_EQ(apply("[rule.\"acme.rule\"]\nexpect = \"" + std::string(wrong) + "\"").substr(0, 6), "FE-M03")
        << wrong;
  EXPECT_EQ(apply("[pass.\"acme.a\"]\nmode = \"twice\""), "FE-M03 5:8");
  EXPECT_EQ(apply("[pass.\"acme.a\"]\nmax_rewrites = 0"), "FE-M17 5:16");
  EXPECT_EQ(apply("[pass.\"acme.a\"]\ntimeout_ms = -5"), "FE-M17 5:14");
  EXPECT_EQ(apply("[rule.\"acme.rul\"]\nexpect = \">=1\""), "FE-M11 4:1");
  EXPECT_NE(text_.find("did you mean 'acme.rule'?"), std::string::npos) << text_;
}

TEST_F(PassSettings, RefuseExpectationsThatCannotComeTrue) {
  EXPECT_EQ(apply("[pass.\"acme.a\"]\nenabled = false\nexpect = \">=1\""), "FE-M20 6:10");
  EXPECT_EQ(apply("[pass.\"acme.a\"]\nenabled = false\nexpect = \"==0\""), "acme.b");
  EXPECT_EQ(apply("[pass.\"acme.b\"]\nenabled = false\n[rule.\"acme.rule\"]\nexpect = \">=1\""),
            "FE-M20 7:10");
  // A plugin that is skipped takes its rules with it, but not what is expected of them.
  EXPECT_EQ(apply("enable = [\"acme.gone\"]\n[plugin.\"acme.gone\"]\non_error = \"skip\"\n"
                  "[rule.\"acme.gone_rule\"]\nexpect = \">=1\""),
            "FE-M20 8:10");
}

TEST_F(PassSettings, RefuseADescriptorThatItsPluginContradicts) {
  EXPECT_EQ(describe("passes = [\"acme.a\", \"acme.z\"]"), "FE-M22 plugins/acme.loaded.plugin.toml:5:21");
  EXPECT_NE(text_.find("did you mean 'acme.a'?"), std::string::npos) << text_;
  EXPECT_EQ(describe("[passes.\"acme.a\"]\nphase = \"pre_grad\""), "acme.a acme.b");
  EXPECT_EQ(describe("[passes.\"acme.a\"]\nphase = \"pre_lower\""),
            "FE-M22 plugins/acme.loaded.plugin.toml:6:9");
  EXPECT_EQ(describe("[passes.\"acme.a\"]\nphase = \"pre_lowr\""),
            "FE-M03 plugins/acme.loaded.plugin.toml:6:9");
  // A rule file is ordered by its descriptor; a pass of a library by the library, which the descriptor
  // repeats.
  EXPECT_EQ(describe("[passes.\"acme.a\"]\nafter = [\"acme.b\"]\nmax_rewrites = 4"), "acme.b acme.a");
  EXPECT_EQ(passes_[0].limits.max_rewrites, 4u);
  of_library_ = true;
  EXPECT_EQ(describe("[passes.\"acme.a\"]\nafter = [\"acme.b\"]"),
            "FE-M22 plugins/acme.loaded.plugin.toml:6:9");
  EXPECT_EQ(describe("[passes.\"acme.a\"]\nafter = []"), "acme.a acme.b");
}

}  // namespace
}  // namespace ferrite::core::config
