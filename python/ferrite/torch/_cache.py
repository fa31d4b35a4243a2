# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""AOTAutograd's cache: a process that finds a graph there neither traces nor differentiates nor compiles it.

PyTorch finds an entry by the graph that Dynamo recorded, the types of its inputs and the settings of PyTorch.
A tag adds all that decides how Ferrite compiles. _boxed.py has what an entry holds.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import hashlib
import pathlib
import threading
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import torch
import torch._functorch.config
import torch._inductor.config
import torch.compiler.config

from ferrite.torch._boxed import Boxed, can_keep
from ferrite.torch._compile import listeners
from ferrite.torch._options import Options, may_round_to_tf32, session_for

try:
    from torch._functorch._aot_autograd.aot_autograd_result import BundledOutputCodeLoadable  # noqa: F401
    from torch._functorch._aot_autograd.autograd_cache import (
        should_use_local_autograd_cache,
        should_use_remote_autograd_cache,
    )
    from torch._inductor import codecache
    from torch._functorch._aot_autograd.schemas import SerializableAOTDispatchCompiler
except ImportError:  # a PyTorch whose cache takes no graphs of others
    SerializableAOTDispatchCompiler = None

# An entry holds the compiled graphs themselves. It is written when both directions are compiled, so the
# backward graph is compiled with the forward graph: its program is ready then in any case.
_settings = {"bundled_autograd_cache": True, "force_non_lazy_backward_lowering": True}


def is_used(options: Options, device: str) -> bool:
    """Whether graphs for a device are kept. A listener wants reports of compilations, so there must be
    some; the kernels that tuning chooses are not known before it."""
    return (
        SerializableAOTDispatchCompiler is not None
        and options.tune is None
        and can_keep(options, device)
        and all(hasattr(torch._functorch.config, name) for name in _settings)
        and hasattr(torch.compiler.config, "cache_key_tag")
        and not listeners
        and (should_use_local_autograd_cache() or should_use_remote_autograd_cache())
    )


@contextlib.contextmanager
def kept(options: Options, device: str) -> Iterator[None]:
    """Within it, AOTAutograd keeps graphs that are compiled with these options in the session of a device."""
    tag = torch.compiler.config.cache_key_tag + _tag(options, device)
    with contextlib.ExitStack() as settings:
        settings.enter_context(torch.compiler.config.patch(cache_key_tag=tag))
        settings.enter_context(torch._functorch.config.patch(_settings))
        settings.enter_context(_own_key())
        yield


@contextlib.contextmanager
def _own_key() -> Iterator[None]:
    """PyTorch's key of an entry without a hash of Triton, the settings of Inductor and its code generators:
    Ferrite's graphs depend on none of them, and they take longer than all else that a process does which
    finds its graphs. (Inductor registers its code generators before it asks them for their passes; this
    imports most of Inductor.) PyTorch has no setting for this. Keys that other threads make meanwhile are
    whole."""
    thread = threading.get_ident()

    def empty_here(whole: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *args, **named: {} if threading.get_ident() == thread else whole(*args, **named)

    with contextlib.ExitStack() as stack:
        for owner, name, kind in (
            (codecache.CacheBase, "get_system", staticmethod),
            (type(torch._inductor.config), "save_config_portable", lambda method: method),
            (codecache, "init_backend_registration", lambda function: function),
        ):
            if hasattr(owner, name):
                stack.enter_context(mock.patch.object(owner, name, kind(empty_here(getattr(owner, name)))))
        yield


def keeping(compiler: Callable[..., Boxed]) -> Any:
    """A compiler of AOTAutograd whose graphs can be kept."""
    return SerializableAOTDispatchCompiler(Boxed, compiler)


def _tag(options: Options, device: str) -> str:
    session = session_for(options, device)._session
    settings = (dataclasses.astuple(options), torch.get_num_threads(), device, may_round_to_tf32())
    text = repr((session.identity(), _own_files(), settings))
    return "ferrite-" + hashlib.sha256(text.encode()).hexdigest()


@functools.cache
def _own_files() -> str:
    """A hash of this package's files."""
    package = pathlib.Path(__file__).parents[1]
    files = [*package.rglob("*.py"), *package.glob("_bridge.*")]
    digest = hashlib.sha256()
    for file in sorted(files):
        digest.update(hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()
