// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Slicing, joining, padding, gathering and scattering.
#include <algorithm>
#include <limits>

#include "ferrite/counted.hpp"
#include "helpers.h"

namespace ferrite::from_onnx {
namespace {

void slice(Context& c) {
  auto x = c.type(0);
  auto part = [&](size_t operand, const char* name) -> std::optional<Dims> {
    if (c.opset < 10) return c.integers(name);
    return c.has(operand) ? std::optional(c.constant_integers(operand)) : std::nullopt;
  };
  auto starts = part(1, "starts"), ends = part(2, "ends"), axes = part(3, "axes");
  std::optional<Dims> steps;
  if (c.opset >= 10) steps = part(4, "steps");
  if (!starts || !ends || starts->size() != ends->size())
    c.bad("starts and ends must be given, one of each for an axis");
  Dims named = c.axes(axes.value_or(dim_range(0, starts->size())), x.rank());
  if (named.size() != starts->size() || (steps && steps->size() != starts->size()))
    c.bad("there are ", starts->size(), " starts, ", named.size(), " axes and ",
          steps ? steps->size() : starts->size(), " steps");
  Dims from(x.rank()), sizes = x.dims, strides(x.rank(), 1);
  for (size_t k = 0; k < named.size(); ++k) {
    auto d = static_cast<size_t>(named[k]);
    const int64_t dim = x.dims[d];
    int64_t step = steps ? (*steps)[k] : 1;
    if (step == 0) c.bad("a step is 0");
    if (dim == 0) continue;
    // Steps longer than the dim reach a single element, and would overflow.
    step = std::clamp(step, -dim - 1, dim + 1);
    auto place = [&](int64_t at, int64_t low, int64_t high) {
      if (at < 0) at = at < -dim ? low : at + dim;
      return std::clamp(at, low, high);
    };
    int64_t start = step > 0 ? place((*starts)[k], 0, dim) : place((*starts)[k], 0, dim - 1);
    int64_t end = step > 0 ? place((*ends)[k], 0, dim) : place((*ends)[k], -1, dim - 1);
    int64_t reach = step > 0 ? end - start : start - end, stride = step > 0 ? step : -step;
    sizes[d] = reach > 0 ? (reach + stride - 1) / stride : 0;
    from[d] = sizes[d] > 0 ? start : 0;
    strides[d] = sizes[d] > 1 ? step : 1;
  }
  if (sizes == x.dims && strides == Dims(x.rank(), 1)) return c.give(c.operand(0));
  c.give(
      c.make("slice", {c.operand(0)}, attr("starts", from), attr("sizes", sizes), attr("strides", strides)));
}

void split(Context& c) {
  auto x = c.type(0);
  auto axis = static_cast<size_t>(c.axis(c.integer("axis", 0), x.rank()));
  std::optional<Dims> given;
  if (c.opset < 13)
    given = c.integers("split");
  else if (c.has(1))
    given = c.constant_integers(1);
  const auto parts = static_cast<int64_t>(c.node.output_size());
  Dims sizes = given.value_or(Dims{});
  if (!given) {
    if (c.integer("num_outputs", parts) != parts)
      c.bad("attribute 'num_outputs' is not the number of outputs");
    if (parts == 0) c.bad("there are no outputs");
    if (x.dims[axis] % parts != 0 && c.opset < 18)
      c.bad("dim ", axis, " of ", to_string(x), " does not split into ", parts, " equal parts");
    int64_t each = (x.dims[axis] + parts - 1) / parts, left = x.dims[axis];
    for (int64_t k = 0; k < parts; ++k, left -= sizes.back()) sizes.push_back(std::min(each, left));
  }
  int64_t total = 0;
  for (int64_t size : sizes)
    if (size < 0 || __builtin_add_overflow(total, size, &total))
      c.bad("the sizes ", dims_text(sizes), " are no sizes");
  if (total != x.dims[axis] || static_cast<int64_t>(sizes.size()) != parts)
    c.bad("the sizes ", dims_text(sizes), " do not split dim ", axis, " of ", to_string(x), " into ", parts,
          " parts");
  int64_t start = 0;
  for (size_t k = 0; k < sizes.size(); start += sizes[k++])
    if (c.wants(k)) c.give(k, slice_dim(c, c.operand(0), axis, start, sizes[k]));
}

void concat(Context& c) {
  std::vector<Value> operands;
  for (size_t k = 0; k < c.operand_count(); ++k) operands.push_back(c.operand(k));
  if (operands.empty()) c.bad("there are no inputs");
  int64_t axis = c.axis(c.opset < 4 ? c.integer("axis", 1) : c.integer("axis"), operands[0].rank());
  c.give(operands.size() == 1 ? operands[0] : c.graph.make("concat", operands, {attr("axis", axis)}));
}

void pad(Context& c) {
  auto x = c.type(0);
  auto mode = c.text("mode", "constant");
  if (mode != "constant" && mode != "reflect" && mode != "edge" && !(mode == "wrap" && c.opset >= 19))
    c.bad("attribute 'mode' is '", mode, "' and may be constant, reflect, edge or (opset 19) wrap");
  Dims pads = c.opset < 11 ? c.integers("pads").value_or(Dims{}) : c.constant_integers(1);
  Dims named = dim_range(0, x.rank());
  if (c.opset >= 18 && c.has(3)) named = c.axes(c.constant_integers(3), x.rank());
  if (pads.size() != 2 * named.size())
    c.bad("there are ", counted(pads.size(), "pad"), " for ", counted(named.size(), "dim"));
  Dims low(x.rank()), high(x.rank());
  for (size_t k = 0; k < named.size(); ++k) {
    low[static_cast<size_t>(named[k])] = pads[k];
    high[static_cast<size_t>(named[k])] = pads[named.size() + k];
  }
  for (size_t d = 0; d < x.rank(); ++d)
    if (mode == "reflect" && std::max(low[d], high[d]) >= std::max<int64_t>(x.dims[d], 1))
      c.unsupported("reflection over more than the ", x.dims[d], " elements of dim ", d, " is not supported");
  std::vector<Value> operands{c.operand(0)};
  if (mode == "constant") {
    if (c.opset < 11)
      operands.push_back(number_like(c, c.operand(0), c.number("value", 0)));
    else if (c.has(2))
      operands.push_back(reshape_to(c, c.operand(2), {}));
  }
  c.give(c.graph.make("pad", operands, {attr("low", low), attr("high", high), attr("mode", mode)}));
}

void gather(Context& c) {
  c.give(c.make("gather", {c.operand(0), c.operand(1)},
                attr("axis", c.axis(c.integer("axis", 0), c.type(0).rank()))));
}
void gather_elements(Context& c) {
  c.give(c.make("gather_elements", {c.operand(0), c.operand(1)},
                attr("axis", c.axis(c.integer("axis", 0), c.type(0).rank()))));
}
void gather_nd(Context& c) {
  c.give(c.make("gather_nd", {c.operand(0), c.operand(1)}, attr("batch_dims", c.integer("batch_dims", 0))));
}

std::string reduction_of(Context& c) {
  auto reduction = c.opset < 16 ? std::string("none") : c.text("reduction", "none");
  bool known = reduction == "none" || reduction == "add" || reduction == "mul" ||
               (c.opset >= 18 && (reduction == "max" || reduction == "min"));
  if (!known) c.bad("attribute 'reduction' is '", reduction, "', which opset ", c.opset, " does not define");
  return reduction;
}
void scatter_elements(Context& c) {
  c.give(c.make("scatter_elements", {c.operand(0), c.operand(1), c.operand(2)},
                attr("axis", c.axis(c.integer("axis", 0), c.type(0).rank())),
                attr("reduction", reduction_of(c))));
}
void scatter_nd(Context& c) {
  c.give(
      c.make("scatter_nd", {c.operand(0), c.operand(1), c.operand(2)}, attr("reduction", reduction_of(c))));
}

void trilu(Context& c) {
  c.give(c.make("trilu", {c.operand(0)}, attr("upper", c.flag("upper", true)),
                attr("k", c.has(1) ? c.constant_integer(1) : 0)));
}

void reverse_sequence(Context& c) {
  int64_t batch = c.integer("batch_axis", 1), time = c.integer("time_axis", 0);
  c.give(c.make("reverse_sequence", {c.operand(0), c.operand(1)}, attr("batch_axis", batch),
                attr("time_axis", time)));
}

constexpr OpEntry move_entries[] = {
    {"Slice", 1, newest, slice},
    {"Split", 2, newest, split},
    {"Concat", 1, newest, concat},
    {"Pad", 2, newest, pad},
    {"Gather", 1, newest, gather},
    {"GatherElements", 11, newest, gather_elements},
    {"GatherND", 11, newest, gather_nd},
    {"Scatter", 9, 10, scatter_elements},
    {"ScatterElements", 11, newest, scatter_elements},
    {"ScatterND", 11, newest, scatter_nd},
    {"Trilu", 14, newest, trilu},
    {"ReverseSequence", 10, newest, reverse_sequence},
};

}  // namespace

std::span<const OpEntry> move_ops() { return move_entries; }

}  // namespace ferrite::from_onnx
