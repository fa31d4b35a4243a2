#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""How often oneDNN and the code generator win, model by model.

Usage: bench/onednn.py [--threads N] [--rounds N] [--output FILE] [ROW...]

Each model runs three ways, in turn: without the provider, with it by its costs, and with it wherever it can be taken. Kernels are
timed by `ferrite report` (the median over the runs of a round, of which the least counts). A kernel of the one way is compared with those
of the other that compute the same nodes of the model: where the provider takes a part of a group, its rest counts, too.
Needs libdnnl.so.2 and the models of bench/run. Writes bench/results/onednn.json.
"""

import argparse
import html
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "bench"), str(ROOT / "bench/models")]

import figures  # noqa: E402
import rows as table  # noqa: E402

FERRITE = ROOT / "build/release/bin/ferrite"
TIMEOUT_SECONDS = 300
UNITS = {"s": 1e3, "ms": 1.0, "us": 1e-3, "µs": 1e-3, "ns": 1e-6}
KERNEL = re.compile(r'<tr class="first"><td class="n">\d+</td><td class="n">([\d.]+) ([^<\s]+)</td>.*?<td class="name">(.*?)</td>'
                    r'(.*?)(?=<tr class="first">|</tbody>)', re.S)  # fmt: skip
MANIFEST = 'schema = 0\nenable = ["ferrite.onednn"]\n[plugin."ferrite.onednn"]\nconfig = {{ price = {} }}\n'
# Names of ways, and the price that each gives the provider; none where it is not enabled.
WAYS = {"without": None, "by cost": 1.0, "wherever": 0.0}


def read_report(page: str) -> list[dict]:
    """Of each kernel the time of all its launches in a run, who made it, and the nodes of each launch."""
    kernels = []
    for time, unit, name, rest in KERNEL.findall(page):
        launches = re.search(r"<summary>Its launches</summary><pre>(.*?)</pre>", rest, re.S)
        lines = html.unescape(launches[1] if launches else name).splitlines()
        maker = re.search(r"made by ([\w.]+)", rest)
        kernels.append({
            "ms": float(time) * UNITS[unit],
            "by": maker[1] if maker else "",
            "launches": [frozenset(line.split(", ")) for line in lines if line],
        })  # fmt: skip
    return kernels


def measure(row: table.Row, way: str, threads: int, folder: Path) -> list[dict]:
    command = [FERRITE, "report", row.path(), *table.write_inputs(row.inputs(), folder), "--threads", threads,
               "-o", folder / "report.html"]  # fmt: skip
    if WAYS[way] is not None:
        (folder / "ferrite.toml").write_text(MANIFEST.format(WAYS[way]))
        command += ["--manifest", folder / "ferrite.toml"]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"ferrite report: exit status {done.returncode}\n{done.stderr}")
    return read_report((folder / "report.html").read_text())


def least(rounds: list[list[dict]]) -> list[dict]:
    """Each kernel with the least time that it took in a round."""
    kernels: dict = {}
    for kernel in (kernel for kernels_of_round in rounds for kernel in kernels_of_round):
        key = (kernel["by"], frozenset(kernel["launches"]))
        if key not in kernels or kernel["ms"] < kernels[key]["ms"]:
            kernels[key] = kernel
    return list(kernels.values())


def components(ways: list[list[dict]]) -> list[list[list[dict]]]:
    """The launches of some ways in parts that have no node in common; of each part a list for each way."""
    leader: dict[str, str] = {}

    def find(node: str) -> str:
        while leader.setdefault(node, node) != node:
            node = leader[node]
        return node

    launches = [[{"ms": kernel["ms"] / len(kernel["launches"]), "by": kernel["by"], "nodes": nodes}
                 for kernel in way for nodes in kernel["launches"]] for way in ways]  # fmt: skip
    for way in launches:
        for launch in way:
            first, *others = launch["nodes"]
            for node in others:
                leader[find(node)] = find(first)
    parts: dict[str, list[list[dict]]] = {}
    for index, way in enumerate(launches):
        for launch in way:
            parts.setdefault(find(next(iter(launch["nodes"]))), [[] for _ in ways])[index].append(launch)
    return list(parts.values())


def milliseconds(launches: list[dict]) -> float:
    return sum(launch["ms"] for launch in launches)


def is_onednn(launch: dict) -> bool:
    return launch["by"].startswith("onednn")


def compared(row: table.Row, rounds: list[dict[str, list[dict]]]) -> dict:
    """What is told of a row: times of a run, how many launches are oneDNN's, and how many of them were faster than without it."""
    best = {way: least([kernels[way] for kernels in rounds]) for way in WAYS}
    result = {"row": row.name, "ms": {way: round(sum(k["ms"] for k in kernels), 3) for way, kernels in best.items()}}
    taken = {"product": [0, 0], "convolution": [0, 0]}  # faster, of so many
    for without, wherever in components([best["without"], best["wherever"]]):
        ours = [launch for launch in wherever if is_onednn(launch)]
        if not ours or not without:
            continue
        faster = milliseconds(wherever) < milliseconds(without)
        for launch in ours:
            kind = taken["convolution" if ".conv" in launch["by"] else "product"]
            kind[0] += faster
            kind[1] += 1
    chosen = sum(len(k["launches"]) for k in best["by cost"] if k["by"].startswith("onednn"))
    total = sum(len(k["launches"]) for k in best["without"])
    result["launches"] = {"all": total, "offered": sum(of for _, of in taken.values()), "chosen by cost": chosen}
    result["faster"] = {kind: {"onednn": won, "of": of} for kind, (won, of) in taken.items() if of}
    return result


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--output", type=Path, default=ROOT / "bench/results/onednn.json")
    table.add_argument(parser)
    arguments = parser.parse_args()
    results = []
    for row in table.chosen(parser, arguments.rows):
        if not row.path().is_file():
            print(f"{row.name}: the model is not there; bench/run fetches it", file=sys.stderr)
            continue
        with tempfile.TemporaryDirectory() as folder:
            rounds = [{way: measure(row, way, arguments.threads, Path(folder)) for way in WAYS} for _ in range(arguments.rounds)]
        results.append(compared(row, rounds))
        print(json.dumps(results[-1]), flush=True)
    text = {**figures.origin("bench/onednn.py"), "threads": arguments.threads, "rounds": arguments.rounds, "rows": results}
    arguments.output.write_text(json.dumps(text, indent=2) + "\n")
    return 0 if results else 1


if __name__ == "__main__":
    sys.exit(main())
