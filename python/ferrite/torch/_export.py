# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Packages of PyTorch models, which run without Python."""

from __future__ import annotations

import os
import pathlib
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from ferrite._errors import Error
from ferrite.torch._backend import decompositions
from ferrite.torch._compile import device_type_of
from ferrite.torch._options import Options, session_for


def export(
    model: torch.nn.Module,
    args: Sequence[Any],
    path: str | os.PathLike[str],
    *,
    kwargs: Mapping[str, Any] | None = None,
    targets: str | Sequence[str] = (),
    options: Mapping[str, Any] | None = None,
) -> None:
    """Compiles a model for inference on inputs of these shapes and writes a package.

    The package holds weights and machine code. `ferrite.Package(path)` opens it, as do `ferrite run` and C or
    C++ programs; none of them needs PyTorch.

    args, kwargs: example inputs; tensors among them become the package's inputs, in the order of
        torch.export. One tensor may stand for a sequence of it alone.
    path: the file to write (.fepkg).
    targets: the machines to compile for, the best first: "x86-64-v4", "sm_90a", ...; none: this machine.
    options: as for torch.compile(backend="ferrite"); nothing falls back to PyTorch here, whatever `fallback`
        says.
    Raises ferrite.Error where the model has operators that Ferrite cannot compile (FE-I50), and the errors of
    torch.export where it cannot trace the model.
    """
    args = (args,) if isinstance(args, torch.Tensor) else tuple(args)
    targets = (targets,) if isinstance(targets, str) else targets
    program = torch.export.export(model, args, dict(kwargs or {}))
    session = session_for(Options.of(options), device_type_of(program.state_dict.values()))
    leaves = torch.utils._pytree.tree_leaves((args, kwargs or {}))
    tensors = [one for one in leaves if isinstance(one, torch.Tensor)]

    def write(chosen: torch.export.ExportedProgram) -> None:
        with tempfile.TemporaryDirectory() as folder:
            archive = pathlib.Path(folder) / "model.pt2"
            torch.export.save(chosen, archive)
            try:
                session.load(archive).save(path, *tensors, targets=targets)
            except Error as error:
                # The archive is gone when somebody reads the message.
                where = error.where.replace(str(archive), type(model).__name__)
                raise Error(error.code, error.text, where, error.status) from None

    try:
        write(program)
    except Error as refused:
        if refused.status != 1:
            raise
        # PyTorch composes some operators of others that Ferrite has. The first message names what the model
        # calls.
        try:
            write(program.run_decompositions(decompositions()))
        except Error:
            raise refused from None
