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

/// The accesses of statements, by storage, and the edges from each access to the earlier ones that must
/// precede it.
struct Dependencies {
  std::vector<std::vector<BufferId>> reads, writes;     ///< by statement: storages, each once
  std::vector<std::vector<uint32_t>> readers, writers;  ///< by storage: statements, in order
  /// By statement: predecessors and successors. Edges through one buffer that follow from others by
  /// transitivity are left out.
  std::vector<std::vector<uint32_t>> before, after;

  static Dependencies of(const LoopProgram& program);
};

/// Storages that the caller owns: results, and inputs in whose memory the model may store results.
std::set<BufferId> storages_of_caller(const LoopProgram& program);
/// Whether no other statement lies on a path between two of the statements, which are in order.
bool is_convex(const Dependencies& deps, std::span<const uint32_t> statements);

/// Appends an item to one of the lists above unless it is there.
void add_once(std::vector<uint32_t>& list, uint32_t item);

/// A fused group: statements in order, the first `shared` variables of all of them being one loop nest.
struct Group {
  std::vector<uint32_t> statements;
  uint32_t shared = 0;
  friend bool operator==(const Group&, const Group&) = default;
};

/// A program with its groups. Statements are numbered group by group, so that the program is in the groups'
/// order of execution.
struct Schedule {
  LoopProgram program;
  std::vector<Group> groups;  ///< in order of execution
};

/// Renumbers the statements of the groups from 0 on, in their order, and drops statements that are in no
/// group.
void number_by_group(Schedule& schedule);

/// The requests of pre_fusion passes: pairs of statement numbers with first < second.
struct FusionRequests {
  std::set<std::pair<uint32_t, uint32_t>> forbidden;
  std::vector<std::pair<uint32_t, uint32_t>> forced;
};

class OperandAdvisor;

/// The devices of a program that uses several, and for each statement the device that runs it as a kernel of
/// its own. A kernel runs on one device, so statements of different devices are not fused.
struct DeviceAssignment {
  std::vector<std::string> devices;  ///< names, for messages
  std::vector<uint32_t> of;          ///< by statement; empty: there is one device

  bool apart(uint32_t first, uint32_t second) const { return !of.empty() && of[first] != of[second]; }
};

/// The limits of fusion, and the features that are switched off.
struct FusionLimits {
  TargetNumbers target;
  DeviceAssignment assignment;
  bool prologues = false;              ///< code generators support contractions whose operands are computed
  OperandAdvisor* operands = nullptr;  ///< asked before operands become computed; null where there is none
  size_t most_statements = 48;         ///< of one group
  /// of one group: larger kernels take more than linear time to compile, while one more intermediate tensor
  /// costs little
  size_t most_operations = 256;
  Features without;  ///< without `fuse` every statement is a kernel
};

/// Inlines bodies of producers into their consumers where this saves more traffic than it recomputes: views
/// always, maps with one reader, and cheap maps whose inputs are no larger than their result. Statements
/// without readers are removed.
void inline_producers(LoopProgram& program, const TargetNumbers& target, Ledger& ledger,
                      const DeviceAssignment& assignment = {});

class FusionAdvisor;

/// Groups statements along producer-consumer pairs; the pair that shares most bytes comes first. Refusals are
/// recorded in the ledger with a category (mismatch.h). An advisor, where there is one, may order the pairs,
/// and its decision on a legal pair overrules the cost.
Schedule fuse(LoopProgram program, const FusionRequests& requests, const FusionLimits& limits, Ledger& ledger,
              FusionAdvisor* advisor = nullptr);

/// Whether `map` has all loops of `reduce`, including the reduction loops, and computes the inputs of
/// `reduce` at the same points.
bool is_prologue(const LoopProgram& program, const ProgramStatement& map, const ProgramStatement& reduce);

/// Whether both have loops of the same extents and kinds, one by one.
bool same_loops(const Statement& x, const Statement& y);
/// The most reductions of one statement: each needs registers for the vectors that it accumulates.
constexpr size_t most_reductions = 4;
/// Whether both reduce over the same loops, with at most `most_reductions` in all, and read a common buffer,
/// so that they can share a load.
bool reduces_beside(const LoopProgram& program, const ProgramStatement& into, const ProgramStatement& other);
/// Adds the reductions of `other`, which has the same loops, to `into`.
void join_reductions(LoopProgram& program, ProgramStatement& into, ProgramStatement other);

/// Merges the statements of each group. Reductions that can share loads are joined (reduces_beside()). A map
/// is merged into an earlier statement with the same loops: into the finish part of a reduction or a
/// contraction, as an epilogue, or into a map. A map is also merged into a later reduction that reads it. Run
/// after post_fusion, because statement numbers change. `apart`: by group, whether it stays as it is; empty:
/// none does.
void merge_statements(Schedule& schedule, const std::vector<bool>& apart = {});

/// Removes stores without readers, statements that store nothing and groups that are empty then.
/// merge_statements() keeps the numbers of groups if this ran before.
void drop_unread(Schedule& schedule);

/// Makes the first step of each epilogue of a contraction a statement of its own, for providers that support
/// only a part of the epilogue.
void expose_epilogues(Schedule& schedule);

/// Keeps the first `head` statements in the group; the rest becomes the group after it.
void split_group(Schedule& schedule, size_t group, size_t head);

/// By group: whether it reads only constants and results of such groups, so that it runs once, at load.
std::vector<bool> init_groups(const Schedule& schedule);
/// The storages that those groups write.
std::set<BufferId> init_buffers(const Schedule& schedule, const std::vector<bool>& init);

/// The kernel of one group and, for each of its non-local buffers in order, the program's buffer.
struct GroupKernel {
  Kernel kernel;
  std::vector<BufferId> arguments;
};

/// Makes kernels of the groups of a schedule, which must outlive this object and must not change.
class KernelMaker {
 public:
  explicit KernelMaker(const Schedule& schedule);
  GroupKernel make(size_t group) const;

 private:
  static constexpr size_t nobody = ~size_t{0}, several = nobody - 1;
  const Schedule& schedule_;
  std::vector<size_t>
      /// by storage: the only group that accesses it; `several` also where the storage is an input or an
      /// output
      users_;
};

/// Inputs of the kernel that are among these storages become constants.
void mark_constants(GroupKernel& group, const std::set<BufferId>& storages);

/// A buffer's name in messages: "input 'x'", or "constant 3" where it has no name; empty for a temporary.
std::string model_name(const ProgramBuffer& buffer);
/// The model nodes of a statement, for messages: "Conv_3, Relu_4".
std::string origin_names(const ProgramStatement& statement);

/// The number of leading loops that statements x and y can share, at most `limit`: the loops have the same
/// extents, and both statements address each buffer that one of them writes by these loops in the same way.
uint32_t common_loops(const LoopProgram& program, uint32_t x, uint32_t y, uint32_t limit);

/// FE-S03 where the groups cannot run one after the other: a statement is in no group or in two, comes after
/// one that depends on it, or cannot run in the loops that its group shares.
Result<void> verify(const Schedule& schedule);

/// The text form (docs/text.md): the loop program with its statements grouped. Parsing the text and printing
/// it again gives the same text.
std::string print(const Schedule& schedule);
/// The requests of pre_fusion passes, one pair a line.
std::string print(const FusionRequests& requests);

/// `name`: the file's name, for errors. Errors: FE-G01, FE-G02 and FE-K06 as for loop programs, FE-S03.
Result<Schedule> parse(std::string_view text, std::string name);

}  // namespace ferrite::core::schedule
