// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Connects a caller's tensors with the memory in which a program expects its inputs and outputs.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "runtime/capi/tensors.h"

namespace ferrite::core::capi {

/// Runs one program, one run at a time: holds its context, and copies of tensors that it cannot use in place.
class Staging {
 public:
  /// `native_stream`: if not null, the caller's stream of the first device's driver; work is given to it.
  /// `arenas`: for programs that run in the host's memory. Kept by reference.
  Staging(std::shared_ptr<const RunnableProgram> program, void* native_stream, runtime::ArenaPool& arenas);
  ~Staging();
  Staging(const Staging&) = delete;

  /// Errors of RunnableProgram::run(); FE-D03 and FE-D21 if a copy needs memory or fails. On the caller's
  /// stream it returns as soon as the work is queued, unless the host must do something afterwards.
  Result<void> run(std::span<const BoundTensor> inputs, std::span<const BoundTensor> outputs,
                   const ferrite_run_options& options);
  /// Memory for device tensors that are used in this stream.
  Result<DeviceMemory> device_memory(std::shared_ptr<const Engine> engine);

 private:
  /// A copy of a tensor that cannot be used in place. Its memory is reused by the next run.
  struct Copy {
    void* device = nullptr;
    std::vector<char> host;
  };
  bool in_place(const BoundTensor& tensor) const;
  Result<void> copy(uint32_t direction, void* to, const void* from, int64_t bytes) const;
  /// Memory for the copy, where the program expects its ports.
  Result<void*> memory(Copy& copy, const BoundTensor& tensor);
  Result<void> copy_in(Copy& copy, const BoundTensor& tensor, void* to);
  Result<void> copy_out(Copy& copy, const void* from, const BoundTensor& tensor);

  std::shared_ptr<const RunnableProgram> program_;
  const runtime::Executable* executable_;  ///< null: the program is interpreted
  bool apart_ = false;                     ///< ports are in the memory of the first device
  void* native_stream_;
  std::shared_ptr<void> stream_;  ///< for tensors in the device's memory
  std::unique_ptr<runtime::Executable::Context> context_;
  std::vector<Copy> copies_;  ///< of the inputs, then of the outputs
};

}  // namespace ferrite::core::capi
