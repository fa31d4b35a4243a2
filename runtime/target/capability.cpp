// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "runtime/target/capability.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <vector>

#include "core/support/hash.h"
#include "core/support/suggest.h"
#include "core/support/toml/toml_reader.h"
#include "ferrite/loop_check.hpp"

namespace ferrite::core::runtime {
namespace {

constexpr std::array<std::string_view, 7> keys = {"schema", "target", "provider", "plugin",
                                                  "passed", "failed", "declined"};
constexpr std::array<std::pair<std::string_view, Verdict>, 3> verdicts = {
    std::pair{std::string_view("passed"), Verdict::passed},
    {"failed", Verdict::failed},
    {"declined", Verdict::declined}};
constexpr uint32_t last_kind = FE_STATEMENT_SERIAL;

/// The names of the table's cells: statement kinds, then primitives.
std::vector<std::string_view> cell_names() {
  std::vector<std::string_view> names;
  for (uint32_t kind = FE_STATEMENT_MAP; kind <= last_kind; ++kind)
    names.push_back(ferrite::loop::statement_name(kind));
  for (const auto& info : prim_table) names.push_back(info.name);
  return names;
}

/// The text with '_' for every character that TOML would have to escape.
std::string plain(std::string text) {
  for (char& c : text)
    if (static_cast<unsigned char>(c) < 0x20 || c == '"' || c == '\\' || c == 0x7f) c = '_';
  return text;
}

/// An error at `what`, a TOML node or key.
template <class What>
Error malformed(const std::string& path, const What& what, const std::string& text) {
  const auto& begin = what.source().begin;
  return at(
      fmt::format("{}:{}:{}", path, std::max<uint32_t>(begin.line, 1), std::max<uint32_t>(begin.column, 1)),
      error(FE_EINVALID, "FE-P54",
            "{}; remove the file, and write it anew with 'ferrite plugin check --capabilities'", text));
}

}  // namespace

std::optional<Verdict> CapabilityTable::find(std::string_view name, DType dtype) const {
  auto found = cells.find(std::pair(std::string(name), dtype));
  return found == cells.end() ? std::nullopt : std::optional(found->second);
}

std::string CapabilityTable::file_name() const { return target + ".capabilities.toml"; }

std::string CapabilityTable::text() const {
  std::string result = fmt::format("schema = 0\ntarget = \"{}\"\nprovider = \"{}\"\nplugin = \"{}\"\n",
                                   plain(target), plain(provider), plain(plugin));
  for (const auto& [title, verdict] : verdicts) {
    result += fmt::format("\n[{}]\n", title);
    for (std::string_view name : cell_names()) {
      std::vector<std::string> types;
      for (const auto& info : dtype_table)
        if (find(name, info.dtype) == verdict) types.push_back(fmt::format("\"{}\"", info.name));
      if (!types.empty()) result += fmt::format("{} = [{}]\n", name, fmt::join(types, ", "));
    }
  }
  return result;
}

Result<CapabilityTable> CapabilityTable::parse(std::string_view text, const std::string& path,
                                               const CapabilityTable* wanted) {
  FE_TRY(const auto file, plugin::parse_toml(text, path));
  const auto names = cell_names();
  std::vector<std::string_view> types;
  for (const auto& info : dtype_table) types.push_back(info.name);
  CapabilityTable result;
  // Check the schema version before anything else: unknown entries of a newer version are no errors.
  const auto* schema = file.get("schema");
  if (!schema) return malformed(path, file, "schema = 0 is missing");
  if (schema->value<int64_t>() != 0)
    return malformed(path, *schema,
                     "the table is of a later version of Ferrite than this one, which reads schema = 0");
  for (const auto member : {&CapabilityTable::target, &CapabilityTable::provider, &CapabilityTable::plugin}) {
    const auto key = member == &CapabilityTable::target     ? "target"
                     : member == &CapabilityTable::provider ? "provider"
                                                            : "plugin";
    const auto* value = file[key].as_string();
    if (!value) return malformed(path, file, fmt::format("the string '{}' is missing", key));
    result.*member = value->get();
    if (wanted && result.*member != plain(wanted->*member))
      return malformed(path, *file.get(key),
                       fmt::format("the table is of {} '{}', not of '{}', next to which it is", key,
                                   result.*member, wanted->*member));
  }
  for (const auto& [key, node] : file) {
    if (std::find(keys.begin(), keys.end(), key.str()) == keys.end())
      return malformed(path, key,
                       fmt::format("unknown key '{}'{}", key.str(), did_you_mean(key.str(), keys)));
    const auto verdict =
        std::find_if(verdicts.begin(), verdicts.end(), [&](const auto& v) { return v.first == key.str(); });
    if (verdict == verdicts.end()) continue;
    if (!node.is_table()) return malformed(path, node, fmt::format("'{}' is no table", key.str()));
    for (const auto& [name, list] : *node.as_table()) {
      if (std::find(names.begin(), names.end(), name.str()) == names.end())
        return malformed(path, name,
                         fmt::format("there is no statement or primitive '{}'{}", name.str(),
                                     did_you_mean(name.str(), names)));
      if (!list.is_array()) return malformed(path, list, "the element types are no list");
      for (const auto& element : *list.as_array()) {
        const auto* type = element.as_string();
        const auto* info = type ? find_dtype(std::string_view(type->get())) : nullptr;
        if (!info)
          return malformed(
              path, element,
              type ? fmt::format("there is no element type '{}'{}", type->get(),
                                 did_you_mean(type->get(), types))
                   : fmt::format("an element type is a string, one of {}", fmt::join(types, ", ")));
        if (!result.cells.emplace(std::pair(std::string(name.str()), info->dtype), verdict->second).second)
          return malformed(path, element, fmt::format("'{}' of {} has two verdicts", name.str(), info->name));
      }
    }
  }
  return result;
}

Result<CapabilityTable> CapabilityTable::read(const std::string& path, const CapabilityTable* wanted) {
  FE_TRY(auto text, plugin::read_text_file(path));
  return parse(text, path, wanted);
}

Result<void> CapabilityTable::write(const std::string& path) const {
  std::ofstream file(path, std::ios::trunc);
  file << text();
  file.close();
  if (!file)
    return at(path,
              error(FE_EINVALID, "FE-P54",
                    "the table of capabilities cannot be written; check the folder and the free space"));
  return {};
}

std::string target_key(std::string_view description, std::string_view provider,
                       std::string_view fingerprint) {
  return hash128({description, provider, fingerprint});
}

}  // namespace ferrite::core::runtime
