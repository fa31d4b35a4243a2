#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes the figures of README.md and docs/performance.md from bench/results: tables, and the picture of speed.

Usage: pages.py [--check]
A page has a table between the lines `<!-- figures: NAME -->` and `<!-- figures: end -->`; TABLES has the names. With --check
nothing is written, and the exit status is 1 where a page or the picture differs from the figures.
"""

import argparse
import json
import re
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterable
from pathlib import Path

import figures

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "bench" / "results"
PAGES = [ROOT / "README.md", ROOT / "docs" / "performance.md"]
PICTURE = ROOT / "docs" / "pictures" / "speed.py"

# The files of machines, and what the pages call these; the first is the machine of the README.
MACHINES = {
    "cpu-intel-xeon-family-6-model-167-2-cores.json": "Intel Xeon (family 6, model 167)",
    "cpu-intel-xeon-family-6-model-207-2-cores.json": "Intel Xeon (Emerald Rapids)",
    "cpu-amd-epyc-family-26-model-2-2-cores.json": "AMD EPYC (Zen 5)",
    "cpu-amd-epyc-2-cores-zen-4.json": "AMD EPYC (Zen 4)",
    "cpu-amd-epyc-family-25-model-1-2-cores.json": "AMD EPYC (Zen 3, AVX2)",
}
KERNELS = {
    "cpu-kernels-intel-xeon-family-6-model-167-2-cores.json": "Xeon, model 167",
    "cpu-kernels-intel-xeon-family-6-model-207-2-cores.json": "Emerald Rapids",
    "cpu-kernels-16-cores.json": "Emerald Rapids, 2 of 16 cores",
    "cpu-kernels-amd-epyc-family-26-model-2-2-cores.json": "Zen 5",
    "cpu-kernels-zen-4.json": "Zen 4",
    "cpu-kernels-amd-epyc-family-25-model-1-2-cores.json": "Zen 3",
}
TORCH_MODELS, TORCH_MACHINE = "torch-amd-epyc-family-25-model-1-2-cores.json", "AMD EPYC (Zen 3, AVX2)"
MODELS_OF_README = next(iter(MACHINES))
# Rows of KERNELS that a file of its own has anew.
NEWER_ROWS = {"cpu-kernels-zen-4.json": "cpu-kernels-few-rows.json"}
MODEL_TITLES = {
    "resnet50": "ResNet-50",
    "resnet50-bf16": "ResNet-50, bf16",
    "bert-base-1x128": "BERT base, 1 x 128",
    "bert-base-1x128-bf16": "BERT base, 1 x 128, bf16",
}
SHAPES = {
    "blocks": "layers of a residual network",
    "layers": "transformer layers",
    "steps": "steps of an optimiser",
    "chain": "a chain of element-wise operations",
    "wide": "many chains that read one input",
    "random": "random operations, none alike",
    "parts": "concatenations of many parts",
}


def read(name: str) -> dict:
    return json.loads((RESULTS / name).read_text(encoding="utf-8"))


def title(machine: str) -> str:
    return f"{MACHINES[machine]}, {read(machine)['cores']} cores"


def wrapped(text: str) -> str:
    """Lines of a paragraph; links and code stay whole."""
    kept = re.sub(r"`[^`]*`|\[[^\]]*\]\([^)]*\)", lambda link: link[0].replace(" ", "\0"), text)
    return textwrap.fill(kept, figures.LINE, break_on_hyphens=False, break_long_words=False).replace("\0", " ")


def table(head: list[str], rows: Iterable[list[str]], left: int = 1) -> str:
    """Markdown; the first `left` columns are words, the others numbers."""
    rule = ["---"] * left + ["---:"] * (len(head) - left)
    return "\n".join("| " + " | ".join(cells) + " |" for cells in [head, rule, *rows])


def source(name: str, report: dict) -> str:
    """How the figures of a file were made."""
    command = report["command"].replace(" --write-readme", "")  # an option that changes no figure
    rows = report.get("rows", [])
    commits = dict.fromkeys([*(row["commit"] for row in rows if isinstance(row, dict) and "commit" in row), report["commit"]])
    calls = dict.fromkeys(row["calls_commit"] for row in rows if isinstance(row, dict) and "calls_commit" in row)
    word = "Commit" if len(commits) == 1 else "Commits of the rows"
    also = f", of later first calls and memory {listed(calls)}" if calls else ""
    return f"{word} {listed(commits)}{also}, `{command}`, [all figures](../bench/results/{name})."


def listed(commits: Iterable[str]) -> str:
    *first, last = (f"`{one}`" for one in commits)
    return " and ".join(filter(None, [", ".join(first), last]))


def models_of_readme() -> str:
    report = read(MODELS_OF_README)
    peers = report["peers"]
    head = ["model", *(figures.TITLES[name] for name in [figures.FERRITE, *peers]), figures.RATIO]
    versions = ", ".join(f"{figures.TITLES[name]} {report['versions'][name]}" for name in [figures.FERRITE, *peers])
    intro = (
        f"Median time of a run in ms, f32, {report['threads']} threads, {title(MODELS_OF_README)}, without tuning: {versions}."
    )
    rows = [figures.cells(row, peers)[: len(head)] for row in report["rows"]]
    return f"{wrapped(intro)}\n\n{table(head, rows)}\n\n{wrapped(figures.means_text(report['rows']))}"


def models(name: str) -> str:
    report = read(name)
    return f"{figures.markdown(report)}\n{wrapped(source(name, report))}"


def summary() -> str:
    rows = []
    for name in MACHINES:
        report = read(name)
        means = figures.geometric_means(report["rows"])
        slowest = min((row for row in report["rows"] if figures.best_ratio(row)), key=figures.best_ratio)
        rows.append([f"{title(name)}", f"`{report['commit']}`", *(f"{means[peer]['mean']:.2f}" for peer in [*figures.PEERS, "best"]),
                     f"{means['best']['least']:.2f}, {slowest['row']}"])  # fmt: skip
    head = ["machine", "commit", *(figures.TITLES[peer] for peer in figures.PEERS), "the fastest other", "its lowest ratio, and the model"]
    return table(head, rows, 2)


def threads() -> str:
    name = "cpu-threads.json"
    report = read(name)
    counts = sorted({row["threads"] for row in report["rows"]})
    rows, notes = [], []
    for model in dict.fromkeys(row["row"] for row in report["rows"]):
        for engine in [figures.FERRITE, "torch"]:
            cells = []
            for count in counts:
                found = next(row for row in report["rows"] if row["row"] == model and row["threads"] == count)["engines"][engine]
                cells.append(figures.significant(found["median_ms"]))
                if found["median_ms"] > 2 * found["min_ms"]:
                    notes.append(f"The times of {figures.TITLES[engine]} for {MODEL_TITLES[model]} with {count} threads vary: the median is "
                                 f"{figures.significant(found['median_ms'])} ms, and the fastest run took "
                                 f"{figures.significant(found['min_ms'])} ms.")  # fmt: skip
            rows.append([MODEL_TITLES[model], figures.TITLES[engine], *cells])
    machine = f"Median time of a run in ms by the number of threads, on {report['cores']} cores of an Intel Xeon (Emerald Rapids) with AMX"
    intro = f"{machine}; {figures.TITLES['torch']} of that machine's PyTorch, {report['versions']['torch']}."
    head = ["model", "engine", *(f"{count} thread" + "s" * (count > 1) for count in counts)]
    return "\n\n".join([wrapped(intro), table(head, rows, 2), wrapped(" ".join([*notes, source(name, report)]))])


def torch_models() -> str:
    report = read(TORCH_MODELS)
    kinds = {"inference": "forward pass", "backward": "forward and backward pass", "step": "training step"}
    pairs = {"cold_s": "cold", "warm_s": "warm", "peak_mb": "memory"}  # of Inductor and Ferrite
    measured = [key for key in pairs if any(key in engine for row in report["rows"] for engine in row["engines"].values())]

    def pair(row: dict, key: str) -> str:
        values = [row["engines"][engine].get(key) for engine in ("inductor", figures.FERRITE)]
        if None in values:
            return ""
        return ", ".join(f"{value:.0f}" if key == "peak_mb" else figures.significant(value) for value in values)

    rows = []
    for row in report["rows"]:
        times = {engine: entry["median_ms"] for engine, entry in row["engines"].items()}
        rows.append([row["row"], kinds[row["kind"]], *(figures.significant(times[name]) for name in ("eager", "inductor", figures.FERRITE)),
                     f"{times['inductor'] / times[figures.FERRITE]:.2f}", *(pair(row, key) for key in measured)])  # fmt: skip
    means = []
    for kind, peers in report["geometric_means"].items():
        mean = peers["inductor"]["median_ms"]
        means.append(f"{kinds[kind]} {mean['mean']:.2f} ({mean['rows']} model{'s' * (mean['rows'] > 1)}, least {mean['least']:.2f})")
    intro = (
        f"Median time of a call in ms, f32, {report['threads']} threads, {report['cores']} cores of an {TORCH_MACHINE}; PyTorch "
        f"{report['torch'].split('+')[0]}."
    )
    if measured:
        intro += (
            " First calls, in seconds, and memory, in MB, are those of Inductor and of Ferrite: `cold` without any cache, `warm` in a second "
            "process. Memory is the largest resident size in three steps, without that of model and data. Empty cells were not measured."
        )
    head = ["row", "measured", "eager", "Inductor", "Ferrite", "Inductor / Ferrite", *(pairs[key] for key in measured)]
    notes = f"Geometric means of Inductor / Ferrite: {'; '.join(means)}. {source(TORCH_MODELS, report)}"
    return "\n\n".join([wrapped(intro), table(head, rows, 2), wrapped(notes)])


def cross_entropy() -> str:
    name = "cross_entropy.json"
    report = read(name)
    rows = [[figures.TITLES[engine], f"{report[f'{key}_ms'] / 1000:.2f}", f"{report[f'{key}_peak_mb'] / 1000:.2f}"]
            for engine, key in [(figures.FERRITE, "ferrite"), ("torch", "torch")]]  # fmt: skip
    what = (
        f"A linear layer of {report['width']} to {report['columns']:,} with cross entropy over {report['tokens']:,} tokens, forward and "
        f"backward, f32, {report['threads']} threads, {title(MODELS_OF_README)}; PyTorch Inductor {report['torch'].split('+')[0]}."
    )
    return "\n\n".join([wrapped(what), table(["engine", "seconds", "peak memory, GB"], rows), wrapped(source(name, report))])


def kernels() -> str:
    reports = {name: read(name) for name in KERNELS}
    shares: dict[tuple[str, int], dict[str, dict[str, float]]] = {}  # kernel and threads -> what was timed -> file -> share of the floor
    goals: dict[tuple[str, int], float | None] = {}
    for name, report in reports.items():
        newer = {row["row"]: row for row in read(NEWER_ROWS[name])["rows"]} if name in NEWER_ROWS else {}
        for row in (newer.get(row["row"], row) for row in report["rows"]):
            kernel = row["row"].replace("_", " "), row["threads"]
            goals[kernel] = goals.get(kernel) or row["goal"]
            timed = shares.setdefault(kernel, {"": {}, ", by hand": {}, ", accesses alone": {}})
            floor = row["of_floor"] * row["best_ms"]
            for words, key in (("", "best_ms"), (", by hand", "best_hand_ms"), (", accesses alone", "best_accesses_ms")):
                if key in row:
                    timed[words][name] = floor / row[key]
    rows = []
    for kernel, timed in shares.items():
        for words, by_file in timed.items():
            if by_file:
                cells = [f"{by_file[name]:.2f}" if name in by_file else "" for name in KERNELS]
                rows.append([kernel[0] + words, str(kernel[1]), *cells, f"{goals[kernel]:.2f}" if not words and goals[kernel] else ""])
    head = ["kernel", "threads", *KERNELS.values(), "goal"]
    states = "; ".join(
        f"{words} `{reports[name]['commit']}`"
        + (f", rows from gemv to small m packed `{read(NEWER_ROWS[name])['commit']}`" if name in NEWER_ROWS else "")
        + f" ([figures](../bench/results/{name}))"
        for name, words in KERNELS.items()
    )
    return f"{table(head, rows)}\n\n{wrapped(f'Commits: {states}.')}"


def gpu_rows(own: bool) -> dict[str, tuple[str, dict]]:
    """Row -> (commit, figures) of the first run that has it, with the code generator alone or with libraries."""
    rows: dict[str, tuple[str, dict]] = {}
    for run in read("gpu.json")["runs"]:
        if ("own.toml" in run["command"]) == own:
            for name, row in run.get("rows", {}).items():
                rows.setdefault(name, (run["commit"], row))
    return rows


def gpu() -> str:
    report, libraries, alone = read("gpu.json"), gpu_rows(False), gpu_rows(True)
    rows, modes, states = [], {"default": [], "max-autotune": []}, {}
    for name, (commit, row) in libraries.items():
        rows.append([name, figures.significant(row["ferrite"]),
                     figures.significant(alone[name][1]["ferrite"]) if name in alone else "",
                     f"{figures.significant(row[row['best']])} ({row['best']})", f"{row['ratio']:.2f}", f"{row['compile_ms']:.0f}"])  # fmt: skip
        for mode, missing in modes.items():
            if mode not in row:
                missing.append(name)
        states.setdefault(commit, []).append(name)
        if name in alone:
            states.setdefault(alone[name][0], []).append(f"{name} without libraries")
    main = max(states, key=lambda commit: len(states[commit]))
    others = "; ".join(f"`{commit}` {', '.join(names)}" for commit, names in states.items() if commit != main)
    intro = (
        f"Median time of a run in ms on an {report['device']}, all tensors in its memory. That machine's PyTorch, {report['torch'].split('+')[0]}, runs in the "
        "mode that is named, the fastest of those measured. `Ferrite` has cuBLASLt and cuDNN enabled, `own code` only its code "
        "generator; rows without `own code` were only measured with the libraries. `cold` is the time to compile in ms, without "
        "any cache, the driver's included."
    )
    head = ["row", "Ferrite", "own code", "PyTorch", "PyTorch / Ferrite", "cold"]
    unmeasured = " ".join(f"`{mode}` was not measured for {', '.join(names)}." for mode, names in modes.items() if names)
    notes = f"{unmeasured} Commits: `{main}`; {others}. Commands and all figures: [gpu.json](../bench/results/gpu.json)."
    return "\n\n".join([wrapped(intro), table(head, rows), wrapped(notes)])


def gpu_memory() -> str:
    commit, row = gpu_rows(False)["cross-entropy"]
    engines = [("Ferrite", "ferrite"), *((f"PyTorch, {mode}", mode) for mode in ("eager", "default", "max-autotune"))]
    rows = [[words, figures.significant(row[key]), f"{row[f'{key}_used_bytes'] / 1e9:.2f}"] for words, key in engines]
    intro = f"The row cross-entropy: time, and memory of the device in use during the run (commit `{commit}`)."
    return f"{wrapped(intro)}\n\n{table(['engine', 'ms', 'GB in use'], rows)}"


def gpu_models() -> str:
    report, host = read("cuda-models.json"), read("cuda-host.json")
    names = sorted({row["row"] for run in report["runs"] for row in run["rows"]})
    equal = all(row["equal"] for run in report["runs"] for row in run["rows"])
    times = [run["host_us_median"] for run in host["runs"]]
    text = (
        f"The results of {'all' if equal else 'not all'} {len(names)} models on `cuda:0` agree with the CPU, with the libraries and without: "
        f"`{report['tolerance'].split(' for ')[0]}` for every element ([cuda-models.json](../bench/results/cuda-models.json)). "
        "A replayed run of BERT base, f32 with 128 tokens, "
        f"takes the host {min(times):.1f} to {max(times):.1f} microseconds beyond the driver's own calls "
        "([cuda-host.json](../bench/results/cuda-host.json))."
    )
    return wrapped(text)


def scale() -> str:
    name = "scale.json"
    report = read(name)
    counts = [row["nodes"] for row in next(iter(report["graphs"].values()))["rows"]]
    rows = []
    for shape, words in SHAPES.items():
        by_nodes = {row["nodes"]: row for row in report["graphs"][shape]["rows"]}
        rows.append([words, *(f"{by_nodes[count]['compile_s']:.2f}" for count in counts), f"{by_nodes[counts[-1]]['unique_kernels']:,}"])
    intro = f"Seconds to compile a graph, cold, by its number of nodes; {report['threads']} threads, {title(MODELS_OF_README)}."
    head = ["graph", *(f"{count:,}" for count in counts), f"different kernels of {counts[-1]:,}"]
    return "\n\n".join([wrapped(intro), table(head, rows), wrapped(source(name, report))])


def tuning() -> str:
    name = "tuning.json"
    report = read(name)
    gains = {row: figures_of["distance"] for row, figures_of in report["rows"].items()}
    best = max(gains, key=gains.get)
    text = (
        f"A search of at most {report['seconds']:.0f} s for each model makes a run {100 * (report['geometric_mean'] - 1):.1f} % faster in "
        f"geometric mean over {len(gains)} models, {100 * (gains[best] - 1):.0f} % at most ({best}); {title(MODELS_OF_README)}."
    )
    return f"{wrapped(text)}\n\n{wrapped(source(name, report))}"


TABLES: dict[str, Callable[[], str]] = {
    "models of the README": models_of_readme,
    "summary": summary,
    **{f"models, {words}": lambda name=name: models(name) for name, words in MACHINES.items()},
    "threads": threads,
    "torch models": torch_models,
    "cross entropy": cross_entropy,
    "kernels": kernels,
    "gpu": gpu,
    "gpu memory": gpu_memory,
    "gpu models": gpu_models,
    "scale": scale,
    "tuning": tuning,
}


def update(check: bool) -> list[str]:
    """Writes the pages and the picture; with `check`, names those that differ and writes nothing."""
    stale = []
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        filled = figures.filled(text, TABLES)
        if filled != text:
            stale.append(page.name)
            if not check:
                page.write_text(filled, encoding="utf-8")
    done = subprocess.run([sys.executable, PICTURE, *(["--check"] if check else [])], check=False, capture_output=True)
    if done.returncode != 0:
        stale.append(PICTURE.with_suffix(".svg").name)
    return stale


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing; exit status 1 where a page differs from the figures")
    check = parser.parse_args().check
    stale = update(check)
    for name in stale if check else []:
        print(f"{name} differs from bench/results; bench/pages.py writes it")
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
