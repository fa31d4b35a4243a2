# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Operators of torch.library that plugins read: by an alias in a descriptor, for a standard op and for the op of a library."""

import pathlib
import tempfile

import ferrite.torch
import torch
from common import BackendTest, main

_example_plugins = pathlib.Path(ferrite._bridge.__file__).parents[2] / "lib/ferrite/example_plugins"


@torch.library.custom_op("ferrite_test::leaky", mutates_args=())
def leaky(x: torch.Tensor, *, alpha: float) -> torch.Tensor:
    return torch.where(x > 0, x, x * alpha)


@leaky.register_fake
def _(x, *, alpha):
    return torch.empty_like(x)


def _leaky_context(ctx, inputs, keyword_only_inputs, output):
    ctx.save_for_backward(inputs[0])
    ctx.alpha = keyword_only_inputs["alpha"]


leaky.register_autograd(
    lambda ctx, gradient: torch.where(ctx.saved_tensors[0] > 0, gradient, gradient * ctx.alpha), setup_context=_leaky_context
)


@torch.library.custom_op("acme::fused_rope", mutates_args=())
def fused_rope(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, *, interleaved: bool = False) -> torch.Tensor:
    first, second = (x[..., ::2], x[..., 1::2]) if interleaved else x.chunk(2, -1)
    turned = first * cos - second * sin, second * cos + first * sin
    return torch.stack(turned, -1).flatten(-2) if interleaved else torch.cat(turned, -1)


@fused_rope.register_fake
def _(x, cos, sin, *, interleaved=False):
    return torch.empty_like(x)


class CustomOps(BackendTest):
    def setUp(self):
        super().setUp()
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.descriptor = pathlib.Path(folder.name, "test.leaky.plugin.toml")
        self.descriptor.write_text(
            'schema = 0\nid = "test.leaky"\nversion = "0.1.0"\nrequires = ["ferrite.std >= 0.1.0"]\n'
            'aliases = ["torch:ferrite_test::leaky = leaky_relu"]\n'
        )

    def test_an_alias_of_a_standard_op(self):
        def f(x):
            return leaky(x * 2, alpha=0.25) + 1

        x = torch.randn(5, 6)
        self.check(f, x, plugins=[self.descriptor])
        found = ferrite.torch.explain(f, x, options={"plugins": [self.descriptor]})
        self.assertEqual(found.graphs[0]["unsupported"], [])
        self.assertEqual([program["kernels"] for program in found.graphs[0]["programs"]], [1])
        self.assertEqual([op for _, op, _ in ferrite.torch.explain(f, x).graphs[0]["unsupported"]], ["ferrite_test.leaky.default"])

    def test_its_gradient_is_that_of_the_library(self):
        class Model(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.linear = torch.nn.Linear(6, 6)

            def forward(self, x):
                return leaky(self.linear(x), alpha=0.25)

        self.check_training(Model(), torch.randn(5, 6), plugins=[self.descriptor])

    def test_an_op_that_a_plugin_defines(self):
        plugin = _example_plugins / "acme.rope.plugin.toml"
        angles = torch.outer(torch.arange(6.0), 0.5 ** torch.arange(4))
        x = torch.randn(2, 6, 8)
        for interleaved in (False, True):

            def f(x, cos, sin):
                return fused_rope(x * 2, cos, sin, interleaved=interleaved) + x

            with self.subTest(interleaved=interleaved):
                torch._dynamo.reset()
                self.check(f, x, angles.cos(), angles.sin(), plugins=[plugin])
                found = ferrite.torch.explain(f, x, angles.cos(), angles.sin(), options={"plugins": [plugin]})
                self.assertEqual([program["kernels"] for program in found.graphs[0]["programs"]], [1])


if __name__ == "__main__":
    main()
