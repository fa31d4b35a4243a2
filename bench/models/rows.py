# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The models that tests and benchmarks run: where each lies under build/models and inputs that make sense to it.

A new model is one more Row. Inputs follow from the row's name alone, so a test and a benchmark see the same bytes.
"""

import argparse
import json
import subprocess
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
MODELS = ROOT / "build" / "models"

# An output is right when |a - b| <= ABSOLUTE + RELATIVE * |b| for every element, b from ONNX Runtime. In bf16 each layer rounds to 8
# bits and no two programs round at the same places: there |a - b| <= BF16_OF_LARGEST * max |b|, b from PyTorch.
RELATIVE, ABSOLUTE = 1e-3, 1e-4
BF16_OF_LARGEST = 0.15

Inputs = dict[str, np.ndarray]


@dataclass(frozen=True)
class Row:
    name: str
    file: str
    make: Callable[[np.random.Generator], Inputs]
    module: str = ""  # the model's name in export.py, where PyTorch has it too
    bf16: bool = False  # of the weights and everything between the inputs and outputs

    @property
    def exported(self) -> bool:
        """Whether export.py writes the file."""
        return self.file.startswith("exported/")

    def path(self, models: Path = MODELS) -> Path:
        return models / self.file

    def left_out(self, models: Path = MODELS) -> str:
        """What to say of a model that export.py would write and has not; "" of others."""
        path = self.path(models)
        there = not self.exported or path.is_file()
        return "" if there else f"{self.name}: left out, since {path} is not there; bench/models/export.py makes it"

    def inputs(self) -> Inputs:
        return self.make(np.random.default_rng(zlib.crc32(self.name.encode())))


def magika(batch: int) -> Callable[[np.random.Generator], Inputs]:
    """Bytes as tokens 0 to 255, printable ones in every fourth row; 256 is the padding that short files get."""

    def make(generator: np.random.Generator) -> Inputs:
        tokens = generator.integers(0, 256, (batch, 2048), dtype=np.int32)
        tokens[0::4] = 32 + tokens[0::4] % 95
        tokens[1::2, 700:1024] = 256
        return {"bytes": tokens}

    return make


def image(name: str, shape: tuple[int, ...], low: float, high: float) -> Callable[[np.random.Generator], Inputs]:
    return lambda generator: {name: generator.uniform(low, high, shape).astype(np.float32)}


def decoder(batch: int, sequence: int) -> Callable[[np.random.Generator], Inputs]:
    """Token ids within GPT-2's vocabulary, all of which count."""
    return lambda generator: {
        "input_ids": generator.integers(0, 50257, (batch, sequence), dtype=np.int64),
        "attention_mask": np.ones((batch, sequence), np.int64),
    }


def encoder(batch: int, sequence: int) -> Callable[[np.random.Generator], Inputs]:
    """Token ids within BERT's vocabulary; the last text of the batch is shorter than the others."""

    def make(generator: np.random.Generator) -> Inputs:
        mask = np.ones((batch, sequence), np.int64)
        mask[-1, sequence - sequence // 4 :] = 0
        return {
            "input_ids": generator.integers(0, 30522, (batch, sequence), dtype=np.int64),
            "attention_mask": mask,
            "token_type_ids": np.zeros((batch, sequence), np.int64),
        }

    return make


PHOTO = image("image", (1, 3, 224, 224), -1.0, 1.0)
ROWS = [
    Row("magika-b1", "magika/model.onnx", magika(1)),
    Row("magika-b64", "magika/model.onnx", magika(64)),
    Row("open-nsfw-b1", "open-nsfw/model.onnx", image("input:0", (1, 224, 224, 3), -120.0, 135.0)),
    Row("ppocr-rec-6x48x320", "rapidocr/rec.onnx", image("x", (6, 3, 48, 320), -1.0, 1.0)),
    Row("ppocr-det-640", "rapidocr/det.onnx", image("x", (1, 3, 640, 640), -1.0, 1.0)),
    Row("ppocr-cls-6x48x192", "rapidocr/cls.onnx", image("x", (6, 3, 48, 192), -1.0, 1.0)),
    Row("minilm-1x128", "minilm/minilm.onnx", encoder(1, 128), "minilm"),
    Row("minilm-8x128", "minilm/minilm.onnx", encoder(8, 128), "minilm"),
    Row("resnet50", "exported/resnet50.onnx", PHOTO, "resnet50"),
    Row("mobilenet-v3", "exported/mobilenet-v3.onnx", PHOTO, "mobilenet-v3"),
    Row("convnext-tiny", "exported/convnext-tiny.onnx", PHOTO, "convnext-tiny"),
    Row("vit-b16", "exported/vit-b16.onnx", PHOTO, "vit-b16"),
    Row("bert-base-1x128", "exported/bert-base.onnx", encoder(1, 128), "bert-base"),
    Row("gpt2-1x128", "exported/gpt2.onnx", decoder(1, 128), "gpt2"),
]


# For machines that multiply bf16; only when they are named.
BF16_ROWS = [
    Row("resnet50-bf16", "exported/resnet50-bf16.onnx", PHOTO, "resnet50-bf16", bf16=True),
    Row("bert-base-1x128-bf16", "exported/bert-base-bf16.onnx", encoder(1, 128), "bert-base-bf16", bf16=True),
]


def select(names: list[str]) -> list[Row]:
    """The rows named, all of ROWS if none is; ValueError names what does not exist."""
    known = {row.name: row for row in ROWS + BF16_ROWS}
    unknown = [name for name in names if name not in known]
    if unknown:
        raise ValueError(f"no such model: {', '.join(unknown)}; known: {', '.join(known)}")
    return [known[name] for name in names] or ROWS


def add_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("rows", nargs="*", metavar="ROW", help=", ".join(row.name for row in ROWS))


def chosen(parser: argparse.ArgumentParser, names: list[str]) -> list[Row]:
    """select(); a name that is none is a usage error."""
    try:
        return select(names)
    except ValueError as error:
        parser.error(str(error))


def write_inputs(inputs: Inputs, directory: Path) -> list[str]:
    """Writes each input as .npy and returns the command line arguments that bind them."""
    arguments = []
    for index, (name, array) in enumerate(inputs.items()):
        path = directory / f"input_{index}.npy"
        np.save(path, array)
        arguments += ["-i", f"{name}={path}"]
    return arguments


def run_ferrite(
    program: Path, row: Row, models: Path, threads: int, directory: Path, timeout: float, options: tuple[str, ...] = ()
) -> list:
    """Runs `ferrite run` on the row's inputs: a list of (name, array) in the model's order. RuntimeError on failure."""
    out = directory / "out"
    command = [program, "run", row.path(models), *write_inputs(row.inputs(), directory),
               "--threads", threads, "-o", out, *options]  # fmt: skip
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=timeout, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"ferrite run: exit status {done.returncode}\n{done.stdout}{done.stderr}")
    entries = json.loads((out / "outputs.json").read_text())
    results = []
    for index, entry in enumerate(entries):
        array = np.load(out / f"output_{index}.npy")
        if entry["index"] != index or list(array.shape) != entry["shape"]:
            raise RuntimeError(f"outputs.json does not describe output_{index}.npy {array.shape}: {entry}")
        results.append((entry["name"], array))
    return results


def explain(program: Path, model: Path, options: list[str], timeout: float, environment: dict[str, str] | None = None) -> list[dict]:
    """The records of `ferrite explain` about a model. RuntimeError on failure."""
    done = subprocess.run([str(program), "explain", "--json", str(model), *options], env=environment,
                          capture_output=True, text=True, timeout=timeout, check=False)  # fmt: skip
    if done.returncode != 0:
        raise RuntimeError(f"ferrite explain {model}: exit status {done.returncode}\n{done.stderr}")
    return json.loads(done.stdout)


def difference(actual: np.ndarray, expected: np.ndarray, bf16: bool = False) -> tuple[bool, str]:
    """Whether actual is within the tolerance of expected, and a sentence that says how far it is off and where."""
    if actual.shape != expected.shape or actual.dtype != expected.dtype:
        return False, f"is {actual.dtype}{list(actual.shape)}, expected {expected.dtype}{list(expected.shape)}"
    if actual.size == 0:
        return True, "empty"
    a, b = actual.astype(np.float64), expected.astype(np.float64)
    # Equal infinities and NaN in the same place count as equal.
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    allowed = BF16_OF_LARGEST * np.abs(b).max() if bf16 else ABSOLUTE + RELATIVE * np.abs(b)
    with np.errstate(invalid="ignore"):
        excess = np.where(same, 0.0, np.abs(a - b) / allowed)
    excess = np.where(np.isnan(excess), np.inf, excess)
    worst = np.unravel_index(np.argmax(excess), excess.shape)
    place = "[" + ", ".join(str(int(i)) for i in worst) + "]"
    wrong = int(np.count_nonzero(excess > 1.0))
    text = f"{wrong} of {a.size} elements off, worst {excess[worst]:.3g} of the tolerance at {place}: " \
           f"{a[worst]:.7g}, expected {b[worst]:.7g}"  # fmt: skip
    return wrong == 0, text
