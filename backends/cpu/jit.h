// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Links relocatable objects into this process.
#pragma once

#include <llvm/ExecutionEngine/Orc/Core.h>
#include <llvm/ExecutionEngine/Orc/ObjectLinkingLayer.h>

#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>

namespace ferrite::cpu {

/// The linker; a module is what one call of load() linked. Any-thread. Errors: Failure, code ferrite.cpu/link.
class Jit {
 public:
  Jit();
  ~Jit();
  Jit(const Jit&) = delete;

  /// Objects that may name each other's symbols, and of the C library memcpy, memmove, memset, fmod alone.
  llvm::orc::JITDylib* load(std::span<const std::span<const std::byte>> objects, std::string_view name);
  void unload(llvm::orc::JITDylib* module);
  void* find(llvm::orc::JITDylib* module, std::string_view symbol);
  /// Null where the module has no such symbol.
  void* find_if_there(llvm::orc::JITDylib* module, std::string_view symbol);

 private:
  std::unique_ptr<llvm::orc::ExecutionSession> session_;
  std::unique_ptr<llvm::orc::ObjectLinkingLayer> linker_;
  llvm::orc::SymbolMap functions_;
  std::mutex mutex_;
  std::string reported_;  ///< what the session said of the latest failures
  std::atomic<uint64_t> modules_ = 0;
};

}  // namespace ferrite::cpu
