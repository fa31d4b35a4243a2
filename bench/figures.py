# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What bench/run makes of times: figures of a row, ratios, geometric means, the table, names of machines and files.

A row is {"row": name, "engines": {engine: figures}}; figures are {"median_ms", "min_ms", ...} or {"error": text}. An
engine that a row is not for is not in it. Ratios are peer / Ferrite: above 1, Ferrite is faster.
"""

import math
import os
import platform
import re
import shlex
import statistics
import subprocess
import sys
import textwrap
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

FERRITE = "ferrite"
TITLES = {FERRITE: "Ferrite", "onnxruntime": "ONNX Runtime", "openvino": "OpenVINO", "torch": "PyTorch Inductor"}
PEERS = [name for name in TITLES if name != FERRITE]
TABLE = re.compile(r"(<!-- figures: (?!end )(.*?) -->\n)(.*?)(<!-- figures: end -->)", re.DOTALL)
LINE = 110
RATIO = "fastest / Ferrite"
PAGES = (":!README.md", ":!docs/performance.md", ":!docs/pictures/speed.svg")  # what figures are written into


def over_rounds(rounds: list[tuple[float, float]]) -> dict:
    """(median, minimum) of each round: the median of the medians and the least of the minima."""
    return {
        "median_ms": statistics.median(median for median, _ in rounds),
        "min_ms": min(least for _, least in rounds),
    }


def ratio(row: dict, peer: str) -> float | None:
    """How many times as long as Ferrite's a run of the peer takes; None unless both were timed."""
    ours, theirs = (row["engines"].get(name, {}).get("median_ms") for name in (FERRITE, peer))
    return theirs / ours if ours and theirs else None


def best_peer(row: dict) -> str | None:
    """The fastest peer of the row, of those that were timed."""
    times = {name: row["engines"].get(name, {}).get("median_ms") for name in PEERS}
    return min((name for name in PEERS if times[name]), key=lambda name: times[name], default=None)


def best_ratio(row: dict) -> float | None:
    peer = best_peer(row)
    return ratio(row, peer) if peer else None


def geometric_mean(values: list[float]) -> float:
    return math.exp(math.fsum(math.log(value) for value in values) / len(values))


def geometric_means(rows: list[dict]) -> dict:
    """By peer, and as "best" over each row's fastest: the mean ratio, over how many rows, and the smallest of them."""
    means = {}
    for name, of in [*((peer, lambda row, peer=peer: ratio(row, peer)) for peer in PEERS), ("best", best_ratio)]:
        values = [value for value in map(of, rows) if value is not None]
        if values:
            means[name] = {"mean": geometric_mean(values), "rows": len(values), "least": min(values)}
    return means


def failures(rows: list[dict]) -> list[tuple[str, str, str]]:
    """(row, engine, what went wrong), in the order of the rows."""
    return [
        (row["row"], engine, figures["error"])
        for row in rows
        for engine, figures in row["engines"].items()
        if "error" in figures
    ]


def significant(value: float) -> str:
    """Three digits: 0.123, 1.23, 12.3, 123, 1234."""
    digits = 2 - math.floor(math.log10(value)) if value > 0 else 0
    return f"{value:.{min(3, max(0, digits))}f}"


def cells(row: dict, peers: list[str]) -> list[str]:
    ours = row["engines"][FERRITE]
    texts = [row["row"]]
    for name in [FERRITE, *peers]:
        figures = row["engines"].get(name)
        texts.append("" if figures is None else "failed" if "error" in figures else significant(figures["median_ms"]))
    best = best_ratio(row)
    texts.append("" if best is None else f"{best:.2f}")
    for key in ("compile_ms", "warm_compile_ms", "init_ms", "kernels"):
        texts.append(f"{ours[key]:.0f}" if key in ours else "")
    return texts


def padded(texts: list[str], headings: list[str]) -> str:
    widths = [max(19, len(headings[0])), *(max(6, len(heading)) for heading in headings[1:])]
    first, *rest = zip(texts, widths, strict=True)
    return "| " + " | ".join([first[0].ljust(first[1]), *(text.rjust(width) for text, width in rest)]) + " |"


def heading(peers: list[str]) -> list[str]:
    ours = [RATIO, "cold", "warm", "init", "kernels"]
    return ["model", *(TITLES[name] for name in [FERRITE, *peers]), *ours]


def table_head(peers: list[str]) -> str:
    headings = heading(peers)
    return padded(headings, headings) + "\n|" + " --- |" + " ---: |" * (len(headings) - 1)


def table_line(row: dict, peers: list[str]) -> str:
    return padded(cells(row, peers), heading(peers))


def means_text(rows: list[dict]) -> str:
    means = geometric_means(rows)
    if not means:
        return "No row has a time of both Ferrite and a peer."
    parts = [
        f"{'the fastest other' if name == 'best' else TITLES[name]} {figures['mean']:.2f} "
        f"({figures['rows']} models, least {figures['least']:.2f})"
        for name, figures in means.items()
    ]
    return f"Geometric means of time / Ferrite's time: {', '.join(parts)}."


def markdown(report: dict) -> str:
    """The table of a report, and how to read it."""
    versions = ", ".join(f"{TITLES[name]} {version}" for name, version in report["versions"].items())
    intro = (
        f"Median time of a run in ms, f32, {report['threads']} threads on {report['cpu']} ({report['cores']} cores), all "
        f"engines in turns: {versions}. Ferrite's `cold` and `warm` are the times to compile in ms, without its cache and "
        "from it; `init` is the time to pack weights at load."
    )
    lines = [table_head(report["peers"]), *(table_line(row, report["peers"]) for row in report["rows"])]
    wrapped = [textwrap.fill(text, LINE, break_on_hyphens=False) for text in (intro, means_text(report["rows"]))]
    return f"{wrapped[0]}\n\n" + "\n".join(lines) + f"\n\n{wrapped[1]}\n"


def filled(text: str, tables: Mapping[str, Callable[[], str]]) -> str:
    """A page with its tables made anew, each between `<!-- figures: NAME -->` and `<!-- figures: end -->`; ValueError where
    a name is not among the tables or a mark has no partner."""

    def fill(found: re.Match) -> str:
        if found[2] not in tables or "<!-- figures:" in found[3]:
            raise ValueError(f"'{found[1].strip()}': no such table, or its end is missing")
        return f"{found[1]}{tables[found[2]]()}\n{found[4]}"

    if text.count("<!-- figures:") != 2 * len(TABLE.findall(text)):
        raise ValueError("a line '<!-- figures: NAME -->' or '<!-- figures: end -->' has no partner")
    return TABLE.sub(fill, text)


def command(script: str, rows: Sequence[str] = ()) -> str:
    """The command that this process runs, without what changes no figure: where the results go and, where it adds rows
    to those that are known, the names of these rows."""
    words = [word for word in sys.argv[1:] if word != "--add" and ("--add" not in sys.argv or word not in rows)]
    if "--output" in words:
        del words[words.index("--output") : words.index("--output") + 2]
    return shlex.join([script, *words])


def origin(script: str, rows: Sequence[str] = ()) -> dict:
    """What every file of results begins with: the command, the commit ("-dirty" where a file differs from it that holds
    no figures) and the machine. rows: see command()."""

    def git(*arguments: str) -> subprocess.CompletedProcess:
        return subprocess.run(["git", *arguments], cwd=Path(__file__).parents[1], capture_output=True, text=True, check=False)

    commit = git("describe", "--always").stdout.strip() or "unknown"
    if git("diff", "--quiet", "HEAD", "--", ".", *PAGES, ":!bench/results").returncode == 1:
        commit += "-dirty"
    return {"command": command(script, rows), "commit": commit, "cpu": cpu_name(),
            "cores": len(os.sched_getaffinity(0))}  # fmt: skip


def cpu_name() -> str:
    """The processor's name, on x86 with its family and model, which tell virtual machines of one name apart."""
    said = dict(
        (part.strip() for part in line.split(":", 1)) for line in Path("/proc/cpuinfo").read_text().split("\n\n", 1)[0].splitlines() if ":" in line
    )
    if "model name" not in said:
        return platform.machine()
    name = plain_cpu(said["model name"])
    return f"{name}, family {said['cpu family']}, model {said['model']}" if {"cpu family", "model"} <= said.keys() else name


def plain_cpu(name: str) -> str:
    """A processor's name without marks and frequency: "Intel(R) Xeon(R) CPU @ 2.00GHz" is "Intel Xeon CPU"."""
    return " ".join(re.sub(r"\((R|TM|C)\)|@.*", " ", name, flags=re.IGNORECASE).split())


def result_name(cpu: str, cores: int, of: str = "cpu") -> str:
    """The file name of a machine's results: cpu-intel-xeon-family-6-model-143-2-cores.json."""
    slug = re.sub(r"[^a-z0-9]+", "-", plain_cpu(cpu).lower()).strip("-")
    return f"{of}-{re.sub(r'-(cpu|processor)(?=-family|$)', '', slug)}-{cores}-cores.json"


def choose_cpus(threads: int, core_of: dict[int, str]) -> list[int]:
    """As many processors as threads, of number -> its core: each on a core of its own while there are any."""
    first: dict[str, int] = {}
    for cpu in sorted(core_of):
        first.setdefault(core_of[cpu], cpu)
    alone = sorted(first.values())
    return (alone + [cpu for cpu in sorted(core_of) if cpu not in alone])[:threads]
