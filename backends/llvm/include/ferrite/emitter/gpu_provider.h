// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Kernels to the code of devices that run them as grids, as far as that is the same for all of them; needs no device.
#pragma once

#include <llvm/IR/Module.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ferrite/emitter/machine.h"
#include "ferrite/emitter/target.h"
#include "ferrite/provider.hpp"

namespace ferrite::emitter {

/// What is known of a device beside what its description says and what the emitter asks.
struct GpuNumbers {
  int64_t bytes_a_second = 1;        ///< of its memory
  int64_t operations_a_cycle = 128;  ///< of one multiprocessor
  int64_t alignment = 256;           ///< bytes, of allocations
  int64_t line_bytes = 128;
  int64_t launch_ns = 2000;
};

/// The code of one kernel.
struct GpuCode {
  std::string code;
  std::string listing;  ///< of it; empty where it is text itself
  int64_t registers = -1, spills = -1;
};

/// A provider whose device kind is its id, and whose blobs are DeviceCode of the format `id`. Any-thread.
class GpuProvider : public Provider {
 public:
  std::string device_kind() const final { return id(); }
  uint64_t features() const final { return FE_FLAT_PROLOGUES; }
  std::unique_ptr<ferrite::Target> open_target(Bytes description) final;
  std::vector<Candidate> propose(ferrite::Target& target, Bytes kernel) final;
  CompileResult compile(ferrite::Target& target, const CompileRequest& request) final;
  std::string fingerprint() final;

 protected:
  /// The machine that a description names, whose code generator is initialised by then, and its numbers. Throws Failure where it names
  /// none.
  virtual Target machine_of(std::string_view description, GpuNumbers& numbers) const = 0;
  /// Adds to the entry what the code generator wants to know of its blocks.
  virtual void mark_entry(llvm::Function& entry, unsigned threads) const = 0;
  /// `want_listing`: of code that is no text, one is made.
  virtual GpuCode generate(Machine& machine, llvm::Module& module, bool want_listing) const = 0;
  /// What starts a line of comment in its listings.
  virtual std::string_view comment_mark() const { return "//"; }

 private:
  Machines machines_;
};

}  // namespace ferrite::emitter
