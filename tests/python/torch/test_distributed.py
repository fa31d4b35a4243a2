# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Models of several processes: where collectives run, and that results equal eager PyTorch's.

Two processes run all functions of `shared`, each under the name of a test, with gloo on this machine.
"""

import copy
import datetime
import json
import operator
import os
import pathlib
import subprocess
import sys
import tempfile
import traceback
import unittest
import unittest.mock
import warnings

import ferrite
import ferrite.torch
import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as collectives
from common import BackendTest, main
from ferrite.torch import _compile
from ferrite.torch._partition import partition
from torch import fx, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

aten, c10d = torch.ops.aten, torch.ops._c10d_functional


class Drawing:
    """A graph that a test builds; nodes made by `outside` run in PyTorch."""

    def __init__(self):
        self.graph, self.unsupported = fx.Graph(), {}
        self.x, self.y = self.graph.placeholder("x"), self.graph.placeholder("y")

    def inside(self, name, *used, op=aten.add.Tensor):
        return self.graph.create_node("call_function", op, used, name=name)

    def outside(self, name, op, *used):
        node = self.inside(name, *used, op=op)
        self.unsupported[node] = "for the test"
        return node

    def start(self, name, used):
        return self.outside(name, c10d.all_reduce.default, used, "sum", "0")

    def wait(self, name, used):
        return self.outside(name, c10d.wait_tensor.default, used)

    def parts(self, *results):
        """The names of the nodes of each part: of one that is compiled as a list."""
        self.graph.output(results)
        parts = partition(self.graph.nodes, self.unsupported, lambda node: 1 << 20)
        return [[str(node) for node in part.nodes] if part.compiled else str(part.nodes[0]) for part in parts]


class Placement(unittest.TestCase):
    def setUp(self):
        self.drawing = Drawing()

    def test_what_a_collective_does_not_need_runs_during_it(self):
        d = self.drawing
        other = d.inside("other", d.x, d.y)
        sum_ = d.wait("wait", d.start("start", d.inside("needed", d.x, d.x)))
        later = d.inside("later", sum_, other)
        more = d.inside("more", other, d.y)
        self.assertEqual(d.parts(later, more), [["needed"], "start", ["other", "more"], "wait", ["later"]])

    def test_a_wait_that_only_the_caller_needs_is_the_last(self):
        d = self.drawing
        first = d.wait("wait_1", d.start("start_1", d.x))
        second = d.inside("later", d.wait("wait_2", d.start("start_2", d.y)), d.x)
        self.assertEqual(d.parts(first, second), ["start_1", "start_2", "wait_2", ["later"], "wait_1"])

    def test_layers_whose_collectives_depend_on_each_other(self):
        # As in the backward pass of a model that is divided among processes: the gradients of weights follow from those of activations.
        d = self.drawing
        gradient, results = d.x, []
        for k in range(3):
            start = d.start(f"start_{k}", d.inside(f"activation_{k}", gradient, d.y))
            results.append(d.inside(f"weight_{k}", gradient, gradient))
            gradient = d.wait(f"wait_{k}", start)
        expected = []
        for k in range(3):
            expected += [[f"activation_{k}"], f"start_{k}", [f"weight_{k}"], f"wait_{k}"]
        self.assertEqual(d.parts(*results, gradient), expected)

    def test_collectives_keep_their_order(self):
        d = self.drawing
        first = d.start("start_1", d.inside("late", d.outside("sine", aten.sin.default, d.inside("early", d.x, d.x)), d.x))
        second = d.start("start_2", d.y)
        waits = d.wait("wait_2", second), d.wait("wait_1", first)
        self.assertEqual(d.parts(*waits), [["early"], "sine", ["late"], "start_1", "start_2", "wait_2", "wait_1"])

    def test_random_numbers_keep_their_order(self):
        d = self.drawing
        first = d.outside("random_1", aten.bernoulli.p, d.x, 0.5)
        second = d.outside("random_2", aten.bernoulli.p, d.x, 0.5)
        start = d.start("start", second)
        self.assertEqual(d.parts(first, d.wait("wait", start)), ["random_1", "random_2", "start", "wait"])

    def test_a_wait_whose_result_is_not_read(self):
        d = self.drawing
        start = d.start("start", d.x)
        d.wait("wait", start)
        self.assertEqual(d.parts(d.inside("later", start, d.y), d.inside("other", d.y)), ["start", ["other"], "wait", ["later"]])

    def test_several_tensors_at_once(self):
        d = self.drawing
        start = d.outside("start", c10d.all_reduce_coalesced.default, [d.x, d.y], "sum", "0")
        elements = [d.inside(f"element_{k}", start, k, op=operator.getitem) for k in (0, 1)]
        other = d.inside("other", d.x, d.y)
        results = [d.inside(f"later_{k}", d.wait(f"wait_{k}", elements[k]), other) for k in (0, 1)]
        expected = ["start", "element_0", "element_1", ["other"], "wait_0", ["later_0"], "wait_1", ["later_1"]]
        self.assertEqual(d.parts(*results), expected)

    def test_one_that_changes_its_argument_is_crossed_by_nothing(self):
        d = self.drawing
        value, other = d.inside("value", d.x, d.y), d.inside("other", d.y, d.y)
        old = d.inside("old", value, d.y)
        d.wait("wait", d.outside("start", c10d.all_reduce_.default, value, "sum", "0"))
        new = d.inside("new", value, d.y)
        self.assertEqual(d.parts(old, new, other), [["value", "other", "old"], "start", "wait", ["new"]])


class OneProcess(BackendTest):
    """Graphs of a group of one process."""

    @classmethod
    def setUpClass(cls):
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)

    @classmethod
    def tearDownClass(cls):
        dist.destroy_process_group()

    def divided(self, function, *args):
        """The names of the nodes that each divided graph of a function calls."""
        modules, reports = [], []
        _compile.listeners.append(reports.append)
        original = _compile.Eager.of
        try:
            with unittest.mock.patch.object(_compile.Eager, "of", lambda module: modules.append(module) or original(module)):
                result = self.compiled(function)(*args)
                if result.requires_grad:
                    result.sum().backward()
        finally:
            _compile.listeners.remove(reports.append)
        names = ("ferrite_segment", "all_reduce", "wait_tensor")
        return [[name for node in module.graph.nodes for name in names if node.name.startswith(name)] for module in modules], reports

    def test_order_of_a_divided_graph(self):
        def function(x, y):
            total = collectives.all_reduce(x.sin(), "sum", dist.group.WORLD)
            return total + (x @ y).exp()

        (names,), (report,) = self.divided(function, torch.randn(4, 4), torch.randn(4, 4))
        self.assertEqual(names, ["ferrite_segment", "all_reduce", "ferrite_segment", "wait_tensor", "ferrite_segment"])
        self.assertEqual([name for _, name, _ in report.left], ["_c10d_functional.all_reduce.default", "_c10d_functional.wait_tensor.default"])
        self.assertEqual(report.unsupported, [])

    def test_the_gradient_of_a_weight_is_computed_during_a_collective(self):
        def function(x, weight):
            return collectives.all_reduce(x, "sum", dist.group.WORLD) @ weight

        x, weight = (torch.randn(4, 4, requires_grad=True) for _ in range(2))
        graphs, reports = self.divided(function, x, weight)
        self.assertEqual(graphs[-1], ["ferrite_segment", "all_reduce", "ferrite_segment", "wait_tensor"])
        self.assertIn("PyTorch's process group", reports[0].note)

    def test_a_step_does_not_ignore_hooks_that_reduce_gradients(self):
        for parallel in (nn.parallel.DistributedDataParallel, fully_shard):
            model = parallel(Blocks())
            with self.assertRaisesRegex(ferrite.Error, "FE-Y01.* reduced in hooks"):
                ferrite.torch.train_step(model, lambda model, x: model(x).sum(), torch.optim.SGD(model.parameters()))


def compiled(model):
    return torch.compile(model, backend="ferrite", options={"fallback": "error"})


shared = {}


def two_processes(function):
    """A function of the rank that both processes run."""
    shared[function.__name__] = function

    def test(self):
        if any(texts := self.outcomes[function.__name__]):
            self.fail("\n".join(texts))

    return test


def close(actual, expected):
    torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-5)


class Block(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        return x + self.down(nn.functional.gelu(self.up(self.norm(x))))


class Blocks(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(2))
        self.head = nn.Linear(16, 4)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def same_training(rank, prepared):
    """Losses and parameters of three steps, of a model compiled and of its twin in eager mode, each after `prepared` made it parallel.
    Returns the reports of the graphs."""
    generator = torch.Generator().manual_seed(rank)
    data = [(torch.randn(8, 16, generator=generator), torch.randn(8, 4, generator=generator)) for _ in range(3)]
    runs, reports = [], []
    first = Blocks()
    _compile.listeners[:] = [reports.append]
    for compile_ in (lambda model: model, compiled):
        model, run = prepared(copy.deepcopy(first), compile_)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
        losses = []
        for x, y in data:
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(run(x), y)
            loss.backward()
            losses.append(loss.item())
            optimizer.step()
        whole = [one.full_tensor() if hasattr(one, "full_tensor") else one for one in model.parameters()]
        gradients = [one.grad.full_tensor() if hasattr(one.grad, "full_tensor") else one.grad for one in model.parameters()]
        runs.append((losses, [one.detach() for one in whole], gradients))
    close(runs[1], runs[0])
    assert all(report.programs or report.note for report in reports), reports
    return reports


class TwoProcesses(unittest.TestCase):
    """Each test is the report of both processes about one function."""

    @classmethod
    def setUpClass(cls):
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            environment = {**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
            workers = [
                subprocess.Popen([sys.executable, __file__, "worker", str(rank), str(folder)], env=environment) for rank in (0, 1)
            ]
            try:
                for worker in workers:
                    worker.wait(timeout=200)
            finally:
                for worker in workers:
                    worker.kill()
            reports = [json.loads((folder / f"report-{rank}").read_text()) for rank in (0, 1)]
        cls.outcomes = {name: [report.get(name, "it did not run") for report in reports] for name in shared}

    @two_processes
    def test_results_and_gradients(rank):
        group = dist.group.WORLD

        def function(x, weight):
            total = collectives.all_reduce(x @ weight, "sum", group)
            gathered = collectives.all_gather_tensor((x * 2).sin() @ weight, 1, group)
            scattered = collectives.reduce_scatter_tensor(gathered.cos(), "sum", 0, group)
            exchanged = collectives.all_to_all_single_autograd(scattered.contiguous(), None, None, group)
            return total.square() + gathered[:, :4] * 2, exchanged.exp()

        torch.manual_seed(rank)
        given = [torch.randn(4, 4) for _ in range(2)]
        runs = []
        for run in (function, compiled(function)):
            inputs = [one.clone().requires_grad_() for one in given]
            results = run(*inputs)
            sum(one.square().mean() for one in results).backward()
            runs.append(([one.detach() for one in results], [one.grad for one in inputs]))
        close(runs[1], runs[0])

    @two_processes
    def test_inference(rank):
        group = dist.group.WORLD

        def function(x, y):
            sums = collectives.all_reduce_coalesced([x * 2, y + 1], "sum", group)
            gathered = collectives.all_gather_into_tensor_coalesced([x, y.sin()], group)
            scattered = collectives.reduce_scatter_tensor_coalesced([x, y], "sum", [0, 0], group)
            first = collectives.broadcast(x.exp(), 0, group)
            exchanged = collectives.all_to_all_single(y.cos(), [1 + 2 * rank] * 2, [1, 3], group)
            return [one + 1 for one in [*sums, *gathered, *scattered, first, exchanged]]

        torch.manual_seed(rank)
        inputs = torch.randn(4, 4), torch.randn(4, 4)
        with torch.no_grad():
            close(compiled(function)(*inputs), function(*inputs))

    @two_processes
    def test_collectives_that_change_tensors(rank):
        def function(x, y):
            z = x * 2
            dist.all_reduce(z)
            dist.broadcast(y, 1)
            gathered = torch.empty(8, 4)
            dist.all_gather_into_tensor(gathered, z)
            return gathered + 1, z + y

        torch.manual_seed(rank)
        inputs = torch.randn(4, 4), torch.randn(4, 4)
        others = [one.clone() for one in inputs]
        close(compiled(function)(*inputs), function(*others))
        close(list(inputs), others)

    @two_processes
    def test_distributed_data_parallel(rank):
        def prepared(model, compile_):
            parallel = nn.parallel.DistributedDataParallel(model, bucket_cap_mb=0.005)
            return parallel, compile_(parallel)

        with unittest.mock.patch.object(dist, "_DEFAULT_FIRST_BUCKET_BYTES", 1000):  # Dynamo assumes that the first bucket is the smallest
            reports = same_training(rank, prepared)
        assert [report.kind for report in reports].count("joint") > 2, reports  # a graph for each bucket

    @two_processes
    def test_fully_sharded(rank):
        def prepared(model, compile_):
            for block in model.blocks:
                fully_shard(block)
            fully_shard(model)
            return model, compile_(model)

        same_training(rank, prepared)

    @two_processes
    def test_tensor_parallel(rank):
        def prepared(model, compile_):
            mesh = init_device_mesh("cpu", (2,))
            for block in model.blocks:
                parallelize_module(block, mesh, {"up": ColwiseParallel(), "down": RowwiseParallel()})
            return model, compile_(model)

        same_training(0, prepared)  # both processes have the same data


def work(rank, folder):
    torch.set_num_threads(1)
    warnings.filterwarnings("error", message="ferrite")
    warnings.filterwarnings("ignore", category=FutureWarning)  # names of collectives that newer versions of PyTorch change
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=2, timeout=datetime.timedelta(seconds=100))
    report = {}
    for name, function in shared.items():
        torch._dynamo.reset()
        torch.manual_seed(0)
        try:
            function(rank)
            report[name] = ""
        except Exception:
            report[name] = traceback.format_exc()
        (pathlib.Path(folder) / f"report-{rank}").write_text(json.dumps(report))
        dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    if sys.argv[1:2] == ["worker"]:
        work(int(sys.argv[2]), sys.argv[3])
    else:
        main()
