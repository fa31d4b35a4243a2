#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""check_rules.py finds what it is there to find, and nothing in a tree that keeps the rules."""

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import check_rules  # noqa: E402

LICENCE = "// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception\n"


class CheckRules(unittest.TestCase):
    def messages(self, files: dict[str, str]) -> list[str]:
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            subprocess.run(["git", "init", "-q", folder], check=True)
            for name, text in files.items():
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                (root / name).write_text(text)
            return [f"{name}:{line}: {message}" for name, line, message in check_rules.violations(check_rules.Tree(root))]

    def expect_one(self, files: dict[str, str], place: str, words: str) -> None:
        found = self.messages(files)
        self.assertEqual(len(found), 1, found)
        self.assertTrue(found[0].startswith(place + ": "), found)
        self.assertIn(words, found[0])

    def test_a_clean_tree_has_none(self):
        files = {
            "core/ir/graph/graph.h": LICENCE + "#pragma once\n",
            "core/ir/text/words.cpp": LICENCE + '#include "core/ir/graph/graph.h"\nauto a = "div";  // not "relu" here\n',
            "plugins/std/ops.cpp": LICENCE + 'auto a = op_def("relu");\nauto b = op_def("div");\n',
            "backends/nvidia/target.cpp": LICENCE + '#include "llvm/IR/Module.h"\nauto name = "sm_90 cuda";\n',
            "docs/page.md": "cuda and https://llvm.org/docs\n",
            "core/ship.cpp": LICENCE + "// The relationship of a chip to its script, intelligible or amended.\n",
            "tools/help.cpp": LICENCE + 'auto help = "The device, as sm_90a or gfx942";  // "sm_90a"\n',
        }
        self.assertEqual(self.messages(files), [])

    def test_core_headers_stay_in_core(self):
        header = {"core/ir/graph/graph.h": LICENCE + "#pragma once\n"}
        for include in ("core/ir/graph/graph.h", "../core/ir/graph/graph.h", "ir/graph/graph.h"):
            for room in ("passes", "python/bridge", "examples/embed"):
                with self.subTest(f"{include} in {room}"):
                    text = LICENCE + f'#include "{include}"\n'
                    self.expect_one(header | {f"{room}/fold.cpp": text}, f"{room}/fold.cpp:2", "a header of the compiler")

    def test_includes_point_down(self):
        headers = {f"{room}/a.h": LICENCE + "#pragma once\n" for room in ("core/support", "runtime", "core/ir", "driver", "tools")}
        for lower, upper in (("core/support", "runtime"), ("runtime", "core/ir"), ("core/ir", "driver"), ("driver", "tools")):
            with self.subTest(f"{lower} under {upper}"):
                up = {f"{lower}/b.cpp": LICENCE + f'#include "{upper}/a.h"\n'}
                self.expect_one(headers | up, f"{lower}/b.cpp:2", f"includes {upper}/a.h")
                self.assertEqual(self.messages(headers | {f"{upper}/b.cpp": LICENCE + f'#include "{lower}/a.h"\n'}), [])

    def test_folders_form_no_circle(self):
        ring = {f"core/{a}/a.h": LICENCE + f'#pragma once\n#include "core/{b}/a.h"\n' for a, b in ("xy", "yz", "zx")}
        self.expect_one(ring, "core/z/a.h:3", "core/x -> core/y -> core/z -> core/x")

    def test_backends_and_sdk_form_no_circle(self):
        ring = {f"backends/llvm/{a}/a.h": LICENCE + f'#pragma once\n#include "backends/llvm/{b}/a.h"\n'
                for a, b in (("analysis", "ir"), ("ir", "analysis"))}  # fmt: skip
        self.expect_one(ring, "backends/llvm/ir/a.h:3", "circle of folders: backends/llvm/analysis -> backends/llvm/ir")
        beside = {f"backends/one/{a}/a.h": LICENCE + f'#pragma once\n#include "../{b}/a.h"\n' for a, b in ("xy", "yx")}
        self.expect_one(beside, "backends/one/y/a.h:3", "circle of folders: backends/one/x -> backends/one/y")
        public = {f"sdk/include/ferrite/{a}": LICENCE + f"#pragma once\n#include <ferrite/{b}>\n"
                  for a, b in (("loop.hpp", "analysis/check.hpp"), ("analysis/check.hpp", "loop.hpp"))}  # fmt: skip
        self.expect_one(public, "sdk/include/ferrite/analysis/check.hpp:3", "circle of folders: sdk/include/ferrite")

    def test_plugins_form_no_circle(self):
        for room in ("plugins/one", "passes", "python/bridge"):
            with self.subTest(room):
                ring = {f"{room}/importer.h": LICENCE + '#pragma once\n#include "format/archive.h"\n',
                        f"{room}/program.h": LICENCE + "#pragma once\n",
                        f"{room}/format/archive.h": LICENCE + '#pragma once\n#include "program.h"\n'}  # fmt: skip
                self.expect_one(ring, f"{room}/format/archive.h:3", f"circle of folders: {room} -> {room}/format -> {room}")
        apart = {"plugins/one/a.h": LICENCE + '#pragma once\n#include "two/a.h"\n',
                 "plugins/two/a.h": LICENCE + '#pragma once\n#include "one/a.h"\n'}  # fmt: skip
        self.expect_one(apart, "plugins/two/a.h:3", "circle of folders: plugins/one -> plugins/two")

    def test_details_are_one_unit_with_their_public_headers(self):
        unit = {f"sdk/include/ferrite/{a}": LICENCE + "#pragma once\n" + "".join(f'#include "ferrite/{b}"\n' for b in others)
                for a, others in (("plugin.hpp", ["detail/build.hpp"]), ("detail/build.hpp", ["op.hpp"]), ("op.hpp", []))}  # fmt: skip
        self.assertEqual(self.messages(unit), [])
        unit["sdk/include/ferrite/op.hpp"] += '#include "ferrite/plugin.hpp"\n'
        self.expect_one(unit, "sdk/include/ferrite/plugin.hpp:3", "closes a circle of files")

    def test_the_emitter_has_layers(self):
        headers = {f"backends/llvm/{folder}/a.h": LICENCE + "#pragma once\n" for folder in (*check_rules.EMITTER_LAYERS, "cpu/nest")}
        for folder, other, words in (
            ("target", "ir", "target lies below ir"),
            ("gemm", "cpu/nest", "gemm lies below cpu"),
            ("gpu", "cpu/nest", "what gpu and cpu share"),
            ("cpu", "gpu", "what cpu and gpu share"),
        ):
            with self.subTest(f"{other} in {folder}"):
                text = LICENCE + f'#include "backends/llvm/{other}/a.h"\n'
                self.expect_one(headers | {f"backends/llvm/{folder}/b.cpp": text}, f"backends/llvm/{folder}/b.cpp:2", words)
                back = LICENCE + f'#include "backends/llvm/{folder}/a.h"\n'
                if folder not in ("gpu", "cpu"):
                    self.assertEqual(self.messages(headers | {f"backends/llvm/{other}/b.cpp": back}), [])

    def test_libraries_link_what_lies_below(self):
        licence = "# " + LICENCE[3:]
        below = licence + "target_link_libraries(ferrite_core PUBLIC ferrite_runtime fmt::fmt)\n"
        above = licence + "target_link_libraries(ferrite_runtime PUBLIC ferrite_base PRIVATE ferrite_core)\n"
        self.assertEqual(self.messages({"core/CMakeLists.txt": below}), [])
        self.expect_one({"runtime/CMakeLists.txt": above}, "runtime/CMakeLists.txt:2", "links ferrite_core")
        by_alias = licence + "target_link_libraries(ferrite_runtime PUBLIC Ferrite::ferrite)\n"
        for aliases in ("add_library(Ferrite::ferrite ALIAS libferrite)", "ferrite_embedding_library(libferrite ferrite ferrite_driver)"):
            with self.subTest(aliases):
                files = {"runtime/CMakeLists.txt": by_alias, "driver/CMakeLists.txt": licence + aliases + "\n"}
                self.expect_one(files, "runtime/CMakeLists.txt:2", "links libferrite, which lies above it")

    def test_lines_have_few_columns(self):
        long, hash_licence = "x" * 111, "# " + LICENCE[3:]
        for name, head in (("core/a.cpp", LICENCE), ("sdk/a.cmake", hash_licence), ("tools/CMakeLists.txt", hash_licence),
                           ("dev", "#!/usr/bin/env bash\n" + hash_licence), ("tests/a.sh", "#!/bin/sh\n" + hash_licence)):
            with self.subTest(name):
                self.expect_one({name: f"{head}# {long}\n"}, f"{name}:{head.count(chr(10)) + 1}", "more than 110 columns")
                self.assertEqual(self.messages({name: f"{head}# {long[:108]}\n"}), [])
        self.expect_one({"tests/a.py": f"{hash_licence}# {'x' * 160}\n"}, "tests/a.py:2", "more than 160 columns")
        self.assertEqual(self.messages({"tests/a.py": f"{hash_licence}# {'x' * 150}\n", "docs/a.md": long * 2}), [])
        raw = f'{LICENCE}auto a = R"(\n{long})";\n'
        table = f"{LICENCE}// clang-format off: a table\n{long}\n// clang-format on\n"
        self.assertEqual(self.messages({"core/a.cpp": raw, "core/b.cpp": table}), [])
        self.expect_one({"core/a.cpp": raw + long + "\n"}, "core/a.cpp:4", "more than 110 columns")

    def test_lines_of_the_python_package_have_fewer_columns(self):
        hash_licence = "# " + LICENCE[3:]
        self.expect_one({"python/ferrite/a.py": f"{hash_licence}# {'x' * 109}\n"}, "python/ferrite/a.py:2", "more than 110 columns")
        self.assertEqual(self.messages({"python/ferrite/a.py": f"{hash_licence}# {'x' * 108}\n"}), [])

    def test_comments_name_the_noun(self):
        hash_licence = "# " + LICENCE[3:]
        for name, text, line in (
            ("core/a.cpp", LICENCE + "int a;\n/// What the page is made from.\n", 3),
            ("sdk/a.h", LICENCE + "#pragma once\n// The first line.\n// A second sentence. What follows\n// it.\n", 4),
            ("tools/a.c", LICENCE + "int a; /* What\n it is */\n", 2),
            ("runtime/a.h", LICENCE + "#pragma once\nint a;  ///< What it has\n", 3),
            ("tools/b.cpp", LICENCE + 'int a;\nauto help = "A number. What it costs.";\n', 3),
            ("plugins/CMakeLists.txt", hash_licence + "# What is built.\n", 2),
            ("python/a.py", hash_licence + 'def a():\n    \"\"\"Made.\n\n    What it is.\n    \"\"\"\n', 5),
            ("python/a.py", hash_licence + "a = 1  # What it has\n", 2),
        ):
            with self.subTest(text):
                self.expect_one({name: text}, f"{name}:{line}", "name the noun")
        for name, text in (
            ("core/a.cpp", LICENCE + '// What is it? It says what holds, as Seen::What::size.\nauto a = "What is wrong?";\n'),
            ("python/a.py", hash_licence + 'a = "What is wrong."\nprint(\n    "What else.",\n)\n# Whatever it is.\n'),
            ("tests/a.cpp", LICENCE + "// What is tested.\n"),
        ):
            with self.subTest(text):
                self.assertEqual(self.messages({name: text}), [])

    def test_folders_and_files_are_small(self):
        self.expect_one({f"core/a{k}.cpp": LICENCE for k in range(check_rules.MOST_FILES + 1)}, "core:1", "files of code")
        self.expect_one({"core/a.cpp": LICENCE + "\n" * check_rules.MOST_LINES}, "core/a.cpp:601", "601 lines")

    def test_llvm_stays_in_backends(self):
        self.expect_one({"tools/cli/main.cpp": LICENCE + "#include <llvm/IR/Module.h>\n"}, "tools/cli/main.cpp:2", "LLVM")
        cmake = "# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception\nfind_package(LLVM 22)\n"
        self.expect_one({"core/CMakeLists.txt": cmake}, "core/CMakeLists.txt:2", "LLVM")

    def test_backends_stand_alone(self):
        headers = {name: LICENCE + "#pragma once\n" for name in (
            "backends/llvm/cpu/nest/rows.h", "backends/llvm/include/ferrite/emitter/target.h", "sdk/include/ferrite/op.hpp",
            "backends/one/runtime.h", "backends/two/own.h", "backends/two/runtime.h", "plugins/std/common.h")}  # fmt: skip
        allowed = ("ferrite/emitter/target.h", "ferrite/op.hpp", "own.h", "../llvm/rows.h", "runtime.h", "vector")
        text = LICENCE + "".join(f'#include "{header}"\n' for header in allowed)
        self.assertEqual(self.messages(headers | {"backends/two/a.cpp": text}), [])
        for place, include, home in (
            ("backends/two/a.cpp", "../one/runtime.h", "backends/one"),
            ("backends/two/a.cpp", "backends/one/runtime.h", "backends/one"),
            ("backends/three/a.cpp", "own.h", "backends/two"),
            ("backends/llvm/a.cpp", "one/runtime.h", "backends/one"),
            ("backends/two/a.cpp", "std/common.h", "plugins/std"),
            ("backends/two/a.cpp", "common.h", "plugins/std"),
        ):
            with self.subTest(f"{include} in {place}"):
                text = LICENCE + f'#include "{include}"\n'
                self.expect_one(headers | {place: text}, f"{place}:2", f"a header of {home}")

    def test_backends_are_small(self):
        part = check_rules.MOST_LINES_OF_A_BACKEND // 3
        parts = {f"a{k}.cpp": LICENCE + "\n" * (part - 1) for k in range(3)}
        small = {f"backends/{backend}/{name}": text for backend in ("one", "llvm") for name, text in parts.items()}
        self.assertEqual(self.messages(small), [])
        more = {f"backends/{backend}/a.h": LICENCE + "#pragma once\n" for backend in ("one", "llvm")}
        self.expect_one(small | more, "backends/one:1", f"it has {3 * part + 2} lines")

    def test_core_knows_no_op(self):
        ops = {"plugins/std/ops.cpp": LICENCE + 'op_def("relu");\nconst T t[] = {{"exp", Prim::exp_}};\nop_def("div");\n'}
        for op in ("relu", "exp", "div"):
            with self.subTest(op):
                text = LICENCE + f'// "relu" may stand in a comment\nbool b = x == "{op}";\n'
                self.expect_one(ops | {"core/schedule/fusion/fuse.cpp": text}, "core/schedule/fusion/fuse.cpp:3", f'"{op}"')

    def test_vendor_words_stay_at_home(self):
        for word in ("cuda", "HIP", "kDLCUDA", "level_zero", "LevelZero", "libcudnn.so", "run_ptx", "spirv64", "amd", "Radeon",
                     "amdgcn_mfma", "wmma", "nvvm_barrier", "Intel", "sm_90a", "is_sm_80", "gfx942", "gfx90a"):
            for place in ("core/a.cpp", "backends/llvm/a.cpp", "backends/cpu/a.cpp", "plugins/std/a.cpp"):
                with self.subTest(f"{word} in {place}"):
                    self.assertTrue(self.messages({place: LICENCE + f"int {word};\n"}))
        for literal in ("sm_90a", "+gfx942"):
            self.expect_one({"core/a.cpp": LICENCE + f'auto a = "{literal}";\n'}, "core/a.cpp:2", literal.lstrip("+"))
        self.expect_one({"cmake/a.cmake": "# " + LICENCE[3:] + "set(target sm_90a)\n"}, "cmake/a.cmake:2", "sm_90a")

    def test_text_rules(self):
        self.expect_one({"core/a.h": "#pragma once\n"}, "core/a.h:1", "licence")
        self.expect_one({"core/a.h": LICENCE}, "core/a.h:1", "#pragma once")
        for line, words in (
            ("// TODO later", "unfinished"),
            ("see /home/someone/x", "path"),
            ("as issue 12 says", "came to be"),
            ("written by an AI", "came to be"),
            ("from http://10.0.0.1/simple", "public hosts"),
        ):
            with self.subTest(line):
                self.expect_one({"docs/a.md": line + "\n"}, "docs/a.md:1", words)


if __name__ == "__main__":
    unittest.main()
