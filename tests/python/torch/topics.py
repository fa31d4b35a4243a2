# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tables of small functions that a compiled call must treat as eager does: results, gradients, memory and arguments."""

import copy
import dataclasses
import itertools

import torch
from common import BackendTest

# Relative and absolute error; of f32 and f64 more than rounding allows, since sums may be added in another order.
TOLERANCES = {torch.float64: (1e-9, 1e-10), torch.float32: (2e-4, 2e-5), torch.float16: (4e-3, 4e-3), torch.bfloat16: (4e-2, 4e-2)}


@dataclasses.dataclass
class Case:
    """A function and its arguments.

    gradients: compares also the gradients by all floating arguments.
    reference: compares the error with that of eager, both against f64.
    fallback: whether nodes may run in PyTorch: "error" or "silent".
    dynamic: with symbolic sizes.
    """

    function: object
    args: tuple
    gradients: bool = False
    reference: bool = False
    fallback: str = "error"
    dynamic: bool = False


def case(function, *args, **options):
    return Case(function, args, **options)


def topic(name, cases):
    """A test class with a test for each of the named cases."""

    def method(one):
        return lambda self: self.check_case(one)

    names = [f"test_{text.replace(' ', '_').replace('-', '_').replace(',', '')}" for text in cases]
    assert len(set(names)) == len(names)
    return type(name, (TopicTest,), {key: method(one) for key, one in zip(names, cases.values())})


def leaves(value):
    """The tensors within lists, tuples and dicts, in order."""
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    return [leaf for element in value for leaf in leaves(element)] if isinstance(value, (list, tuple)) else []


def sharing(tensors):
    """For each pair of tensors that share memory: their places in the list, and the distance of their first elements."""
    return {
        (k, n): b.data_ptr() - a.data_ptr()
        for (k, a), (n, b) in itertools.combinations(enumerate(tensors), 2)
        if a.numel() > 0 and b.numel() > 0 and a.untyped_storage().data_ptr() == b.untyped_storage().data_ptr()
    }


class TopicTest(BackendTest):
    def check_case(self, one):
        """Calls the function as it is and compiled, on equal arguments and with equal seeds."""
        ran = []
        for compiled in (False, True):
            args = copy.deepcopy(one.args)
            wanted = [leaf for leaf in leaves(args) if leaf.is_floating_point()] if one.gradients else []
            for leaf in wanted:
                leaf.requires_grad_(True)
            function = one.function
            if compiled:
                function = torch.compile(function, backend="ferrite", dynamic=one.dynamic, options={"fallback": one.fallback, "fallback_random": True})
            torch.manual_seed(1)
            ran.append((function(*args), args, wanted))
        (expected, expected_args, _), (actual, actual_args, _) = ran
        exact = self.exact(one) if one.reference else None
        self.same(actual, expected, exact)
        self.same(actual_args, expected_args)
        self.assertEqual(sharing(leaves([actual, actual_args])), sharing(leaves([expected, expected_args])))
        if one.gradients:
            self.same(*(self.gradients(results, wanted) for results, _, wanted in reversed(ran)), strides=False)

    def exact(self, one):
        args = copy.deepcopy(one.args)
        widened = [arg.double() if isinstance(arg, torch.Tensor) and arg.is_floating_point() else arg for arg in args]
        return one.function(*widened)

    def gradients(self, results, wanted):
        """By the arguments, for gradients of the results that are not all alike."""
        given = [leaf for leaf in leaves(results) if leaf.requires_grad]
        self.assertTrue(given, "no result has a gradient")
        weights = [torch.linspace(0.5, 1.5, leaf.numel(), dtype=leaf.dtype).view(leaf.shape) for leaf in given]
        return torch.autograd.grad(given, wanted, weights, allow_unused=True)

    def same(self, actual, expected, exact=None, strides=True):
        self.assertEqual(type(actual), type(expected))
        if isinstance(expected, dict):
            self.assertEqual(list(actual), list(expected))
            actual, expected = list(actual.values()), list(expected.values())
        if isinstance(expected, (list, tuple)):
            self.assertEqual(len(actual), len(expected))
            for k, (a, e) in enumerate(zip(actual, expected)):
                self.same(a, e, None if exact is None else exact[k], strides)
        elif isinstance(expected, torch.Tensor):
            self.same_tensor(actual, expected, exact, strides)
        else:
            self.assertEqual(actual, expected)

    def same_tensor(self, actual, expected, exact, strides):
        for property in ("dtype", "shape", "requires_grad"):
            self.assertEqual(getattr(actual, property), getattr(expected, property), property)
        if strides:  # AOTAutograd hands gradients over in strides of its own choice
            self.assertEqual(actual.stride(), expected.stride(), "strides")
        actual, expected = actual.detach(), expected.detach()
        if exact is not None and expected.is_floating_point() and expected.numel() > 0:
            self.assertNoWorse(actual, expected, exact)
            return
        relative, absolute = TOLERANCES.get(expected.dtype, (2e-4, 2e-5) if expected.is_complex() else (0, 0))
        torch.testing.assert_close(actual, expected, rtol=relative, atol=absolute, equal_nan=True)
