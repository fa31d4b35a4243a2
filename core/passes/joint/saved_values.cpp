// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/passes/joint/saved_values.h"

#include <algorithm>
#include <map>

#include "core/passes/joint/min_cut.h"
#include "core/passes/joint/recompute_cost.h"

namespace ferrite::core::joint {
namespace {

using graph::NodeId;
using graph::ValueId;

/// Whether one of the names in `origin`, which commas separate, is in the set.
bool names_one(std::string_view origin, const std::set<std::string, std::less<>>& names) {
  while (!names.empty() && !origin.empty()) {
    const auto comma = std::min(origin.find(','), origin.size());
    if (names.contains(origin.substr(0, comma))) return true;
    origin.remove_prefix(std::min(origin.size(), comma + 1));
  }
  return false;
}

class Chooser {
 public:
  Chooser(const graph::Graph& joint, const PartitionOptions& options, const std::set<NodeId>& backward)
      : joint_(joint), options_(options), backward_(backward) {}

  Result<SavedValues> choose(RecomputeCosts costs) {
    FE_CHECK(find_candidates(costs));
    const auto least_recomputation = cut(0);
    if (options_.memory_budget >= 1) return least_recomputation;
    const auto most_recomputation = cut(expensive_.size());
    const double range = static_cast<double>(least_recomputation.bytes - most_recomputation.bytes);
    const auto most_bytes =
        most_recomputation.bytes + static_cast<int64_t>(range * std::max(0.0, options_.memory_budget));
    // By bisection, the fewest nodes whose recomputation reaches the budget. Each node that may be computed
    // again relaxes the cut, so its bytes fall with their number, and a smaller budget never saves more.
    size_t few = 0, enough = expensive_.size();
    while (few < enough) {
      const size_t middle = few + (enough - few) / 2;
      if (cut(middle).bytes <= most_bytes)
        enough = middle;
      else
        few = middle + 1;
    }
    return cut(enough);
  }

 private:
  struct Candidate {
    ValueId value;
    int64_t bytes = 0;
    NodeId node;             ///< none: an input
    bool is_kept = false;    ///< it is never computed again
    size_t rank = SIZE_MAX;  ///< in `expensive_`; SIZE_MAX: free to compute again
    bool is_savable = true;
  };

  /// Fills the candidates: what the backward outputs depend on without depending on a tangent.
  Result<void> find_candidates(RecomputeCosts& costs) {
    std::vector<ValueId> forward_outputs, backward_outputs;
    for (const auto& output : joint_.outputs()) {
      auto& outputs = forward_outputs.size() < joint_.forward_outputs() ? forward_outputs : backward_outputs;
      outputs.push_back(output.value);
    }
    // A node may be needed by one part, by the other or by both; only those that the forward part computes in
    // any case have results to keep.
    const auto in_forward = nodes_before(joint_, forward_outputs, {});
    const auto for_backward = nodes_before(joint_, backward_outputs, {});
    const auto need = [&](ValueId value) {
      if (value && !is_backward(value) && !joint_.value(value).constant) needed_.insert(value);
    };
    for (const auto value : backward_outputs) need(value);
    for (const auto id : for_backward)
      if (backward_.contains(id))
        for (const auto operand : joint_.node(id).operands) need(operand);

    for (size_t k = 0; k < joint_.inputs().size(); ++k)
      if (options_.inputs[k] != InputKind::tangent) {
        const auto value = joint_.inputs()[k].value;
        FE_TRY(auto bytes, bytes_of(value));
        if (options_.inputs[k] == InputKind::held) bytes = 0;
        add({value, bytes, {}, true, SIZE_MAX, true});
      }
    struct Expensive {
      NodeId node;
      double operations_per_byte;
    };
    std::vector<Expensive> expensive;
    for (NodeId id = joint_.first(); id; id = joint_.next(id)) {
      if (backward_.contains(id) || !for_backward.contains(id)) continue;
      const auto& node = joint_.node(id);
      const auto cost = costs.of(id);
      const bool recomputed = names_one(node.origin, options_.recomputed);
      const bool saved = names_one(node.origin, options_.saved);
      // Only values of the forward part can be kept; the backward part computes the others, once.
      const bool is_kept = in_forward.contains(id) && (cost.never || (saved && !recomputed));
      if (in_forward.contains(id) && !is_kept && !cost.fuses && !recomputed)
        expensive.push_back({id, cost.operations / std::max(1.0, result_bytes(node))});
      for (const auto value : node.results) {
        FE_TRY(const auto bytes, bytes_of(value));
        // A view of all elements is no smaller than its operands, which are in memory already.
        const bool is_whole_view = cost.is_view && bytes >= operand_bytes(node);
        add({value, bytes, id, is_kept, SIZE_MAX, is_kept || (!recomputed && !is_whole_view)});
      }
    }
    // In order of the operations per byte of memory that computing again frees.
    std::ranges::stable_sort(expensive, {}, &Expensive::operations_per_byte);
    for (size_t rank = 0; rank < expensive.size(); ++rank) {
      expensive_.push_back(expensive[rank].node);
      for (const auto value : joint_.node(expensive[rank].node).results)
        candidates_[index_.at(value)].rank = rank;
    }
    return {};
  }

  int64_t operand_bytes(const graph::Node& node) const {
    int64_t bytes = 0;
    for (const auto operand : node.operands)
      if (operand) bytes += joint_.type(operand).bytes().value_or(0);
    return bytes;
  }

  double result_bytes(const graph::Node& node) const {
    double bytes = 0;
    for (const auto value : node.results)
      bytes += static_cast<double>(joint_.type(value).bytes().value_or(0));
    return bytes;
  }

  Result<int64_t> bytes_of(ValueId value) const {
    const auto bytes = joint_.type(value).bytes();
    if (bytes) return *bytes;
    return error(FE_EINVALID, "FE-G58", "the size of '{}' is not known; give the sizes of the inputs",
                 joint_.value(value).name);
  }

  bool is_backward(ValueId value) const {
    const auto& v = joint_.value(value);
    if (v.kind == graph::ValueKind::input) return options_.inputs[v.result] == InputKind::tangent;
    return v.kind == graph::ValueKind::result && backward_.contains(v.producer);
  }

  void add(Candidate candidate) {
    index_.emplace(candidate.value, candidates_.size());
    candidates_.push_back(candidate);
  }

  /// The cut in which the first `again` of the expensive nodes may be computed again.
  SavedValues cut(size_t again) const {
    // Fewer tensors decide between cuts of equal bytes: each tensor adds 1 to capacities that count a byte as
    // 4096, so that only more tensors than that could outweigh a byte.
    constexpr int64_t most_tensors = 4096;
    // A capacity of a value has to stay well below `infinite`, or its edge would count as one that is never
    // cut. This limit, 2^48 bytes, is more than any memory has; larger values are never saved.
    constexpr int64_t most_bytes = MinCut::infinite / most_tensors / 2;
    // Each value is an edge from its `in` to its `out`: where the cut takes this edge, the value is saved.
    MinCut network(2 + 2 * candidates_.size());
    const auto in = [](size_t k) { return 2 + 2 * k; };
    const auto out = [](size_t k) { return 3 + 2 * k; };
    for (size_t k = 0; k < candidates_.size(); ++k) {
      const auto& candidate = candidates_[k];
      const bool fits = candidate.bytes < most_bytes;
      network.add_edge(in(k), out(k),
                       candidate.is_savable && fits ? candidate.bytes * most_tensors + 1 : MinCut::infinite);
      const bool is_expensive = candidate.rank != SIZE_MAX && candidate.rank >= again;
      // The value is never computed again: the cut saves it, or values that depend on it.
      if (candidate.is_kept || is_expensive) network.add_edge(MinCut::source, in(k), MinCut::infinite);
      if (needed_.contains(candidate.value)) network.add_edge(out(k), MinCut::sink, MinCut::infinite);
      if (!candidate.node) continue;
      // To compute the value again, the backward part needs all of its operands.
      for (const auto operand : joint_.node(candidate.node).operands)
        if (const auto found = index_.find(operand); operand && found != index_.end())
          network.add_edge(out(found->second), in(k), MinCut::infinite);
    }
    const auto near_sink = network.sink_side();
    // The saved values are those whose edge crosses from the source's side to the sink's.
    SavedValues saved;
    for (size_t k = 0; k < candidates_.size(); ++k)
      if (near_sink[out(k)] && !near_sink[in(k)]) {
        saved.values.push_back(candidates_[k].value);
        saved.bytes += candidates_[k].bytes;
      }
    return saved;
  }

  const graph::Graph& joint_;
  const PartitionOptions& options_;
  const std::set<NodeId>& backward_;
  std::vector<Candidate> candidates_;
  std::map<ValueId, size_t> index_;  ///< in `candidates_`
  std::set<ValueId> needed_;         ///< that the backward part reads
  std::vector<NodeId> expensive_;    ///< in the order in which a smaller budget computes them again
};

}  // namespace

Result<std::set<NodeId>> backward_nodes(const graph::Graph& joint, const std::vector<InputKind>& inputs) {
  if (inputs.size() != joint.inputs().size())
    return error(FE_EINVALID, "FE-G58", "{} kinds were given for the {} inputs of the joint graph",
                 inputs.size(), joint.inputs().size());
  std::set<ValueId> known;
  for (size_t k = 0; k < inputs.size(); ++k)
    if (inputs[k] == InputKind::tangent) known.insert(joint.inputs()[k].value);
  std::set<NodeId> nodes;
  for (NodeId id = joint.first(); id; id = joint.next(id)) {
    const auto& node = joint.node(id);
    if (std::ranges::none_of(node.operands, [&](ValueId operand) { return known.contains(operand); }))
      continue;
    nodes.insert(id);
    known.insert(node.results.begin(), node.results.end());
  }
  for (uint32_t k = 0; k < joint.forward_outputs().value_or(0); ++k)
    if (known.contains(joint.outputs()[k].value))
      return error(FE_EINVALID, "FE-G58",
                   "forward output '{}' depends on a tangent; count the forward outputs again",
                   joint.outputs()[k].name);
  return nodes;
}

Result<SavedValues> choose_saved_values(const graph::Graph& joint, const plugin::Registry& registry,
                                        std::string_view device, const PartitionOptions& options,
                                        const std::set<NodeId>& backward) {
  return Chooser(joint, options, backward).choose(RecomputeCosts(joint, registry, device));
}

std::set<NodeId> nodes_before(const graph::Graph& graph, const std::vector<ValueId>& values,
                              const std::set<ValueId>& given) {
  std::set<NodeId> nodes;
  std::vector<ValueId> pending = values;
  while (!pending.empty()) {
    const auto value = pending.back();
    pending.pop_back();
    if (!value || given.contains(value)) continue;
    const auto producer = graph.value(value).producer;
    if (!producer || !nodes.insert(producer).second) continue;
    const auto& operands = graph.node(producer).operands;
    pending.insert(pending.end(), operands.begin(), operands.end());
  }
  return nodes;
}

}  // namespace ferrite::core::joint
