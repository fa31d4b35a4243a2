// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Weight files. Each is mapped once, at the first read of a weight in it.
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

/// Identifies a weight: equal identities mean equal bytes. Comparable; valid as a cache key on this machine
/// only.
struct WeightIdentity {
  uint64_t device = 0, inode = 0, file_bytes = 0;
  int64_t modified_ns = 0;
  uint64_t offset = 0, bytes = 0;
  friend auto operator<=>(const WeightIdentity&, const WeightIdentity&) = default;
};

/// A file, mapped read-only for the lifetime of the object, or bytes in memory that stand for one.
class MappedFile {
 public:
  /// FE-G40, placed at the path, if the file cannot be read or is no regular file. The text is only the
  /// reason.
  static Result<std::shared_ptr<const MappedFile>> open(const std::string& path);
  /// A copy of these bytes in memory, which no other object equals in identity. FE-G40 if memory is short.
  static Result<std::shared_ptr<const MappedFile>> copy_of(std::span<const std::byte> bytes);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  WeightIdentity identity() const { return identity_; }  ///< the identity at offset 0, for the whole file

 private:
  MappedFile() = default;
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
  WeightIdentity identity_;
};

/// The mapped files of a graph and of its copies. Thread-safe.
class WeightStore {
 public:
  /// Relative paths are resolved against `folder`; empty is the working directory.
  explicit WeightStore(std::string folder = {}) : folder_(std::move(folder)) {}

  /// FE-G40 if the file cannot be mapped, FE-G41 if the range exceeds it. The bytes live as long as the
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
