// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/schedule/fusion/fusion_costs.h"

#include <algorithm>

#include <fmt/format.h>

#include "core/schedule/group_kernel.h"
#include "core/schedule/traffic.h"
#include "ferrite/counted.hpp"

namespace ferrite::core::schedule {
namespace {

/// In horizontal fusion, statements whose inner loops are shorter than this lose more by being cut into rows
/// than the second read of their input costs.
constexpr int64_t least_row = 64;

/// A kernel that waits for an operand over more statements than `near_statements` is refused where what it
/// keeps in memory meanwhile exceeds its result by this factor, and by `least_kept` bytes.
constexpr uint32_t near_statements = 128;
constexpr int64_t times_result = 2, least_kept = 16 << 20;

}  // namespace

std::vector<uint32_t> members(const Group& first, const Group& second) {
  auto all = first.statements;
  all.insert(all.end(), second.statements.begin(), second.statements.end());
  std::ranges::sort(all);
  return all;
}

std::string FusionCosts::dearer(const FusionPair& edge, const Group& first, const Group& second,
                                uint32_t shared) const {
  if (auto text = keeps_operands(first, second); !text.empty()) return text;
  // An advisor that knows the prices of all three kernels replaces the estimate below.
  if (auto known = dearer_by_prices(edge, first, second, shared)) return *known;
  const bool contract = std::ranges::any_of(members(first, second), [&](uint32_t s) {
    return program_.statements[s].kind == FE_STATEMENT_CONTRACT;
  });
  if (!contract && !is_one_nest(members(first, second), shared)) {
    int64_t points = 1;
    const auto& vars = program_.statements[first.statements[0]].vars;
    for (uint32_t k = 0; k < shared; ++k) points *= vars[k].extent;
    if (idle_work(work(first) + work(second), points) > limits_.target.launch_points())
      return fmt::format("only {} shared", counted(points, "iteration is", "iterations are"));
  }
  if (edge.reads)
    if (auto text = useless(edge, first, second, shared); !text.empty()) return text;
  if (contract) return {};
  const int64_t apart = moved_bytes(first, second), together = moved_bytes(first, second, shared);
  // Where both groups together take little time, a saved launch outweighs more bytes.
  const bool small = !edge.reads && work(first) + work(second) <= limits_.target.small_work();
  if (edge.reads ? together >= apart : together > apart && !small)
    return fmt::format("{} bytes together, {} bytes apart; uncoalesced ones count {} times", together, apart,
                       limits_.target.uncoalesced);
  return {};
}

std::string FusionCosts::keeps_operands(const Group& first, const Group& second) const {
  const uint32_t last = first.statements.back();
  const auto in = [](const Group& group) {
    return [&](uint32_t s) { return std::ranges::binary_search(group.statements, s); };
  };
  uint32_t awaited = 0;
  std::set<BufferId> passed;  // from the first group to the second
  for (uint32_t s : second.statements)
    for (BufferId b : deps_.reads[s])
      for (uint32_t w : deps_.writers[b])
        if (in(first)(w))
          passed.insert(b);
        else if (!in(second)(w))
          awaited = std::max(awaited, w);
  if (awaited <= last + near_statements) return {};
  std::set<BufferId> dead;  // temporaries of other groups that nothing reads so late
  for (uint32_t s : first.statements)
    for (BufferId b : deps_.reads[s])
      if (!deps_.writers[b].empty() && std::ranges::none_of(deps_.writers[b], in(first)) &&
          deps_.readers[b].back() <= last + near_statements && !callers_.contains(b))
        dead.insert(b);
  const auto bytes_of = [&](const std::set<BufferId>& storages) {
    int64_t bytes = 0;
    for (BufferId b : storages) bytes += program_.buffers[b].bytes();
    return bytes;
  };
  const int64_t kept = bytes_of(dead), made = bytes_of(passed);
  if (kept < made * times_result || kept - made < least_kept) return {};
  return fmt::format("{} bytes of operands would be kept for another operand, {} later", kept,
                     counted(awaited - last, "statement", "statements"));
}

std::optional<std::string> FusionCosts::dearer_by_prices(const FusionPair& edge, const Group& first,
                                                         const Group& second, uint32_t shared) const {
  if (!advisor_ || !advisor_->has_prices()) return {};
  const auto one = price(first), other = one ? price(second) : std::nullopt;
  const auto both = other ? price({members(first, second), shared}) : std::nullopt;
  if (!both) return {};
  const double apart = one->seconds + other->seconds;
  // Without a buffer that passes between the groups, equal cost is no reason to fuse.
  if (edge.reads ? both->seconds < apart : both->seconds <= apart) return "";
  return fmt::format("{:.3g} us together, {:.3g} us apart, by {}", both->seconds * 1e6, apart * 1e6,
                     both->by);
}

std::optional<FusionAdvisor::Price> FusionCosts::price(const Group& group) const {
  const auto inside = [&](uint32_t s) { return std::ranges::binary_search(group.statements, s); };
  return advisor_->price(kernel_of(program_, group, [&](BufferId storage) {
                           return !callers_.contains(storage) &&
                                  std::ranges::all_of(deps_.readers[storage], inside) &&
                                  std::ranges::all_of(deps_.writers[storage], inside);
                         }).kernel);
}

std::string FusionCosts::useless(const FusionPair& edge, const Group& first, const Group& second,
                                 uint32_t shared) const {
  const auto all = members(first, second);
  if (!is_one_nest(all, shared)) {
    int64_t rows = 1;
    const auto& vars = program_.statements[edge.first].vars;
    for (uint32_t k = 0; k < shared; ++k) rows *= std::max<int64_t>(1, vars[k].extent);
    if (edge.bytes / rows > limits_.target.local_bytes)
      return fmt::format("{} bytes that both read in one iteration", edge.bytes / rows);
    for (uint32_t s : all) {
      const auto& statement = program_.statements[s];
      // a map over the rows only, which runs once for each row
      if (statement.vars.size() <= shared) continue;
      int64_t row = 1;
      for (size_t k = shared; k < statement.vars.size(); ++k) row *= statement.vars[k].extent;
      if (row < least_row) return fmt::format("rows of {}", counted(row, "point"));
    }
  }
  return {};
}

int64_t FusionCosts::moved_bytes(const Group& first, const Group& second) const {
  int64_t bytes = 0;
  for (const auto* group : {&first, &second})
    bytes += traffic(program_, group->statements, group->shared,
                     group->statements.size() == 1 || is_one_nest(group->statements, group->shared),
                     limits_.target.uncoalesced);
  return bytes;
}

int64_t FusionCosts::moved_bytes(const Group& first, const Group& second, uint32_t shared) const {
  const auto all = members(first, second);
  return traffic(program_, all, shared, is_one_nest(all, shared), limits_.target.uncoalesced);
}

bool FusionCosts::is_one_nest(std::span<const uint32_t> statements, uint32_t shared) const {
  const auto over = [&](uint32_t s) { return program_.statements[s].vars.size() == shared; };
  const auto reduce = std::ranges::find_if(
      statements, [&](uint32_t s) { return program_.statements[s].kind == FE_STATEMENT_REDUCE && !over(s); });
  if (reduce == statements.end()) return std::ranges::all_of(statements, over);
  const auto& reduction = program_.statements[*reduce];
  size_t reductions = reduction.reductions.size();
  const auto joins = [&](uint32_t s) {
    const auto& other = program_.statements[s];
    reductions += other.reductions.size();
    return reductions <= most_reductions && reduces_beside(program_, reduction, other) &&
           std::none_of(reduce + 1, statements.end(),
                        [&](uint32_t between) { return std::ranges::count(deps_.before[s], between) > 0; });
  };
  return reduction.parallel_count() == shared &&
         std::all_of(statements.begin(), reduce,
                     [&](uint32_t s) { return is_prologue(program_, program_.statements[s], reduction); }) &&
         std::all_of(reduce + 1, statements.end(), [&](uint32_t s) { return over(s) || joins(s); });
}

int64_t FusionCosts::idle_work(int64_t work, int64_t tasks) const {
  const int64_t workers = limits_.target.workers;
  return tasks < workers ? work / std::max<int64_t>(1, tasks) - work / workers : 0;
}

int64_t FusionCosts::work(const Group& group) const {
  int64_t work = 0;
  for (uint32_t s : group.statements) work += work_of(program_.statements[s], limits_.target);
  return work;
}

int64_t FusionCosts::local_bytes(const Group& first, const Group& second, uint32_t shared) const {
  int64_t bytes = 0;
  for (const auto* group : {&first, &second})
    for (uint32_t s : group->statements)
      for (BufferId b : deps_.writes[s]) {
        int64_t points = 1;
        const auto& vars = program_.statements[s].vars;
        for (uint32_t k = 0; k < shared; ++k) points *= std::max<int64_t>(1, vars[k].extent);
        bytes += program_.buffers[b].bytes() / points;
      }
  return bytes;
}

}  // namespace ferrite::core::schedule
