// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "registry.h"

#include <map>
#include <utility>

#include "format/schemas.h"

namespace ferrite::from_onnx {
namespace {

using Table = std::map<std::pair<std::string_view, std::string_view>, const OpEntry*>;

const Table& table() {
  static const Table all = [] {
    Table result;
    for (auto entries : {pointwise_ops(), activation_ops(), shape_ops(), move_ops(), create_ops(),
                         control_ops(), reduce_ops(), norm_ops(), attention_ops(), contract_ops(),
                         window_ops(), resize_ops(), quantise_ops(), loss_ops()})
      for (const auto& entry : entries) result.emplace(std::pair{entry.domain, entry.name}, &entry);
    return result;
  }();
  return all;
}

}  // namespace

const OpEntry* find_op(std::string_view domain, std::string_view name) {
  auto found = table().find({domain == "ai.onnx" ? std::string_view() : domain, name});
  return found == table().end() ? nullptr : found->second;
}

std::vector<std::string> supported_sources() {
  std::vector<std::string> result;
  for (const auto& [key, entry] : table()) {
    auto& source = result.emplace_back("onnx:");
    if (!key.first.empty()) source.append(key.first).append("::");
    source.append(key.second);
  }
  return result;
}

std::string coverage_text() {
  struct Line {
    std::string versions;
    std::string_view state;
  };
  std::map<std::pair<std::string_view, std::string_view>, Line> lines;
  for (const auto& signature : signatures()) {
    auto& line = lines[{signature.domain, signature.name}];
    line.state = "missing";
    if (signature.removed)
      line.versions += std::to_string(signature.since - 1);  // the last version that has it
    else if (line.versions.empty())
      line.versions = std::to_string(signature.since) + "-";
  }
  for (const auto& [key, entry] : table())
    lines[key] = {std::to_string(entry->first) + "-" + std::to_string(entry->last), "supported"};
  std::string text;
  for (const auto& [key, line] : lines) {
    if (!key.first.empty()) text.append(key.first).append(".");
    text.append(key.second).append("\t").append(line.versions).append("\t").append(line.state).append("\n");
  }
  return text;
}

}  // namespace ferrite::from_onnx
