# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Python's locks in a process that is forked, as `multiprocessing` does it on Linux before Python 3.14.
Those of the library are free in the child; see runtime/forks.h."""

from __future__ import annotations

import os
import sys
import threading
import weakref
from typing import Any

_longest_wait = 60.0  # seconds

_locks: weakref.WeakSet[Any] = weakref.WeakSet()
_held = threading.local()


def lock_that_survives_forks() -> threading.Lock:
    """A lock that is open in a child whatever thread of the parent held it. It guards what can be used at any
    time at which Python may switch to another thread."""
    lock = threading.Lock()
    _locks.add(lock)
    return lock


def _before_fork() -> None:
    # PyTorch's lock for compiling would stay locked in the child, and what it guards half changed. Other
    # threads run while this one waits for it, but what they do may wait for this thread.
    lock = getattr(sys.modules.get("torch._dynamo.convert_frame"), "compile_lock", None)
    _held.lock = lock if lock is not None and lock.acquire(timeout=_longest_wait) else None


def _after_fork() -> None:
    lock = getattr(_held, "lock", None)
    if lock is not None:
        _held.lock = None
        lock.release()


def _in_child() -> None:
    for lock in _locks:
        lock._at_fork_reinit()
    _after_fork()


os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_in_child)
