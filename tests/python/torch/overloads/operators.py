# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""PyTorch's own samples of its operators (op_db), on the CPU, through torch.compile, compared with eager.

Usage: operators.py [--engine ferrite|inductor] [--part K/N] [--only NAME,...] [--dtypes float32,...] [--samples 2]
                    [--record FILE] [--again VERDICT,...] [--seconds S]
       operators.py --report [--record FILE]

Verdicts of Ferrite, of the worst of an operator's samples, forward and backward:

    pass      the results are right, and no node ran in PyTorch
    fallback  the results are right, but the named nodes ran in PyTorch, or Dynamo broke the graph
    wrong     a result differs from eager's, or compiling raised an error
    skip      eager itself raises, or there are no samples

Of Inductor: `whole`, it lowers each node itself; `fallback`, the named overloads are left to ATen, or Dynamo broke the graph;
`error`, it raises; and `skip`. operator_inductor.py says how that is found.

Results that depend on PyTorch's generator are compared twice: with `fallback_random` they equal those of eager mode; without,
they have its shape, dtype and distribution, whatever the verdict. Exit status 1 if any is wrong.

--record keeps the verdicts in a JSON file. What stands in it is not run again, unless its verdict is one of --again. Where
this process ends while an operator runs, as it does in a crash, "wrong: the process ended" stays there.
"""

import argparse
import collections
import itertools
import json
import pathlib
import random
import re
import signal
import sys
import time
import warnings

import operator_inductor
import torch
from operator_checks import clone, differs, distribution_differs, doubled, kind_differs, leaves
from torch.utils import _pytree as pytree

torch.set_num_threads(1)
warnings.simplefilter("ignore")

from torch.testing._internal import common_methods_invocations  # noqa: E402

# op_db would set the same seed in each call of a random operator: a graph break, and no randomness is left.
common_methods_invocations.wrapper_set_seed = lambda function, *args, **kwargs: function(*args, **kwargs)

DTYPES = {"float32": torch.float32, "float64": torch.float64, "bfloat16": torch.bfloat16, "int64": torch.int64, "bool": torch.bool}
FLOATS = (torch.float32, torch.float64, torch.bfloat16)
RECORD = pathlib.Path(__file__).resolve().parents[4] / "bench" / "results" / "torch-operators.json"
VERDICTS = {"ferrite": ("wrong", "fallback", "pass", "skip"), "inductor": ("error", "fallback", "whole", "skip")}
ATTENTION = "nn.functional.scaled_dot_product_attention"
# What these give is not determined by their inputs, nor by a seed.
UNDETERMINED = {"empty", "empty_like", "new_empty", "empty_permuted", "empty_strided", "new_empty_strided"}
# The place of the result among these operators' results that holds places of elements. Of equal elements, any may be chosen,
# and gets the gradient: eager on the CPU sorts long rows without keeping the order of equal elements. msort gives no places.
PLACES = {"topk": 1, "kthvalue": 1, "sort": 1, "median": 1, "nanmedian": 1, "mode": 1, "argsort": 0, "msort": None}
ENDED = "the process ended"
ABOUT = {
    "commands": ["operators.py --record FILE", "operators.py --engine inductor --dtypes float32 --record FILE"],
    "ferrite": "pass: results are right and no node ran in PyTorch; fallback: right, but these nodes did, or Dynamo broke the graph; "
               "wrong: results are not eager's; skip: eager raises",
    "inductor": "whole: each node is lowered, or calls a library that Inductor chooses (mm, convolution); fallback: FallbackKernels "
                "of these overloads, or Dynamo broke the graph; found in Inductor's lowering, without compiling its code",
}


class Case:
    """A sample of an operator."""

    def __init__(self, op, sample, dtype, backward):
        self.op, self.dtype, self.backward = op, dtype, backward
        self.given = (sample.input, sample.args, sample.kwargs)

    def function(self):
        op = self.op.op
        return lambda input, args, kwargs: op(input, *args, **kwargs)

    def results(self, function, given=None):
        """The values that the function gives, and the gradients of the tensors among the operands: (values, gradients)."""
        given = clone(self.given if given is None else given)
        values = leaves(function(*given))
        if not self.backward:
            return values, []
        tensors = [leaf for leaf in values if isinstance(leaf, torch.Tensor) and leaf.requires_grad and not leaf.is_complex()]
        wanted = [leaf for leaf in leaves(given) if isinstance(leaf, torch.Tensor) and leaf.requires_grad]
        if not tensors or not wanted:
            return values, []
        generator = torch.Generator().manual_seed(7)  # ones would have a gradient of zero in normalisations
        weights = [torch.randn(tensor.shape, generator=generator).to(tensor.dtype) for tensor in tensors]
        return values, list(torch.autograd.grad(tensors, wanted, weights, allow_unused=True))

    def seeded(self, function, seed=0):
        torch.manual_seed(seed)
        return self.results(function)

    def wrong(self, own, eager, only_kind=False):
        """Why results differ from those of eager mode, or ""."""
        (values, gradients), (expected, expected_gradients) = own, eager
        if len(values) != len(expected):
            return f"{len(values)} results for {len(expected)}"
        tied = self.is_tied()
        for k, (a, e) in enumerate(zip(values, expected)):
            exact = lambda k=k: self.exact()[0][k]  # noqa: E731
            may_differ = only_kind or (tied and PLACES[self.op.name] == k)
            if may_differ and self.op.name == "argsort":
                a, e, may_differ = self.at_places(a), self.at_places(e), False
            if reason := kind_differs(a, e) if may_differ else differs(a, e, self.dtype, exact):
                return f"result {k}: {reason}"
        for k, (a, e) in enumerate(zip(gradients, expected_gradients)):
            if a is None or e is None:
                if any(one is not None and one.abs().max() > 0 for one in (a, e)):
                    return f"gradient {k}: {'missing' if a is None else 'too many'}"
                continue
            exact = lambda k=k: self.exact()[1][k]  # noqa: E731
            if tied:
                a, e, exact = self.of_equal_elements(a), self.of_equal_elements(e), None
            if reason := kind_differs(a, e) if only_kind else differs(a, e, self.dtype, exact):
                return f"gradient {k}: {reason}"
        return ""

    def less_accurate_on_average(self, run, draws=40):
        """Why a function has larger errors than eager mode, or "". Gradients of attention in flash form read the rounded result,
        so that a sample of a few rows of 16 bits tells little: the mean errors of many draws are compared."""
        own = eager = 0
        given = self.given
        for _ in range(draws):
            self.given = pytree.tree_map_only(torch.Tensor, lambda one: torch.randn_like(one).requires_grad_(one.requires_grad), given)
            exact, values, expected = (sum(map(list, self.results(*of)), [])
                                       for of in ((self.function(), doubled(self.given)), (run,), (self.function(),)))
            scales = [one.abs().mean() for one in exact]
            own = own + torch.stack([(a.double() - x).abs().mean() / scale for a, x, scale in zip(values, exact, scales)])
            eager = eager + torch.stack([(e.double() - x).abs().mean() / scale for e, x, scale in zip(expected, exact, scales)])
        self.given = given
        ratio = (own / eager).max().item()
        return "" if ratio <= 1.5 else f"errors are {ratio:.2g} of eager's on average"

    def is_tied(self):
        """Whether the operator may choose among equal elements."""
        if self.op.name not in PLACES or self.given[2].get("stable"):
            return False
        return self.given[0].unique().numel() < self.given[0].numel()

    def at_places(self, places):
        """The elements at the places that argsort gives."""
        _, args, kwargs = self.given
        dim = kwargs.get("dim", args[0] if args else -1)
        return torch.take_along_dim(self.given[0], places, dim) if places.dim() else self.given[0]

    def of_equal_elements(self, gradient):
        """The sum of the gradient over each set of equal elements: it does not depend on the choice."""
        values, sets = self.given[0].detach().unique(return_inverse=True)
        return torch.zeros(values.numel(), dtype=gradient.dtype).index_add(0, sets.flatten(), gradient.flatten())

    def exact(self):
        torch.manual_seed(0)
        try:
            return self.results(self.function(), doubled(self.given))
        except Exception:  # of other dtypes only
            return collections.defaultdict(lambda: None), collections.defaultdict(lambda: None)

    def is_random(self, eager):
        with torch.random.fork_rng(devices=[]):
            return bool(self.wrong(self.seeded(self.function(), 1), eager))


def graph_breaks():
    return sorted({re.sub(r"\s+", " ", text.splitlines()[0])[:80] for text in torch._dynamo.utils.counters["graph_break"]})


def error_text(error):
    cause = getattr(error, "inner_exception", None) or error
    return f"raises {type(cause).__name__}: {' '.join(str(cause).partition('Set TORCHDYNAMO')[0].split())[:200]}"


def of_ferrite(case, eager):
    """(verdict, reason)"""
    from ferrite.torch import _compile  # here: Inductor's verdicts need no Ferrite

    def compiled(fallback_random):
        torch._dynamo.reset()
        torch._dynamo.utils.counters.clear()
        return torch.compile(case.function(), backend="ferrite",
                             options={"fallback": "silent", "fallback_random": fallback_random, "threads": 1})

    reports = []
    undetermined = case.op.name in UNDETERMINED
    is_random = not undetermined and case.is_random(eager)
    if is_random:
        try:
            if reason := case.wrong(case.seeded(compiled(True)), eager):
                return "wrong", f"random numbers of PyTorch: {reason}"
        except Exception as error:
            return "wrong", f"random numbers of PyTorch: {error_text(error)}"
    _compile.listeners.append(reports.append)
    try:
        run = compiled(False)
        own = case.seeded(run)
    except Exception as error:
        return "wrong", error_text(error)
    finally:
        _compile.listeners.pop()
    reason = case.wrong(own, eager, only_kind=is_random or undetermined)
    if reason and case.op.name == ATTENTION and case.dtype is torch.bfloat16 and not is_random:
        reason = case.less_accurate_on_average(run)
    if reason:
        return "wrong", reason
    breaks = graph_breaks()
    if is_random:
        eager_function = case.function()
        if reason := distribution_differs(lambda: case.results(run), lambda: case.results(eager_function), case.dtype):
            return "wrong", reason
    found = {f"{name} ({reason.split(':')[0]})" if reason.startswith("FE-") else f"{name} ({reason})"
             for report in reports for _, name, reason in report.unsupported}
    if found or breaks:
        return "fallback", "; ".join([*sorted(found), *(f"graph break: {text}" for text in breaks)])[:300]
    return "pass", ""


def of_inductor(case, _):
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    fallbacks = set()
    try:
        case.seeded(operator_inductor.compiled(case.function(), fallbacks))
    except Exception as error:
        return "error", error_text(error)
    breaks = [f"graph break: {text}" for text in graph_breaks()]
    return ("fallback", "; ".join([*sorted(fallbacks), *breaks])[:300]) if fallbacks or breaks else ("whole", "")


def verdict_of(op, dtype, engine, samples):
    """The worst of the samples' verdicts, as "verdict" or "verdict: reason"."""
    judge = {"ferrite": of_ferrite, "inductor": of_inductor}[engine]
    backward = op.supports_autograd and dtype in FLOATS and dtype in op.supported_backward_dtypes("cpu")
    found = []
    torch.manual_seed(0)
    random.seed(0)
    try:
        cases = [Case(op, sample, dtype, backward)
                 for sample in itertools.islice(op.sample_inputs("cpu", dtype, requires_grad=backward), samples)]
    except Exception as error:
        return f"skip: samples: {type(error).__name__}"
    for case in cases:
        try:
            eager = case.seeded(case.function())
        except Exception as error:
            found.append(("skip", f"eager: {type(error).__name__}"))
            continue
        found.append(judge(case, eager))
    verdict, reason = min(found, key=lambda one: VERDICTS[engine].index(one[0]), default=("skip", "no samples"))
    return f"{verdict}: {reason}" if reason else verdict


class Record:
    """operators: {operator: {engine: {dtype: verdict}}}, a line each."""

    def __init__(self, path):
        self.path = path
        stored = json.loads(path.read_text()) if path and path.exists() else {}
        self.about = stored.get("about", {})
        self.operators = stored.get("operators", {})

    def get(self, name, engine, dtype):
        return self.operators.get(name, {}).get(engine, {}).get(dtype)

    def set(self, name, engine, dtype, verdict):
        self.operators.setdefault(name, {}).setdefault(engine, {})[dtype] = verdict

    def write(self):
        if not self.path:
            return
        lines = ",\n".join(f"  {json.dumps(name)}: {json.dumps(self.operators[name], sort_keys=True)}" for name in sorted(self.operators))
        about = json.dumps(self.about, indent=1, sort_keys=True).replace("\n", "\n ")
        written = self.path.with_suffix(".new")
        written.write_text(f'{{\n "about": {about},\n "operators": {{\n{lines}\n }}\n}}\n')
        written.replace(self.path)


def report(record):
    """Prints the counts of each dtype, and how Ferrite compares with Inductor."""
    for dtype in DTYPES:
        counts = collections.Counter((engines.get("ferrite", {}).get(dtype) or "").split(":")[0] for engines in record.operators.values())
        print(f"{dtype:9}", ", ".join(f"{counts[word]} {word}" for word in VERDICTS["ferrite"][::-1][1:] + ("skip",)))
    whole = sorted(name for name in record.operators if record.get(name, "inductor", "float32") == "whole")
    own = {name: record.get(name, "ferrite", "float32") or "not run" for name in whole}
    passed = sum(verdict == "pass" for verdict in own.values())
    print(f"\nOf {len(whole)} operators that Inductor runs whole in float32, Ferrite runs {passed}: {100 * passed / max(1, len(whole)):.1f} %.")
    only = sum(record.get(name, "ferrite", "float32") == "pass" and record.get(name, "inductor", "float32") != "whole"
               for name in record.operators)
    print(f"It runs {only} that Inductor does not run whole.")
    reasons = collections.Counter()
    for name, verdict in own.items():
        if verdict != "pass":
            print(f"  {name}: {verdict}")
            reasons.update({part.strip() for part in verdict.partition(": ")[2].split(";")})
    print("\nReasons, with the number of these operators:")
    for reason, count in reasons.most_common():
        print(f"  {count:3} {reason}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--engine", choices=VERDICTS, default="ferrite")
    parser.add_argument("--part", default="0/1")
    parser.add_argument("--only")
    parser.add_argument("--dtypes", default=",".join(DTYPES))
    parser.add_argument("--samples", type=int, default=2)
    parser.add_argument("--record", type=pathlib.Path)
    parser.add_argument("--again", default="")
    parser.add_argument("--seconds", type=float, default=1e9)
    parser.add_argument("--report", action="store_true")
    options = parser.parse_args()
    if options.report:
        return report(Record(options.record or RECORD))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    part, parts = map(int, options.part.split("/"))
    record = Record(options.record)
    record.about.update({"torch": torch.__version__, "samples": options.samples, **ABOUT})
    bad = VERDICTS[options.engine][0]
    started, counts = time.time(), collections.Counter()
    for k, op in enumerate(common_methods_invocations.op_db):
        name = f"{op.name}.{op.variant_test_name}" if op.variant_test_name else op.name
        if k % parts != part or (options.only and op.name not in options.only.split(",")):
            continue
        for dtype_name in options.dtypes.split(","):
            before = record.get(name, options.engine, dtype_name)
            if before and before.split(":")[0] not in options.again.split(","):
                continue
            if DTYPES[dtype_name] not in op.supported_dtypes("cpu") or time.time() - started > options.seconds:
                continue
            verdict = before
            record.set(name, options.engine, dtype_name, f"{bad}: {ENDED}")
            record.write()
            try:
                verdict = verdict_of(op, DTYPES[dtype_name], options.engine, options.samples)
            finally:
                if verdict is None:
                    del record.operators[name][options.engine][dtype_name]
                else:
                    record.set(name, options.engine, dtype_name, verdict)
                record.write()
            word = verdict.split(":")[0]
            counts[word] += 1
            if word in (bad, "fallback"):
                print(f"{name} {dtype_name}: {verdict}", flush=True)
    print(", ".join(f"{counts[word]} {word}" for word in VERDICTS[options.engine]), f"in {time.time() - started:.0f} s")
    return 1 if counts[bad] else 0


if __name__ == "__main__":
    sys.exit(main())
