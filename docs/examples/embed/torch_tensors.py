#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs a model on PyTorch's tensors, in place: on PyTorch's stream, with memory from PyTorch's pool, by the C API and ctypes.

Usage: torch_tensors.py MODEL [--device NAME] [--library FILE] [--runs N]
Inputs are random. Prints how far the results are from those of the CPU, and how the memory was taken.
"""

import argparse
import ctypes as c
from pathlib import Path

import torch

ROOT = Path(__file__).resolve().parents[3]
CPU = 1  # DLPack's number


class Device(c.Structure):
    _fields_ = [("kind", c.c_int32), ("number", c.c_int32)]


class DataType(c.Structure):
    _fields_ = [("code", c.c_uint8), ("bits", c.c_uint8), ("lanes", c.c_uint16)]


class Tensor(c.Structure):
    _fields_ = [("data", c.c_void_p), ("device", Device), ("ndim", c.c_int32), ("dtype", DataType),
                ("shape", c.POINTER(c.c_int64)), ("strides", c.POINTER(c.c_int64)), ("byte_offset", c.c_uint64)]  # fmt: skip


class Managed(c.Structure):
    pass


Managed._fields_ = [("major", c.c_uint32), ("minor", c.c_uint32), ("context", c.c_void_p),
                    ("deleter", c.CFUNCTYPE(None, c.POINTER(Managed))), ("flags", c.c_uint64), ("tensor", Tensor)]  # fmt: skip
ALLOC = c.CFUNCTYPE(c.c_void_p, c.c_void_p, Device, c.c_uint64, c.c_uint64, c.c_void_p)
FREE = c.CFUNCTYPE(None, c.c_void_p, Device, c.c_void_p, c.c_uint64, c.c_void_p)


class Allocator(c.Structure):
    _fields_ = [("size", c.c_uint64), ("self", c.c_void_p), ("device_type", c.c_int32), ("reserved", c.c_uint32),
                ("alloc", ALLOC), ("free", FREE)]  # fmt: skip


class SessionOptions(c.Structure):
    _fields_ = [("size", c.c_uint64), ("manifest", c.c_char_p), ("plugins", c.c_void_p), ("plugin_count", c.c_uint64),
                ("device", c.c_char_p), ("threads", c.c_int64), ("log", c.c_char_p), ("profile", c.c_char_p),
                ("safe_mode", c.c_uint32), ("tf32", c.c_uint32), ("allocator", c.POINTER(Allocator)),
                ("tune", c.c_char_p)]  # fmt: skip


class RunOptions(c.Structure):
    _fields_ = [("size", c.c_uint64), ("stream", c.c_void_p), ("outputs_on_device", c.c_uint32), ("reserved", c.c_uint32)]


class Error(c.Structure):
    _fields_ = [("size", c.c_uint64), ("status", c.c_int32), ("reserved", c.c_int32), ("code", c.c_char_p),
                ("text", c.c_char_p), ("where", c.c_char_p)]  # fmt: skip


class Port(c.Structure):
    _fields_ = [("size", c.c_uint64), ("name", c.c_char_p), ("dtype_name", c.c_char_p), ("dtype", DataType),
                ("rank", c.c_int32), ("dims", c.POINTER(c.c_int64)), ("dim_names", c.POINTER(c.c_char_p))]  # fmt: skip


CODES = {torch.float32: (2, 32), torch.float16: (2, 16), torch.bfloat16: (4, 16), torch.float64: (2, 64),
         torch.int64: (0, 64), torch.int32: (0, 32), torch.bool: (6, 8)}  # fmt: skip


def made(kind, **fields):
    return kind(size=c.sizeof(kind), **fields)


class Pool:
    """PyTorch's caching allocator of a GPU, as the allocator of a session."""

    def __init__(self):
        self.blocks, self.taken = {}, 0
        self.table = made(Allocator, device_type=torch.zeros(0, device="cuda").__dlpack_device__()[0],
                          alloc=ALLOC(self.alloc), free=FREE(self.free))  # fmt: skip

    def alloc(self, _, device, size, alignment, stream):
        data = torch.cuda.caching_allocator_alloc(size, device.number, stream or 0)
        self.blocks[data], self.taken = size, self.taken + size
        return data if data % alignment == 0 else 0

    def free(self, _, device, data, size, stream):
        del self.blocks[data]
        torch.cuda.caching_allocator_delete(data)


class Session:
    def __init__(self, library, device, pool=None):
        self.api = c.CDLL(str(library))
        self.pool = pool  # whose functions are called until the session is closed
        self.handle = c.c_void_p()
        options = made(SessionOptions, device=device.encode(), allocator=c.pointer(pool.table) if pool else None)
        self.call("ferrite_session_open", c.byref(options), c.byref(self.handle))
        self.device = Device()
        self.call("ferrite_session_device", self.handle, c.byref(self.device))

    def call(self, function, *arguments):
        if getattr(self.api, function)(*arguments) == 0:
            return
        error = made(Error)
        self.api.ferrite_last_error(c.byref(error))
        raise RuntimeError(f"{error.code.decode()} {error.where.decode()}: {error.text.decode()}")

    def close(self):
        self.api.ferrite_session_close(self.handle)


class Model:
    def __init__(self, session, path):
        self.session, self.handle = session, c.c_void_p()
        session.call("ferrite_model_load", session.handle, str(path).encode(), c.byref(self.handle))

    def ports(self, which):
        count = getattr(self.session.api, f"ferrite_model_{which}_count")
        count.restype = c.c_uint64
        for k in range(count(self.handle)):
            port = made(Port)
            self.session.call(f"ferrite_model_{which}", self.handle, c.c_uint64(k), c.byref(port))
            yield port.dtype_name.decode(), [port.dims[d] for d in range(port.rank)]

    def view(self, tensor):
        """A DLTensor on the memory of PyTorch's; it borrows `tensor`."""
        shape = (c.c_int64 * tensor.dim())(*tensor.shape)
        strides = (c.c_int64 * tensor.dim())(*tensor.stride())
        kind, number = tensor.__dlpack_device__()
        code, bits = CODES[tensor.dtype]
        made = Tensor(tensor.data_ptr(), Device(kind, number), tensor.dim(), DataType(code, bits, 1), shape, strides, 0)
        made.borrowed = (tensor, shape, strides)
        return made

    def run(self, inputs, outputs, stream=None):
        """On PyTorch's tensors; `stream`: a torch.cuda.Stream, in whose order the work is."""
        given, taken = [self.view(t) for t in inputs], [self.view(t) for t in outputs]
        pointers = [(c.POINTER(Tensor) * len(views))(*map(c.pointer, views)) for views in (given, taken)]
        # The default stream of CUDA has the handle 0, which is no stream here; 1 is the same one.
        options = made(RunOptions, stream=None if stream is None else stream.cuda_stream or 1)
        self.session.call("ferrite_run_with", self.handle, c.byref(options), pointers[0], c.c_uint64(len(given)),
                          pointers[1], c.c_uint64(len(taken)))  # fmt: skip

    def close(self):
        self.session.api.ferrite_model_free(self.handle)


def empty(ports, device):
    kinds = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16, "f64": torch.float64, "i64": torch.int64,
             "i32": torch.int32, "bool": torch.bool}  # fmt: skip
    return [torch.empty(dims, dtype=kinds[name], device=device) for name, dims in ports]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--library", type=Path, default=ROOT / "build/release/lib/libferrite.so")
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()

    reference = Session(options.library, "cpu")
    model = Model(reference, options.model)
    inputs = [t.normal_() if t.is_floating_point() else t.zero_() for t in empty(model.ports("input"), "cpu")]
    expected = empty(model.ports("output"), "cpu")
    model.run(inputs, expected)
    model.close()
    reference.close()

    on_gpu = options.device != "cpu"
    pool = Pool() if on_gpu else None
    stream = torch.cuda.Stream() if on_gpu else None
    session = Session(options.library, options.device, pool)
    where = f"cuda:{session.device.number}" if session.device.kind != CPU else "cpu"
    model = Model(session, options.model)
    with torch.cuda.stream(stream):
        given = [t.to(where, non_blocking=True) for t in inputs]
        results = empty(model.ports("output"), where)
        for _ in range(options.runs):
            model.run(given, results, stream)
        # Behind the runs, in the stream's order.
        results = [t.double().cpu() for t in results]
    for result, exact in zip(results, expected, strict=True):
        print(f"{list(exact.shape)}: at most {(result - exact.double()).abs().max().item():.3g} from the CPU's")
    model.close()
    session.close()
    if pool:
        print(f"{pool.taken} bytes were taken from PyTorch's pool, {len(pool.blocks)} blocks are left")


if __name__ == "__main__":
    main()
