// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Libraries that a plugin opens when it needs them, instead of being linked to them: drivers, and vendors' kernels.
#pragma once

#include <dlfcn.h>

#include <span>
#include <string>

namespace ferrite::inline v0 {

/// The first of some libraries that there is; it stays open. What is wrong where there is none, or where it lacks a function, is the
/// plugin's to say. Any-thread once it is made.
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
  /// Of the one that was opened.
  const std::string& name() const { return name_; }
  /// Why none was, with each one's name.
  const std::string& reasons() const { return reasons_; }
  /// A function of an open library, or of one that it depends on; null where there is none.
  void* symbol(const char* name) const { return dlsym(handle_, name); }

 private:
  void* handle_ = nullptr;
  std::string name_, reasons_;
};

}  // namespace ferrite::inline v0
