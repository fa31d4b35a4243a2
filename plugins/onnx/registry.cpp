// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "registry.h"

#include <map>
#include <utility>

namespace ferrite::from_onnx {
namespace {

using Table = std::map<std::pair<std::string_view, std::string_view>, const OpEntry*>;

const Table& table() {
  static const Table all = [] {
    Table result;
    for (auto entries :
         {pointwise_ops(), activation_ops(), shape_ops(), move_ops(), create_ops(), control_ops(),
          reduce_ops(), norm_ops(), contract_ops(), window_ops(), resize_ops(), quantise_ops(), loss_ops()})
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

std::string coverage_text() {
  std::string text;
  for (const auto& [key, entry] : table()) {
    if (!entry->domain.empty()) text.append(entry->domain).append(".");
    text.append(entry->name);
    text += "\t" + std::to_string(entry->first) + "-" + std::to_string(entry->last) + "\tsupported\n";
  }
  return text;
}

}  // namespace ferrite::from_onnx
