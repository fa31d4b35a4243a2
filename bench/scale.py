#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compile time over the size of the graph: cold, without a cache, for graphs of three shapes.

Usage: scale.py [--program FILE] [--nodes N,...] [--rounds N] [--limit EXPONENT] [--most SECONDS] [--output FILE]

  blocks  layers of a residual network, one after the other: every layer has the same kernels
  wide    one input, which nearly everything reads: chains side by side, added up in the end
  random  each node reads any two of the last hundred: element-wise operations, reductions, transpositions

The exponent is log(time at the largest size / time at the next) / log(ratio of the nodes): 1 is linear. With --limit, exit
status 1 where it is above EXPONENT; with --most, where the compilation of 10,000 nodes takes longer than SECONDS.
"""

import argparse
import json
import math
import os
import random
import re
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

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
    lines, recent = [], ["x"]
    while len(lines) < nodes:
        name, other = f"r{len(lines)}", chance.choice(recent)
        kind = chance.randrange(10)
        if kind < 2:
            lines.append(f"%{name}_m = reduce_max(%{other}) {{axes = [{kind}], keepdims = true}}")
            lines.append(f"%{name} = sub(%{other}, %{name}_m)")
        elif kind == 2:
            lines.append(f"%{name} = transpose(%{other}) {{perm = [1, 0]}}")
        elif kind < 6:
            lines.append(f"%{name} = {['tanh', 'abs', 'sigmoid'][kind - 3]}(%{other})")
        else:
            lines.append(f"%{name} = {['add', 'mul', 'maximum', 'sub'][kind - 6]}(%{other}, %{chance.choice(recent)})")
        recent = (recent + [name])[-100:]
    return lines, recent[-1]


# Graph, and the dims of its input.
SHAPES = {"blocks": (blocks, "32,64"), "wide": (wide, "32,64"), "random": (any_dag, "64,64")}


def text_of(shape: str, nodes: int) -> str:
    make, dims = SHAPES[shape]
    lines, result = make(nodes)
    head = f'graph @{shape}(%x: f32[{dims}], %w: f32[64,64], %bias: f32[64], %scale: f32[64]) -> (%{result} "y") {{\n'
    return "ferrite graph 0\n" + head + LITERALS + "".join(f"  {line}\n" for line in lines) + "}\n"


def compile_seconds(program: Path, model: Path) -> tuple[float, int]:
    done = subprocess.run([program, "run", model], capture_output=True, text=True, check=False,
                          env={**os.environ, "FERRITE_CACHE": "off"})  # fmt: skip
    found = re.search(r"(\d+) kernels.*compiled in ([\d.]+) ms", done.stdout)
    if done.returncode != 0 or not found:
        sys.exit(f"{program} run {model} failed:\n{done.stderr}")
    return float(found[2]) / 1000, int(found[1])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", type=Path, default=ROOT / "build/release/bin/ferrite")
    parser.add_argument("--nodes", default="1000,3000,10000,30000")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--limit", type=float)
    parser.add_argument("--most", type=float)
    parser.add_argument("--output", type=Path)
    arguments = parser.parse_args()
    sizes = sorted(int(n) for n in arguments.nodes.split(","))
    results, status = {}, 0
    print(f"{'graph':<8}{'nodes':>8}{'kernels':>9}{'compile s':>11}{'µs a node':>11}")
    for shape in SHAPES:
        rows = []
        for nodes in sizes:
            with tempfile.TemporaryDirectory() as folder:
                model = Path(folder) / f"{shape}.fe"
                model.write_text(text_of(shape, nodes))
                runs = [compile_seconds(arguments.program, model) for _ in range(arguments.rounds)]
            seconds = statistics.median(run[0] for run in runs)
            rows.append({"nodes": nodes, "kernels": runs[0][1], "compile_s": round(seconds, 4)})
            print(f"{shape:<8}{nodes:>8}{runs[0][1]:>9}{seconds:>11.3f}{seconds / nodes * 1e6:>11.1f}", flush=True)
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
    if arguments.output:
        arguments.output.write_text(json.dumps(results, indent=1) + "\n")
    return status


if __name__ == "__main__":
    sys.exit(main())
