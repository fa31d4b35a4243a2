#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Trains a character GPT on the documentation and sources of this repository.

Usage: train.py [--engine ferrite,eager,inductor] [--steps N] [--curve FILE.svg] [--output FILE.json] ...
Several engines train one after the other, each from the same weights and on the same batches, and their losses are drawn in
one picture. Run it with an interpreter that has PyTorch: see README.md.
"""

import argparse
import json
import math
import statistics
import sys
import time
from pathlib import Path

import torch

from gpt import Gpt, token_loss

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "docs/pictures"))

import svg  # noqa: E402

ENGINES = {"ferrite": "first", "eager": "second", "inductor": "third"}  # and their colours
KEPT_OUT = 0.1  # of the text, for the loss on text that the model has not seen


def text() -> str:
    """The documentation and the core's sources, without rare characters."""
    files = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "core").rglob("*.cpp"))]
    return "\n".join(path.read_text() for path in files).encode("ascii", "ignore").decode()


class Data:
    """Batches of the text as numbers of its characters."""

    def __init__(self, whole: str, batch: int, length: int):
        self.characters = sorted(set(whole))
        number = {character: k for k, character in enumerate(self.characters)}
        tokens = torch.tensor([number[character] for character in whole])
        kept = int(len(tokens) * (1 - KEPT_OUT))
        self.parts = {"train": tokens[:kept], "test": tokens[kept:]}
        self.batch, self.length = batch, length

    def draw(self, part: str, generator: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
        """Tokens and the tokens after them, both [batch, length]."""
        tokens = self.parts[part]
        starts = torch.randint(len(tokens) - self.length - 1, (self.batch,), generator=generator)
        rows = torch.stack([tokens[start : start + self.length + 1] for start in starts])
        return rows[:, :-1].contiguous(), rows[:, 1:].contiguous()


def loss_of(model: torch.nn.Module, tokens: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    return token_loss(model(tokens), target)


def stepper(engine: str, model: torch.nn.Module, optimizer: torch.optim.Optimizer, clip: float):
    """A function that takes a batch, does a step and returns the loss."""
    if engine == "ferrite":
        import ferrite.torch

        return ferrite.torch.train_step(model, loss_of, optimizer, clip_norm=clip)
    compiled = torch.compile(loss_of) if engine == "inductor" else loss_of
    change = torch.compile(optimizer.step) if engine == "inductor" else optimizer.step

    def step(*batch: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad(set_to_none=True)
        loss = compiled(model, *batch)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), clip)
        change()
        return loss.detach()

    return step


def train(engine: str, data: Data, arguments: argparse.Namespace) -> tuple[dict, torch.nn.Module]:
    """{"losses": of each step, "test_loss", "first_s", "median_ms"}, and the model."""
    torch.manual_seed(arguments.seed)
    generator = torch.Generator().manual_seed(arguments.seed)
    model = Gpt(len(data.characters), arguments.width, arguments.heads, arguments.layers, arguments.length)
    optimizer = torch.optim.AdamW(model.parameters(), lr=arguments.rate, betas=(0.9, 0.95), weight_decay=0.1)
    warm, steps = max(1, arguments.steps // 20), arguments.steps
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min((step + 1) / warm, 0.55 + 0.45 * math.cos(math.pi * step / steps))
    )
    step = stepper(engine, model, optimizer, arguments.clip)
    losses, seconds = [], []
    for number in range(steps):
        batch = data.draw("train", generator)
        start = time.perf_counter()
        losses.append(step(*batch).item())
        seconds.append(time.perf_counter() - start)
        schedule.step()
        if number % max(1, steps // 10) == 0 or number == steps - 1:
            print(f"{engine}: step {number}, loss {losses[-1]:.3f}, {seconds[-1] * 1000:.0f} ms", flush=True)
    with torch.no_grad():
        test = statistics.mean(loss_of(model, *data.draw("test", generator)).item() for _ in range(4))
    median = statistics.median(seconds[2:] or seconds) * 1000
    print(f"{engine}: loss on other text {test:.3f}, first step {seconds[0]:.1f} s, then {median:.1f} ms a step", flush=True)
    return {"losses": losses, "test_loss": test, "first_s": seconds[0], "median_ms": median}, model


def compared(runs: dict[str, dict]) -> str:
    """The time of a step of each engine, as a multiple of the first one's, too."""
    first = next(iter(runs.values()))["median_ms"]
    times = (f"{engine} {run['median_ms']:.1f} ms ({run['median_ms'] / first:.2f})" for engine, run in runs.items())
    return "a step takes " + ", ".join(times)


@torch.no_grad()
def sample(model: torch.nn.Module, data: Data, length: int, seed: int) -> str:
    """Text of the model, after a line's end."""
    generator = torch.Generator().manual_seed(seed)
    tokens = torch.tensor([[data.characters.index("\n")]])
    for _ in range(length):
        logits = model(tokens[:, -data.length :])[:, -1]
        tokens = torch.cat([tokens, torch.multinomial(logits.softmax(-1), 1, generator=generator)], dim=1)
    return "".join(data.characters[k] for k in tokens[0, 1:])


def picture(runs: dict[str, dict]) -> svg.Picture:
    """The losses, each as the mean of the steps around it."""
    width, height, left, right, top, bottom = 640, 320, 56, 100, 48, 44
    steps = max(len(run["losses"]) for run in runs.values())
    lowest = math.floor(min(min(run["losses"]) for run in runs.values()))
    highest = math.ceil(max(max(run["losses"]) for run in runs.values()))
    drawn = svg.Picture(width, height, "The loss of each step of training, by engine.")
    drawn.text(left, 28, "Loss while training, nats a character", anchor="start", size=15, bold=True)

    def x(step: float) -> float:
        return left + (width - left - right) * step / max(1, steps - 1)

    def y(loss: float) -> float:
        return top + (height - top - bottom) * (highest - loss) / (highest - lowest)

    for tick in range(lowest, highest + 1):
        drawn.line(left, y(tick), width - right, y(tick), "grid")
        drawn.text(left - 10, y(tick) + 4, str(tick), "faint", anchor="end", size=12)
    for tick in (0, steps // 2, steps - 1):
        drawn.text(x(tick), height - bottom + 20, str(tick), "faint", size=12)
    drawn.text((left + width - right) / 2, height - 8, "step", "faint", size=12)
    reach = max(1, steps // 50)
    for number, (engine, run) in enumerate(runs.items()):
        losses = run["losses"]
        points = [
            (x(k), y(statistics.mean(losses[max(0, k - reach) : k + reach + 1]))) for k in range(0, len(losses), reach)
        ]
        # Curves of engines that agree lie on each other: each later one is a smaller mark.
        for at in points:
            drawn.circle(*at, 4.5 - 1.5 * number, ENGINES[engine])
        drawn.text(width - right + 14, top + 18 * number + 4, engine, ENGINES[engine], anchor="start", size=12)
    return drawn


def parse() -> argparse.Namespace:
    def engines(given: str) -> list[str]:
        names = given.split(",")
        if unknown := [name for name in names if name not in ENGINES]:
            raise argparse.ArgumentTypeError(f"no such engine: {', '.join(unknown)}; known: {', '.join(ENGINES)}")
        return names

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--engine", type=engines, default="ferrite", metavar="NAME,...", help=", ".join(ENGINES))
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--length", type=int, default=128, help="of the text that the model sees, in characters")
    parser.add_argument("--width", type=int, default=192)
    parser.add_argument("--heads", type=int, default=6)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--rate", type=float, default=2e-3, help="the highest learning rate")
    parser.add_argument("--clip", type=float, default=1.0, help="the norm to which gradients are scaled down")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, help="of PyTorch and of Ferrite")
    parser.add_argument("--sample", type=int, default=300, metavar="N", help="characters that the model writes at the end")
    parser.add_argument("--curve", type=Path, metavar="FILE.svg", help="where the picture of the losses goes")
    parser.add_argument("--output", type=Path, metavar="FILE.json", help="where losses and times go")
    return parser.parse_args()


def main() -> int:
    arguments = parse()
    if arguments.threads:
        torch.set_num_threads(arguments.threads)
    data = Data(text(), arguments.batch, arguments.length)
    print(f"{sum(map(len, data.parts.values()))} characters, {len(data.characters)} different ones", flush=True)
    runs = {}
    for engine in arguments.engine:
        runs[engine], model = train(engine, data, arguments)
    if len(runs) > 1:
        print(compared(runs))
    if arguments.sample > 0:
        print(sample(model, data, arguments.sample, arguments.seed))
    if arguments.output:
        arguments.output.write_text(json.dumps(runs, indent=1) + "\n")
    if arguments.curve:
        arguments.curve.write_text(picture(runs).svg())
    return 0


if __name__ == "__main__":
    sys.exit(main())
