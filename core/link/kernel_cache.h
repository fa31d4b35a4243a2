// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The interface of a cache of compiled kernels. The driver implements it with a folder.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

namespace ferrite::core::cache {

/// A compiled kernel.
struct CompiledKernel {
  std::string blob;
  std::string listing;
  bool listed = false;  ///< a listing was asked for, even if the provider has none
  int64_t tasks = 1, grain = 1, workspace_bytes = 0;
  int64_t registers = -1, spills = -1, shared_bytes = -1;  ///< -1: unknown
};

/// Where a kernel came from. It is for users who look into the folder; no decision depends on it.
struct About {
  std::string device;     ///< its kind
  std::string candidate;  ///< the provider's name of the candidate
  std::string nodes;      ///< of the model that needed the kernel first
};

/// Counts of lookups.
struct Counts {
  size_t hits = 0;                         ///< kernels that were found
  std::map<std::string, size_t> misses;    ///< by reason: kernels that were not found, or could not be used
  std::map<std::string, size_t> bypasses;  ///< by reason: kernels that were neither looked up nor stored
  /// by reason: entries that could not be used, or could not be written
  std::map<std::string, size_t> faults;
  size_t missed() const;
  size_t bypassed() const;
};

/// Any-thread.
class KernelCache {
 public:
  virtual ~KernelCache() = default;
  /// Whether kernels can be found or stored.
  virtual bool is_open() const = 0;
  /// The kernel, if it is stored, with a listing if one is requested. An empty key means that the provider
  /// has no fingerprint.
  virtual std::optional<CompiledKernel> find(const std::string& key, bool listing) = 0;
  /// Reports that a found kernel is unusable: it counts as a miss, with this fault. keep() replaces it.
  virtual void drop(const std::string& key, const std::string& reason) = 0;
  virtual void keep(const std::string& key, const CompiledKernel& kernel, const About& about) = 0;
  virtual Counts counts() const = 0;
};

/// Opens a cache with counts of its own; null: kernels are neither looked up nor stored.
using OpenKernelCache = std::function<std::unique_ptr<KernelCache>()>;

}  // namespace ferrite::core::cache
