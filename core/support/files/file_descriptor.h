// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Open files of the operating system.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

namespace ferrite::core {

/// The number of an open file, which is closed with the object. Negative: none.
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
  /// The number, which stays open.
  int release() { return std::exchange(number_, -1); }

 private:
  int number_;
};

/// Writes all of `bytes` at `offset` of a file, which grows as needed. False, and errno set, where that fails.
bool write_at(int file, std::span<const std::byte> bytes, uint64_t offset = 0);
/// Fills `bytes` from `offset` of a file; false where it is shorter or cannot be read.
bool read_at(int file, std::span<std::byte> bytes, uint64_t offset = 0);

}  // namespace ferrite::core
