// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ops that change or query shapes and compute nothing.
#include <algorithm>

#include "ferrite/counted.hpp"
#include "helpers.h"

namespace ferrite::from_onnx {
namespace {

void identity(Context& c) { c.give(c.operand(0)); }

/// Inference keeps every element, so the mask is all true.
void dropout(Context& c) {
  Value x = c.operand(0);
  if (c.opset >= 12 && c.has(2) && c.constant_integer(2) != 0 && (!c.has(1) || c.constant_number(1) != 0))
    c.unsupported("training mode is not supported; export the model for inference");
  c.give(x);
  if (c.wants(1))
    c.give(1, c.make("full", {}, attr("dtype", c.opset < 10 ? x.dtype() : boolean), attr("shape", x.dims()),
                     attr("value", 1.0)));
}

void shape(Context& c) {
  Dims dims = c.type(0).dims;
  const auto rank = static_cast<int64_t>(dims.size());
  int64_t start = 0, end = rank;
  if (c.opset >= 15) {
    auto clamped = [&](int64_t at) { return std::clamp(at < 0 ? at + rank : at, int64_t{0}, rank); };
    start = clamped(c.integer("start", 0));
    end = std::max(start, clamped(c.integer("end", rank)));
  }
  c.give(c.graph.integers({dims.begin() + start, dims.begin() + end}));
}
void size(Context& c) {
  int64_t count = c.type(0).elements();
  c.give(c.graph.literal({i64, {}}, &count));
}

void reshape(Context& c) {
  auto x = c.type(0);
  Dims wanted = c.opset < 5 ? c.integers("shape").value_or(Dims{}) : c.constant_integers(1);
  bool zero_is_zero = c.flag("allowzero", false);
  int64_t known = 1;
  std::optional<size_t> open;
  for (size_t k = 0; k < wanted.size(); ++k) {
    if (wanted[k] == 0 && !zero_is_zero) {
      if (k >= x.rank())
        c.bad("the shape ", dims_text(wanted), " copies dim ", k, " of ", to_string(x),
              ", which is not there");
      wanted[k] = x.dims[k];
    }
    if (wanted[k] == -1) {
      if (open) c.bad("the shape ", dims_text(wanted), " leaves two dims open");
      open = k;
    } else if (wanted[k] < 0 || __builtin_mul_overflow(known, wanted[k], &known)) {
      c.bad("the shape ", dims_text(wanted), " is no shape");
    }
  }
  if (open) {
    if (known == 0 || x.elements() % known != 0)
      c.bad(to_string(x), " does not reshape to ", dims_text(wanted));
    wanted[*open] = x.elements() / known;
  }
  c.give(reshape_to(c, c.operand(0), wanted));
}

void flatten(Context& c) {
  Dims dims = c.type(0).dims;
  const auto rank = static_cast<int64_t>(dims.size());
  int64_t axis = c.integer("axis", 1);
  if (axis < -rank || axis > rank) c.bad("axis ", axis, " does not lie in a tensor of rank ", rank);
  if (axis < 0) axis += rank;
  c.give(
      reshape_to(c, c.operand(0),
                 {product({dims.begin(), dims.begin() + axis}), product({dims.begin() + axis, dims.end()})}));
}

/// The axes: an attribute before opset 13, operand 1 from 13 on.
std::optional<Dims> axes_before_13(Context& c) {
  if (c.opset < 13) return c.integers("axes");
  return c.has(1) ? std::optional(c.constant_integers(1)) : std::nullopt;
}

void squeeze(Context& c) {
  auto x = c.type(0);
  Dims axes;
  if (auto given = axes_before_13(c))
    axes = c.axes(*given, x.rank());
  else
    for (size_t k = 0; k < x.rank(); ++k)
      if (x.dims[k] == 1) axes.push_back(static_cast<int64_t>(k));
  Dims dims;
  for (size_t k = 0; k < x.rank(); ++k) {
    bool named = std::ranges::count(axes, static_cast<int64_t>(k)) > 0;
    if (named && x.dims[k] != 1) c.bad("dim ", k, " of ", to_string(x), " has not size 1");
    if (!named) dims.push_back(x.dims[k]);
  }
  c.give(reshape_to(c, c.operand(0), dims));
}

void unsqueeze(Context& c) {
  auto x = c.type(0);
  auto given = axes_before_13(c);
  if (!given) c.bad("the axes are missing");
  size_t rank = x.rank() + given->size();
  Dims axes = c.axes(*given, rank), dims;
  auto next = x.dims.begin();
  for (size_t k = 0; k < rank; ++k)
    dims.push_back(std::ranges::count(axes, static_cast<int64_t>(k)) ? 1 : *next++);
  c.give(reshape_to(c, c.operand(0), dims));
}

void transpose(Context& c) {
  size_t rank = c.type(0).rank();
  Dims perm = dim_range(0, rank);
  std::ranges::reverse(perm);
  if (auto given = c.integers("perm")) perm = c.axes(*given, rank);
  if (perm.size() != rank)
    c.bad("attribute 'perm' names ", counted(perm.size(), "dim"), " and the input has ", rank);
  c.give(transpose_by(c, c.operand(0), perm));
}

void expand(Context& c) {
  Dims wanted = c.constant_integers(1);
  for (int64_t dim : wanted)
    if (dim < 0) c.bad("the shape ", dims_text(wanted), " is no shape");
  c.give(expand_to(c, c.operand(0), broadcast_dims(c, c.type(0).dims, wanted)));
}

void tile(Context& c) {
  auto x = c.type(0);
  Dims repeats = c.constant_integers(1);
  if (repeats.size() != x.rank()) c.bad("there are ", repeats.size(), " repeats for ", to_string(x));
  c.give(c.make("tile", {c.operand(0)}, attr("repeats", repeats)));
}

/// Moves channels to blocks of pixels: DCR takes the block from the first factor of the channels, CRD from
/// the last.
void depth_to_space(Context& c) {
  auto x = c.type(0);
  int64_t block = c.integer("blocksize");
  auto mode = c.text("mode", "DCR");
  if (mode != "DCR" && mode != "CRD") c.bad("attribute 'mode' is '", mode, "' and may be DCR or CRD");
  if (x.rank() != 4 || block < 1 || block > (1 << 15) || x.dims[1] % (block * block) != 0)
    c.bad(to_string(x), " has no channels for blocks of ", block);
  int64_t n = x.dims[0], channels = x.dims[1] / (block * block), h = x.dims[2], w = x.dims[3];
  bool first = mode == "DCR";
  Value split = reshape_to(
      c, c.operand(0), first ? Dims{n, block, block, channels, h, w} : Dims{n, channels, block, block, h, w});
  Value moved = transpose_by(c, split, first ? Dims{0, 3, 4, 1, 5, 2} : Dims{0, 1, 4, 2, 5, 3});
  c.give(reshape_to(c, moved, {n, channels, h * block, w * block}));
}
void space_to_depth(Context& c) {
  auto x = c.type(0);
  int64_t block = c.integer("blocksize");
  auto mode = c.text("mode", "DCR");
  if (mode != "DCR" && mode != "CRD") c.bad("attribute 'mode' is '", mode, "' and may be DCR or CRD");
  if (x.rank() != 4 || block < 1 || x.dims[2] % block != 0 || x.dims[3] % block != 0)
    c.bad(to_string(x), " does not split into blocks of ", block);
  int64_t n = x.dims[0], channels = x.dims[1], h = x.dims[2] / block, w = x.dims[3] / block;
  Value split = reshape_to(c, c.operand(0), {n, channels, h, block, w, block});
  Value moved = transpose_by(c, split, mode == "DCR" ? Dims{0, 3, 5, 1, 2, 4} : Dims{0, 1, 3, 5, 2, 4});
  c.give(reshape_to(c, moved, {n, channels * block * block, h, w}));
}

constexpr OpEntry shape_entries[] = {
    {"Identity", 1, newest, identity},
    {"Dropout", 7, newest, dropout},
    {"Shape", 1, newest, shape},
    {"Size", 1, newest, size},
    {"Reshape", 1, newest, reshape},
    {"Flatten", 1, newest, flatten},
    {"Squeeze", 1, newest, squeeze},
    {"Unsqueeze", 1, newest, unsqueeze},
    {"Transpose", 1, newest, transpose},
    {"Expand", 8, newest, expand},
    {"Tile", 6, newest, tile},
    {"DepthToSpace", 1, newest, depth_to_space},
    {"SpaceToDepth", 1, newest, space_to_depth},
};

}  // namespace

std::span<const OpEntry> shape_ops() { return shape_entries; }

}  // namespace ferrite::from_onnx
