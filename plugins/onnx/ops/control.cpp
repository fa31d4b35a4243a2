// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Control flow. A branch that is known at import replaces the node; everything else is refused.
#include "helpers.h"

namespace ferrite::from_onnx {
namespace {

void if_op(Context& c) {
  auto condition = c.known(0);
  if (!condition || condition->type().elements() != 1)
    throw Failure(FE_EUNSUPPORTED, "FE-I26",
                  c.where() +
                      ": the condition is computed from the model's inputs, and only a branch that constants "
                      "and shapes "
                      "decide is supported; export the model for one of the branches");
  bool holds = numbers_of(*condition)[0] != 0;
  auto outputs = c.subgraphs.inline_graph(
      c.attribute(holds ? "then_branch" : "else_branch", onnx::AttributeProto::GRAPH), c.where());
  for (size_t k = 0; k < outputs.size(); ++k) c.give(k, outputs[k]);
}

constexpr OpEntry control_entries[] = {
    {"If", 1, newest, if_op},
};

}  // namespace

std::span<const OpEntry> control_ops() { return control_entries; }

}  // namespace ferrite::from_onnx
