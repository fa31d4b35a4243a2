// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A linked program as bytes: everything in an executable except devices, code and weights.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/executable.h"

namespace ferrite::core::package {

/// The code of one kernel. `library`: the id of the provider that launches it; empty if the runtime does.
struct Part {
  std::string library;
  uint64_t offset = 0, bytes = 0;  ///< range in the code section
};

struct Figures {
  uint64_t nodes = 0, statements = 0;
};

/// `keep` stores the bytes of a constant and returns their offset. `code` receives the code section. FE-K54
/// if a launch calls a plugin's function, which cannot be stored in a file.
Result<std::vector<std::byte>> write_program(const runtime::Executable& executable,
                                             std::span<const std::string> blobs, const Figures& figures,
                                             const std::function<uint64_t(std::span<const std::byte>)>& keep,
                                             std::vector<std::byte>& code);

/// A program read from bytes. It only has the file's information until devices, code and libraries are added.
struct Read {
  /// The devices it needs: a runtime of each kind that accepts code for the target.
  std::vector<runtime::Target> needs;
  std::vector<Part> parts;  ///< by kernel
  std::shared_ptr<runtime::Executable> executable;
  Figures figures;
};
/// The device kinds of a program, read from its beginning. Safe for untrusted bytes.
std::vector<std::string> kinds_in(std::span<const std::byte> program);

/// Safe for untrusted bytes. FE-K52 if they are no program or refer to a device, kernel, buffer, weight or
/// code that does not exist. The constants of the executable point into `weights`, which must outlive it.
Result<Read> read_program(std::span<const std::byte> program, std::span<const std::byte> weights,
                          uint64_t code_bytes);

}  // namespace ferrite::core::package
