// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// From a module to machine code.
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

/// LLVM's target machines, for those who compile one after the other: making one takes as long as the code of a small kernel. May be
/// used by many threads.
class Machines {
 public:
  using Taken = std::unique_ptr<llvm::TargetMachine>;
  /// One that nobody else has, until it is given back. Throws Failure when LLVM does not know the triple.
  Taken take(const Target& target);
  void give_back(const Target& target, Taken machine);

 private:
  std::mutex mutex_;
  std::vector<std::pair<std::string, Taken>> kept_;  ///< by what they generate code for
};

/// One of them, for one thread at a time; make one for each compilation. The LLVM target must have been initialised by the backend.
class Machine {
 public:
  /// Both outlive it. Throws Failure when LLVM does not know the triple.
  Machine(Machines& machines, const Target& target);
  ~Machine();
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;

  /// Some parts of the code generator take time that grows faster than the code. From here on, modules of more than 300 instructions
  /// go without those, which long bodies of element-wise loops do not miss; the loops of contractions do.
  void compile_long_code_fast() { fast_ = true; }

  /// Runs the short pipeline: what explicit-vector IR gains from, in a few milliseconds.
  void optimise(llvm::Module& module);
  /// Relocatable ELF, or what the machine has in its place. `last` is run behind the code generator's own passes, if it is given.
  std::string object(llvm::Module& module, std::unique_ptr<llvm::Pass> last = nullptr);
  std::string assembly(llvm::Module& module);
  /// Values that the last module made by object() or assembly() puts onto the stack because no register is left for them: the
  /// instructions that do, counted once each, whatever loop they are in.
  int64_t spills() const { return spills_; }

 private:
  std::string generate(llvm::Module& module, llvm::CodeGenFileType type, std::unique_ptr<llvm::Pass> last);
  Machines& machines_;
  const Target& target_;
  Machines::Taken machine_;
  bool fast_ = false;
  bool failed_ = false;  ///< in the midst of generating code
  int64_t spills_ = 0;
};

/// The module's text.
std::string listing_of(const llvm::Module& module);

}  // namespace ferrite::emitter
