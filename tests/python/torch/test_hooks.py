# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Passes of third parties at each hook: the same plugin works on a PyTorch model and on an ONNX model."""

import copy
import json
import pathlib
import struct
import tempfile

import ferrite
import ferrite.torch
import torch
from common import BackendTest, main
from torch import nn

# cos(x) * cos(x) becomes 1 - sin(x) * sin(x): no standard pass does that, and gradients are the same.
_rule = """
rule acme.trig.square at PHASE {
  match { %c = cos(%x)   %r = mul(%c, %c) }
  yield { %s = sin(%x)   %q = mul(%s, %s)   %r = sub(1, %q) }
}
"""
_descriptor = """
schema = 0
id = "acme.trig"
version = "0.1.0"
rules = ["rules.fe"]
requires = ["ferrite.std >= 0.1.0"]
"""
_graph_hooks = ("pre_grad", "post_grad_pre", "post_grad", "post_grad_post", "pre_lower")
_test_plugins = pathlib.Path(ferrite._bridge.__file__).parents[2] / "lib/ferrite/test_plugins"


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 6), nn.Linear(6, 3)

    def forward(self, x):
        c = torch.cos(self.a(x))
        return self.b(c * c + 1)


def onnx_model():
    """y = cos(x) * cos(x) for x: f32[3,4], in the bytes of a protobuf."""

    def field(number, content):
        if isinstance(content, int):
            return bytes([number << 3, content])
        content = content.encode() if isinstance(content, str) else content
        return bytes([number << 3 | 2, len(content)]) + content

    def node(op, inputs, output):
        return field(1, b"".join(field(1, name) for name in inputs) + field(2, output) + field(4, op))

    shape = field(2, b"".join(field(1, field(1, size)) for size in (3, 4)))
    value = field(2, field(1, field(1, 1) + shape))
    graph = node("Cos", ["x"], "c") + node("Mul", ["c", "c"], "y") + field(2, "g")
    graph += field(11, field(1, "x") + value) + field(12, field(1, "y") + value)
    return field(1, 8) + field(7, graph) + field(8, field(1, "") + field(2, 17))


def square(x):
    c = torch.cos(x)
    return c * c


class Hooks(BackendTest):
    def setUp(self):
        super().setUp()
        self.reports = []
        ferrite.torch._compile.listeners.append(self.reports.append)
        self.addCleanup(ferrite.torch._compile.listeners.remove, self.reports.append)
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def plugin(self, phase, rule=_rule):
        folder = pathlib.Path(self.folder.name, phase)
        folder.mkdir()
        (folder / "rules.fe").write_text(rule.replace("PHASE", phase))
        (folder / "acme.trig.plugin.toml").write_text(_descriptor)
        return str(folder / "acme.trig.plugin.toml")

    def applied(self, kind, records, rule="acme.trig.square"):
        """How often a rule was applied, by the ledgers of programs."""
        return sum(one["kind"] == kind and one["subject"] == rule and one["outcome"] == "applied" for one in records)

    def ledgers(self):
        return [json.loads(program.ledger()) for report in self.reports for program in report.programs]

    def train(self, plugin, model=None, **options):
        model = model or Model()
        other = copy.deepcopy(model)
        x = torch.randn(3, 4)
        compiled = self.compiled(other, plugins=[plugin], **options)
        for run in (model, compiled):
            run(x).square().mean().backward()
        for expected, actual in zip(model.parameters(), other.parameters()):
            torch.testing.assert_close(actual.grad, expected.grad, rtol=1e-4, atol=1e-5)

    def test_rules_work_on_models_in_training_at_each_hook(self):
        for phase in ("joint_pre", "joint_post", *_graph_hooks):
            with self.subTest(phase=phase):
                torch._dynamo.reset()
                self.reports.clear()
                self.train(self.plugin(phase))
                counts = [self.applied("rule", records) for records in self.ledgers()]
                notes = [report.note for report in self.reports if report.kind == "pre_grad"]
                if phase == "pre_grad":
                    self.assertEqual(len(notes), 1)
                    self.assertIn("acme.trig.square replaced cos, mul", notes[0])
                    self.assertEqual(counts, [0, 0])  # the programs have what the rule left
                    continue
                self.assertEqual(notes, [])
                if phase.startswith("joint"):
                    self.assertEqual(counts, [1, 0])  # once, on the joint graph, whose records the forward part has
                else:
                    self.assertGreaterEqual(counts[0], 1)

    def test_the_same_plugins_work_on_models_of_onnx_and_on_models_in_inference(self):
        x = torch.randn(3, 4)
        for phase in _graph_hooks:
            with self.subTest(phase=phase):
                plugin = self.plugin(phase)
                model = ferrite.Session(plugins=[plugin]).load("model.onnx", onnx_model())
                (y,) = model.run_dlpack(x)
                torch.testing.assert_close(torch.from_dlpack(y), x.cos() ** 2)
                self.assertEqual(self.applied("rule", model.ledger()), 1)
                torch._dynamo.reset()
                self.reports.clear()
                with torch.no_grad():
                    self.check(square, x, plugins=[plugin])
                (records,) = self.ledgers()
                self.assertEqual(self.applied("rule", records), 1)

    def test_errors_of_passes_reach_the_user_with_their_code(self):
        x = torch.randn(3, 4, requires_grad=True)
        for fallback in ("warn", "silent", "error"):
            for function in (lambda x: torch.relu(x), lambda x: torch.relu(x.detach())):
                torch._dynamo.reset()
                with self.assertRaises(ferrite.Error) as caught:
                    self.compiled(function, fallback=fallback, plugins=[str(_test_plugins / "throws.so")])(x)
                self.assertEqual(caught.exception.code, "FE-P10")
                self.assertIn("thrown on purpose", caught.exception.text)
                self.assertIn("test.throws.pass", caught.exception.text)


if __name__ == "__main__":
    main()
