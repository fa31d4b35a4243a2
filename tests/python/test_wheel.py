#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The wheel of `./dev wheel`: what it holds, and what it does in an environment with nothing else of Ferrite.

Usage: test_wheel.py [unittest options]; FERRITE_WHEELS is the folder of the wheel, FERRITE_TORCH_PYTHON the interpreter of the
environment with PyTorch. Ends with status 77 where the wheel was not built.
"""

import email
import itertools
import os
import re
import subprocess
import sys
import tempfile
import textwrap
import unittest
import zipfile
from pathlib import Path

WHEELS = Path(os.environ["FERRITE_WHEELS"])
TORCH = Path(os.environ["FERRITE_TORCH_PYTHON"])
SMALL = 60 << 20  # the most that the wheel may have, in bytes
# What manylinux promises of every system, apart from the loader.
SYSTEM = {"libc.so.6", "libm.so.6", "libgcc_s.so.1", "libstdc++.so.6", "libz.so.1", "ld-linux-x86-64.so.2"}
# Functions of the libraries inside that no other library may find.
HIDDEN = re.compile(r"LLVM|_ZN4llvm|_ZN3lld|ZSTD_|EVP_|XXH|unzOpen|_ZN5polly|mallctl")

# Each part loads a library, if it is not loaded yet, and runs a model in it.
PARTS = {
    "ferrite": """
        import ferrite, numpy as np
        x = np.linspace(-2, 2, 12, dtype=np.float32).reshape(3, 4)
        (y,) = ferrite.Session(threads=1).load("relu.onnx", MODEL).run(x)
        np.testing.assert_array_equal(y, np.maximum(x, 0))
        """,
    "torch": """
        import torch
        layer = torch.nn.Linear(4, 3)
        given = torch.randn(2, 4)
        compiled = torch.compile(layer, backend="ferrite", options={"fallback": "error"})
        torch.testing.assert_close(compiled(given), layer(given))
        compiled(given).sum().backward()
        assert layer.weight.grad is not None
        torch._dynamo.reset()
        """,
    "onnxruntime": """
        import numpy as np, onnxruntime
        session = onnxruntime.InferenceSession(MODEL)
        np.testing.assert_array_equal(session.run(None, {"x": -np.ones((3, 4), np.float32)})[0], np.zeros((3, 4), np.float32))
        """,
    # Triton has an LLVM of its own, which generates code here for a device that need not be there.
    "triton": """
        import kernel, triton, triton.compiler, triton.backends.compiler
        source = triton.compiler.ASTSource(fn=kernel.add_one, signature={"x": "*fp32"}, constexprs={})
        code = triton.compile(source, target=triton.backends.compiler.GPUTarget("cuda", 80, 32))
        assert ".visible .entry" in code.asm["ptx"]
        """,
}
KERNEL = """
import triton
import triton.language as tl

@triton.jit
def add_one(x):
    at = x + tl.arange(0, 32)
    tl.store(at, tl.load(at) + 1)
"""


def loaded_libraries() -> str:
    """A statement that prints the libraries that the process has loaded."""
    return "print(*sorted({line.split()[-1] for line in open('/proc/self/maps') if '.so' in line}), sep='\\n')"


class WheelTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        (cls.wheel,) = WHEELS.glob("*.whl")
        scratch = tempfile.TemporaryDirectory(prefix="ferrite-wheel-")
        cls.addClassCleanup(scratch.cleanup)
        cls.folder = Path(scratch.name)
        cls.unpacked = cls.folder / "unpacked"
        with zipfile.ZipFile(cls.wheel) as archive:
            archive.extractall(cls.unpacked)
        cls.libraries = [file for file in cls.unpacked.rglob("*") if file.is_file() and file.read_bytes()[:4] == b"\x7fELF"]
        # The environment is empty but for the wheel. The interpreter is PyTorch's, whose modules a test adds.
        cls.environment = cls.folder / "environment"
        python = TORCH if TORCH.exists() else sys.executable
        subprocess.run([python, "-m", "venv", cls.environment], check=True)
        subprocess.run([cls.environment / "bin/python", "-m", "pip", "install", "--quiet", "--no-index", "--no-deps",
                        "--disable-pip-version-check", cls.wheel], check=True)  # fmt: skip

    def run_in_environment(self, *words, status=0):
        """What a program of the environment prints, with no variable that could lead it to another Ferrite."""
        environment = {"PATH": "/usr/bin:/bin", "HOME": str(self.folder), "XDG_CACHE_HOME": str(self.folder / "cache"),
                       "TORCHINDUCTOR_CACHE_DIR": str(self.folder / "inductor")}  # fmt: skip
        done = subprocess.run([self.environment / "bin" / words[0], *words[1:]], cwd=self.folder, env=environment, text=True,
                              capture_output=True, timeout=300, check=False)  # fmt: skip
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return done.stdout

    def add_packages(self, *interpreters):
        """Lets the environment see the modules of others. Returns the parts that they have."""
        folders = [folder for python in interpreters for folder in python.parents[1].glob("lib/python3*/site-packages")]
        (site,) = self.environment.glob("lib/python3*/site-packages")
        (site / "others.pth").write_text("".join(f"{folder}\n" for folder in folders))
        self.addCleanup((site / "others.pth").unlink)
        return {name for name in PARTS for folder in folders if (folder / name).is_dir()}

    def test_serves_every_python_since_3_10_and_is_small(self):
        self.assertRegex(self.wheel.name, r"^ferrite_compiler-[0-9.]+-cp310-abi3-manylinux_2_\d+_x86_64\.whl$")
        self.assertLess(self.wheel.stat().st_size, SMALL)

    def test_describes_itself(self):
        (folder,) = self.unpacked.glob("*.dist-info")
        metadata = email.message_from_string((folder / "METADATA").read_text())
        self.assertEqual(metadata["Name"], "ferrite-compiler")
        self.assertEqual(metadata.get_all("Provides-Extra"), ["numpy", "torch"])
        self.assertTrue(all("extra ==" in line for line in metadata.get_all("Requires-Dist")))
        self.assertIn("[torch_dynamo_backends]\nferrite = ferrite.torch:backend", (folder / "entry_points.txt").read_text())
        for library in ("LICENSE", "llvm", "protobuf", "openssl"):
            self.assertTrue((folder / "licenses" / library).stat().st_size, library)

    def test_needs_what_every_system_has_and_brings_the_rest(self):
        brought = {library.name for library in self.libraries}
        for library in self.libraries:
            section = subprocess.run(["readelf", "-dW", library], capture_output=True, text=True, check=True).stdout
            needed = set(re.findall(r"\(NEEDED\).*\[(.*)\]", section))
            self.assertLessEqual(needed, SYSTEM | brought, library)
            for folder in re.findall(r"\((?:RUNPATH|RPATH)\).*\[(.*)\]", section):
                self.assertTrue(all(part.startswith("$ORIGIN") for part in folder.split(":")), (library, folder))

    def test_holds_llvm_once_and_shows_nothing_of_it(self):
        with_llvm = [library.name for library in self.libraries if b"LLVM ERROR: " in library.read_bytes()]
        self.assertEqual(with_llvm, ["libferrite_backends.so"])
        for library in self.libraries:
            symbols = subprocess.run(["nm", "-D", "--defined-only", library], capture_output=True, text=True, check=True).stdout
            self.assertNotRegex(symbols, HIDDEN, library)

    def test_runs_alone(self):
        source = f"""
            import ferrite
            model = ferrite.Session().load("add.fe", b'ferrite graph 0\\ngraph @add(%x: f32[3]) -> (%z "z") {{\\n  %z = add(%x, %x)\\n}}\\n')
            assert [port.name for port in model.inputs] == ["x"], model.inputs
            {loaded_libraries()}
            """
        libraries = self.run_in_environment("python", "-c", textwrap.dedent(source))
        ours = [line for line in libraries.splitlines() if "ferrite" in line]
        self.assertTrue(any("libferrite_backends.so" in line for line in ours), libraries)
        self.assertTrue(all(line.startswith(str(self.folder)) for line in ours), libraries)
        self.assertNotRegex(libraries, r"(?m)^/(usr|lib).*/lib(LLVM|protobuf|onnx|fmt|crypto|zstd|minizip)")

    def test_has_the_program_with_all_backends(self):
        model = self.folder / "model.fe"
        model.write_text('ferrite graph 0\ngraph @g(%x: f32[64,64]) -> (%y "y") {\n  %y = exp(%x)\n}\n')
        self.assertIn("1 kernel", self.run_in_environment("ferrite", "run", "model.fe"))
        targets = ("sm_90a", "gfx942", "spirv64", "x86-64-v4", "triple=aarch64-linux-gnu")
        self.run_in_environment("ferrite", "compile", "model.fe", "-o", "model.fepkg", *(f"--target={name}" for name in targets))
        self.assertTrue((self.folder / "model.fepkg").stat().st_size)

    def test_isolates_and_locks_its_plugins(self):
        (self.folder / "model.fe").write_text('ferrite graph 0\ngraph @g(%x: f32[8]) -> (%y "y") {\n  %y = exp(%x)\n}\n')
        (self.folder / "apart.toml").write_text('schema = 0\n[plugin."ferrite.passes"]\nisolation = "process"\n')
        self.assertIn("1 kernel", self.run_in_environment("ferrite", "run", "model.fe", "--manifest", "apart.toml"))
        (self.folder / "locked.toml").write_text("schema = 0\n")
        self.run_in_environment("ferrite", "plugin", "lock", "--manifest", "locked.toml")
        self.assertIn("1 kernel", self.run_in_environment("ferrite", "run", "model.fe", "--manifest", "locked.toml"))

    def test_serves_numpy_and_torch(self):
        if "torch" not in self.add_packages(TORCH):
            self.skipTest("there is no PyTorch: './dev setup torch' installs it")
        source = """
            import ferrite, numpy as np, torch
            model = ferrite.Session().load("add.fe", b'ferrite graph 0\\ngraph @add(%x: f32[3]) -> (%z "z") {\\n  %z = add(%x, %x)\\n}\\n')
            np.testing.assert_array_equal(model.run(np.arange(3, dtype=np.float32))[0], np.arange(3, dtype=np.float32) * 2)
            assert "ferrite" in torch._dynamo.list_backends()
            eager = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.GELU(), torch.nn.Linear(16, 4))
            compiled = torch.compile(eager, backend="ferrite", options={"fallback": "error"})
            given = torch.randn(5, 8)
            torch.testing.assert_close(compiled(given), eager(given))
            """
        self.run_in_environment("python", "-c", textwrap.dedent(source))

    def test_lives_with_other_compilers_in_every_order(self):
        there = self.add_packages(TORCH, Path(sys.executable))
        if not {"torch", "onnxruntime"} <= there:
            self.skipTest("there is no PyTorch: './dev setup torch' installs it")
        (self.folder / "kernel.py").write_text(KERNEL)
        model = subprocess.run([sys.executable, "-c", textwrap.dedent("""
            import sys
            from onnx import TensorProto, helper
            value = lambda name: helper.make_tensor_value_info(name, TensorProto.FLOAT, [3, 4])
            graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "relu", [value("x")], [value("y")])
            model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
            sys.stdout.buffer.write(model.SerializeToString())
            """)], capture_output=True, check=True).stdout  # fmt: skip
        names = ["ferrite", "torch", "onnxruntime"] + (["triton"] if "triton" in there else [])
        for order in [names, names[::-1], ["torch", "triton", "onnxruntime", "ferrite"], ["onnxruntime", "triton", "torch", "ferrite"]]:
            order = [name for name in order if name in names]
            with self.subTest(order=order):
                # After each import everything that is there runs, what was loaded before too.
                steps = itertools.chain(*(order[: k + 1] for k in range(len(order))))
                source = "\n".join(textwrap.dedent(PARTS[name]) for name in steps)
                (self.folder / "order.py").write_text(f"MODEL = {model!r}\n{source}")
                self.run_in_environment("python", "order.py")


if __name__ == "__main__":
    if not any(WHEELS.glob("*.whl")):
        print(f"skipped: there is no wheel in {WHEELS}; './dev wheel' builds it")
        sys.exit(77)
    unittest.main()
