// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Overloads that take parts of tensors, diagonals among them, put parts into tensors, and pad; with their
// gradients.
#include <algorithm>
#include <limits>

#include "helpers.h"

namespace ferrite::from_torch {
namespace {

// ---- pads

Value padded(Context& c, Value x, const Dims& low, const Dims& high, std::string_view mode = "constant",
             Value fill = {}) {
  const auto zero = [](int64_t value) { return value == 0; };
  if (std::ranges::all_of(low, zero) && std::ranges::all_of(high, zero)) return x;
  std::vector<Value> operands{x};
  if (fill) operands.push_back(fill);
  return c.graph.make("pad", operands,
                      {attr("low", low), attr("high", high), attr("mode", std::string(mode))});
}
/// PyTorch's lists of pads begin at the last dim: low, high, low of the dim before, and so on.
Value padded_as_listed(Context& c, Value x, const Dims& pads, std::string_view mode, Value fill = {}) {
  const size_t rank = x.rank();
  if (pads.size() % 2 != 0 || pads.size() > 2 * rank) c.bad(pads.size(), " pads for rank ", rank);
  Dims low(rank, 0), high(rank, 0);
  for (size_t k = 0; k < pads.size() / 2; ++k) {
    low[rank - 1 - k] = pads[2 * k];
    high[rank - 1 - k] = pads[2 * k + 1];
  }
  return padded(c, x, low, high, mode, fill);
}
void constant_pad(Context& c) {
  const Value x = c.tensor("self");
  const Value fill = c.has("value") ? c.operand("value", x.dtype()) : number_like(c, x, 0);
  c.give(padded_as_listed(c, x, c.integers("pad"), "constant", fill));
}
/// reflection_pad and replication_pad.
void edge_pad(Context& c) {
  c.give(padded_as_listed(c, c.tensor("self"), c.integers("padding"), c.entry.standard));
}
void pad(Context& c) {
  const auto mode = c.text("mode", "constant");
  if (mode == "constant") return constant_pad(c);
  if (c.has("value")) c.bad("a pad of mode '", mode, "' takes no value");
  const std::string_view ours = mode == "reflect"     ? "reflect"
                                : mode == "replicate" ? "edge"
                                : mode == "circular"  ? "wrap"
                                                      : "";
  if (ours.empty()) c.bad("the mode is '", mode, "'");
  c.give(padded_as_listed(c, c.tensor("self"), c.integers("pad"), ours));
}
/// Element i goes to place i + shift, and around the end. One pad by as much as is cropped at the other side.
void roll(Context& c) {
  const Value source = c.tensor("self");
  const auto shifts = c.integers("shifts");
  auto rolled = c.integers("dims");
  const bool whole = rolled.empty();
  if (source.rank() == 0) return c.give(source);
  const Value x = whole ? flat(c, source) : source;
  if (whole) rolled = {0};
  if (shifts.size() != rolled.size()) c.bad(shifts.size(), " shifts for ", rolled.size(), " dims");
  const auto sizes = x.dims();
  Dims low(sizes.size(), 0), high(sizes.size(), 0);
  for (size_t k = 0; k < rolled.size(); ++k) {
    const auto d = static_cast<size_t>(c.dim(rolled[k], sizes.size()));
    if (sizes[d] == 0) continue;
    low[d] = (low[d] + shifts[k] % sizes[d] + sizes[d]) % sizes[d];
    high[d] = -low[d];
  }
  c.give(reshape_to(c, padded(c, x, low, high, "wrap"), source.dims()));
}

// ---- parts

/// Elements start, start + step, ... of a dim.
struct Range {
  int64_t start, size, step;
};
Range range_of(int64_t start, int64_t size, int64_t step) {
  return {size > 0 ? start : 0, size, size > 1 ? step : 1};
}
/// The range that the arguments start, end and step name, as Python reads them.
Range named_range(Context& c, int64_t length) {
  const int64_t step = c.integer("step", 1);
  if (step <= 0) c.bad("the step is ", step);
  const auto place = [&](int64_t at) { return std::clamp<int64_t>(at < 0 ? at + length : at, 0, length); };
  const int64_t start = place(c.integer("start", 0)), end = place(c.integer("end", length));
  return range_of(start, end > start ? (end - start - 1) / step + 1 : 0, step);
}
/// The single element that the argument index names.
Range named_element(Context& c, int64_t length) {
  const int64_t index = c.integer("index");
  if (index < -length || index >= length) c.bad("index ", index, " of ", length, " elements");
  return {index < 0 ? index + length : index, 1, 1};
}
Value part_of(Context& c, Value x, size_t dim, const Range& range) {
  return slice_dim(c, x, dim, range.start, range.size, range.step);
}
/// Zeros of `length` elements along the dim, with those of `part` in the range: the reverse of part_of.
Value spread(Context& c, Value part, size_t dim, const Range& range, int64_t length) {
  need_rank(c, part.rank(), dim + 1);
  auto dims = part.dims();
  if (range.size == 0) {
    dims[dim] = length;
    return full(c, {part.dtype(), dims}, 0);
  }
  if (range.step > 1) {
    Dims apart = dims;
    apart.insert(apart.begin() + static_cast<std::ptrdiff_t>(dim) + 1, 1);
    Dims low(apart.size(), 0), high(apart.size(), 0);
    high[dim + 1] = range.step - 1;
    dims[dim] *= range.step;
    part = reshape_to(c, padded(c, reshape_to(c, part, apart), low, high), dims);
  }
  Dims low(dims.size(), 0), high(dims.size(), 0);
  low[dim] = range.start;
  high[dim] = length - range.start - dims[dim];
  return padded(c, part, low, high);
}
/// x with the elements of `part` in the range.
Value with_part(Context& c, Value x, Value part, size_t dim, const Range& range) {
  if (range.size == 0) return x;
  const int64_t length = size_of(c, x, dim);
  part = cast_to(c, part, x.dtype());
  if (range.step == 1) {
    const int64_t end = range.start + range.size;
    std::vector<Value> parts;
    if (range.start > 0) parts.push_back(slice_dim(c, x, dim, 0, range.start));
    parts.push_back(part);
    if (end < length) parts.push_back(slice_dim(c, x, dim, end, length - end));
    return concat(c, parts, dim);
  }
  const Value inside = spread(c, full(c, {boolean, {range.size}}, 1), 0, range, length);
  return select(c, along(c, inside, dim, x.rank()), spread(c, part, dim, range, length), x);
}

/// The gradient of a pad of one dim, which had `length` elements: what was copied from an element adds to it.
Value pad_gradient(Context& c, Value g, size_t dim, int64_t low, int64_t high, int64_t length, bool mirrors) {
  const int64_t head = std::max<int64_t>(low, 0), tail = std::max<int64_t>(high, 0);
  const int64_t all = size_of(c, g, dim), inner = all - head - tail;
  const auto part = [&](int64_t start, int64_t size) {
    const Value copies = slice_dim(c, g, dim, start, size);
    return mirrors ? slice_dim(c, copies, dim, size - 1, size, -1)
                   : reduce_over(c, "reduce_sum", copies, {static_cast<int64_t>(dim)});
  };
  const auto placed = [&](Value x, int64_t start) {
    return spread(c, x, dim, {start, size_of(c, x, dim), 1}, length);
  };
  Value sum = placed(slice_dim(c, g, dim, head, inner), head - low);
  if (head > 0) sum = binary(c, "add", sum, placed(part(0, head), mirrors ? 1 : 0));
  if (tail > 0)
    sum = binary(c, "add", sum, placed(part(head + inner, tail), mirrors ? length - 1 - tail : length - 1));
  return sum;
}
void edge_pad_backward(Context& c) {
  Value g = c.tensor("grad_output");
  const auto dims = c.tensor("self").dims(), pads = c.integers("padding");
  const bool mirrors = std::string_view(c.entry.standard) == "reflect";
  if (pads.size() % 2 != 0 || pads.size() > 2 * dims.size())
    c.bad(pads.size(), " pads for rank ", dims.size());
  const DType dtype = g.dtype();
  if (product(dims) == 0) return c.give(full(c, c.result(), 0));
  g = cast_to(c, g, accumulated(dtype));
  for (size_t k = 0; k < pads.size() / 2; ++k) {
    const size_t dim = dims.size() - 1 - k;
    if (pads[2 * k] != 0 || pads[2 * k + 1] != 0)
      g = pad_gradient(c, g, dim, pads[2 * k], pads[2 * k + 1], dims[dim], mirrors);
  }
  c.give(cast_to(c, g, dtype));
}

void slice(Context& c) {
  const Value x = c.tensor("self");
  const size_t dim = named_dim(c, x.rank());
  c.give(part_of(c, x, dim, named_range(c, size_of(c, x, dim))));
}
void slice_scatter(Context& c) {
  const Value x = c.tensor("self");
  const size_t dim = named_dim(c, x.rank());
  const auto range = named_range(c, size_of(c, x, dim));
  auto dims = x.dims();
  dims[dim] = range.size;
  c.give(with_part(c, x, expand_to(c, c.tensor("src"), dims), dim, range));
}
void slice_backward(Context& c) {
  const size_t dim = named_dim(c, c.integers("input_sizes").size());
  const int64_t length = c.integers("input_sizes")[dim];
  c.give(spread(c, c.tensor("grad_output"), dim, named_range(c, length), length));
}
void narrow(Context& c) {
  const Value x = c.tensor("self");
  const size_t dim = named_dim(c, x.rank());
  const int64_t length = size_of(c, x, dim), size = c.integer("length");
  int64_t start = c.integer("start");
  if (start < 0) start += length;
  if (start < 0 || size < 0 || start > length || size > length - start)
    c.bad("elements ", start, " to ", start + size, " of ", length);
  c.give(part_of(c, x, dim, range_of(start, size, 1)));
}
void select_element(Context& c) {
  const Value x = c.tensor("self");
  const size_t dim = named_dim(c, x.rank());
  c.give(reshape_to(c, part_of(c, x, dim, named_element(c, size_of(c, x, dim))), c.result().dims));
}
void select_scatter(Context& c) {
  const Value x = c.tensor("self");
  const size_t dim = named_dim(c, x.rank());
  auto dims = x.dims();
  const auto range = named_element(c, dims[dim]);
  dims[dim] = 1;
  c.give(with_part(c, x, reshape_to(c, c.tensor("src"), dims), dim, range));
}
void select_backward(Context& c) {
  auto dims = c.integers("input_sizes");
  const size_t dim = named_dim(c, dims.size());
  const int64_t length = dims[dim];
  dims[dim] = 1;
  c.give(spread(c, reshape_to(c, c.tensor("grad_output"), dims), dim, named_element(c, length), length));
}

/// One result for each of `sizes`, one after the other.
void give_parts(Context& c, Value x, size_t dim, const Dims& sizes) {
  if (sizes.size() != c.result_count()) c.bad(sizes.size(), " parts, and ", c.result_count(), " results");
  int64_t start = 0;
  for (size_t k = 0; k < sizes.size(); ++k) {
    if (c.wants(k)) c.give(k, part_of(c, x, dim, range_of(start, sizes[k], 1)));
    start += sizes[k];
  }
}
/// As many parts of `size` as there are results; the last ones are what is left.
void give_equal_parts(Context& c, Value x, size_t dim, int64_t size) {
  int64_t left = size_of(c, x, dim);
  Dims sizes;
  for (size_t k = 0; k < c.result_count(); ++k) {
    sizes.push_back(std::min(size, left));
    left -= sizes.back();
  }
  if (left > 0) c.bad(c.result_count(), " parts of ", size, " elements leave ", left);
  give_parts(c, x, dim, sizes);
}
void split(Context& c) {
  const Value x = c.tensor("self");
  give_equal_parts(c, x, named_dim(c, x.rank()), c.integer("split_size"));
}
void split_by_sizes(Context& c) {
  const Value x = c.tensor("self");
  const size_t dim = named_dim(c, x.rank());
  const auto sizes = c.integers(c.has("split_sizes") ? "split_sizes" : "split_size");
  int64_t total = 0;
  for (const auto size : sizes) total += size;
  if (total != size_of(c, x, dim)) c.bad("parts of ", total, " elements of ", size_of(c, x, dim));
  give_parts(c, x, dim, sizes);
}
void chunk(Context& c) {
  const Value x = c.tensor("self");
  const size_t dim = named_dim(c, x.rank());
  const int64_t chunks = c.integer("chunks");
  if (chunks < 1) c.bad(chunks, " chunks");
  give_equal_parts(c, x, dim, (size_of(c, x, dim) + chunks - 1) / chunks);
}
void tensor_split(Context& c) {
  const Value x = c.tensor("self");
  const size_t dim = named_dim(c, x.rank());
  const int64_t length = size_of(c, x, dim);
  Dims sizes;
  if (c.has("sections")) {
    const int64_t sections = c.integer("sections");
    if (sections < 1 || sections != static_cast<int64_t>(c.result_count()))
      c.bad(sections, " sections, and ", c.result_count(), " results");
    for (int64_t k = 0; k < sections; ++k) sizes.push_back(length / sections + (k < length % sections));
    return give_parts(c, x, dim, sizes);
  }
  // The indices are the bounds of Python slices, which may overlap.
  auto bounds = c.integers("indices");
  if (bounds.size() + 1 != c.result_count())
    c.bad(bounds.size() + 1, " parts, and ", c.result_count(), " results");
  for (auto& bound : bounds) bound = std::clamp<int64_t>(bound < 0 ? bound + length : bound, 0, length);
  bounds.insert(bounds.begin(), 0);
  bounds.push_back(length);
  for (size_t k = 0; k + 1 < bounds.size(); ++k)
    if (c.wants(k))
      c.give(k, part_of(c, x, dim, range_of(bounds[k], std::max<int64_t>(bounds[k + 1] - bounds[k], 0), 1)));
}
/// hsplit and others: along the dim in their name, in parts as the results say.
void split_as_results(Context& c) {
  const Value x = c.tensor("self");
  c.argument("sections");
  c.argument("indices");
  const std::string_view how = c.entry.standard;
  const size_t dim = how == "row" ? 0 : how == "depth" ? 2 : x.rank() > 1;
  Dims sizes;
  for (size_t k = 0; k < c.result_count(); ++k) {
    if (dim >= x.rank() || c.result(k).rank() != x.rank()) c.bad("its parts have another rank");
    sizes.push_back(c.result(k).dims[dim]);
  }
  give_parts(c, x, dim, sizes);
}
void unbind(Context& c) {
  const Value x = c.tensor("self");
  const size_t dim = named_dim(c, x.rank());
  if (size_of(c, x, dim) != static_cast<int64_t>(c.result_count()))
    c.bad(size_of(c, x, dim), " elements, and ", c.result_count(), " results");
  for (size_t k = 0; k < c.result_count(); ++k)
    if (c.wants(k))
      c.give(k, reshape_to(c, part_of(c, x, dim, {static_cast<int64_t>(k), 1, 1}), c.result(k).dims));
}
/// The windows of `size` elements at each `step`; the elements of a window become the last dim.
void unfold(Context& c) {
  const Value x = c.tensor("self");
  const int64_t size = c.integer("size"), step = c.integer("step");
  const auto dim = static_cast<size_t>(c.dim(c.integer("dimension"), x.rank()));
  if (x.rank() == 0) return c.give(reshape_to(c, x, c.result().dims));
  const int64_t length = size_of(c, x, dim);
  if (size < 0 || size > length || step < 1) c.bad("windows of ", size, " at each ", step, " of ", length);
  const Dims shape{(length - size) / step + 1, size};
  const Value first = binary(c, "mul", counting(c, i64, shape, 0), integer_scalar(c, i64, step));
  const Value places = binary(c, "add", first, counting(c, i64, shape, 1));
  const Value windows = c.make("gather", {x, places}, attr("axis", static_cast<int64_t>(dim)));
  auto perm = dim_range(0, windows.rank());
  std::rotate(perm.begin() + static_cast<std::ptrdiff_t>(dim) + 1,
              perm.begin() + static_cast<std::ptrdiff_t>(dim) + 2, perm.end());
  c.give(transpose_by(c, windows, perm));
}

/// The windows of an image as columns, [..., channels * elements of a window, windows].
void image_to_columns(Context& c) {
  const Value x = c.tensor("self");
  const auto kernel = c.integers("kernel_size"), dilation = c.integers("dilation"),
             pads = c.integers("padding"), step = c.integers("stride");
  for (const auto* pair : {&kernel, &dilation, &pads, &step})
    if (pair->size() != 2) c.bad("an argument has not two elements");
  const auto& result = c.result();
  if (x.rank() < 3 || x.rank() > 4) c.bad("an image of rank ", x.rank());
  if (product(result.dims) == 0) return c.give(full(c, result, 0));
  const size_t first = x.rank() - 2;
  Dims low(x.rank(), 0), counts(2);
  for (size_t k = 0; k < 2; ++k) {
    low[first + k] = pads[k];
    if (step[k] < 1) c.bad("the stride is ", step[k]);
    counts[k] = (size_of(c, x, first + k) + 2 * pads[k] - dilation[k] * (kernel[k] - 1) - 1) / step[k] + 1;
  }
  const Value image = padded(c, x, low, low);
  Dims column = x.dims();
  column.resize(first);
  column.insert(column.end(), {1, counts[0] * counts[1]});
  std::vector<Value> columns;
  for (int64_t i = 0; i < kernel[0]; ++i)
    for (int64_t j = 0; j < kernel[1]; ++j) {
      const Value rows = slice_dim(c, image, first, i * dilation[0], counts[0], counts[0] > 1 ? step[0] : 1);
      const Value one =
          slice_dim(c, rows, first + 1, j * dilation[1], counts[1], counts[1] > 1 ? step[1] : 1);
      columns.push_back(reshape_to(c, one, column));
    }
  c.give(reshape_to(c, concat(c, columns, first), result.dims));
}

/// n times the differences of neighbours.
void neighbour_differences(Context& c) {
  Value x = c.tensor("self");
  const size_t dim = named_dim(c, x.rank(), -1);
  std::vector<Value> parts;
  if (c.has("prepend")) parts.push_back(cast_to(c, c.tensor("prepend"), c.result().dtype));
  parts.push_back(cast_to(c, x, c.result().dtype));
  if (c.has("append")) parts.push_back(cast_to(c, c.tensor("append"), c.result().dtype));
  x = parts.size() > 1 ? concat(c, parts, dim) : parts[0];
  for (int64_t n = c.integer("n", 1); n > 0; --n) {
    const int64_t left = size_of(c, x, dim) - 1;
    if (left < 1) return c.give(full(c, c.result(), 0));
    const Value next = slice_dim(c, x, dim, 1, left), before = slice_dim(c, x, dim, 0, left);
    x = binary(c, x.dtype() == boolean ? "logical_xor" : "sub", next, before);
  }
  c.give(x);
}

/// Adds windows [..., size, count] of a dim to the dim of `length` elements that they were taken from.
Value without_windows(Context& c, Value windows, size_t dim, int64_t length, int64_t dilation, int64_t pad,
                      int64_t step) {
  auto dims = windows.dims();
  const int64_t size = dims[dim], count = dims[dim + 1], bin = length;
  std::vector<int64_t> places;
  for (int64_t k = 0; k < size; ++k)
    for (int64_t n = 0; n < count; ++n) {
      const int64_t place = k * dilation + n * step - pad;
      places.push_back(place >= 0 && place < length ? place : bin);  // of the padding
    }
  dims.erase(dims.begin() + static_cast<std::ptrdiff_t>(dim));
  dims[dim] = size * count;
  const Value indices = along(c, c.graph.integers(places), dim, dims.size());
  const Value parts = reshape_to(c, windows, dims);
  auto whole = dims;
  whole[dim] = length + 1;
  const Value sum =
      scatter(c, full(c, {windows.dtype(), whole}, 0), dim, expand_to(c, indices, dims), parts, "add");
  return slice_dim(c, sum, dim, 0, length);
}
/// The sum of the windows of an image: the gradient of im2col.
void columns_to_image(Context& c) {
  const Value x = c.tensor("self");
  const auto size = c.integers("output_size"), kernel = c.integers("kernel_size"),
             dilation = c.integers("dilation"), pads = c.integers("padding"), step = c.integers("stride");
  for (const auto* pair : {&size, &kernel, &dilation, &pads, &step})
    if (pair->size() != 2) c.bad("an argument has not two elements");
  for (const auto stride : step)
    if (stride < 1) c.bad("the stride is ", stride);
  const auto& result = c.result();
  need_rank(c, result.rank(), 2);
  if (product(x.dims()) == 0 || product(result.dims) == 0) return c.give(full(c, result, 0));
  Dims dims(result.dims.begin(), result.dims.end() - 2);
  const size_t dim = dims.size();
  for (size_t k = 0; k < 2; ++k) dims.push_back(kernel[k]);
  for (size_t k = 0; k < 2; ++k)
    dims.push_back((size[k] + 2 * pads[k] - dilation[k] * (kernel[k] - 1) - 1) / step[k] + 1);
  Value y = swap_dims(c, reshape_to(c, cast_to(c, x, accumulated(x.dtype())), dims), dim + 1, dim + 2);
  for (const size_t k : {size_t{1}, size_t{0}})
    y = without_windows(c, y, dim + 2 * k, size[k], dilation[k], pads[k], step[k]);
  c.give(cast_to(c, y, x.dtype()));
}

// ---- diagonals: of the last two dims as one, the elements at equal steps

struct Diagonal {
  Dims dims, perm;  ///< of the whole; the perm brings the diagonal's dims to the end
  Range range;      ///< in the dim of both
  int64_t plane;    ///< the size of both
};
Diagonal named_diagonal(Context& c, const Dims& dims, int64_t first, int64_t second) {
  if (dims.size() < 2) c.bad("rank ", dims.size(), " has no diagonal");
  const int64_t offset = c.integer("offset", 0);
  const auto ends = c.dims({c.integer("dim1", first), c.integer("dim2", second)}, dims.size());
  Diagonal d{dims, {}, {}, 0};
  for (const auto k : dim_range(0, dims.size()))
    if (!std::ranges::count(ends, k)) d.perm.push_back(k);
  d.perm.insert(d.perm.end(), ends.begin(), ends.end());
  const int64_t rows = dims[static_cast<size_t>(ends[0])], columns = dims[static_cast<size_t>(ends[1])];
  const int64_t size =
      std::max<int64_t>(offset >= 0 ? std::min(rows, columns - offset) : std::min(rows + offset, columns), 0);
  d.range = range_of(offset >= 0 ? offset : -offset * columns, size, columns + 1);
  d.plane = rows * columns;
  return d;
}
Value flat_plane(Context& c, Value x, const Diagonal& d) {
  const Value moved = transpose_by(c, x, d.perm);
  auto dims = moved.dims();
  dims.pop_back();
  dims.back() = d.plane;
  return reshape_to(c, moved, dims);
}
Value unflat_plane(Context& c, Value flat, const Diagonal& d) {
  Dims dims;
  for (const auto k : d.perm) dims.push_back(d.dims[static_cast<size_t>(k)]);
  return transpose_by(c, reshape_to(c, flat, dims), inverse(d.perm));
}
void diagonal(Context& c) {
  const Value x = c.tensor("self");
  const auto d = named_diagonal(c, x.dims(), 0, 1);
  c.give(part_of(c, flat_plane(c, x, d), x.rank() - 2, d.range));
}
void diagonal_scatter(Context& c) {
  const Value x = c.tensor("self");
  const auto d = named_diagonal(c, x.dims(), 0, 1);
  c.give(unflat_plane(c, with_part(c, flat_plane(c, x, d), c.tensor("src"), x.rank() - 2, d.range), d));
}
/// Zeros with the argument as the diagonal.
void in_diagonal(Context& c) {
  const bool backward = c.has("grad_output");
  const Value part = c.tensor(backward ? "grad_output" : "self");
  need_rank(c, part.rank(), 1);
  const auto d = backward ? named_diagonal(c, c.integers("input_sizes"), 0, 1)
                          : named_diagonal(c, c.result().dims, -2, -1);
  c.give(unflat_plane(c, spread(c, part, part.rank() - 1, d.range, d.plane), d));
}
void triangle(Context& c) {
  const bool upper = std::string_view(c.entry.standard) == "upper";
  c.give(c.make("trilu", {c.tensor("self")}, attr("upper", upper), attr("k", c.integer("diagonal", 0))));
}

constexpr const char* sliced = "self dim start end step";
constexpr const char* padding = "self padding";
constexpr const char* pad_gradients = "grad_output self padding";

constexpr OpEntry part_entries[] = {
    {"aten.constant_pad_nd.default", "self pad value", constant_pad},
    {"aten.pad.default", "self pad mode value", pad},
    {"aten.reflection_pad1d.default", padding, edge_pad, "reflect"},
    {"aten.reflection_pad2d.default", padding, edge_pad, "reflect"},
    {"aten.reflection_pad3d.default", padding, edge_pad, "reflect"},
    {"aten.replication_pad1d.default", padding, edge_pad, "edge"},
    {"aten.replication_pad2d.default", padding, edge_pad, "edge"},
    {"aten.replication_pad3d.default", padding, edge_pad, "edge"},
    {"aten.reflection_pad1d_backward.default", pad_gradients, edge_pad_backward, "reflect"},
    {"aten.reflection_pad2d_backward.default", pad_gradients, edge_pad_backward, "reflect"},
    {"aten.reflection_pad3d_backward.default", pad_gradients, edge_pad_backward, "reflect"},
    {"aten.replication_pad1d_backward.default", pad_gradients, edge_pad_backward, "edge"},
    {"aten.replication_pad2d_backward.default", pad_gradients, edge_pad_backward, "edge"},
    {"aten.replication_pad3d_backward.default", pad_gradients, edge_pad_backward, "edge"},
    {"aten.roll.default", "self shifts dims", roll},
    {"aten.slice.Tensor", sliced, slice},
    {"aten.slice_copy.Tensor", sliced, slice},
    {"aten.slice_scatter.default", "self src dim start end step", slice_scatter},
    {"aten.slice_backward.default", "grad_output input_sizes dim start end step", slice_backward},
    {"aten.narrow.default", "self dim start length", narrow},
    {"aten.narrow_copy.default", "self dim start length", narrow},
    {"aten.select.int", "self dim index", select_element},
    {"aten.select_copy.int", "self dim index", select_element},
    {"aten.select_scatter.default", "self src dim index", select_scatter},
    {"aten.select_backward.default", "grad_output input_sizes dim index", select_backward},
    {"aten.split.Tensor", "self split_size dim", split},
    {"aten.split.sizes", "self split_size dim", split_by_sizes},
    {"aten.split.default", "self split_sizes dim", split_by_sizes},
    {"aten.split_copy.Tensor", "self split_size dim", split},
    {"aten.unsafe_split.Tensor", "self split_size dim", split},
    {"aten.split_with_sizes.default", "self split_sizes dim", split_by_sizes},
    {"aten.split_with_sizes_copy.default", "self split_sizes dim", split_by_sizes},
    {"aten.unsafe_split_with_sizes.default", "self split_sizes dim", split_by_sizes},
    {"aten.chunk.default", "self chunks dim", chunk},
    {"aten.unsafe_chunk.default", "self chunks dim", chunk},
    {"aten.tensor_split.sections", "self sections dim", tensor_split},
    {"aten.tensor_split.indices", "self indices dim", tensor_split},
    {"aten.unbind.int", "self dim", unbind},
    {"aten.unbind_copy.int", "self dim", unbind},
    {"aten.unfold.default", "self dimension size step", unfold},
    {"aten.unfold_copy.default", "self dimension size step", unfold},

    {"aten.hsplit.int", "self sections", split_as_results, ""},
    {"aten.hsplit.array", "self indices", split_as_results, ""},
    {"aten.vsplit.int", "self sections", split_as_results, "row"},
    {"aten.vsplit.array", "self indices", split_as_results, "row"},
    {"aten.dsplit.int", "self sections", split_as_results, "depth"},
    {"aten.dsplit.array", "self indices", split_as_results, "depth"},
    {"aten.diff.default", "self n dim prepend append", neighbour_differences},
    {"aten.im2col.default", "self kernel_size dilation padding stride", image_to_columns},
    {"aten.col2im.default", "self output_size kernel_size dilation padding stride", columns_to_image},

    {"aten.diagonal.default", "self offset dim1 dim2", diagonal},
    {"aten.diagonal_copy.default", "self offset dim1 dim2", diagonal},
    {"aten.diagonal_scatter.default", "self src offset dim1 dim2", diagonal_scatter},
    {"aten.diagonal_backward.default", "grad_output input_sizes offset dim1 dim2", in_diagonal},
    {"aten.diag_embed.default", "self offset dim1 dim2", in_diagonal},
    {"aten.tril.default", "self diagonal", triangle, "lower"},
    {"aten.triu.default", "self diagonal", triangle, "upper"},
};

}  // namespace

std::span<const OpEntry> part_ops() { return part_entries; }

}  // namespace ferrite::from_torch
