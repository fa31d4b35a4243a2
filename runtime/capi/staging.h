// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The way between a caller's tensors and the memory in which a program has its inputs and outputs.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "runtime/capi/tensors.h"

namespace ferrite::core::capi {

/// Runs of one program, one at a time: its context, and copies of the tensors that it cannot read or write in place.
class Staging {
 public:
  /// `native_stream`, where not null: the caller's, of the first device's driver, to which the work is given.
  explicit Staging(std::shared_ptr<const RunnableProgram> program, void* native_stream);
  ~Staging();
  Staging(const Staging&) = delete;

  /// What RunnableProgram::run() says; FE-D03 and FE-D21 where copies need memory, or fail. On the caller's stream it returns when the work is
  /// given to it, where nothing is left for the host to do.
  Result<void> run(std::span<const BoundTensor> inputs, std::span<const BoundTensor> outputs);
  /// Memory for tensors of the device that are used in this stream.
  Result<DeviceMemory> device_memory(std::shared_ptr<const Engine> engine);

 private:
  /// What stands for a tensor that is not used in place, kept for the next run.
  struct Copy {
    void* device = nullptr;
    std::vector<char> host;
  };
  bool in_place(const BoundTensor& tensor) const;
  Result<void> copy(uint32_t direction, void* to, const void* from, int64_t bytes) const;
  /// Memory for the tensor where the program has its ports.
  Result<void*> memory(Copy& copy, const BoundTensor& tensor);
  Result<void> bring(Copy& copy, const BoundTensor& tensor, void* to);
  Result<void> take_back(Copy& copy, const void* from, const BoundTensor& tensor);

  std::shared_ptr<const RunnableProgram> program_;
  const runtime::Executable* executable_;  ///< null: the interpreter
  bool apart_ = false;                     ///< ports are in the memory of the first device
  void* native_stream_;
  std::shared_ptr<void> stream_;  ///< of tensors in the device's memory
  std::unique_ptr<runtime::Executable::Context> context_;
  std::vector<Copy> copies_;  ///< of the inputs, then of the outputs
};

}  // namespace ferrite::core::capi
