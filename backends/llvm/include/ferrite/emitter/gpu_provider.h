// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The part of a provider that all GPU targets share: from kernels to device code. Needs no device.
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

/// Numbers of a device beyond its description and the emitter's target.
struct GpuNumbers {
  int64_t bytes_a_second = 1;        ///< bandwidth of device memory
  int64_t operations_a_cycle = 128;  ///< operations of one multiprocessor per cycle
  int64_t alignment = 256;           ///< alignment of allocations, in bytes
  int64_t line_bytes = 128;
  int64_t launch_ns = 2000;
};

/// The code of one kernel.
struct GpuCode {
  std::string code;
  std::string listing;  ///< listing of the code; empty if the code is text itself
  int64_t registers = -1, spills = -1;
};

/// A provider whose device kind is its id and whose blobs are DeviceCode of the format `id`. Callable from
/// any thread.
class GpuProvider : public Provider {
 public:
  std::string device_kind() const final { return id(); }
  uint64_t features() const final { return FE_FLAT_PROLOGUES; }
  std::unique_ptr<ferrite::Target> open_target(Bytes description) final;
  std::vector<Candidate> propose(ferrite::Target& target, Bytes kernel) final;
  CompileResult compile(ferrite::Target& target, const CompileRequest& request) final;
  std::string fingerprint() final;

 protected:
  /// The machine that a description names, and its numbers. Initialises the machine's code generator. Throws
  /// Failure if the description names no known machine.
  virtual Target machine_of(std::string_view description, GpuNumbers& numbers) const = 0;
  /// Adds the attributes about block sizes that the code generator needs to the entry.
  virtual void mark_entry(llvm::Function& entry, unsigned threads) const = 0;
  /// `want_listing`: make a listing if the code is not text.
  virtual GpuCode generate(Machine& machine, llvm::Module& module, bool want_listing) const = 0;
  /// The mark that starts a comment line in its listings.
  virtual std::string_view comment_mark() const { return "//"; }

 private:
  Machines machines_;
};

}  // namespace ferrite::emitter
