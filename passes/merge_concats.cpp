// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Concatenations of concatenations, and of many slices of one value.
#include <algorithm>
#include <set>

#include "passes.h"

namespace ferrite::passes {
namespace {

// Each copied part needs its own loops and code. More parts than this are better gathered through a table of
// indices, unless they are long: a gather reads element by element.
constexpr size_t most_copied_parts = 16;
constexpr int64_t longest_picked = 4096;  // average elements of a part

/// The range [start, start + size) along the axis of `source`.
struct Part {
  Value source;
  int64_t start = 0, size = 0, step = 1;
  Value whole;  ///< the value that equals this part; none if parts were joined
};

size_t axis_of(Node concat) {
  const auto axis = concat.attrs().integer("axis");
  return static_cast<size_t>(axis < 0 ? axis + static_cast<int64_t>(concat.result().rank()) : axis);
}

bool is_static(const Dims& dims) {
  return std::ranges::none_of(dims, [](int64_t dim) { return dim < 0; });
}

/// The concatenation along the axis that produces x, if nothing else reads it; else none.
Node inner_concat(Value x, size_t axis) {
  const auto view = x.view();
  Node node = x.producer();
  const bool is_inner =
      node && view.use_count == 1 && !view.is_output && node.op() == "concat" && axis_of(node) == axis;
  return is_inner ? node : Node();
}

/// The operands of the flattened concatenation, in order. Operands that are concatenations are replaced by
/// theirs; these go into `inner`, each after its users.
std::vector<Value> leaves_of(Node concat, size_t axis, std::vector<Node>& inner) {
  std::vector<Value> leaves, stack;
  const auto push = [&](Node node) {
    for (size_t k = node.operand_count(); k-- > 0;) stack.push_back(node.operand(k));
  };
  push(concat);
  while (!stack.empty()) {
    const Value x = stack.back();
    stack.pop_back();
    if (Node found = inner_concat(x, axis)) {
      inner.push_back(found);
      push(found);
    } else {
      leaves.push_back(x);
    }
  }
  return leaves;
}

/// A slice along the axis alone, as a part of its operand; any other value is a part of itself.
Part part_of(Value x, size_t axis) {
  const auto dims = x.dims();
  Part part{x, 0, dims[axis], 1, x};
  Node slice = x.producer();
  if (!slice || slice.op() != "slice") return part;
  const Value source = slice.operand(0);
  const auto from = source.dims();
  const auto starts = slice.attrs().integers("starts"), steps = slice.attrs().integers("strides");
  if (!is_static(from)) return part;
  for (size_t d = 0; d < from.size(); ++d)
    if (d != axis && (dims[d] != from[d] || starts[d] != 0 || (steps[d] != 1 && dims[d] > 1))) return part;
  return {source, starts[axis], dims[axis], steps[axis], x};
}

/// Joins parts that are adjacent in one value. Drops empty parts, but keeps one if there is nothing else.
std::vector<Part> parts_of(const std::vector<Value>& leaves, size_t axis) {
  std::vector<Part> parts;
  for (const Value leaf : leaves) {
    auto part = part_of(leaf, axis);
    if (part.size == 0) continue;
    if (!parts.empty()) {
      auto& last = parts.back();
      if (last.source == part.source && last.step == 1 && part.step == 1 &&
          last.start + last.size == part.start) {
        last.size += part.size;
        last.whole = {};
        continue;
      }
    }
    parts.push_back(part);
  }
  if (parts.empty()) parts.push_back(part_of(leaves.front(), axis));
  return parts;
}

/// The value of the part.
Value value_of(Graph& graph, const Part& part, size_t axis) {
  if (part.whole) return part.whole;
  auto sizes = part.source.dims();
  if (part.start == 0 && part.size == sizes[axis]) return part.source;
  Dims starts(sizes.size()), steps(sizes.size(), 1);
  starts[axis] = part.start;
  sizes[axis] = part.size;
  return graph.make("slice", {part.source},
                    {attr("starts", starts), attr("sizes", sizes), attr("strides", steps)});
}

/// Whether these are many short parts of one value.
bool is_picked(const std::vector<Part>& parts, const TensorType& result) {
  const auto count = static_cast<int64_t>(parts.size());
  return parts.size() > most_copied_parts && result.elements() / count <= longest_picked &&
         std::ranges::all_of(parts, [&](const Part& part) { return part.source == parts[0].source; });
}

/// Turn this: %a = slice(%x) {starts = [4], sizes = [2]}  %b = slice(%x) {starts = [0], sizes = [1]} ... %r =
/// concat(%a, %b, ...) into this: %r = gather(%x, [4, 5, 0, ...])
Value pick(Graph& graph, const std::vector<Part>& parts, size_t axis) {
  std::vector<int64_t> places;
  for (const auto& part : parts)
    for (int64_t k = 0; k < part.size; ++k) places.push_back(part.start + k * part.step);
  return graph.make("gather", {parts[0].source, graph.integers(places)},
                    {attr("axis", static_cast<int64_t>(axis))});
}

}  // namespace

bool merge_concats(Graph& graph) {
  bool changed = false;
  // Visit the last concatenations first: they absorb those that they read, which are gone when it is their
  // turn.
  std::set<fe_node> gone;
  auto nodes = graph.nodes();
  std::ranges::reverse(nodes);
  for (Node node : nodes) {
    if (gone.contains(node.handle()) || node.op() != "concat") continue;
    const Value whole = node.result();
    const auto view = whole.view();
    if (view.use_count == 0 && !view.is_output) continue;
    const auto type = whole.type();
    if (!is_static(type.dims)) continue;
    const size_t axis = axis_of(node);
    std::vector<Node> inner;
    const auto leaves = leaves_of(node, axis, inner);
    const auto parts = parts_of(leaves, axis);
    const bool picked = is_picked(parts, type);
    if (!picked && parts.size() == node.operand_count()) continue;
    graph.set_insertion(node);
    Value result;
    if (picked) {
      result = pick(graph, parts, axis);
    } else {
      std::vector<Value> operands;
      for (const auto& part : parts) operands.push_back(value_of(graph, part, axis));
      result = operands.size() == 1
                   ? operands[0]
                   : graph.make("concat", operands, {attr("axis", static_cast<int64_t>(axis))});
    }
    graph.replace_uses(whole, result);
    graph.erase(node);
    for (Node each : inner) {
      gone.insert(each.handle());
      graph.erase(each);
    }
    changed = true;
  }
  return changed;
}

}  // namespace ferrite::passes
