// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/support/files/weights.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <atomic>
#include <cerrno>
#include <cstring>

#include "core/support/files/file_descriptor.h"

namespace ferrite::core::graph {
namespace {

Error cannot_map(const std::string& path, std::string_view reason) {
  return at(path, error(FE_EINVALID, "FE-G40", "{}", reason));
}

}  // namespace

Result<std::shared_ptr<const MappedFile>> MappedFile::open(const std::string& path) {
  // Without O_NONBLOCK, opening a pipe would wait for a writer.
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat status;
  if (!file || ::fstat(file.get(), &status) != 0) return cannot_map(path, std::strerror(errno));
  if (!S_ISREG(status.st_mode))
    return cannot_map(path, S_ISDIR(status.st_mode) ? "it is a folder" : "it is no regular file");
  std::shared_ptr<MappedFile> result(new MappedFile);
  result->size_ = static_cast<size_t>(status.st_size);
  if (result->size_ != 0) {
    void* data = ::mmap(nullptr, result->size_, PROT_READ, MAP_PRIVATE, file.get(), 0);
    if (data == MAP_FAILED) return cannot_map(path, std::strerror(errno));
    result->data_ = static_cast<const std::byte*>(data);
  }
  result->identity_ = {static_cast<uint64_t>(status.st_dev),
                       static_cast<uint64_t>(status.st_ino),
                       static_cast<uint64_t>(status.st_size),
                       int64_t{status.st_mtim.tv_sec} * 1'000'000'000 + status.st_mtim.tv_nsec,
                       0,
                       static_cast<uint64_t>(status.st_size)};
  return std::shared_ptr<const MappedFile>(std::move(result));
}

Result<std::shared_ptr<const MappedFile>> MappedFile::copy_of(std::span<const std::byte> bytes) {
  static std::atomic<uint64_t> copies = 0;
  std::shared_ptr<MappedFile> result(new MappedFile);
  result->size_ = bytes.size();
  if (!bytes.empty()) {
    void* data = ::mmap(nullptr, bytes.size(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data == MAP_FAILED) return cannot_map("(memory)", std::strerror(errno));
    std::memcpy(data, bytes.data(), bytes.size());
    result->data_ = static_cast<const std::byte*>(data);
  }
  // No device of a file system has number 0.
  result->identity_ = {0, ++copies, bytes.size(), 0, 0, bytes.size()};
  return std::shared_ptr<const MappedFile>(std::move(result));
}

MappedFile::~MappedFile() {
  if (data_) ::munmap(const_cast<std::byte*>(data_), size_);
}

Result<std::shared_ptr<const MappedFile>> WeightStore::map(const std::string& file, uint64_t offset,
                                                           uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  auto& mapped = files_[file];
  if (!mapped) {
    const bool beside = !folder_.empty() && !file.starts_with('/');
    auto opened = MappedFile::open(beside ? folder_ + "/" + file : file);
    // Set no place: the node that reads the weight knows a better one.
    if (!opened)
      return error(opened.error().status, "FE-G40", "cannot read '{}': {}", opened.error().where,
                   opened.error().text);
    mapped = std::move(*opened);
  }
  const uint64_t size = mapped->bytes().size();
  if (offset > size || bytes > size - offset) {
    return error(FE_EINVALID, "FE-G41", "bytes [{}, {} + {}) do not lie in weight file '{}' of {} bytes",
                 offset, offset, bytes, file, size);
  }
  return mapped;
}

Result<std::span<const std::byte>> WeightStore::bytes(const std::string& file, uint64_t offset,
                                                      uint64_t bytes) {
  FE_TRY(const auto mapped, map(file, offset, bytes));
  return mapped->bytes().subspan(offset, bytes);
}

Result<WeightIdentity> WeightStore::identity(const std::string& file, uint64_t offset, uint64_t bytes) {
  FE_TRY(const auto mapped, map(file, offset, bytes));
  WeightIdentity identity = mapped->identity();
  identity.offset = offset;
  identity.bytes = bytes;
  return identity;
}

}  // namespace ferrite::core::graph
