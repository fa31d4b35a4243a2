// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The table of cases.toml.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/support/toml/toml_reader.h"
#include "tests/plugins/plugin_support.h"

namespace ferrite::core::plugin::test {

struct Case {
  int64_t group = 0;
  std::string name, plugin, check, code;
  std::string pass = "test.adversarial.pass";  ///< that fails
  std::vector<graph::Attribute> config;
  int64_t compilations_before = 0;
  std::optional<int64_t> max_rewrites;
};

inline std::vector<Case> read_cases() {
  const std::string path = std::string(FERRITE_SOURCES) + "/tests/plugins/adversarial/cases.toml";
  auto text = read_text_file(path);
  EXPECT_TRUE(text) << text.error().message();
  auto document = parse_toml(*text, path);
  EXPECT_TRUE(document) << document.error().message();
  std::vector<Case> cases;
  for (const auto& element : *(*document)["case"].as_array()) {
    const toml::table& table = *element.as_table();
    Case item;
    item.group = table["group"].value_or(int64_t{0});
    item.name = table["name"].value_or("");
    item.plugin = table["plugin"].value_or("");
    item.check = table["check"].value_or("");
    item.code = table["code"].value_or("");
    // A plugin has one pass that it fails in; what stands in the folder above calls it by its own id.
    item.pass =
        table["pass"].value_or(item.plugin.starts_with("adversarial") ? std::string("test.adversarial.pass")
                                                                      : "test." + item.plugin + ".pass");
    if (item.name == "endless_rules") item.pass = "adversarial.fe";
    item.max_rewrites = table["max_rewrites"].value<int64_t>();
    item.compilations_before = table["compilations_before"].value_or(int64_t{0});
    if (const auto* config = table["config"].as_table()) {
      for (const auto& [key, value] : *config)
        item.config.push_back({std::string(key.str()), value.value_or(std::string())});
    } else {
      item.config.push_back({"mode", item.name});
    }
    cases.push_back(std::move(item));
  }
  return cases;
}

/// Those of these checks.
inline std::vector<Case> cases_of(std::initializer_list<std::string_view> checks) {
  std::vector<Case> result;
  for (auto& item : read_cases())
    if (std::find(checks.begin(), checks.end(), item.check) != checks.end())
      result.push_back(std::move(item));
  return result;
}

inline std::string name_of_case(const testing::TestParamInfo<Case>& info) { return info.param.name; }

}  // namespace ferrite::core::plugin::test
