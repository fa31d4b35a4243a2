#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Long chains of ops that only move elements, compiled and compared with numpy, bit by bit.

Usage: view_chains.py FERRITE [--seed N] [--count N] [options of `ferrite run`]
One chain of each kind, then COUNT random ones of 100 to 300 ops. An index that such a chain composes without a bound
doubles from op to op, or is nested more deeply than any kernel takes.
"""

import random
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

SECONDS = 60  # of a chain, most of which take less than one
MOST_ELEMENTS = 2000


class Chain:
    """A graph in text form, and the value that numpy has for it so far."""

    def __init__(self, shape):
        self.input = np.arange(1, 1 + np.prod(shape), dtype=np.float32).reshape(shape)
        self.value, self.lines, self.name = self.input, [], "x"

    def add(self, op, operands, attributes, value):
        name = f"v{len(self.lines)}"
        listed = ", ".join(f"{key} = {self.text(item)}" for key, item in attributes.items())
        self.lines.append(f"%{name} = {op}({', '.join(operands)})" + (f" {{{listed}}}" if listed else ""))
        self.name, self.value = name, value
        return "%" + name

    def literal(self, values):
        name = f"i{len(self.lines)}"
        self.lines.append(f"%{name} = literal i64[{len(values)}] {{{', '.join(map(str, values))}}}")
        return "%" + name

    @staticmethod
    def text(item):
        return f'"{item}"' if isinstance(item, str) else str(item)

    @property
    def last(self):
        return "%" + self.name

    def reshape(self, shape):
        self.add("reshape", [self.last], {"shape": list(shape)}, self.value.reshape(shape))

    def transpose(self, perm):
        self.add("transpose", [self.last], {"perm": list(perm)}, self.value.transpose(perm))

    def pad(self, low, high, mode):
        widths = list(zip(low, high, strict=True))
        self.add("pad", [self.last], {"low": low, "high": high, "mode": mode}, np.pad(self.value, widths, mode=mode))

    def slice(self, starts, sizes, strides):
        value = self.value
        for axis, (start, size, stride) in enumerate(zip(starts, sizes, strides, strict=True)):
            value = value.take([start + k * stride for k in range(size)], axis)
        return self.add("slice", [self.last], {"starts": starts, "sizes": sizes, "strides": strides}, value)

    def gather(self, axis, places):
        indices = self.literal(places)
        self.add("gather", [self.last, indices], {"axis": axis}, self.value.take(places, axis))

    def tile(self, repeats):
        self.add("tile", [self.last], {"repeats": repeats}, np.tile(self.value, repeats))

    def roll(self, axis, shift):
        value, source = self.value, self.name
        rank, size = value.ndim, value.shape[axis]
        parts = []
        for start, length in ((size - shift, shift), (0, size - shift)):
            self.value, self.name = value, source
            starts, sizes = [0] * rank, list(value.shape)
            starts[axis], sizes[axis] = start, length
            parts.append(self.slice(starts, sizes, [1] * rank))
        self.add("concat", parts, {"axis": axis}, np.roll(value, shift, axis))

    def negate(self):
        self.add("neg", [self.last], {}, -self.value)

    def graph(self):
        dims = ",".join(map(str, self.input.shape))
        body = "".join(f"  {line}\n" for line in self.lines)
        return f'ferrite graph 0\ngraph @chain(%x: f32[{dims}]) -> ({self.last} "r") {{\n{body}}}\n'


def reflect_pads():
    chain = Chain([10])
    for _ in range(60):
        chain.pad([2], [1], "reflect")
        chain.slice([1], [10], [1])
    return chain


def turned_reshapes():
    chain = Chain([2, 3, 5, 7])
    for k in range(100):
        chain.reshape([[6, 35], [14, 15], [10, 21]][k % 3])
        chain.transpose([1, 0])
        chain.reshape([[5, 42], [3, 70], [7, 30]][k % 3])
    return chain


def rolls():
    chain = Chain([7, 11])
    for k in range(200):
        chain.roll(k % 2, 1 + k % 5)
    return chain


def slices_of_pads():
    chain = Chain([9, 8])
    for k in range(200):
        chain.pad([k % 3, 1], [5, 7 + k % 2], ["wrap", "edge", "reflect", "constant"][k % 4])
        rows, columns = chain.value.shape
        chain.slice([rows - 1, k % 2], [(rows + 1) // 2, (columns - k % 2 + 1) // 2], [-2, 2])
    return chain


def gathers():
    chain, source = Chain([5, 12]), random.Random(1)
    for k in range(200):
        size = chain.value.shape[k % 2]
        chain.gather(k % 2, [source.randrange(-size, size) for _ in range(size)])
    return chain


def depth_to_space():
    chain = Chain([16, 2, 3])
    for k in range(60):
        depth, rows, columns = chain.value.shape
        if k % 2 == 0:
            chain.reshape([2, 2, depth // 4, rows, columns])
            chain.transpose([2, 3, 0, 4, 1])
            chain.reshape([depth // 4, rows * 2, columns * 2])
        else:
            chain.reshape([depth, rows // 2, 2, columns // 2, 2])
            chain.transpose([2, 4, 0, 1, 3])
            chain.reshape([depth * 4, rows // 2, columns // 2])
    return chain


def zero_pads():
    chain = Chain([6, 5])
    for k in range(200):
        chain.pad([k % 2, 1], [1, 0], "constant")
        rows, columns = chain.value.shape
        chain.slice([rows - 6, 0], [6, columns - 1], [1, 1])
        if k % 7 == 0:
            chain.negate()
    return chain


def random_chain(seed):
    source = random.Random(seed)
    chain = Chain([source.randint(1, 9) for _ in range(source.randint(1, 4))])

    def divisors(number):
        return [k for k in range(1, number + 1) if number % k == 0]

    def any_shape():
        left, shape = chain.value.size, []
        while left > 1 and len(shape) < 4:
            shape.append(source.choice(divisors(left)))
            left //= shape[-1]
        if left > 1:
            shape.append(left)
        source.shuffle(shape)
        return shape or [1]

    def any_slice():
        starts, sizes, strides = [], [], []
        for dim in chain.value.shape:
            start, stride = source.randrange(dim), source.choice([-3, -2, -1, 1, 1, 2, 3])
            reach = (dim - 1 - start) // stride if stride > 0 else start // -stride
            starts.append(start)
            strides.append(stride)
            sizes.append(source.randint(max(1, (reach + 1) // 2), reach + 1))
        chain.slice(starts, sizes, strides)

    def any_pad():
        rank = chain.value.ndim
        widths = [[source.choice([0, 0, 1, 2, 5]) for _ in range(rank)] for _ in range(2)]
        chain.pad(*widths, source.choice(["constant", "reflect", "edge", "wrap"]))

    for _ in range(source.randint(100, 300)):
        rank, size, shape = chain.value.ndim, chain.value.size, chain.value.shape
        axis = source.randrange(rank)
        kind = source.choice(["reshape", "transpose", "slice", "pad", "pad", "roll", "gather", "tile", "negate"])
        if size > MOST_ELEMENTS:
            kind = "slice"
        if kind == "reshape":
            chain.reshape(any_shape())
        elif kind == "transpose":
            chain.transpose(source.sample(range(rank), rank))
        elif kind == "slice":
            any_slice() if size > 8 else any_pad()
        elif kind == "pad":
            any_pad()
        elif kind == "roll" and shape[axis] > 1:
            chain.roll(axis, source.randrange(1, shape[axis]))
        elif kind == "gather":
            chain.gather(axis, [source.randrange(shape[axis]) for _ in range(source.randint(1, min(40, 2 * shape[axis])))])
        elif kind == "tile" and size < 200:
            chain.tile([source.choice([1, 1, 2, 3]) for _ in range(rank)])
        elif kind == "negate":
            chain.negate()
    return chain


def check(ferrite, chain, folder, options):
    """"" or what is wrong with the chain's result."""
    model, given, out = folder / "chain.fe", folder / "x.npy", folder / "out"
    model.write_text(chain.graph())
    np.save(given, chain.input)
    command = [ferrite, "run", model, "-i", f"x={given}", "-o", out, "--cache", "off", *options]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return f"not done after {SECONDS} s"
    if done.returncode != 0:
        return done.stderr
    actual = np.load(out / "output_0.npy")
    if actual.shape != chain.value.shape:
        return f"shape {actual.shape}, expected {chain.value.shape}"
    wrong = np.argwhere(actual != chain.value)
    if len(wrong) == 0:
        return ""
    place = tuple(wrong[0])
    return f"{len(wrong)} of {actual.size} elements are off, the first at {place}: {actual[place]}, expected {chain.value[place]}"


def main():
    ferrite, *options = sys.argv[1:]
    numbers = {"--seed": 1, "--count": 10}
    for option in numbers:
        if option in options:
            at = options.index(option)
            numbers[option] = int(options[at + 1])
            del options[at : at + 2]
    kinds = [reflect_pads, turned_reshapes, rolls, slices_of_pads, gathers, depth_to_space, zero_pads]
    chains = [(kind.__name__, kind()) for kind in kinds]
    chains += [(f"seed {seed}", random_chain(seed)) for seed in range(numbers["--seed"], numbers["--seed"] + numbers["--count"])]
    failed = 0
    with tempfile.TemporaryDirectory(prefix="ferrite-chains-") as scratch:
        for name, chain in chains:
            if wrong := check(ferrite, chain, Path(scratch), options):
                failed += 1
                print(f"{name}, {len(chain.lines)} ops: {wrong}")
    print(f"{len(chains)} chains, {failed} failed")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
