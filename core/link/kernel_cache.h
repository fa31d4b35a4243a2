// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Where the compiler looks for kernels that were compiled before: the interface. The driver has the implementation, a folder.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

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

/// Any-thread.
class KernelCache {
 public:
  virtual ~KernelCache() = default;
  /// Whether anything can be found or kept.
  virtual bool is_open() const = 0;
  /// The kernel, where it is kept, with a listing if that is wanted. An empty key is a provider's that has no fingerprint.
  virtual std::optional<CompiledKernel> find(const std::string& key, bool listing) = 0;
  /// What was found turned out to be of no use: it counts as a miss, with this fault. keep() replaces it.
  virtual void drop(const std::string& key, const std::string& reason) = 0;
  virtual void keep(const std::string& key, const CompiledKernel& kernel, const About& about) = 0;
  virtual Counts counts() const = 0;
};

/// A cache with counts of its own; null: kernels are neither looked for nor kept.
using OpenKernelCache = std::function<std::unique_ptr<KernelCache>()>;

}  // namespace ferrite::core::cache
