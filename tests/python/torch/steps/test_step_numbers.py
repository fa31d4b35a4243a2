# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Numbers of the optimizer that change from step to step."""

import copy
import functools

import torch
from common import main
from step_test import Reports, StepTest, mse, perceptron
from torch.optim import SGD, AdamW
from torch.optim.lr_scheduler import CyclicLR, OneCycleLR


class Descent(torch.optim.Optimizer):
    """Reads one of its numbers in Python."""

    def __init__(self, parameters):
        super().__init__(parameters, {"lr": 0.1, "power": 1.0})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            factor = float(group["power"])
            for one in group["params"]:
                one.sub_(one.grad * (0.1 * factor))


class StepNumbers(StepTest):
    def run_both(self, make, make_schedule, steps=6):
        """Steps in which a scheduler changes numbers. The number of programs."""
        model = perceptron()
        other = copy.deepcopy(model)
        optimizers = [make(one.parameters()) for one in (model, other)]
        schedules = [make_schedule(one) for one in optimizers]
        with Reports() as graphs:
            step = self.step(other, mse, optimizers[1])
            for batch in self.batches(steps):
                expected = self.eager_step(model, mse, optimizers[0], batch)
                torch.testing.assert_close(step(*batch), expected, rtol=1e-3, atol=1e-5)
                self.assertTrainedAlike(model, other)
                for schedule in schedules:
                    schedule.step()
        self.assertEqual({graph.kind for graph in graphs}, {"step"})
        return len(graphs)

    def test_a_schedule_compiles_nothing(self):
        for rate in (0.05, torch.tensor(0.05)):
            model = perceptron()
            other = copy.deepcopy(model)
            optimizers = [AdamW(one.parameters(), lr=copy.copy(rate)) for one in (model, other)]
            schedules = [torch.optim.lr_scheduler.ExponentialLR(one, 0.5) for one in optimizers]
            with Reports() as graphs:
                step = self.step(other, mse, optimizers[1])
                for batch in self.batches():
                    self.eager_step(model, mse, optimizers[0], batch)
                    step(*batch)
                    for schedule in schedules:
                        schedule.step()
            self.assertTrainedAlike(model, other)
            self.assertOneProgram(graphs)

    def test_betas_and_momentum_become_inputs(self):
        once = functools.partial(OneCycleLR, max_lr=0.1, total_steps=20)
        cyclic = functools.partial(CyclicLR, base_lr=0.01, max_lr=0.1, step_size_up=2)
        for make, schedule in (
            (functools.partial(AdamW, lr=0.01), once),
            (functools.partial(AdamW, lr=0.01, amsgrad=True, weight_decay=0.0), once),
            (functools.partial(torch.optim.RMSprop, lr=0.01, momentum=0.9), once),
            (functools.partial(SGD, lr=0.01, momentum=0.9), once),
            (functools.partial(SGD, lr=0.01, momentum=0.9, nesterov=True, weight_decay=0.01), cyclic),
        ):
            with self.subTest(optimizer=make, schedule=schedule):
                # The first one has the first numbers as constants.
                self.assertEqual(self.run_both(make, schedule), 2)

    def test_a_number_that_becomes_zero_gets_a_program(self):
        model = perceptron()
        other = copy.deepcopy(model)
        optimizer, own = (SGD(one.parameters(), lr=0.01, weight_decay=0.1) for one in (model, other))
        with Reports() as graphs:
            step = self.step(other, mse, own)
            for decay, batch in zip((0.1, 0.2, 0.3, 0.0, 0.4, 0.0), self.batches(6), strict=True):
                for one in (optimizer, own):
                    one.param_groups[0]["weight_decay"] = decay
                self.eager_step(model, mse, optimizer, batch)
                step(*batch)
                self.assertTrainedAlike(model, other)
        self.assertEqual(len(graphs), 3)  # 0.1, any other number, and 0

    def test_groups_have_numbers_of_their_own(self):
        model = perceptron()
        other = copy.deepcopy(model)

        def make(one):
            first, _, second = one
            groups = [{"params": first.parameters(), "betas": (0.8, 0.99)}, {"params": second.parameters()}]
            return AdamW(groups, lr=0.01)

        optimizer, own = make(model), make(other)
        with Reports() as graphs:
            step = self.step(other, mse, own)
            for number, batch in enumerate(self.batches(5)):
                for one in (optimizer, own):
                    one.param_groups[1]["betas"] = (0.9 - 0.05 * number, 0.999)
                self.eager_step(model, mse, optimizer, batch)
                step(*batch)
                self.assertTrainedAlike(model, other)
        self.assertEqual(len(graphs), 2)

    def test_a_number_that_python_reads_stays_a_constant(self):
        model = perceptron()
        other = copy.deepcopy(model)
        optimizer, own = Descent(model.parameters()), Descent(other.parameters())
        with Reports() as graphs:
            step = self.step(other, mse, own)
            for power, batch in zip((1.0, 0.5, 0.25, 0.5), self.batches(4), strict=True):
                for one in (optimizer, own):
                    one.param_groups[0]["power"] = power
                self.eager_step(model, mse, optimizer, batch)
                step(*batch)
                self.assertTrainedAlike(model, other)
        self.assertEqual(len(graphs), 3)

    def test_a_number_of_the_batch_is_no_constant(self):
        def loss(model, x, target, count):
            return mse(model, x, target) / count.item()

        for dtype in (torch.float64, torch.int64):
            model = perceptron()
            other = copy.deepcopy(model)
            optimizer, own = SGD(model.parameters(), lr=0.1), SGD(other.parameters(), lr=0.1)
            step = self.step(other, loss, own, fallback="silent")
            for count, batch in zip((1, 2, 3, 4), self.batches(4), strict=True):
                batch = (*batch, torch.tensor(count, dtype=dtype))
                torch.testing.assert_close(step(*batch), self.eager_step(model, loss, optimizer, batch))
            self.assertTrainedAlike(model, other)


if __name__ == "__main__":
    main()
