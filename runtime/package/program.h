// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A linked program as bytes: what an executable is made from, without devices, code and weights.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/executable.h"

namespace ferrite::core::package {

/// Of a kernel that a library launches: the provider's id; empty for what the runtime launches.
struct Part {
  std::string library;
  uint64_t offset = 0, bytes = 0;  ///< of its code, in the section of code
};

struct Figures {
  uint64_t nodes = 0, statements = 0;
};

/// `keep` takes the bytes of a constant and gives the offset at which they are kept. `code` becomes the section of code. FE-K54
/// where a launch calls a function of a plugin, which no file can hold.
Result<std::vector<std::byte>> write_program(const runtime::Executable& executable,
                                             std::span<const std::string> blobs, const Figures& figures,
                                             const std::function<uint64_t(std::span<const std::byte>)>& keep,
                                             std::vector<std::byte>& code);

/// A program that was read. It is no more than what the file says until its devices, code and libraries are given.
struct Read {
  std::vector<runtime::Target> needs;  ///< a runtime of each kind that takes code for the target
  std::vector<Part> parts;             ///< by kernel
  std::shared_ptr<runtime::Executable> executable;
  Figures figures;
};
/// The kinds of devices that a program begins with; any bytes are answered.
std::vector<std::string> kinds_in(std::span<const std::byte> program);

/// Any bytes are answered: FE-K52 for what is no program, or names a device, kernel, buffer, weight or code that is not there. The
/// constants of the executable lie in `weights`, which outlives it.
Result<Read> read_program(std::span<const std::byte> program, std::span<const std::byte> weights,
                          uint64_t code_bytes);

}  // namespace ferrite::core::package
