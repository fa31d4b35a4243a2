# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""ferrite.torch.train_step: a whole step as one program, with the optimizers of PyTorch."""

import concurrent.futures
import copy
import functools
import io
import json
import random
import unittest

import ferrite
import ferrite.torch
import torch
import torch.nn.functional as F
from common import main
from step_test import Reports, StepTest, mse, perceptron
from torch import nn
from torch.utils.checkpoint import checkpoint

OPTIMIZERS = {
    "SGD": functools.partial(torch.optim.SGD, lr=0.05),
    "SGD with momentum": functools.partial(torch.optim.SGD, lr=0.05, momentum=0.9, weight_decay=0.01, nesterov=True),
    "Adam": functools.partial(torch.optim.Adam, lr=0.01, amsgrad=True, weight_decay=0.01),
    "AdamW": functools.partial(torch.optim.AdamW, lr=0.01),
    "AdamW, lists of tensors": functools.partial(torch.optim.AdamW, lr=0.01, foreach=True),
    "Adagrad": functools.partial(torch.optim.Adagrad, lr=0.01),
    "Adadelta": torch.optim.Adadelta,
    "Adamax": functools.partial(torch.optim.Adamax, lr=0.01),
    "ASGD": functools.partial(torch.optim.ASGD, lr=0.01),
    "NAdam": functools.partial(torch.optim.NAdam, lr=0.01),
    "RAdam": functools.partial(torch.optim.RAdam, lr=0.01),
    "RMSprop": functools.partial(torch.optim.RMSprop, lr=0.01, momentum=0.5, centered=True),
    "Rprop": torch.optim.Rprop,
}


class TrainStep(StepTest):
    def test_optimizers_are_one_program(self):
        for name, make in OPTIMIZERS.items():
            with self.subTest(optimizer=name):
                torch.manual_seed(0)
                _, _, graphs = self.check(perceptron(), make, mse, self.batches())
                self.assertOneProgram(graphs)

    def test_parameters_and_states_are_changed_in_place(self):
        model = perceptron()
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
        with Reports() as graphs:
            step = self.step(model, mse, optimizer)
            batches = self.batches()
            step(*batches[0])
            tensors = [*model.parameters(), *(one for state in optimizer.state.values() for one in state.values())]
            before = [(one.data_ptr(), one.clone(), one._version) for one in tensors]
            step(*batches[1])
        for one, (pointer, old, version) in zip(tensors, before, strict=True):
            self.assertEqual(one.data_ptr(), pointer)
            self.assertFalse(torch.equal(one, old))
            self.assertGreater(one._version, version)
        ledger = json.loads(graphs[0].programs[0].ledger())
        memory = [record for record in ledger if record["kind"] == "memory"]
        self.assertEqual([record for record in memory if "copied" in json.dumps(record)], [])
        # Weights, biases, their two moments, and the one counter.
        self.assertEqual(sum("in place" in json.dumps(record) for record in memory), 13)
        self.assertTrue(all(one.grad is None for one in model.parameters()))

    def test_batch_norm(self):
        model = nn.Sequential(nn.Conv2d(3, 4, 3, bias=False), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(144, 5))
        batches = [(torch.randn(4, 3, 8, 8), torch.randint(0, 5, (4,))) for _ in range(3)]
        _, _, graphs = self.check(model, OPTIMIZERS["SGD with momentum"], lambda model, x, y: F.cross_entropy(model(x), y), batches)
        self.assertOneProgram(graphs)

    def test_tied_weights_and_attention(self):
        class Model(nn.Module):
            def __init__(self):
                super().__init__()
                self.tokens = nn.Embedding(11, 16)
                self.layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True, norm_first=True)
                self.head = nn.Linear(16, 11, bias=False)
                self.head.weight = self.tokens.weight

            def forward(self, tokens):
                return self.head(self.layer(self.tokens(tokens)))

        def loss(model, tokens):
            return F.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())

        batches = [(torch.randint(0, 11, (3, 9)),) for _ in range(3)]
        _, _, graphs = self.check(Model(), OPTIMIZERS["SGD with momentum"], loss, batches)
        self.assertOneProgram(graphs)

    def test_a_recurrent_layer_is_in_the_program(self):
        model = nn.LSTM(6, 4)

        def loss(model, x, target):
            return F.mse_loss(model(x[:, None])[0][:, 0], target)

        _, _, graphs = self.check(model, OPTIMIZERS["Adam"], loss, self.batches(rows=3))
        self.assertOneProgram(graphs)

    def test_a_module_of_two_names(self):
        class Model(nn.Module):
            def __init__(self):
                super().__init__()
                self.first = self.second = nn.BatchNorm1d(6)
                self.head = nn.Linear(6, 4)
                self.first.register_buffer("calls", torch.zeros(()))

            def forward(self, x):
                self.second.calls = self.first.calls + 1
                return self.head(self.second(self.first(x)))

        model, _, graphs = self.check(Model(), OPTIMIZERS["AdamW"], mse, self.batches())
        self.assertOneProgram(graphs)
        self.assertEqual({type(one) for one in model.parameters()}, {nn.Parameter})
        self.assertEqual({type(one) for one in model.state_dict().values()}, {torch.Tensor})

    def test_checkpoints_are_in_the_program(self):
        for reentrant in (False, True):

            def loss(model, x, target, reentrant=reentrant):
                x = model[:2](x)
                return F.mse_loss(checkpoint(model[2], x, use_reentrant=reentrant), target)

            _, _, graphs = self.check(perceptron(), OPTIMIZERS["SGD"], loss, self.batches(3))
            self.assertOneProgram(graphs)

    def test_frozen_parameters_and_groups(self):
        model = perceptron()
        model[0].weight.requires_grad_(False)

        def make(parameters):
            first, *rest = parameters
            return torch.optim.AdamW([{"params": rest, "lr": 0.02}, {"params": [first], "lr": 0.1}], weight_decay=0.1)

        before = model[0].weight.clone()
        other, _, _ = self.check(model, make, mse, self.batches())
        self.assertTrue(torch.equal(other[0].weight, before))

    def test_an_optimizer_of_some_parameters(self):
        batches = self.batches(4)
        for name in ("SGD", "AdamW"):
            model = perceptron()
            model[2].bias.requires_grad_(False)
            other = copy.deepcopy(model)
            optimizer, own = (OPTIMIZERS[name](one[2].parameters()) for one in (model, other))
            with Reports() as graphs:
                step = self.step(other, mse, own, clip_norm=0.5)
                for k, batch in enumerate(batches):
                    if k == 2:  # its states are made in a step in PyTorch
                        for one in (model, other):
                            one[2].bias.requires_grad_(True)
                    optimizer.zero_grad()
                    mse(model, *batch).backward()
                    nn.utils.clip_grad_norm_(model[2].parameters(), 0.5)
                    optimizer.step()
                    step(*batch)
                    self.assertTrainedAlike(model, other)
            self.assertEqual([graph.kind for graph in graphs], ["step"] * 2)
            self.assertEqual([one.grad for one in other.parameters()], [None] * 4)
            expected, actual = (one.state_dict()["state"] for one in (optimizer, own))
            torch.testing.assert_close(actual, expected, rtol=1e-3, atol=1e-5)

    def test_clipping(self):
        batches = [(x, 100 * target) for x, target in self.batches()]
        self.check(perceptron(), OPTIMIZERS["SGD"], mse, batches, clip=0.5)

    def test_other_numbers_shapes_and_modes_get_a_program_each(self):
        model = nn.Sequential(nn.Linear(6, 4, bias=False), nn.BatchNorm1d(4))
        other = copy.deepcopy(model)
        optimizer, own = (torch.optim.AdamW(one.parameters(), lr=0.01) for one in (model, other))
        with Reports() as graphs:
            step = self.step(other, mse, own)

            def both(batch):
                torch.testing.assert_close(step(*batch), self.eager_step(model, mse, optimizer, batch), rtol=1e-3, atol=1e-5)
                self.assertTrainedAlike(model, other)

            first, second = self.batches(2), self.batches(2, rows=5)
            for batch in (*first, *second, *first):
                both(batch)
            self.assertEqual(len(graphs), 2)
            for one in (optimizer, own):
                one.param_groups[0]["weight_decay"] = 0.3
            both(first[0])
            self.assertEqual(len(graphs), 3)
            for one in (model, other):
                one[1].eval()
            both(first[0])
            self.assertEqual(len(graphs), 4)

    def test_state_dict_goes_both_ways(self):
        model = perceptron()
        other = copy.deepcopy(model)
        make = OPTIMIZERS["AdamW"]
        optimizer, own = make(model.parameters()), make(other.parameters())
        step = self.step(other, mse, own)
        batches = self.batches(7)
        for batch in batches[:3]:
            self.eager_step(model, mse, optimizer, batch)
            step(*batch)
        # From the program to eager.
        stored = io.BytesIO()
        torch.save(own.state_dict(), stored)
        stored.seek(0)
        optimizer.load_state_dict(torch.load(stored))
        self.assertEqual(optimizer.state_dict()["state"][0]["step"].item(), 3)
        for batch in batches[3:5]:
            self.eager_step(model, mse, optimizer, batch)
        # And back: the states are other tensors then.
        own.load_state_dict(copy.deepcopy(optimizer.state_dict()))
        other.load_state_dict(model.state_dict())
        for batch in batches[5:]:
            self.eager_step(model, mse, optimizer, batch)
            step(*batch)
        self.assertTrainedAlike(model, other)
        self.assertEqual({state["step"].item() for state in own.state.values()}, {7})
        # The optimizer itself goes on from there.
        self.eager_step(other, mse, own, batches[0])
        self.assertEqual({state["step"].item() for state in own.state.values()}, {8})

    def check_dropout(self, **options):
        """Trains with dropout, whose masks are others in each step. Returns the graph."""
        model = nn.Sequential(nn.Linear(6, 64), nn.Dropout(0.5), nn.Linear(64, 4))
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.02)
        with Reports() as graphs:
            step = ferrite.torch.train_step(model, mse, optimizer, options=options)
            (batch,) = self.batches(1)
            pointers = [one.data_ptr() for one in model.parameters()]
            losses = [step(*batch).item() for _ in range(60)]
        self.assertLess(losses[-1], 0.7 * losses[0])
        self.assertEqual([one.data_ptr() for one in model.parameters()], pointers)
        (graph,) = graphs
        return graph

    def test_dropout_is_in_the_program(self):
        graph = self.check_dropout(fallback="error")
        self.assertEqual((len(graph.programs), graph.unsupported), (1, []))
        self.assertEqual([overload for _, overload, _ in graph.left], ["ferrite.random_seeds.default"])

    def test_masks_of_dropout_are_the_gradients_masks(self):
        model = nn.Sequential(nn.Dropout(0.5), nn.Linear(200, 1, bias=False))
        nn.init.ones_(model[1].weight)
        step = ferrite.torch.train_step(
            model, lambda model, x: model(x).sum(), torch.optim.SGD(model.parameters(), lr=0.5), options={"fallback": "error"}
        )
        x = torch.ones(1, 200)
        step(x)  # in PyTorch
        before = model[1].weight.detach().clone()
        loss = step(x)
        kept = (before - model[1].weight.detach()) / 0.5
        self.assertTrue(torch.all((kept == 0) | (kept == 2)))
        self.assertTrue(60 < (kept == 0).sum().item() < 140)
        torch.testing.assert_close(loss, (kept * before).sum(), rtol=1e-4, atol=1e-4)

    def test_dropout_runs_in_pytorch_if_asked(self):
        graph = self.check_dropout(fallback="silent", fallback_random=True)
        self.assertTrue(graph.unsupported)

    def test_arguments_that_are_no_tensors(self):
        def loss(model, batch, scale):
            return scale * F.mse_loss(model(batch["x"]), batch["target"])

        x, target = self.batches(1)[0]
        self.check(perceptron(), OPTIMIZERS["SGD"], loss, [({"x": x, "target": target}, 2.0), ({"x": x, "target": target}, 3.0)])

    def check_changes(self, forward, change=lambda model: None, fallback="error", steps=4):
        """Trains a small model with such a forward pass, which is changed after each step. Returns the graphs."""

        class Model(nn.Module):
            def __init__(self):
                super().__init__()
                self.layer = nn.Linear(6, 4)
                self.dropout = nn.Dropout(0.0)
                self.scale, self.calls, self.scales, self.tensor = 1.0, 0, [1.0, {"one": 2}], torch.ones(4)

            def forward(self, x):
                return forward(self, self.layer(x))

        model = Model()
        other = copy.deepcopy(model)
        optimizer, own = (torch.optim.SGD(one.parameters(), lr=0.05) for one in (model, other))
        with Reports() as graphs:
            step = self.step(other, mse, own, fallback=fallback)
            for batch in self.batches(steps):
                random.seed(steps)
                expected = self.eager_step(model, mse, optimizer, batch)
                random.seed(steps)
                torch.testing.assert_close(step(*batch), expected, rtol=1e-3, atol=1e-5)
                self.assertEqual((other.calls, other.scales), (model.calls, model.scales))
                torch.testing.assert_close(other.tensor.detach(), model.tensor.detach())
                for one in (model, other):
                    change(one)
            self.assertTrainedAlike(model, other)
        return graphs

    def test_state_of_the_model_in_python(self):
        def set_scale(model):
            model.scale = 3.0 - model.scale  # 1.0, 2.0, 1.0, ...

        def set_scales(model):
            model.scales[1]["one"] = 3 - model.scales[1]["one"]

        def set_dropout(model):
            model.dropout.p = 1.0

        self.assertEqual(len(self.check_changes(lambda model, x: x * model.scale, set_scale)), 2)
        self.assertEqual(len(self.check_changes(lambda model, x: x * model.scales[1]["one"], set_scales)), 2)
        self.assertEqual(len(self.check_changes(lambda model, x: model.dropout(x), set_dropout)), 2)

    def test_tensors_that_are_attributes(self):
        def replace(model, x=None):
            model.tensor = model.tensor.detach() * 0.5
            return x

        def change(model, x=None):
            model.tensor.mul_(0.5)
            return x

        def store(model, x):
            model.tensor = torch.tanh(x)
            return model.tensor * 2

        for forward, change_ in (
            (lambda model, x: x * model.tensor, replace),
            (lambda model, x: x * model.tensor, change),
            (lambda model, x: replace(model, x) * model.tensor, lambda model: None),
            (lambda model, x: change(model, x) * model.tensor, lambda model: None),
        ):
            self.assertOneProgram(self.check_changes(forward, change_))
        self.check_changes(store)

    def test_a_forward_pass_that_changes_the_state(self):
        def count(model, x):
            model.calls += 1
            return x * model.calls

        def append(model, x):
            model.scales.append(1.0)
            return x * len(model.scales)

        def draw(model, x):
            return x * random.random()

        for forward, said in ((count, "changes 'calls' of the model"), (append, "'scales'"), (draw, "random numbers of Python")):
            with self.assertWarnsRegex(UserWarning, f"runs as two graphs, .*{said}"):
                self.check_changes(forward, fallback="warn")

    def test_constants_that_change_without_end(self):
        def loss(model, x, target, factor):
            return factor * mse(model, x, target)

        def set_scale(model):
            model.scale += 1.0

        model = nn.Linear(6, 4)
        step = self.step(model, loss, torch.optim.SGD(model.parameters(), lr=0.05), fallback="warn")
        ((x, target),) = self.batches(1)
        with torch._dynamo.config.patch(recompile_limit=2):
            with Reports() as graphs:
                step(x, target, 1.0)
                step(x, target, 2.0)
                with self.assertWarnsRegex(UserWarning, "after 2 programs .* from 2.0 to 3.0; pass a tensor"):
                    step(x, target, 3.0)
            self.assertEqual([graph.kind for graph in graphs][:2], ["step"] * 2)
            with torch.no_grad():
                expected = loss(model, x, target, 4.0)
            torch.testing.assert_close(step(x, target, 4.0), expected)
            with self.assertWarnsRegex(UserWarning, "'scale' of the model changes again; make it a tensor"):
                self.check_changes(lambda model, x: x * model.scale, set_scale, fallback="warn")

    def test_hooks(self):
        def of_gradient(model, optimizer):
            return model[0].weight.register_hook(lambda gradient: 3 * gradient)

        def after_gradient(model, optimizer):
            def change(parameter):
                parameter.grad.mul_(3)

            return model[0].bias.register_post_accumulate_grad_hook(change)

        def of_module(model, optimizer):
            return model[1].register_full_backward_hook(lambda module, inputs, outputs: (3 * inputs[0],))

        def of_optimizer(model, optimizer):
            def change(*_):
                model[0].weight.grad.mul_(3)

            return optimizer.register_step_pre_hook(change)

        for add, said in (
            (of_gradient, "'0.weight' of the model has hooks"),
            (after_gradient, "'0.bias' of the model has hooks"),
            (of_module, "'1' of the model has hooks"),
            (of_optimizer, "the optimizer has hooks"),
        ):
            model = perceptron()
            other = copy.deepcopy(model)
            optimizer, own = (torch.optim.SGD(one.parameters(), lr=0.05) for one in (model, other))
            step = self.step(other, mse, own, fallback="warn")
            for k, batch in enumerate(self.batches()):
                self.eager_step(model, mse, optimizer, batch)
                if k == 2:
                    with self.assertWarnsRegex(UserWarning, f"runs as two graphs, .*{said}"):
                        step(*batch)
                else:
                    step(*batch)
                self.assertTrainedAlike(model, other)
                if k == 1:
                    hooks = [add(model, optimizer), add(other, own)]
            for hook in hooks:
                hook.remove()
            with Reports() as graphs:
                self.eager_step(model, mse, optimizer, batch)
                step(*batch)
                self.assertTrainedAlike(model, other)
            self.assertEqual(graphs, [])  # the program from before the hooks

    def test_a_group_is_added(self):
        model = perceptron()
        other = copy.deepcopy(model)
        optimizer, own = (OPTIMIZERS["AdamW"](one[2].parameters()) for one in (model, other))
        with Reports() as graphs:
            step = self.step(other, mse, own)
            for k, batch in enumerate(self.batches(5)):
                if k == 2:
                    for one, trains in ((model, optimizer), (other, own)):
                        trains.add_param_group({"params": list(one[0].parameters()), "lr": 0.1})
                model[0].zero_grad()
                self.eager_step(model, mse, optimizer, batch)
                step(*batch)
                self.assertTrainedAlike(model, other)
        self.assertEqual([graph.kind for graph in graphs], ["step"] * 2)

    def test_parameters_are_replaced(self):
        model = perceptron()
        other = copy.deepcopy(model)
        optimizer, own = (torch.optim.SGD(one.parameters(), lr=0.05) for one in (model, other))
        with Reports() as graphs:
            step = self.step(other, mse, own)
            for k, batch in enumerate(self.batches(5)):
                torch.testing.assert_close(step(*batch), self.eager_step(model, mse, optimizer, batch))
                self.assertTrainedAlike(model, other)
                if k == 1:  # the optimizer keeps two of the old ones
                    stored = {name: 2 * one for name, one in model[0].state_dict().items()}
                    for one in (model, other):
                        one[0].load_state_dict(copy.deepcopy(stored), assign=True)
                if k == 2:
                    for one, trains in ((model, optimizer), (other, own)):
                        trains.param_groups[0]["params"] = list(one.parameters())
        self.assertEqual({graph.kind for graph in graphs}, {"step"})

    def asks_for_a_value(self, model, x, target):
        value = mse(model, x, target)
        return value * 2 if value.item() > 0.1 else value

    def test_a_step_that_is_no_graph_runs_as_two(self):
        model = perceptron()
        other = copy.deepcopy(model)
        optimizer, own = (torch.optim.SGD(one.parameters(), lr=0.01, momentum=0.9) for one in (model, other))
        step = self.step(other, self.asks_for_a_value, own, fallback="warn")
        batches = self.batches()
        with self.assertWarnsRegex(UserWarning, "the training step runs as two graphs"):
            step(*batches[0])
        self.eager_step(model, self.asks_for_a_value, optimizer, batches[0])
        for batch in batches[1:]:
            self.eager_step(model, self.asks_for_a_value, optimizer, batch)
            step(*batch)
        self.assertTrainedAlike(model, other)

    def test_what_the_loss_raises_reaches_the_caller(self):
        def loss(model, x, target):
            if x.shape[0] == 3:
                raise KeyError("three rows")
            return mse(model, x, target)

        for fallback in ("error", "warn"):
            with self.subTest(fallback=fallback):
                model = perceptron()
                other = copy.deepcopy(model)
                optimizer, own = (torch.optim.SGD(one.parameters(), lr=0.1) for one in (model, other))
                step = self.step(other, loss, own, fallback=fallback)
                batch = self.batches(1)[0]
                for _ in range(2):
                    self.eager_step(model, mse, optimizer, batch)
                    step(*batch)
                    with self.assertRaisesRegex(KeyError, "three rows"):
                        step(*(one[:3] for one in batch))
                self.assertTrainedAlike(model, other)
                self.assertIsNone(step._in_two)

    def test_a_loss_that_is_no_number(self):
        model = perceptron()
        for loss, text in ((lambda model, x, _: model(x), "a tensor of shape"), (lambda *_: (1, 2), "a tuple")):
            with self.subTest(text), self.assertRaises(ferrite.Error) as caught:
                self.step(model, loss, torch.optim.SGD(model.parameters(), lr=0.1))(*self.batches(1)[0])
            self.assertEqual(caught.exception.code, "FE-Y01")
            self.assertIn(text, caught.exception.text)

    def test_steps_are_traced_in_several_threads(self):
        def work(_):
            model = perceptron()
            step = self.step(model, mse, torch.optim.AdamW(model.parameters()))
            return [step(*batch) for batch in self.batches()]

        with concurrent.futures.ThreadPoolExecutor(3) as threads:
            self.assertEqual(len(list(threads.map(work, range(3)))), 3)
        self.assertFalse(torch.compiler.is_compiling())
        self.assertTrue(torch.backends.mkldnn.enabled)

    def test_errors(self):
        model = perceptron()
        with self.assertRaises(ferrite.Error) as caught:
            self.step(model, mse, torch.optim.SGD([nn.Parameter(torch.zeros(3))], lr=0.1))
        self.assertEqual(caught.exception.code, "FE-Y01")
        step = self.step(model, self.asks_for_a_value, torch.optim.SGD(model.parameters(), lr=0.1))
        with self.assertRaises(ferrite.Error) as caught:
            step(*self.batches(1)[0])
        self.assertEqual(caught.exception.code, "FE-Y02")


if __name__ == "__main__":
    unittest.TestCase.maxDiff = None
    main()
