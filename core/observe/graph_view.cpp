// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/observe/graph_view.h"

#include <algorithm>
#include <map>
#include <set>

#include "core/ir/graph/graph.h"
#include "core/ir/graph/print.h"
#include "core/schedule/schedule.h"

namespace ferrite::core::observe {
namespace {

/// Edges in the order in which they are found, each once.
class Edges {
 public:
  explicit Edges(GraphView& view) : view_(view) {}
  void add(uint32_t from, uint32_t to) {
    if (from != to && known_.emplace(from, to).second) view_.edges.emplace_back(from, to);
  }

 private:
  GraphView& view_;
  std::set<std::pair<uint32_t, uint32_t>> known_;
};

/// The nodes of a group's statements, each once.
std::vector<GraphView::Operation> operations_of(const schedule::Schedule& schedule,
                                                const schedule::Group& group) {
  std::vector<GraphView::Operation> operations;
  std::set<uint64_t> seen;
  for (const uint32_t s : group.statements) {
    const auto& statement = schedule.program.statements[s];
    for (const auto& origin : statement.origins)
      if (seen.insert(origin.node).second) operations.push_back({origin.op, origin.names});
    if (statement.origins.empty() && !statement.call.name.empty())
      operations.push_back({statement.call.name, {}});
  }
  return operations;
}

}  // namespace

GraphView view_of(const graph::Graph& graph) {
  GraphView view;
  Edges edges(view);
  std::map<graph::ValueId, uint32_t> made_by;
  for (const auto id : graph.nodes()) {
    const auto& node = graph.node(id);
    const auto box = static_cast<uint32_t>(view.boxes.size());
    view.boxes.push_back({{{std::string(graph.op(id)), node.origin}}, {}, false});
    if (!node.results.empty())
      view.boxes.back().type = graph::print_type(graph.symbols(), graph.type(node.results[0]));
    for (const auto operand : node.operands)
      if (const auto maker = made_by.find(operand); maker != made_by.end()) edges.add(maker->second, box);
    for (const auto result : node.results) made_by[result] = box;
  }
  return view;
}

GraphView view_of(const schedule::Schedule& schedule) {
  GraphView view;
  Edges edges(view);
  const auto dependencies = schedule::Dependencies::of(schedule.program);
  const auto at_load = schedule::init_groups(schedule);
  std::map<loop::BufferId, uint32_t> last_writer;  // by storage
  for (uint32_t g = 0; g < schedule.groups.size(); ++g) {
    const auto& group = schedule.groups[g];
    view.boxes.push_back({operations_of(schedule, group), {}, at_load[g]});
    for (const uint32_t s : group.statements) {
      for (const auto storage : dependencies.reads[s])
        if (const auto writer = last_writer.find(storage); writer != last_writer.end())
          edges.add(writer->second, g);
      for (const auto storage : dependencies.writes[s]) last_writer[storage] = g;
    }
  }
  return view;
}

}  // namespace ferrite::core::observe
