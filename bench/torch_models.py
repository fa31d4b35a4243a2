#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Ferrite beside eager PyTorch and torch.compile's own compiler, Inductor, on models of PyTorch: inference and training.

Usage: bench/torch_models.py [--engines NAME,...] [--rounds N] [--seconds S] [--threads N] [--parts times,calls]
       [--warm N] [--add] [--output FILE] [ROW...]
Rows are those of bench/models/torch_rows.py. Two things are measured of each:

times   One process has all engines, each with its own copy of the model. Each is compiled first, and its results are
        compared with eager's: outputs and loss, gradients, what AdamW changes. Then they run in turns, round by round.
calls   Fresh processes for each engine: one for the seconds of the first call with empty caches, and --warm for those
        with the caches of the first one. After that, the latter measure memory: the largest resident size during steps 3
        to 5, minus that after model and inputs were made. So the engine's own modules and libraries count, too. Medians
        count: the C library's heap keeps memory in holes, more or less of it from process to process.

Engines: eager; inductor, torch.compile's default, which also compiles the optimizer's step; ferrite, which has the
optimizer in train_step. The table goes to standard output, all figures to bench/results/torch-*.json, those of a run of
chosen rows only to --output; with --add, rows and parts that the file has and that are not measured now stay in it. Exit status 1
when anything failed.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
VENV = ROOT / "build/torch"
if Path(sys.prefix).resolve() != VENV.resolve():
    if not (VENV / "bin/python").is_file():
        sys.exit("bench/torch_models.py: build/torch is not there; ./dev setup torch makes it")
    os.execv(VENV / "bin/python", [str(VENV / "bin/python"), *sys.argv])
sys.path[:0] = [str(ROOT / "bench"), str(ROOT / "bench/models")]

import figures  # noqa: E402
import torch  # noqa: E402
import torch_rows as table  # noqa: E402

ENGINES = {"ferrite": "Ferrite", "eager": "eager", "inductor": "Inductor"}
PEERS = [name for name in ENGINES if name != figures.FERRITE]
RATE = 1e-4  # of AdamW
# Relative, by the norm of a tensor. Gradients of deep networks add rounding of each layer; AdamW divides a gradient by its
# size, so that changes of parameters whose gradient is nearly 0 are noise: most of the change has to agree.
TOLERANCE = {"outputs": 1e-3, "losses": 1e-3, "gradients": 2e-2, "changes": 2e-1}
COMPARED_STEPS = 3
MEGABYTE = 2**20
WARM = {"warm_s": "first_s", "peak_mb": "peak_mb"}  # figures of processes that find caches, by their names there


class Engine:
    """A row's model, run by one engine. `run()` is a call, or a step of training."""

    def __init__(self, name: str, row: table.Row):
        self.name, self.row = name, row
        self.module, self.inputs = row.made()
        self.resident = resident("VmRSS")  # before the engine is loaded
        self.load()
        if row.kind == table.INFERENCE:
            compiled = self.compiled(self.module)

            def run():
                with torch.no_grad():
                    return compiled(*self.inputs)
        elif row.kind == table.BACKWARD:
            compiled = self.compiled(self.module)

            def run():
                self.module.zero_grad(set_to_none=True)
                loss = compiled(*self.inputs)
                loss.backward()
                return loss.detach()
        else:
            run = self.step()
        self.run = run

    def load(self) -> None:
        """Imports what the engine needs."""
        if self.name == "ferrite":
            import ferrite.torch  # noqa: F401
        elif self.name == "inductor":
            import torch._inductor.compile_fx  # noqa: F401

    def compiled(self, function):
        return function if self.name == "eager" else torch.compile(function, backend=self.name)

    def step(self):
        optimizer = torch.optim.AdamW(self.module.parameters(), lr=RATE)
        if self.name == "ferrite":
            import ferrite.torch

            step = ferrite.torch.train_step(self.module, lambda model, *batch: model(*batch), optimizer)
            return lambda: step(*self.inputs)
        compiled, change = self.compiled(self.module), self.compiled(optimizer.step)

        def run():
            optimizer.zero_grad(set_to_none=True)
            loss = compiled(*self.inputs)
            loss.backward()
            change()
            return loss.detach()

        return run

    def results(self) -> dict[str, list[torch.Tensor]]:
        """What the first calls give, by the names of TOLERANCE."""
        if self.row.kind == table.INFERENCE:
            return {"outputs": [self.run().clone()]}
        if self.row.kind == table.BACKWARD:
            loss = self.run().clone()
            return {"losses": [loss], "gradients": [one.grad.clone() for one in self.module.parameters()]}
        before = [one.detach().clone() for one in self.module.parameters()]
        losses = [self.run().clone() for _ in range(COMPARED_STEPS)]
        after = [one.detach() for one in self.module.parameters()]
        return {"losses": losses, "changes": [new - old for new, old in zip(after, before, strict=True)]}

    def time(self, repeat: int) -> list[float]:
        """Milliseconds of so many runs."""
        times = []
        for _ in range(repeat):
            start = time.perf_counter()
            self.run()
            times.append((time.perf_counter() - start) * 1000)
        return times


def difference(actual: dict[str, list[torch.Tensor]], expected: dict[str, list[torch.Tensor]]) -> str | None:
    """What makes results wrong; None if they are within the tolerance."""
    for kind, tolerance in TOLERANCE.items():
        for index, (one, other) in enumerate(zip(actual.get(kind, []), expected.get(kind, []), strict=True)):
            if one.shape != other.shape or one.dtype != other.dtype or not one.isfinite().all():
                return f"wrong result: {kind}[{index}] has another type or values that are not finite"
        # All tensors of a kind as one vector: a gradient that is 0 but for rounding has no relative error of its own.
        distance, size = (
            torch.stack([value.double().square().sum() for value in values]).sum().sqrt().item() if values else 0.0
            for values in (
                [one - other for one, other in zip(actual.get(kind, []), expected.get(kind, []), strict=True)],
                expected.get(kind, []),
            )
        )
        if distance > tolerance * size:
            return f"wrong result: {kind} are {distance / size:.2g} of their size away from eager's; {tolerance:g} is allowed"
    return None


def measure_times(names: list[str], row: table.Row, rounds: int, seconds: float) -> dict:
    """{engine: figures}. Who begins moves on by one with every round."""
    engines, entries, reference = {}, {}, None
    for name in sorted(names, key=lambda name: name != "eager"):
        try:
            engine = Engine(name, row)
            results = engine.results()
            wrong = difference(results, reference) if reference else None
            reference = reference or results
            if wrong:
                raise RuntimeError(wrong)
            engines[name] = engine
        except Exception as error:  # noqa: BLE001 a compiler's failure is a figure of the row
            entries[name] = {"error": f"{type(error).__name__}: {str(error).strip()[:600]}"}
    if not engines:
        return entries
    first = next(iter(engines.values()))
    repeat = int(min(200, max(3, seconds * 1000 / statistics.median(first.time(3)))))
    measured: dict[str, list[tuple[float, float]]] = {name: [] for name in engines}
    for number in range(rounds):
        order = list(engines)
        turn = number % len(order)
        for name in order[turn:] + order[:turn]:
            engines[name].time(1)  # the workers of the engine before may still spin
            times = engines[name].time(repeat)
            measured[name].append((statistics.median(times), min(times)))
    for name, values in measured.items():
        medians = [median for median, _ in values]
        entries[name] = {**figures.over_rounds(values), "spread_ms": [min(medians), max(medians)], "repeat": repeat}
    return entries


def resident(field: str) -> float:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) * 1024 / MEGABYTE
    raise RuntimeError(f"/proc/self/status has no {field}")


def measure_call(name: str, row: table.Row) -> dict:
    """Seconds of the first call, and memory of the steps after it."""
    engine = Engine(name, row)
    start = time.perf_counter()
    engine.run()
    first = time.perf_counter() - start
    engine.run()
    Path("/proc/self/clear_refs").write_text("5")  # the largest size begins anew
    for _ in range(3):
        engine.run()
    return {"first_s": round(first, 3), "peak_mb": round(resident("VmHWM") - engine.resident, 1)}


def child(arguments: argparse.Namespace) -> int:
    """Measures one part of one row, and prints it as JSON."""
    sys.path.insert(0, str(arguments.package))
    torch.set_num_threads(arguments.threads)
    (row,) = arguments.rows
    if arguments.child == "times":
        result = measure_times(arguments.engines, row, arguments.rounds, arguments.seconds)
    else:
        result = measure_call(arguments.engines[0], row)
    print(json.dumps(result), flush=True)
    return 0


def run_child(part: str, names: list[str], row: table.Row, arguments: argparse.Namespace, caches: Path) -> dict:
    """RuntimeError where the process fails or is not done in time."""
    command = [sys.executable, __file__, "--child", part, "--engines", ",".join(names), "--rounds", str(arguments.rounds),
               "--seconds", str(arguments.seconds), "--threads", str(arguments.threads), "--package", str(arguments.package),
               row.name]  # fmt: skip
    environment = {
        **os.environ,
        "OMP_NUM_THREADS": str(arguments.threads),
        "TORCHINDUCTOR_CACHE_DIR": str(caches / "inductor"),
        "FERRITE_CACHE": str(caches / "ferrite"),
        "HF_HUB_OFFLINE": "1",
    }
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=arguments.timeout, check=False)
    except subprocess.TimeoutExpired as error:
        raise RuntimeError(f"not done after {arguments.timeout:g} s") from error
    if done.returncode != 0:
        raise RuntimeError(f"exit status {done.returncode}: " + "\n".join(done.stderr.strip().splitlines()[-6:]))
    return json.loads(done.stdout.strip().splitlines()[-1])


def measure(row: table.Row, arguments: argparse.Namespace) -> dict:
    entries: dict[str, dict] = {name: {} for name in arguments.engines}
    with tempfile.TemporaryDirectory(prefix="ferrite-bench-", ignore_cleanup_errors=True) as scratch:
        for name in arguments.engines if "calls" in arguments.parts else []:
            caches = Path(scratch) / name
            try:
                cold = run_child("calls", [name], row, arguments, caches)
                warm = [run_child("calls", [name], row, arguments, caches) for _ in range(arguments.warm)]
                entries[name] |= {"cold_s": cold["first_s"]} | {
                    key: round(statistics.median(one[field] for one in warm), 3) for key, field in WARM.items()
                }
            except RuntimeError as error:
                entries[name]["error"] = str(error)
            shutil.rmtree(caches, ignore_errors=True)
        if "times" in arguments.parts:
            try:
                for name, entry in run_child("times", arguments.engines, row, arguments, Path(scratch) / "times").items():
                    entries[name] |= entry
            except RuntimeError as error:
                for entry in entries.values():
                    entry.setdefault("error", str(error))
    return {"row": row.name, "kind": row.kind, "engines": entries}


def joined(before: dict | None, row: dict, parts: list[str], commit: str) -> dict:
    """A row with the other part's figures of an earlier run. `commit` is that of the times where both are there."""
    commits = {"commit": commit} if "times" in parts else {"calls_commit": commit}
    if before is None or len(parts) == 2:
        return row | commits
    for engine, entry in row["engines"].items():
        before["engines"].setdefault(engine, {}).update(entry)
    return before | commits


def means(rows: list[dict]) -> dict:
    """By kind of row and peer: the geometric mean of peer / Ferrite for times, first calls and memory."""
    result: dict = {}
    for kind in (table.INFERENCE, table.BACKWARD, table.STEP):
        for peer in PEERS:
            for key in ("median_ms", "cold_s", "warm_s", "peak_mb"):
                values = []
                for row in rows:
                    ours, theirs = (row["engines"].get(name, {}).get(key) for name in (figures.FERRITE, peer))
                    if row["kind"] == kind and ours and theirs and ours > 0 and theirs > 0:
                        values.append(theirs / ours)
                if values:
                    mean = {"mean": round(figures.geometric_mean(values), 3), "rows": len(values), "least": round(min(values), 3)}
                    result.setdefault(kind, {}).setdefault(peer, {})[key] = mean
    return result


COLUMNS = {"median_ms": "ms", "spread_ms": "spread", "cold_s": "cold s", "warm_s": "warm s", "peak_mb": "MB"}


def cell(entry: dict, key: str) -> str:
    if key not in entry:
        return "failed" if key == "median_ms" and "error" in entry else ""
    if key == "spread_ms":
        return "-".join(map(figures.significant, entry[key]))
    return f"{entry[key]:.0f}" if key == "peak_mb" else figures.significant(entry[key])


def lines_of(row: dict) -> list[str]:
    """A line of the table for each engine."""
    lines = []
    for name, entry in row["engines"].items():
        ratio = figures.ratio(row, name)
        cells = [cell(entry, key) for key in COLUMNS]
        lines.append(figures.padded([row["row"], ENGINES[name], *cells, f"{ratio:.2f}" if ratio else ""], HEADINGS))
    return lines


HEADINGS = ["row                    ", "engine  ", *COLUMNS.values(), "/ Ferrite"]


def means_text(rows: list[dict]) -> str:
    titles = {"median_ms": "time", "cold_s": "cold first call", "warm_s": "warm first call", "peak_mb": "memory"}
    lines = []
    for kind, peers in means(rows).items():
        for peer, keys in peers.items():
            said = ", ".join(f"{titles[key]} {mean['mean']:.2f} (least {mean['least']:.2f})" for key, mean in keys.items())
            count = max(mean["rows"] for mean in keys.values())
            lines.append(f"{kind}, {ENGINES[peer]} / Ferrite, geometric means of {count} rows: {said}")
    return "\n".join(lines)


def parse() -> argparse.Namespace:
    def names(known: list[str]):
        def read(text: str) -> list[str]:
            given = text.split(",")
            unknown = [name for name in given if name not in known]
            if unknown:
                raise argparse.ArgumentTypeError(f"no such name: {', '.join(unknown)}; known: {', '.join(known)}")
            return [name for name in known if name in given]

        return read

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--package", type=Path, default=ROOT / "build/release/python", help="the folder of the package ferrite")
    parser.add_argument("--engines", type=names(list(ENGINES)), default=list(ENGINES), metavar="NAME,...")
    parser.add_argument("--parts", type=names(["times", "calls"]), default=["times", "calls"], metavar="times,calls")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1.0, help="how long an engine runs in a round, about; 1")
    parser.add_argument("--warm", type=int, default=3, help="processes that measure the first call with caches, and memory; 3")
    parser.add_argument("--timeout", type=float, default=900.0, help="seconds after which a part of a row is given up; 900")
    parser.add_argument("--output", type=Path, help="where the figures go; bench/results/torch-PROCESSOR-N-cores.json")
    parser.add_argument("--add", action="store_true", help="keep the rows of the output's file that are not measured now")
    parser.add_argument("--child", choices=["times", "calls"], help=argparse.SUPPRESS)
    parser.add_argument("rows", nargs="*", metavar="ROW", help=", ".join(row.name for row in table.ROWS))
    arguments = parser.parse_args()
    known = {row.name: row for row in table.ROWS}
    unknown = [name for name in arguments.rows if name not in known]
    if unknown:
        parser.error(f"no such row: {', '.join(unknown)}; known: {', '.join(known)}")
    if arguments.threads < 1 or arguments.rounds < 1 or arguments.seconds <= 0 or arguments.timeout <= 0:
        parser.error("--threads, --rounds, --seconds and --timeout are above 0")
    arguments.whole = not arguments.rows
    arguments.rows = [known[name] for name in arguments.rows] or table.ROWS
    return arguments


def main() -> int:
    arguments = parse()
    if arguments.child:
        return child(arguments)
    every = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, every[: arguments.threads])  # all engines inherit it
    report = {**figures.origin("bench/torch_models.py", [row.name for row in arguments.rows]), "threads": arguments.threads,
              "rounds": arguments.rounds, "torch": torch.__version__}  # fmt: skip
    commit = report["commit"]
    output = arguments.output
    if arguments.whole and not output:
        output = ROOT / "bench/results" / figures.result_name(report["cpu"], report["cores"], "torch")
    measured: dict[str, dict] = {}
    if arguments.add and output and output.is_file():
        before = json.loads(output.read_text())
        measured = {row["row"]: row for row in before["rows"]}
        if "times" not in arguments.parts:  # the other figures are still those of the earlier command
            report |= {key: before[key] for key in ("command", "commit", "rounds")}
    print(figures.padded(HEADINGS, HEADINGS) + "\n|" + " --- | --- |" + " ---: |" * (len(HEADINGS) - 2), flush=True)
    for row in arguments.rows:
        measured[row.name] = joined(measured.get(row.name), measure(row, arguments), arguments.parts, commit)
        print("\n".join(lines_of(measured[row.name])), flush=True)
        if output:
            rows = [measured[known.name] for known in table.ROWS if known.name in measured]
            output.parent.mkdir(parents=True, exist_ok=True)
            output.write_text(json.dumps({**report, "geometric_means": means(rows), "rows": rows}, indent=2) + "\n")
    rows = [measured[row.name] for row in arguments.rows]
    print(f"\n{means_text(rows)}")
    failed = figures.failures(rows)
    for name, engine, error in failed:
        print(f"{name}: {ENGINES[engine]} failed: {error}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
