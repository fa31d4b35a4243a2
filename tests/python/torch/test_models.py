# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The models and optimizers of models.py: all compile and are right, and nearly all of their graphs are whole."""

import unittest

import models
from common import main


class Models(unittest.TestCase):
    def test_all(self):
        rows = models.run(models.MODELS, say=lambda text: print(text, flush=True))
        for name, modes in rows.items():
            for mode, row in modes.items():
                with self.subTest(name=name, mode=mode):
                    if row["status"] == "skipped":
                        self.skipTest(row["text"])
                    self.assertEqual(row["status"], "right", models.described(name, mode, row))
        result = models.summary(rows)
        self.assertGreaterEqual(result["whole"], models.WHOLE * result["graphs"])


if __name__ == "__main__":
    main()
