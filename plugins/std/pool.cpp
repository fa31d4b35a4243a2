// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Pooling over 1 to 3 spatial dims: one reduction over the window, padding as a masked load.
#include <limits>

#include "window.h"

namespace ferrite::standard {
namespace {

Window pool_window(const Instance& op) {
  auto x = typed(op, 0, numeric);
  need_rank(op, 0, x.rank(), 3, 5);
  auto kernel = integers(op, "kernel", x.rank() - 2, 1, large >> 16);
  element_count(op, kernel);
  auto w = window_of(op, spatial_dims(x), std::move(kernel));
  return w;
}

std::vector<TensorType> pool_type(const Instance& op) {
  auto x = op.operand(0);
  auto w = pool_window(op);
  TensorType result{x.dtype, {x.dims[0], x.dims[1]}};
  result.dims.insert(result.dims.end(), w.output.begin(), w.output.end());
  return {result};
}

/// The loop nest of a pooling: the result's index, and the operand's index for one element of the window.
struct Pool {
  Window declared;
  Window window;  ///< the elements of the window that are visited
  Indices result, operand;
  Val inside;  ///< whether the element belongs to the kernel; no token: always
};
Pool begin_pool(Lowering& l) {
  const auto declared = pool_window(l.op);
  Pool pool{declared, trimmed(declared), {}, {}, {}};
  const Window& w = pool.window;
  const size_t rank = w.rank();
  Dims walk;
  for (size_t d = 0; d < rank; ++d) walk.push_back(walk_of(w, d));
  auto vars = l.begin(l.result().type.dims, walk);
  pool.result.assign(vars.begin(), vars.begin() + static_cast<std::ptrdiff_t>(rank + 2));
  pool.operand = {vars[0], vars[1]};
  for (size_t d = 0; d < rank; ++d) {
    Idx element = vars[2 + rank + d];
    if (walk[d] < w.kernel[d]) {
      element = element + walk_start(w, d, vars[2 + d]);
      const Val inside = l.value(element) < static_cast<double>(w.kernel[d]);
      pool.inside = pool.inside.lowering() ? pool.inside & inside : inside;
    }
    pool.operand.push_back(window_index(w, d, vars[2 + d], element));
  }
  return pool;
}
void end_pool(Lowering& l, const Pool& pool, Val value) {
  l.store(l.result(), pool.result, cast(value, l.result().type.dtype));
  l.end();
}

void lower_max_pool(Lowering& l) {
  auto pool = begin_pool(l);
  auto x = l.operand(0);
  Val element =
      load_window(l, x, pool.operand, 2, pool.window, [&] { return lowest(l, x.type.dtype); }, pool.inside);
  end_pool(l, pool, l.reduce(FE_REDUCE_MAX, widen(element)));
}

std::vector<TensorType> max_pool_with_indices_type(const Instance& op) {
  const TensorType values = pool_type(op)[0];
  return {values, {i64, values.dims}};
}

/// Where the window at result position `at` has its element `step` in dim d. An element outside of the
/// operand is replaced by the nearest element of the window that is inside: this changes neither the maximum
/// nor which element comes first.
Idx nearest_inside(const Window& w, size_t d, Idx at, Idx step) {
  if (w.dilations[d] > 1 && w.before(d)) step = max_index(step, walk_start(w, d, at));
  if (w.dilations[d] > 1 && w.past(d))
    step = min_index(step, (at * -w.strides[d] + (w.low[d] + w.input[d] - 1)) / w.dilations[d]);
  Idx place = window_index(w, d, at, step);
  if (w.before(d)) place = max_index(place, 0);
  if (w.past(d)) place = min_index(place, w.input[d] - 1);
  return place;
}

/// An element of a window, widened, and its number: its place among the elements of the spatial dims.
struct Numbered {
  Val element, number;
};
/// `steps`: the numbers of the element in the window, by dim.
Numbered load_numbered(Lowering& l, const Window& w, const Indices& result, const Indices& steps) {
  Indices operand = {result[0], result[1]};
  Idx number = l.constant_index(0);
  for (size_t d = 0; d < w.rank(); ++d) {
    operand.push_back(nearest_inside(w, d, result[2 + d], steps[d]));
    number = number * w.input[d] + operand.back();
  }
  const bool small = element_count(l.op, w.input) <= std::numeric_limits<int32_t>::max();
  return {widen(l.load(l.operand(0), operand)), l.value(number, small ? i32 : i64)};
}

// More elements than these would be too long a chain of comparisons for each result.
constexpr int64_t most_elements_compared = 32;

/// The elements of small windows are compared one by one, in one pass over x.
void compare_elements(Lowering& l, const Window& w) {
  const auto result = l.begin(l.result().type.dims);
  Numbered best;
  for (int64_t element = 0; element < w.volume(); ++element) {
    Indices steps(w.rank());
    int64_t rest = element;
    for (size_t d = w.rank(); d-- > 0; rest /= w.kernel[d]) steps[d] = l.constant_index(rest % w.kernel[d]);
    const Numbered next = load_numbered(l, w, result, steps);
    if (element == 0) {
      best = next;
      continue;
    }
    Val better = next.element > best.element;
    if (is_float(next.element.dtype())) better = better | isnan(next.element);
    best = {where(better, next.element, best.element), where(better, next.number, best.number)};
  }
  l.store(l.result(0), result, cast(best.element, l.result().type.dtype));
  l.store(l.result(1), result, cast(best.number, i64));
  l.end();
}

/// The maximum of each large window first, then where it is: the least number of an equal element, or of a
/// window with NaN the greatest number of a NaN. Numbers of equal elements are negated, so that one maximum
/// serves both.
void reduce_twice(Lowering& l, const Window& w) {
  const Dims& dims = l.result().type.dims;
  const auto split = [&](const Indices& vars, size_t from, size_t count) {
    return Indices(vars.begin() + static_cast<std::ptrdiff_t>(from),
                   vars.begin() + static_cast<std::ptrdiff_t>(from + count));
  };
  for (const bool numbers : {false, true}) {
    const auto vars = l.begin(dims, w.kernel);
    const Indices result = split(vars, 0, w.rank() + 2), steps = split(vars, w.rank() + 2, w.rank());
    const auto [element, number] = load_numbered(l, w, result, steps);
    if (!numbers) {
      l.store(l.result(0), result, cast(l.reduce(FE_REDUCE_MAX, element), l.result().type.dtype));
      l.end();
      continue;
    }
    const Val greatest = widen(l.load(l.result(0), result));
    const Val nothing = lowest(l, number.dtype());
    Val found = where(element == greatest, -number, nothing);
    if (is_float(element.dtype()))
      found = where(isnan(greatest), where(isnan(element), number, nothing), found);
    l.store(l.result(1), result, cast(abs(l.reduce(FE_REDUCE_MAX, found)), i64));
    l.end();
  }
}

void lower_max_pool_with_indices(Lowering& l) {
  const auto w = trimmed(pool_window(l.op));
  w.volume() <= most_elements_compared ? compare_elements(l, w) : reduce_twice(l, w);
}

Val load_or_zero(Lowering& l, const Pool& pool) {
  auto x = l.operand(0);
  return widen(load_window(
      l, x, pool.operand, 2, pool.window, [&] { return l.constant(x.type.dtype, 0); }, pool.inside));
}

/// The number of elements of the window at `at` that lie in [low, high) of dim d.
Idx count_inside(const Window& w, size_t d, Idx at, int64_t low, int64_t high) {
  Idx start = at * w.strides[d] - w.low[d];
  // The first element not before `low`, and the first one not before `high`.
  Idx first = max_index((start * -1 + (low + w.dilations[d] - 1)) / w.dilations[d], 0);
  Idx last = min_index((start * -1 + (high + w.dilations[d] - 1)) / w.dilations[d], w.kernel[d]);
  return last - first;
}

void lower_avg_pool(Lowering& l) {
  auto pool = begin_pool(l);
  const auto& w = pool.declared;
  bool padding_counts = l.op.attrs.boolean("count_include_pad");
  Val sum = l.reduce(FE_REDUCE_SUM, load_or_zero(l, pool));
  // The constant part of the divisor first, then the dims in which windows are cut off.
  double fixed = 1;
  Val divisor;
  for (size_t d = 0; d < w.rank(); ++d) {
    int64_t low = padding_counts ? -w.low[d] : 0, high = w.input[d] + (padding_counts ? w.high[d] : 0);
    int64_t reach = (w.output[d] - 1) * w.strides[d] + (w.kernel[d] - 1) * w.dilations[d] - w.low[d];
    if (-w.low[d] >= low && reach < high) {
      fixed *= static_cast<double>(w.kernel[d]);
      continue;
    }
    Val count = cast(l.value(count_inside(w, d, pool.result[2 + d], low, high)), sum.dtype());
    divisor = divisor.lowering() ? divisor * count : count;
  }
  Val all = divisor.lowering() ? divisor * fixed : l.constant(sum.dtype(), fixed);
  end_pool(l, pool, sum / all);
}

void lower_lp_pool(Lowering& l) {
  auto pool = begin_pool(l);
  int64_t p = l.op.attrs.integer("p");
  Val x = abs(load_or_zero(l, pool));
  Val power = p == 1 ? x : p == 2 ? x * x : pow(x, l.constant(x.dtype(), static_cast<double>(p)));
  Val sum = l.reduce(FE_REDUCE_SUM, power);
  Val root = p == 1   ? sum
             : p == 2 ? sqrt(sum)
                      : pow(sum, l.constant(x.dtype(), 1.0 / static_cast<double>(p)));
  end_pool(l, pool, root);
}

OpDef pool_def(const char* name, const char* doc) {
  return op_def(name)
      .doc(doc)
      .operands("x")
      .required(attr("kernel", Dims{}), "one number a spatial dim")
      .attr(attr("strides", Dims{}), "empty: 1")
      .attr(attr("pads_low", Dims{}), "empty: 0")
      .attr(attr("pads_high", Dims{}), "empty: 0")
      .attr(attr("dilations", Dims{}), "empty: 1")
      .attr(attr("sizes", Dims{}), "the result's spatial dims; empty: as many windows as fit")
      .infer(pool_type);
}
std::vector<std::string> pool_samples(const std::string& name, const std::string& more,
                                      std::initializer_list<std::string_view> results = {"r"}) {
  return {sample("%x: f32[1,2,7,8]", name + "(%x) {kernel = [3, 2], strides = [2, 2]" + more + "}", results),
          sample("%x: f32[1,2,7,8]",
                 name +
                     "(%x) {kernel = [3, 3], strides = [2, 2], pads_low = [1, 1], pads_high = [1, 1], sizes "
                     "= [4, 5]" +
                     more + "}",
                 results),
          sample("%x: f32[1,2,9]", name + "(%x) {kernel = [3], dilations = [2], pads_low = [1]" + more + "}",
                 results),
          sample("%x: bf16[1,2,4,4]", name + "(%x) {kernel = [2, 2]" + more + "}", results)};
}

}  // namespace

void add_pool(PluginBuilder& builder, const PluginContext&) {
  builder.add(pool_def("max_pool", "The maximum of each window; padding never wins.")
                  .lower(lower_max_pool)
                  .samples(pool_samples("max_pool", "")));
  auto indexed_samples = pool_samples("max_pool_with_indices", "", {"v", "i"});
  for (const auto& [x, attributes] :
       {std::pair("%x: f32[2,2,13,11]",
                  "kernel = [7, 6], pads_low = [3, 2], pads_high = [3, 4], strides = [3, 2]"),
        std::pair("%x: i32[1,2,4,5,4]", "kernel = [2, 2, 2], strides = [2, 2, 1]")})
    indexed_samples.push_back(
        sample(x, std::string("max_pool_with_indices(%x) {") + attributes + "}", {"v", "i"}));
  builder.add(pool_def("max_pool_with_indices",
                       "The maximum of each window, and the index (i64) of its element, counted over the "
                       "spatial dims of one channel. Of equal elements the first counts, and the last NaN if "
                       "there is one. Padding never counts.")
                  .results(2)
                  .infer(max_pool_with_indices_type)
                  .lower(lower_max_pool_with_indices)
                  .samples(indexed_samples));
  auto avg_samples = pool_samples("avg_pool", "");
  avg_samples.push_back(pool_samples("avg_pool", ", count_include_pad = true")[1]);
  builder.add(
      pool_def("avg_pool",
               "The mean of each window; padding counts only when told so, positions beyond it never.")
          .attr(attr("count_include_pad", false))
          .infer([](const Instance& op) {
            typed(op, 0, FE_PRIM_FLOAT);
            return pool_type(op);
          })
          .lower(lower_avg_pool)
          .samples(avg_samples));
  builder.add(pool_def("lp_pool", "The p-norm of each window.")
                  .attr(attr("p", 2))
                  .infer([](const Instance& op) {
                    typed(op, 0, FE_PRIM_FLOAT);
                    int64_t p = op.attrs.integer("p");
                    need_value(p > 0, op, "p", "is ", p, " and must be positive");
                    return pool_type(op);
                  })
                  .lower(lower_lp_pool)
                  .samples(pool_samples("lp_pool", ", p = 3")));
}

}  // namespace ferrite::standard
