// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/schedule/rewrites/at_load.h"

#include <algorithm>
#include <numeric>

#include "core/ir/loop/body_builder.h"
#include "core/schedule/body.h"

namespace ferrite::core::schedule {
namespace {

// A buffer that runs read may always have this many bytes. A larger one may be this many times larger than
// the constants from which it is computed.
constexpr int64_t most_generated = int64_t{64} << 20, most_times_larger = 8;
// The number of operations that vector code performs while it loads an element, for each one that the
// target's scalar rate allows.
constexpr int64_t vector_operations = 4;

void add_unless_last(std::vector<uint32_t>& list, uint32_t item) {
  if (list.empty() || list.back() != item) list.push_back(item);
}

/// Finds the kernels that run at load. All are candidates at first; each one that is ruled out rules out
/// others.
class Search {
 public:
  /// `kernel_of`: by statement, its kernel, numbered in order of execution; none: in no kernel.
  /// `results_too`: results count as temporaries.
  Search(const LoopProgram& program, std::vector<uint32_t> kernel_of, size_t kernels, bool results_too)
      : program_(program),
        kernel_of_(std::move(kernel_of)),
        at_load_(kernels, true),
        is_candidate_(program.buffers.size()),
        reads_(kernels),
        writes_(kernels),
        readers_(program.buffers.size()),
        writers_(program.buffers.size()),
        last_writer_(program.buffers.size()) {
    for (BufferId b = 0; b < is_candidate_.size(); ++b) {
      const auto& buffer = program.buffers[b];
      is_candidate_[b] = buffer.base == none &&
                         (buffer.role == Role::temporary || (results_too && buffer.role == Role::output));
    }
    if (!results_too)
      for (const BufferId b : program.outputs) is_candidate_[program.storage(b)] = false;
    find_accesses();
    find_sources();
  }

  AtLoad run() {
    for (uint32_t k = 0; k < at_load_.size(); ++k)
      if (reads_what_runs_make(k) ||
          std::ranges::any_of(writes_[k], [&](BufferId b) { return !is_candidate_[b]; }))
        leave(k);
    for (const uint32_t k : calls_) leave(k);
    while (!left_.empty()) {
      const uint32_t k = left_.back();
      left_.pop_back();
      for (const BufferId b : writes_[k]) give_up(b);
      for (const BufferId b : reads_[k])
        if (is_candidate_[b] && (last_writer_[b] >= k || is_too_large(b))) give_up(b);
    }
    AtLoad result;
    for (const uint32_t k : kernel_of_) result.statements.push_back(k != none && at_load_[k]);
    for (BufferId b = 0; b < is_candidate_.size(); ++b)
      result.storages.push_back(is_candidate_[b] && !writers_[b].empty());
    return result;
  }

  const std::vector<bool>& kernels() const { return at_load_; }

 private:
  void find_accesses() {
    for (uint32_t s = 0; s < kernel_of_.size(); ++s) {
      const uint32_t k = kernel_of_[s];
      if (k == none) continue;
      const auto& statement = program_.statements[s];
      const auto read = [&](BufferId id) {
        const BufferId b = program_.storage(id);
        add_unless_last(reads_[k], b);
        add_unless_last(readers_[b], k);
      };
      const auto written = [&](BufferId id) {
        const BufferId b = program_.storage(id);
        add_unless_last(writes_[k], b);
        add_unless_last(writers_[b], k);
        last_writer_[b] = std::max(last_writer_[b], k);
      };
      for (const auto& op : statement.ops)
        if (op.code == FE_OP_LOAD) read(op.buffer);
      for (const auto& store : statement.stores) written(store.buffer);
      for (const BufferId b : statement.call.reads) read(b);
      for (const BufferId b : statement.call.writes) written(b);
      if (statement.kind == FE_STATEMENT_CALL) calls_.push_back(k);
    }
  }

  /// By buffer, an upper bound of the bytes of constants from which it is computed.
  void find_sources() {
    source_bytes_.resize(program_.buffers.size());
    int64_t all = 0;
    for (BufferId b = 0; b < program_.buffers.size(); ++b)
      if (program_.buffers[b].role == Role::constant) all += source_bytes_[b] = program_.buffers[b].bytes();
    // Kernels are in order of execution, so the bounds of their inputs are complete here.
    for (uint32_t k = 0; k < at_load_.size(); ++k) {
      int64_t bytes = 0;
      for (const BufferId b : reads_[k]) bytes = std::min(all, bytes + source_bytes_[b]);
      for (const BufferId b : writes_[k]) source_bytes_[b] = std::min(all, source_bytes_[b] + bytes);
    }
  }

  bool is_too_large(BufferId b) const {
    const int64_t bytes = program_.buffers[b].bytes();
    return bytes > most_generated && bytes / most_times_larger > source_bytes_[b];
  }

  bool reads_what_runs_make(uint32_t kernel) const {
    return std::ranges::any_of(reads_[kernel], [&](BufferId b) {
      return program_.buffers[b].role != Role::constant && (!is_candidate_[b] || writers_[b].empty());
    });
  }

  void leave(uint32_t kernel) {
    if (!at_load_[kernel]) return;
    at_load_[kernel] = false;
    left_.push_back(kernel);
  }

  /// The storage's contents are computed in each run.
  void give_up(BufferId b) {
    if (!is_candidate_[b]) return;
    is_candidate_[b] = false;
    for (const auto* kernels : {&writers_[b], &readers_[b]})
      for (const uint32_t k : *kernels) leave(k);
  }

  const LoopProgram& program_;
  const std::vector<uint32_t> kernel_of_;
  std::vector<bool> at_load_;       ///< by kernel
  std::vector<bool> is_candidate_;  ///< by storage
  std::vector<std::vector<uint32_t>> reads_, writes_, readers_, writers_;
  std::vector<uint32_t> last_writer_;  ///< by storage
  std::vector<uint32_t> calls_, left_;
  std::vector<int64_t> source_bytes_;  ///< by storage
};

std::vector<uint32_t> one_kernel_each(const LoopProgram& program) {
  std::vector<uint32_t> kernels(program.statements.size());
  std::iota(kernels.begin(), kernels.end(), 0U);
  return kernels;
}

}  // namespace

AtLoad at_load(const LoopProgram& program) {
  return Search(program, one_kernel_each(program), program.statements.size(), false).run();
}

std::vector<bool> init_groups(const Schedule& schedule) {
  std::vector<uint32_t> group_of(schedule.program.statements.size(), none);
  for (uint32_t g = 0; g < schedule.groups.size(); ++g)
    for (const uint32_t s : schedule.groups[g].statements) group_of[s] = g;
  Search search(schedule.program, std::move(group_of), schedule.groups.size(), false);
  search.run();
  return search.kernels();
}

bool is_as_cheap_as_stored(const LoopProgram& program, const Statement& map, const TargetNumbers& target) {
  if (map.kind != FE_STATEMENT_MAP || map.stores.size() != 1) return false;
  int64_t operations = 0;
  for (const auto& op : map.ops) {
    if (op.code == FE_OP_INDIRECT || (op.is_prim() && !is_cheap(op.prim()))) return false;
    operations += op.is_prim() ? 1 : 0;
  }
  const int64_t stored =
      map.points(VarKind::parallel) * bits_of(program.buffers[map.stores[0].buffer].dtype) / 8;
  return operations <= vector_operations * target.operations_of_element() &&
         loaded_bytes(program, map) <= stored;
}

void keep_constant_results(LoopProgram& program, const TargetNumbers& target) {
  const auto constant = Search(program, one_kernel_each(program), program.statements.size(), true).run();
  const auto deps = Dependencies::of(program);
  std::vector<bool> has_versions(program.buffers.size());
  for (const auto& buffer : program.buffers)
    if (buffer.base != none) has_versions[buffer.base] = true;
  std::vector<BufferId> kept(program.buffers.size(), none);  // by result: the temporary that replaces it
  for (BufferId b = 0; b < has_versions.size(); ++b) {
    if (program.buffers[b].role != Role::output || !constant.storages[b] || has_versions[b]) continue;
    const bool is_cheap = std::ranges::all_of(deps.writers[b], [&](uint32_t s) {
      return is_as_cheap_as_stored(program, program.statements[s], target);
    });
    if (is_cheap && deps.readers[b].empty()) continue;
    auto temporary = program.buffers[b];
    temporary.role = Role::temporary;
    temporary.number = 0;
    temporary.name.clear();
    kept[b] = static_cast<BufferId>(program.buffers.size());
    program.buffers.push_back(std::move(temporary));
  }
  for (auto& statement : program.statements) {
    const auto move = [&](BufferId& b) {
      if (b < kept.size() && kept[b] != none) b = kept[b];
    };
    for (auto& op : statement.ops)
      if (op.code == FE_OP_LOAD) move(op.buffer);
    for (auto& store : statement.stores) move(store.buffer);
    for (auto& b : statement.call.reads) move(b);
  }
  for (BufferId b = 0; b < kept.size(); ++b) {
    if (kept[b] == none) continue;
    auto copy = copy_statement(program, kept[b], b);
    copy.origins = program.statements[deps.writers[b].back()].origins;
    program.statements.push_back(std::move(copy));
  }
}

}  // namespace ferrite::core::schedule
