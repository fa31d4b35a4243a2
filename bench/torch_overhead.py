#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What a call of a compiled function costs beyond what PyTorch itself needs for it, by the number of inputs and outputs.

Usage: bench/torch_overhead.py [--rounds N] [--calls N] [--output FILE]
Run it with a Python that has torch, and the package `ferrite` on its path. The function adds a number to vectors of four
elements, so that a call is overhead alone. The peer is AOTAutograd with a compiler whose programs return tensors that
were allocated before: guards, Dynamo's bytecode and AOTAutograd's wrappers are the same in both. Both run in turns, in
rounds of so many calls; the table has the median over the rounds of a round's median, and of its difference. Processors
of virtual machines are at times half as fast as at others: rounds do not count in which a fixed loop takes over 1.15
times its least time. "The run" is the part of the difference in which the program itself runs: its kernels and their
start. The table goes to standard output, and with --output the figures to a file as JSON.
"""

import argparse
import functools
import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parent)]

import ferrite.torch  # noqa: E402
import figures  # noqa: E402
import torch  # noqa: E402
from torch._dynamo.backends.common import aot_autograd  # noqa: E402

SIZES = ((1, 1), (20, 1), (150, 1), (1, 20), (20, 20), (150, 150))  # inputs, outputs
BUDGET = (15.0, 0.1, 2.0)  # microseconds: a call, an input, an output


def function(outputs: int) -> Callable[..., list[torch.Tensor]]:
    """Of any number of inputs: each is read by some output."""

    def run(*inputs: torch.Tensor) -> list[torch.Tensor]:
        if outputs == 1:
            return [functools.reduce(torch.add, inputs) + 1]
        return [inputs[k % len(inputs)] + k for k in range(outputs)]

    return run


def allocated_before(graph: torch.fx.GraphModule, _: list[torch.Tensor]) -> Callable[..., list[torch.Tensor]]:
    """A compiler whose programs compute nothing."""
    (output,) = graph.graph.find_nodes(op="output")
    results = [torch.zeros(value.meta["val"].shape) for value in output.args[0]]

    def run(arguments: list[torch.Tensor]) -> list[torch.Tensor]:
        arguments.clear()
        return list(results)

    run._boxed_call = True
    return run


def fixed_loop() -> int:
    """The nanoseconds of a loop of Python that is always the same."""
    start = time.perf_counter_ns()
    for _ in range(20_000):
        pass
    return time.perf_counter_ns() - start


def microseconds(call: Callable[..., object], inputs: list[torch.Tensor], count: int) -> float:
    """The median of so many calls."""
    times = []
    for _ in range(count):
        start = time.perf_counter_ns()
        call(*inputs)
        times.append(time.perf_counter_ns() - start)
    return statistics.median(times) / 1000


def measure(inputs: int, outputs: int, rounds: int, calls: int) -> dict[str, float]:
    torch._dynamo.reset()
    reports: list[ferrite.torch._compile.Report] = []
    ferrite.torch._compile.listeners[:] = [reports.append]
    given = [torch.randn(4) for _ in range(inputs)]
    peer = aot_autograd(fw_compiler=allocated_before, inference_compiler=allocated_before)
    with torch.no_grad():
        ours = torch.compile(function(outputs), backend="ferrite", options={"fallback": "error"})
        torch.testing.assert_close(ours(*given), function(outputs)(*given))
        theirs = torch.compile(function(outputs), backend=peer)
        theirs(*given)
        ((program,),) = (report.programs for report in reports)
        found = []
        for _ in range(rounds):
            before = fixed_loop()
            ferrites, pytorchs = microseconds(ours, given, calls), microseconds(theirs, given, calls)
            times = (ferrites, pytorchs, ferrites - pytorchs, program.stats()["run_ms"] * 1000)
            found.append((max(before, fixed_loop()), times))
    least = min(loop for loop, _ in found)
    counted = [times for loop, times in found if loop <= 1.15 * least]
    columns = ("ferrite_us", "pytorch_us", "beyond_us", "run_us")
    return {
        "inputs": inputs,
        "outputs": outputs,
        **{name: statistics.median(figures) for name, figures in zip(columns, zip(*counted, strict=True), strict=True)},
        "budget_us": BUDGET[0] + BUDGET[1] * inputs + BUDGET[2] * outputs,
        "kernels": program.stats()["kernels"],
        "counted_rounds": len(counted),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--calls", type=int, default=100)
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    print("| inputs | outputs | Ferrite, us | PyTorch's part, us | beyond it, us | of it the run, us | budget, us | kernels | rounds |")
    print("| ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    rows = []
    for inputs, outputs in SIZES:
        rows.append(measure(inputs, outputs, options.rounds, options.calls))
        print("| " + " | ".join(f"{value:.0f}" for value in rows[-1].values()) + " |", flush=True)
    if options.output:
        report = {**figures.origin("bench/torch_overhead.py"), "torch": torch.__version__, "rows": rows}
        options.output.write_text(json.dumps(report, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
