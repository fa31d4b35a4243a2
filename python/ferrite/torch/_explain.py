# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The account of a model: which nodes were compiled, which run in PyTorch and why."""

from __future__ import annotations

import dataclasses
import os
import pathlib
from collections import Counter
from collections.abc import Callable
from typing import Any

import torch
import torch._functorch.config

from ferrite.torch import _compile
from ferrite.torch._backend import backend


@dataclasses.dataclass
class Explanation:
    """The findings of `explain`.

    graphs: for each graph its kind, number of nodes, programs with their stats, the nodes that run in PyTorch
        since Ferrite cannot compile them ("unsupported") or since PyTorch is to run them ("left"), the bytes
        that a joint graph keeps for its backward pass, and a note.
    streams: for each graph the node streams of its programs, of a joint graph one; the program `ferrite`
        reads them as files, see save().
    """

    graphs: list[dict[str, Any]]
    streams: list[list[bytes]]

    def save(self, folder: str | os.PathLike[str]) -> list[pathlib.Path]:
        """Writes each program's graph into the folder, as graph-0-0.aten (number of graph and of program),
        and returns the files. `ferrite explain FILE`, `ferrite report FILE` and the other commands take
        them."""
        files = []
        for graph, streams in enumerate(self.streams):
            for number, stream in enumerate(streams):
                files.append(pathlib.Path(folder) / f"graph-{graph}-{number}.aten")
                files[-1].write_bytes(stream)
        return files

    def __str__(self) -> str:
        lines = []
        for k, graph in enumerate(self.graphs):
            compiled = graph["nodes"] - len(graph["unsupported"]) - len(graph["left"])
            kernels = sum(program["kernels"] for program in graph["programs"])
            if graph["kind"] == "joint" and not graph["programs"]:
                found = f"{graph['nodes']} nodes"
            else:
                found = (
                    f"{compiled} of {graph['nodes']} nodes compiled to "
                    f"{len(graph['programs'])} programs with {kernels} kernels"
                )
            lines.append(f"graph {k} ({graph['kind']}): {found}")
            if graph["saved_bytes"] is not None:
                lines.append(f"  kept for the backward pass: {graph['saved_bytes']} bytes")
            if graph["note"]:
                lines.append(f"  {graph['note']}")
            outside = [*graph["left"], *graph["unsupported"]]
            counts = Counter((overload, reason) for _, overload, reason in outside)
            for (overload, reason), count in counts.most_common():
                lines.append(f"  in PyTorch: {overload}{f' ({count} nodes)' if count > 1 else ''}: {reason}")
        return "\n".join(lines)


def explain(
    model: Callable[..., Any], *args: Any, options: dict[str, Any] | None = None, **kwargs: Any
) -> Explanation:
    """Compiles the model anew and runs it once on these arguments; tells what became of each graph, also of
    those of the backward pass, which does not run."""
    reports: list[_compile.Report] = []
    _compile.listeners.append(reports.append)
    chosen = {"fallback": "silent", **(options or {})}
    torch._dynamo.reset()
    try:
        # Otherwise a backward graph that PyTorch divides off is compiled when it first runs.
        with torch._functorch.config.patch(force_non_lazy_backward_lowering=True):
            torch.compile(model, backend=backend, options=chosen)(*args, **kwargs)
    finally:
        _compile.listeners.remove(reports.append)
        torch._dynamo.reset()
    return Explanation(
        [
            {
                "kind": report.kind,
                "nodes": report.nodes,
                "programs": [program.stats() for program in report.programs],
                "unsupported": report.unsupported,
                "left": report.left,
                "saved_bytes": report.saved_bytes,
                "note": report.note,
            }
            for report in reports
        ],
        [report.streams for report in reports],
    )
