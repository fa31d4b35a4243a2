// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <algorithm>
#include <numeric>
#include <span>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

#include "core/schedule/alignment.h"
#include "core/schedule/fusion/advisor.h"
#include "core/schedule/fusion/fused_gemm_chain.h"
#include "core/schedule/fusion/fused_softmax.h"
#include "core/schedule/fusion/fusion_costs.h"
#include "core/schedule/fusion/groups.h"
#include "core/schedule/fusion/legality.h"
#include "core/schedule/fusion/matrix_products.h"
#include "core/schedule/fusion/mismatch.h"
#include "core/schedule/fusion/prologue.h"
#include "core/schedule/fusion/unconsidered_pairs.h"
#include "core/schedule/rewrites/at_load.h"
#include "core/schedule/rewrites/split.h"
#include "ferrite/counted.hpp"

namespace ferrite::core::schedule {
namespace {

/// A buffer with at most this many writers keeps a kernel for each. Where there are more, small ones are
/// joined.
constexpr size_t most_part_kernels = 8;
/// A write of one part is small if this many of them take one worker no longer than a launch costs.
constexpr int64_t parts_of_launch = 8;

/// Two statements that access one buffer: the second reads it after the first wrote it, or both only read it.
using Edge = FusionPair;

/// Groups a program's statements pair by pair, and records each decision in the ledger.
class Fuser {
 public:
  Fuser(LoopProgram& program, const FusionRequests& requests, const FusionLimits& limits, Ledger& ledger,
        FusionAdvisor* advisor)
      : program_(program),
        requests_(requests),
        limits_(limits),
        ledger_(ledger),
        advisor_(advisor),
        deps_(Dependencies::of(program)),
        callers_(storages_of_caller(program)),
        constant_(at_load(program).statements),
        gemm_chains_(program, deps_, constant_, limits),
        fused_softmax_(program, deps_, constant_, callers_, limits),
        matrix_products_(program, deps_, constant_, callers_, limits),
        costs_(program, deps_, callers_, limits, advisor),
        groups_(program, deps_) {}

  std::vector<Group> run() {
    if (does(Feature::fuse)) {
      for (auto [a, b] : requests_.forced) attempt({a, b, none, false, 0});
      // Before any pair: a kernel of all these products needs every statement between them.
      if (does(Feature::gemm_chains) && limits_.target.products != Products::apart)
        for (uint32_t s = 0; s < program_.statements.size(); ++s) attempt_matrix_products(s);
      // Producer-consumer pairs come first: a value that never reaches memory saves more than a second read
      // of one.
      auto edges = by_bytes(written_and_read());
      if (does(Feature::horizontal_fusion)) {
        const auto reads = by_bytes(read_twice());
        edges.insert(edges.end(), reads.begin(), reads.end());
      }
      for (const size_t k : order_of(edges)) attempt(edges[k]);
      // Contractions join groups of whole rows only after these groups are complete.
      deferring_ = false;
      for (const auto& edge : std::exchange(deferred_, {})) attempt(edge);
      if (does(Feature::gemm_chains) && limits_.target.products == Products::softmax)
        for (uint32_t s = 0; s < program_.statements.size(); ++s)
          if (program_.statements[s].kind == FE_STATEMENT_CONTRACT) attempt_softmax(s);
      // A map that no other kernel took becomes a prologue of the contraction whose operand it computes.
      keep_stored();
      for (const auto& edge : operands_) attempt_prologue(edge);
      prologues_done_ = true;
      for (const auto& edge : std::exchange(beside_, {})) attempt(edge);
      // Last: joined writers share no loops, so nothing else could be fused with them afterwards.
      for (BufferId b = 0; b < deps_.writers.size(); ++b)
        if (deps_.writers[b].size() > most_part_kernels) join_parts(b);
    }
    return groups_.ordered();
  }

 private:
  bool does(Feature feature) const { return !limits_.without.has(feature); }
  static std::vector<Edge> by_bytes(std::vector<Edge> edges) {
    std::stable_sort(edges.begin(), edges.end(),
                     [](const Edge& x, const Edge& y) { return x.bytes > y.bytes; });
    return edges;
  }
  /// The order of the pairs as given, or as the advisor ranks them.
  std::vector<size_t> order_of(const std::vector<Edge>& edges) const {
    std::vector<size_t> order(edges.size());
    std::iota(order.begin(), order.end(), size_t{0});
    if (!advisor_) return order;
    if (const auto scores = advisor_->rank(program_, edges); !scores.empty())
      std::stable_sort(order.begin(), order.end(), [&](size_t x, size_t y) { return scores[x] > scores[y]; });
    return order;
  }
  std::vector<Edge> written_and_read() const {
    std::vector<Edge> result;
    for (uint32_t s = 0; s < program_.statements.size(); ++s)
      for (BufferId b : deps_.reads[s])
        for (uint32_t w : tried_writers(deps_, s, b))
          if (w < s) result.push_back({w, s, b, false, program_.buffers[b].bytes()});
    return result;
  }
  std::vector<Edge> read_twice() const {
    std::vector<Edge> result;
    for (BufferId b = 0; b < deps_.readers.size(); ++b) {
      const auto& readers = deps_.readers[b];
      for (size_t k = 1; k < readers.size(); ++k)
        for (size_t j = k - std::min(k, most_neighbours); j < k; ++j)
          result.push_back({readers[j], readers[k], b, true, program_.buffers[b].bytes()});
    }
    return result;
  }

  void attempt(const Edge& edge) {
    uint32_t a = groups_.of(edge.first), b = groups_.of(edge.second);
    if (a == b) return;
    if (groups_[a].statements[0] > groups_[b].statements[0]) std::swap(a, b);
    // A map that becomes a prologue has to stay alone in its group, so pairs that only read wait until
    // prologues are decided.
    if (edge.reads && !prologues_done_ && (becomes_operand(a) || becomes_operand(b))) {
      beside_.push_back(edge);
      return;
    }
    if (deferring_ && gemm_chains(edge, a, b).is) {
      deferred_.push_back(edge);
      return;
    }
    std::string text;
    uint32_t shared = 0;
    std::string category = refusal(edge, a, b, shared, text);
    if (category == category::loop_order && edge.buffer != none && does(Feature::reorder))
      category = reorder(edge, a, b, shared, text, std::move(category));
    // The map may have become part of a group of rows by the time deferred pairs are tried.
    if (deferring_ && !category.empty() && !edge.reads && edge.buffer != none &&
        !contractions(members(groups_[a], groups_[b])).empty()) {
      if (may_be_prologue(edge)) made_operand_[edge.first] = edge;
      deferred_.push_back(edge);
      return;
    }
    if (!category.empty() && may_be_prologue(edge)) {
      made_operand_[edge.first] = edge;
      operands_.push_back(edge);
      return;
    }
    record(edge, category, text);
    if (category.empty()) groups_.join(a, b, shared);
  }

  /// Fuses a softmax with the two products around it, the second of which is `contraction`, where the target
  /// supports such kernels.
  void attempt_softmax(uint32_t contraction) {
    for (const auto& found : fused_softmax_.candidates(groups_, contraction)) {
      const auto answer = fused_softmax_.ask(groups_, found);
      if (attempt_all({found.from, found.to, none, false, 0}, found.groups, answer.refusal, answer.shared))
        return;
    }
  }

  /// Fuses the products around the matrix that a contraction makes.
  void attempt_matrix_products(uint32_t contraction) {
    const auto statements = matrix_products_.candidate(groups_, contraction);
    if (statements.empty() || statements.front() != contraction) return;
    const auto answer = matrix_products_.ask(statements);
    // Products of another form are no such kernel; pairs of statements decide.
    if (answer.refusal.category == category::contraction) return;
    attempt_all({statements.front(), statements.back(), none, false, 0}, statements, answer.refusal,
                answer.shared);
  }

  /// Joins groups between which no other stands, unless `refusal` or something that does not depend on the
  /// computations prevents it.
  bool attempt_all(const Edge& edge, std::vector<uint32_t> rest, const Refusal& refusal, uint32_t shared) {
    const uint32_t first = rest.front(), last = rest.back();
    std::string category(refusal.category), text = refusal.text;
    if (category.empty()) category = kept_apart(edge, groups_[first], groups_[last], text);
    for (const uint32_t group : rest)
      if (category.empty() && run_apart(groups_[first], groups_[group], text)) category = category::device;
    if (category.empty()) category = advised(edge, {groups_[first], groups_[last], shared, true}, text);
    record(edge, category, text);
    if (!category.empty()) return false;
    rest.erase(rest.begin());
    // join() needs groups without a path around them, so the groups are joined in an order of dependencies.
    while (!rest.empty()) {
      const auto next =
          std::ranges::find_if(rest, [&](uint32_t group) { return !groups_.path_around(first, group); });
      groups_.join(first, *next, shared);
      rest.erase(next);
    }
    return true;
  }

  /// Joins the statements that store small parts of one buffer, as a concatenation does, into few kernels in
  /// which they run one after the other. A kernel for each would take longer to compile and to launch than to
  /// run.
  void join_parts(BufferId b) {
    uint32_t into = none;  // a statement of the group to which parts are added
    for (const uint32_t writer : deps_.writers[b]) {
      if (!is_small_part(writer)) {
        into = none;
      } else if (into == none || !join_part(into, writer, b)) {
        into = writer;
      }
    }
  }
  bool join_part(uint32_t into, uint32_t writer, BufferId b) {
    const uint32_t first = groups_.of(into), second = groups_.of(writer);
    const Edge edge{into, writer, b, false, program_.buffers[b].bytes()};
    std::string text;
    if (groups_[first].statements.size() == limits_.most_statements ||
        operations_of(groups_[first]) + operations_of(groups_[second]) > limits_.most_operations ||
        constant_[into] != constant_[writer] ||
        !kept_apart(edge, groups_[first], groups_[second], text).empty() ||
        groups_.path_around(first, second) ||
        !advised(edge, {groups_[first], groups_[second], 0, true}, text).empty())
      return false;
    record(edge, {}, text.empty() ? "small parts of one buffer, one after the other" : text);
    groups_.join(first, second, 0);
    return true;
  }
  /// Whether the statement is a kernel of its own that writes a part of a buffer which it does not read, and
  /// takes one worker little time.
  bool is_small_part(uint32_t s) const {
    const auto& group = groups_[groups_.of(s)];
    const auto& statement = program_.statements[s];
    return group.statements.size() == 1 && statement.kind == FE_STATEMENT_MAP &&
           statement.stores.size() == 1 &&
           std::ranges::find(deps_.reads[s], program_.storage(statement.stores[0].buffer)) ==
               deps_.reads[s].end() &&
           costs_.work(group) <= limits_.target.launch_points() / parts_of_launch;
  }

  void record(const Edge& edge, const std::string& category, const std::string& text) {
    ledger_.add({"fusion", origin_names(program_.statements[edge.first]),
                 origin_names(program_.statements[edge.second]), category.empty() ? "fused" : "refused",
                 category, text, static_cast<double>(edge.bytes)});
  }

  bool may_be_prologue(const Edge& edge) const {
    return limits_.prologues && does(Feature::prologues) && !edge.reads && edge.buffer != none &&
           !callers_.contains(edge.buffer) &&
           makes_operand(program_, deps_, edge.first, edge.second, edge.buffer);
  }

  /// Whether the group is a map that a contraction will compute as a prologue. Joined with another map it
  /// would have to be stored.
  bool becomes_operand(uint32_t group) const {
    if (groups_[group].statements.size() != 1) return false;
    const auto found = made_operand_.find(groups_[group].statements[0]);
    return found != made_operand_.end() && operand_refusal(found->second).category.empty();
  }

  /// Moves a map that is a kernel of its own into the contraction, which then computes the operand itself.
  void attempt_prologue(const Edge& edge) {
    const uint32_t a = groups_.of(edge.first), b = groups_.of(edge.second);
    if (a == b) return;
    std::string text;
    const std::string category = prologue_refusal(edge, a, b, text);
    record(edge, category, text);
    if (!category.empty()) return;
    groups_.dissolve(a, b);
    take_prologue(program_, deps_, edge.first, edge.second, edge.buffer);
  }

  /// Removes the operands that an operand advisor wants stored, because the code that will run the
  /// contraction cannot compute them.
  void keep_stored() {
    if (!limits_.operands) return;
    std::vector<Edge> possible;
    std::string text;
    for (const auto& edge : operands_)
      if (const uint32_t a = groups_.of(edge.first), b = groups_.of(edge.second);
          a != b && prologue_refusal(edge, a, b, text).empty())
        possible.push_back(edge);
    if (possible.empty()) return;
    const auto reasons = limits_.operands->stored(program_, groups_.ordered(), possible);
    for (size_t k = 0; k < possible.size(); ++k) {
      if (reasons[k].empty()) continue;
      record(possible[k], std::string(category::cost), reasons[k]);
      made_operand_.erase(possible[k].first);
      std::erase_if(operands_, [&](const Edge& edge) {
        return edge.first == possible[k].first && edge.second == possible[k].second;
      });
    }
  }

  Refusal operand_refusal(const Edge& edge) const {
    return schedule::prologue_refusal(program_, deps_, limits_.target, edge.first, edge.second, edge.buffer,
                                      constant_[edge.first] && !constant_[edge.second]);
  }

  std::string prologue_refusal(const Edge& edge, uint32_t a, uint32_t b, std::string& text) const {
    const auto &map = groups_[a], &product = groups_[b];
    if (const auto kept = kept_apart(edge, map, product, text); !kept.empty()) return std::string(kept);
    if (map.statements.size() > 1) {
      text = "a contraction fuses only with its epilogue, and with prologues that are kernels of their own";
      return std::string(category::contraction);
    }
    if (product.statements[0] != edge.second || contractions(product.statements).size() > 1) {
      text = "the contraction is part of a fused GEMM chain";
      return std::string(category::contraction);
    }
    if (groups_.path_around(a, b)) {
      text = "another kernel stands between them";
      return std::string(category::cycle);
    }
    const auto refusal = operand_refusal(edge);
    text = refusal.text;
    // Other readers need the operand in memory, so no policy can overrule the cost.
    const bool is_final = refusal.category != category::cost || deps_.readers[edge.buffer].size() > 1;
    if (!refusal.category.empty() && is_final) return std::string(refusal.category);
    return advised(edge, {map, product, product.shared, refusal.category.empty()}, text);
  }

  /// Tries the pair again after reordering the loops of one of its statements, a map that is alone in its
  /// group, to match those of the other. Returns an empty category on success. Otherwise it restores the
  /// loops and returns the category of the refusal.
  std::string reorder(const Edge& edge, uint32_t a, uint32_t b, uint32_t& shared, std::string& text,
                      std::string category) {
    for (auto [moved, fixed] : {std::pair{edge.first, edge.second}, std::pair{edge.second, edge.first}}) {
      auto& map = program_.statements[moved];
      const auto& other = program_.statements[fixed];
      if (map.kind != FE_STATEMENT_MAP || groups_[groups_.of(moved)].statements.size() > 1) continue;
      auto order = order_like(program_, map, address(program_, map, edge.buffer), other,
                              address(program_, other, edge.buffer));
      if (std::ranges::equal(order, map.vars, {}, &Var::symbol, &Var::symbol)) continue;
      std::swap(map.vars, order);
      std::string why;
      auto refused = refusal(edge, a, b, shared, why);
      if (refused.empty()) {
        text = fmt::format("with the loops of {} in the other's order{}{}", origin_names(map),
                           why.empty() ? "" : "; ", why);
        return {};
      }
      std::swap(map.vars, order);
      if (refused == category::loop_order) continue;
      category = std::move(refused);
      text = std::move(why);
    }
    return category;
  }

  /// The number of leading loops in which both statements walk the buffer that they read in the same way.
  uint32_t walked_alike(const Edge& edge, uint32_t limit) const {
    const auto& x = program_.statements[edge.first];
    const auto& y = program_.statements[edge.second];
    return aligned(program_, x, address(program_, x, edge.buffer), y, address(program_, y, edge.buffer),
                   limit);
  }

  /// Empty when the groups are to be one kernel over `shared` common loops; otherwise the category, with the
  /// reason in `text`. Where an advisor decides, `text` says so.
  std::string refusal(const Edge& edge, uint32_t a, uint32_t b, uint32_t& shared, std::string& text) const {
    if (auto category = obstacle(edge, a, b, shared, text); !category.empty()) return category;
    const auto& first = groups_[a];
    const auto& second = groups_[b];
    text = costs_.dearer(edge, first, second, shared);
    if (!text.empty() && !advisor_) return std::string(category::cost);
    if (groups_.path_around(a, b)) {
      text = "another kernel stands between them";
      return std::string(category::cycle);
    }
    return advised(edge, {first, second, shared, text.empty()}, text);
  }

  /// The category that the advisor, or else the cost, gives a legal pair. On entry `text` says why fusion
  /// costs more, or is empty.
  std::string advised(const Edge& edge, const FusionTrial& trial, std::string& text) const {
    if (advisor_) {
      const auto advice = advisor_->decide(program_, edge, trial);
      if (advice.verdict != FusionAdvisor::Verdict::no_opinion) {
        const bool fuse = advice.verdict == FusionAdvisor::Verdict::fuse;
        text = fmt::format("{} {} it{}{}", advice.by, fuse ? "wants" : "refuses",
                           text.empty() ? "" : "; by cost: ", text);
        return std::string(fuse ? "" : category::policy);
      }
    }
    return std::string(text.empty() ? "" : category::cost);
  }

  /// The category for loops that do not match, with details appended to `text`. The mismatch is looked for
  /// first around the buffer of the pair, then around another one that statements of both groups access, then
  /// in the loops alone.
  std::string difference(const Edge& edge, const Group& first, const Group& second, std::string& text) const {
    Refusal found;
    if (edge.buffer != none) found = mismatch(program_, edge.first, edge.second, edge.buffer);
    const auto look = [&](auto&& compare) {
      for (const uint32_t x : first.statements)
        for (const uint32_t y : second.statements)
          if (found.category.empty()) compare(x, y);
    };
    look([&](uint32_t x, uint32_t y) {
      for (const auto* list : {&deps_.reads[x], &deps_.writes[x]})
        for (const BufferId b : *list)
          if (found.category.empty() &&
              (std::ranges::count(deps_.writes[y], b) > 0 ||
               (list == &deps_.writes[x] && std::ranges::count(deps_.reads[y], b) > 0)))
            found = mismatch(program_, x, y, b);
    });
    look([&](uint32_t x, uint32_t y) { found = mismatch(program_, x, y); });
    if (found.category.empty()) found.category = category::unknown;
    if (!found.text.empty()) text += ": " + found.text;
    return std::string(found.category);
  }

  size_t operations_of(const Group& group) const {
    size_t count = 0;
    for (uint32_t s : group.statements) count += program_.statements[s].ops.size();
    return count;
  }

  bool is_forbidden(const Group& first, const Group& second) const {
    for (uint32_t x : first.statements)
      for (uint32_t y : second.statements)
        if (requests_.forbidden.count({std::min(x, y), std::max(x, y)})) return true;
    return false;
  }

  /// Whether the groups, as separate kernels, run on different devices; `text` then names them.
  bool run_apart(const Group& first, const Group& second, std::string& text) const {
    const uint32_t a = first.statements[0], b = second.statements[0];
    if (!limits_.assignment.apart(a, b)) return false;
    text =
        fmt::format("one runs on {}, the other on {}", limits_.assignment.devices[limits_.assignment.of[a]],
                    limits_.assignment.devices[limits_.assignment.of[b]]);
    return true;
  }

  /// Empty, or the category of an obstacle that does not depend on the computations: a pass forbade the pair,
  /// or one group reads on one device what the other stores on another.
  std::string_view kept_apart(const Edge& edge, const Group& first, const Group& second,
                              std::string& text) const {
    if (is_forbidden(first, second)) {
      text = "a pass forbade it";
      return category::forbidden;
    }
    return edge.buffer != none && run_apart(first, second, text) ? category::device : std::string_view{};
  }

  /// Empty when the groups can legally be one kernel over `shared` common loops; otherwise the category, with
  /// the reason in `text`.
  std::string obstacle(const Edge& edge, uint32_t a, uint32_t b, uint32_t& shared, std::string& text) const {
    const auto& first = groups_[a];
    const auto& second = groups_[b];
    if (const auto kept = kept_apart(edge, first, second, text); !kept.empty()) return std::string(kept);
    // A kernel runs either at load or in each run. Fusing both kinds would repeat constant work in each run.
    if (constant_[first.statements[0]] != constant_[second.statements[0]]) {
      text = "one of them runs once, at load";
      return std::string(category::cost);
    }
    if (first.statements.size() + second.statements.size() > limits_.most_statements) {
      text = fmt::format("more than {} statements", limits_.most_statements);
      return std::string(category::size_limit);
    }
    if (operations_of(first) + operations_of(second) > limits_.most_operations) {
      text = fmt::format("more than {} operations", limits_.most_operations);
      return std::string(category::size_limit);
    }
    bool contract = false;
    for (uint32_t s : members(first, second)) {
      const auto& statement = program_.statements[s];
      if (is_kernel_alone(statement)) {
        text = "a scatter, a serial loop or an opaque call is a kernel of its own";
        return std::string(category::no_dependency);
      }
      contract = contract || statement.kind == FE_STATEMENT_CONTRACT;
    }
    shared = shared_loops(first, second);
    if (contract) {
      const auto rows = gemm_chains(edge, a, b);
      if (rows.is) return {};
      if (!rows.category.empty()) {
        text = rows.text;
        return rows.category;
      }
    }
    if (contract && contractions(members(first, second)) != std::vector{first.statements[0]}) {
      text = "a contraction fuses only with statements after it";
      return std::string(category::contraction);
    }
    if (edge.reads) {
      shared = std::min(shared, walked_alike(edge, shared));
      if (contract) {
        text = "a contraction cannot be fused horizontally";
        return std::string(category::contraction);
      }
    }
    // Without shared loops the kernel has one iteration, which one worker runs. This is acceptable only where
    // it takes little time.
    if (shared == 0 && (first.shared > 0 || second.shared > 0) && !inside_whole_reduction(first, second)) {
      text = "the loops around the shared buffer differ";
      return difference(edge, first, second, text);
    }
    if (contract) {
      const auto& product = program_.statements[first.statements[0]];
      if (shared != product.parallel_count()) {
        text = "not all loops of the contraction are shared";
        return difference(edge, first, second, text);
      }
      for (uint32_t s : members(first, second))
        if (s != first.statements[0] && !is_epilogue(program_.statements[s], shared)) {
          text = "an epilogue has the loops of its contraction";
          return std::string(category::element_count);
        }
    }
    if (!contract && !costs_.is_one_nest(members(first, second), shared))
      if (int64_t bytes = costs_.local_bytes(first, second, shared); bytes > limits_.target.local_bytes) {
        text = fmt::format("{} bytes between the parts of one iteration", bytes);
        return std::string(category::cost);
      }
    return {};
  }

  /// The number of leading loops that all statements of both groups have in common.
  uint32_t shared_loops(const Group& first, const Group& second) const {
    uint32_t shared = std::min(first.shared, second.shared);
    for (uint32_t x : first.statements)
      for (uint32_t y : second.statements) shared = std::min(shared, common_loops(program_, x, y, shared));
    return shared;
  }

  std::vector<uint32_t> contractions(std::span<const uint32_t> statements) const {
    std::vector<uint32_t> result;
    std::ranges::copy_if(statements, std::back_inserter(result),
                         [&](uint32_t s) { return program_.statements[s].kind == FE_STATEMENT_CONTRACT; });
    return result;
  }

  /// Whether both groups together are a kernel that makes and consumes rows of matrix products.
  FusedGemmChain::Answer gemm_chains(const Edge& edge, uint32_t a, uint32_t b) const {
    if (!does(Feature::gemm_chains) || limits_.target.products != Products::any || edge.reads ||
        edge.buffer == none)
      return {};
    return gemm_chains_.ask(members(groups_[a], groups_[b]), shared_loops(groups_[a], groups_[b]));
  }

  /// Whether the groups are maps that run inside the loops of a reduction to one value, and that reduction is
  /// either short or can be divided among workers.
  bool inside_whole_reduction(const Group& first, const Group& second) const {
    const auto all = members(first, second);
    const auto& reduction = program_.statements[all.back()];
    return reduction.kind == FE_STATEMENT_REDUCE && reduction.parallel_count() == 0 &&
           std::ranges::all_of(
               std::span(all).first(all.size() - 1),
               [&](uint32_t s) { return is_prologue(program_, program_.statements[s], reduction); }) &&
           (costs_.work(first) + costs_.work(second) <= limits_.target.small_work() ||
            parts_that_pay(program_, reduction, limits_.target) > 1);
  }

  LoopProgram& program_;
  const FusionRequests& requests_;
  const FusionLimits& limits_;
  Ledger& ledger_;
  FusionAdvisor* const advisor_;  ///< null where there is none
  Dependencies deps_;
  const std::set<BufferId> callers_;  ///< storages
  const std::vector<bool> constant_;  ///< by statement: whether it runs at load
  const FusedGemmChain gemm_chains_;
  const FusedSoftmax fused_softmax_;
  const MatrixProducts matrix_products_;
  const FusionCosts costs_;
  Groups groups_;
  bool deferring_ = true;  ///< pairs that would make a fused GEMM chain are put off
  std::vector<Edge> deferred_;
  std::vector<Edge>
      /// pairs whose second statement, a contraction, may compute the result of the first as its operand
      operands_;
  std::unordered_map<uint32_t, Edge> made_operand_;  ///< the same pairs, by the first statement
  std::vector<Edge>
      beside_;  ///< pairs that only read, put off until it is decided which of their maps become prologues
  bool prologues_done_ = false;
};

}  // namespace

Schedule fuse(LoopProgram program, const FusionRequests& requests, const FusionLimits& limits, Ledger& ledger,
              FusionAdvisor* advisor) {
  auto groups = Fuser(program, requests, limits, ledger, advisor).run();
  Schedule schedule{std::move(program), std::move(groups)};
  number_by_group(schedule);
  return schedule;
}

}  // namespace ferrite::core::schedule
