#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A linear layer and cross entropy, forwards and backwards, beside torch.compile: time and peak memory in one run.

Usage: cross_entropy.py [--program FILE] [--torch PYTHON] [--tokens N] [--width N] [--columns N] [--rounds N]
                        [--threads N] [--output FILE]

The graph holds both directions, as automatic differentiation writes them: the gradient of the choice of one column is a
scatter upon zeros. PYTHON is an interpreter that has torch; bench/run puts one into build/bench-venv. Loss and gradients
are compared first, then both are timed in turns. The peak is that of resident memory while it runs: of the whole process
for ferrite, of what exceeds the imported torch for the other. Exit status 1 where results differ.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "bench")]

import figures  # noqa: E402

TOLERANCE = 1e-4  # of the largest element

GRAPH = """ferrite graph 0
graph @cross_entropy(%x: f32[{t},{d}], %w: f32[{v},{d}], %target: i64[{t},1])
    -> (%loss "loss", %dx "dx", %dw "dw") joint(forward_outputs = 1) {{
  %one = literal f32[] {{1}}
  %count = literal f32[] {{{t}}}
  %wt = transpose(%w) {{perm = [1, 0]}}
  %logits = matmul(%x, %wt)
  %top = reduce_max(%logits) {{axes = [1], keepdims = true}}
  %below = sub(%logits, %top)
  %powers = exp(%below)
  %sum = reduce_sum(%powers) {{axes = [1], keepdims = true}}
  %lse = log(%sum)
  %logp = sub(%below, %lse)
  %chosen = gather_elements(%logp, %target) {{axis = 1}}
  %total = reduce_sum(%chosen) {{axes = [0, 1], keepdims = false}}
  %mean = div(%total, %count)
  %loss = neg(%mean)
  %each = div(%one, %count)
  %minus = neg(%each)
  %update = expand(%minus) {{shape = [{t}, 1]}}
  %zeros = full() {{dtype = f32, shape = [{t}, {v}]}}
  %dlogp = scatter_elements(%zeros, %target, %update) {{axis = 1, reduction = "add"}}
  %dsum = reduce_sum(%dlogp) {{axes = [1], keepdims = true}}
  %p = exp(%logp)
  %scaled = mul(%p, %dsum)
  %dlogits = sub(%dlogp, %scaled)
  %dx = matmul(%dlogits, %w)
  %dlogits_t = transpose(%dlogits) {{perm = [1, 0]}}
  %dw = matmul(%dlogits_t, %x)
}}
"""

# Answers each line on its input: "save FOLDER" with a line, a number of runs with their times and the peak.
TORCH = """
import json, sys, time
import numpy as np, torch

def resident(field):
    for line in open("/proc/self/status"):
        if line.startswith(field + ":"):
            return int(line.split()[1]) / 1024

folder, threads = sys.argv[1], int(sys.argv[2])
torch.set_num_threads(threads)
base = resident("VmRSS")
load = lambda name: torch.from_numpy(np.load(f"{folder}/{name}.npy"))
x, w, target = load("x").requires_grad_(), load("w").requires_grad_(), load("target").reshape(-1)

def loss_of(x, w):
    return torch.nn.functional.cross_entropy(torch.nn.functional.linear(x, w), target)

compiled = torch.compile(loss_of)

def run():
    x.grad = w.grad = None
    loss = compiled(x, w)
    loss.backward()
    return loss

print(json.dumps({"version": torch.__version__}), flush=True)
for line in sys.stdin:
    if line.startswith("save"):
        loss = run()
        for name, value in (("loss", loss), ("dx", x.grad), ("dw", w.grad)):
            np.save(f"{folder}/torch_{name}.npy", value.detach().numpy())
        print(json.dumps({}), flush=True)
        continue
    open("/proc/self/clear_refs", "w").write("5")
    start = time.perf_counter()
    run()
    taken = time.perf_counter() - start
    print(json.dumps({"ms": taken * 1000, "peak_mb": resident("VmHWM") - base}), flush=True)
"""


class Torch:
    def __init__(self, interpreter: str, folder: Path, threads: int):
        self.process = subprocess.Popen(
            [interpreter, "-c", TORCH, str(folder), str(threads)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.version = self.answer()["version"]

    def answer(self) -> dict:
        line = self.process.stdout.readline()
        if not line:
            sys.exit(f"torch: exit status {self.process.wait()}")
        return json.loads(line)

    def ask(self, line: str) -> dict:
        print(line, file=self.process.stdin, flush=True)
        return self.answer()


def ferrite(command: list[str]) -> tuple[str, float]:
    """What it prints, and the largest resident memory that it had, in MB."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    printed = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    if status != 0:
        sys.exit(f"ferrite: exit status {os.waitstatus_to_exitcode(status)}")
    return printed, usage.ru_maxrss / 1024


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", type=Path, default=ROOT / "build/release/bin/ferrite")
    parser.add_argument("--torch", default=str(ROOT / "build/bench-venv/bin/python"))
    parser.add_argument("--tokens", type=int, default=4096)
    parser.add_argument("--width", type=int, default=768)
    parser.add_argument("--columns", type=int, default=50257)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--output", type=Path, default=ROOT / "bench/results/cross_entropy.json")
    options = parser.parse_args()
    for program in (options.program, options.torch):
        if not shutil.which(program):
            parser.error(f"{program} is not there; ./dev build makes the program, bench/run an interpreter that has torch")
    random = np.random.default_rng(0)
    with tempfile.TemporaryDirectory(prefix="ferrite-cross-entropy-") as scratch:
        folder = Path(scratch)
        model = folder / "cross_entropy.fe"
        model.write_text(GRAPH.format(t=options.tokens, d=options.width, v=options.columns))
        np.save(folder / "x.npy", random.standard_normal((options.tokens, options.width), np.float32))
        np.save(folder / "w.npy", random.standard_normal((options.columns, options.width), np.float32) / 30)
        np.save(folder / "target.npy", random.integers(0, options.columns, (options.tokens, 1)))
        words = [f"--input={name}={folder}/{name}.npy" for name in ("x", "w", "target")]
        words += ["--threads", str(options.threads)]
        peer = Torch(options.torch, folder, options.threads)
        peer.ask(f"save {folder}")
        ferrite([str(options.program), "run", str(model), "-o", str(folder / "ours"), *words])
        for index, name in enumerate(("loss", "dx", "dw")):
            ours, theirs = np.load(folder / f"ours/output_{index}.npy"), np.load(folder / f"torch_{name}.npy")
            error = float(np.abs(ours - theirs.reshape(ours.shape)).max() / np.abs(theirs).max())
            print(f"{name:<6} differs by at most {error:.1e} of the largest element")
            if not error <= TOLERANCE:
                return 1
        rounds: list[dict] = []
        for _ in range(options.rounds):
            printed, peak = ferrite([str(options.program), "bench", str(model), "--json", "--repeat", "1", *words])
            seen = json.loads(printed)
            other = peer.ask("run")
            rounds.append({"ferrite_ms": seen["median_ms"], "ferrite_peak_mb": peak, "kernels": seen["kernels"],
                           "torch_ms": other["ms"], "torch_peak_mb": other["peak_mb"]})  # fmt: skip
    measured = {key: statistics.median(entry[key] for entry in rounds) for key in rounds[0]}
    print(f"{'':<24}{'ms':>10}{'peak MB':>10}")
    print(f"{'ferrite':<24}{measured['ferrite_ms']:>10.0f}{measured['ferrite_peak_mb']:>10.0f}")
    print(f"{'torch.compile ' + peer.version:<24}{measured['torch_ms']:>10.0f}{measured['torch_peak_mb']:>10.0f}")
    sizes = {key: getattr(options, key) for key in ("tokens", "width", "columns", "threads")}
    report = {**figures.origin("bench/cross_entropy.py"), **sizes, "rounds": options.rounds, "torch": peer.version, **measured}
    options.output.write_text(json.dumps(report, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
