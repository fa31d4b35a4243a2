# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""PyTorch's own samples of its operators (op_db) through torch.compile(backend="ferrite"), compared with eager.

Usage: operators.py [--part K/N] [--only NAME,...] [--dtypes float32,...] [--samples 2] [--record FILE] [--seconds S]

Prints a line for each operator and dtype that is not right: fallback (nodes ran in PyTorch) or wrong, with the reason. Exit
status 1 if any is wrong. --record appends the verdicts to a JSON file, and skips what stands in it already.
"""

import argparse
import collections
import json
import os
import pathlib
import sys
import time
import warnings

import torch

torch.set_num_threads(1)
warnings.simplefilter("ignore")

from ferrite.torch import _compile  # noqa: E402
from torch.testing._internal.common_methods_invocations import op_db  # noqa: E402

DTYPES = {"float32": torch.float32, "float64": torch.float64, "bfloat16": torch.bfloat16, "int64": torch.int64, "bool": torch.bool}
# What these give is not determined by their inputs.
UNDETERMINED = {"empty", "empty_like", "new_empty", "empty_permuted", "empty_strided", "new_empty_strided"}
# Among equal elements these may choose any.
UNORDERED = {"topk", "kthvalue", "msort", "argsort", "sort", "median", "nanmedian", "mode"}
RANDOM = {"bernoulli", "cauchy", "exponential", "geometric", "log_normal", "multinomial", "normal", "rand_like", "randint",
          "randint_like", "randn", "randn_like", "uniform", "nn.functional.dropout", "nn.functional.dropout2d",
          "nn.functional.dropout3d", "nn.functional.alpha_dropout", "nn.functional.feature_alpha_dropout",
          "nn.functional.feature_alpha_dropout", "nn.functional.fractional_max_pool2d", "nn.functional.fractional_max_pool3d",
          "nn.functional.rrelu", "nn.functional.scaled_dot_product_attention", "nn.functional.multi_head_attention_forward",
          "pca_lowrank", "svd_lowrank", "bfloat16"}


def leaves(value):
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, (list, tuple)):
        return [leaf for element in value for leaf in leaves(element)]
    return []


def clone(value):
    if isinstance(value, torch.Tensor):
        return value.detach().clone().requires_grad_(value.requires_grad)
    if isinstance(value, (list, tuple)):
        return type(value)(clone(element) for element in value) if not hasattr(value, "_fields") else value
    if isinstance(value, dict):
        return {key: clone(element) for key, element in value.items()}
    return value


def close(actual, expected, dtype):
    if actual.dtype != expected.dtype or actual.shape != expected.shape:
        return f"{actual.dtype} {list(actual.shape)} for {expected.dtype} {list(expected.shape)}"
    if actual.numel() == 0 or actual.layout is not torch.strided:
        return ""
    if actual.is_complex():
        actual, expected = torch.view_as_real(actual.resolve_conj()), torch.view_as_real(expected.resolve_conj())
    if not actual.is_floating_point():
        return "" if torch.equal(actual, expected) else f"{(actual != expected).sum().item()} of {actual.numel()} differ"
    a, e = actual.detach().double(), expected.detach().double()
    low = {torch.bfloat16: 4e-2, torch.float16: 4e-3, torch.float32: 2e-4, torch.float64: 1e-7}[actual.dtype]
    if dtype is torch.bfloat16:
        low = max(low, 4e-2)
    odd = ~torch.isfinite(e)
    if not torch.equal(torch.nan_to_num(a[odd]), torch.nan_to_num(e[odd])) or not torch.isfinite(a[~odd]).all():
        return "other infinities or NaN"
    if odd.all():
        return ""
    scale = e[~odd].abs()
    error = ((a[~odd] - e[~odd]).abs() / (scale + max(1e-2, scale.mean().item()))).max().item()
    return "" if error <= low else f"relative error {error:.2g}"


def outcome(op, sample, dtype, backward):
    """("pass" | "fallback" | "wrong" | "skip", reason)"""
    torch._dynamo.reset()

    def f(input, args, kwargs):
        return op.op(input, *args, **kwargs)

    given = (sample.input, sample.args, sample.kwargs)
    try:
        torch.manual_seed(0)
        first = clone(given)
        expected = f(*first)
        tensors = [leaf for leaf in leaves(expected) if leaf.requires_grad] if backward else []
        wanted = [leaf for leaf in leaves([first[0], first[1], list(first[2].values())]) if leaf.requires_grad]
        has_gradients = tensors and wanted and not any(t.is_complex() for t in tensors)
        gradients = torch.autograd.grad([t.sum() for t in tensors], wanted, allow_unused=True) if has_gradients else []
    except Exception as error:
        return "skip", f"eager: {type(error).__name__}"
    reports = []
    _compile.listeners.append(reports.append)
    try:
        torch.manual_seed(0)
        second = clone(given)
        compiled = torch.compile(f, backend="ferrite", options={"fallback": "silent", "fallback_random": True, "threads": 1})
        actual = compiled(*second)
        own = []
        if len(gradients) > 0:
            again = [leaf for leaf in leaves([second[0], second[1], list(second[2].values())]) if leaf.requires_grad]
            own = torch.autograd.grad([t.sum() for t in leaves(actual) if t.requires_grad], again, allow_unused=True)
    except Exception as error:
        text = str(error).strip().splitlines()
        return "wrong", f"raises {type(error).__name__}: {' '.join(text)[:300]}"
    finally:
        _compile.listeners.pop()
    if op.name not in UNDETERMINED:
        a, e = leaves(actual), leaves(expected)
        if len(a) != len(e):
            return "wrong", f"{len(a)} results for {len(e)}"
        for k, (x, y) in enumerate(zip(a, e)):
            if (reason := close(x, y, dtype)) and not (k == 1 and op.name in UNORDERED):
                return "wrong", f"result {k}: {reason}"
        for k, (x, y) in enumerate(zip(own, gradients)):
            if (x is None) != (y is None) and not (y is None and x.abs().max() == 0) and not (x is None and y.abs().max() == 0):
                return "wrong", f"gradient {k}: {'missing' if x is None else 'too many'}"
            if x is not None and y is not None and (reason := close(x, y, dtype)):
                return "wrong", f"gradient {k}: {reason}"
    found = [(name, reason) for report in reports for _, name, reason in report.unsupported]
    if found:
        return "fallback", "; ".join(sorted({f"{name}: {reason}" for name, reason in found}))[:400]
    return "pass", ""


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--part", default="0/1")
    parser.add_argument("--only")
    parser.add_argument("--dtypes", default=",".join(DTYPES))
    parser.add_argument("--samples", type=int, default=2)
    parser.add_argument("--record", type=pathlib.Path)
    parser.add_argument("--seconds", type=float, default=1e9)
    options = parser.parse_args()
    part, parts = map(int, options.part.split("/"))
    record = json.loads(options.record.read_text()) if options.record and options.record.exists() else {}
    started, counts, wrong = time.time(), collections.Counter(), 0
    for k, op in enumerate(op_db):
        name = f"{op.name}.{op.variant_test_name}" if op.variant_test_name else op.name
        if k % parts != part or (options.only and op.name not in options.only.split(",")) or op.name in RANDOM:
            continue
        for dtype_name in options.dtypes.split(","):
            dtype, key = DTYPES[dtype_name], f"{name} {dtype_name}"
            if dtype not in op.supported_dtypes("cpu") or key in record or time.time() - started > options.seconds:
                continue
            verdicts = []
            backward = op.supports_autograd and dtype in (torch.float32, torch.float64) and dtype in op.supported_backward_dtypes("cpu")
            try:
                for _, sample in zip(range(options.samples), op.sample_inputs("cpu", dtype, requires_grad=backward)):
                    verdicts.append(outcome(op, sample, dtype, backward))
            except Exception as error:
                verdicts.append(("skip", f"samples: {type(error).__name__}"))
            order = ["wrong", "fallback", "pass", "skip"]
            verdict, reason = min(verdicts, key=lambda one: order.index(one[0]), default=("skip", "no samples"))
            record[key] = [verdict, reason]
            counts[verdict] += 1
            wrong += verdict == "wrong"
            if verdict in ("wrong", "fallback"):
                print(f"{verdict:8} {key}: {reason}", flush=True)
            if options.record:
                options.record.write_text(json.dumps(record, indent=0, sort_keys=True))
    print(", ".join(f"{counts[word]} {word}" for word in ("pass", "fallback", "wrong", "skip")), f"in {time.time() - started:.0f} s")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
