# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Packages, read and written as docs/packages.md says: for tests that make wrong ones, with hashes that are right."""

import ctypes
import ctypes.util
import hashlib
import struct
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from program import OK, ProgramTest  # noqa: E402

# Kernels that are shared, an epilogue, a constant that is packed, one that is read twice, an open dim.
MODEL = """ferrite graph 0
graph @layers(%x: f32[$n,32]) -> (%p "p", %t "t") {
  symbol $n in [1, 64]
  #w = data f32[32,32] {WEIGHT}
  #b = data f32[32] {BIAS}
  %m = matmul(%x, #w) from "First"
  %n = add(%m, #b) from "Bias"
  %r = relu(%n) from "Relu"
  %o = matmul(%r, #w) from "Second"
  %q = add(%o, #b) from "Bias_1"
  %s = relu(%q) from "Relu_1"
  %p = softmax(%s) {axis = 1} from "Softmax"
  %t = reduce_sum(%o) {axes = [0], keepdims = false} from "Sum"
}
"""
BARE = 'schema = 0\nextends = "none"\nenable = ["ferrite.cpu"]\n[pipeline]\ndevice = "cpu"\n'
DESCRIPTION, PROGRAM, CODE, GRAPH, WEIGHTS = range(1, 6)
STORED, ZSTD = range(2)
HEADER, ENTRY = struct.Struct("<8sIIQ64s"), struct.Struct("<IIIIQQQ64s")
MAGIC, VERSION = b"FEPKG\r\n\x1a", 3

zstd = ctypes.CDLL(ctypes.util.find_library("zstd") or "libzstd.so.1")
zstd.ZSTD_decompress.restype = ctypes.c_size_t


def numbers(count):
    return ", ".join(str((k * 37 % 64 - 32) / 64) for k in range(count))


def digest(contents):
    return hashlib.sha256(contents).hexdigest().encode()


@dataclass
class Section:
    """A section as its table says, with what may be wrong on purpose."""

    kind: int
    codec: int
    target: int
    contents: bytes  # as they lie in the file
    raw: int  # bytes
    reserved: int = 0
    offset: int | None = None  # None: where it belongs
    size: int | None = None

    def unpacked(self):
        if self.codec == STORED:
            return self.contents
        result = ctypes.create_string_buffer(self.raw + 1)
        size = zstd.ZSTD_decompress(result, ctypes.c_size_t(self.raw), self.contents, ctypes.c_size_t(len(self.contents)))
        assert size == self.raw
        return result.raw[:size]


def read(path):
    """The sections of a package, read as docs/packages.md says."""
    file = path.read_bytes()
    magic, version, count, size, head = HEADER.unpack_from(file)
    table = file[HEADER.size : HEADER.size + count * ENTRY.size]
    assert (magic, version, size, head) == (MAGIC, VERSION, len(file), digest(file[:24] + table))
    sections = []
    for kind, codec, target, reserved, offset, size, raw, hashed in ENTRY.iter_unpack(table):
        contents = file[offset : offset + size]
        assert hashed == digest(contents) and offset % 64 == 0
        sections.append(Section(kind, codec, target, contents, raw, reserved))
    return sections


def written(sections, behind=b"", version=VERSION):
    """The file of these sections, hashes right."""
    table, body = b"", b""
    end = HEADER.size + len(sections) * ENTRY.size
    for section in sections:
        padding = -(end + len(body)) % 64
        body += bytes(padding)
        offset = end + len(body) if section.offset is None else section.offset
        size = len(section.contents) if section.size is None else section.size
        table += ENTRY.pack(section.kind, section.codec, section.target, section.reserved, offset, size, section.raw,
                            digest(section.contents))  # fmt: skip
        body += section.contents
    body += behind
    head = HEADER.pack(MAGIC, version, len(sections), end + len(body), b"")[:24]
    return head + digest(head + table) + table + body


@dataclass
class Field:
    """A number of a program, and where it lies."""

    name: str
    offset: int
    form: str  # of struct
    value: int

    @property
    def bits(self):
        return struct.calcsize(self.form) * 8

    def changed(self, program, value):
        """The program with another number there, as far as it has bits for it."""
        value &= (1 << self.bits) - 1
        size = self.bits // 8
        return program[: self.offset] + value.to_bytes(size, "little") + program[self.offset + size :]


class Fields:
    """The numbers of a program, read as docs/packages.md says."""

    def __init__(self, program):
        self.program, self.at, self.found = program, 0, []
        for name in ("nodes", "statements"):
            self.number(name)
        self.list(self.text, self.text)
        for _ in range(2):
            self.list(self.text, lambda: self.number("type", "<H"), lambda: self.list(lambda: self.number("dim")),
                      lambda: self.number("changed", "<B"), lambda: self.number("donated", "<B"), self.text)  # fmt: skip
        for _ in range(2):  # of a run, and at load
            self.list(lambda: self.number("arena"))
        self.list(lambda: self.number("persistent device", "<I"), lambda: self.number("persistent bytes"))
        self.list(lambda: self.number("constant offset"), lambda: self.number("constant size"))
        names, places = ("tasks", "grain", "workspace", "registers", "spills"), ("code offset", "code size")
        self.list(*[self.text] * 4, lambda: self.number("device", "<I"), *[lambda name=name: self.number(name) for name in names],
                  lambda: self.number("checks", "<B"), lambda: self.list(lambda: self.number("checked argument", "<I"),
                  lambda: self.number("checked size"), self.text), *[lambda name=name: self.number(name) for name in places])  # fmt: skip
        for _ in range(2):
            whose = [lambda name=name: self.number(name, "<I") for name in ("launched kernel", "copy device", "copy")]
            self.list(*whose, self.text, self.places)
        self.places()
        assert self.at == len(program)

    def number(self, name, form="<q"):
        (value,) = struct.unpack_from(form, self.program, self.at)
        self.found.append(Field(name, self.at, form, value))
        self.at += struct.calcsize(form)
        return value

    def text(self):
        self.at += 8 + struct.unpack_from("<Q", self.program, self.at)[0]

    def list(self, *parts):
        for _ in range(self.number("count")):
            for part in parts:
                part()

    def places(self):
        forms = {"kind": "<B", "device": "<I", "number": "<I", "offset": "<q", "size": "<q"}
        self.list(*[lambda name=name, form=form: self.number(f"place {name}", form) for name, form in forms.items()])


class PackageCase(ProgramTest):
    """A model, its input, and the place of its package."""

    def setUp(self):
        super().setUp()
        text = MODEL.replace("WEIGHT", numbers(32 * 32)).replace("BIAS", numbers(32))
        (self.folder / "layers.fe").write_text(text)
        np.save(self.folder / "x.npy", np.random.default_rng(5).normal(size=(16, 32)).astype(np.float32))
        self.package = self.folder / "layers.fepkg"

    def compile(self, *options, name="layers.fepkg", **how):
        return self.call("compile", "layers.fe", "--dim", "n=16", "-o", name, *options, **how)

    def compiled(self, *options):
        done = self.compile(*options)
        self.assertEqual(done.returncode, OK, done.stderr)
        return done

    def outputs(self, model, *options):
        """The bytes of the outputs, and what was printed."""
        done = self.call("run", model, "-i", "x=x.npy", "-o", "out", *options)
        self.assertEqual(done.returncode, OK, done.stderr)
        return [(self.folder / f"out/output_{k}.npy").read_bytes() for k in range(2)], done.stdout

    def bare(self):
        """The options of a pipeline that runs packages and nothing else."""
        (self.folder / "bare.toml").write_text(BARE)
        return "--manifest", "bare.toml"
