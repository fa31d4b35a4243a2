// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The schedule: which statements become one kernel, and in which order the kernels run.
#pragma once

#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/ir/loop/program.h"
#include "core/schedule/features.h"
#include "core/support/error.h"
#include "core/support/ledger.h"
#include "runtime/target/target_numbers.h"

namespace ferrite::core::schedule {

using runtime::Activations;
using runtime::Products;
using runtime::TargetNumbers;

using namespace ferrite::core::loop;

/// Who reads and writes what, by storage; edges from every earlier access that must come first.
struct Dependencies {
  std::vector<std::vector<BufferId>> reads, writes;     ///< by statement: storages, each once
  std::vector<std::vector<uint32_t>> readers, writers;  ///< by storage: statements, in order
  /// By statement: predecessors and successors, of several through the same buffer those from which the others follow.
  std::vector<std::vector<uint32_t>> before, after;

  static Dependencies of(const LoopProgram& program);
};

/// A fused group: statements in order, the first `shared` variables of all of them being one loop nest.
struct Group {
  std::vector<uint32_t> statements;
  uint32_t shared = 0;
  friend bool operator==(const Group&, const Group&) = default;
};

/// Statements are numbered group by group, so that the program is in the groups' order of execution.
struct Schedule {
  LoopProgram program;
  std::vector<Group> groups;  ///< in an order of execution
};

/// Numbers the statements of the groups from 0 on, in their order, and drops those that are in no group.
void number_by_group(Schedule& schedule);

/// What passes of pre_fusion asked for; pairs of statement numbers with first < second.
struct FusionRequests {
  std::set<std::pair<uint32_t, uint32_t>> forbidden;
  std::vector<std::pair<uint32_t, uint32_t>> forced;
};

class OperandAdvisor;

/// The devices of a program that has several, and which of them runs each of its statements where that is a kernel alone. Kernels are
/// placed whole, so what would run elsewhere is not computed in one of them.
struct DeviceAssignment {
  std::vector<std::string> devices;  ///< for people
  std::vector<uint32_t> of;          ///< by statement; empty: there is one device

  bool apart(uint32_t first, uint32_t second) const { return !of.empty() && of[first] != of[second]; }
};

/// By what groups are formed, and what is switched off.
struct FusionLimits {
  TargetNumbers target;
  DeviceAssignment assignment;
  bool prologues = false;              ///< code generators take contractions whose operands are computed
  OperandAdvisor* operands = nullptr;  ///< asked about those that would be; null: there is none
  size_t most_statements = 48;         ///< of one group
  /// Of one group: more take longer than linearly to compile, and what one more intermediate tensor costs is little beside them.
  size_t most_operations = 256;
  Features without;  ///< without `fuse` every statement is a kernel
};

/// Puts bodies of producers into their consumers where that saves more traffic than it recomputes: views always, maps with one
/// reader, cheap maps whose inputs are no larger than their result. Statements that nobody reads any more are dropped.
void inline_producers(LoopProgram& program, const TargetNumbers& target, Ledger& ledger,
                      const DeviceAssignment& assignment = {});

class FusionAdvisor;

/// Groups statements along producer-consumer pairs, the pair that shares most bytes first. Refusals go to the ledger with a
/// category (mismatch.h). An advisor, where there is one, may order the pairs and decides which legal ones are fused, whatever
/// they cost.
Schedule fuse(LoopProgram program, const FusionRequests& requests, const FusionLimits& limits, Ledger& ledger,
              FusionAdvisor* advisor = nullptr);

/// Whether `map` has all loops of `reduce`, those of the reduction too, and makes what that reads at the same point.
bool is_prologue(const LoopProgram& program, const ProgramStatement& map, const ProgramStatement& reduce);

/// Whether both have loops of the same extents and kinds, one by one.
bool same_loops(const Statement& x, const Statement& y);
/// Reductions of one statement: each takes registers for the vectors that it reduces side by side.
constexpr size_t most_reductions = 4;
/// Whether both reduce over the same loops, at most that many in all, and read something that both may take from one load.
bool reduces_beside(const LoopProgram& program, const ProgramStatement& into, const ProgramStatement& other);
/// Puts the reductions of `other`, which has the same loops, into `into`.
void join_reductions(LoopProgram& program, ProgramStatement& into, ProgramStatement other);

/// Inside each group, joins reductions that reduce side by side (reduces_beside()), and puts maps into the statement before them that has
/// the same loops: an epilogue into a reduction's or a contraction's finish part, a map into a map; and maps into the reduction behind
/// them that reads them. Run after post_fusion, because it changes statement numbers. `apart`: groups that stay as they are, by number;
/// none where empty.
void merge_statements(Schedule& schedule, const std::vector<bool>& apart = {});

/// Drops stores that nobody reads, statements that store nothing and groups that are empty then. After this merge_statements()
/// keeps the numbers of groups.
void drop_unread(Schedule& schedule);

/// The first step of each epilogue of a contraction becomes a statement of its own, for providers that take a part of it.
void expose_epilogues(Schedule& schedule);

/// The first `head` statements of a group stay in it, the rest becomes the group behind it.
void split_group(Schedule& schedule, size_t group, size_t head);

/// By group: whether it reads constants only, or what such groups make, so that it runs once, at load.
std::vector<bool> init_groups(const Schedule& schedule);
/// The storages that those groups write.
std::set<BufferId> init_buffers(const Schedule& schedule, const std::vector<bool>& init);

/// The kernel of one group and, for each of its non-local buffers in order, the program's buffer.
struct GroupKernel {
  Kernel kernel;
  std::vector<BufferId> arguments;
};

/// Makes kernels of the groups of a schedule, which lives as long as this and does not change.
class KernelMaker {
 public:
  explicit KernelMaker(const Schedule& schedule);
  GroupKernel make(size_t group) const;

 private:
  static constexpr size_t nobody = ~size_t{0}, several = nobody - 1;
  const Schedule& schedule_;
  std::vector<size_t>
      users_;  ///< by storage: the one group that touches it; several also where it leaves the program
};

/// The inputs among these storages become constants.
void mark_constants(GroupKernel& group, const std::set<BufferId>& storages);

/// A buffer that the model knows, for messages: "input 'x'", "constant 3" where it has no name; empty of a temporary one.
std::string model_name(const ProgramBuffer& buffer);
/// Model nodes of a statement, for messages: "Conv_3, Relu_4".
std::string origin_names(const ProgramStatement& statement);

/// How many leading loops statements x and y can share, at most `limit`: same extents, and every buffer that one writes and
/// the other touches is addressed by these loops alike.
uint32_t common_loops(const LoopProgram& program, uint32_t x, uint32_t y, uint32_t limit);

/// FE-S03 where the groups cannot run one after the other: a statement is in none or in two, stands behind one that depends
/// on it, or cannot run in the loops that its group shares.
Result<void> verify(const Schedule& schedule);

/// Text form (docs/text.md): the loop program with its statements grouped. What print gives parses to what prints the same.
std::string print(const Schedule& schedule);
/// What the passes of pre_fusion asked for, a line a pair.
std::string print(const FusionRequests& requests);

/// `name` is the file's, for errors: FE-G01, FE-G02 and FE-K06 as of loop programs, FE-S03.
Result<Schedule> parse(std::string_view text, std::string name);

}  // namespace ferrite::core::schedule
