// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Views: ops that move elements and compute nothing. Each is one load at a mapped index, so that it is fused
// with its readers.
#include <algorithm>

#include "common.h"
#include "ferrite/counted.hpp"

namespace ferrite::standard {
namespace {

std::vector<TensorType> result_like(const TensorType& x, Dims dims) { return {{x.dtype, std::move(dims)}}; }

OpDef reshape_op() {
  return op_def("reshape")
      .doc("The elements of x in row-major order under other dims; `shape` holds no -1.")
      .operands("x")
      .required(attr("shape", Dims{}))
      .flags(FE_OP_VIEW)
      .infer([](const Instance& op) {
        auto x = op.operand(0);
        auto list = op.attrs.integers("shape");
        auto shape = integers(op, "shape", list.size(), 0, large);
        if (element_count(op, shape) != element_count(op, x.dims))
          fail("FE-G76", op.op(), ": ", to_string(x), " has ", counted(x.elements(), "element"),
               " and the shape ", to_string({DType::none, shape}).substr(1), " ", element_count(op, shape));
        return result_like(x, shape);
      })
      .lower([](Lowering& l) {
        auto dims = l.op.operand(0).dims;
        l.map(0, [&](const Indices& i) {
          // Compute the position in row-major order, and split it by the operand's dims.
          Idx linear = l.constant_index(0);
          for (size_t d = 0; d < i.size(); ++d) linear = linear * l.result().type.dims[d] + i[d];
          Indices at(dims.size(), l.constant_index(0));
          int64_t stride = 1;
          for (size_t d = dims.size(); d-- > 0;) {
            if (dims[d] > 1) at[d] = linear / stride % dims[d];
            stride *= std::max<int64_t>(dims[d], 1);
          }
          return l.load(0, at);
        });
      })
      .samples({sample("%x: f32[2,3,4]", "reshape(%x) {shape = [4, 6]}"),
                sample("%x: f32[2,3]", "reshape(%x) {shape = [1, 2, 1, 3]}"),
                sample("%x: i32[1]", "reshape(%x) {shape = []}"),
                sample("%x: f32[0,3]", "reshape(%x) {shape = [3, 0]}")});
}

OpDef transpose_op() {
  return op_def("transpose")
      .doc("Result dim k is operand dim perm[k].")
      .operands("x")
      .required(attr("perm", Dims{}))
      .flags(FE_OP_VIEW)
      .infer([](const Instance& op) {
        auto x = op.operand(0);
        auto perm = integers(op, "perm", x.rank(), 0, static_cast<int64_t>(x.rank()) - 1);
        Dims dims;
        for (int64_t p : perm) {
          need_value(std::count(perm.begin(), perm.end(), p) == 1, op, "perm", "names dim ", p, " twice");
          dims.push_back(x.dims[static_cast<size_t>(p)]);
        }
        return result_like(x, dims);
      })
      .lower([](Lowering& l) {
        auto perm = l.op.attrs.integers("perm");
        l.map(0, [&](const Indices& i) {
          Indices at(i.size());
          for (size_t k = 0; k < i.size(); ++k) at[static_cast<size_t>(perm[k])] = i[k];
          return l.load(0, at);
        });
      })
      .samples({sample("%x: f32[2,3,4]", "transpose(%x) {perm = [2, 0, 1]}"),
                sample("%x: bf16[5,3]", "transpose(%x) {perm = [1, 0]}")});
}

OpDef expand_op() {
  return op_def("expand")
      .doc("x broadcast to `shape`, as NumPy broadcasts.")
      .operands("x")
      .required(attr("shape", Dims{}))
      .flags(FE_OP_VIEW)
      .infer([](const Instance& op) {
        auto x = op.operand(0);
        auto shape = integers(op, "shape", op.attrs.integers("shape").size(), 0, large);
        element_count(op, shape);
        need_fit(broadcast_dims(op.op(), x.dims, shape) == shape, op, to_string(x),
                 " does not broadcast to the shape ", to_string({DType::none, shape}).substr(1));
        return result_like(x, shape);
      })
      .lower([](Lowering& l) { l.map(0, [&](const Indices& i) { return l.load_broadcast(0, i); }); })
      .samples({sample("%x: f32[3,1]", "expand(%x) {shape = [2, 3, 4]}"),
                sample("%x: i64[]", "expand(%x) {shape = [5]}")});
}

OpDef slice_op() {
  return op_def("slice")
      .doc(
          "Result element i is operand element starts + i * strides; one number a dim, strides may be "
          "negative.")
      .operands("x")
      .required(attr("starts", Dims{}))
      .required(attr("sizes", Dims{}))
      .required(attr("strides", Dims{}))
      .flags(FE_OP_VIEW)
      .infer([](const Instance& op) {
        auto x = op.operand(0);
        auto starts = integers(op, "starts", x.rank(), 0, large);
        auto sizes = integers(op, "sizes", x.rank(), 0, large);
        auto strides = integers(op, "strides", x.rank(), -large, large);
        for (size_t d = 0; d < x.rank(); ++d) {
          if (sizes[d] == 0) continue;
          // The number of steps within the dim.
          int64_t reach = strides[d] > 0   ? (x.dims[d] - 1 - starts[d]) / strides[d]
                          : strides[d] < 0 ? starts[d] / -strides[d]
                                           : large;
          if (starts[d] >= x.dims[d] || sizes[d] - 1 > reach)
            fail("FE-G77", op.op(), ": start ", starts[d], ", size ", sizes[d], " and stride ", strides[d],
                 " leave dim ", d, " of ", to_string(x));
        }
        return result_like(x, sizes);
      })
      .lower([](Lowering& l) {
        auto starts = l.op.attrs.integers("starts"), strides = l.op.attrs.integers("strides");
        l.map(0, [&](const Indices& i) {
          Indices at;
          for (size_t d = 0; d < i.size(); ++d) at.push_back(i[d] * strides[d] + starts[d]);
          return l.load(0, at);
        });
      })
      .samples({sample("%x: f32[6,5]", "slice(%x) {starts = [1, 4], sizes = [3, 5], strides = [2, -1]}"),
                sample("%x: f32[6,5]", "slice(%x) {starts = [0, 0], sizes = [0, 5], strides = [1, 1]}")});
}

/// The first result takes sizes[0] elements along the axis, and so on.
std::vector<TensorType> split_types(const Instance& op) {
  auto x = op.operand(0);
  auto axis = static_cast<size_t>(axis_of(op, x.rank()));
  auto sizes = integers(op, "sizes", op.attrs.integers("sizes").size(), 0, large);
  int64_t total = 0;
  std::vector<TensorType> results;
  for (int64_t size : sizes) {
    total += size;
    results.push_back(x);
    results.back().dims[axis] = size;
  }
  need_value(total == x.dims[axis] && !sizes.empty(), op, "sizes", "adds up to ", total, " and dim ", axis,
             " is ", x.dims[axis]);
  return results;
}
OpDef split_op() {
  return op_def("split")
      .doc("Parts of x along the axis; one result for each of `sizes`.")
      .operands("x")
      .attr(attr("axis", 0))
      .axis()
      .required(attr("sizes", Dims{}))
      .results(0)
      .flags(FE_OP_VIEW | FE_OP_DECOMPOSE_EARLY)
      .infer(split_types)
      .decompose([](Graph& g, const Instance& op, std::span<const Value> operands) {
        auto x = op.operand(0);
        auto axis = static_cast<size_t>(axis_of(op, x.rank()));
        Dims starts(x.rank()), sizes = x.dims, strides(x.rank(), 1);
        std::vector<Value> results;
        for (int64_t size : op.attrs.integers("sizes")) {
          sizes[axis] = size;
          results.push_back(g.make("slice", {operands[0]},
                                   {attr("starts", starts), attr("sizes", sizes), attr("strides", strides)}));
          starts[axis] += size;
        }
        return results;
      })
      .samples({sample("%x: f32[2,7]", "split(%x) {axis = 1, sizes = [3, 4]}", {"a", "b"})});
}

OpDef tile_op() {
  return op_def("tile")
      .doc("x repeated repeats[k] times along dim k.")
      .operands("x")
      .required(attr("repeats", Dims{}))
      .flags(FE_OP_VIEW)
      .infer([](const Instance& op) {
        auto x = op.operand(0);
        auto repeats = integers(op, "repeats", x.rank(), 0, large);
        Dims dims;
        for (size_t d = 0; d < x.rank(); ++d) dims.push_back(element_count(op, {x.dims[d], repeats[d]}));
        element_count(op, dims);
        return result_like(x, dims);
      })
      .lower([](Lowering& l) {
        auto dims = l.op.operand(0).dims;
        l.map(0, [&](const Indices& i) {
          Indices at;
          for (size_t d = 0; d < i.size(); ++d)
            at.push_back(dims[d] > 0 ? i[d] % dims[d] : l.constant_index(0));
          return l.load(0, at);
        });
      })
      .samples({sample("%x: f32[2,3]", "tile(%x) {repeats = [3, 2]}")});
}

}  // namespace

void add_view(PluginBuilder& builder, const PluginContext&) {
  for (auto make : {reshape_op, transpose_op, expand_op, slice_op, split_op, tile_op}) builder.add(make());
}

}  // namespace ferrite::standard
