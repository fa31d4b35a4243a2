# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The package ferrite without PyTorch: sessions, models, errors, numpy arrays."""

import ast
import gc
import json
import mmap
import pathlib
import tempfile
import threading
import unittest

import ferrite
import numpy as np

ADD = """ferrite graph 0
graph @add(%x: f32[2,3], %y: f32[2,3]) -> (%z "z") {
  %z = add(%x, %y)
}
"""
ANY = """ferrite graph 0
graph @any(%x: f32[$n,3]) -> (%y "y") {
  symbol $n in [1, 1000]
  %y = neg(%x)
}
"""
DONATED = """ferrite graph 0
graph @twice(%x: f32[1024,1024] donated, %y: f32[1024,1024]) -> (%z "z") {
  %s = add(%x, %y)
  %z = matmul(%s, %s)
}
"""
JOINT = """ferrite graph 0
graph @exp(%x: f32[2,3], %w: f32[2,3], %g: f32[2,3]) -> (%y "y", %gx "gx") joint(forward_outputs = 1) {
  %s = reduce_sum(%x) {axes = [1], keepdims = true}
  %y = mul(%s, %w)
  %e = exp(%s)
  %gx = mul(%g, %e)
}
"""


class BridgeTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.session = ferrite.Session(threads=1)

    def model(self, text=ADD, name="model.fe"):
        return self.session.load(name, text.encode())

    def test_the_types_of_the_extension_name_all_that_it_has(self):
        bridge = ferrite._bridge
        stub = ast.parse((pathlib.Path(bridge.__file__).parent / "_bridge.pyi").read_text())

        def names(nodes):
            for node in nodes:
                if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                    yield node.name
                elif isinstance(node, ast.AnnAssign):
                    yield node.target.id

        def public(thing):
            return {name for name in vars(thing) if not name.startswith("_")}

        told = {name for name in names(stub.body) if not name.startswith("_")}
        self.assertEqual(told, public(bridge))
        for node in stub.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                with self.subTest(node.name):
                    told = {name for name in names(node.body) if not name.startswith("_")}
                    self.assertEqual(told, public(getattr(bridge, node.name)))

    def test_sessions_check_what_they_are_given(self):
        for threads in (-1, 4097):
            with self.subTest(threads=threads), self.assertRaises(ferrite.Error) as caught:
                ferrite.Session(threads=threads)
            self.assertEqual(caught.exception.code, "FE-X30")
        with self.assertRaises(ferrite.Error) as caught:
            ferrite.Session(plugins="missing.so")
        self.assertEqual(caught.exception.code, "FE-M06")
        self.assertIn("missing.so", caught.exception.where)

    def test_tune(self):
        ferrite.Session(tune=0.5, threads=1)
        ferrite.Session(tune="off", safe_mode=True)
        for given in ("fast", 0):
            with self.subTest(given), self.assertRaises(ferrite.Error) as caught:
                ferrite.Session(tune=given)
            self.assertEqual((caught.exception.code, caught.exception.where), ("FE-M03", "option 'tune'"))
            self.assertIn(f"'tune' is '{given}'", caught.exception.text)

    def test_runs_numpy_arrays_by_position_and_by_name(self):
        model = self.model()
        x, y = np.arange(6, dtype=np.float32).reshape(2, 3), np.full((2, 3), 10, np.float32)
        (z,) = model.run(x, y)
        np.testing.assert_array_equal(z, x + y)
        (z,) = model.run(x, y=y)
        np.testing.assert_array_equal(z, x + y)
        (z,) = model.run(y=y, x=x)
        np.testing.assert_array_equal(z, x + y)

    def test_reads_a_file(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "add.fe"
            path.write_text(ADD)
            (z,) = self.session.load(path).run(np.ones((2, 3), np.float32), np.ones((2, 3), np.float32))
        np.testing.assert_array_equal(z, np.full((2, 3), 2, np.float32))

    def test_ports(self):
        model = self.model(ANY)
        self.assertEqual(model.inputs, [ferrite.Port("x", "f32", ("n", 3))])
        self.assertEqual([port.name for port in model.outputs], ["y"])

    def test_packages(self):
        x, y = np.arange(6, dtype=np.float32).reshape(2, 3), np.full((2, 3), 10, np.float32)
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "add.fepkg"
            self.model().save(path, x, y=y)
            package = ferrite.Package(path, threads=1)
            self.assertEqual([port.name for port in package.inputs], ["x", "y"])
            np.testing.assert_array_equal(package.run(x, y)[0], x + y)
            with self.assertRaises(ferrite.Error) as raised:
                self.model().save(path, x, y, targets=["no-such-target"])
            self.assertEqual(raised.exception.code, "ferrite.cpu/target")
            self.assertIn("no-such-target", raised.exception.where)
            with self.assertRaises(TypeError):
                self.model().save(path, x, y, targets=[7])
            np.testing.assert_array_equal(ferrite.Package(path).run(x, y)[0], x + y)
        with self.assertRaises(ferrite.Error) as raised:
            ferrite.Package(path)
        self.assertEqual(raised.exception.code, "FE-I01")

    def test_a_program_for_each_shape(self):
        model = self.model(ANY)
        for rows in (1, 4, 1):
            x = np.random.default_rng(rows).standard_normal((rows, 3)).astype(np.float32)
            np.testing.assert_array_equal(model.run(x)[0], -x)

    def test_strided_and_read_only_arrays(self):
        model = self.model()
        wide = np.arange(12, dtype=np.float32).reshape(2, 6)
        x = wide[:, ::2]
        x.setflags(write=False)
        (z,) = model.run(x, np.asfortranarray(x))
        np.testing.assert_array_equal(z, 2 * x)

    def test_results_outlive_the_model(self):
        model = self.model()
        results = model.run(np.ones((2, 3), np.float32), np.ones((2, 3), np.float32))
        shared = model.run_dlpack(np.ones((2, 3), np.float32), np.ones((2, 3), np.float32))[0]
        del model
        gc.collect()
        np.testing.assert_array_equal(results[0], np.full((2, 3), 2, np.float32))
        self.assertEqual(shared.shape, (2, 3))
        self.assertEqual(shared.__dlpack_device__(), (1, 0))
        again = [np.from_dlpack(shared) for _ in range(3)]
        del shared
        gc.collect()
        np.testing.assert_array_equal(again[1], np.full((2, 3), 2, np.float32))

    def test_stats_and_ledger(self):
        model = self.model()
        with self.assertRaises(ferrite.Error):
            model.stats
        model.compile(np.ones((2, 3), np.float32), np.ones((2, 3), np.float32))
        self.assertEqual(model.stats.nodes, 1)
        self.assertEqual(model.stats.kernels, 1)
        self.assertTrue(any(record["kind"] for record in model.ledger()))

    def test_threads_share_a_model(self):
        model = self.model(ANY)
        wrong = []

        def work(seed):
            for k in range(20):
                x = np.random.default_rng(seed * 100 + k).standard_normal((seed + 1, 3)).astype(np.float32)
                if not np.array_equal(model.run(x)[0], -x):
                    wrong.append(seed)

        threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])

    def test_errors_have_code_place_and_cure(self):
        with self.assertRaises(ferrite.Error) as caught:
            self.session.load("missing.onnx")
        self.assertEqual(caught.exception.code, "FE-I01")
        self.assertEqual(caught.exception.where, "missing.onnx")
        with self.assertRaises(ferrite.Error) as caught:
            self.session.load("model.xyz", b"1")
        self.assertEqual(caught.exception.code, "FE-I02")
        with self.assertRaises(ferrite.Error) as caught:
            self.model("ferrite graph 0\ngraph (")
        self.assertRegex(str(caught.exception), r"FE-G\d+ model.fe:2:")
        model = self.model()
        with self.assertRaises(ferrite.Error) as caught:
            model.run(np.ones((2, 4), np.float32), np.ones((2, 3), np.float32))
        self.assertEqual(caught.exception.code, "FE-X04")
        with self.assertRaises(ferrite.Error) as caught:
            model.run(np.ones((2, 3), np.float64), np.ones((2, 3), np.float32))
        self.assertEqual(caught.exception.code, "FE-X02")
        with self.assertRaisesRegex(ferrite.Error, "no input 'q'; its inputs are x, y"):
            model.run(q=1)
        with self.assertRaisesRegex(ferrite.Error, "input 'y' is missing"):
            model.run(x=np.ones((2, 3), np.float32))
        with self.assertRaisesRegex(TypeError, "input 0 is no tensor"):
            model.run("x", "y")
        with self.assertRaises(ferrite.Error) as caught:
            ferrite.Session(manifest="missing.toml")
        self.assertTrue(caught.exception.code.startswith("FE-M"))

    def test_only_some_formats_tell_what_is_unsupported(self):
        with self.assertRaises(ferrite.Error) as caught:
            self.model()._model.unsupported()
        self.assertEqual(caught.exception.code, "FE-I06")

    def test_joint_models_are_divided(self):
        model = self.session.load("exp.fe", JOINT.encode())
        x, w, g = (np.linspace(k, 1, 6, dtype=np.float32).reshape(2, 3) for k in range(3))
        y, gx = model.run(x, w, g)
        forward, backward = model._model.partition(1, bytes([0, 1, 2]), 1.0, [], [], [], False, "decompose_early")
        self.assertEqual([port[0] for port in forward.outputs()], ["y", "saved.0"])
        self.assertEqual([port[0] for port in backward.inputs()], ["saved.0", "g"])
        results = forward.run([x, w])
        np.testing.assert_allclose(np.from_dlpack(results[0]), y, rtol=1e-6)
        (gradient,) = backward.run([results[1], g])
        np.testing.assert_allclose(np.from_dlpack(gradient), gx, rtol=1e-6)
        forward, backward = model._model.partition(1, bytes([0, 1, 2]), 1.0, [], [], [((2, 1), (1, 0))], False, "decompose_early")
        self.assertEqual([port[2] for port in forward.outputs()], [(2, 3), (1, 2)])
        (gradient,) = backward.run([forward.run([x, w])[1], g])
        np.testing.assert_allclose(np.from_dlpack(gradient), gx, rtol=1e-6)
        forward, backward = model._model.partition(1, bytes([0, 1, 2]), 1.0, [], [], [], True, "decompose_early")
        (gradient,) = backward.run([forward.run([x, w])[1], g])
        np.testing.assert_allclose(np.from_dlpack(gradient), gx, rtol=1e-6)
        with self.assertRaises(ferrite.Error) as caught:
            forward.run([x])
        self.assertEqual(caught.exception.code, "FE-X01")

    def test_joint_models_may_stay_whole(self):
        model = self.session.load("exp.fe", JOINT.replace(" joint(forward_outputs = 1)", "").encode())
        tensors = [np.linspace(k, 1, 6, dtype=np.float32).reshape(2, 3) for k in range(3)]
        for count, stage in ((0, "pre_grad"), (1, "decompose_early"), (2, "pre_grad")):
            joint = model._model.joint(count, stage)
            self.assertEqual(joint.inputs(), model._model.inputs())
            for expected, actual in zip(model.run(*tensors), joint.run(tensors), strict=True):
                np.testing.assert_allclose(np.from_dlpack(actual), expected, rtol=1e-6)
        for arguments, code in (((3, "pre_grad"), "FE-G58"), ((1, "fuse"), "FE-C04"), ((1, "gone"), "FE-C04")):
            with self.subTest(arguments=arguments), self.assertRaises(ferrite.Error) as caught:
                model._model.joint(*arguments)
            self.assertEqual(caught.exception.code, code)

    def test_memory_of_large_donated_inputs_goes_back_to_the_system(self):
        values = np.eye(1024, dtype=np.float32)
        model = self.session.load("donated.fe", DONATED.encode())
        with tempfile.TemporaryDirectory() as folder:
            path = f"{folder}/donated.fepkg"
            model.save(path, values, values)
            for run in (model.run, ferrite.Package(path, threads=1).run):
                # Whole pages of this process, as large allocations have.
                pages = mmap.mmap(-1, values.nbytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
                x = np.frombuffer(pages, dtype=np.float32).reshape(values.shape)
                x[:] = values
                y = values.copy()
                (z,) = run(x, y)
                np.testing.assert_array_equal(z, 4 * values)
                np.testing.assert_array_equal(y, values)
                self.assertEqual(np.count_nonzero(x), 0)  # new pages, which are zero

    def test_what_cannot_be_divided_is_refused(self):
        model = self.session.load("exp.fe", JOINT.encode())._model
        for arguments in (
            (3, bytes([0, 1, 2]), 1.0, [], [], [], False),  # more forward outputs than outputs
            (2, bytes([0, 1, 2]), 1.0, [], [], [], False),  # a forward output that depends on a tangent
            (1, bytes([0, 1, 3]), 1.0, [], [], [], False),  # no such kind
            (1, bytes([0, 1, 2]), 2.0, [], [], [], False),  # no such budget
            (1, bytes([0, 1, 2]), 1.0, [], [], [((2, 1), (1, 1))], False),  # no order
        ):
            with self.subTest(arguments=arguments), self.assertRaises(ferrite.Error) as caught:
                model.partition(*arguments, "decompose_early")
            self.assertEqual(caught.exception.code, "FE-G58")
        with self.assertRaises(ValueError):
            model.partition(1, bytes([0]), 1.0, [], [], [], False, "decompose_early")
        with self.assertRaises(ValueError):
            model.partition(1, bytes([0, 1, 2]), 1.0, [], [], [((2, 1), (1,))], False, "decompose_early")
        with self.assertRaises(TypeError):
            model.partition(1, bytes([0, 1, 2]), 1.0, [1], [], [], False, "decompose_early")
        with self.assertRaises(TypeError):
            model.partition(1, bytes([0, 1, 2]), 1.0, [], [], [(2, 1)], False, "decompose_early")
        with self.assertRaises(ferrite.Error) as caught:
            self.model(ANY)._model.partition(1, bytes([0]), 1.0, [], [], [], False, "decompose_early")
        self.assertEqual(caught.exception.code, "FE-X04")

    def test_passes_of_a_phase(self):
        lines = self.session._session.passes("post_grad").splitlines()
        self.assertIn("passes.cse\tferrite.passes", lines)
        self.assertEqual(self.session._session.passes("joint_pre"), "")

    def test_changed_regions(self):
        text = """ferrite graph 0
graph @constant(%x: f32[2]) -> (%a "a", %c "c", %y "y") {
  %two = literal f32[] {2}
  %a = neg(%x) from "a"
  %b = mul(%two, %two) from "c"
  %c = add(%b, %two) from "c"
  %y = mul(%a, %c) from "y"
}
"""
        model = self.session.load("model.fe", text.encode())._model
        # Constants are folded, which changes no node of the model that has inputs.
        self.assertEqual(json.loads(model.changed_regions("pre_grad", [2])), [])
        for phase, outputs, code in (("none", [2], "FE-C04"), ("pre_grad", [3], "FE-X30")):
            with self.assertRaises(ferrite.Error) as caught:
                model.changed_regions(phase, outputs)
            self.assertEqual(caught.exception.code, code)

    def test_version(self):
        self.assertRegex(ferrite.__version__, r"^\d+\.\d+\.\d+$")


if __name__ == "__main__":
    unittest.main()
