#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compile time over the size of the graph: cold, without a cache, for graphs of several shapes.

Usage: scale.py [--program FILE] [--nodes N,...] [--threads N] [--rounds N] [--limit EXPONENT] [--most SECONDS] [--output FILE]

  blocks  layers of a residual network, one after the other: every layer has the same kernels
  wide    one input, which nearly everything reads: chains side by side, added up in the end
  random  each node reads any two of the last hundred, and each is read: element-wise operations, reductions, transpositions
  layers  an embedding and transformer layers, no two with the same weights: every layer has the same kernels
  chain   element-wise operations, one after the other
  steps   a step of an optimiser with momentum: parameters and their momenta, each changed in place
  parts   tensors put together of many parts and read as often

`cpu s` is the processor time of the whole process, which other load on the machine changes less; of all rounds, the least counts.
The exponent is log(time at the largest size / time at the next) / log(ratio of the nodes): 1 is linear. With --limit, exit
status 1 where it is above EXPONENT; with --most, where the compilation of 10,000 nodes takes longer than SECONDS. All of it
goes to standard output and, where no round failed, to bench/results/scale.json.
"""

import argparse
import json
import math
import os
import random
import re
import resource
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

import figures

ROOT = Path(__file__).resolve().parents[1]
LITERALS = """  %root = literal f32[] {1.4142135}
  %one = literal f32[] {1}
  %half = literal f32[] {0.5}
  %small = literal f32[] {0.00001}
"""


def blocks(nodes: int) -> tuple[list[str], str]:
    lines, x = [], "x"
    while len(lines) < nodes:
        p = f"b{len(lines)}_"
        lines += [
            f"%{p}product = matmul(%{x}, %w)",
            f"%{p}biased = add(%{p}product, %bias)",
            f"%{p}quotient = div(%{p}biased, %root)",
            f"%{p}erf = erf(%{p}quotient)",
            f"%{p}sum = add(%{p}erf, %one)",
            f"%{p}scaled = mul(%{p}biased, %{p}sum)",
            f"%{p}gelu = mul(%{p}scaled, %half)",
            f"%{p}residual = add(%{p}gelu, %{x})",
            f"%{p}mean = reduce_mean(%{p}residual) {{axes = [1], keepdims = true}}",
            f"%{p}centred = sub(%{p}residual, %{p}mean)",
            f"%{p}square = mul(%{p}centred, %{p}centred)",
            f"%{p}variance = reduce_mean(%{p}square) {{axes = [1], keepdims = true}}",
            f"%{p}positive = add(%{p}variance, %small)",
            f"%{p}deviation = sqrt(%{p}positive)",
            f"%{p}normal = div(%{p}centred, %{p}deviation)",
            f"%{p}out = mul(%{p}normal, %scale)",
        ]
        x = p + "out"
    return lines, x


def wide(nodes: int) -> tuple[list[str], str]:
    lines, sums = [], []
    while len(lines) < nodes * 3 // 4:
        p = f"c{len(lines)}_"
        lines.append(f"%{p}factor = literal f32[] {{{1 + len(sums) / 4096}}}")  # no two chains are equal
        lines.append(f"%{p}a = mul(%x, %{p}factor)")
        lines.append(f"%{p}b = reduce_sum(%{p}a) {{axes = [{len(sums) % 2}], keepdims = true}}")
        lines.append(f"%{p}c = sub(%x, %{p}b)")
        sums.append(p + "c")
    while len(sums) > 1:
        made = []
        for k in range(0, len(sums) - 1, 2):
            lines.append(f"%s{len(lines)} = add(%{sums[k]}, %{sums[k + 1]})")
            made.append(f"s{len(lines) - 1}")
        sums = made + sums[len(sums) // 2 * 2 :]
    return lines, sums[0]


def any_dag(nodes: int) -> tuple[list[str], str]:
    chance = random.Random(1)
    lines, recent, unread = [], ["x"], set()

    def operand() -> str:
        # What nobody read before it leaves the window is read now: no node is dead.
        name = recent[0] if recent[0] in unread else chance.choice(recent)
        unread.discard(name)
        return name

    while len(lines) + len(unread) < nodes:
        name, other = f"r{len(lines)}", operand()
        kind = chance.randrange(10)
        if kind < 2:
            lines.append(f"%{name}_m = reduce_max(%{other}) {{axes = [{kind}], keepdims = true}}")
            lines.append(f"%{name} = sub(%{other}, %{name}_m)")
        elif kind == 2:
            lines.append(f"%{name} = transpose(%{other}) {{perm = [1, 0]}}")
        elif kind < 6:
            lines.append(f"%{name} = {['tanh', 'abs', 'sigmoid'][kind - 3]}(%{other})")
        else:
            lines.append(f"%{name} = {['add', 'mul', 'maximum', 'sub'][kind - 6]}(%{other}, %{operand()})")
        recent = (recent + [name])[-100:]
        unread.add(name)
    result, *rest = sorted(unread)
    for name in rest:
        lines.append(f"%s{len(lines)} = add(%{result}, %{name})")
        result = f"s{len(lines) - 1}"
    return lines, result


def chain(nodes: int) -> tuple[list[str], str]:
    lines, x = [], "x"
    for k in range(nodes):
        lines.append(f"%c{k} = {['tanh', 'neg', 'exp', 'abs'][k % 4]}(%{x})")
        x = f"c{k}"
    return lines, x


def layer(p: str, x: str) -> tuple[list[str], str, list[str]]:
    """Attention and a feed-forward part over x, f32[16,64], with names that begin with p; with the parameters that it takes."""
    parameters = [f"%{p}{name}: f32[64,64]" for name in ("wq", "wk", "wv", "wo")]
    parameters += [f"%{p}w1: f32[64,256]", f"%{p}b1: f32[256]", f"%{p}w2: f32[256,64]", f"%{p}b2: f32[64]"]
    lines = [f"%{p}{name} = matmul(%{x}, %{p}w{name})" for name in "qkv"]
    lines += [
        f"%{p}t = transpose(%{p}k) {{perm = [1, 0]}}",
        f"%{p}scores = matmul(%{p}q, %{p}t)",
        f"%{p}scaled = mul(%{p}scores, %half)",
        f"%{p}soft = softmax(%{p}scaled) {{axis = 1}}",
        f"%{p}values = matmul(%{p}soft, %{p}v)",
        f"%{p}merged = matmul(%{p}values, %{p}wo)",
        f"%{p}first = add(%{p}merged, %{x})",
        f"%{p}mean = reduce_mean(%{p}first) {{axes = [1], keepdims = true}}",
        f"%{p}centred = sub(%{p}first, %{p}mean)",
        f"%{p}square = mul(%{p}centred, %{p}centred)",
        f"%{p}variance = reduce_mean(%{p}square) {{axes = [1], keepdims = true}}",
        f"%{p}positive = add(%{p}variance, %small)",
        f"%{p}deviation = sqrt(%{p}positive)",
        f"%{p}normal = div(%{p}centred, %{p}deviation)",
        f"%{p}inner = matmul(%{p}normal, %{p}w1)",
        f"%{p}biased = add(%{p}inner, %{p}b1)",
        f"%{p}act = gelu(%{p}biased)",
        f"%{p}outer = matmul(%{p}act, %{p}w2)",
        f"%{p}moved = add(%{p}outer, %{p}b2)",
        f"%{p}out = add(%{p}moved, %{p}normal)",
    ]
    return lines, p + "out", parameters


def layers_text(count: int) -> str:
    """An embedding and so many layers, each with weights of its own."""
    lines, x = ["%e = gather(%table, %tokens) {axis = 0}"], "e"
    parameters = ["%tokens: i64[16]", "%table: f32[1000,64]"]
    for k in range(count):
        more, x, its = layer(f"l{k}_", x)
        lines += more
        parameters += its
    head = f'graph @layers({", ".join(parameters)}) -> (%{x} "y") {{\n'
    return "ferrite graph 0\n" + head + LITERALS + "".join(f"  {line}\n" for line in lines) + "}\n"


def steps_text(count: int) -> str:
    """A step of gradient descent with momentum for so many parameters."""
    parameters, lines = ["%rate: f32[]"], []
    for k in range(count):
        parameters += [f"%p{k}: f32[64] mutated_by %p{k}_new donated", f"%m{k}: f32[64] mutated_by %m{k}_new donated",
                       f"%g{k}: f32[64]"]  # fmt: skip
        lines += [
            f"%m{k}_kept = mul(%m{k}, %half)",
            f"%m{k}_new = add(%m{k}_kept, %g{k})",
            f"%p{k}_step = mul(%m{k}_new, %rate)",
            f"%p{k}_new = sub(%p{k}, %p{k}_step)",
        ]
    head = f'graph @steps({", ".join(parameters)}) -> (%next "next rate") {{\n'
    return "ferrite graph 0\n" + head + LITERALS + "".join(f"  {line}\n" for line in [*lines, "%next = mul(%rate, %half)"]) + "}\n"


def parts_text(count: int) -> str:
    """A concatenation of so many parts, each of its own, that as many others read."""
    lines = [f"%e{k} = exp(%x)" if k == 0 else f"%e{k} = exp(%e{k - 1})" for k in range(count)]
    lines += [f"%all = concat({', '.join(f'%e{k}' for k in range(count))}) {{axis = 0}}"]
    for k in range(count):
        lines += [f"%t{k} = mul(%all, %f{k})", f"%s{k} = reduce_sum(%t{k}) {{axes = [0]}}"]
    parameters = ["%x: f32[8]", *(f"%f{k}: f32[]" for k in range(count))]
    results = ", ".join(f'%s{k} "s{k}"' for k in range(count))
    head = f'graph @parts({", ".join(parameters)}) -> ({results}) {{\n'
    return "ferrite graph 0\n" + head + "".join(f"  {line}\n" for line in lines) + "}\n"


# Graph, and the dims of its input; of those that have inputs of their own, the text.
SHAPES = {
    "blocks": (blocks, "32,64"),
    "wide": (wide, "32,64"),
    "random": (any_dag, "64,64"),
    "chain": (chain, "64,64"),
    "layers": lambda nodes: layers_text(max(1, nodes // len(layer("", "x")[0]))),
    "steps": lambda nodes: steps_text(max(1, nodes // 4)),
    "parts": lambda nodes: parts_text(max(1, nodes // 3)),
}


def text_of(shape: str, nodes: int) -> str:
    if callable(SHAPES[shape]):
        return SHAPES[shape](nodes)
    make, dims = SHAPES[shape]
    lines, result = make(nodes)
    head = f'graph @{shape}(%x: f32[{dims}], %w: f32[64,64], %bias: f32[64], %scale: f32[64]) -> (%{result} "y") {{\n'
    return "ferrite graph 0\n" + head + LITERALS + "".join(f"  {line}\n" for line in lines) + "}\n"


def processor_seconds() -> float:
    """Of the processes that were started and have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def compilation(program: Path, model: Path, threads: int) -> dict:
    """One cold compilation, in a process of its own."""
    before = processor_seconds()
    command = [program, "bench", model, "--json", "--repeat", "1", "--threads", str(threads)]
    done = subprocess.run(command, capture_output=True, text=True, check=False,
                          env={**os.environ, "FERRITE_CACHE": "off"})  # fmt: skip
    if done.returncode != 0:
        sys.exit(f"{shlex.join(map(str, command))} failed:\n{done.stderr}")
    said = json.loads(done.stdout)
    return {"statements": said["statements"], "kernels": said["kernels"], "unique_kernels": said["unique_kernels"],
            "compile_s": round(said["compile_ms"] / 1000, 4), "cpu_s": round(processor_seconds() - before, 4)}  # fmt: skip


def sizes_of(text: str) -> list[int]:
    numbers = text.split(",")
    if not all(number.isdecimal() and int(number) > 0 for number in numbers):
        raise argparse.ArgumentTypeError(f"'{text}' is no list of numbers above 0, such as 1000,3000")
    return sorted(map(int, numbers))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", type=Path, default=ROOT / "build/release/bin/ferrite")
    parser.add_argument("--nodes", type=sizes_of, default="1000,3000,10000,30000", metavar="N,...")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--limit", type=float)
    parser.add_argument("--most", type=float)
    parser.add_argument("--output", type=Path, default=ROOT / "bench/results/scale.json")
    arguments = parser.parse_args()
    sizes = arguments.nodes
    results, status = {}, 0
    print(f"{'graph':<8}{'nodes':>8}{'kernels':>9}{'unique':>8}{'compile s':>11}{'µs a node':>11}{'cpu s':>8}")
    for shape in SHAPES:
        rows = []
        for nodes in sizes:
            with tempfile.TemporaryDirectory() as folder:
                model = Path(folder) / f"{shape}.fe"
                model.write_text(text_of(shape, nodes))
                runs = [compilation(arguments.program, model, arguments.threads) for _ in range(arguments.rounds)]
            row = {"nodes": nodes, **runs[0]} | {key: min(run[key] for run in runs) for key in ("compile_s", "cpu_s")}
            rows.append(row)
            seconds = row["compile_s"]
            print(f"{shape:<8}{nodes:>8}{row['kernels']:>9}{row['unique_kernels']:>8}{seconds:>11.3f}"
                  f"{seconds / nodes * 1e6:>11.1f}{row['cpu_s']:>8.2f}", flush=True)  # fmt: skip
            if arguments.most and nodes == 10000 and seconds > arguments.most:
                print(f"{shape}: {nodes} nodes take more than {arguments.most} s")
                status = 1
        results[shape] = {"rows": rows}
        if len(rows) > 1:
            times = math.log(rows[-1]["compile_s"] / rows[-2]["compile_s"])
            exponent = times / math.log(rows[-1]["nodes"] / rows[-2]["nodes"])
            results[shape]["exponent"] = round(exponent, 3)
            print(f"{shape:<8}grows with the power {exponent:.2f}")
            if arguments.limit and exponent > arguments.limit:
                print(f"{shape}: that is above {arguments.limit}")
                status = 1
    report = {**figures.origin("bench/scale.py"), "threads": arguments.threads, "rounds": arguments.rounds, "graphs": results}
    arguments.output.write_text(json.dumps(report, indent=2) + "\n")
    return status


if __name__ == "__main__":
    sys.exit(main())
