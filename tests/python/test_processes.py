# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compiled models in other processes: children of forks, made while threads run and compile models, and new programs. Each process has
a limit of time, so that one that hangs fails."""

import os
import signal
import subprocess
import sys
import threading
import time
import unittest

os.environ["CUDA_VISIBLE_DEVICES"] = ""  # PyTorch's tracer starts CUDA where there is a GPU, and then no child may use it

import torch  # noqa: E402
import torch.multiprocessing  # noqa: E402

torch.set_num_threads(2)

SECONDS = 60
OPTIONS = {"fallback": "error"}


def network():
    """Large enough that a run uses two threads."""
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.GELU(), torch.nn.Linear(512, 256)).eval()


def inputs():
    return torch.linspace(-1, 1, 256 * 256).reshape(256, 256)


def threads_of_process():
    return len(os.listdir("/proc/self/task"))


@torch.no_grad()
def run_and_compile(model, expected):
    """What a child does: runs a model that may be compiled already, with two threads, and compiles another."""
    torch.set_num_threads(1)  # PyTorch's own threads do not survive a fork
    torch.testing.assert_close(model(inputs()), expected, rtol=1e-4, atol=1e-5)
    assert threads_of_process() >= 2
    number = os.getpid() % 1000 + 2
    other = torch.compile(lambda x: (x * number).cos().sum(0), backend="ferrite", options=OPTIONS)
    torch.testing.assert_close(other(torch.ones(3, 4)), 3 * torch.full((4,), float(number)).cos())


def check_shared(index, model, expected, result):
    """For torch.multiprocessing: the result goes to shared memory."""
    run_and_compile(model, expected)
    with torch.no_grad():
        result.copy_(model(inputs()) + index)


class Rows(torch.utils.data.Dataset):
    """Rows that a compiled model computes in the worker."""

    def __init__(self, model):
        self.model = model

    def __len__(self):
        return 8

    def __getitem__(self, index):
        with torch.no_grad():
            return self.model(inputs())[index] + index


class ProcessesTest(unittest.TestCase):
    def setUp(self):
        torch._dynamo.reset()
        self.model = torch.compile(network(), backend="ferrite", options=OPTIONS)
        with torch.no_grad():
            self.expected = network()(inputs())
            torch.testing.assert_close(self.model(inputs()), self.expected, rtol=1e-4, atol=1e-5)

    def beside(self, work):
        """A thread that repeats the work until the test ends."""
        done, faults = threading.Event(), []

        def repeat():
            number = 0
            while not done.is_set() and not faults:
                number += 1
                try:
                    work(number)
                except Exception as fault:
                    faults.append(fault)

        thread = threading.Thread(target=repeat, daemon=True)

        def end():
            done.set()
            thread.join(SECONDS)
            self.assertFalse(thread.is_alive())
            self.assertEqual(faults, [])

        self.addCleanup(end)
        thread.start()

    def join(self, processes):
        for process in processes:
            self.addCleanup(process.kill)
        for process in processes:
            process.join(SECONDS)
            self.assertEqual(process.exitcode, 0, "it hangs" if process.exitcode is None else "it failed")

    def fork(self, count):
        context = torch.multiprocessing.get_context("fork")
        processes = []
        for number in range(count):
            time.sleep(0.011 * number)
            processes.append(context.Process(target=run_and_compile, args=(self.model, self.expected)))
            processes[-1].start()
        self.join(processes)

    def test_fork_while_a_thread_runs_the_model(self):
        @torch.no_grad()
        def run(_):
            torch.testing.assert_close(self.model(inputs()), self.expected, rtol=1e-4, atol=1e-5)

        self.beside(run)
        self.fork(4)

    def test_fork_while_a_thread_compiles(self):
        def compile_another(number):
            other = torch.compile(lambda x: (x + number).sin().sum(0), backend="ferrite", options=OPTIONS)
            torch.testing.assert_close(other(torch.ones(3, 4)), 3 * (torch.ones(4) + number).sin())

        self.beside(compile_another)
        self.fork(4)

    def test_children_end(self):
        """By os._exit, sys.exit, and at the end of the script."""
        done = subprocess.run([sys.executable, __file__, "fork"], timeout=2 * SECONDS, capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stdout), (0, "0\n0\n0\n"), done.stderr)

    def test_shared_memory(self):
        result = torch.zeros(256, 256).share_memory_()
        context = torch.multiprocessing.get_context("fork")
        process = context.Process(target=check_shared, args=(3, self.model, self.expected, result))
        process.start()
        self.join([process])
        torch.testing.assert_close(result, self.expected + 3, rtol=1e-4, atol=1e-5)

    def test_data_loader(self):
        """With "spawn", its workers are processes of torch.multiprocessing that start anew, and results come by shared memory."""
        for method in ("fork", "spawn"):
            with self.subTest(method):
                rows = Rows(self.model if method == "fork" else compiled_there)
                loader = torch.utils.data.DataLoader(rows, batch_size=2, num_workers=2, multiprocessing_context=method, timeout=SECONDS)
                loaded = torch.cat(list(loader))
                torch.testing.assert_close(loaded, self.expected[:8] + torch.arange(8)[:, None], rtol=1e-4, atol=1e-5)


def compiled_there(x):
    """A model that each process compiles for itself."""
    global _compiled
    if _compiled is None:
        _compiled = torch.compile(network(), backend="ferrite", options={**OPTIONS, "threads": 2})
    return _compiled(x)


_compiled = None


@torch.no_grad()
def fork_children():
    """The script of test_children_end: prints how children end, which are forked while a thread runs the model."""
    model = torch.compile(network(), backend="ferrite", options=OPTIONS)
    expected = model(inputs())
    done = threading.Event()

    def run():
        with torch.no_grad():
            while not done.is_set():
                model(inputs())

    thread = threading.Thread(target=run)
    thread.start()
    children = []
    for way in range(3):
        children.append(os.fork())
        if children[-1] == 0:
            signal.alarm(SECONDS)
            torch.set_num_threads(1)
            torch.testing.assert_close(model(inputs()), expected, rtol=1e-4, atol=1e-5)
            if way == 0:
                os._exit(0)
            if way == 1:
                sys.exit(0)
            return
    for child in children:
        print(os.waitpid(child, 0)[1])
    done.set()
    thread.join()


if __name__ == "__main__":
    if sys.argv[1:] == ["fork"]:
        fork_children()
    else:
        unittest.main()
