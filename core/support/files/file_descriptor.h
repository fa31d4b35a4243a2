// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RAII for file descriptors, and reads and writes that retry.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

namespace ferrite::core {

/// A file descriptor, closed by the destructor. Negative: none.
class FileDescriptor {
 public:
  explicit FileDescriptor(int number = -1) : number_(number) {}
  FileDescriptor(FileDescriptor&& other) noexcept : number_(other.release()) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ~FileDescriptor();

  int get() const { return number_; }
  explicit operator bool() const { return number_ >= 0; }
  /// Gives up ownership: returns the descriptor, which stays open.
  int release() { return std::exchange(number_, -1); }

 private:
  int number_;
};

/// Writes all of `bytes` at `offset` of a file, which grows as needed. On failure returns false and sets
/// errno.
bool write_at(int file, std::span<const std::byte> bytes, uint64_t offset = 0);
/// Fills `bytes` from `offset` of a file; false if the file is shorter or cannot be read.
bool read_at(int file, std::span<std::byte> bytes, uint64_t offset = 0);

}  // namespace ferrite::core
