// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Weight files: mapped once each, when a weight in them is first read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>

#include "core/support/error.h"

namespace ferrite::core::graph {

/// What a weight is: equal identities hold equal bytes. Comparable, fit for cache keys on this machine.
struct WeightIdentity {
  uint64_t device = 0, inode = 0, file_bytes = 0;
  int64_t modified_ns = 0;
  uint64_t offset = 0, bytes = 0;
  friend auto operator<=>(const WeightIdentity&, const WeightIdentity&) = default;
};

/// A file mapped read-only for as long as the object lives.
class MappedFile {
 public:
  /// FE-G40, at the path, where it cannot be read or is no regular file; the text is only the reason.
  static Result<std::shared_ptr<const MappedFile>> open(const std::string& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  WeightIdentity identity() const { return identity_; }  ///< with offset 0 and all its bytes

 private:
  MappedFile() = default;
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
  WeightIdentity identity_;
};

/// The mapped files of a graph and its copies. Thread-safe.
class WeightStore {
 public:
  /// Relative paths are resolved against `folder`; empty is the working directory.
  explicit WeightStore(std::string folder = {}) : folder_(std::move(folder)) {}

  /// FE-G40 where the file cannot be mapped, FE-G41 where the range does not lie in it. The bytes live as long as the
  /// store.
  Result<std::span<const std::byte>> bytes(const std::string& file, uint64_t offset, uint64_t bytes);
  Result<WeightIdentity> identity(const std::string& file, uint64_t offset, uint64_t bytes);
  const std::string& folder() const { return folder_; }

 private:
  Result<std::shared_ptr<const MappedFile>> map(const std::string& file, uint64_t offset, uint64_t bytes);

  std::string folder_;
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<const MappedFile>> files_;
};

}  // namespace ferrite::core::graph
