// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "jit.h"

#include <llvm/ExecutionEngine/Orc/AbsoluteSymbols.h>
#include <llvm/ExecutionEngine/Orc/SelfExecutorProcessControl.h>
#include <llvm/Support/MemoryBuffer.h>

#include <cmath>
#include <cstring>

#include "ferrite/error.hpp"

namespace ferrite::cpu {

namespace {

/// The value, or a Failure with the error's text.
template <class T>
T take(llvm::Expected<T> result, const char* what) {
  if (!result) fail("ferrite.cpu/link", what, ": ", llvm::toString(result.takeError()));
  return std::move(*result);
}
void check(llvm::Error error, const char* what) {
  if (error) fail("ferrite.cpu/link", what, ": ", llvm::toString(std::move(error)));
}

}  // namespace

Jit::Jit() {
  auto control = take(llvm::orc::SelfExecutorProcessControl::Create(), "this process cannot take code");
  session_ = std::make_unique<llvm::orc::ExecutionSession>(std::move(control));
  // The session reports causes to this handler; calls return only their consequences. Nothing is printed.
  session_->setErrorReporter([this](llvm::Error error) {
    std::lock_guard lock(mutex_);
    reported_ = llvm::toString(std::move(error));
  });
  linker_ = std::make_unique<llvm::orc::ObjectLinkingLayer>(*session_);
  auto add = [&](const char* name, auto* function) {
    functions_[session_->intern(name)] = {llvm::orc::ExecutorAddr::fromPtr(function),
                                          llvm::JITSymbolFlags::Exported};
  };
  add("memcpy", &std::memcpy);
  add("memmove", &std::memmove);
  add("memset", &std::memset);
  add("fmod", static_cast<double (*)(double, double)>(&std::fmod));
  add("fmodf", static_cast<float (*)(float, float)>(&std::fmod));
}

Jit::~Jit() {
  if (auto error = session_->endSession()) llvm::consumeError(std::move(error));
}

llvm::orc::JITDylib* Jit::load(std::span<const std::span<const std::byte>> objects, std::string_view name) {
  auto& module = session_->createBareJITDylib(std::string(name) + "." + std::to_string(modules_++));
  try {
    check(module.define(llvm::orc::absoluteSymbols(functions_)), "the library functions");
    for (auto object : objects) {
      llvm::StringRef bytes(reinterpret_cast<const char*>(object.data()), object.size());
      check(linker_->add(module, llvm::MemoryBuffer::getMemBufferCopy(bytes, name)), "an object");
    }
  } catch (...) {
    unload(&module);
    throw;
  }
  return &module;
}

void Jit::unload(llvm::orc::JITDylib* module) { check(session_->removeJITDylib(*module), "unloading"); }

void* Jit::find(llvm::orc::JITDylib* module, std::string_view symbol) {
  if (void* found = find_if_there(module, symbol)) return found;
  fail("ferrite.cpu/link", "linking '", symbol, "': the code has no such symbol");
}

void* Jit::find_if_there(llvm::orc::JITDylib* module, std::string_view symbol) {
  auto name = session_->intern(llvm::StringRef(symbol.data(), symbol.size()));
  const auto order =
      llvm::orc::makeJITDylibSearchOrder({module}, llvm::orc::JITDylibLookupFlags::MatchAllSymbols);
  auto found = session_->lookup(
      order, llvm::orc::SymbolLookupSet(name, llvm::orc::SymbolLookupFlags::WeaklyReferencedSymbol));
  if (found) {
    const auto entry = found->find(name);
    return entry == found->end() ? nullptr : entry->second.getAddress().toPtr<void*>();
  }
  auto consequence = llvm::toString(found.takeError());
  std::lock_guard lock(mutex_);
  fail("ferrite.cpu/link", "linking '", symbol, "': ", consequence, reported_.empty() ? "" : "; ", reported_);
}

}  // namespace ferrite::cpu
