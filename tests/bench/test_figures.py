#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The arithmetic and the texts of bench/run, on figures made up."""

import sys
import unittest
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench"))

import figures  # noqa: E402
import pages  # noqa: E402


def row(name: str, **medians: float | str | None) -> dict:
    """A row with the medians given; a text is an error, None an engine that the row is not for."""
    engines = {
        engine: {"error": median} if isinstance(median, str) else {"median_ms": median, "min_ms": median / 2}
        for engine, median in medians.items()
        if median is not None
    }
    if "median_ms" in engines["ferrite"]:
        engines["ferrite"] |= {"compile_ms": 81.6, "warm_compile_ms": 7.2, "init_ms": 40.4, "kernels": 3}
    return {"row": name, "repeat": 5, "engines": engines}


FAST = row("fast", ferrite=2.0, onnxruntime=8.0, openvino=4.0, torch=None)
SLOW = row("slow", ferrite=10.0, onnxruntime=5.0, openvino=20.0, torch=2.5)
BROKEN = row("broken", ferrite="FE-X01: no", onnxruntime=5.0, openvino="died", torch=None)


class Arithmetic(unittest.TestCase):
    def test_a_row_is_the_median_of_its_rounds_and_their_least_minimum(self):
        self.assertEqual(figures.over_rounds([(3, 2), (9, 1.5), (4, 3)]), {"median_ms": 4, "min_ms": 1.5})

    def test_ratios_are_peer_over_ferrite(self):
        self.assertEqual(figures.ratio(FAST, "onnxruntime"), 4.0)
        self.assertIsNone(figures.ratio(FAST, "torch"))
        self.assertIsNone(figures.ratio(BROKEN, "onnxruntime"))
        self.assertEqual([figures.best_peer(r) for r in (FAST, SLOW, BROKEN)], ["openvino", "torch", "onnxruntime"])
        self.assertEqual([figures.best_ratio(r) for r in (FAST, SLOW, BROKEN)], [2.0, 0.25, None])

    def test_means_count_the_rows_that_both_ran(self):
        means = figures.geometric_means([FAST, SLOW, BROKEN])
        for name, mean, rows, least in [
            ("onnxruntime", (4.0 * 0.5) ** 0.5, 2, 0.5),
            ("openvino", 2.0, 2, 2.0),
            ("torch", 0.25, 1, 0.25),
            ("best", 0.5**0.5, 2, 0.25),
        ]:
            self.assertAlmostEqual(means[name]["mean"], mean, msg=name)
            self.assertEqual((means[name]["rows"], means[name]["least"]), (rows, least), name)
        self.assertEqual(figures.geometric_means([BROKEN]), {})


class Commands(unittest.TestCase):
    def command(self, words: str) -> str:
        with mock.patch.object(sys, "argv", ["a.py", *words.split()]):
            return figures.command("bench/a.py", ["unet-step"])

    def test_rows_are_part_of_the_command(self):
        self.assertEqual(self.command("--rounds 3 unet-step"), "bench/a.py --rounds 3 unet-step")

    def test_what_changes_no_figure_is_left_out(self):
        self.assertEqual(self.command("--add --rounds 3 --output a.json unet-step"), "bench/a.py --rounds 3")


class Texts(unittest.TestCase):
    def test_three_digits(self):
        numbers = [0.01234, 0.1234, 1.234, 12.34, 99.96, 123.4, 1234.4, 0]
        texts = ["0.012", "0.123", "1.23", "12.3", "100.0", "123", "1234", "0"]
        self.assertEqual([figures.significant(number) for number in numbers], texts)

    def test_the_table(self):
        def columns(line: str) -> list[str]:
            return [cell.strip() for cell in line.strip("|").split("|")]

        head, rule = figures.table_head(figures.PEERS).splitlines()
        self.assertEqual(columns(head)[:5], ["model", "Ferrite", "ONNX Runtime", "OpenVINO", "PyTorch Inductor"])
        lines = [figures.table_line(r, figures.PEERS) for r in (FAST, SLOW, BROKEN)]
        self.assertEqual(columns(lines[0]), ["fast", "2.00", "8.00", "4.00", "", "2.00", "82", "7", "40", "3"])
        self.assertEqual(columns(lines[2]), ["broken", "failed", "5.00", "failed", "", "", "", "", "", ""])
        self.assertEqual({len(columns(line)) for line in (head, rule, *lines)}, {10})
        self.assertEqual({len(line) for line in (head, *lines)}, {len(head)})
        self.assertEqual(
            figures.failures([FAST, BROKEN]), [("broken", "ferrite", "FE-X01: no"), ("broken", "openvino", "died")]
        )

    def test_the_text_of_a_machine(self):
        report = {"rows": [FAST, SLOW], "peers": ["onnxruntime"], "cpu": "Some CPU", "cores": 4, "threads": 2,
                  "versions": {"ferrite": "0.1", "onnxruntime": "1.2"}}  # fmt: skip
        text = figures.markdown(report)
        self.assertIn("2 threads on Some CPU (4 cores)", text.replace("\n", " "))
        self.assertIn("ONNX Runtime 1.41 (2 models, least 0.50)", text.replace("\n", " "))
        self.assertLessEqual(max(map(len, text.splitlines())), figures.LINE)

    def test_tables_between_their_marks_are_made_anew(self):
        text = "a\n<!-- figures: one -->\nold\n<!-- figures: end -->\nb\n<!-- figures: two -->\n<!-- figures: end -->\n"
        filled = figures.filled(text, {"one": lambda: "| 1 |", "two": lambda: "| 2 |"})
        self.assertEqual(filled, text.replace("old", "| 1 |").replace("two -->\n", "two -->\n| 2 |\n"))
        self.assertEqual(figures.filled("no table", {}), "no table")
        for wrong in ("<!-- figures: three -->\n<!-- figures: end -->", "<!-- figures: one -->\n", "<!-- figures: end -->",
                      "<!-- figures: one -->\n<!-- figures: two -->\n<!-- figures: end -->"):  # fmt: skip
            with self.assertRaises(ValueError, msg=wrong):
                figures.filled(wrong, {"one": str, "two": str})

    def test_every_table_is_on_one_page(self):
        marks = [found[1] for page in pages.PAGES for found in figures.TABLE.finditer(page.read_text(encoding="utf-8"))]
        self.assertEqual(sorted(mark.removeprefix("<!-- figures: ").removesuffix(" -->\n") for mark in marks), sorted(pages.TABLES))

    def test_names_of_machines(self):
        self.assertEqual(figures.plain_cpu("Intel(R) Xeon(R) CPU @ 2.00GHz"), "Intel Xeon CPU")
        self.assertEqual(figures.result_name("Intel(R) Xeon(R) Processor", 2), "cpu-intel-xeon-2-cores.json")
        self.assertEqual(figures.result_name("AMD EPYC Processor, family 25, model 1", 2, "cpu-kernels"), "cpu-kernels-amd-epyc-family-25-model-1-2-cores.json")
        self.assertEqual(
            figures.result_name("AMD EPYC 9B14 96-Core Processor", 16), "cpu-amd-epyc-9b14-96-core-16-cores.json"
        )

    def test_threads_get_cores_of_their_own_first(self):
        two_each = {0: "0,4", 1: "1,5", 4: "0,4", 5: "1,5"}
        self.assertEqual(figures.choose_cpus(2, two_each), [0, 1])
        self.assertEqual(figures.choose_cpus(3, two_each), [0, 1, 4])
        self.assertEqual(figures.choose_cpus(2, {3: "3,7", 7: "3,7"}), [3, 7])
        self.assertEqual(figures.choose_cpus(8, {0: "0", 1: "1"}), [0, 1])


if __name__ == "__main__":
    unittest.main()
