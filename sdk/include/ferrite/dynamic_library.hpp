// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Libraries that a plugin loads at run time instead of linking them: drivers, and vendors' kernels.
#pragma once

#include <dlfcn.h>

#include <span>
#include <string>

namespace ferrite::inline v0 {

/// The first available library of a list; it stays open. If none is available, or it lacks a function, the
/// plugin must report that. Any-thread after construction.
class DynamicLibrary {
 public:
  explicit DynamicLibrary(std::span<const std::string> names) {
    for (const auto& name : names) {
      handle_ = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
      if (handle_) {
        name_ = name;
        return;
      }
      const char* reason = dlerror();
      reasons_ += (reasons_.empty() ? "" : "; ") + std::string(reason ? reason : name + " cannot be opened");
    }
  }
  bool is_open() const { return handle_ != nullptr; }
  /// The name of the opened library.
  const std::string& name() const { return name_; }
  /// Why no library could be opened, with the name of each.
  const std::string& reasons() const { return reasons_; }
  /// A function of the opened library or of its dependencies; null if there is none.
  void* symbol(const char* name) const { return dlsym(handle_, name); }

 private:
  void* handle_ = nullptr;
  std::string name_, reasons_;
};

}  // namespace ferrite::inline v0
