# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Nodes that Ferrite cannot compile run in PyTorch, and nothing else does."""

import warnings

import ferrite
import ferrite.torch
import torch
from common import BackendTest, main
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx


@torch.library.custom_op("ferrite_test::halve", mutates_args=())
def halve(x: torch.Tensor) -> torch.Tensor:
    return x / 2


@halve.register_fake
def _(x):
    return torch.empty_like(x)


@torch.library.custom_op("ferrite_test::unforeseen", mutates_args=())
def unforeseen(x: torch.Tensor) -> torch.Tensor:
    return (x * 2).to(torch.float64).t().contiguous().t()


@unforeseen.register_fake
def _(x):
    return torch.empty_like(x)


def model(x):
    y = torch.sin(x) + 1
    z = halve(y)
    return torch.cos(z) * y, z


class Fallback(BackendTest):
    def test_results(self):
        x = torch.randn(4, 5)
        self.check(model, x, fallback="silent")

    def test_warns_once_with_names(self):
        x = torch.randn(2, 2)
        ferrite.torch._boxed._said.clear()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            self.compiled(model, fallback="warn")(x)
        texts = [str(one.message) for one in caught if "ferrite" in str(one.message)]
        self.assertEqual(len(texts), 1, texts)
        self.assertIn("ferrite_test.halve.default", texts[0])

    def test_error_names_op_line_and_cure(self):
        with self.assertRaises(Exception) as caught:
            self.compiled(model, fallback="error")(torch.randn(3))
        text = str(caught.exception)
        self.assertIn("FE-Y02", text)
        self.assertIn("ferrite_test.halve.default", text)
        self.assertIn("test_fallback.py", text)
        self.assertIn("fallback='warn'", text)

    def test_explain_tells_the_reason(self):
        found = ferrite.torch.explain(model, torch.randn(3))
        (graph,) = found.graphs
        self.assertEqual([(name, code[:6]) for _, name, code in graph["unsupported"]], [("ferrite_test.halve.default", "FE-I50")])
        self.assertEqual(len(graph["programs"]), 2)
        self.assertIn("in PyTorch: ferrite_test.halve.default", str(found))

    def test_complex_tensors(self):
        def f(x):
            return torch.view_as_real(torch.complex(x, x * 2) * 3).sum(-1) + x

        self.check(f, torch.randn(6), fallback="silent")

    def test_results_of_another_dtype_and_other_strides_than_pytorch_predicted(self):
        def f(x):
            y = unforeseen(x)
            return y + 1, y.t(), y[1:].view(-1)

        x = torch.randn(3, 4)
        actual = self.compiled(f, fallback="silent")(x)
        self.compare(actual, (x * 2 + 1, (x * 2).t(), (x * 2)[1:].reshape(-1)))

    def test_training_through_pytorch_nodes(self):
        class Model(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.linear = torch.nn.Linear(4, 4)

            def forward(self, x):
                return torch.linalg.inv(self.linear(x) + 9 * torch.eye(4)).tanh()

        self.check_training(Model(), torch.randn(4, 4), fallback="silent")

    def test_random_numbers_are_pytorchs(self):
        def f(x):
            return x + torch.rand(5), torch.randn(3) * 2

        torch.manual_seed(7)
        expected = f(torch.zeros(5))
        torch.manual_seed(7)
        self.compare(self.compiled(f, fallback="silent")(torch.zeros(5)), expected)

    def left_on_cuda(self, function, *shape):
        """The overloads of the function's nodes that PyTorch is to run on a GPU. None is needed for fake tensors."""
        with FakeTensorMode():
            graph = make_fx(function)(torch.empty(shape, device="cuda:0", dtype=torch.bfloat16)).graph
        return [str(node.target) for node in graph.nodes if ferrite.torch._compile._why_left(node)]

    def test_attention_with_a_gradient_is_left_to_pytorch_on_cuda(self):
        attention = torch.ops.aten._scaled_dot_product_efficient_attention

        def training(q):
            out, log_sum, seed, offset = attention(q, q, q, None, True)
            gradients = torch.ops.aten._scaled_dot_product_efficient_attention_backward(
                out, q, q, q, None, out, log_sum, seed, offset, 0.0, [True, True, True, False]
            )
            return out, gradients[0]

        def inference(q):
            return attention(q, q, q, None, False)[0]

        self.assertEqual(
            self.left_on_cuda(training, 2, 4, 16, 32),
            [
                "aten._scaled_dot_product_efficient_attention.default",
                "aten._scaled_dot_product_efficient_attention_backward.default",
            ],
        )
        self.assertEqual(self.left_on_cuda(inference, 2, 4, 16, 32), [])

    def test_gradients_of_convolutions_are_left_to_pytorch_on_cuda(self):
        def gradient(x):
            return torch.ops.aten.convolution_backward(
                x, x, x[:4, :, :1, :1], None, [1, 1], [0, 0], [1, 1], False, [0, 0], 1, [False, True, False]
            )[1]

        self.assertEqual(self.left_on_cuda(gradient, 4, 4, 8, 8), ["aten.convolution_backward.default"])


if __name__ == "__main__":
    main()
