# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs the models and optimizers of model_zoo.py through the backend and compares them with eager.

Usage: models.py [--only NAME,...] [--record FILE.json] [--limit SECONDS] [--list]

A model is run as people use it: once for inference (eval mode, no_grad) and, if it has a loss, for a step of
training (train mode, loss and gradients). For each run is told

    graphs     how many graphs PyTorch made of it; forward and backward pass are one each
    whole      how many of them have no node that fell back to PyTorch. Random numbers are no fallback: the
               option fallback_random asks PyTorch for them
    error      how far results, gradients and buffers are from those of eager in f64, as a multiple of what is
               allowed; above 1 they are wrong. See judged()

Each model has a process of its own and a time limit. With --record the rows are kept in a file as they come,
and models that are there already are not run again. The exit status is 1 if a model failed or was wrong.
"""

import argparse
import collections
import contextlib
import copy
import functools
import json
import logging
import math
import multiprocessing
import os
import pathlib
import re
import sys
import time
import traceback
import warnings

os.environ.setdefault("FERRITE_CACHE", "off")
os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch
from model_zoo import MODELS, Steps

LIBRARIES = ("torchvision", "transformers", "timm")  # loaded once, by the process from which all are forked
OPTIONS = {"fallback": "warn", "fallback_random": True}
WHOLE = 0.97  # the part of all graphs that has to be whole
SEEDS = 3  # how many weights and batches are tried before a result counts as wrong
ULPS = 8  # units in the last place that are allowed beside the error of eager
TOLERANCE = 2e-3  # of a tensor's largest element, where eager in f32 is the reference


def mapped(value, change):
    """A copy of nested lists, tuples and dicts with the change of each tensor; other values are copied."""
    if isinstance(value, torch.Tensor):
        return change(value)
    if type(value) in (list, tuple):
        return type(value)(mapped(one, change) for one in value)
    if type(value) is dict:
        return {key: mapped(one, change) for key, one in value.items()}
    return copy.deepcopy(value)


def tensors_in(value, name):
    """The tensors of a result, by their places in it."""
    if isinstance(value, torch.Tensor):
        return {name: value.detach()}
    if isinstance(value, dict):
        items = value.items()
    else:
        items = enumerate(value) if isinstance(value, (list, tuple)) else ()
    return {place: one for key, part in items for place, one in tensors_in(part, f"{name}.{key}").items()}


def run_model(sample, training, dtype, compiled):
    """All that a run gives: results and, of training, gradients and buffers, by name."""
    model = copy.deepcopy(sample.model).to(dtype).train(training)

    def converted(tensor):
        return tensor.to(dtype) if tensor.is_floating_point() else tensor.clone()

    args, kwargs, targets = (mapped(part, converted) for part in (sample.args, sample.kwargs, sample.targets))
    if not training:
        kwargs = {key: value for key, value in kwargs.items() if key not in ("labels", "return_loss")}

    def step(*args, **kwargs):
        return sample.loss(model(*args, **kwargs), *targets)

    function = step if training else model
    if compiled:
        function = torch.compile(function, backend="ferrite", options=OPTIONS, dynamic=False)
    torch.manual_seed(1)
    with contextlib.nullcontext() if training else torch.no_grad():
        result = function(*args, **kwargs)
    found = tensors_in(result, "result")
    if training:
        result.backward()
        for name, parameter in model.named_parameters():
            if parameter.grad is not None:
                found[f"gradient of {name}"] = parameter.grad
        found.update({f"buffer {name}": buffer for name, buffer in model.named_buffers()})
    return found


def run_steps(steps, dtype, compiled):
    """The changes of the parameters in two steps."""
    optimizer, parameters = steps.make(dtype, compiled)
    before = [one.detach().clone() for one in parameters]
    step = optimizer.step
    if compiled:
        step = torch.compile(step, backend="ferrite", options=OPTIONS, dynamic=False)
    for _ in range(2):
        step()
    return {f"parameter {k}": one.detach() - old for k, (one, old) in enumerate(zip(parameters, before))}


def far(one, other):
    """The largest difference as a part of the largest element of `other`; inf for different shapes."""
    if one.shape != other.shape:
        return float("inf")
    one, other = one.double(), other.double()
    same = (one == other) | (one.isnan() & other.isnan())
    differences = torch.where(same, 0, (one - other).abs()).nan_to_num(nan=float("inf"))
    finite = other[other.isfinite()].abs()
    largest = finite.max().item() if finite.numel() else 0.0
    return differences.max().item() / max(largest, 1e-3) if one.numel() else 0.0


def judged(actual, expected, exact, rounds_to):
    """The worst error as a multiple of what is allowed, the tensor that has it, and the reference.

    As in BackendTest.assertNoWorse, four times the error of eager in f32 and a few units in the last place
    are allowed; errors are parts of each tensor's largest element. Eager's error is that of its worst tensor
    of the same group: results, gradients or buffers. (A single tensor of eager may be right by luck, and
    norms over few values make much of little.)

    Where eager's runs in f32 and f64 differ by more than a percent, since they chose differently or drew
    other random numbers, or where f64 cannot run (exact is None), eager in f32 is the reference; four times
    the difference of eager's runs, of the same tensor, is allowed beside the tolerance. What is wrong by that
    runs in f64 once more and is compared with eager in f64, see measured().
    """
    if actual.keys() != expected.keys():
        return {"worst": "the set of tensors", "error": float("inf"), "reference": "f32"}
    own_of_eager = {}
    for name, wanted in expected.items():
        group = name.split(" ")[0].split(".")[0]
        error = far(wanted, exact[name]) if exact is not None and name in exact else float("inf")
        own_of_eager[group] = max(own_of_eager.get(group, 0.0), error)
    agree = all(error < 1e-2 for error in own_of_eager.values())
    worst = ("", 0.0)
    for name, wanted in expected.items():
        if actual[name].dtype != wanted.dtype or actual[name].shape != wanted.shape:
            error = float("inf")
        elif not wanted.is_floating_point():
            error = 0.0 if torch.equal(actual[name], wanted) else float("inf")
        elif agree:
            allowed = 4 * own_of_eager[name.split(" ")[0].split(".")[0]] + ULPS * torch.finfo(rounds_to).eps
            error = far(actual[name], exact[name]) / allowed
        else:
            unsure = far(wanted, exact[name]) if exact is not None and name in exact else 0.0
            error = far(actual[name], wanted) / (TOLERANCE + (4 * unsure if math.isfinite(unsure) else 0))
        if error >= worst[1]:
            worst = (name, error)
    return {"tensors": len(expected), "worst": worst[0], "error": worst[1],
            "reference": "f64" if agree else "f32", "eager": own_of_eager}


def is_random(overload):
    """Whether the option fallback_random asks PyTorch for the node. Attention has the tag, too."""
    namespace, _, name = overload.partition(".")
    operator = getattr(torch.ops, namespace, None)
    for part in name.split("."):
        operator = getattr(operator, part, None)
    return torch.Tag.nondeterministic_seeded in getattr(operator, "tags", ()) and "attention" not in overload


def counted(reports):
    """The graphs of the reports of a run, how many are whole, and what fell back and why."""
    graphs = whole = 0
    reasons = collections.Counter()
    for report in reports:
        if report.kind == "joint" and report.note:
            continue  # its parts have reports of their own
        # Nodes that differ only in their names and lines count together.
        missing = [(overload, re.sub(r"node '[^']*' \([^)]*\)( at \S+)?: ", "", reason))
                   for _, overload, reason in report.unsupported if not is_random(overload)]
        number = 2 if report.kind == "joint" else 1
        graphs += number
        whole += 0 if missing else number
        reasons.update(missing)
    notes = sorted({report.note for report in reports if report.note})
    return {"graphs": graphs, "whole": whole, "notes": notes,
            "fallbacks": [[overload, reason, count] for (overload, reason), count in reasons.most_common()]}


def failure(error):
    """The row of an exception, within its handler."""
    text = f"{type(error).__name__}: {error}"
    return {"status": "failed", "text": text[:1500], "trace": traceback.format_exc()[-3000:]}


def is_sure(row):
    """Whether no other weights and batch are to be tried.

    An element beside the kink of a relu, or one of two that are nearly the largest, may come out on either
    side. Then gradients of small batches differ by much, between runs of eager, too.
    """
    return row["status"] == "right" and (row["reference"] != "f32" or row["no_f64"])


def measured(run, rounds_to=torch.float32):
    """A row of the table. run(dtype, compiled) gives tensors by name."""
    from ferrite.torch import _compile

    started = time.monotonic()
    expected = run(torch.float32, False)
    try:
        exact, why = run(torch.float64, False), ""
    except (RuntimeError, TypeError, ValueError, AttributeError) as error:
        exact, why = None, f"{type(error).__name__}: {error}"[:200]
    reports = []
    _compile.listeners.append(reports.append)
    begun = time.monotonic()
    try:
        row = judged(run(torch.float32, True), expected, exact, rounds_to)
        if row["error"] > 1 and row["reference"] == "f32" and exact is not None:
            # Eager in f32 is no reference where its gradients are far from those in f64: both run in f64.
            reports.clear()
            row = judged(run(torch.float64, True), exact, None, rounds_to) | {"reference": "f64, both in f64"}
        row["status"] = "right" if row["error"] <= 1 else "wrong"
    except Exception as error:
        row = failure(error)
    finally:
        _compile.listeners.remove(reports.append)
    ended = time.monotonic()
    seconds = {"seconds": round(ended - started, 1), "own_seconds": round(ended - begun, 1)}
    return {**row, **counted(reports), "no_f64": why, **seconds}


def rows_of(name):
    """The rows of a model with their names: "inference" and "training", or "steps"."""
    one = MODELS[name]
    if isinstance(one, Steps):
        yield "steps", measured(functools.partial(run_steps, one), one.rounds_to)
        return
    for mode in ("inference", "training"):
        rows = []
        for seed in range(SEEDS):
            torch.manual_seed(seed)
            sample = one()
            if mode == "training" and sample.loss is None:
                break
            torch._dynamo.reset()
            rows.append(measured(functools.partial(run_model, sample, mode == "training")))
            if rows[-1]["status"] == "failed" or is_sure(rows[-1]):
                break
        if rows:
            last = rows[-1]
            if last["status"] != "failed" and not is_sure(last):
                right = [row for row in rows if row["status"] == "right"]
                last = right[0] if 2 * len(right) > len(rows) else last
            yield mode, last | {"tries": [row.get("error") for row in rows]}


def child(name, sender):
    """The whole of a model's process: sends its rows one by one, and at last None."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    for library in ("torch", "transformers"):
        logging.getLogger(library).setLevel(logging.ERROR)
    try:
        for row in rows_of(name):
            sender.send(row)
    except ModuleNotFoundError as error:
        sender.send(("model", {"status": "skipped", "text": str(error)}))
    except Exception as error:
        sender.send(("model", failure(error)))
    sender.send(None)


def row_of_process(context, name, limit):
    """Runs a model in a process of its own, for at most `limit` seconds."""
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=child, args=(name, sender))
    process.start()
    sender.close()
    rows, end = {}, time.monotonic() + limit
    try:
        while receiver.poll(max(0, end - time.monotonic())):
            message = receiver.recv()
            if message is None:
                return rows
            rows[message[0]] = message[1]
        rows["model"] = {"status": "failed", "text": f"not done after {limit} s"}
    except EOFError:
        process.join()
        rows["model"] = {"status": "failed", "text": f"the process ended with {process.exitcode}"}
    finally:
        if process.is_alive():
            process.join(5)
            process.kill()
        process.join()
    return rows


def described(name, mode, row):
    """A row as a line of text, with what fell back on lines below."""
    text = f"{name:32} {mode:9} {row['status']:7}"
    if "graphs" in row:
        text += f" {row['whole']} of {row['graphs']} graphs whole"
    if "error" in row:
        text += f", error {row['error']:.2f} of the allowed ({row['reference']}; {row['worst']})"
    if len(row.get("tries", [])) > 1:
        text += f", {len(row['tries'])} tries"
    if "text" in row:
        text += f": {row['text']}"
    for overload, reason, count in row.get("fallbacks", []):
        text += f"\n  in PyTorch: {overload} ({count} nodes): {reason}"
    return text


def summary(rows):
    """How many models, graphs and whole graphs; for each status but "right" the names of its rows."""
    total = collections.Counter()
    bad = {"wrong": [], "failed": [], "skipped": []}
    for name, modes in rows.items():
        for mode, row in modes.items():
            total.update(graphs=row.get("graphs", 0), whole=row.get("whole", 0))
            if row["status"] in bad:
                bad[row["status"]].append(f"{name} {mode}")
    return {"models": len(rows), "graphs": total["graphs"], "whole": total["whole"], **bad}


def run(names, record=None, limit=300, say=print):
    """Runs these models in this order; returns their rows by model and mode. record: a file for them."""
    path = pathlib.Path(record) if record else None
    known = json.loads(path.read_text()) if path and path.exists() else {}
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["torch._dynamo", "ferrite.torch", *LIBRARIES])
    for name in names:
        if name in known:
            continue
        known[name] = row_of_process(context, name, limit)
        for mode, row in known[name].items():
            say(described(name, mode, row))
        if path:
            path.write_text(json.dumps(known, indent=1))
    return {name: known[name] for name in names}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", help="names, or regular expressions of whole names, with commas between")
    parser.add_argument("--record", help="a JSON file of rows; models that it has are not run again")
    parser.add_argument("--limit", type=float, default=300, help="seconds that a model may take")
    parser.add_argument("--list", action="store_true", help="only print the names")
    chosen = parser.parse_args()
    wanted = chosen.only.split(",") if chosen.only else [".*"]
    names = list(dict.fromkeys(name for one in wanted for name in MODELS if re.fullmatch(one, name)))
    if not names:
        parser.error(f"no model has the name {chosen.only}; --list gives all")
    if chosen.list:
        print("\n".join(names))
        return 0
    result = summary(run(names, chosen.record, chosen.limit, lambda text: print(text, flush=True)))
    part = result["whole"] / max(result["graphs"], 1)
    print(f"{result['models']} models, {result['graphs']} graphs, {result['whole']} whole ({part:.1%})")
    for status in ("wrong", "failed", "skipped"):
        if result[status]:
            print(f"{status}: {', '.join(result[status])}")
    return 1 if result["wrong"] or result["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
