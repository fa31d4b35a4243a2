// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The files that a build of Ferrite brings with it.
#pragma once

#include <string>

namespace ferrite::core::plugin {

/// Where this build's own files lie: share/ferrite and the built-in plugins, the same in a build tree and installed.
struct InstalledFiles {
  std::string default_manifest, plugin_folder;
};
InstalledFiles installed_files();

}  // namespace ferrite::core::plugin
