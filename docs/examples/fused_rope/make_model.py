#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes rope.onnx: a scaled query, its rotary embedding as the custom op com.acme::FusedRope, and a residual.

Usage: make_model.py [FILE]
"""

import sys
from pathlib import Path

from onnx import TensorProto, helper


def model():
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 4, 16, 32])
    angles = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [16, 16]) for name in ("cos", "sin")]
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 4, 16, 32])
    scale = helper.make_tensor("scale", TensorProto.FLOAT, [], [0.125])
    nodes = [
        helper.make_node("Mul", ["x", "scale"], ["q"], name="scaled"),
        helper.make_node("FusedRope", ["q", "cos", "sin"], ["r"], name="rope", domain="com.acme", interleaved=1),
        helper.make_node("Add", ["r", "x"], ["y"], name="residual"),
    ]
    graph = helper.make_graph(nodes, "rope", [x, *angles], [y], [scale])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.acme", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8, producer_name="make_model.py")


if __name__ == "__main__":
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).with_name("rope.onnx")
    target.write_bytes(model().SerializeToString())
