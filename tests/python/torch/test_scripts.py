# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Whole training programs of other people's structure: transformers' Trainer, a script like nanoGPT's, and our example."""

import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import torch
from common import main

ROOT = Path(__file__).resolve().parents[3]


def run(*command, **more):
    done = subprocess.run([sys.executable, *map(str, command)], capture_output=True, text=True, check=False, **more)
    if done.returncode != 0:
        raise AssertionError(f"{command} failed:\n{done.stderr}")
    return done.stdout


class Scripts(unittest.TestCase):
    def assertSameLosses(self, actual, expected, rtol=2e-3):
        self.assertEqual(len(actual), len(expected))
        torch.testing.assert_close(torch.tensor(actual), torch.tensor(expected), rtol=rtol, atol=1e-4)

    def test_trainer(self):
        try:
            import transformers
        except ModuleNotFoundError:
            self.skipTest("transformers is not installed")
        generator = torch.Generator().manual_seed(0)
        texts = torch.randint(0, 60, (64, 16), generator=generator)
        examples = [{"input_ids": text, "labels": text} for text in texts]

        def losses(backend=None):
            transformers.set_seed(1)
            config = transformers.GPT2Config(
                vocab_size=60, n_positions=16, n_embd=32, n_layer=2, n_head=2, bos_token_id=0, eos_token_id=0,
                resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
            )  # fmt: skip
            with tempfile.TemporaryDirectory() as folder:
                arguments = transformers.TrainingArguments(
                    output_dir=folder, max_steps=50, per_device_train_batch_size=4, learning_rate=1e-3, use_cpu=True,
                    logging_steps=1, save_strategy="no", report_to=[], disable_tqdm=True, seed=1,
                )  # fmt: skip
                model = transformers.GPT2LMHeadModel(config)
                if backend:  # torch_compile_backend takes only the names that the library accelerate lists
                    model.compile(backend=backend)
                trainer = transformers.Trainer(model, arguments, train_dataset=examples)
                trainer.train()
                return [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]

        expected = losses()
        self.assertEqual(len(expected), 50)
        self.assertLess(expected[-1], expected[0])
        self.assertSameLosses(losses("ferrite"), expected)

    def test_script_like_nanogpt(self):
        script = Path(__file__).with_name("nanogpt_script.py")
        expected, actual = (json.loads(run(script, backend).splitlines()[-1]) for backend in ("eager", "ferrite"))
        self.assertLess(expected["losses"][-1], 0.9 * expected["losses"][0])
        self.assertSameLosses(actual["losses"], expected["losses"])
        for split in ("train", "val"):
            self.assertSameLosses(*([one[split] for one in each["evaluated"]] for each in (actual, expected)))

    def test_example(self):
        with tempfile.TemporaryDirectory() as folder:
            output, curve = Path(folder) / "losses.json", Path(folder) / "loss.svg"
            run(ROOT / "examples/train_gpt/train.py", "--engine", "ferrite,eager", "--steps", 20, "--batch", 4, "--length", 32,
                "--width", 32, "--heads", 2, "--layers", 2, "--threads", 2, "--sample", 20, "--output", output,
                "--curve", curve, env={**os.environ, "FERRITE_CACHE": "off"})  # fmt: skip
            runs = json.loads(output.read_text())
            self.assertLess(runs["eager"]["losses"][-1], 0.95 * runs["eager"]["losses"][0])
            self.assertSameLosses(runs["ferrite"]["losses"], runs["eager"]["losses"])
            self.assertIn("<svg", curve.read_text())


if __name__ == "__main__":
    main()
