# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Comparisons of results of operators: of values, and of the distributions of random ones."""

import math

import torch

# Relative errors of results that are computed in this dtype.
TOLERANCE = {torch.bfloat16: 4e-2, torch.float16: 4e-3, torch.float32: 2e-4, torch.float64: 1e-7}
DRAWS = 1000
# How often a distribution that is right may be called wrong. Seeds are fixed, so that an answer is always the same.
LEVEL = 1e-6


def leaves(value):
    """The tensors, numbers and other values in a structure."""
    if isinstance(value, (list, tuple)):
        return [leaf for element in value for leaf in leaves(element)]
    if isinstance(value, dict):
        return leaves(list(value.values()))
    return [value]


def clone(value):
    if isinstance(value, torch.Tensor):
        return value.detach().clone().requires_grad_(value.requires_grad)
    if isinstance(value, (list, tuple)):
        return type(value)(clone(element) for element in value) if not hasattr(value, "_fields") else value
    if isinstance(value, dict):
        return {key: clone(element) for key, element in value.items()}
    return value


def doubled(value):
    """The same in f64."""
    if isinstance(value, torch.Tensor) and value.is_floating_point():
        return value.detach().double().requires_grad_(value.requires_grad)
    if isinstance(value, (list, tuple)):
        return type(value)(doubled(element) for element in value) if not hasattr(value, "_fields") else value
    if isinstance(value, dict):
        return {key: doubled(element) for key, element in value.items()}
    return torch.float64 if value in (torch.bfloat16, torch.float32) else value


def kind_differs(actual, expected):
    """Why two values are not of the same type, dtype and shape, or ""."""
    if not isinstance(expected, torch.Tensor):
        return "" if type(actual) is type(expected) else f"a {type(actual).__name__} for a {type(expected).__name__}"
    if not isinstance(actual, torch.Tensor):
        return f"a {type(actual).__name__} for a tensor"
    if actual.dtype != expected.dtype or actual.shape != expected.shape:
        return f"{actual.dtype} {list(actual.shape)} for {expected.dtype} {list(expected.shape)}"
    return ""


def _parts(tensor):
    tensor = tensor.detach()
    return torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor


def _errors(actual, expected):
    """The largest and the mean error relative to the value and the mean of all; infinite where infinities or NaN differ."""
    odd = ~torch.isfinite(expected)
    if not torch.equal(torch.nan_to_num(actual[odd], nan=7.0), torch.nan_to_num(expected[odd], nan=7.0)):
        return math.inf, math.inf
    actual, expected = actual[~odd], expected[~odd]
    if not torch.isfinite(actual).all():
        return math.inf, math.inf
    if actual.numel() == 0:
        return 0.0, 0.0
    scale = expected.abs()
    errors = (actual - expected).abs() / (scale + max(1e-2, scale.mean().item()))
    return errors.max().item(), errors.mean().item()


def differs(actual, expected, dtype, exact=None):
    """Why a value is not what eager mode gives, or "". dtype: of the operands. exact: gives eager's value of operands of
    f64, or None. It is the judge of what eager itself computes with a large error: the own error may be twice eager's. Of
    operands of 16 bits, which are rounded several times, single elements may have more where the mean error is no larger."""
    if reason := kind_differs(actual, expected):
        return reason
    if not isinstance(expected, torch.Tensor):
        same = actual == expected or (isinstance(expected, float) and math.isclose(actual, expected, rel_tol=TOLERANCE.get(dtype, 1e-7)))
        return "" if same or actual != actual and expected != expected else f"{actual} for {expected}"
    if actual.numel() == 0 or actual.layout is not torch.strided:
        return ""
    a, e = _parts(actual), _parts(expected)
    if not a.is_floating_point():
        return "" if torch.equal(a, e) else f"{(a != e).sum().item()} of {a.numel()} differ"
    low = max(TOLERANCE[a.dtype], TOLERANCE[torch.bfloat16] if dtype is torch.bfloat16 else 0)
    a, e = a.double(), e.double()
    if (error := _errors(a, e)[0]) <= low:
        return ""
    reference = exact() if exact and dtype is not torch.float64 else None
    if isinstance(reference, torch.Tensor) and reference.shape == expected.shape:
        # What the dtype cannot hold is infinite in both.
        reference = _parts(reference).to(_parts(expected).dtype).double()
        (own, own_mean), (eager, eager_mean) = _errors(a, reference), _errors(e, reference)
        if own <= max(low, 2 * eager) or (dtype.itemsize == 2 and own <= 8 * eager and own_mean <= 1.25 * eager_mean):
            return ""
    return "other infinities or NaN" if error == math.inf else f"relative error {error:.2g}"


def _statistics(run, draws):
    """A row for each run: at most 64 of the elements of what it gives, then the mean of all, their mean square, and the
    mean product of neighbours."""
    rows = []
    for seed in range(draws):
        torch.manual_seed(seed)
        values = [_parts(leaf).double().flatten() for leaf in leaves(run()) if isinstance(leaf, torch.Tensor)]
        rows.append(torch.cat(values))
    rows = torch.stack(rows).nan_to_num(nan=1e30)
    if rows.shape[1] == 0:
        return rows
    means = [rows.mean(1), rows.square().mean(1), (rows * rows.roll(1, 1)).mean(1)]
    return torch.cat((rows[:, :: max(1, rows.shape[1] // 64)][:, :64], torch.stack(means, 1)), 1)


def distribution_differs(own, eager, dtype):
    """Why two random functions, each of which gives tensors, are of different distributions, or "".

    The distributions of each element, and of statistics of all elements, are compared by the two-sample test of Kolmogorov
    and Smirnov. Values that differ by rounding count as the same: a constant may be rounded in two ways.
    """
    a, e = _statistics(own, DRAWS), _statistics(eager, DRAWS)
    if a.shape != e.shape:
        return f"{a.shape[1]} statistics for {e.shape[1]}"
    if a.shape[1] == 0:
        return ""
    limit = math.sqrt(-math.log(LEVEL / 2 / a.shape[1]) / DRAWS)
    a, e = (values.t().contiguous().sort(1).values for values in (a, e))
    slack = TOLERANCE.get(dtype, 1e-6) / 4 * e.abs().mean(1, keepdim=True)
    places = torch.cat((a, e), 1)

    def share(values, below):
        return torch.searchsorted(values, below, right=True).double() / DRAWS

    distance = torch.maximum(share(a, places - slack) - share(e, places), share(e, places - slack) - share(a, places)).amax(1)
    worst = distance.argmax().item()
    if distance[worst] <= limit:
        return ""
    names = {len(distance) - 3: "the mean", len(distance) - 2: "the mean square", len(distance) - 1: "the product of neighbours"}
    name = names.get(worst, f"element {worst}")
    return f"other distribution of {name}: distance {distance[worst]:.2g}, of at most {limit:.2g}"
