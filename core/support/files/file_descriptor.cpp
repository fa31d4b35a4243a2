// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/support/files/file_descriptor.h"

#include <unistd.h>

#include <cerrno>

namespace ferrite::core {
namespace {

/// Calls `transfer` until all bytes are transferred; false if a call fails or reaches the end of the file.
template <class Byte, class Transfer>
bool transfer_all(std::span<Byte> bytes, uint64_t offset, const Transfer& transfer) {
  while (!bytes.empty()) {
    const ssize_t count = transfer(bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    bytes = bytes.subspan(static_cast<size_t>(count));
    offset += static_cast<uint64_t>(count);
  }
  return true;
}

}  // namespace

FileDescriptor::~FileDescriptor() {
  if (number_ >= 0) ::close(number_);
}

bool write_at(int file, std::span<const std::byte> bytes, uint64_t offset) {
  return transfer_all(bytes, offset, [&](const std::byte* data, size_t count, off_t at) {
    return ::pwrite(file, data, count, at);
  });
}

bool read_at(int file, std::span<std::byte> bytes, uint64_t offset) {
  return transfer_all(
      bytes, offset, [&](std::byte* data, size_t count, off_t at) { return ::pread(file, data, count, at); });
}

}  // namespace ferrite::core
