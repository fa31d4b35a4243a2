// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Embeddings, sums of embeddings (bags), and sampling an image at points.
#include <algorithm>
#include <string>

#include "helpers.h"

namespace ferrite::from_torch {
namespace {

// ---- embeddings

/// For each index the number of times that it occurs.
Value occurrences(Context& c, Value indices, int64_t count) {
  const Value ones = full(c, {i64, indices.dims()}, 1);
  return gather(c, scatter(c, full(c, {i64, {count}}, 0), 0, indices, ones, "add"), indices, 0);
}
/// Rows of zeros to which the rows of `gradients` [n, d] are added at the indices [n]; none at `padding`.
Value row_gradients(Context& c, Value gradients, Value indices, int64_t rows, int64_t padding,
                    bool by_frequency) {
  if (by_frequency) {
    const Value times = cast_to(c, occurrences(c, indices, rows), gradients.dtype());
    gradients = binary(c, "div", gradients, along(c, times, 0, 2));
  }
  if (padding >= 0) {
    const Value kept = binary(c, "ne", indices, integer_scalar(c, indices.dtype(), padding));
    gradients = select(c, along(c, kept, 0, 2), gradients, number_like(c, gradients, 0));
  }
  const Value tuples = reshape_to(c, indices, {size_of(c, indices, 0), 1});
  const Value zeros = full(c, {gradients.dtype(), {rows, size_of(c, gradients, 1)}}, 0);
  return c.make("scatter_nd", {zeros, tuples, gradients}, attr("reduction", "add"));
}
void embedding_backward(Context& c) {
  const auto& result = c.result();
  const Value g = c.tensor("grad_output"), indices = flat(c, c.tensor("indices"));
  const int64_t rows = c.integer("num_weights"), padding = c.integer("padding_idx", -1);
  const Value wide =
      reshape_to(c, cast_to(c, g, accumulated(g.dtype())), {size_of(c, indices, 0), result.dims.at(1)});
  const Value sum = row_gradients(c, wide, indices, rows, padding, c.flag("scale_grad_by_freq", false));
  c.give(cast_to(c, sum, result.dtype));
}

enum class Bag : int64_t { sum = 0, mean = 1, max = 2 };
Bag bag_mode(Context& c) {
  const int64_t mode = c.integer("mode", 0);
  if (mode < 0 || mode > 2) c.bad("mode ", mode);
  return static_cast<Bag>(mode);
}
/// For each of the `count` indices the number of its bag. Bags begin at the offsets.
Value bag_numbers(Context& c, Value offsets, int64_t count, int64_t bags) {
  const Value starts = slice_dim(c, offsets, 0, 0, bags);
  const Value ones = full(c, starts.type(), 1);
  const Value begun = scatter(c, full(c, {offsets.dtype(), {count + 1}}, 0), 0, starts, ones, "add");
  const Value number = c.make("cumsum", {begun}, attr("axis", 0));
  return binary(c, "sub", slice_dim(c, number, 0, 0, count), 1);
}
void embedding_bag(Context& c) {
  const Value weight = c.tensor("weight"), indices = c.tensor("indices"), offsets = c.tensor("offsets");
  const auto mode = bag_mode(c);
  const int64_t padding = c.integer("padding_idx", -1), count = product(indices.dims());
  const auto& result = c.result(0);
  const int64_t bags = result.dims.at(0), width = result.dims.at(1);
  c.flag("include_last_offset", false);  // the dims of the result say how many bags there are
  if (indices.rank() != 1) c.bad("the indices have rank ", indices.rank());
  const DType wide = accumulated(weight.dtype()), counted = offsets.dtype();
  const Value bag = bag_numbers(c, offsets, count, bags), tuples = reshape_to(c, bag, {count, 1});
  Value rows = cast_to(c, gather(c, weight, indices, 0), wide);
  if (c.has("per_sample_weights")) {
    if (mode != Bag::sum) c.bad("weights of samples where bags are not summed");
    rows = binary(c, "mul", rows, along(c, c.operand("per_sample_weights", wide), 0, 2));
  }
  const Value kept = padding >= 0 ? binary(c, "ne", indices, integer_scalar(c, indices.dtype(), padding))
                                  : full(c, {boolean, indices.dims()}, 1);
  const Value sizes = scatter(c, full(c, {counted, {bags}}, 0), 0, bag, cast_to(c, kept, counted), "add");
  const bool is_max = mode == Bag::max;
  const Value start = is_max ? extreme_number(c, wide, false) : c.graph.scalar(wide, 0);
  if (padding >= 0) rows = select(c, along(c, kept, 0, 2), rows, start);
  Value y = c.make("scatter_nd", {expand_to(c, start, {bags, width}), tuples, rows},
                   attr("reduction", is_max ? "max" : "add"));
  const Value filled = along(c, binary(c, "gt", sizes, 0), 0, 2);
  if (mode == Bag::mean)
    y = binary(c, "div", y, along(c, cast_to(c, binary(c, "maximum", sizes, 1), wide), 0, 2));
  if (is_max) y = select(c, filled, y, number_like(c, y, 0));
  c.give(0, cast_to(c, y, result.dtype));
  // These results are for the gradient. PyTorch leaves some of them empty.
  if (c.wants(1)) c.give(1, c.result(1).dims == Dims{0} ? full(c, c.result(1), 0) : bag);
  if (c.wants(2)) c.give(2, mode == Bag::sum ? full(c, c.result(2), 0) : sizes);
  if (!c.wants(3)) return;
  if (mode == Bag::sum) return c.give(3, full(c, c.result(3), 0));
  if (mode == Bag::mean) return c.give(3, sizes);
  // The index of the first row that has the greatest element.
  const Value is_greatest =
      c.make("logical_and", {binary(c, "eq", rows, gather(c, y, bag, 0)), along(c, kept, 0, 2)});
  const Value number = counting(c, i64, {count, 1}, 0), past = integer_scalar(c, i64, count);
  const Value first = c.make("scatter_nd",
                             {expand_to(c, past, {bags, width}), tuples,
                              expand_to(c, select(c, is_greatest, number, past), {count, width})},
                             attr("reduction", "min"));
  const Value chosen = cast_to(c, gather(c, indices, clamped(c, first, 0, count - 1), 0), c.result(3).dtype);
  c.give(3, select(c, binary(c, "lt", first, past), chosen, number_like(c, chosen, 0)));
}
void embedding_bag_backward(Context& c) {
  const auto& result = c.result();
  const Value g = c.tensor("grad"), indices = c.tensor("indices"), sizes = c.tensor("bag_size");
  const auto mode = bag_mode(c);
  const int64_t rows = c.integer("num_weights"), padding = c.integer("padding_idx", -1);
  const int64_t count = product(indices.dims()), bags = g.dims().at(0);
  const bool by_frequency = c.flag("scale_grad_by_freq", false);
  if (c.flag("sparse", false)) c.unsupported("a sparse gradient");
  const DType wide = accumulated(g.dtype());
  Value gradients = cast_to(c, g, wide);
  const Value of_bag = c.tensor("offset2bag"), greatest = c.tensor("maximum_indices");
  if (mode == Bag::max) {
    if (by_frequency) c.unsupported("a gradient of maxima by frequency");
    const Value filled = along(c, binary(c, "gt", sizes, 0), 0, 2);
    gradients = select(c, filled, gradients, number_like(c, gradients, 0));
    c.optional("offsets");
    c.optional("per_sample_weights");
    const Value zeros = full(c, {wide, result.dims}, 0);
    return c.give(cast_to(c, scatter(c, zeros, 0, greatest, gradients, "add"), result.dtype));
  }
  Value bag = of_bag;
  if (bag.dims() != Dims{count}) {
    if (!c.has("offsets")) c.bad("the bags of ", count, " indices are not given");
    bag = bag_numbers(c, c.tensor("offsets"), count, bags);
  }
  c.optional("offsets");
  if (mode == Bag::mean)
    gradients = binary(c, "div", gradients, along(c, cast_to(c, binary(c, "maximum", sizes, 1), wide), 0, 2));
  Value each = gather(c, gradients, bag, 0);
  if (c.has("per_sample_weights"))
    each = binary(c, "mul", each, along(c, c.operand("per_sample_weights", wide), 0, 2));
  c.give(cast_to(c, row_gradients(c, each, indices, rows, padding, by_frequency), result.dtype));
}

// ---- sampling an image at points

enum class Beyond : int64_t { zeros = 0, border = 1, reflection = 2 };

/// The places of points along a dim of `size` pixels; the borders are -1 and 1.
Value pixel_places(Context& c, Value points, int64_t size, Beyond beyond, bool align_corners) {
  const auto length = static_cast<double>(size);
  const Value shifted = binary(c, "add", points, 1);
  Value x = align_corners ? binary(c, "mul", shifted, (length - 1) / 2)
                          : binary(c, "sub", binary(c, "mul", shifted, length / 2), 0.5);
  if (beyond == Beyond::zeros) return x;
  if (beyond == Beyond::reflection) {
    // Within twice the span, the second half is the mirror image of the first.
    const double low = align_corners ? 0 : -0.5, span = align_corners ? length - 1 : length;
    if (span == 0) return binary(c, "mul", x, 0);
    const Value distance = unary(c, "abs", binary(c, "sub", x, low));
    const Value within = binary(c, "mod", distance, 2 * span);
    const Value mirrored = binary(c, "sub", number_like(c, within, 2 * span), within);
    x = binary(c, "add", binary(c, "minimum", within, mirrored), low);
  }
  return binary(c, "minimum", binary(c, "maximum", x, 0), length - 1);
}
void grid_sampler(Context& c) {
  const Value image = c.tensor("input"), grid = c.tensor("grid");
  const int64_t mode = c.integer("interpolation_mode"), padding = c.integer("padding_mode");
  const bool align = c.flag("align_corners", false);
  if (mode < 0 || mode > 2 || padding < 0 || padding > 2) c.bad("mode ", mode, " and padding ", padding);
  if (mode == 2) c.unsupported("bicubic samples of a grid");
  if (image.rank() == 5 && grid.rank() == 5) c.unsupported("samples of a volume");
  if (image.rank() != 4 || grid.rank() != 4)
    c.bad("an image of rank ", image.rank(), " and a grid of ", grid.rank());
  const auto& result = c.result();
  need_rank(c, result.rank(), 4, 4);
  if (product(result.dims) == 0) return c.give(full(c, result, 0));
  const auto dims = image.dims();
  const int64_t batch = dims[0], channels = dims[1], height = dims[2], width = dims[3];
  const int64_t points = result.dims[2] * result.dims[3];
  const DType wide = accumulated(image.dtype());
  const Value pixels = reshape_to(c, image, {batch, channels, height * width});
  const Value places = reshape_to(c, cast_to(c, grid, wide), {batch, 1, points, 2});
  const auto coordinate = [&](int64_t k, int64_t size) {
    const Value point = reshape_to(c, slice_dim(c, places, 3, k, 1), {batch, 1, points});
    return pixel_places(c, point, size, static_cast<Beyond>(padding), align);
  };
  const Value x = coordinate(0, width), y = coordinate(1, height);
  const auto inside = [&](Value place, int64_t size) {
    return c.make("logical_and",
                  {binary(c, "ge", place, 0), binary(c, "le", place, static_cast<double>(size - 1))});
  };
  const auto whole = [&](Value place, int64_t size) {
    const Value in_range =
        binary(c, "minimum", binary(c, "maximum", place, 0), static_cast<double>(size - 1));
    return cast_to(c, in_range, i64);
  };
  /// The pixels at whole places; 0 outside.
  const auto sample = [&](Value at_x, Value at_y) {
    const Value row = binary(c, "mul", whole(at_y, height), integer_scalar(c, i64, width));
    const Value at = expand_to(c, binary(c, "add", row, whole(at_x, width)), {batch, channels, points});
    const Value found = cast_to(c, gather_elements(c, pixels, at, 2), wide);
    return select(c, c.make("logical_and", {inside(at_x, width), inside(at_y, height)}), found,
                  number_like(c, found, 0));
  };
  const auto give = [&](Value value) { c.give(reshape_to(c, cast_to(c, value, result.dtype), result.dims)); };
  if (mode == 1) return give(sample(unary(c, "round", x), unary(c, "round", y)));
  const Value left = unary(c, "floor", x), top = unary(c, "floor", y);
  const Value right = binary(c, "add", left, 1), bottom = binary(c, "add", top, 1);
  const Value to_left = binary(c, "sub", x, left), to_top = binary(c, "sub", y, top);
  const Value one = number_like(c, x, 1);
  const Value to_right = binary(c, "sub", one, to_left), to_bottom = binary(c, "sub", one, to_top);
  const auto part = [&](Value at_x, Value at_y, Value weight_x, Value weight_y) {
    return binary(c, "mul", sample(at_x, at_y), binary(c, "mul", weight_x, weight_y));
  };
  Value sum = part(left, top, to_right, to_bottom);
  sum = binary(c, "add", sum, part(right, top, to_left, to_bottom));
  sum = binary(c, "add", sum, part(left, bottom, to_right, to_top));
  give(binary(c, "add", sum, part(right, bottom, to_left, to_top)));
}

constexpr const char* bags =
    "weight indices offsets ~scale_grad_by_freq mode ~sparse per_sample_weights include_last_offset "
    "padding_idx";

constexpr OpEntry embedding_entries[] = {
    {"aten.embedding_dense_backward.default",
     "grad_output indices num_weights padding_idx scale_grad_by_freq", embedding_backward},
    {"aten._embedding_bag.default", bags, embedding_bag},
    {"aten._embedding_bag_forward_only.default", bags, embedding_bag},
    {"aten.embedding_bag.default", bags, embedding_bag},
    {"aten.embedding_bag.padding_idx", bags, embedding_bag},
    {"aten.grid_sampler.default", "input grid interpolation_mode padding_mode align_corners", grid_sampler},
    {"aten._embedding_bag_backward.default",
     "grad indices offsets offset2bag bag_size maximum_indices num_weights scale_grad_by_freq mode sparse "
     "per_sample_weights padding_idx",
     embedding_bag_backward},
    {"aten._embedding_bag_dense_backward.default",
     "grad indices offset2bag bag_size maximum_indices num_weights scale_grad_by_freq mode "
     "per_sample_weights "
     "padding_idx",
     embedding_bag_backward},
    {"aten.grid_sampler_2d.default", "input grid interpolation_mode padding_mode align_corners",
     grid_sampler},
};

}  // namespace

std::span<const OpEntry> embedding_ops() { return embedding_entries; }

}  // namespace ferrite::from_torch
