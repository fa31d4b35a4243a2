#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Training steps of PyTorch models on a GPU: eager, Inductor and Ferrite, forward and backward pass, in turns, in one process.

Usage: torch_gpu.py [--rows GLOB,...] [--engines NAME,...] [--rounds N] [--repeat N] [--parts times,memory] [--manifest FILE]
                    [--output FILE] [--add]
       torch_gpu.py --profile ENGINE --rows ROW

The engine `ferrite_own`, which only --engines asks for, is Ferrite with the option pytorch_kernels=False: no operator is left to
PyTorch by choice.

Run it with a Python that has torch, torchvision and transformers, and the package `ferrite` on its path. Each engine's gradients are
compared with those of eager PyTorch in f32: the error, of all gradients together, is at most 1.2 times that of the eager engine. A time is
that of zeroing no gradients, forward pass, loss and backward pass, by the device's events; the median of all rounds counts. `memory` is
what a process of its own holds on the device at most, beyond what it held before the model was made. Writes bench/results/torch-gpu.json
unless --output names another file, and prints a table; with --add, what the file has and this run does not measure stays in it.
Exit status 1 where a result is wrong.
"""

import argparse
import copy
import fnmatch
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path

import torch
import torch.nn.functional as F
import torchvision
import transformers

import figures

ROOT = Path(__file__).resolve().parents[1]
ENGINES = ("eager", "inductor", "ferrite")
OWN = "ferrite_own"
MOST_ERROR = 1.2  # gradients that are all zero have the error 1, and those of f16 in training are far from those of f32


class LanguageModel(torch.nn.Module):
    """The loss of a model of transformers that has labels."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, tokens, labels):
        return self.model(input_ids=tokens, labels=labels).loss


class Classifier(torch.nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, images, labels):
        return F.cross_entropy(self.model(images).float(), labels)


def tokens(batch, length, vocabulary):
    return tuple(torch.randint(0, vocabulary, (batch, length), device="cuda") for _ in range(2))


def gpt2():
    config = transformers.GPT2Config(attn_pdrop=0.0, embd_pdrop=0.0, resid_pdrop=0.0, use_cache=False)
    return LanguageModel(transformers.GPT2LMHeadModel(config)), tokens(16, 1024, config.vocab_size)


def bert():
    config = transformers.BertConfig(attention_probs_dropout_prob=0.0, hidden_dropout_prob=0.0)
    return LanguageModel(transformers.BertForMaskedLM(config)), tokens(16, 512, config.vocab_size)


def resnet50():
    images = torch.rand(128, 3, 224, 224, device="cuda") * 2 - 1
    model = torchvision.models.resnet50().to(memory_format=torch.channels_last)
    return Classifier(model), (images.to(memory_format=torch.channels_last), torch.randint(0, 1000, (128,), device="cuda"))


def classes():
    model = torch.nn.Linear(768, 50257, bias=False)
    return Classifier(model), (torch.randn(16384, 768, device="cuda"), torch.randint(0, 50257, (16384,), device="cuda"))


# name -> (what makes module and inputs, dtype of autocast)
ROWS = {
    "gpt2-124m-bf16-16x1024": (gpt2, torch.bfloat16),
    "bert-base-mlm-bf16-16x512": (bert, torch.bfloat16),
    "resnet50-f16-128": (resnet50, torch.float16),
    "linear-cross-entropy-bf16-16384x50257": (classes, torch.bfloat16),
}


def make(row):
    torch.manual_seed(0)
    module, inputs = ROWS[row][0]()
    return module.cuda().train(), inputs


def compiled(module, engine, manifest):
    if engine == "eager":
        return module
    torch._dynamo.reset()
    if engine == "inductor":
        return torch.compile(module, dynamic=False)
    options = {"pytorch_kernels": engine != OWN} | ({"manifest": manifest} if manifest else {})
    return torch.compile(module, backend="ferrite", dynamic=False, options=options)


def step(function, inputs, dtype):
    with torch.autocast("cuda", dtype=dtype):
        loss = function(*inputs)
    loss.backward()
    return loss


def gradients(module):
    return torch.cat([each.grad.float().flatten() for each in module.parameters() if each.grad is not None])


def clear(module):
    for each in module.parameters():
        each.grad = None


def time_of(function, module, inputs, dtype, repeat):
    """Milliseconds of one step."""
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    times = []
    for _ in range(repeat):
        clear(module)
        torch.cuda.synchronize()
        start.record()
        step(function, inputs, dtype)
        end.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(end))
    return statistics.median(times)


def memory_of(row, engine, manifest):
    """Bytes of the device's memory in two steps: those that they need, and those that the process holds after them.

    They need the tensors of PyTorch that live at the same time, and the memory of others: libraries, programs. PyTorch's allocator holds
    more, in blocks that wait for tensors of their size.
    """
    before = torch.cuda.mem_get_info()[0]
    module, inputs = make(row)
    function = compiled(module, engine, manifest)
    for _ in range(3):
        clear(module)
        step(function, inputs, ROWS[row][1])
    torch.cuda.synchronize()
    torch.cuda.empty_cache()  # what compiling and tuning left
    torch.cuda.reset_peak_memory_stats()
    for _ in range(2):
        clear(module)
        step(function, inputs, ROWS[row][1])
        torch.cuda.synchronize()
    held = before - torch.cuda.mem_get_info()[0]
    return torch.cuda.max_memory_allocated() + held - torch.cuda.memory_reserved(), held


def memory_in_process(row, engine, manifest):
    command = [sys.executable, __file__, "--memory", engine, "--rows", row] + (["--manifest", manifest] if manifest else [])
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        print(done.stderr[-2000:], file=sys.stderr)
        return None, None
    needed, held = done.stdout.split()[-2:]
    return int(needed), int(held)


def measure(row, engines, rounds, repeat, manifest):
    dtype = ROWS[row][1]
    module, inputs = make(row)
    state = copy.deepcopy(module.state_dict())
    step(module, inputs, torch.float32)  # autocast to f32 changes nothing
    reference = gradients(module)
    functions, result = {}, {"engines": {}}
    for engine in engines:
        module.load_state_dict(state)  # running statistics change
        clear(module)
        functions[engine] = compiled(module, engine, manifest)
        start = time.perf_counter()
        step(functions[engine], inputs, dtype)
        torch.cuda.synchronize()
        first = time.perf_counter() - start
        error = float((gradients(module) - reference).norm() / reference.norm())
        result["engines"][engine] = {"first_seconds": round(first, 2), "error": error, "times": []}
    del reference
    for _ in range(rounds):
        for engine in engines:
            result["engines"][engine]["times"].append(time_of(functions[engine], module, inputs, dtype, repeat))
    for engine in engines:
        result["engines"][engine]["ms"] = statistics.median(result["engines"][engine]["times"])
    return result


def profile(row, engine, manifest):
    module, inputs = make(row)
    function = compiled(module, engine, manifest)
    for _ in range(3):
        clear(module)
        step(function, inputs, ROWS[row][1])
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as found:
        clear(module)
        step(function, inputs, ROWS[row][1])
        torch.cuda.synchronize()
    print(found.key_averages().table(sort_by="self_cuda_time_total", row_limit=40, max_name_column_width=90))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", default="*")
    parser.add_argument("--engines", default=",".join(ENGINES))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--manifest", help="a pipeline manifest for Ferrite")
    parser.add_argument("--output", default=str(ROOT / "bench/results/torch-gpu.json"))
    parser.add_argument("--parts", default="times,memory")
    parser.add_argument("--add", action="store_true")
    parser.add_argument("--profile", metavar="ENGINE")
    parser.add_argument("--memory", metavar="ENGINE", help=argparse.SUPPRESS)
    options = parser.parse_args()
    torch.set_float32_matmul_precision("high")  # of the reference, and of what autocast leaves in f32
    rows = [row for row in ROWS if any(fnmatch.fnmatch(row, pattern) for pattern in options.rows.split(","))]
    if options.memory:
        print(*memory_of(rows[0], options.memory, options.manifest))
        return 0
    if options.profile:
        profile(rows[0], options.profile, options.manifest)
        return 0
    engines, parts = options.engines.split(","), options.parts.split(",")
    output = Path(options.output)
    known = json.loads(output.read_text())["rows"] if options.add and output.is_file() else {}
    results = {
        "command": figures.command("bench/torch_gpu.py"),
        "device": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "rows": known,
    }
    wrong = 0
    print(f"{'row':40} {'engine':11} {'ms':>8} {'memory MB':>10} {'first s':>8} {'error':>9}")
    for row in rows:
        found = known.setdefault(row, {"engines": {}})
        if "times" in parts:
            for engine, entry in measure(row, engines, options.rounds, options.repeat, options.manifest)["engines"].items():
                found["engines"].setdefault(engine, {}).update(entry)
            torch.cuda.empty_cache()
        for engine in engines:
            one = found["engines"].setdefault(engine, {})
            if "memory" in parts:
                one["memory_bytes"], one["held_bytes"] = memory_in_process(row, engine, options.manifest)
            right = one.get("error", 0) <= MOST_ERROR * found["engines"].get("eager", one).get("error", 1)  # false for NaN
            wrong += not right
            print(f"{row:40} {engine:11} {one.get('ms', 0):8.2f} {(one.get('memory_bytes') or 0) / 1e6:10.0f} "
                  f"{one.get('first_seconds', 0):8.1f} {one.get('error', 0):9.2e}{'' if right else '  WRONG'}", flush=True)
        ms = {engine: found["engines"].get(engine, {}).get("ms") for engine in ENGINES}
        if all(ms.values()):
            found["of_best_peer"] = min(ms["eager"], ms["inductor"]) / ms["ferrite"]
            print(f"{row:40} of the best peer's speed: {found['of_best_peer']:.2f}", flush=True)
        output.write_text(json.dumps(results, indent=1) + "\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
