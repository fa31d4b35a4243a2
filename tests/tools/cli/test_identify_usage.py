#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""examples/identify with a wrong command line or configuration: an exit status and what to do; no model is needed.

Usage: test_identify_usage.py [--identify FILE] [unittest options]
"""

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from program import BAD_INPUT, BUILD, OK, USAGE, ProgramTest, Settings, main  # noqa: E402

CONFIGURATION = {
    "beg_size": 16, "mid_size": 0, "end_size": 16, "block_size": 64, "use_inputs_at_offsets": False,
    "padding_token": 256, "min_file_size_for_dl": 8, "target_labels_space": ["c", "txt"], "overwrite_map": {},
    "thresholds": {}, "medium_confidence_threshold": 0.5,
}
# Of tokens i32 [n, 32], as the configuration says.
MODEL = """ferrite graph 0
graph @labels(%tokens: i32[$n,32]) -> (%0 "labels") {
  symbol $n in [1, 64]
  %0 = cast(%tokens) {dtype = f32}
}
"""


class IdentifyTest(ProgramTest):
    def setUp(self):
        super().setUp()
        (self.folder / "model.fe").write_text(MODEL)
        (self.folder / "content_types_kb.min.json").write_text("{}")
        (self.folder / "empty").touch()
        self.write(CONFIGURATION)

    def write(self, configuration):
        (self.folder / "config.json").write_text(json.dumps(configuration))

    def call(self, *words):
        return super().call(*words, program=Settings.identify)

    def refused(self, status, text, *words):
        done = self.call(*words)
        self.assertEqual(done.returncode, status, done.stderr)
        self.assertIn(text, done.stderr)
        self.assertEqual(done.stdout, "")

    def test_usage(self):
        model, config = ("--model", "model.fe"), ("--config", "config.json")
        for text, words in (("--model is missing", config + ("empty",)), ("--config is missing", model + ("empty",)),
                            ("no file is given", model + config), ("--wrong", model + config + ("--wrong", "1", "empty")),
                            ("--threads lacks its value", model + config + ("empty", "--threads"))):
            with self.subTest(text=text):
                self.refused(USAGE, text, *words)

    def test_threads(self):
        for value in ("abc", "-1", "2x", "4097", "99999999999999999999", ""):
            with self.subTest(value=value):
                self.refused(USAGE, "--threads", "--model", "model.fe", "--config", "config.json", "--threads", value, "empty")

    def test_configuration(self):
        options = ("--model", "model.fe", "--config")
        self.refused(BAD_INPUT, "none.json cannot be read; give", *options, "none.json", "empty")
        (self.folder / "text.json").write_text("{")
        self.refused(BAD_INPUT, "configuration text.json", *options, "text.json", "empty")
        self.write(CONFIGURATION | {"end_size": 64})
        self.refused(BAD_INPUT, "its sizes contradict each other; give", *options, "config.json", "empty")

    def test_missing_model(self):
        self.refused(BAD_INPUT, "FE-I01", "--model", "none.fe", "--config", "config.json", "empty")

    def test_closing_line(self):
        done = self.call("--model", "model.fe", "--config", "config.json", "empty", ".", "/dev/null")
        self.assertEqual(done.returncode, OK, done.stderr)
        lines = done.stdout.splitlines()
        self.assertEqual(len(lines), 4, done.stdout)
        self.assertRegex(lines[-1], r"\b0 runs")


if __name__ == "__main__":
    main(__doc__, identify=BUILD / "bin/identify")
