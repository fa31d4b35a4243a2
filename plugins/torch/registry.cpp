// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "registry.h"

#include <algorithm>
#include <unordered_map>

namespace ferrite::from_torch {
namespace {

const std::unordered_map<std::string_view, const OpEntry*>& index() {
  static const auto made = [] {
    std::unordered_map<std::string_view, const OpEntry*> all;
    for (const auto table :
         {activation_ops(), attention_ops(), contract_ops(), create_ops(),  distance_ops(), divide_ops(),
          embedding_ops(),  foreach_ops(),   gamma_ops(),    index_ops(),   loss_ops(),     norm_ops(),
          part_ops(),       pointwise_ops(), pool_ops(),     product_ops(), random_ops(),   recurrent_ops(),
          reduce_ops(),     resize_ops(),    special_ops(),  view_ops()})
      for (const auto& entry : table) all.emplace(entry.target, &entry);
    for (const auto& alias : aliases()) all.emplace(alias.target, all.at(alias.same_as));
    return all;
  }();
  return made;
}

std::vector<std::string_view> targets() {
  std::vector<std::string_view> all;
  for (const auto& [target, entry] : index()) all.push_back(target);
  std::ranges::sort(all);
  return all;
}

}  // namespace

const OpEntry* find_op(std::string_view target) {
  const auto found = index().find(target);
  return found == index().end() ? nullptr : found->second;
}

std::string_view why_refused(std::string_view target) {
  const auto found = std::ranges::find(refusals(), target, &Refusal::target);
  return found == refusals().end() ? std::string_view() : found->reason;
}

std::string source_of(std::string_view target) {
  std::string source(target);
  // The only overload of an operator has this name.
  if (source.ends_with(".default")) source.resize(source.size() - std::string_view(".default").size());
  if (const auto dot = source.find('.'); dot != std::string::npos) source.replace(dot, 1, "::");
  return "torch:" + source;
}

std::vector<std::string> supported_sources() {
  std::vector<std::string> all;
  for (const auto target : targets()) all.push_back(source_of(target));
  return all;
}

std::string coverage_text() {
  std::string text;
  for (const auto target : targets()) text += std::string(target) + "\tall\tsupported\n";
  return text;
}

}  // namespace ferrite::from_torch
