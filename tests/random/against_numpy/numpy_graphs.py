#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Random graphs, compiled and interpreted, against numpy: a table of what ops mean that shares nothing with Ferrite.

Usage: numpy_graphs.py [--count N] [--seed N] [--library FILE] [--devices a,b] [--keep FOLDER] [--json FILE --commit TEXT]
What is wrong is reduced, and left in a folder of its own as a graph with its inputs and expected results. Graphs run many to a
process; one that ends its process is told by its seed.
"""

import argparse
import collections
import ctypes as c
import json
import os
import re
import select
import signal
import sys
import tempfile
import time
import traceback
from pathlib import Path

import numpy as np
from numpy_families import generate
from numpy_graph import Graph, Source, pruned, with_values_as_source
from numpy_pointwise import OPS
from numpy_values import FLOATS, contiguous, numpy_type, stored, wrong_elements

ROOT = Path(__file__).resolve().parents[3]
SECONDS_A_GRAPH = 60
OPS_AT_LEAST = 60  # of so many ops each run of 100 graphs or more has some
CPU = 1  # DLPack's number


class Device(c.Structure):
    _fields_ = [("kind", c.c_int32), ("number", c.c_int32)]


class DataType(c.Structure):
    _fields_ = [("code", c.c_uint8), ("bits", c.c_uint8), ("lanes", c.c_uint16)]


class Tensor(c.Structure):
    _fields_ = [
        ("data", c.c_void_p),
        ("device", Device),
        ("ndim", c.c_int32),
        ("dtype", DataType),
        ("shape", c.POINTER(c.c_int64)),
        ("strides", c.POINTER(c.c_int64)),
        ("byte_offset", c.c_uint64),
    ]


class SessionOptions(c.Structure):
    _fields_ = [
        ("size", c.c_uint64),
        ("manifest", c.c_char_p),
        ("plugins", c.c_void_p),
        ("plugin_count", c.c_uint64),
        ("device", c.c_char_p),
        ("threads", c.c_int64),
        ("log", c.c_char_p),
        ("profile", c.c_char_p),
        ("safe_mode", c.c_uint32),
        ("reserved", c.c_uint32),
        ("allocator", c.c_void_p),
    ]


class Error(c.Structure):
    _fields_ = [
        ("size", c.c_uint64),
        ("status", c.c_int32),
        ("reserved", c.c_int32),
        ("code", c.c_char_p),
        ("text", c.c_char_p),
        ("where", c.c_char_p),
    ]


class Port(c.Structure):
    _fields_ = [
        ("size", c.c_uint64),
        ("name", c.c_char_p),
        ("dtype_name", c.c_char_p),
        ("dtype", DataType),
        ("rank", c.c_int32),
        ("dims", c.POINTER(c.c_int64)),
        ("dim_names", c.POINTER(c.c_char_p)),
    ]


class Refused(Exception):
    """What Ferrite says instead of results."""


class Session:
    """The embedding API, by ctypes."""

    def __init__(self, library, device, manifest):
        self.api = c.CDLL(str(library))
        self.device, self.handle = device, c.c_void_p()
        options = SessionOptions(
            size=c.sizeof(SessionOptions), device=device.encode(), threads=2, manifest=str(manifest).encode()
        )
        self.call("ferrite_session_open", c.byref(options), c.byref(self.handle))

    def call(self, function, *arguments):
        if getattr(self.api, function)(*arguments) == 0:
            return
        error = Error(size=c.sizeof(Error))
        self.api.ferrite_last_error(c.byref(error))
        raise Refused(f"{error.code.decode()} {error.where.decode()}: {error.text.decode()}")

    def run(self, path, inputs, outputs):
        """`outputs` and the inputs that the graph changes are written in place."""
        model = c.c_void_p()
        self.call("ferrite_model_load", self.handle, str(path).encode(), c.byref(model))
        try:
            given = [self.tensor(model, "input", k, x) for k, x in enumerate(inputs)]
            taken = [self.tensor(model, "output", k, x) for k, x in enumerate(outputs)]
            pointers = [(c.POINTER(Tensor) * len(tensors))(*map(c.pointer, tensors)) for tensors in (given, taken)]
            self.call("ferrite_run", model, pointers[0], c.c_uint64(len(given)), pointers[1], c.c_uint64(len(taken)))
        finally:
            self.api.ferrite_model_free(model)

    def tensor(self, model, which, k, x):
        port = Port(size=c.sizeof(Port))
        self.call(f"ferrite_model_{which}", model, c.c_uint64(k), c.byref(port))
        shape, strides = (
            (c.c_int64 * x.ndim)(*x.shape),
            (c.c_int64 * x.ndim)(*(step // x.itemsize for step in x.strides)),
        )
        tensor = Tensor(x.ctypes.data, Device(CPU, 0), x.ndim, port.dtype, shape, strides, 0)
        tensor.borrowed = (x, shape, strides)
        return tensor


def laid_out(s, number):
    """An input's memory; of those that a run does not change some have strides."""
    if s.mutated_by or s.raw.ndim == 0 or number % 3 != 0:
        return s.raw.copy()
    wide = np.empty((*s.raw.shape[:-1], 2 * s.raw.shape[-1] + 1), s.raw.dtype)
    view = wide[..., 1::2]
    view[...] = s.raw
    return view


def fault_of(session, graph, values, folder):
    """ "" or what is wrong, after what kind of fault it is and where."""
    path = graph.write(folder, values)
    inputs = [laid_out(s, k) for k, s in enumerate(graph.inputs())]
    outputs = [
        np.frombuffer(b"\xff" * stored(values[name]).nbytes, numpy_type(values[name].dtype))
        .reshape(values[name].shape)
        .copy()
        for name in graph.outputs
    ]
    try:
        session.run(path, inputs, outputs)
    except Refused as refused:
        return f"refused on {session.device}: {refused}".replace(str(folder) + "/", "")
    results = list(zip(graph.outputs, outputs, strict=True))
    results += [(s.mutated_by or s.name, x) for s, x in zip(graph.inputs(), inputs, strict=True)]
    for name, got in results:
        wrong = wrong_elements(values[name], got)
        if wrong.any():
            return f"wrong on {session.device}: {name}: {described(values[name], got, wrong)}"
    return ""


def described(value, got, wrong):
    at = tuple(int(k[0]) for k in np.nonzero(wrong))
    bound = (
        f" within {float(value.e[at]):.3g} and {FLOATS[value.dtype].relative:.3g} of it"
        if value.is_float and value.raw is None
        else ""
    )
    want, has = stored(value)[at], got[at]
    bits = f"u{want.dtype.itemsize}"
    return (
        f"{value.dtype}{list(value.shape)}: {int(wrong.sum())} of {wrong.size} elements, first {list(at)}: got {has} ({int(np.asarray(has).view(bits)):#x}), "
        f"want {want} ({int(np.asarray(want).view(bits)):#x}){bound}"
    )


# ---- processes


def in_child(work, seconds):
    """What `work(write)` says, line by line, of a process of its own; then how it ended: "", or why it was ended."""
    ours, theirs = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(ours)
        status = 1
        try:
            work(lambda text: os.write(theirs, (text.replace("\n", " | ") + "\n").encode()))
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    os.close(theirs)
    rest = b""
    late = False
    while True:
        if not select.select([ours], [], [], seconds)[0]:
            late = True
            os.kill(child, signal.SIGKILL)
            break
        if not (chunk := os.read(ours, 65536)):
            break
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            yield line.decode()
    os.close(ours)
    _, status = os.waitpid(child, 0)
    if late:
        yield f"END it takes longer than {seconds} s"
    elif os.WIFSIGNALED(status):
        yield f"END the process ends by {signal.Signals(os.WTERMSIG(status)).name}"
    else:
        yield "END " + ("" if os.WEXITSTATUS(status) == 0 else f"the process ends with status {os.WEXITSTATUS(status)}")


class Tester:
    def __init__(self, options, folder):
        self.options, self.folder = options, folder
        self.manifest = folder / "tests.toml"
        self.manifest.write_text('schema = 0\n[pipeline]\ncache = "off"\ntune = "off"\n')

    def sessions(self):
        return [Session(self.options.library, device, self.manifest) for device in self.options.devices.split(",")]

    def run_seeds(self, seeds, write):
        sessions = self.sessions()
        for seed in seeds:
            write(f"SEED {seed}")
            graph, values = generate(seed)
            known = [values[name] for name in graph.outputs]
            counts = [len(graph.nodes), sum(v.v.size for v in known), sum(int(v.unsure.sum()) for v in known)]
            fault = next(filter(None, (fault_of(session, graph, values, self.folder) for session in sessions)), "")
            write(f"DONE {json.dumps([counts, [node.op for node in graph.nodes], fault])}")

    def fault(self, graph):
        """Of one graph, in a process of its own; nothing where numpy cannot compute it."""

        def work(write):
            try:
                with np.errstate(all="ignore"):
                    values = graph.evaluate()
                    text = graph.text(values)
            except Exception:  # noqa: BLE001  whatever numpy says of operands that do not fit
                return
            del text
            write(f"SEED {0}")
            for session in self.sessions():
                if fault := fault_of(session, graph, values, self.folder):
                    write(f"FAULT {fault}")
                    return

        started, fault = False, ""
        for line in in_child(work, SECONDS_A_GRAPH):
            started = started or line.startswith("SEED")
            if line.startswith("FAULT "):
                fault = line[6:]
            elif line.startswith("END ") and line != "END " and started:
                fault = line[4:]
        return fault


# ---- reduction


def kind_of(fault):
    """What has to stay the same while a graph is reduced."""
    if found := re.match(r"(refused on \w+: \S+)", fault):
        return found.group(1)
    return fault.split(":")[0]


def reductions(graph):
    """Smaller graphs, the smallest first."""
    values = graph.evaluate()
    for name in [r for node in graph.nodes for r in node.results]:
        if graph.outputs != [name]:
            yield pruned(Graph([Source(s.name, s.dtype, s.raw, s.kind) for s in graph.sources], graph.nodes, [name]))
    for k, s in enumerate(graph.sources):
        if s.mutated_by:
            yield pruned(
                Graph(
                    [Source(t.name, t.dtype, t.raw, t.kind, "" if t is s else t.mutated_by) for t in graph.sources],
                    graph.nodes,
                    graph.outputs,
                )
            )
        if s.kind != "input":
            sources = list(graph.sources)
            sources[k] = Source(s.name, s.dtype, s.raw)
            yield Graph(sources, graph.nodes, graph.outputs)
    for node in graph.nodes:
        smaller = with_values_as_source(graph, values, node.results[0])
        if smaller.nodes and smaller.outputs:
            yield smaller
    yield from smaller_sizes(graph)
    yield from plainer_values(graph)


def smaller_sizes(graph):
    """One size exchanged for a smaller one, wherever it stands."""
    sizes = {size for s in graph.sources for size in s.raw.shape} | {
        x for node in graph.nodes for v in node.attrs.values() if isinstance(v, list) for x in v if isinstance(x, int)
    }
    for size in sorted((size for size in sizes if size > 1), reverse=True):
        for new in sorted({1, 2, size // 2, size - 1} - {size}):
            if not 0 < new < size:
                continue
            sources = [
                Source(
                    s.name,
                    s.dtype,
                    contiguous(s.raw[tuple(slice(new) if d == size else slice(None) for d in s.raw.shape)]),
                    s.kind,
                    s.mutated_by,
                )
                for s in graph.sources
            ]
            nodes = [
                type(node)(
                    node.op,
                    node.operands,
                    node.results,
                    {
                        k: [new if x == size else x for x in v] if isinstance(v, list) else v
                        for k, v in node.attrs.items()
                    },
                )
                for node in graph.nodes
            ]
            yield Graph(sources, nodes, graph.outputs)


def plainer_values(graph):
    for k, s in enumerate(graph.sources):
        flat = s.raw.ravel()
        bits = flat.view(f"u{flat.itemsize}")
        parts = [slice(None)] if flat.size else []
        if flat.size > 1:
            parts += [slice(0, flat.size // 2), slice(flat.size // 2, None)]
        if flat.size <= 16:
            parts += [slice(i, i + 1) for i in range(flat.size)]
        for part in parts:
            if not bits[part].any():
                continue
            plain = bits.copy()
            plain[part] = 0
            sources = list(graph.sources)
            sources[k] = Source(s.name, s.dtype, plain.view(flat.dtype).reshape(s.raw.shape), s.kind, s.mutated_by)
            yield Graph(sources, graph.nodes, graph.outputs)


def reduce(tester, graph, fault, seconds):
    kind, end = kind_of(fault), time.monotonic() + seconds
    changed = True
    while changed and time.monotonic() < end:
        changed = False
        for smaller in reductions(graph):
            if time.monotonic() > end:
                break
            found = tester.fault(smaller)
            if found and kind_of(found) == kind:
                graph, fault, changed = smaller, found, True
                break
    return graph, fault


def saved(x):
    """An array of a type that .npy files have: of others the bits."""
    return x if x.dtype.num < 24 else x.view(f"u{x.itemsize}")  # numpy's own types have the lower numbers


def reproduce(graph, fault, seed, folder):
    """graph.fe, its inputs and what is expected, with the command that runs it."""
    folder.mkdir(parents=True, exist_ok=True)
    values = graph.evaluate()
    graph.write(folder, values)
    words = []
    for s in graph.inputs():
        np.save(folder / f"{s.name}.npy", saved(s.raw))
        words.append(f"-i {s.name}={s.name}.npy")
    for name in graph.outputs:
        np.save(folder / f"expected_{name}.npy", saved(stored(values[name])))
    (folder / "README").write_text(
        f"numpy_graphs.py --seed {seed} --count 1\n{fault}\n\nferrite run graph.fe {' '.join(words)}\n"
        "expected_NAME.npy: the results, by numpy; small floats are saved as the integers of their bits.\n"
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1, help="of the first graph; each has the next number")
    parser.add_argument("--library", type=Path, default=ROOT / "build/release/lib/libferrite.so")
    parser.add_argument("--devices", default="cpu,interpreter")
    parser.add_argument(
        "--keep",
        type=Path,
        default=Path(tempfile.gettempdir()) / "ferrite-numpy-graphs",
        help="where reproducers are left",
    )
    parser.add_argument("--reduce", type=float, default=60, help="seconds for each fault")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--commit", default="")
    options = parser.parse_args()

    started = time.monotonic()
    ops, faults, counts = collections.Counter(), {}, np.zeros(3, np.int64)
    with tempfile.TemporaryDirectory(prefix="ferrite-test-") as scratch:
        tester = Tester(options, Path(scratch))
        next_seed, end = options.seed, options.seed + options.count
        while next_seed < end:
            seed, seeds = None, range(next_seed, end)
            done = False
            for line in in_child(lambda write, seeds=seeds: tester.run_seeds(seeds, write), SECONDS_A_GRAPH):
                word, _, rest = line.partition(" ")
                if word == "SEED":
                    seed, done = int(rest), False
                elif word == "DONE":
                    of_graph, of_ops, fault = json.loads(rest)
                    counts += of_graph
                    ops.update(of_ops)
                    done = True
                    if fault:
                        faults[seed] = fault
                elif word == "END" and rest and not done:
                    if seed is None:
                        raise SystemExit(f"no graph was run: {rest}")
                    faults[seed] = rest
            next_seed = seed + 1
        for seed, fault in faults.items():
            print(f"seed {seed}: {fault}", flush=True)
            try:
                graph, fault = reduce(tester, generate(seed)[0], fault, options.reduce)
                reproduce(graph, fault, seed, options.keep / str(seed))
                print(f"  reduced: {fault}\n  {options.keep / str(seed)}\n{graph.text(graph.evaluate())}", flush=True)
            except Exception as error:  # noqa: BLE001  the reference itself does not know this graph
                print(f"  not reduced: {error!r}", flush=True)
    missing = sorted(set(OPS) - set(ops))
    print(
        f"{options.count} graphs from seed {options.seed}: {len(faults)} wrong; {counts[0]} nodes of {len(ops)} ops, {counts[1]} elements "
        f"of results, {100 * counts[2] / max(counts[1], 1):.1f} % of them free, {time.monotonic() - started:.0f} s"
    )
    if missing:
        print(f"without {', '.join(missing)}")
    if options.json:
        crashed = sum(not fault.startswith(("wrong", "refused")) for fault in faults.values())
        counted = {"graphs": options.count, "passed": options.count - len(faults), "failed": len(faults) - crashed}
        of_elements = {"elements": int(counts[1]), "free": int(counts[2]), "ops": dict(sorted(ops.items()))}
        head = {"commit": options.commit, "seed": options.seed, "devices": options.devices}
        options.json.write_text(json.dumps(head | counted | {"crashed": crashed} | of_elements) + "\n")
    few = options.count >= 100 and len(ops) < OPS_AT_LEAST
    if few:
        print(f"fewer than {OPS_AT_LEAST} ops have been drawn")
    return 1 if faults or few else 0


if __name__ == "__main__":
    sys.exit(main())
