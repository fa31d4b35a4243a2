// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Compiled kernels that are kept from one process to the next.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <string>

#include "core/link/kernel_cache.h"
#include "core/support/files/user_folder.h"

namespace ferrite::core::cache {

/// A folder of kernels by their keys (SHA-256 of everything that the code depends on: a model says a part of it). An entry is
/// checked against its own hash, and what it says of the kernel is held to what holds for a fresh one; what fails is a miss, and is
/// replaced. A hash says nothing of who wrote an entry, and what is in it is run as machine code: a folder or file that somebody
/// else owns or may write to is not used at all. Any-thread, and any number of processes.
class KernelFolder : public KernelCache {
 public:
  /// An empty folder: every kernel is bypassed.
  explicit KernelFolder(std::string folder);

  bool is_open() const override { return closed_.empty(); }
  std::optional<CompiledKernel> find(const std::string& key, bool listing) override;
  void drop(const std::string& key, const std::string& reason) override;
  void keep(const std::string& key, const CompiledKernel& kernel, const About& about) override;
  Counts counts() const override;

 private:
  std::string path_of(const std::string& key) const;
  void bypass(const std::string& reason);
  void fault(const std::string& reason);

  const std::string folder_;
  std::string closed_;  ///< why the folder is not used; empty: it is
  mutable std::mutex mutex_;
  Counts counts_;
};

/// The folder that a setting means: "on" is the user's own, "off" none, else a path. Without a setting FERRITE_CACHE says it, and
/// without that it is on. Empty: none.
std::string kernel_folder(const std::optional<std::string>& setting);

inline constexpr std::string_view kernel_suffix = ".kernel";

/// What an entry says of its kernel; none where `fault` says why it cannot be used.
std::optional<About> look_at(const std::string& folder, const std::string& name, std::string& fault);

}  // namespace ferrite::core::cache
