# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Random numbers, symbolic sizes, graph breaks, threads and processes."""

import threading

import torch
import torch.nn.functional as F
from common import main
from torch import nn
from topics import TopicTest, case, topic

torch.manual_seed(0)
x = torch.randn(4, 6)
p = x.sigmoid()


def drawn(function, *args, **options):
    return case(function, *args, fallback="silent", **options)


Random = topic("Random", {
    "uniform": drawn(lambda x: (x + torch.rand(4, 6), torch.rand(3)), x),
    "normal": drawn(lambda x: (x + torch.randn(6), torch.randn(2, 5, dtype=torch.float64)), x),
    "of narrow dtypes": drawn(lambda: (torch.rand(17, dtype=torch.bfloat16) * 2, torch.randn(9, dtype=torch.float16) + 1)),
    "of many elements": drawn(lambda: torch.randn(1000) * 2),
    "integers": drawn(lambda: (torch.randint(7, (5,)) * 2, torch.randint(-3, 9, (2, 3), dtype=torch.int32) + 1)),
    "permutation": drawn(lambda x: x[torch.randperm(4)] * 2, x),
    "like a tensor": drawn(lambda x: (torch.rand_like(x), torch.randn_like(x) * x, torch.randint_like(x, 5)), x),
    "like a transposed tensor": drawn(lambda x: (torch.rand_like(x.t()), torch.randn_like(x.t().exp())), x),
    "like channels last": drawn(lambda i: torch.rand_like(i) + i, torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last)),
    "bernoulli": drawn(lambda p: (torch.bernoulli(p) + 1, torch.bernoulli(p, 0.3)), p),
    "exponential": drawn(lambda x: torch.empty_like(x).exponential_(2) + 1, x),
    "normal of parameters": drawn(lambda x, p: (torch.normal(x, p), torch.normal(0.0, 2.0, (3,))), x, p),
    "uniform in place": drawn(lambda x: x.clone().uniform_(-1, 2) * 2, x),
    "normal in place": drawn(lambda x: x.normal_(1, 2) * 2, x),
    "poisson and multinomial": drawn(lambda p: (torch.poisson(p * 3) + 1, torch.multinomial(p, 3) * 2), p),
    "geometric and cauchy": drawn(lambda x: (torch.empty_like(x).geometric_(0.3) + 1, torch.empty_like(x).log_normal_() * 2), x),
    "dropout": drawn(lambda x: F.dropout(x * 2, 0.4) + 1, x, gradients=True),
    "dropout of none and all": drawn(lambda x: (F.dropout(x, 0.0) + x, F.dropout(x, 1.0)), x, gradients=True),
    "dropout of channels": drawn(lambda x: F.dropout2d(x.view(2, 2, 2, 3), 0.5), x, gradients=True),
    "alpha dropout": drawn(lambda x: F.alpha_dropout(x, 0.3, training=True), x, gradients=True),
    "randomised relu": drawn(lambda x: F.rrelu(x * 2, training=True) + 1, x),
    "in the order of the model": drawn(lambda x: (torch.rand(3) * (x @ x.t()).softmax(1)[0, :3], torch.randn(3), torch.rand(2) + x[0, :2].sin()), x),
    "between segments": drawn(lambda x: (torch.rand_like(x.exp()).log() * torch.randn_like(x.sin()) + torch.rand_like(x)), x),
    "attention with dropout": drawn(lambda q: F.scaled_dot_product_attention(q, q, q, dropout_p=0.5), torch.randn(1, 2, 4, 8)),
    "shuffled rows of gradients": drawn(lambda x: x[torch.randperm(4)] * torch.rand(4, 1), x, gradients=True),
})


class Seeds(TopicTest):
    def test_the_state_moves_as_in_eager(self):
        compiled = self.compiled(lambda x: x + torch.rand(5), "silent")
        torch.manual_seed(3)
        compiled(torch.zeros(5))
        after = torch.rand(4)
        torch.manual_seed(3)
        torch.rand(5)
        self.same(after, torch.rand(4))

    def test_each_call_draws_anew(self):
        compiled = self.compiled(lambda x: torch.rand_like(x) + x, "silent")
        torch.manual_seed(4)
        first, second = compiled(x), compiled(x)
        self.assertFalse(torch.equal(first, second))
        torch.manual_seed(4)
        self.same((compiled(x), compiled(x)), (first, second))

    def test_training_with_dropout(self):
        model = nn.Sequential(nn.Linear(6, 16), nn.Dropout(0.3), nn.ReLU(), nn.Linear(16, 2))
        gradients = []
        for run in (model, self.compiled(model, "silent")):
            torch.manual_seed(5)
            model.zero_grad()
            run(x).square().sum().backward()
            gradients.append([one.grad.clone() for one in model.parameters()])
        torch.testing.assert_close(gradients[1], gradients[0], rtol=1e-4, atol=1e-5)

    def test_a_generator_of_its_own(self):
        def f(x, generator):
            return x + torch.rand(6, generator=generator)

        expected = f(x, torch.Generator().manual_seed(8))
        self.same(torch.compile(f, backend="ferrite", options={"fallback": "silent", "fallback_random": True})(x, torch.Generator().manual_seed(8)), expected)


class Dynamic(TopicTest):
    def check_sizes(self, function, *calls, fallback="error"):
        compiled = torch.compile(function, backend="ferrite", dynamic=True, options={"fallback": fallback, "fallback_random": True})
        for args in calls:
            torch.manual_seed(1)
            expected = function(*args)
            torch.manual_seed(1)
            self.same(compiled(*args), expected)

    def test_views(self):
        self.check_sizes(lambda x: (y := x.exp(), y.view(-1), y.t()[1:], y[:, ::2]), *[(torch.randn(n, n + 2),) for n in (3, 4, 7)])

    def test_views_of_arguments(self):
        self.check_sizes(lambda x: (x[1:], x.t(), x.sum()), *[(torch.randn(n, n + 2),) for n in (3, 4, 7)])

    def test_shared_memory(self):
        compiled = torch.compile(lambda x: (y := x.exp(), y[1:]), backend="ferrite", dynamic=True, options={"fallback": "error"})
        for n in (3, 5, 8):
            base, view = compiled(torch.randn(n, 2))
            base.zero_()
            self.assertEqual(view.abs().max().item(), 0)

    def test_sizes_in_arithmetic(self):
        self.check_sizes(lambda x: (x * x.shape[0] / x.shape[1], x.new_zeros(x.shape[1] // 2), torch.full((x.shape[0],), x.shape[1])),
                         *[(torch.randn(n, n + 3),) for n in (2, 5, 6)])

    def test_joins(self):
        self.check_sizes(lambda x, y: torch.cat([x, y * 2]).sum(0), *[(torch.randn(n, 3), torch.randn(m, 3)) for n, m in ((2, 3), (4, 2), (5, 5))])

    def test_convolution(self):
        w = torch.randn(4, 3, 3, 3)
        self.check_sizes(lambda i: F.max_pool2d(F.conv2d(i, w, padding=1).relu(), 2), *[(torch.randn(n, 3, s, s),) for n, s in ((2, 8), (3, 10))])

    def test_attention(self):
        self.check_sizes(lambda q: F.scaled_dot_product_attention(q, q, q, is_causal=True), *[(torch.randn(2, 2, n, 8),) for n in (3, 5, 9)])

    def test_numbers_as_arguments(self):
        self.check_sizes(lambda x, n: x[:n] * n, *[(x, n) for n in (2, 3, 4)])

    def test_fallback(self):
        self.check_sizes(lambda x: torch.rand_like(x.exp()[:, 1:]) + x[:, 1:], *[(torch.randn(n, 4),) for n in (2, 3)], fallback="silent")

    def test_training(self):
        weights = [torch.linspace(-1, 1, 12).view(3, 4).requires_grad_(True) for _ in range(2)]

        def f(x, w):
            y = (x @ w).tanh()
            return y.view(-1), y[1:].sum()

        compiled = torch.compile(f, backend="ferrite", dynamic=True, options={"fallback": "error"})
        for n in (2, 4, 5):
            one = torch.randn(n, 3)
            for weight, run in zip(weights, (f, compiled)):
                weight.grad = None
                a, b = run(one, weight)
                (a.square().sum() + b).backward()
            torch.testing.assert_close(weights[1].grad, weights[0].grad, rtol=1e-4, atol=1e-5)

    def test_sizes_that_depend_on_values(self):
        with torch._dynamo.config.patch(capture_scalar_outputs=True, capture_dynamic_output_shape_ops=True):
            self.check_sizes(lambda x: (x[x > 0] * 2, (x + 1).exp()), (x,), (x * -1,), fallback="silent")
            torch._dynamo.reset()
            self.check_sizes(lambda x: (x * 2) * x.sum().long().item() + 1, (x,), (x.abs(),), fallback="silent")


def broken(x):
    y = x.sin()
    if y.sum() > 0:
        return y * 2
    return y - 1


class Breaks(TopicTest):
    def check_calls(self, function, *args, fallback="error"):
        expected = function(*args)
        self.same(self.compiled(function, fallback)(*args), expected)

    def test_a_branch_on_values(self):
        for sign in (1, -1):
            self.check_calls(broken, sign * x.abs().sin())

    def test_print(self):
        def f(x):
            y = x * 2
            print("a line", end="\r")
            return y + 1

        self.check_calls(f, x)

    def test_item(self):
        self.check_calls(lambda x: x * x.sum().item(), x)

    def test_list_of_numbers(self):
        self.check_calls(lambda x: (x * 2).sum(1).tolist(), torch.ones(2, 3))

    def test_numpy(self):
        self.check_calls(lambda x: torch.from_numpy((x * 2).numpy() + 1) * 3, x)

    def test_views_across_a_break(self):
        def f(x):
            y = x.exp()
            view = y[1:3]
            torch._dynamo.graph_break()
            view.mul_(2)
            return y * 1

        self.check_calls(f, x)

    def test_shared_memory_across_a_break(self):
        def f(x):
            y = x.exp()
            flat = y.view(-1)
            torch._dynamo.graph_break()
            y.zero_()
            return flat + 1

        self.check_calls(f, x)

    def test_nested(self):
        inner = self.compiled(lambda x: x * 2)
        self.check_calls(lambda x: inner(x) + 1, x)

    def test_exceptions(self):
        def f(x):
            y = x * 2
            if y.shape[0] == 4:
                raise KeyError("four")
            return y

        with self.assertRaises(KeyError):
            self.compiled(f)(x)

    def test_modules_in_lists(self):
        layers = nn.ModuleList([nn.Linear(6, 6) for _ in range(3)])

        def f(x):
            for layer in layers:
                x = layer(x).relu()
            return x

        with torch.no_grad():
            self.check_calls(f, x)

    def test_inference_mode(self):
        with torch.inference_mode():
            self.check_calls(lambda x: (y := x.exp(), y.t()), x)

    def test_dicts_and_named_tuples(self):
        self.check_calls(lambda d: {"b": d["a"] * 2, "c": (d["a"].max(1),)}, {"a": x})


class Concurrency(TopicTest):
    def check_threads(self, work, count=4):
        wrong = []

        def guarded(number):
            try:
                work(number)
            except Exception as error:
                wrong.append(f"{number}: {type(error).__name__}: {error}")

        threads = [threading.Thread(target=guarded, args=(number,)) for number in range(count)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])

    def test_calls_of_one_model(self):
        compiled = self.compiled(lambda x: (y := x.exp(), y[1:], y.t()))
        compiled(x)

        def work(number):
            for k in range(20):
                one = torch.full((4, 6), number + k / 10)
                self.same(compiled(one), (one.exp(), one.exp()[1:], one.exp().t()))

        self.check_threads(work)

    def test_training_in_threads(self):
        compiled = self.compiled(lambda x: (x @ x.t()).tanh().sum())
        compiled(x.clone().requires_grad_(True)).backward()
        expected = x.clone().requires_grad_(True)
        (expected @ expected.t()).tanh().sum().backward()

        def work(number):
            for _ in range(10):
                one = x.clone().requires_grad_(True)
                compiled(one).backward()
                torch.testing.assert_close(one.grad, expected.grad, rtol=1e-4, atol=1e-5)

        self.check_threads(work)

    def test_compiling_in_threads(self):
        def work(number):
            compiled = torch.compile(lambda x: (x * number).sin().sum(0), backend="ferrite", options={"fallback": "error"})
            torch.testing.assert_close(compiled(x), (x * number).sin().sum(0), rtol=1e-4, atol=1e-5)

        self.check_threads(work)

    def test_symbolic_sizes_in_threads(self):
        compiled = torch.compile(lambda x: (x * 2).t(), backend="ferrite", dynamic=True, options={"fallback": "error"})
        compiled(torch.randn(2, 3))

        def work(number):
            for n in range(2, 7):
                one = torch.randn(n, number + 2)
                self.same(compiled(one), (one * 2).t())

        self.check_threads(work)


if __name__ == "__main__":
    main()
