// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Moving whole regions: concat, pad, reverse_sequence; and the constant tensors iota, full, trilu.
#include <algorithm>
#include <cmath>

#include "common.h"

namespace ferrite::standard {
namespace {

OpDef concat_op() {
  return op_def("concat")
      .doc("The operands one after the other along the axis.")
      .operands("xs...")
      .attr(attr("axis", 0))
      .axis()
      .infer([](const Instance& op) {
        auto result = op.operand(0);
        auto axis = static_cast<size_t>(axis_of(op, result.rank()));
        for (size_t k = 1; k < op.operand_count(); ++k) {
          auto x = op.operand(k);
          need_same_dtype(op, k, result.dtype);
          need_rank(op, k, x.rank(), result.rank(), result.rank());
          for (size_t d = 0; d < x.rank(); ++d)
            need_fit(d == axis || x.dims[d] == result.dims[d], op, "operand ", k, " ", to_string(x),
                     " and operand 0 ", to_string(op.operand(0)), " differ in dim ", d);
          result.dims[axis] += x.dims[axis];
        }
        return std::vector{result};
      })
      .lower([](Lowering& l) {
        // One statement per operand, each of which stores to its part of the result.
        auto axis = static_cast<size_t>(axis_of(l.op, l.result().type.rank()));
        int64_t offset = 0;
        for (size_t k = 0; k < l.op.operand_count(); ++k) {
          auto dims = l.op.operand(k).dims;
          auto i = l.begin(dims), to = i;
          to[axis] = i[axis] + offset;
          l.store(l.result(), to, l.load(k, i));
          l.end();
          offset += dims[axis];
        }
      })
      .samples({sample("%a: f32[2,3], %b: f32[2,1], %c: f32[2,4]", "concat(%a, %b, %c) {axis = 1}"),
                sample("%a: i64[2], %b: i64[0]", "concat(%a, %b)"),
                sample("%a: bf16[3,2]", "concat(%a) {axis = -1}")});
}

/// The operand coordinate in [0, dim) that supplies a coordinate outside of it.
Idx mirrored(Idx at, size_t mode, int64_t dim) {
  if (dim <= 1) return at.lowering()->constant_index(0);
  if (mode == 2) return min_index(max_index(at, 0), dim - 1);  // edge
  if (mode == 3) return at % dim;                              // wrap
  // reflect: the distance from the far end is also that of the mirror image beyond it
  Idx distance = (at % (2 * (dim - 1))) * -1 + (dim - 1);
  return max_index(max_index(distance, distance * -1), 0) * -1 + (dim - 1);
}

void lower_pad(Lowering& l) {
  auto x = l.operand(0);
  auto low = l.op.attrs.integers("low"), high = l.op.attrs.integers("high");
  size_t mode = choice(l.op, "mode", {"constant", "reflect", "edge", "wrap"});
  l.map(0, [&](const Indices& i) {
    Indices at;
    Val mask;
    auto add = [&](Val condition) { mask = mask.lowering() ? mask & condition : condition; };
    for (size_t d = 0; d < i.size(); ++d) {
      Idx from = i[d] - low[d];
      bool outside = low[d] > 0 || high[d] > 0;
      at.push_back(outside && mode != 0 ? mirrored(from, mode, x.type.dims[d]) : from);
      if (mode == 0 && low[d] > 0) add(l.value(from) >= 0.0);
      if (mode == 0 && high[d] > 0) add(l.value(from) < static_cast<double>(x.type.dims[d]));
    }
    if (!mask.lowering()) return l.load(x, at);
    Val other = l.op.has_operand(1) ? load_single(l, 1) : l.constant(x.type.dtype, 0);
    return l.load(x, at, mask, other);
  });
}

OpDef pad_op() {
  return op_def("pad")
      .doc(
          "x with `low` elements before and `high` after each dim; negative numbers crop. They hold `value` "
          "(0), or "
          "mirror, repeat or wrap around what is inside.")
      .operands("x", "value?")
      .required(attr("low", Dims{}))
      .required(attr("high", Dims{}))
      .attr(attr("mode", "constant"), "constant | reflect | edge | wrap")
      .infer([](const Instance& op) {
        auto x = typed(op, 0, any_class);
        auto low = integers(op, "low", x.rank(), -large, large),
             high = integers(op, "high", x.rank(), -large, large);
        size_t mode = choice(op, "mode", {"constant", "reflect", "edge", "wrap"});
        if (op.has_operand(1)) {
          need_same_dtype(op, 1, x.dtype);
          need_fit(op.operand(1).elements() == 1, op, "the value ", to_string(op.operand(1)),
                   " is no single element");
        }
        auto result = x;
        for (size_t d = 0; d < x.rank(); ++d) {
          result.dims[d] += low[d] + high[d];
          need_fit(result.dims[d] >= 0, op, "dim ", d, " of the result would have size ", result.dims[d]);
          need_fit(mode == 0 || x.dims[d] > 0 || result.dims[d] == 0, op, "dim ", d,
                   " is empty, with nothing to repeat");
        }
        element_count(op, result.dims);
        return std::vector{result};
      })
      .lower(lower_pad)
      .samples({sample("%x: f32[2,3]", "pad(%x) {low = [1, 0], high = [0, 2]}"),
                sample("%x: f32[2,3], %v: f32[]", "pad(%x, %v) {low = [0, -1], high = [1, 1]}"),
                sample("%x: f32[3,4]", "pad(%x) {low = [2, 5], high = [1, 7], mode = \"reflect\"}"),
                sample("%x: f32[3,4]", "pad(%x) {low = [2, 1], high = [1, 7], mode = \"edge\"}"),
                sample("%x: f32[3,4]", "pad(%x) {low = [2, 1], high = [1, 7], mode = \"wrap\"}")});
}

OpDef reverse_sequence_op() {
  return op_def("reverse_sequence")
      .doc("For each item b of the batch axis, the first lengths[b] elements along the time axis in reverse.")
      .operands("x", "lengths")
      .attr(attr("batch_axis", 1))
      .attr(attr("time_axis", 0))
      .infer([](const Instance& op) {
        auto x = typed(op, 0, any_class), lengths = typed(op, 1, FE_PRIM_INT);
        int64_t batch = axis_of(op, op.attrs.integer("batch_axis"), x.rank());
        int64_t time = axis_of(op, op.attrs.integer("time_axis"), x.rank());
        need_value(batch != time, op, "time_axis", "is the batch axis too");
        need_fit(lengths.dims == Dims{x.dims[static_cast<size_t>(batch)]}, op, "the lengths ",
                 to_string(lengths), " must hold one for each item of the batch");
        return std::vector{x};
      })
      .lower([](Lowering& l) {
        auto x = l.op.operand(0);
        auto batch = static_cast<size_t>(axis_of(l.op, l.op.attrs.integer("batch_axis"), x.rank()));
        auto time = static_cast<size_t>(axis_of(l.op, l.op.attrs.integer("time_axis"), x.rank()));
        l.map(0, [&](const Indices& i) {
          Val length = l.load(1, {i[batch]});
          length = cast(length, length.dtype() == u64 ? u64 : i64);
          Val step = cast(l.value(i[time]), length.dtype());
          Val from = where(step < length, length - step - 1.0, step);
          Indices at = i;
          at[time] = l.indirect(from, x.dims[time], FE_INDIRECT_CHECK);
          return l.load(0, at);
        });
      })
      .samples({sample("%x: f32[4,3], %n: i64[3]", "reverse_sequence(%x, %n)")});
}

OpDef iota_op() {
  return op_def("iota")
      .doc("Each element is its coordinate along the axis.")
      .required(attr("dtype", i64))
      .required(attr("shape", Dims{}))
      .attr(attr("axis", 0))
      .axis_of_result()
      .infer([](const Instance& op) {
        TensorType result{op.attrs.dtype("dtype"),
                          integers(op, "shape", op.attrs.integers("shape").size(), 0, large)};
        need_value(class_mask(result.dtype) & numeric, op, "dtype", "is ", name_of(result.dtype),
                   ", which holds no numbers");
        element_count(op, result.dims);
        axis_of(op, result.rank());
        return std::vector{result};
      })
      .lower([](Lowering& l) {
        auto axis = static_cast<size_t>(axis_of(l.op, l.result().type.rank()));
        l.map(0, [&](const Indices& i) { return cast(l.value(i[axis]), l.result().type.dtype); });
      })
      .samples({sample("", "iota() {dtype = f32, shape = [3, 5], axis = 1}"),
                sample("", "iota() {dtype = i64, shape = [7]}")});
}

OpDef full_op() {
  return op_def("full")
      .doc("Every element is `value`, rounded to the dtype.")
      .required(attr("dtype", f32))
      .required(attr("shape", Dims{}))
      .attr(attr("value", 0.0))
      .infer([](const Instance& op) {
        TensorType result{op.attrs.dtype("dtype"),
                          integers(op, "shape", op.attrs.integers("shape").size(), 0, large)};
        double value = op.attrs.number("value");
        need_value(class_mask(result.dtype) != 0, op, "dtype", "is ", name_of(result.dtype));
        need_value(is_float(result.dtype) || std::abs(value) < 0x1p63, op, "value", "is ", value, ", which ",
                   name_of(result.dtype), " does not hold");
        element_count(op, result.dims);
        return std::vector{result};
      })
      .lower([](Lowering& l) {
        l.map(0,
              [&](const Indices&) { return l.constant(l.result().type.dtype, l.op.attrs.number("value")); });
      })
      .samples({sample("", "full() {dtype = f32, shape = [3, 5], value = 0.5}")});
}

OpDef trilu_op() {
  return op_def("trilu")
      .doc("The upper (or lower) triangle of the last two dims from diagonal k on; 0 elsewhere.")
      .operands("x")
      .attr(attr("upper", true))
      .attr(attr("k", 0))
      .infer([](const Instance& op) {
        auto x = typed(op, 0, any_class);
        need_rank(op, 0, x.rank(), 2, 64);
        return std::vector{x};
      })
      .lower([](Lowering& l) {
        auto diagonal = static_cast<double>(std::clamp(l.op.attrs.integer("k"), -large, large));
        l.map(0, [&](const Indices& i) {
          Val distance = l.value(i.back() - i[i.size() - 2]);
          Val keep = l.op.attrs.boolean("upper") ? distance >= diagonal : distance <= diagonal;
          Val x = l.load(0, i);
          return where(keep, x, l.constant(x.dtype(), 0));
        });
      })
      .samples({sample("%x: f32[2,4,5]", "trilu(%x) {k = 1}"),
                sample("%x: i32[4,3]", "trilu(%x) {upper = false, k = -1}")});
}

}  // namespace

void add_move(PluginBuilder& builder, const PluginContext&) {
  for (auto make : {concat_op, pad_op, reverse_sequence_op, iota_op, full_op, trilu_op}) builder.add(make());
}

}  // namespace ferrite::standard
