// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The files that are installed with Ferrite.
#pragma once

#include <string>

namespace ferrite::core::plugin {

/// Where the files of this installation are: share/ferrite and the built-in plugins. A build tree has the
/// same layout.
struct InstalledFiles {
  std::string default_manifest, plugin_folder;
  std::string library;  ///< the program or shared library that holds this code
};
InstalledFiles installed_files();

}  // namespace ferrite::core::plugin
