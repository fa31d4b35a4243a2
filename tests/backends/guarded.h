// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstring>

namespace ferrite::kernel_test {

/// Memory between two inaccessible pages, at their end (or, with `low`, at their beginning), filled with 0xff
/// at first.
class Guarded {
 public:
  explicit Guarded(size_t bytes, bool low = false) {
    const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    const size_t inner = (bytes + page - 1) / page * page;
    size_ = inner + 2 * page;
    base_ =
        static_cast<char*>(mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    mprotect(base_, page, PROT_NONE);
    mprotect(base_ + page + inner, page, PROT_NONE);
    std::memset(base_ + page, 0xff, inner);
    data = low ? base_ + page : base_ + page + inner - bytes;
  }
  ~Guarded() { munmap(base_, size_); }
  Guarded(const Guarded&) = delete;
  char* data = nullptr;

 private:
  char* base_ = nullptr;
  size_t size_ = 0;
};

}  // namespace ferrite::kernel_test
