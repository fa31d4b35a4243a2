# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The options of the backend, and the sessions that they ask for."""

from __future__ import annotations

import dataclasses
import difflib
import os
import pathlib
from collections.abc import Mapping
from typing import Any

import torch

from ferrite import _bridge
from ferrite._errors import Error
from ferrite._session import Session
from ferrite.torch._fork import lock_that_survives_forks

_most_threads = 4096  # as in a manifest
_fallbacks = ("warn", "error", "silent")
# Options that may be None: their types, and what the message about another type says.
_kinds: tuple[tuple[str, tuple[type, ...], str], ...] = (
    ("manifest", (str, os.PathLike), "the path of a TOML file"),
    ("plugins", (str, os.PathLike, list, tuple), "a list of paths"),
    ("device", (str,), "the name of a device of Ferrite, as 'cpu', 'cuda' or 'interpreter'"),
    ("profile", (str,), "the name of a profile in the manifest"),
    ("tune", (int, float, str), "the seconds to measure, 'cached' or 'off'"),
)
_modes = {
    "reduce-overhead": "leave it out: a call of Ferrite's programs starts all of their kernels",
    "max-autotune": "use options={'tune': 30} to measure kernels for 30 seconds",
    "max-autotune-no-cudagraphs": "use options={'tune': 30} to measure kernels for 30 seconds",
}


@dataclasses.dataclass(frozen=True)
class Options:
    """The options of `torch.compile(model, backend="ferrite", options={...})`.

    manifest: a pipeline manifest (TOML), which names plugins, passes and their settings.
    plugins: more libraries, descriptors or folders of plugins.
    device: the device of Ferrite on which programs run; None: that of the tensors ("cpu", "cuda").
    fallback: what happens to nodes that Ferrite cannot compile: they run in PyTorch, "warn" (once, the
        default) or "silent"; "error" raises ferrite.Error instead.
    fallback_random: random numbers are drawn in PyTorch, so that they are those of eager mode; otherwise they
        are pure functions of seeds that PyTorch's generator gives, and fuse like other operations.
    threads: workers of programs on the CPU; 0: as many as torch.get_num_threads().
    profile: the manifest's profile.
    tune: kernels without measurements are measured while a program is compiled, for so many seconds at most;
        "cached" chooses by earlier measurements only, "off" by costs. None: as in the manifest, else
        "cached".
    freeze: the weights of a graph that computes no gradients are constants of its program, which computes
        with them, and stores them as its kernels read them, when it is compiled. Later changes of the weights
        have no effect.
    pytorch_kernels: operators that PyTorch's own library computes faster on a device run there: gradients of
        convolutions, and attention with a gradient, on CUDA. False: Ferrite compiles them.
    activation_memory_budget: how much the forward pass keeps for the backward pass, from 0, as little as
        possible, to 1, all that is expensive to compute again. A smaller budget never keeps more bytes.
    """

    manifest: str | None = None
    plugins: tuple[str, ...] = ()
    device: str | None = None
    fallback: str = "warn"
    fallback_random: bool = False
    threads: int = 0
    profile: str | None = None
    tune: float | str | None = None
    freeze: bool = False
    pytorch_kernels: bool = True
    activation_memory_budget: float = 1.0

    @staticmethod
    def of(given: Mapping[str, Any] | None) -> Options:
        """Checks names and types. Raises Error with a suggestion."""
        names = [field.name for field in dataclasses.fields(Options)]
        values = dict(given or {})
        for name in values:
            if name in names:
                continue
            close = difflib.get_close_matches(str(name), names, n=1)
            cure = f"did you mean '{close[0]}'?" if close else f"the options are {', '.join(names)}"
            raise Error("FE-Y01", f"the backend has no option '{name}'; {cure}", "torch.compile(options=...)")
        options = Options(**values)
        for name, kinds, cure in _kinds:
            value = values.get(name)
            if value is not None and (not isinstance(value, kinds) or isinstance(value, bool)):
                raise _wrong(f"option '{name}' is {value!r}; give {cure}")
        plugins = options.plugins
        if isinstance(plugins, (str, os.PathLike)):
            plugins = (plugins,)
        if any(not isinstance(plugin, (str, os.PathLike)) for plugin in plugins):
            raise _wrong(f"option 'plugins' is {plugins!r}; give a list of paths")
        options = dataclasses.replace(
            options,
            plugins=tuple(os.fspath(plugin) for plugin in plugins),
            manifest=None if options.manifest is None else os.fspath(options.manifest),
        )
        if options.fallback not in _fallbacks:
            close = difflib.get_close_matches(str(options.fallback), _fallbacks, n=1)
            hint = f"did you mean '{close[0]}'?" if close else "it may be 'warn', 'error' or 'silent'"
            raise _wrong(f"option 'fallback' is '{options.fallback}'; {hint}")
        for name in ("fallback_random", "freeze", "pytorch_kernels"):
            if not isinstance(getattr(options, name), bool):
                raise _wrong(f"option '{name}' is {getattr(options, name)!r}; it may be True or False")
        threads = options.threads
        if isinstance(threads, bool) or not isinstance(threads, int) or not 0 <= threads <= _most_threads:
            raise _wrong(f"option 'threads' is {threads!r}; give a number from 0 to {_most_threads}")
        budget = options.activation_memory_budget
        if isinstance(budget, bool) or not isinstance(budget, (int, float)) or not 0 <= budget <= 1:
            raise _wrong(f"option 'activation_memory_budget' is {budget!r}; give a number from 0 to 1")
        return options


def _wrong(text: str) -> Error:
    return Error("FE-Y01", text, "torch.compile(options=...)")


def check_mode(mode: str | None) -> None:
    """Raises Error with a suggestion for a mode of torch.compile: modes are sets of Inductor's options."""
    if mode not in (None, "default"):
        cure = _modes.get(mode, "leave it out; Ferrite's options are given by options={...}")
        raise Error("FE-Y01", f"the backend has no mode '{mode}'; {cure}", "torch.compile(mode=...)")


def may_round_to_tf32() -> bool:
    """Whether PyTorch's settings allow products of f32 to round their operands. Dynamo compiles again where
    they change."""
    return torch.get_float32_matmul_precision() != "highest"


_sessions: dict[tuple[Any, ...], Session] = {}
_lock = lock_that_survives_forks()


def session_for(options: Options, device_type: str) -> Session:
    """The session of these options; graphs with equal options share one."""
    device = options.device or device_type
    threads = options.threads or torch.get_num_threads()
    plugins = options.plugins
    if device not in ("cpu", "interpreter") and options.manifest is None:
        plugins = (*plugins, *_plugins_of(device))
    tf32 = may_round_to_tf32()
    key = (options.manifest, plugins, device, threads, options.profile, options.tune, tf32)
    with _lock:
        if key not in _sessions:
            _sessions[key] = Session(
                options.manifest,
                plugins=plugins,
                device=device,
                threads=threads,
                profile=options.profile,
                tf32=tf32,
                tune=options.tune,
            )
        return _sessions[key]


def _plugins_of(device: str) -> list[str]:
    """The descriptor of the installed plugin for a device, which the default pipeline does not enable."""
    package = pathlib.Path(_bridge.__file__).parent
    for folder in (package / "lib", package.parent.parent / "lib"):
        descriptor = folder / "ferrite" / "plugins" / f"ferrite.{device}.plugin.toml"
        if descriptor.exists():
            return [str(descriptor)]
    return []
