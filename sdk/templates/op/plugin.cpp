// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// @ID@: an op, scale * max(x, 0)^2.
#include <ferrite/plugin.hpp>

namespace {

using namespace ferrite;

/// The result type. Check operands and attributes here, too.
std::vector<TensorType> infer(const Instance& op) {
  if (!is_float(op.operand(0).dtype)) fail("@ID@/dtype", op.op(), " takes floats");
  if (op.attrs.number("scale") == 0) fail("@ID@/scale", "scale is 0");
  return {op.operand(0)};
}

/// One expression for each element. The host calls this once per node and records it for the node's shape;
/// vectors, threads and devices need no attention here.
void lower(Lowering& l) {
  const double scale = l.op.attrs.number("scale");
  l.pointwise([&](const std::vector<Val>& x) {
    Val positive = max(x[0], l.constant(x[0].dtype(), 0.0));
    return positive * positive * scale;
  });
}

OpDef op() {
  return op_def("@ID@")
      .doc("scale * max(x, 0)^2.")
      .operands("x")
      .attr(attr("scale", 1.0), "not 0")
      .flags(FE_OP_POINTWISE)
      .infer(infer)
      .lower(lower)
      .samples({"ferrite graph 0\n"
                "graph @sample(%x: f32[2,3]) -> (%y \"y\") {\n"
                "  %y = @ID@(%x) {scale = 0.5}\n"
                "}\n"});
}

}  // namespace

FERRITE_PLUGIN("@ID@", "0.1.0", op())
