// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The memory that the code and constants of plugins' libraries take.
#pragma once

#include <link.h>

#include <set>

namespace ferrite::core::plugin {

/// Notes the libraries that the process gets during the life of this object: a plugin's, and those that it
/// links.
class NewLibraries {
 public:
  NewLibraries();
  ~NewLibraries();
  NewLibraries(const NewLibraries&) = delete;
  NewLibraries& operator=(const NewLibraries&) = delete;

 private:
  const std::set<ElfW(Addr)> before_;
};

/// Gives the pages of the noted libraries' code and constants back to the system. They count as memory of
/// this process, and most of them are used only while kernels are compiled: with LLVM they are some 60 MB.
/// They come from the system's cache of files when they are used again, which takes about a millisecond for
/// all of them. Any-thread; other threads may run the code meanwhile.
void release_library_pages();

}  // namespace ferrite::core::plugin
