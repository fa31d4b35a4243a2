// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// From an LLVM module to machine code.
#pragma once

#include <llvm/IR/Module.h>
#include <llvm/Pass.h>
#include <llvm/Target/TargetMachine.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "ferrite/emitter/target.h"

namespace ferrite::emitter {

/// A pool of LLVM target machines for successive compilations: creating one takes as long as compiling a
/// small kernel. Thread-safe.
class Machines {
 public:
  using Taken = std::unique_ptr<llvm::TargetMachine>;
  /// Takes a machine for exclusive use until it is given back. Throws Failure if LLVM does not know the
  /// triple.
  Taken take(const Target& target);
  void give_back(const Target& target, Taken machine);

 private:
  std::mutex mutex_;
  std::vector<std::pair<std::string, Taken>> kept_;  ///< by the key of the target
};

/// One target machine, for one thread at a time; make one for each compilation. The backend must have
/// initialised the LLVM target.
class Machine {
 public:
  /// Both arguments must outlive it. Throws Failure if LLVM does not know the triple.
  Machine(Machines& machines, const Target& target);
  ~Machine();
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;

  /// Some passes of the code generator take more than linear time. After this call, modules of more than 300
  /// instructions skip them. Long bodies of element-wise loops do not need these passes; the loops of
  /// contractions do.
  void compile_long_code_fast() { fast_ = true; }

  /// Runs a short pipeline of a few milliseconds with the passes that help explicitly vectorised IR.
  void optimise(llvm::Module& module);
  /// Returns relocatable ELF, or the machine's equivalent. `last`, if given, runs after the code generator's
  /// own passes.
  std::string object(llvm::Module& module, std::unique_ptr<llvm::Pass> last = nullptr);
  std::string assembly(llvm::Module& module);
  /// Number of register spills in the last module that object() or assembly() compiled. It counts spill
  /// instructions statically, regardless of loops.
  int64_t spills() const { return spills_; }

 private:
  std::string generate(llvm::Module& module, llvm::CodeGenFileType type, std::unique_ptr<llvm::Pass> last);
  Machines& machines_;
  const Target& target_;
  Machines::Taken machine_;
  bool fast_ = false;
  bool failed_ = false;  ///< an error occurred during code generation
  int64_t spills_ = 0;
};

/// The module's text.
std::string listing_of(const llvm::Module& module);

}  // namespace ferrite::emitter
