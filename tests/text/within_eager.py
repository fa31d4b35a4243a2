#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The memory plan of a graph needs no more than op-by-op execution would, and the stated slack.

Usage: within_eager.py FERRITE MODEL [--random COUNT --seed N RANDOM_GRAPHS]
Op by op each statement of `lower` has its result in memory of its own, from when it is made until nothing reads it any
more; reshape, transpose, expand, slice and split are views there and cost nothing. Results of the graph are not counted,
here or there. The slack is 64 bytes a buffer, which is what they are aligned to, and 1 KiB. A plan has the workspaces of
kernels too; for these there may be 1 MiB more for each worker, while what lives beside them holds to the same bound.
With --random the graphs are those that RANDOM_GRAPHS prints, and MODEL is left out.
"""

import re
import subprocess
import sys
import tempfile
from pathlib import Path

BITS = {"bool": 8, "f64": 64, "f32": 32, "f16": 16, "bf16": 16, "i64": 64, "i32": 32, "i16": 16, "i8": 8,
        "u64": 64, "u32": 32, "u16": 16, "u8": 8, "f8e4m3": 8, "f8e5m2": 8, "f8e4m3fnuz": 8, "f8e5m2fnuz": 8}  # fmt: skip
BUFFER = re.compile(r"^buffer @(\d+) : (\w+)\[([^\]]*)\] (\w+)")
VIEWS = re.compile(r"\((?:reshape|transpose|expand|slice|split) %\d+\) \{$")
PLANNED = re.compile(r"^  @\d+ offset (\d+) bytes (\d+) groups (\d+) to (\d+)$")
WORKSPACE = re.compile(r"^  workspace offset (\d+) bytes (\d+) workers (\d+) groups (\d+) to (\d+)$")
PACKED = re.compile(r"^  packed offset (\d+) bytes (\d+) groups (\d+) to (\d+)$")
ACCESS = re.compile(r"@(\d+)(?:\.\d+)?\[")


def stage(ferrite, model, name):
    done = subprocess.run([ferrite, "opt", model, "--to", name], capture_output=True, text=True, check=True)
    return done.stdout


def op_by_op(text):
    """The most bytes that live at a time."""
    bytes_of, role, statements, current = {}, {}, [], None
    for line in text.splitlines():
        if found := BUFFER.match(line):
            number, dtype, dims, kind = found.groups()
            count = 1
            for dim in filter(None, dims.split(",")):
                count *= int(dim)
            bytes_of[number], role[number] = count * BITS[dtype] // 8, kind
        elif line.endswith("{"):
            current = (set(), set(), bool(VIEWS.search(line)))
            statements.append(current)
        elif current and (" load " in line or line.strip().startswith("store ")):
            storage = ACCESS.search(line).group(1)
            current[1 if line.strip().startswith("store ") else 0].add(storage)
    root = {}
    for reads, writes, view in statements:
        if view and len(reads) == len(writes) == 1:
            (source,), (target,) = reads, writes
            root[target] = root.get(source, source)
    lives = {}
    for number, (reads, writes, _) in enumerate(statements):
        for storage in reads | writes:
            storage = root.get(storage, storage)
            if role[storage] == "temporary":
                first, _ = lives.get(storage, (number, number))
                lives[storage] = (first, number)
    most = 0
    for number in range(len(statements)):
        most = max(most, sum(bytes_of[s] for s, (first, last) in lives.items() if first <= number <= last))
    return most


def check(ferrite, model):
    """What is wrong; empty where nothing is."""
    listing = stage(ferrite, model, "emit")
    plan = listing[listing.index("\nplan ") + 1 :].splitlines()
    planned, eager = int(plan[0].split()[1]), op_by_op(stage(ferrite, model, "lower"))
    buffers = [tuple(map(int, found.groups())) for line in plan if (found := PLANNED.match(line))]
    workspaces = [tuple(map(int, found.groups())) for line in plan if (found := WORKSPACE.match(line))]
    packed = [tuple(map(int, found.groups())) for line in plan if (found := PACKED.match(line))]
    assert len(buffers) + len(workspaces) + len(packed) == len(plan) - 2, plan
    # An operand that is packed before a launch may be in the plan beyond the limit.
    slack = 64 * (len(buffers) + len(packed)) + 1024 + max((size for _, size, *_ in packed), default=0)
    wrong = []
    if workspaces:
        ends = [offset + size for offset, size, _, _ in buffers]
        ends += [offset + size * workers for offset, size, workers, _, _ in workspaces]
        ends += [offset + size for offset, size, *_ in packed]
        if max(ends) > planned:
            wrong.append(f"something ends at {max(ends)}, behind the plan of {planned} bytes")
        groups = range(max(last for *_, last in buffers + workspaces + packed) + 1)
        live = max(sum(size for _, size, first, last in buffers if first <= group <= last) for group in groups)
        if live > eager + slack:
            wrong.append(f"{live} bytes live, {eager} op by op")
        slack += workspaces[0][2] << 20
    if planned > eager + slack:
        wrong.append(f"{planned} bytes planned, {eager} op by op")
    return "; ".join(wrong)


def main():
    ferrite, *words = sys.argv[1:]
    if words[0] != "--random":
        wrong = check(ferrite, words[0])
        print(wrong or "within")
        return 1 if wrong else 0
    count, seed, program = int(words[1]), int(words[3]), words[4]
    failed = 0
    with tempfile.TemporaryDirectory(prefix="ferrite-eager-") as scratch:
        model = Path(scratch) / "graph.fe"
        for number in range(seed, seed + count):
            command = [program, "--print", "--count", "1", "--seed", str(number)]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            model.write_text(done.stdout[done.stdout.index("ferrite graph 0") :])
            if wrong := check(ferrite, str(model)):
                print(f"seed {number}: {wrong}")
                failed += 1
    print(f"{count} graphs, {failed} need more")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
