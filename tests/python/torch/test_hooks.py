# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Plugins of third parties: passes at each hook, the same on a PyTorch model and on an ONNX model, and custom operators."""

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
_plugins = pathlib.Path(ferrite._bridge.__file__).parents[2] / "lib/ferrite"


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
        folder.mkdir(exist_ok=True)
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
                notes = self.notes()
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

    def notes(self):
        return [report.note for report in self.reports if report.kind == "pre_grad"]

    def test_fusions_of_many_nodes_before_differentiation(self):
        class Norm(nn.Module):
            def __init__(self):
                super().__init__()
                self.weight = nn.Parameter(torch.randn(8))

            def forward(self, x):
                return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight

        rule = """
rule acme.trig.norm at PHASE {
  match {
    %p = pow(%x, 2) once   %m = reduce_mean(%p) {axes = [-1], keepdims = true} once   %v = add(%m, 1e-6) once
    %q = rsqrt(%v) once   %n = mul(%x, %q) once   %r = mul(%n, %w)
  }
  yield { %r = rms_norm(%x, %w) {axis = -1, epsilon = 1e-6} }
}
"""
        model = nn.Sequential(nn.Linear(4, 8), Norm(), nn.Linear(8, 8), Norm())
        self.train(self.plugin("pre_grad", rule), model)
        (note,) = self.notes()
        self.assertEqual(note.count("acme.trig.norm replaced pow"), 2)

    def test_rules_see_parts_of_the_models_operators(self):
        # An aten.linear is a product and a sum for Ferrite; the rule replaces the sum only, and all of it is one region.
        rule = """
rule acme.trig.bias at PHASE {
  match { %m = matmul(%x, %w) once   %r = add(%m, %b) }
  yield { %p = matmul(%x, %w)   %n = neg(%b)   %r = sub(%p, %n) }
}
"""
        self.train(self.plugin("pre_grad", rule), nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 3)))
        self.assertEqual(self.notes(), ["acme.trig.bias replaced linear; acme.trig.bias replaced linear_1"])

    def test_passes_in_cpp_before_differentiation(self):
        self.train(str(_plugins / "test_plugins" / "hooks.so"), nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 3)))
        (note,) = self.notes()
        self.assertIn("test.hooks.pre_grad", note)
        self.assertIn("replaced relu", note)

    def test_models_that_change_tensors_are_rewritten_in_stretches(self):
        class Model(nn.Module):
            def __init__(self):
                super().__init__()
                self.linear, self.norm = nn.Linear(4, 6), nn.BatchNorm1d(6)

            def forward(self, x):
                y = square(self.norm(self.linear(x)))
                y.add_(1)
                return square(y)

        self.train(self.plugin("pre_grad"), Model())
        (note,) = self.notes()
        self.assertEqual(note.count("acme.trig.square replaced"), 2)

    def test_gradients_that_only_some_inputs_and_results_of_a_region_have(self):
        class Model(nn.Module):
            def __init__(self):
                super().__init__()
                self.linear = nn.Linear(4, 4)

            def forward(self, x):
                with torch.no_grad():
                    z = square(self.linear(x))
                return square(self.linear(x)) * z + square(x)

        self.train(self.plugin("pre_grad"), Model())
        self.assertEqual(self.notes()[0].count("acme.trig.square replaced"), 3)

    def test_where_pre_grad_cannot_run_before_differentiation_it_is_told(self):
        class Checkpointed(Model):
            def forward(self, x):
                return torch.utils.checkpoint.checkpoint(super().forward, x, use_reentrant=False)

        class Mixed(Model):
            def forward(self, x):
                with torch.autocast("cpu", dtype=torch.float16, enabled=False):
                    return super().forward(x)

        for model, reason in ((Checkpointed(), "holds a graph of its own"), (Mixed(), "autocast")):
            with self.subTest(reason=reason):
                torch._dynamo.reset()
                self.reports.clear()
                self.train(self.plugin("pre_grad"), model)
                (note,) = self.notes()
                self.assertIn(reason, note)
                self.assertGreaterEqual(sum(self.applied("rule", records) for records in self.ledgers()), 1)

    def test_training_steps_in_one_graph(self):
        for phase in ("joint_pre", "joint_post", *_graph_hooks):
            with self.subTest(phase=phase):
                self.reports.clear()
                self.train_in_one_graph(self.plugin(phase))
                (records,) = self.ledgers()
                if phase == "pre_grad":
                    self.assertIn("acme.trig.square replaced cos, mul", self.notes())
                    self.assertEqual(self.applied("rule", records), 0)  # not again after differentiation
                elif phase.startswith("joint"):
                    self.assertEqual(self.applied("rule", records), 1)
                else:
                    self.assertGreaterEqual(self.applied("rule", records), 1)

    def train_in_one_graph(self, plugin):
        model, other = Model(), Model()
        other.load_state_dict(model.state_dict())
        step = ferrite.torch.train_step(
            other, lambda model, x: model(x).square().mean(), torch.optim.SGD(other.parameters(), lr=0.1),
            options={"fallback": "silent", "plugins": [plugin]},
        )
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        x = torch.randn(3, 4)
        for _ in range(3):
            optimizer.zero_grad()
            loss = model(x).square().mean()
            loss.backward()
            optimizer.step()
            torch.testing.assert_close(step(x), loss.detach())
        for expected, actual in zip(model.parameters(), other.parameters()):
            torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-5)

    def test_all_hooks_run_on_each_part_that_pytorch_divides_off(self):
        class Inverse(Model):
            def forward(self, x):
                return torch.linalg.inv(super().forward(x) + 9 * torch.eye(3))

        for phase in ("joint_pre", "joint_post", "post_grad_pre"):
            with self.subTest(phase=phase):
                torch._dynamo.reset()
                self.reports.clear()
                self.train(self.plugin(phase), Inverse(), fallback="silent")
                self.assertIn("divided by PyTorch", self.reports[0].note)
                self.assertEqual([self.applied("rule", records) for records in self.ledgers()][:1], [1])

    def test_a_change_that_no_operator_can_hold_is_an_error(self):
        # A region of both nodes would have to run before and after the one between them.
        change = {"nodes": ["exp", "sin"], "passes": ["acme.wide"], "inputs": ["x_1"], "constants": [], "ops": [],
                  "outputs": [["exp", 0], ["sin", 0]]}
        traced = torch.fx.experimental.proxy_tensor.make_fx(lambda x: torch.sin(torch.cos(torch.exp(x))) + 1)(torch.ones(2))
        with self.assertRaises(ferrite.Error) as caught:
            ferrite.torch._pre_grad._replace(traced, change)
        self.assertEqual(caught.exception.code, "FE-G59")
        self.assertIn("acme.wide", caught.exception.text)

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
                    self.compiled(function, fallback=fallback, plugins=[str(_plugins / "test_plugins" / "throws.so")])(x)
                self.assertEqual(caught.exception.code, "FE-P10")
                self.assertIn("thrown on purpose", caught.exception.text)
                self.assertIn("test.throws.pass", caught.exception.text)


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
    """Operators of torch.library that plugins read: by an alias of a standard op, and of the op of a library."""

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
        plugin = _plugins / "example_plugins" / "acme.rope.plugin.toml"
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
