# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Graphs whose results numpy knows: sources with contents, nodes, their text form and what they compute."""

import dataclasses

import numpy as np
import numpy_norms  # noqa: F401  fills OPS
import numpy_sums  # noqa: F401  fills OPS
import numpy_tensors  # noqa: F401  fills OPS
from numpy_pointwise import OPS
from numpy_values import FLOATS, contiguous, numpy_type, source, stored


class Dtype(str):
    """The value of an attribute that names a dtype; it is written without quotes."""


@dataclasses.dataclass
class Source:
    name: str
    dtype: str
    raw: np.ndarray
    kind: str = "input"  # or "literal", "weight"
    mutated_by: str = ""


@dataclasses.dataclass
class Node:
    op: str
    operands: list  # names; "_": absent
    results: list
    attrs: dict


@dataclasses.dataclass
class Graph:
    sources: list = dataclasses.field(default_factory=list)
    nodes: list = dataclasses.field(default_factory=list)
    outputs: list = dataclasses.field(default_factory=list)

    def inputs(self):
        return [s for s in self.sources if s.kind == "input"]

    def evaluate(self):
        """Values by name. Raises ValueError, IndexError or the like where an op does not take its operands."""
        values = {s.name: source(s.dtype, s.raw) for s in self.sources}
        for node in self.nodes:
            apply(node, values)
        return values

    def text(self, values):
        """With the types that numpy gives, so that those that Ferrite infers are compared; weights lie beside it as NAME.bin."""
        lines = ["ferrite graph 0"]
        inputs = [
            f"%{s.name}: {type_text(s.dtype, s.raw.shape)}"
            + (f" mutated_by {self.reference(s.mutated_by)}" if s.mutated_by else "")
            for s in self.inputs()
        ]
        outputs = [f'{self.reference(name)} "{name}"' for name in self.outputs]
        lines.append(f"graph @main({', '.join(inputs)}) -> ({', '.join(outputs)}) {{")
        for s in self.sources:
            if s.kind == "literal":
                elements = ", ".join(element_text(s.dtype, x) for x in s.raw.ravel())
                lines.append(f"  %{s.name} = literal {type_text(s.dtype, s.raw.shape)} {{{elements}}}")
            elif s.kind == "weight":
                lines.append(
                    f'  #{s.name} = weight("{s.name}.bin", 0, {s.raw.nbytes}) : {type_text(s.dtype, s.raw.shape)}'
                )
        for node in self.nodes:
            operands = ", ".join("_" if name == "_" else self.reference(name) for name in node.operands)
            attrs = (
                " {" + ", ".join(f"{k} = {attribute_text(v)}" for k, v in node.attrs.items()) + "}"
                if node.attrs
                else ""
            )
            types = [type_text(values[name].dtype, values[name].shape) for name in node.results]
            types = types[0] if len(types) == 1 else f"({', '.join(types)})"
            lines.append(f"  {', '.join('%' + r for r in node.results)} = {node.op}({operands}){attrs} : {types}")
        return "\n".join([*lines, "}", ""])

    def reference(self, name):
        return f"#{name}" if any(s.name == name and s.kind == "weight" for s in self.sources) else f"%{name}"

    def write(self, folder, values):
        for s in self.sources:
            if s.kind == "weight":
                (folder / f"{s.name}.bin").write_bytes(s.raw.tobytes())
        path = folder / "graph.fe"
        path.write_text(self.text(values))
        return path


def apply(node, values):
    with np.errstate(all="ignore"):
        results = OPS[node.op](node.attrs, *(None if name == "_" else values[name] for name in node.operands))
    if len(results) != len(node.results):
        raise ValueError("results")
    for name, value in zip(node.results, results, strict=True):
        values[name] = value


def type_text(dtype, shape):
    return f"{dtype}[{','.join(map(str, shape))}]"


def attribute_text(value):
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Dtype):
        return value
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, list):
        return f"[{', '.join(map(attribute_text, value))}]"
    text = repr(value)
    return text if isinstance(value, int) or any(c in text for c in ".en") else text + ".0"


def element_text(dtype, x):
    if dtype == "bool":
        return "true" if x else "false"
    if dtype not in FLOATS:
        return str(int(x))
    if not x == x:  # what numpy's own test says of floats of 8 bits is right, with a warning
        return f"nan({int(np.asarray(x).view(f'u{numpy_type(dtype).itemsize}')):#x})"
    text = repr(float(x))
    return text if any(c in text for c in ".en") else text + ".0"


def with_values_as_source(graph, values, name):
    """The graph with what makes `name` left out, and a source in its place that holds what numpy says."""
    nodes = [node for node in graph.nodes if name not in node.results]
    made = {result for node in nodes for result in node.results}
    replaced = [n for node in graph.nodes if name in node.results for n in node.results]
    sources = list(graph.sources) + [Source(n, values[n].dtype, contiguous(stored(values[n]))) for n in replaced]
    return pruned(Graph(sources, nodes, [o for o in graph.outputs if o in made]))


def pruned(graph):
    """Without nodes and sources that nothing needs."""
    needed = set(graph.outputs) | {s.mutated_by for s in graph.sources if s.mutated_by}
    nodes = []
    for node in reversed(graph.nodes):
        if needed & set(node.results):
            needed |= set(node.operands)
            nodes.append(node)
    return Graph([s for s in graph.sources if s.name in needed or s.mutated_by], nodes[::-1], graph.outputs)
