// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/support/files/installed_files.h"

#include <dlfcn.h>
#include <link.h>

#include <filesystem>

#if defined(__x86_64__)
#define FERRITE_MULTIARCH "x86_64-linux-gnu"
#else
#define FERRITE_MULTIARCH "aarch64-linux-gnu"
#endif

namespace ferrite::core::plugin {
namespace {

namespace fs = std::filesystem;

/// The program or shared library that holds this code.
fs::path own_file() {
  std::error_code failed;
  fs::path file;
  Dl_info info{};
  link_map* map = nullptr;
  void* symbol = reinterpret_cast<void*>(&installed_files);
  // For the main program link_map has an empty name, and dli_fname would be argv[0], which the caller of exec
  // controls.
  if (dladdr1(symbol, &info, reinterpret_cast<void**>(&map), RTLD_DL_LINKMAP) != 0 && map && *map->l_name)
    file = fs::canonical(map->l_name, failed);
  else
    file = fs::read_symlink("/proc/self/exe", failed);
  return file;
}

}  // namespace

InstalledFiles installed_files() {
  std::error_code failed;
  const auto file = own_file(), folder = file.parent_path();
  InstalledFiles result;
  result.library = file.string();
  // A library lies in lib/ or lib/<machine>/, a program in bin/.
  for (auto root = folder.parent_path(); !root.empty(); root = root.parent_path()) {
    auto manifest = root / "share/ferrite/default.toml";
    if (fs::exists(manifest, failed)) {
      result.default_manifest = manifest.string();
      fs::path candidates[] = {folder / "ferrite/plugins", root / "lib/ferrite/plugins",
                               root / "lib64/ferrite/plugins",
                               root / "lib/" FERRITE_MULTIARCH "/ferrite/plugins"};
      for (const auto& candidate : candidates)
        if (result.plugin_folder.empty() && fs::is_directory(candidate, failed))
          result.plugin_folder = candidate.string();
      return result;
    }
    if (root == root.root_path()) break;
  }
  result.default_manifest = (folder.parent_path() / "share/ferrite/default.toml").string();
  return result;
}

}  // namespace ferrite::core::plugin
