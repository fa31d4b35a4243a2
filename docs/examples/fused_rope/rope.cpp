// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A custom op of a model as one op: rotary position embedding (Su et al., 2021). Element j of a row is turned
// together with its partner, the one half a row away or, interleaved, the one beside it.
#include <ferrite/plugin.hpp>

namespace {

using namespace ferrite;

void lower_rope(Lowering& lowering) {
  const bool interleaved = lowering.op.attrs.boolean("interleaved");
  lowering.map(0, [&](const Indices& i) {
    const int64_t width = lowering.result().type.dims.back();
    const Idx j = i.back(), row = i[i.size() - 2];
    // The pair's number, the place of the partner, and whether j is the first of the two.
    const Idx pair = interleaved ? j / 2 : j % (width / 2);
    Indices partner = i;
    partner.back() = interleaved ? j / 2 * 2 + (j + 1) % 2 : (j + width / 2) % width;
    const Val first = interleaved ? lowering.value(j % 2) == 0.0 : lowering.value(j) < width / 2.0;
    const Val x = lowering.load(0, i), y = lowering.load(0, partner);
    const Val turned = y * lowering.load(2, {row, pair});
    return x * lowering.load(1, {row, pair}) + where(first, -turned, turned);
  });
}

OpDef rope() {
  return op_def("acme.rope")
      .doc("Rotates pairs of elements of each row of x by the angles whose cosines and sines are given.")
      .operands("x", "cos", "sin")
      .attr(attr("interleaved", false), "pairs lie side by side")
      .infer([](const Instance& op) {
        const TensorType x = op.operand(0);
        if (!is_float(x.dtype)) fail("acme.rope/dtype", to_string(x), " has no floats");
        if (x.rank() < 2 || x.dims.back() % 2 != 0)
          fail("acme.rope/shape", to_string(x), " has no rows of pairs");
        const TensorType angles{x.dtype, {x.dims[x.rank() - 2], x.dims.back() / 2}};
        for (size_t k : {1, 2})
          if (op.operand(k) != angles)
            fail("acme.rope/angles", "operand ", k, " is ", to_string(op.operand(k)), " and must be ",
                 to_string(angles));
        return std::vector{x};
      })
      .lower(lower_rope)
      .samples({"ferrite graph 0\n"
                "graph @halves(%x: f32[2,3,8], %cos: f32[3,4], %sin: f32[3,4]) -> (%y \"y\") {\n"
                "  %y = acme.rope(%x, %cos, %sin)\n"
                "}\n",
                "ferrite graph 0\n"
                "graph @pairs(%x: f32[3,6], %cos: f32[3,3], %sin: f32[3,3]) -> (%y \"y\") {\n"
                "  %y = acme.rope(%x, %cos, %sin) {interleaved = true}\n"
                "}\n"});
}

/// com.acme::ScaledRope is no op here: a multiplication comes before the rotation.
std::vector<Value> import_scaled_rope(Graph& graph, const ImportNode& node) {
  const Value x = node.operand(0);
  const Value scale = graph.scalar(x.dtype(), node.attrs.number("scale", 1.0));
  const Value scaled = graph.make("mul", {x, scale});
  return {graph.make("acme.rope", {scaled, node.operand(1), node.operand(2)},
                     {attr("interleaved", node.attrs.integer("interleaved", 0) != 0)})};
}

}  // namespace

FERRITE_PLUGIN("acme.rope", "1.0.0", rope(),
               import_handler("onnx:com.acme::ScaledRope", import_scaled_rope).versions(1, 2))
