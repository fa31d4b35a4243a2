// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Compiled kernels that persist between processes.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <string>

#include "core/link/kernel_cache.h"
#include "core/support/files/user_folder.h"

namespace ferrite::core::cache {

/// A folder of kernels by their keys. A key is the SHA-256 of everything on which the code depends: a model
/// gives a part of it. An entry is checked against its own hash, and its numbers against the rules for a
/// freshly compiled kernel; an invalid entry is a miss and is replaced. A hash does not prove who wrote an
/// entry, and its contents run as machine code. A folder or file that another user owns or can write to is
/// therefore not used at all. Any-thread, and any number of processes.
class KernelFolder : public KernelCache {
 public:
  /// An empty folder name: every kernel is bypassed.
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
  std::string closed_;  ///< the reason why the folder is not used; empty: it is used
  mutable std::mutex mutex_;
  Counts counts_;
};

/// The folder that a setting selects: "on" is the user's own, "off" none, else a path. Without a setting
/// FERRITE_CACHE decides, and without that it is on. Empty: none.
std::string kernel_folder(const std::optional<std::string>& setting);

inline constexpr std::string_view kernel_suffix = ".kernel";

/// The description in an entry; none where the entry cannot be used, with the reason in `fault`.
std::optional<About> look_at(const std::string& folder, const std::string& name, std::string& fault);

}  // namespace ferrite::core::cache
