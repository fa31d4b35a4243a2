# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Gradients through views and in-place changes, functions with a backward pass of their own, lists of tensors."""

import copy

import torch
import torch.nn.functional as F
from common import main
from torch import nn
from topics import TopicTest, case, topic

torch.manual_seed(0)
x, y, square = torch.randn(4, 6), torch.randn(4, 6), torch.randn(5, 5)


def changed_view(x):
    y = x * 2
    y[1:3].mul_(3)
    return y.exp()


def changed_column(x):
    y = x.sin()
    y[:, 2] = y[:, 1] * 2
    return y * y


def changed_twice(x):
    y = x.clone()
    y.add_(x).mul_(x)
    return y


Views = topic("Views", {
    "transposed": case(lambda x: x.t() * 2, x, gradients=True),
    "view result": case(lambda x: (x * 2).t(), x, gradients=True),
    "slice result": case(lambda x: (x * 2)[1:, ::2], x, gradients=True),
    "base and view results": case(lambda x: (y := x.exp(), y.view(-1)), x, gradients=True),
    "two views as results": case(lambda x: (y := x.exp()).chunk(2, 1), x, gradients=True),
    "view of an argument": case(lambda x: (x[1:], x.t() * 1), x, gradients=True),
    "expanded": case(lambda x: x[:1].expand(4, 6) * 2, x, gradients=True),
    "expanded result": case(lambda x: x.exp().sum(0).expand(3, 6), x, gradients=True),
    "as strided": case(lambda x: (x * 2).as_strided((3, 2), (6, 2), 1) * 3, x, gradients=True),
    "diagonal": case(lambda s: s.diagonal() * 2, square, gradients=True),
    "split": case(lambda x: [a * (k + 1) for k, a in enumerate(x.split(2, 1))], x, gradients=True),
    "unbind": case(lambda x: torch.stack(x.unbind(1)[::2]), x, gradients=True),
    "changed view": case(changed_view, x, gradients=True),
    "changed column": case(changed_column, x, gradients=True),
    "changed twice": case(changed_twice, x, gradients=True),
    "select of a select": case(lambda x: x[1][2:4] * x[2, 0], x, gradients=True),
    "squeeze": case(lambda x: x.unsqueeze(1).squeeze(1).unsqueeze(-1) * 2, x, gradients=True),
    "windows": case(lambda x: x.unfold(1, 3, 1).sum(-1), x, gradients=True, fallback="silent"),
    "detached branch": case(lambda x: x * x.detach(), x, gradients=True),
    "used twice": case(lambda x: (x * x + x, (x + 1) * x.sum()), x, gradients=True),
    "not used": case(lambda x, y: x * 2, x, y, gradients=True),
    "integer result beside": case(lambda x: (x * 2, x.argmax(1), (x > 0)), x, gradients=True),
    "result without a gradient": case(lambda x: (x.exp(), x.detach() * 2), x, gradients=True),
    "without gradients inside": case(lambda x: x * torch.no_grad()(lambda: x.exp())(), x, gradients=True),
})


class Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        return gradient * 3 * x**2


class Straight(torch.autograd.Function):
    """Rounds, and hands gradients through."""

    @staticmethod
    def forward(ctx, x, step):
        return (x / step).round() * step

    @staticmethod
    def backward(ctx, gradient):
        return gradient, None


class Twofold(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, y):
        ctx.save_for_backward(x, y)
        ctx.set_materialize_grads(False)
        return x * y, x + y

    @staticmethod
    def backward(ctx, first, second):
        x, y = ctx.saved_tensors
        a = torch.zeros_like(x) if first is None else first * y
        b = torch.zeros_like(y) if first is None else first * x
        return (a, b) if second is None else (a + second, b + second)


class Reversed(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.view_as(x)

    @staticmethod
    def backward(ctx, gradient):
        return -gradient


class Marked(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        places = x.argmax(1)
        ctx.mark_non_differentiable(places)
        ctx.save_for_backward(places)
        return x.amax(1), places

    @staticmethod
    def backward(ctx, gradient, _):
        (places,) = ctx.saved_tensors
        return F.one_hot(places, 6) * gradient[:, None]


Functions = topic("Functions", {
    "cube": case(lambda x: Cube.apply(x.sin()) * 2, x, gradients=True),
    "straight through": case(lambda x: Straight.apply(x * 2, 0.25).exp(), x, gradients=True),
    "two results": case(lambda x, y: Twofold.apply(x, y), x, y, gradients=True),
    "one of two results": case(lambda x, y: Twofold.apply(x, y)[1] * 2, x, y, gradients=True),
    "reversed gradient": case(lambda x: Reversed.apply(x * 2) * 3, x, gradients=True),
    "not differentiable result": case(lambda x: Marked.apply(x), x, gradients=True, fallback="silent"),
    "in a chain": case(lambda x: Cube.apply(Straight.apply(Cube.apply(x), 0.5)), x, gradients=True),
    "activation functions": case(lambda x: tuple(f(x) for f in (F.relu, F.gelu, F.silu, F.mish, F.hardswish, F.elu, F.selu, F.softplus,
        F.softsign, F.logsigmoid)), x, gradients=True),
    "more activation functions": case(lambda x: tuple(f(x) for f in (F.leaky_relu, F.relu6, F.hardtanh, F.hardsigmoid, F.celu,
        F.tanhshrink, F.softshrink, F.glu, F.softmin)), x, gradients=True),
    "losses": case(lambda x, y: (F.mse_loss(x, y), F.l1_loss(x, y), F.smooth_l1_loss(x, y), F.huber_loss(x, y), F.kl_div(x.log_softmax(1),
        y.softmax(1), reduction="batchmean")), x, y, gradients=True),
    "losses of classes": case(lambda x: (F.cross_entropy(x, torch.tensor([0, 5, 2, 1]), label_smoothing=0.1),
        F.binary_cross_entropy_with_logits(x, (x > 0).float())), x, gradients=True),
    "products": case(lambda x, y: (x @ y.t(), torch.bmm(x.view(2, 2, 6), y.view(2, 6, 2)), torch.addmm(x[:, :4], x, y.t(), alpha=2)), x, y, gradients=True),
    "linear": case(lambda x, w, b: F.linear(x, w, b).tanh(), x, torch.randn(3, 6), torch.randn(3), gradients=True),
    "bilinear": case(lambda x, y, w: F.bilinear(x, y, w), x, y, torch.randn(2, 6, 6), gradients=True),
})


def leaf_lists(*tensors):
    return [list(tensors[:2]), list(tensors[2:])]


lists = [torch.randn(3), torch.randn(2, 2), torch.randn(3), torch.randn(2, 2)]
Foreach = topic("Foreach", {
    "arithmetic of numbers": case(lambda *t: (torch._foreach_add(t, 2), torch._foreach_mul(t, 0.5), torch._foreach_sub(t, 1),
        torch._foreach_div(t, 3)), *lists),
    "arithmetic of lists": case(lambda *t: (torch._foreach_add(t[:2], t[2:], alpha=2), torch._foreach_mul(t[:2], t[2:]),
        torch._foreach_div(t[:2], t[2:])), *lists),
    "numbers for each": case(lambda *t: torch._foreach_mul(t, [1.0, 2.0, 3.0, 4.0]), *lists),
    "functions": case(lambda *t: (torch._foreach_exp(t), torch._foreach_neg(t), torch._foreach_abs(t), torch._foreach_sqrt(torch._foreach_abs(t))), *lists),
    "in place": case(lambda *t: (torch._foreach_add_(t, 1), torch._foreach_mul_(t, 2), t[0] * 1)[2], *lists),
    "addcmul and addcdiv": case(lambda *t: (torch._foreach_addcmul(t[:2], t[2:], t[2:], 0.5), torch._foreach_addcdiv(t[:2], t[2:], t[2:], [1.0, 2.0])), *lists),
    "addcdiv in place": case(lambda *t: (torch._foreach_addcdiv_(t[:2], t[2:], t[2:], -0.1), t[0] + 1)[1], *lists),
    "lerp": case(lambda *t: (torch._foreach_lerp(t[:2], t[2:], 0.3), torch._foreach_lerp(t[:2], t[2:], t[2:])), *lists),
    "norms": case(lambda *t: (torch._foreach_norm(t), torch._foreach_norm(t, 1)), *lists),
    "powers and clamps": case(lambda *t: (torch._foreach_pow(t, 2), torch._foreach_clamp_min(t, 0.0), torch._foreach_maximum(t, 0.5)), *lists),
    "copy and zero": case(lambda *t: (torch._foreach_copy_(t[:2], t[2:]), torch._foreach_zero_(t[2:]), t[0] + 1)[2], *lists),
    "lists in and out": case(lambda pair: {"sums": [a + b for a, b in zip(*pair)], "first": pair[0][0] * 2}, leaf_lists(*lists)),
    "gradients": case(lambda *t: torch._foreach_mul(t[:2], t[2:]), *lists, gradients=True),
})


class Optimizers(TopicTest):
    def check_optimizer(self, make, steps=3, fallback="silent"):
        weights = [[nn.Parameter(torch.linspace(-1, 1, 6).view(2, 3)), nn.Parameter(torch.ones(4))] for _ in range(2)]
        for k, parameters in enumerate(weights):
            optimizer = make(parameters)
            step = torch.compile(optimizer.step, backend="ferrite", options={"fallback": fallback}) if k else optimizer.step
            for number in range(steps):
                for parameter in parameters:
                    parameter.grad = (parameter.detach() + number).sin()
                step()
        torch.testing.assert_close(weights[1], weights[0], rtol=1e-4, atol=1e-6)

    def test_sgd_with_momentum(self):
        self.check_optimizer(lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.01))

    def test_adam(self):
        self.check_optimizer(lambda p: torch.optim.Adam(p, lr=0.01, amsgrad=True))

    def test_adamw_for_each(self):
        self.check_optimizer(lambda p: torch.optim.AdamW(p, lr=0.01, foreach=True))

    def test_rmsprop(self):
        self.check_optimizer(lambda p: torch.optim.RMSprop(p, lr=0.01, centered=True, momentum=0.5))

    def test_adagrad(self):
        self.check_optimizer(lambda p: torch.optim.Adagrad(p, lr=0.1))

    def test_rate_as_a_tensor(self):
        self.check_optimizer(lambda p: torch.optim.Adam(p, lr=torch.tensor(0.01)))

    def test_clipped_gradients(self):
        model = nn.Linear(6, 4)
        other = copy.deepcopy(model)

        def step(model):
            model.zero_grad()
            model(x).square().sum().backward()
            return torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)

        expected = step(model)
        compiled = self.compiled(other)
        compiled.zero_grad()
        compiled(x).square().sum().backward()
        clip = torch.compile(torch.nn.utils.clip_grad_norm_, backend="ferrite", options={"fallback": "silent"})
        torch.testing.assert_close(clip(list(other.parameters()), 0.5), expected, rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(other.weight.grad, model.weight.grad, rtol=1e-4, atol=1e-5)


class Behaviour(TopicTest):
    def test_results_may_be_changed(self):
        """A result, be it a view, is a tensor like others for autograd."""
        weight = torch.randn(4, 3, requires_grad=True)
        for function in (lambda x: (x * 2)[:, 1:4], lambda x: (y := x + 1, y[:, :3])[1], lambda x: x.sin()):
            torch._dynamo.reset()
            for tensor in (x, x.clone().requires_grad_(True)):
                expected, actual = function(tensor), self.compiled(function)(tensor)
                expected = expected[:, :3].mul(1) + 1
                actual = actual[:, :3].add_(1)
                self.same(actual.contiguous(), expected)
                (actual * weight).sum().backward()
                torch.testing.assert_close(weight.grad, expected.detach())
                weight.grad = None

    def test_gradients_add_up(self):
        tensor = x.clone().requires_grad_(True)
        compiled = self.compiled(lambda x: x.square().sum())
        for _ in range(3):
            compiled(tensor).backward()
        torch.testing.assert_close(tensor.grad, 6 * x, rtol=1e-5, atol=1e-5)

    def test_backward_through_several_calls(self):
        compiled = self.compiled(lambda x: x.sin() * 2)
        tensor, other = x.clone().requires_grad_(True), x.clone().requires_grad_(True)
        compiled(compiled(tensor)).sum().backward()
        ((other.sin() * 2).sin() * 2).sum().backward()
        torch.testing.assert_close(tensor.grad, other.grad)

    def test_some_arguments_with_gradients(self):
        compiled = self.compiled(lambda x, y: (x * y).sum())
        for first, second in ((True, False), (False, True), (False, False)):
            a, b = x.clone().requires_grad_(first), y.clone().requires_grad_(second)
            result = compiled(a, b)
            self.assertEqual(result.requires_grad, first or second)
            if result.requires_grad:
                result.backward()
                torch.testing.assert_close((a if first else b).grad, y if first else x)

    def test_hooks(self):
        seen = []
        tensor = x.clone().requires_grad_(True)
        result = self.compiled(lambda x: x * 3)(tensor)
        result.register_hook(lambda gradient: seen.append(gradient.clone()))
        result.sum().backward()
        self.assertEqual(len(seen), 1)
        torch.testing.assert_close(tensor.grad, torch.full_like(x, 3))

    def test_checkpointing(self):
        def block(x, w):
            return torch.utils.checkpoint.checkpoint(lambda a: (a @ w).tanh(), x, use_reentrant=False)

        weights = [torch.linspace(-1, 1, 36).view(6, 6).requires_grad_(True) for _ in range(2)]
        block(x, weights[0]).sum().backward()
        self.compiled(block)(x, weights[1]).sum().backward()
        torch.testing.assert_close(weights[1].grad, weights[0].grad, rtol=1e-4, atol=1e-5)

    def test_transforms(self):
        self.same(self.compiled(lambda x: torch.func.grad(lambda a: a.sin().sum())(x))(x), x.cos())
        self.same(self.compiled(lambda x: torch.vmap(lambda a: a.softmax(0) * 2)(x))(x), x.softmax(1) * 2)


if __name__ == "__main__":
    main()
