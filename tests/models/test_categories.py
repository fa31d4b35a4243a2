#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Why pairs were not fused is recognised in real models: each refusal has a category that the documentation lists, none `unknown`.

Usage: test_categories.py [--ferrite FILE] [--models DIRECTORY] [--output FILE] [ROW...]
Without rows, those of bench/models/rows.py, and of the exported ones those that are there; then two layers each of BERT, of GPT-2
and of ResNet as text, which are always there. --output gets the counts.
"""

import argparse
import collections
import json
import re
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "bench"), str(ROOT / "bench/models")]

import figures  # noqa: E402
import rows as table  # noqa: E402
import scale  # noqa: E402

TIMEOUT_SECONDS = 55
GPT = """ferrite graph 0
graph @gpt(%tokens: i64[1,32], %table: f32[500,64], %places: f32[32,64], {parameters}) -> (%logits "logits") {{
  %embedded = gather(%table, %tokens) {{axis = 0}}
  %h0 = add(%embedded, %places)
  %half = literal f32[] {{0.25}}
  %hidden = literal f32[] {{-10000}}
  %row = iota() {{shape = [32, 32], dtype = i64, axis = 0}}
  %column = iota() {{shape = [32, 32], dtype = i64, axis = 1}}
  %seen = ge(%row, %column)
{layers}
  %transposed = transpose(%table) {{perm = [1, 0]}}
  %logits = matmul(%h{last}, %transposed)
}}
"""
GPT_LAYER = """  %n{k} = layer_norm(%h{k}, %s{k}, %b{k})
  %qkv{k} = matmul(%n{k}, %w{k})
  %all{k} = add(%qkv{k}, %c{k})
  %split{k} = reshape(%all{k}) {{shape = [1, 32, 3, 4, 16]}}
  %q5{k} = slice(%split{k}) {{starts = [0,0,0,0,0], sizes = [1,32,1,4,16], strides = [1,1,1,1,1]}}
  %k5{k} = slice(%split{k}) {{starts = [0,0,1,0,0], sizes = [1,32,1,4,16], strides = [1,1,1,1,1]}}
  %v5{k} = slice(%split{k}) {{starts = [0,0,2,0,0], sizes = [1,32,1,4,16], strides = [1,1,1,1,1]}}
  %q4{k} = reshape(%q5{k}) {{shape = [1, 32, 4, 16]}}
  %k4{k} = reshape(%k5{k}) {{shape = [1, 32, 4, 16]}}
  %v4{k} = reshape(%v5{k}) {{shape = [1, 32, 4, 16]}}
  %q{k} = transpose(%q4{k}) {{perm = [0, 2, 1, 3]}}
  %kt{k} = transpose(%k4{k}) {{perm = [0, 2, 3, 1]}}
  %v{k} = transpose(%v4{k}) {{perm = [0, 2, 1, 3]}}
  %scores{k} = matmul(%q{k}, %kt{k})
  %scaled{k} = mul(%scores{k}, %half)
  %masked{k} = where(%seen, %scaled{k}, %hidden)
  %soft{k} = softmax(%masked{k}) {{axis = 3}}
  %values{k} = matmul(%soft{k}, %v{k})
  %back{k} = transpose(%values{k}) {{perm = [0, 2, 1, 3]}}
  %merged{k} = reshape(%back{k}) {{shape = [1, 32, 64]}}
  %out{k} = matmul(%merged{k}, %o{k})
  %mid{k} = add(%out{k}, %h{k})
  %m{k} = layer_norm(%mid{k}, %s{k}, %b{k})
  %wide{k} = matmul(%m{k}, %u{k})
  %act{k} = gelu(%wide{k}) {{approximate = "tanh"}}
  %down{k} = matmul(%act{k}, %d{k})
  %h{next} = add(%down{k}, %mid{k})
"""
RESNET = """ferrite graph 0
graph @resnet(%image: f32[1,3,32,32], %stem: f32[16,3,7,7], %head: f32[16,10], {parameters}) -> (%logits "logits") {{
  %first = conv(%image, %stem) {{strides = [2,2], pads_low = [3,3], pads_high = [3,3]}}
  %rectified = relu(%first)
  %h0 = max_pool(%rectified) {{kernel = [3,3], strides = [2,2], pads_low = [1,1], pads_high = [1,1]}}
{layers}
  %mean = reduce_mean(%h{last}) {{axes = [2, 3], keepdims = false}}
  %logits = matmul(%mean, %head)
}}
"""
RESNET_LAYER = """  %a{k} = conv(%h{k}, %w{k})
  %an{k} = batch_norm(%a{k}, %s{k}, %b{k}, %m{k}, %v{k}) {{epsilon = 0.00001}}
  %ar{k} = relu(%an{k})
  %c{k} = conv(%ar{k}, %x{k}) {{pads_low = [1,1], pads_high = [1,1]}}
  %cr{k} = relu(%c{k})
  %d{k} = conv(%cr{k}, %w{k})
  %sum{k} = add(%d{k}, %h{k})
  %h{next} = relu(%sum{k})
"""


def stacked(model: str, layer: str, parameters: list[str]) -> str:
    count = 2
    each = [f"%{name}{k}: f32[{dims}]" for k in range(count) for name, dims in (p.split(":") for p in parameters)]
    layers = "".join(layer.format(k=k, next=k + 1) for k in range(count))
    return model.format(parameters=", ".join(each), layers=layers, last=count)


def texts() -> dict[str, str]:
    gpt = ["s:64", "b:64", "w:64,192", "c:192", "o:64,64", "u:64,256", "d:256,64"]
    resnet = ["w:16,16,1,1", "s:16", "b:16", "m:16", "v:16", "x:16,16,3,3"]
    return {"bert": scale.layers_text(2), "gpt": stacked(GPT, GPT_LAYER, gpt), "resnet": stacked(RESNET, RESNET_LAYER, resnet)}


def documented() -> set[str]:
    text = (ROOT / "docs/seeing.md").read_text()
    return set(re.findall(r"(?m)^\| `([^`]+)`", text[text.index("## Why a pair was refused") :]))


def refusals(ferrite: Path, model: Path, options: list[str]) -> list[dict]:
    return [r for r in table.explain(ferrite, model, options, TIMEOUT_SECONDS) if r["kind"] == "fusion" and r["outcome"] == "refused"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ferrite", type=Path, default=ROOT / "build/release/bin/ferrite")
    parser.add_argument("--models", type=Path, default=table.MODELS)
    parser.add_argument("--output", type=Path, help="gets how often each category was, by model")
    parser.add_argument("rows", nargs="*", metavar="ROW")
    arguments = parser.parse_args()
    known, failed = documented() - {"unknown"}, False
    counts: dict[str, dict[str, int]] = {}

    def check(name: str, found: list[dict]) -> None:
        nonlocal failed
        counts[name] = dict(sorted(collections.Counter(record["category"] for record in found).items()))
        print(f"{name}: {counts[name]}", flush=True)
        for record in found:
            if record["category"] not in known:
                failed = True
                print(f"{name}: {record}", file=sys.stderr)

    with tempfile.TemporaryDirectory(prefix="ferrite-categories-") as scratch:
        for row in table.select(arguments.rows):
            path = row.path(arguments.models)
            if not arguments.rows and (said := row.left_out(arguments.models)):
                print(said, flush=True)
            else:
                check(row.name, refusals(arguments.ferrite, path, table.write_inputs(row.inputs(), Path(scratch))))
        for name, text in texts().items():
            model = Path(scratch) / f"{name}.fe"
            model.write_text(text)
            check(name, refusals(arguments.ferrite, model, []))
    if arguments.output:
        arguments.output.write_text(json.dumps({**figures.origin("tests/models/test_categories.py"), "refused": counts}, indent=1) + "\n")
    seen = any(counts.values())
    if not seen:
        print("no refusal was seen at all", file=sys.stderr)
    return 1 if failed or not seen else 0


if __name__ == "__main__":
    sys.exit(main())
