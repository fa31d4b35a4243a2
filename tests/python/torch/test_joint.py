# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The joint graph: what it keeps for the backward pass, and gradients of graphs that Ferrite divides."""

import copy

import ferrite
import ferrite.torch
import torch
import torch.nn.functional as F
from common import BackendTest, main
from torch import nn
from torch.utils.checkpoint import checkpoint


class Joint(BackendTest):
    def setUp(self):
        super().setUp()
        self.reports = []
        ferrite.torch._compile.listeners.append(self.reports.append)
        self.addCleanup(ferrite.torch._compile.listeners.remove, self.reports.append)

    def joint(self):
        (report,) = (one for one in self.reports if one.kind == "joint")
        return report

    def gradients(self, run, model, *args, backwards=1):
        torch.manual_seed(5)
        args = [one.detach().clone().requires_grad_(one.requires_grad) for one in args]
        results = run(*args)
        results = results if isinstance(results, tuple) else (results,)
        loss = sum(one.square().mean() for one in results if one.requires_grad)
        for k in range(backwards):
            loss.backward(retain_graph=k + 1 < backwards)
        parameters = [one.grad for one in model.parameters()]
        return [*results, *parameters, *(one.grad for one in args), *model.buffers()]

    def check_joint(self, model, *args, backwards=1, **options):
        """Results and gradients equal eager's, and Ferrite has divided the graph; gives the bytes that it keeps."""
        other = copy.deepcopy(model)
        expected = self.gradients(model, model, *args, backwards=backwards)
        actual = self.gradients(self.compiled(other, **{"fallback": "silent", **options}), other, *args, backwards=backwards)
        torch.testing.assert_close(actual, expected, rtol=1e-3, atol=1e-4)
        self.assertEqual(self.joint().note, "")
        return self.joint().saved_bytes

    def test_perceptron_keeps_one_tensor_a_layer(self):
        model = nn.Sequential(nn.Linear(8, 32), nn.GELU(), nn.Linear(32, 4))
        kept = self.check_joint(model, torch.randn(6, 8))
        self.assertEqual(kept, 4 * 6 * (8 + 32))  # the batch, and what goes into GELU

    def test_views_alone_are_no_fallback(self):
        x = torch.randn(4, 6, requires_grad=True)
        first, second = self.compiled(lambda x: x.chunk(2))(x)
        self.assertEqual(first.data_ptr(), x.data_ptr())
        (first.sum() + 2 * second.sum()).backward()
        self.assertTrue(torch.equal(x.grad, torch.tensor([[1.0], [1], [2], [2]]).expand(4, 6)))
        self.assertEqual([one.unsupported for one in self.reports if one.unsupported], [])
        for run in (lambda x: x.split(2), lambda x: (x[1:], x.t())):
            torch._dynamo.reset()
            own, eager = (torch.arange(20.0).reshape(5, 4).requires_grad_() for _ in range(2))
            for function, x in ((self.compiled(run), own), (run, eager)):
                sum(one.square().sum() for one in function(x)).backward()
            self.compare(own.grad, eager.grad)

    def test_attention_block(self):
        class Block(nn.Module):
            def __init__(self):
                super().__init__()
                self.norm, self.qkv, self.out = nn.LayerNorm(16), nn.Linear(16, 48), nn.Linear(16, 16)

            def forward(self, x):
                q, k, v = self.qkv(self.norm(x)).view(2, 6, 3, 2, 8).permute(2, 0, 3, 1, 4).unbind(0)
                y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
                return x + self.out(y.transpose(1, 2).reshape(2, 6, 16))

        self.check_joint(Block(), torch.randn(2, 6, 16, requires_grad=True))

    def test_convolution_and_batch_norm(self):
        model = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 8, 3))
        self.check_joint(model, torch.randn(2, 3, 10, 10))

    def test_channels_last(self):
        model = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 8, 3))
        self.check_joint(model.to(memory_format=torch.channels_last), torch.randn(2, 3, 10, 10).to(memory_format=torch.channels_last))

    def test_dropout_has_eagers_numbers_and_keeps_a_mask_of_bytes(self):
        model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Dropout(0.3), nn.Linear(16, 4))
        kept = self.check_joint(model, torch.randn(6, 8))
        self.assertEqual(kept, 4 * 6 * 8 + (4 + 1) * 6 * 16)

    def test_random_tensors(self):
        class Noisy(nn.Module):
            def __init__(self):
                super().__init__()
                self.linear = nn.Linear(4, 4)

            def forward(self, x):
                y = self.linear(x)
                return y * torch.rand(3, 4) + torch.randn_like(y)

        self.check_joint(Noisy(), torch.randn(3, 4))

    def test_tied_weights(self):
        class Tied(nn.Module):
            def __init__(self):
                super().__init__()
                self.embedding, self.head = nn.Embedding(7, 6), nn.Linear(6, 7, bias=False)
                self.head.weight = self.embedding.weight

            def forward(self, tokens):
                return self.head(self.embedding(tokens).tanh())

        self.check_joint(Tied(), torch.randint(0, 7, (3, 4)))

    def test_many_outputs_and_outputs_that_alias_inputs(self):
        class Many(nn.Module):
            def __init__(self):
                super().__init__()
                self.linear = nn.Linear(4, 4)

            def forward(self, x):
                y = self.linear(x)
                return y, y.exp(), x, y.view(-1), x.t()

        self.check_joint(Many(), torch.randn(3, 4, requires_grad=True))

    def test_a_counter_that_the_backward_pass_reads(self):
        class Counted(nn.Module):
            def __init__(self):
                super().__init__()
                self.weight = nn.Parameter(torch.randn(4))
                self.register_buffer("count", torch.tensor(1))

            def forward(self, x):
                self.count += 1
                return x * self.weight * self.count

        model, other, x = Counted(), Counted(), torch.randn(3, 4)
        other.load_state_dict(model.state_dict())
        compiled = self.compiled(other)
        for run in (model, compiled):
            for _ in range(2):
                run(x).square().sum().backward()
        self.assertEqual(other.count.item(), 3)
        torch.testing.assert_close(other.weight.grad, model.weight.grad)

    def test_equal_gradients_of_two_inputs(self):
        class Sum(nn.Module):
            def __init__(self):
                super().__init__()
                self.a, self.b = nn.Parameter(torch.randn(4)), nn.Parameter(torch.randn(4))

            def forward(self, x, y):
                return (x + y).exp(), self.a * self.a + self.b

        self.check_joint(Sum(), torch.randn(4, requires_grad=True), torch.randn(4, requires_grad=True))

    def test_backward_twice(self):
        model = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 4))
        self.check_joint(model, torch.randn(6, 8), backwards=2)

    def test_what_is_kept_is_overwritten_only_by_the_last_backward_pass(self):
        kept = []

        def keep(tensor):
            kept.append(tensor)
            return tensor

        def layers(x, w):
            for _ in range(4):
                x = (x @ w).tanh()
            return x @ w

        x, w = (torch.randn(64, 64).div(8).requires_grad_() for _ in range(2))
        with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
            y = self.compiled(layers)(x, w)
        own = [tensor for tensor in kept if tensor.data_ptr() not in (x.data_ptr(), w.data_ptr(), y.data_ptr())]
        self.assertTrue(own)
        before = [tensor.clone() for tensor in own]
        first = torch.autograd.grad(y.sum(), (x, w), retain_graph=True)
        self.assertTrue(all(map(torch.equal, own, before)))
        second = torch.autograd.grad(y.sum(), (x, w))
        self.assertTrue(all(map(torch.equal, first, second)))
        self.assertFalse(all(map(torch.equal, own, before)))

    def test_attention_keeps_its_result_and_a_logarithm_for_each_query(self):
        class Attention(nn.Module):
            def forward(self, q, k, v):
                return nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)

        q, k, v = (torch.randn(2, 3, 24, 16).requires_grad_() for _ in range(3))
        self.assertEqual(self.check_joint(Attention(), q, k, v), 3 * q.nbytes + 4 * q.nbytes // 4 + 4 * 2 * 3 * 24)

    def test_places_are_kept_in_narrow_integers(self):
        class Largest(nn.Module):
            def forward(self, x):
                return x.topk(50, 1)

        values, places = self.compiled(Largest())(torch.randn(8, 100).requires_grad_())
        self.assertEqual((self.joint().saved_bytes, places.dtype), (8 * 50, torch.int64))
        self.reports.clear()
        torch._dynamo.reset()
        self.assertEqual(self.check_joint(Largest(), torch.randn(8, 100).requires_grad_()), 8 * 50)

    def test_frozen_parameters_and_parts_without_gradients(self):
        class Frozen(nn.Module):
            def __init__(self):
                super().__init__()
                self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)
                self.a.weight.requires_grad_(False)

            def forward(self, x):
                with torch.no_grad():
                    z = self.b(x)
                return self.b(self.a(x).tanh()) * z, z

        self.check_joint(Frozen(), torch.randn(3, 4))

    def test_buffers_that_the_forward_pass_changes(self):
        class Counting(nn.Module):
            def __init__(self):
                super().__init__()
                self.linear = nn.Linear(4, 4)
                self.register_buffer("sums", torch.zeros(4))

            def forward(self, x):
                self.sums.add_(x.sum(0))
                return self.linear(x) * self.sums

        self.check_joint(Counting(), torch.randn(3, 4))

    def test_constants(self):
        class Constant(nn.Module):
            def __init__(self):
                super().__init__()
                self.linear, self.scale = nn.Linear(4, 4), torch.arange(4.0)

            def forward(self, x):
                return self.linear(x) * self.scale * torch.tensor([1.0, 2, 3, 4])

        self.check_joint(Constant(), torch.randn(3, 4))

    def test_checkpoints_are_computed_again(self):
        class Layers(nn.Module):
            def __init__(self, wrap):
                super().__init__()
                self.wrap = wrap
                self.a = nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 8))
                self.b = nn.Sequential(nn.Linear(8, 32), nn.GELU(), nn.Dropout(0.2), nn.Linear(32, 8))

            def forward(self, x):
                return self.wrap(self.b, self.wrap(self.a, x))

        kept = self.check_joint(Layers(lambda layer, x: checkpoint(layer, x, use_reentrant=False)), torch.randn(6, 8))
        # The batch, the result of the first layer and the mask, which no other numbers may replace.
        self.assertEqual(kept, 4 * 6 * (8 + 8) + 6 * 32)
        self.reports.clear()
        torch._dynamo.reset()
        self.assertGreater(self.check_joint(Layers(lambda layer, x: layer(x)), torch.randn(6, 8)), kept)

    def test_a_smaller_budget_never_keeps_more(self):
        layers = [layer for _ in range(3) for layer in (nn.LayerNorm(16), nn.Linear(16, 16), nn.GELU())]
        kept = []
        for budget in (1.0, 0.75, 0.5, 0.25, 0.0):
            with self.subTest(budget=budget):
                torch._dynamo.reset()
                self.reports.clear()
                kept.append(self.check_joint(nn.Sequential(*copy.deepcopy(layers)), torch.randn(64, 16), activation_memory_budget=budget))
        self.assertEqual(kept, sorted(kept, reverse=True))
        self.assertEqual(kept[-1], 4 * 64 * 16)  # the batch
        self.assertGreater(len(set(kept)), 3)

    def test_what_ferrite_cannot_divide_is_told(self):
        class Inverse(nn.Module):
            def __init__(self):
                super().__init__()
                self.linear = nn.Linear(4, 4)

            def forward(self, x):
                return torch.linalg.inv(self.linear(x) + 9 * torch.eye(4)).tanh()

        text = str(ferrite.torch.explain(Inverse(), torch.randn(4, 4)))
        self.assertIn("divided by PyTorch's partitioner", text)
        self.assertIn("runs in PyTorch", text)

    def test_explain_tells_what_is_kept(self):
        text = str(ferrite.torch.explain(nn.Sequential(nn.Linear(8, 32), nn.GELU(), nn.Linear(32, 4)), torch.randn(6, 8)))
        self.assertIn("kept for the backward pass: 960 bytes", text)

    def test_the_budget_is_checked(self):
        for budget in (-0.1, 2, "all", True):
            with self.assertRaises(ferrite.Error) as caught:
                self.compiled(lambda x: x + 1, activation_memory_budget=budget)(torch.zeros(2))
            self.assertEqual(caught.exception.code, "FE-Y01")
            torch._dynamo.reset()


if __name__ == "__main__":
    main()
