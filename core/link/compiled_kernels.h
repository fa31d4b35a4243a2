// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The code of a program's kernels: compiled by their providers, or found in the cache.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/link/builder.h"
#include "core/link/kernel_cache.h"
#include "core/link/kernel_instances.h"

namespace ferrite::core::link {

using namespace ferrite::core::runtime;

/// The result of compiling an instance.
struct Code {
  cache::CompiledKernel kernel;
  std::string key;     ///< of the cache entry; empty: it is not cached
  bool found = false;  ///< it is from the cache
  std::optional<Error> failed;
};

class CompiledKernels {
 public:
  /// Keeps references to both arguments.
  CompiledKernels(const Devices& devices, const BuildOptions& options);

  /// The code of every instance, in the order of the instances. As many are made at a time as
  /// BuildOptions::jobs says. None of it is stored yet.
  std::vector<Code> make(const KernelInstances& instances) const;
  /// Stores the code in the cache, where it was not found there.
  void keep(const KernelInstance& instance, const Code& code) const;
  /// Removes unusable code from the cache, with the reason, and compiles the instance again. FE-K22, FE-P67.
  Result<Code> make_anew(const KernelInstance& instance, const std::string& key,
                         const std::string& reason) const;

 private:
  Code find_or_compile(const KernelInstance& instance) const;
  Result<cache::CompiledKernel> compile(const KernelInstance& instance) const;
  std::string key_of(const KernelInstance& instance) const;

  const Devices& devices_;
  const BuildOptions& options_;
  /// Everything on which code depends besides the kernel; by compiler.
  std::map<const Compiler*, std::string> makers_;
};

}  // namespace ferrite::core::link
