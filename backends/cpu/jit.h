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

/// A linker. The objects of one call of load() form a module. Callable from any thread. Errors: Failure
/// ferrite.cpu/link.
class Jit {
 public:
  Jit();
  ~Jit();
  Jit(const Jit&) = delete;

  /// Loads objects, which may use each other's symbols and memcpy, memmove, memset and fmod of the C library.
  llvm::orc::JITDylib* load(std::span<const std::span<const std::byte>> objects, std::string_view name);
  void unload(llvm::orc::JITDylib* module);
  void* find(llvm::orc::JITDylib* module, std::string_view symbol);
  /// Null if the module has no such symbol.
  void* find_if_there(llvm::orc::JITDylib* module, std::string_view symbol);

 private:
  std::unique_ptr<llvm::orc::ExecutionSession> session_;
  std::unique_ptr<llvm::orc::ObjectLinkingLayer> linker_;
  llvm::orc::SymbolMap functions_;
  std::mutex mutex_;
  std::string reported_;  ///< text of the latest errors that the session reported
  std::atomic<uint64_t> modules_ = 0;
};

}  // namespace ferrite::cpu
