# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The families of ops that random graphs are made of: each draws an op, operands that it takes, and attributes."""

from numpy_moving_families import MovingFamilies
from numpy_pointwise_families import PointwiseFamilies
from numpy_summing_families import SummingFamilies


class Generator(PointwiseFamilies, MovingFamilies, SummingFamilies):
    def step(self):
        """One more node, of a family drawn at random. Shapes that do not fit are drawn again."""
        families = [
            (self.binary, 10),
            (self.unary, 6),
            (self.activation, 4),
            (self.comparison, 3),
            (self.logic, 3),
            (self.bits, 3),
            (self.select, 3),
            (self.cast, 5),
            (self.view, 12),
            (self.join, 4),
            (self.pad, 3),
            (self.reduction, 8),
            (self.arg, 2),
            (self.running, 2),
            (self.order, 2),
            (self.gathered, 5),
            (self.scattered, 5),
            (self.product, 6),
            (self.window, 3),
            (self.convolution, 3),
            (self.transposed_convolution, 2),
            (self.weight_gradient, 2),
            (self.norm, 5),
            (self.quantised, 3),
            (self.constant, 1),
            (self.sequence, 1),
        ]
        family = self.random.choices([f for f, _ in families], [w for _, w in families])[0]
        family()

    def make(self):
        self.given(self.pick([*self.floats, *self.ints]), self.shape())
        wanted = self.random.randint(1, 14)
        while len(self.graph.nodes) < wanted:
            self.step()
        graph = self.graph
        used = {name for node in graph.nodes for name in node.operands}
        made = [name for node in graph.nodes for name in node.results]
        graph.outputs = [name for name in made if name not in used or self.chance(0.2)] or made[-1:]
        used |= set(graph.outputs)
        for s in graph.sources:
            same = [n for n in made if self.values[n].dtype == s.dtype and self.values[n].shape == s.raw.shape]
            if s.kind == "input" and same and self.chance(0.4):
                s.mutated_by = self.pick(same)
        graph.sources = [s for s in graph.sources if s.name in used or s.mutated_by]
        return graph, self.values


def generate(seed):
    return Generator(seed).make()
