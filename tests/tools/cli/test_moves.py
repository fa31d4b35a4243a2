#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What is only moved keeps its bits: every float type, each op that moves, NaNs of all kinds. The reference moves integers, by NumPy.

Usage: test_moves.py [--ferrite FILE] [--driver FILE] [unittest options]
--driver: Level Zero's that computes by PoCL, for its own test.
"""

import json
import platform
import sys
import unittest
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from program import OK, ProgramTest, Settings, main  # noqa: E402

ROWS, COLUMNS = 5, 37  # of a literal, at most 1 KiB
BITS = {"f64": np.uint64, "f32": np.uint32, "f16": np.uint16, "bf16": np.uint16, "f8e4m3": np.uint8, "f8e5m2": np.uint8,
        "f8e4m3fnuz": np.uint8, "f8e5m2fnuz": np.uint8}  # fmt: skip
MANTISSA = {"f64": 52, "f32": 23, "f16": 10, "bf16": 7, "f8e4m3": 3, "f8e5m2": 2, "f8e4m3fnuz": 3, "f8e5m2fnuz": 2}
RAW = {"f64": np.float64, "f32": np.float32, "f16": np.float16}  # what files have; of the others, integers


def patterns(dtype, count, seed):
    """Elements as integers: signalling and quiet NaNs with and without payloads, infinities, zeros, denormals of both signs; then any."""
    unsigned, mantissa = BITS[dtype], MANTISSA[dtype]
    bits = np.iinfo(unsigned).bits
    full = ((1 << (bits - 1)) - 1) >> mantissa << mantissa  # the exponent of IEEE's infinities and NaNs
    last = (1 << mantissa) - 1
    special = [full | payload for payload in {0, 1, last, last >> 1, 1 << (mantissa - 1), (1 << (mantissa - 1)) | 1}]
    special += [0, 1, last, 1 << mantissa]
    special += [pattern | 1 << (bits - 1) for pattern in special]
    random = np.random.default_rng(seed)
    drawn = random.integers(0, np.iinfo(unsigned).max, count, unsigned, endpoint=True)
    drawn[random.random(count) < 0.5] |= unsigned(full)  # half of them are NaNs, of the IEEE types
    drawn[random.permutation(count)[: len(special)]] = np.array(special, unsigned)
    return drawn


ROW_ORDER = np.array([4, 0, 3, 3, 1, 2])
COLUMN_ORDER = np.random.default_rng(5).integers(0, COLUMNS, (ROWS, 21))
PLACES = np.array([3, 0, 2])
# Each op over %x and %y of [5,37] and scalar %v, and the same of integers.
MOVES = {
    "concat0": ("concat(%x, %y) {axis = 0}", lambda x, y, v: np.concatenate([x, y], 0)),
    "concat1": ("concat(%x, %y, %x) {axis = 1}", lambda x, y, v: np.concatenate([x, y, x], 1)),
    "turned": ("transpose(%x) {perm = [1, 0]}", lambda x, y, v: x.T),
    "reversed": ("slice(%x) {starts = [4, 36], sizes = [5, 37], strides = [-1, -1]}", lambda x, y, v: x[::-1, ::-1]),
    "strided": ("slice(%x) {starts = [1, 0], sizes = [2, 19], strides = [2, 2]}", lambda x, y, v: x[1::2, ::2]),
    "gathered": ("gather(%x, %i) {axis = 0}", lambda x, y, v: x[ROW_ORDER]),
    "picked": ("gather_elements(%x, %j) {axis = 1}", lambda x, y, v: np.take_along_axis(x, COLUMN_ORDER, 1)),
    "filled": ("pad(%x, %v) {low = [1, 3], high = [2, 0]}", lambda x, y, v: np.pad(x, [(1, 2), (3, 0)], constant_values=v)),
    "mirrored": ("pad(%x) {low = [2, 3], high = [0, 5], mode = \"reflect\"}", lambda x, y, v: np.pad(x, [(2, 0), (3, 5)], "reflect")),
    "chosen": ("where(%c, %x, %y)", lambda x, y, v: np.where(CHOICE, x, y)),
    "chosen_one": ("where(%c, %x, %v)", lambda x, y, v: np.where(CHOICE, x, v)),
    "tiled": ("tile(%x) {repeats = [2, 3]}", lambda x, y, v: np.tile(x, (2, 3))),
    "spread": ("expand(%v) {shape = [5, 11]}", lambda x, y, v: np.broadcast_to(v, (5, 11))),
    "relabelled": ("einsum(%x) {equation = \"ij->ji\"}", lambda x, y, v: x.T),
    "upper": ("trilu(%x) {k = 1}", lambda x, y, v: np.triu(x, 1)),
    "replaced": ("scatter_nd(%x, %p, %u)", lambda x, y, v: replaced(x, y)),
    "resized": ("resize(%x) {mode = \"nearest\", scales = [2.0, 1.0], sizes = [10, 37], coordinate_mode = \"asymmetric\", "
                "nearest_mode = \"floor\"}", lambda x, y, v: np.repeat(x, 2, 0)),
}  # fmt: skip
CHOICE = np.random.default_rng(6).random((ROWS, COLUMNS)) < 0.5


def replaced(x, y):
    result = x.copy()
    result[PLACES] = y[:3]
    return result


def text(dtype, constant=None):
    """Every move twice: of values that a bitcast made, with one behind it, and of elements of the type from and to memory."""
    integer = np.dtype(BITS[dtype]).name.replace("uint", "u")
    shape = f"[{ROWS},{COLUMNS}]"
    ports = [f"%i: i64[{ROW_ORDER.size}]", f"%j: i64[{ROWS},{COLUMN_ORDER.shape[1]}]", "%p: i64[3,1]", f"%c: bool{shape}"]
    lines, outputs = [], []
    for name, dims in [("x", shape), ("y", shape), ("v", "[]")]:
        if constant is None:
            ports += [f"%{name}b: {integer}{dims}", f"%{name}f: {dtype}{dims}"]
        else:
            lines.append(f"%{name}b = literal {integer}{dims} {{{', '.join(map(str, constant[name].ravel()))}}}")
        lines.append(f"%{name}_c = bitcast(%{name}b) {{dtype = {dtype}}}")
    ways = ["c"] if constant else ["c", "f"]
    for way in ways:
        source = {name: f"%{name}_c" if way == "c" else f"%{name}f" for name in "xyv"}
        lines.append(f"%u{way} = slice({source['y']}) {{starts = [0, 0], sizes = [3, {COLUMNS}], strides = [1, 1]}}")
        for name, (op, _) in MOVES.items():
            for operand in "xyv":
                op = op.replace(f"%{operand}", source[operand])
            op = op.replace("%u", f"%u{way}")
            made = f"{name}_{way}"
            lines.append(f"%{made}m = {op}" if way == "c" else f"%{made} = {op}")
            if way == "c":
                lines.append(f"%{made} = bitcast(%{made}m) {{dtype = {integer}}}")
            outputs.append(f'%{made} "{made}"')
    body = "".join(f"  {line}\n" for line in lines)
    return f"ferrite graph 0\ngraph @g({', '.join(ports)}) -> ({', '.join(outputs)}) {{\n{body}}}\n"


class MovesTest(ProgramTest):
    def check(self, dtype, *words, target=None, constant=False, environment=None):
        unsigned = BITS[dtype]
        count = ROWS * COLUMNS
        x, y = (patterns(dtype, count, seed).reshape(ROWS, COLUMNS) for seed in (1, 2))
        v = patterns(dtype, count, 3)[(patterns(dtype, count, 3) & unsigned((1 << MANTISSA[dtype]) - 1)) != 0][0].reshape(())
        given = {"i": ROW_ORDER, "j": COLUMN_ORDER, "p": PLACES[:, None], "c": CHOICE}
        if not constant:
            for name, values in (("x", x), ("y", y), ("v", v)):
                given |= {f"{name}b": values, f"{name}f": values.view(RAW.get(dtype, unsigned))}
        inputs = []
        for name, values in given.items():
            np.save(self.folder / f"{name}.npy", values)
            inputs += ["-i", f"{name}={name}.npy"]
        (self.folder / "g.fe").write_text(text(dtype, {"x": x, "y": y, "v": v} if constant else None))
        model = "g.fe"
        if target:
            done = self.call("compile", model, "--target", target, "-o", "g.fepkg")
            self.assertEqual(done.returncode, OK, done.stderr)
            model = "g.fepkg"
        done = self.call("run", model, *inputs, *words, "-o", "out", environment=environment)
        self.assertEqual(done.returncode, OK, done.stderr)
        for output in json.loads((self.folder / "out/outputs.json").read_text()):
            found = np.load(self.folder / f"out/output_{output['index']}.npy")
            name, _ = output["name"].rsplit("_", 1)
            right = MOVES[name][1](x, y, v)
            np.testing.assert_array_equal(found.view(unsigned), right, f"{dtype}: {output['name']} {words} {target or ''}")

    def test_interpreter(self):
        for dtype in BITS:
            with self.subTest(dtype):
                self.check(dtype, "--device", "interpreter")

    def test_code(self):
        for dtype in BITS:
            with self.subTest(dtype):
                self.check(dtype)

    @unittest.skipUnless(platform.machine() == "x86_64", "the targets are those of x86-64")
    def test_code_of_other_machines(self):
        flags = set(Path("/proc/cpuinfo").read_text().split())
        needs = {"x86-64-v2": "sse4_2", "x86-64-v3": "avx2", "x86-64-v4": "avx512bw"}
        for target, need in needs.items():
            for dtype in BITS if need in flags else ():
                with self.subTest(f"{dtype}, {target}"):
                    self.check(dtype, target=target)

    def test_level_zero(self):
        if not Settings.driver.is_file():
            self.skipTest("no driver is given")
        environment = {"ZE_ENABLE_ALT_DRIVERS": str(Settings.driver), "POCL_CACHE_DIR": str(self.folder)}
        for dtype in ("f32", "f16", "bf16", "f8e5m2"):
            with self.subTest(dtype):
                self.check(dtype, "--device", "level_zero", environment=environment)

    def test_constants(self):
        """Folded when the program is compiled, and by the interpreter."""
        for dtype in ("f32", "f16", "bf16", "f8e5m2", "f8e4m3fnuz"):
            for words in ([], ["--device", "interpreter"]):
                with self.subTest(f"{dtype} {words}"):
                    self.check(dtype, *words, constant=True)


if __name__ == "__main__":
    main(__doc__, driver=Path("no driver"))
