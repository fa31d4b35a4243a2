# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The types of the extension module; python/bridge has its source."""

from collections.abc import Sequence
from typing import Any, TypeAlias, TypedDict

from typing_extensions import CapsuleType

# A dim that is not fixed is its name; None: the rank is unknown.
_Dims: TypeAlias = tuple[int | str, ...] | None
_Port: TypeAlias = tuple[str, str, _Dims]  # name, dtype, dims
# Type code and bits of DLPack, device type, device, dims.
_InputType: TypeAlias = tuple[int, int, int, int, Sequence[int]]

class _Stats(TypedDict):
    nodes: int
    statements: int
    kernels: int
    compile_ms: float
    init_ms: float
    load_ms: float
    run_ms: float

def version() -> str: ...
def set_error_class(error_class: type[Exception], /) -> None: ...

class Tensor:
    @property
    def shape(self) -> tuple[int, ...]: ...
    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> CapsuleType: ...
    def __dlpack_device__(self) -> tuple[int, int]: ...

class Session:
    def __init__(
        self,
        *,
        manifest: str | None = None,
        plugins: Sequence[str] | None = None,
        device: str | None = None,
        threads: int = 0,
        log: str | None = None,
        profile: str | None = None,
        safe_mode: bool = False,
        tf32: bool = False,
        tune: str | None = None,
    ) -> None: ...
    def load(self, path: str, contents: bytes = ..., /) -> Model: ...
    def device(self) -> tuple[int, int]: ...
    def passes(self, phase: str, /) -> str: ...
    def identity(self) -> str: ...

class Model:
    def inputs(self) -> list[_Port]: ...
    def outputs(self) -> list[_Port]: ...
    def run(self, tensors: Sequence[Any], /) -> list[Tensor]: ...
    def compile(self, tensors: Sequence[Any], /) -> None: ...
    def compile_types(self, types: Sequence[_InputType], /) -> None: ...
    def package(self, types: Sequence[_InputType], /) -> bytes: ...
    def save(self, tensors: Sequence[Any], targets: Sequence[str], path: str, /) -> None: ...
    def ledger(self) -> str: ...
    def unsupported(self) -> str: ...
    def changed_regions(self, phase: str, outputs: Sequence[int], /) -> str: ...
    def partition(
        self,
        forward_outputs: int,
        input_kinds: bytes,
        memory_budget: float,
        saved: Sequence[str],
        recomputed: Sequence[str],
        orders: Sequence[tuple[tuple[int, ...], tuple[int, ...]]],
        donate_saved: bool,
        first_stage: str,
        /,
    ) -> tuple[Model, Model]: ...
    def joint(self, forward_outputs: int, first_stage: str, /) -> Model: ...
    def stats(self) -> _Stats: ...

class Program:
    """Of an input: the index of an argument or a tensor, the order of its dims in memory or None, type code,
    bits, the library's dtype, and whether the program changes it.
    Of an output: None, the index of an argument, or type code, bits, device type, device, dims, and shape and
    strides or None.
    """

    model: Model
    recipe: Any
    def __init__(
        self,
        model: Model,
        exchange_api: CapsuleType,
        inputs: Sequence[tuple[Any, Sequence[int] | None, int, int, Any, bool]],
        outputs: Sequence[int | tuple[int, int, int, int, Sequence[int], Sequence[int] | None] | None],
        recipe: Any = None,
    ) -> None: ...
    def __call__(self, arguments: list[Any], /) -> list[Any]: ...
