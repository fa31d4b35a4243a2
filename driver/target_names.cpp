// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "driver/target_names.h"

#include <algorithm>

#include "core/support/abi/abi.h"
#include "core/support/split.h"

namespace ferrite::core::runtime {
namespace {

/// The kinds for which any enabled plugin compiles, in the order of their runtimes.
std::vector<std::string> compiled_kinds(const plugin::Backends& backends) {
  std::vector<std::string> kinds;
  for (const auto& runtime : backends.runtimes()) {
    const std::string kind(abi::view(runtime.table->id));
    const bool compiled = std::ranges::any_of(backends.providers(), [&](const auto& provider) {
      return abi::view(provider.table->device_kind) == kind;
    });
    if (compiled) kinds.push_back(kind);
  }
  return kinds;
}

bool is_known(const std::string& kind, const plugin::Backends& backends) {
  return std::ranges::any_of(backends.runtimes(),
                             [&](const auto& runtime) { return abi::view(runtime.table->id) == kind; });
}

/// Opens the target, or the present device where the target has no description.
Result<std::shared_ptr<Device>> open(const Target& target, const plugin::Backends& backends) {
  return target.description.empty() ? Device::open(target.kind, backends) : Device::open(target, backends);
}

}  // namespace

std::vector<std::string> target_names(std::string_view text) {
  if (text.find_first_of("= \t\r\n") != std::string_view::npos) return {std::string(text)};
  const auto names = split(text, ',');
  return {names.begin(), names.end()};
}

Result<std::shared_ptr<Device>> find_target(const std::string& name, const std::vector<std::string>& kinds,
                                            const plugin::Backends& backends) {
  if (const auto colon = name.find(':'); colon != std::string::npos)
    if (auto kind = name.substr(0, colon); is_known(kind, backends))
      return open({std::move(kind), name.substr(colon + 1)}, backends);
  if (name.empty())
    return error(FE_EINVALID, "FE-D24", "a target without a name; write one between two commas, or drop one");
  const auto asked = kinds.empty() ? compiled_kinds(backends) : kinds;
  std::vector<std::shared_ptr<Device>> found;
  std::vector<std::string> reasons;
  for (const auto& kind : asked) {
    auto opened = open({kind, name}, backends);
    if (opened)
      found.push_back(std::move(*opened));
    else if (asked.size() == 1)
      return std::move(opened.error());
    else
      reasons.push_back(opened.error().message());
  }
  if (found.size() == 1) return found.front();
  if (found.empty())
    return error(
        FE_EINVALID, "FE-D24",
        "no enabled plugin compiles for '{}': {}; write a target that one of them knows, or enable the "
        "plugin that compiles for it",
        name, fmt::join(reasons, "; "));
  std::vector<std::string> choices;
  for (const auto& device : found) choices.push_back(fmt::format("'{}:{}'", device->kind, name));
  return error(FE_EINVALID, "FE-D24", "several kinds of devices have a target '{}'; write {}", name,
               fmt::join(choices, " or "));
}

}  // namespace ferrite::core::runtime
