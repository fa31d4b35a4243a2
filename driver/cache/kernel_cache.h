// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Compiled kernels that are kept from one process to the next.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "core/support/error.h"
#include "core/support/files/user_folder.h"

namespace ferrite::core::cache {

/// What a provider made of a kernel.
struct CompiledKernel {
  std::string blob;
  std::string listing;
  bool listed = false;  ///< a listing was asked for, even if the provider has none
  int64_t tasks = 1, grain = 1, workspace_bytes = 0;
  int64_t registers = -1, spills = -1, shared_bytes = -1;  ///< -1: unknown
};

/// What a kernel was made of and for. For people who look into the folder: nothing is decided by it.
struct About {
  std::string device;     ///< its kind
  std::string candidate;  ///< the provider's name of it
  std::string nodes;      ///< of the model that wanted it first
};

/// What came of looking kernels up.
struct Counts {
  size_t hits = 0;                         ///< kernels that were found
  std::map<std::string, size_t> misses;    ///< by reason: kernels that were not there, or could not be used
  std::map<std::string, size_t> bypasses;  ///< by reason: kernels that were neither looked for nor kept
  std::map<std::string, size_t> faults;    ///< by reason: entries that could not be used, or not be written
  size_t missed() const;
  size_t bypassed() const;
};

/// A folder of kernels by their keys (SHA-256 of everything that the code depends on: a model says a part of it). An entry is
/// checked against its own hash, and what it says of the kernel is held to what holds for a fresh one; what fails is a miss, and is
/// replaced. A hash says nothing of who wrote an entry, and what is in it is run as machine code: a folder or file that somebody
/// else owns or may write to is not used at all. Any-thread, and any number of processes.
class Kernels {
 public:
  /// An empty folder: every kernel is bypassed.
  explicit Kernels(std::string folder);

  bool is_open() const { return closed_.empty(); }
  /// The kernel, where it is kept, with a listing if that is wanted. An empty key is a provider's that has no fingerprint.
  std::optional<CompiledKernel> find(const std::string& key, bool listing);
  /// What was found turned out to be of no use: it counts as a miss, with this fault. keep() replaces it. Any-thread.
  void drop(const std::string& key, const std::string& reason);
  void keep(const std::string& key, const CompiledKernel& kernel, const About& about);
  Counts counts() const;

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
