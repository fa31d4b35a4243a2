#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""One peer in a process of its own: compiles a model, then times runs of it when told to. bench/run talks to it.

Usage: peers.py ENGINE --row NAME --model FILE --inputs FILE.npz --outputs FILE.npz --threads N

Writes a line of JSON when the model is compiled and has run once (the results are in --outputs): {"version",
"compile_ms"}. Then for each line `N` on standard input it runs the model N times, after two that do not count, and
answers {"median_ms", "min_ms"}. What libraries print goes to standard error.
"""

import argparse
import json
import os
import statistics
import sys
import time
from pathlib import Path

import numpy as np

Inputs = dict[str, np.ndarray]
WARM_UP_RUNS = 2


class OnnxRuntime:
    def __init__(self, arguments: argparse.Namespace, inputs: Inputs):
        import onnxruntime

        self.version = onnxruntime.__version__
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = arguments.threads
        options.inter_op_num_threads = 1
        start = time.perf_counter()
        self.session = onnxruntime.InferenceSession(str(arguments.model), options, providers=["CPUExecutionProvider"])
        self.compile_ms = milliseconds_since(start)
        self.inputs = inputs

    def run(self) -> list[np.ndarray]:
        return self.session.run(None, self.inputs)


class OpenVino:
    def __init__(self, arguments: argparse.Namespace, inputs: Inputs):
        import openvino

        self.version = openvino.__version__.split("-")[0]
        start = time.perf_counter()
        core = openvino.Core()
        model = core.read_model(arguments.model)
        model.reshape({name: list(array.shape) for name, array in inputs.items()})
        # Without the hint it computes in bf16 where the machine has it.
        settings = {"INFERENCE_NUM_THREADS": arguments.threads, "NUM_STREAMS": 1, "PERFORMANCE_HINT": "LATENCY",
                    "INFERENCE_PRECISION_HINT": "f32"}  # fmt: skip
        self.compiled = core.compile_model(model, "CPU", settings)
        self.compile_ms = milliseconds_since(start)
        self.inputs = inputs

    def run(self) -> list[np.ndarray]:
        results = self.compiled(self.inputs, share_inputs=True, share_outputs=True)
        return [results[port] for port in self.compiled.outputs]


class TorchCompile:
    """torch.compile with freezing, on the module that the row's ONNX file was exported from."""

    def __init__(self, arguments: argparse.Namespace, inputs: Inputs):
        # A cold compilation, which leaves nothing behind.
        os.environ["TORCHINDUCTOR_FORCE_DISABLE_CACHES"] = "1"
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(arguments.outputs.parent / "torch")
        import torch

        sys.path.insert(0, str(Path(__file__).resolve().parent / "models"))
        import export
        import rows as table
        import torch._inductor.config

        self.version = torch.__version__.split("+")[0]
        torch.set_num_threads(arguments.threads)
        torch._inductor.config.freezing = True
        torch.set_grad_enabled(False)
        (row,) = table.select([arguments.row])
        module = export.module(row.module, "sdpa")
        self.inputs = export.tensors(inputs)
        start = time.perf_counter()
        self.compiled = torch.compile(module)
        self.compiled(*self.inputs)
        self.compile_ms = milliseconds_since(start)

    def run(self) -> list[np.ndarray]:
        return [self.compiled(*self.inputs).numpy()]


ENGINES = {"onnxruntime": OnnxRuntime, "openvino": OpenVino, "torch": TorchCompile}


def milliseconds_since(start: float) -> float:
    return (time.perf_counter() - start) * 1e3


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("engine", choices=ENGINES)
    parser.add_argument("--row", required=True)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--inputs", type=Path, required=True)
    parser.add_argument("--outputs", type=Path, required=True)
    parser.add_argument("--threads", type=int, required=True)
    arguments = parser.parse_args()
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)

    with np.load(arguments.inputs) as stored:
        engine = ENGINES[arguments.engine](arguments, dict(stored))
    np.savez(arguments.outputs, *engine.run())
    print(json.dumps({"version": engine.version, "compile_ms": engine.compile_ms}), file=answers)
    for line in sys.stdin:
        times = []
        for number in range(WARM_UP_RUNS + int(line)):
            start = time.perf_counter()
            engine.run()
            if number >= WARM_UP_RUNS:
                times.append(milliseconds_since(start))
        print(json.dumps({"median_ms": statistics.median(times), "min_ms": min(times)}), file=answers)
    return 0


if __name__ == "__main__":
    sys.exit(main())
