# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Nodes that Ferrite cannot compile run in PyTorch, and nothing else does."""

import json
import pathlib
import unittest
import warnings
import weakref

import ferrite
import ferrite.torch
import torch
from common import BackendTest, main
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.testing._internal.two_tensor import TwoTensor


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

    def segments_with(self, overload, function, *inputs):
        """The numbers of the segments that have a node of this overload."""
        reports = []
        ferrite.torch._compile.listeners.append(reports.append)
        try:
            self.check(function, *inputs, fallback="silent")
        finally:
            ferrite.torch._compile.listeners.remove(reports.append)
        nodes = [[node[0] for node in json.loads(stream)["nodes"]] for stream in reports[0].streams]
        return [k for k, one in enumerate(nodes) if overload in one]

    def test_what_a_later_segment_alone_needs_is_computed_there(self):
        def long(x):
            early = halve(torch.cos(x))  # ends a segment
            wave = torch.tanh(x.double() * 3)  # needs nothing of it, and is more bytes than x
            return early.double() * wave

        self.assertEqual(self.segments_with("aten.tanh.default", long, torch.randn(80, 90)), [1])

    def test_a_small_mask_is_computed_late_where_its_operand_lives_almost_as_long(self):
        def masked(x):
            value = x
            for _ in range(6):
                value = halve(value.cos())
            value = halve(value * x)
            return torch.where(x > 0, value.sin(), 0.0)

        self.assertEqual(self.segments_with("aten.gt.Scalar", masked, torch.randn(80, 90)), [7])

    def test_a_tensor_is_freed_after_its_last_use(self):
        lives = []

        def double(x):
            lives.append(weakref.ref(x))
            return x * 2

        def count(y):
            lives.append(sum(one() is not None for one in lives))
            return y + 1

        graph = torch.fx.Graph()
        y = graph.call_function(double, (graph.placeholder("x"),))
        graph.output((graph.call_function(count, (y,)),))
        eager = ferrite.torch._boxed.Eager.of(torch.fx.GraphModule(torch.nn.Module(), graph))
        given = [torch.ones(3)]
        self.assertEqual(eager(given)[0].tolist(), [3, 3, 3])
        self.assertEqual((given, lives[1]), ([], 0))

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

    def refused(self, function, *args):
        with self.assertRaises(ferrite.Error) as caught:
            self.compiled(function)(*args)
        self.assertEqual(caught.exception.code, "FE-Y02")
        return caught.exception

    def line_of(self, text):
        """The place of the only line of this file that ends with a text."""
        lines = pathlib.Path(__file__).read_text().splitlines()
        (number,) = (k for k, line in enumerate(lines, 1) if line.endswith("# " + text))
        return f"{__file__}:{number}"

    def test_errors_name_the_line_of_what_cannot_be_written(self):
        def spectrum(x):
            y = x + 1
            return torch.fft.fft(y).real  # complex

        def positive(x):
            return x[x > 0] * 2  # masked

        error = self.refused(spectrum, torch.randn(8))
        self.assertIn("complex64", error.text)
        self.assertEqual(error.where, self.line_of("complex"))
        with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
            error = self.refused(positive, torch.randn(8))
        self.assertIn("depends on the values", error.text)
        self.assertEqual(error.where, self.line_of("masked"))

    def test_the_place_of_a_layer_is_the_line_that_calls_it(self):
        class Halved(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.layers = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Softmax(-1))

            def forward(self, x):
                y = self.layers(x)  # layers
                return y.to(torch.complex64).real  # no layer

        found = ferrite.torch.explain(Halved().eval(), torch.randn(2, 4))
        nodes = [node for graph in found.streams for stream in graph for node in json.loads(stream)["nodes"]]
        places = {place for target, _, place, *_ in nodes if target in ("aten.addmm.default", "aten._softmax.default")}
        self.assertEqual(places, {self.line_of("layers")})
        self.assertEqual(self.refused(Halved().eval(), torch.randn(2, 4)).where, self.line_of("no layer"))

    def test_what_is_left_to_pytorch_is_no_error_and_is_listed(self):
        def dropped(x):
            return torch.nn.functional.dropout(x, 0.5) + 1

        self.compiled(dropped, fallback_random=False)(torch.ones(6))
        found = ferrite.torch.explain(dropped, torch.ones(6))
        ((_, target, reason),) = found.graphs[0]["left"]
        self.assertEqual(found.graphs[0]["unsupported"], [])
        self.assertIn(f"in PyTorch: {target}: {reason}", str(found))
        self.assertIn("generator", reason)

    def test_sparse_tensors(self):
        def given(sparse, x):
            return (torch.sparse.mm(sparse, x) + 1).relu()

        def made(x, y):
            return torch.sparse.mm((x * 2).to_sparse(), y) + 1

        x, y = torch.randn(4, 5).relu(), torch.randn(5, 2)
        expected = given(x.to_sparse(), y)
        self.compare(self.compiled(given, fallback="silent")(x.to_sparse(), y), expected)
        self.compare(self.compiled(made, fallback="silent")(x, y), made(x, y))

    def test_subclasses_of_tensors(self):
        class Named(torch.Tensor):
            pass

        def f(x):
            return torch.softmax(x * 2 + 1, -1)

        one, other = torch.randn(3, 4), torch.randn(3, 4)
        both = self.compiled(f)(TwoTensor(one, other))
        self.assertIsInstance(both, TwoTensor)
        self.compare([both.a, both.b], [f(one), f(other)])
        trained = TwoTensor(one.clone(), other.clone()).requires_grad_()
        self.compiled(lambda x: (x * x).sum())(trained).backward()
        self.compare([trained.grad.a, trained.grad.b], [one * 2, other * 2])
        named = self.compiled(f)(one.as_subclass(Named))
        self.assertIsInstance(named, Named)
        self.compare(named.as_subclass(torch.Tensor), f(one))

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

    def test_signs_that_are_a_flag(self):
        def f(x):
            return x * 2 + 1

        flagged = torch.randn(4, dtype=torch.cfloat).conj().imag
        compiled = self.compiled(f, fallback="silent")
        for x in (flagged, torch.randn(4), flagged):
            torch.testing.assert_close(compiled(x), f(x))
        torch._dynamo.reset()
        with self.assertRaises(ferrite.Error) as caught:
            self.compiled(f)(flagged)
        self.assertEqual(caught.exception.code, "FE-Y02")
        self.assertIn("resolve_neg", caught.exception.text)

    def test_gradients_that_autograd_has_not_computed(self):
        x = torch.tensor([0.5, -1.0, 2.0], requires_grad=True)
        for name, gradient in (
            ("negated", torch.tensor([1 + 2j, -3j, 4 + 0.5j]).conj().imag),
            ("zeros without memory", torch._efficientzerotensor((3,))),
        ):
            with self.subTest(name):
                torch._dynamo.reset()
                y = self.compiled(lambda t: t.sin(), fallback="error")(x)
                (actual,) = torch.autograd.grad(y, x, gradient)
                torch.testing.assert_close(actual, x.detach().cos() * (gradient + torch.zeros(3)))

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

    def left_on_cuda(self, function, *shape, **options):
        """The overloads of the function's nodes that PyTorch is to run on a GPU. None is needed for fake tensors."""
        with FakeTensorMode():
            graph = make_fx(function)(torch.empty(shape, device="cuda:0", dtype=torch.bfloat16)).graph
        return [str(node.target) for node in graph.nodes if ferrite.torch._compile._why_left(node, ferrite.torch._options.Options(**options))]

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
        self.assertEqual(self.left_on_cuda(training, 2, 4, 16, 32, pytorch_kernels=False), [])

    @unittest.skipUnless(torch.cuda.is_available(), "a CUDA device is needed")
    def test_attention_with_a_gradient_is_compiled_on_cuda(self):
        for shape, keys, causal, masked in (((2, 4, 128, 64), 128, True, False), ((1, 3, 77, 40), 104, False, True)):
            with self.subTest(shape=shape, causal=causal, masked=masked):
                torch.manual_seed(0)
                q = torch.randn(shape, device="cuda", dtype=torch.bfloat16)
                k, v = torch.randn(2, *shape[:2], keys, shape[3], device="cuda", dtype=torch.bfloat16)
                mask = torch.rand(shape[0], 1, shape[2], keys, device="cuda") > 0.3 if masked else None

                def attention(q, k, v, mask=mask, causal=causal):
                    return torch.nn.functional.scaled_dot_product_attention(q, k, v, mask, is_causal=causal)

                def gradients(function, *tensors):
                    tensors = [each.detach().clone().requires_grad_() for each in tensors]
                    result = function(*tensors)
                    result.square().sum().backward()
                    return [result.detach().double(), *(each.grad.double() for each in tensors)]

                exact = gradients(attention, q.double(), k.double(), v.double())
                expected = gradients(attention, q, k, v)
                ours = gradients(self.compiled(attention, pytorch_kernels=False, fallback="error"), q, k, v)
                for wanted, theirs, given in zip(exact, expected, ours, strict=True):
                    self.assertLessEqual((given - wanted).norm(), 1.3 * (theirs - wanted).norm())

    def test_gradients_of_convolutions_are_left_to_pytorch_on_cuda(self):
        def gradient(x):
            return torch.ops.aten.convolution_backward(
                x, x, x[:4, :, :1, :1], None, [1, 1], [0, 0], [1, 1], False, [0, 0], 1, [False, True, False]
            )[1]

        self.assertEqual(self.left_on_cuda(gradient, 4, 4, 8, 8), ["aten.convolution_backward.default"])


if __name__ == "__main__":
    main()
