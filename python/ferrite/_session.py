# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Sessions and models for numpy and other libraries with DLPack."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Sequence
from typing import Any

from ferrite import _bridge
from ferrite._errors import Error


@dataclasses.dataclass(frozen=True)
class Port:
    """An input or output as the model declares it.

    dims: a size, or the name of a dim that is not fixed ("" if it has none); None: the rank is unknown.
    """

    name: str
    dtype: str
    dims: tuple[int | str, ...] | None


@dataclasses.dataclass(frozen=True)
class Stats:
    """Figures of the program that a model compiled or ran last. Times are in milliseconds."""

    nodes: int
    statements: int
    kernels: int
    compile_ms: float
    init_ms: float
    load_ms: float
    run_ms: float


class Session:
    """An open pipeline: its plugins and devices. Any thread may use it; opening takes about 10 ms.

    manifest: a pipeline manifest (TOML); None: the default pipeline.
    plugins: more libraries, descriptors or folders of plugins to enable.
    device: "cpu", "cuda", "interpreter", ...; None: as in the manifest.
    threads: number of workers, up to 4096; 0: as in the manifest, else one per processor.
    profile: the manifest's profile.
    log: log channels, as for `ferrite --log`; process-wide.
    safe_mode: only the built-in plugins of the default pipeline, without manifest, profile and plugins.
    tf32: products and convolutions of f32 may round their operands to tf32, where a plugin can do that;
        False: as in the manifest.
    tune: kernels without measurements are measured while a program is compiled, for so many seconds at most;
        "cached" chooses by earlier measurements only, "off" by costs. None: as in the manifest, else
        "cached".
    Raises Error where a plugin or the manifest is wrong.
    """

    def __init__(
        self,
        manifest: str | os.PathLike[str] | None = None,
        *,
        plugins: Sequence[str | os.PathLike[str]] | str | os.PathLike[str] = (),
        device: str | None = None,
        threads: int = 0,
        profile: str | None = None,
        log: str | None = None,
        safe_mode: bool = False,
        tf32: bool = False,
        tune: float | str | None = None,
    ) -> None:
        if isinstance(plugins, (str, os.PathLike)):
            plugins = (plugins,)
        self._session = _bridge.Session(
            manifest=None if manifest is None else os.fspath(manifest),
            plugins=[os.fspath(plugin) for plugin in plugins],
            device=device,
            threads=threads,
            profile=profile,
            log=log,
            safe_mode=safe_mode,
            tf32=tf32,
            tune=None if tune is None else str(tune),
        )

    def load(self, path: str | os.PathLike[str], contents: bytes | None = None) -> Model:
        """Opens a model (.onnx, .aten, .pt2, .fe) or a package (.fepkg). Compiles nothing yet.

        contents: the file's bytes, if it is in memory; the extension of `path` then only names the format.
        """
        path = os.fspath(path)
        loaded = self._session.load(path) if contents is None else self._session.load(path, contents)
        return Model(self, loaded)

    @property
    def device(self) -> tuple[int, int]:
        """(device type, device number) of the first device, in DLPack's numbers."""
        return self._session.device()


class Model:
    """An open model with the programs compiled for it, one for each combination of input shapes. Any thread
    may run it."""

    def __init__(self, session: Session, model: Any) -> None:
        self.session = session
        self._model = model
        self.inputs = [Port(*port) for port in model.inputs()]
        self.outputs = [Port(*port) for port in model.outputs()]

    def run(self, *inputs: Any, **named: Any) -> list[Any]:
        """Runs on tensors, by position or by name, and gives the results as numpy arrays.

        Inputs are numpy arrays or any tensors with DLPack; where they are contiguous they are read in place.
        The first run of new shapes compiles, which takes up to seconds. Results of a dtype that numpy lacks,
        and all results where numpy is not installed, are DLPack tensors.
        """
        return [_as_numpy(result) for result in self.run_dlpack(*inputs, **named)]

    def run_dlpack(self, *inputs: Any, **named: Any) -> list[Any]:
        """Like run(), but gives DLPack tensors, which any library takes: torch.from_dlpack(result)."""
        return self._model.run(self._in_order(inputs, named))

    def compile(self, *inputs: Any, **named: Any) -> None:
        """Compiles for the shapes of these tensors and does not run."""
        self._model.compile(self._in_order(inputs, named))

    def save(
        self, path: str | os.PathLike[str], *inputs: Any, targets: Sequence[str] = (), **named: Any
    ) -> None:
        """Compiles for the shapes of these tensors and writes a package, which `Package` opens, as do C and
        C++ programs.

        targets: the machines to compile for, the best first: "x86-64-v4", "sm_90a", ...; none: the session's
            device on this machine.
        Raises Error with the codes of compiling, or where the file cannot be written.
        """
        self._model.save(self._in_order(inputs, named), list(targets), os.fspath(path))

    @property
    def stats(self) -> Stats:
        """Raises Error if nothing has been compiled yet."""
        return Stats(**self._model.stats())

    def ledger(self) -> list[dict[str, Any]]:
        """The decisions of the last program's compilation: {kind, subject, object, outcome, category, text,
        score}."""
        return json.loads(self._model.ledger())

    def _in_order(self, inputs: tuple[Any, ...], named: dict[str, Any]) -> list[Any]:
        if not named:
            return list(inputs)
        names = [port.name for port in self.inputs]
        for name in named:
            if name not in names:
                raise Error("FE-X01", f"the model has no input '{name}'; its inputs are {', '.join(names)}")
            if names.index(name) < len(inputs):
                raise Error("FE-X01", f"input '{name}' is given twice: by position and by name")
        missing = [name for name in names[len(inputs) :] if name not in named]
        if missing:
            raise Error("FE-X01", f"input '{missing[0]}' is missing")
        return [*inputs, *(named[name] for name in names[len(inputs) :])]


class Package(Model):
    """A package (.fepkg), opened in a session of its own: its programs were compiled when it was written.

    device, threads: as for `Session`. Any thread may run it.
    """

    def __init__(self, path: str | os.PathLike[str], *, device: str | None = None, threads: int = 0) -> None:
        session = Session(device=device, threads=threads)
        super().__init__(session, session._session.load(os.fspath(path)))


def _as_numpy(result: Any) -> Any:
    try:
        import numpy
    except ImportError:
        return result
    try:
        return numpy.from_dlpack(result)
    except (BufferError, RuntimeError):  # bf16 and 8-bit floats, or memory of a device
        return result
