// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ferrite/emitter/provide.h"

#include <llvm/IR/Verifier.h>
#include <llvm/Support/raw_ostream.h>

#include <algorithm>
#include <utility>

#include "ferrite/error.hpp"
#include "ferrite/kernel.hpp"

namespace ferrite::emitter {

std::string comment(std::string_view text, std::string_view mark) {
  std::string result;
  while (!text.empty()) {
    const auto line = text.substr(0, text.find('\n'));
    result += std::string(mark) + " " + std::string(line) + "\n";
    text.remove_prefix(std::min(text.size(), line.size() + 1));
  }
  return result;
}

loop::Kernel read_kernel_bytes(Bytes bytes, std::string_view code) {
  std::string error;
  auto kernel = read_kernel(bytes, &error);
  if (!kernel) fail(code, "the kernel cannot be read: ", error);
  return std::move(*kernel);
}

std::vector<fe_argument_needs> arguments_of(const loop::Kernel& kernel) {
  std::vector<fe_argument_needs> arguments;
  for (const auto& buffer : kernel.buffers)
    if (buffer.kind != FE_BUFFER_LOCAL)
      arguments.push_back({buffer.bytes(), buffer.kind == FE_BUFFER_OUTPUT ? 1u : 0u, 0});
  return arguments;
}

void verify_module(const llvm::Module& module, std::string_view code) {
  std::string problem;
  llvm::raw_string_ostream stream(problem);
  if (llvm::verifyModule(module, &stream))
    throw Failure(FE_EINTERNAL, std::string(code), "the emitter made a malformed module: " + problem);
}

}  // namespace ferrite::emitter
