#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes all-MiniLM-L6-v2 (a BERT encoder of 6 layers, width 384) as ONNX over its safetensors file.

Usage: minilm.py [--weights FILE] [--output FILE] [--check]

The graph has the shape that exporters give it: layer norm and GELU op by op, linear layers as Transpose, MatMul and
Add, sizes through Shape and Gather. No weight is copied: each is external data at its offset in the safetensors file,
so the graph must stay in that file's folder. Inputs input_ids, attention_mask, token_type_ids, int64
[batch, sequence], sequence <= 512; output last_hidden_state, float32 [batch, sequence, 384].
--check compares ONNX Runtime on the written file with the same encoder in numpy.
"""

import argparse
import json
import math
import struct
import sys
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper

MODELS = Path(__file__).resolve().parents[2] / "build" / "models"
OPSET = 14
ELEMENT_TYPES = {"F32": TensorProto.FLOAT, "I64": TensorProto.INT64}
EPSILON = 1e-12


class Safetensors:
    """The header of a safetensors file: tensor name -> (dtype, shape, offset in the file, bytes)."""

    def __init__(self, path: Path):
        self.path = path
        with path.open("rb") as file:
            (header_bytes,) = struct.unpack("<Q", file.read(8))
            header = json.loads(file.read(header_bytes))
        header.pop("__metadata__", None)
        start = 8 + header_bytes
        self.tensors = {
            name: (entry["dtype"], entry["shape"], start + entry["data_offsets"][0],
                   entry["data_offsets"][1] - entry["data_offsets"][0])
            for name, entry in header.items()
        }  # fmt: skip

    def initializer(self, name: str) -> onnx.TensorProto:
        dtype, shape, offset, length = self.tensors[name]
        tensor = TensorProto(name=name, data_type=ELEMENT_TYPES[dtype], dims=shape)
        tensor.data_location = TensorProto.EXTERNAL
        for key, value in (("location", self.path.name), ("offset", offset), ("length", length)):
            tensor.external_data.add(key=key, value=str(value))
        return tensor

    def array(self, name: str) -> np.ndarray:
        dtype, shape, offset, length = self.tensors[name]
        numpy_type = {"F32": np.float32, "I64": np.int64}[dtype]
        with self.path.open("rb") as file:
            file.seek(offset)
            return np.frombuffer(file.read(length), numpy_type).reshape(shape)


class GraphWriter:
    """Collects nodes and initializers; every method returns the name of the value that it adds."""

    def __init__(self, weights: Safetensors):
        self.weights = weights
        self.nodes: list[onnx.NodeProto] = []
        self.initializers: dict[str, onnx.TensorProto] = {}
        self.scope = ""

    def weight(self, name: str) -> str:
        if name not in self.initializers:
            self.initializers[name] = self.weights.initializer(name)
        return name

    def constant(self, value, dtype=np.float32) -> str:
        array = np.asarray(value, dtype)
        name = f"constant_{array.dtype.name}_{'_'.join(str(v) for v in array.flatten())}_{array.ndim}d"
        if name not in self.initializers:
            self.initializers[name] = onnx.numpy_helper.from_array(array, name)
        return name

    def add(self, op_type: str, *inputs: str, **attributes) -> str:
        name = f"{self.scope}/{op_type}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(op_type, inputs, [name + "_output"], name, **attributes))
        return name + "_output"

    def linear(self, x: str, prefix: str) -> str:
        transposed = self.add("Transpose", self.weight(prefix + ".weight"), perm=[1, 0])
        return self.add("Add", self.add("MatMul", x, transposed), self.weight(prefix + ".bias"))

    def layer_norm(self, x: str, prefix: str) -> str:
        mean = self.add("ReduceMean", x, axes=[-1])
        centred = self.add("Sub", x, mean)
        variance = self.add("ReduceMean", self.add("Pow", centred, self.constant(2.0)), axes=[-1])
        deviation = self.add("Sqrt", self.add("Add", variance, self.constant(EPSILON)))
        scaled = self.add("Mul", self.add("Div", centred, deviation), self.weight(prefix + ".weight"))
        return self.add("Add", scaled, self.weight(prefix + ".bias"))

    def gelu(self, x: str) -> str:
        error = self.add("Erf", self.add("Div", x, self.constant(math.sqrt(2.0))))
        product = self.add("Mul", x, self.add("Add", error, self.constant(1.0)))
        return self.add("Mul", product, self.constant(0.5))

    def split_heads(self, x: str, heads: int, width: int, perm: list[int]) -> str:
        shape = self.constant([0, 0, heads, width], np.int64)
        return self.add("Transpose", self.add("Reshape", x, shape), perm=perm)

    def attention(self, x: str, mask: str, prefix: str, heads: int, width: int) -> str:
        query = self.split_heads(self.linear(x, prefix + ".self.query"), heads, width, [0, 2, 1, 3])
        key = self.split_heads(self.linear(x, prefix + ".self.key"), heads, width, [0, 2, 3, 1])
        value = self.split_heads(self.linear(x, prefix + ".self.value"), heads, width, [0, 2, 1, 3])
        scores = self.add("Div", self.add("MatMul", query, key), self.constant(math.sqrt(width)))
        weights = self.add("Softmax", self.add("Add", scores, mask), axis=-1)
        context = self.add("Transpose", self.add("MatMul", weights, value), perm=[0, 2, 1, 3])
        joined = self.add("Reshape", context, self.constant([0, 0, heads * width], np.int64))
        projected = self.linear(joined, prefix + ".output.dense")
        return self.layer_norm(self.add("Add", projected, x), prefix + ".output.LayerNorm")

    def embeddings(self) -> str:
        self.scope = "/embeddings"
        sequence = self.add("Gather", self.add("Shape", "input_ids"), self.constant(1, np.int64), axis=0)
        end = self.add("Unsqueeze", sequence, self.constant([0], np.int64))
        begin, axis = self.constant([0], np.int64), self.constant([1], np.int64)
        positions = self.add("Slice", self.weight("embeddings.position_ids"), begin, end, axis)
        words = self.add("Gather", self.weight("embeddings.word_embeddings.weight"), "input_ids", axis=0)
        types = self.add("Gather", self.weight("embeddings.token_type_embeddings.weight"), "token_type_ids", axis=0)
        places = self.add("Gather", self.weight("embeddings.position_embeddings.weight"), positions, axis=0)
        total = self.add("Add", self.add("Add", words, types), places)
        return self.layer_norm(total, "embeddings.LayerNorm")

    def mask(self) -> str:
        """0 where a token may be attended to, the lowest float where not: [batch, 1, 1, sequence]."""
        self.scope = "/mask"
        mask = self.add("Unsqueeze", "attention_mask", self.constant([1], np.int64))
        mask = self.add("Cast", self.add("Unsqueeze", mask, self.constant([2], np.int64)), to=TensorProto.FLOAT)
        inverted = self.add("Sub", self.constant(1.0), mask)
        return self.add("Mul", inverted, self.constant(np.finfo(np.float32).min))


def build(weights: Safetensors, config: dict) -> onnx.ModelProto:
    writer = GraphWriter(weights)
    heads = config["num_attention_heads"]
    width = config["hidden_size"] // heads
    mask = writer.mask()
    x = writer.embeddings()
    for layer in range(config["num_hidden_layers"]):
        prefix = f"encoder.layer.{layer}"
        writer.scope = f"/encoder/layer.{layer}"
        x = writer.attention(x, mask, prefix + ".attention", heads, width)
        inner = writer.gelu(writer.linear(x, prefix + ".intermediate.dense"))
        x = writer.add("Add", writer.linear(inner, prefix + ".output.dense"), x)
        x = writer.layer_norm(x, prefix + ".output.LayerNorm")
    writer.nodes[-1].output[0] = "last_hidden_state"

    shape = ["batch", "sequence"]
    inputs = [
        helper.make_tensor_value_info(name, TensorProto.INT64, shape)
        for name in ("input_ids", "attention_mask", "token_type_ids")
    ]
    output = helper.make_tensor_value_info("last_hidden_state", TensorProto.FLOAT, [*shape, config["hidden_size"]])
    graph = helper.make_graph(writer.nodes, "minilm", inputs, [output], list(writer.initializers.values()))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=8,
                             producer_name="ferrite-bench")  # fmt: skip


def reference(weights: Safetensors, config: dict, ids: np.ndarray, mask: np.ndarray, types: np.ndarray) -> np.ndarray:
    """The encoder in float64 numpy, written from the definition and not from the graph."""
    load = lambda name: weights.array(name).astype(np.float64)  # noqa: E731
    linear = lambda x, name: x @ load(name + ".weight").T + load(name + ".bias")  # noqa: E731
    erf = np.vectorize(math.erf)
    heads = config["num_attention_heads"]
    batch, sequence = ids.shape

    def norm(x, name):
        x = x - x.mean(-1, keepdims=True)
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + EPSILON) * load(name + ".weight") + load(name + ".bias")

    def by_head(x):
        return x.reshape(batch, sequence, heads, -1).swapaxes(1, 2)

    x = load("embeddings.word_embeddings.weight")[ids] + load("embeddings.token_type_embeddings.weight")[types]
    x = norm(x + load("embeddings.position_embeddings.weight")[:sequence], "embeddings.LayerNorm")
    for layer in range(config["num_hidden_layers"]):
        prefix = f"encoder.layer.{layer}"
        q, k, v = (by_head(linear(x, f"{prefix}.attention.self.{part}")) for part in ("query", "key", "value"))
        scores = q @ k.swapaxes(-1, -2) / math.sqrt(q.shape[-1])
        scores = np.where(mask[:, None, None, :] != 0, scores, -np.inf)
        scores = np.exp(scores - scores.max(-1, keepdims=True))
        context = (scores / scores.sum(-1, keepdims=True)) @ v
        context = context.swapaxes(1, 2).reshape(batch, sequence, -1)
        x = norm(x + linear(context, prefix + ".attention.output.dense"), prefix + ".attention.output.LayerNorm")
        inner = linear(x, prefix + ".intermediate.dense")
        inner = inner * 0.5 * (1 + erf(inner / math.sqrt(2)))
        x = norm(x + linear(inner, prefix + ".output.dense"), prefix + ".output.LayerNorm")
    return x


def check(path: Path, weights: Safetensors, config: dict) -> bool:
    import onnxruntime

    onnx.checker.check_model(str(path), full_check=True)
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    generator = np.random.default_rng(0)
    close = True
    for batch, sequence in ((1, 128), (3, 7)):
        ids = generator.integers(0, config["vocab_size"], (batch, sequence))
        types = generator.integers(0, config["type_vocab_size"], (batch, sequence))
        mask = np.ones_like(ids)
        mask[-1, sequence // 2 + 1 :] = 0
        feeds = {"input_ids": ids, "attention_mask": mask, "token_type_ids": types}
        (got,) = session.run(None, feeds)
        expected = reference(weights, config, ids, mask, types)
        error = np.abs(got - expected).max()
        close &= bool(np.allclose(got, expected, rtol=1e-3, atol=1e-4))
        print(f"{batch}x{sequence}: largest difference to numpy {error:.2e}")
    return close


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--weights", type=Path, default=MODELS / "minilm" / "model.safetensors")
    parser.add_argument("--output", type=Path, help="default: minilm.onnx beside the weights")
    parser.add_argument("--check", action="store_true", help="compare ONNX Runtime on the file with numpy")
    arguments = parser.parse_args()
    output = arguments.output or arguments.weights.with_name("minilm.onnx")
    if output.resolve().parent != arguments.weights.resolve().parent:
        parser.error(f"the graph refers to its weights by file name: write it into {arguments.weights.parent}")
    weights = Safetensors(arguments.weights)
    config = json.loads(arguments.weights.with_name("config.json").read_text())
    onnx.save(build(weights, config), output)
    print(f"{output}: {output.stat().st_size} bytes")
    if arguments.check and not check(output, weights, config):
        print("minilm.py: ONNX Runtime and numpy differ", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
