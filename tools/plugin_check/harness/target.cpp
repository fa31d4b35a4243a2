// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "tools/plugin_check/harness/target.h"

#include <filesystem>
#include <set>

#include "driver/config/descriptor.h"

namespace ferrite::core::plugin_check {
namespace {

namespace fs = std::filesystem;

std::set<std::string> descriptors_in(const fs::path& folder) {
  std::set<std::string> found;
  std::error_code failed;
  fs::directory_iterator entries(folder, failed), end;
  for (; !failed && entries != end; entries.increment(failed))
    if (entries->path().string().ends_with(plugin::descriptor_suffix)) found.insert(entries->path().string());
  return found;
}

}  // namespace

Result<std::vector<Target>> find_targets(const std::string& given) {
  std::error_code failed;
  const auto path = fs::absolute(given, failed).lexically_normal();
  if (given.empty() || failed || !fs::exists(path, failed))
    return at(given.empty() ? "PATH" : given,
              error(FE_EINVALID, "FE-M06", "there is no such file or folder"));
  std::vector<Target> targets;
  if (fs::is_directory(path, failed)) {
    for (const auto& file : descriptors_in(path)) targets.push_back({file, file});
    if (targets.empty())
      return at(given, error(FE_EINVALID, "FE-M05", "the folder holds no *{}", plugin::descriptor_suffix));
    return targets;
  }
  if (path.string().ends_with(".toml")) return std::vector<Target>{{path.string(), path.string()}};
  for (const auto& file : descriptors_in(path.parent_path())) {
    auto descriptor = config::Descriptor::read(file);
    if (descriptor && descriptor->library == path.string()) return std::vector<Target>{{file, file}};
  }
  return std::vector<Target>{{path.string(), ""}};
}

}  // namespace ferrite::core::plugin_check
