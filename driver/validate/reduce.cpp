// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "driver/validate/reduce.h"

#include <algorithm>
#include <tuple>

#include "driver/validate/part.h"

namespace ferrite::core::validate {
namespace {

using graph::Graph;
using graph::NodeId;
using graph::ValueId;

class Reduction {
 public:
  Reduction(Graph graph, const Edit& edit, const plugin::Registry& registry,
            std::span<const Contents> contents, size_t tries)
      : graph_(std::move(graph)), edit_(edit), registry_(registry), contents_(contents), tries_(tries) {}

  Graph run() {
    // After each successful step, all kinds of steps are tried again, the most effective ones first.
    while (one_output() || earlier_output() || cut_nodes() || free_constants() || smaller_sizes()) {
    }
    return std::move(graph_);
  }

 private:
  std::vector<ValueId> outputs() const {
    std::vector<ValueId> values;
    for (const auto& output : graph_.outputs()) values.push_back(output.value);
    return values;
  }

  /// The measure that every step decreases, so that the reduction ends.
  static auto measure(const Graph& graph) {
    int64_t elements = 0;
    for (const auto& input : graph.inputs()) elements += graph.type(input.value).elements().value_or(0);
    return std::tuple(graph.node_count(), graph.outputs().size(), graph.constants().size(), elements);
  }

  /// Replaces the graph by the part, if that is smaller and the edit changes its result too.
  bool take(const std::vector<ValueId>& outputs, const std::set<ValueId>& cut,
            std::map<int64_t, int64_t> sizes = {}) {
    if (tries_ == 0) return false;
    --tries_;
    Part part{ends_of(graph_, outputs, cut), outputs, std::move(sizes)};
    auto candidate = extract(graph_, registry_.ops(), part);
    if (!candidate || !(measure(*candidate) < measure(graph_))) return false;
    if (!effect_of(edit_, *candidate, registry_, contents_)) return false;
    graph_ = std::move(*candidate);
    return true;
  }

  bool one_output() {
    const auto all = outputs();
    if (all.size() <= 1) return false;
    return std::any_of(all.begin(), all.end(), [&](ValueId id) { return take({id}, {}); });
  }

  /// Makes an inner value the output. The first one that shows the difference has the fewest nodes above it.
  bool earlier_output() {
    const auto all = outputs();
    for (const NodeId node : graph_.nodes())
      for (const ValueId result : graph_.node(node).results)
        if (result != all.front() && take({result}, {})) return true;
    return false;
  }

  /// Turns results of nodes into inputs, in ever smaller chunks.
  bool cut_nodes() {
    const auto all = outputs();
    std::vector<ValueId> inner;
    for (const NodeId node : graph_.nodes())
      for (const ValueId result : graph_.node(node).results)
        if (std::find(all.begin(), all.end(), result) == all.end()) inner.push_back(result);
    for (size_t size = inner.size(); size > 0; size /= 2)
      for (size_t first = 0; first < inner.size(); first += size) {
        const auto last = inner.begin() + static_cast<std::ptrdiff_t>(std::min(first + size, inner.size()));
        if (take(all, {inner.begin() + static_cast<std::ptrdiff_t>(first), last})) return true;
      }
    return false;
  }

  bool free_constants() {
    const auto constants = graph_.constants();
    const std::set<ValueId> all(constants.begin(), constants.end());
    if (all.empty()) return false;
    if (take(outputs(), all)) return true;
    return all.size() > 1 &&
           std::any_of(all.begin(), all.end(), [&](ValueId constant) { return take(outputs(), {constant}); });
  }

  bool smaller_sizes() {
    std::set<int64_t, std::greater<>> sizes;
    for (const auto& input : graph_.inputs())
      for (const auto dim : graph_.type(input.value).dims) sizes.insert(dim);
    for (const int64_t size : sizes)
      for (int64_t smaller = 1; smaller < std::min<int64_t>(size, 4); ++smaller)
        if (take(outputs(), {}, {{size, smaller}})) return true;
    return false;
  }

  Graph graph_;
  const Edit& edit_;
  const plugin::Registry& registry_;
  const std::span<const Contents> contents_;
  size_t tries_;
};

}  // namespace

Graph reduce(Graph graph, const Edit& edit, const plugin::Registry& registry,
             std::span<const Contents> contents, size_t most_tries) {
  return Reduction(std::move(graph), edit, registry, contents, most_tries).run();
}

}  // namespace ferrite::core::validate
