// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The code of a program's kernels: made by their providers, or found in the cache.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/link/builder.h"
#include "core/link/kernel_cache.h"
#include "core/link/kernel_instances.h"

namespace ferrite::core::runtime {

/// What came of a unit.
struct Code {
  cache::CompiledKernel kernel;
  std::string key;     ///< of its entry in the cache; empty: it is not kept
  bool found = false;  ///< it is from the cache
  std::optional<Error> failed;
};

class CompiledKernels {
 public:
  /// Both outlive it.
  CompiledKernels(const Devices& devices, const BuildOptions& options);

  /// The code of every unit, in their order; several are made at a time, as BuildOptions::jobs says. None of it is kept yet.
  std::vector<Code> make(const KernelInstances& units) const;
  /// Puts what was not found into the cache.
  void keep(const KernelInstance& unit, const Code& code) const;
  /// Code that was found and is of no use, and why: it leaves the cache, and what the provider makes of the unit takes its place.
  /// FE-K22, FE-P67.
  Result<Code> make_anew(const KernelInstance& unit, const std::string& key, const std::string& reason) const;

 private:
  Code find_or_compile(const KernelInstance& unit) const;
  Result<cache::CompiledKernel> compile(const KernelInstance& unit) const;
  std::string key_of(const KernelInstance& unit) const;

  const Devices& devices_;
  const BuildOptions& options_;
  /// All that code depends on beside the kernel; by who makes it.
  std::map<const Compiler*, std::string> makers_;
};

}  // namespace ferrite::core::runtime
