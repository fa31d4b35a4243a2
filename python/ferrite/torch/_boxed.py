# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compiled graphs as AOTAutograd calls them: functions of one list, which they empty.

AOTAutograd's cache pickles them, and another process loads them instead of tracing and compiling. A program
is pickled as a package; the code of an FX graph whose nodes run in PyTorch as text. The cache passes graphs
by that cannot be kept.
"""

from __future__ import annotations

import copyreg
import dataclasses
import hashlib
import importlib
import operator
import pickle
import types
import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch import fx
from torch.fx.graph_module import _forward_from_src
from torch.utils._python_dispatch import _disable_current_modes

from ferrite import _bridge
from ferrite._errors import Error
from ferrite.torch._options import Options, session_for

try:
    from torch._functorch._aot_autograd.autograd_cache import BypassAOTAutogradCache, FXGraphCacheMiss
    from torch._inductor.output_code import OutputCode
except ImportError:  # a PyTorch whose cache takes no graphs of others
    OutputCode = object
    BypassAOTAutogradCache = FXGraphCacheMiss = RuntimeError

_exchange_api = torch.Tensor.__dlpack_c_exchange_api__


@dataclasses.dataclass(frozen=True)
class _Origin:
    """Where a compiled model comes from: what another process loads. types: as for compile_types()."""

    options: Options
    device: str
    types: list[tuple[Any, ...]]
    package: bytes

    def load(self) -> Compiled:
        model = session_for(self.options, self.device).load("graph.fepkg", self.package)._model
        model.compile_types(self.types)  # loads the code now, so that a package that does not fit is refused
        return Compiled(model, self)

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        # Where possible apart from the pickled text, so that the graphs of an entry share the bytes.
        package = pickle.PickleBuffer(self.package) if protocol >= 5 else self.package
        return _Origin, (self.options, self.device, self.types, package)


@dataclasses.dataclass(frozen=True)
class Compiled:
    """A compiled _bridge.Model. origin: None if it cannot be kept."""

    model: Any
    origin: _Origin | None

    def program(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> Any:
        """The model as a function of one list; arguments are those of _bridge.Program."""
        recipe = None if self.origin is None else (self.origin, inputs, outputs)
        return _bridge.Program(self.model, _exchange_api, inputs, outputs, recipe)


def can_keep(options: Options, device: str) -> bool:
    """Whether programs for a device can be packages, whose inputs and results are in the host's memory."""
    return (options.device or device) == "cpu"


def compiled(
    model: Any, input_types: Sequence[tuple[Any, ...]], options: Options, device: str, keep: bool
) -> Compiled:
    """Compiles a model for tensors of these types. device: as for session_for(). keep: for other processes,
    too. Raises Error."""
    if keep and can_keep(options, device):
        try:
            package = model.package(input_types)
            return Compiled(model, _Origin(options, device, list(input_types), package))
        except Error as error:
            if error.code != "FE-K54":  # a program that no package can hold
                raise
    model.compile_types(input_types)
    return Compiled(model, None)


def _load_program(origin: _Origin, inputs: Sequence[Any], outputs: Sequence[Any]) -> Any:
    return origin.load().program(inputs, outputs)


def _reduce_program(program: Any) -> tuple[Any, ...]:
    if program.recipe is None:
        raise BypassAOTAutogradCache("its program cannot be a package")
    return _load_program, program.recipe


copyreg.pickle(_bridge.Program, _reduce_program)


class Finished:
    """A program of which some results are made afterwards.

    constants: the positions of results that are known before. later: the position of a result, that of its
    source among all results, and the function that takes it of the source (None: it is the source). count: of
    the results; the program gives sources after them.
    """

    def __init__(
        self,
        program: Any,
        constants: Sequence[tuple[int, Any]],
        later: Sequence[tuple[int, int, Callable[[torch.Tensor], torch.Tensor] | None]],
        count: int,
    ) -> None:
        self._program = program
        self._constants = constants
        self._later = later
        self._count = count

    def __call__(self, arguments: list[Any]) -> Sequence[Any]:
        results = self._program(arguments)
        for k, constant in self._constants:
            results[k] = constant
        for k, source, take in self._later:
            results[k] = results[source] if take is None else take(results[source])
        del results[self._count :]
        return results


class Donating:
    """A program that overwrites some arguments, by position: what the forward pass kept for it alone. While
    autograd may run the backward pass again, it gets copies of them."""

    def __init__(self, program: Any, donated: Sequence[int]) -> None:
        self._program = program
        self._donated = donated

    def __call__(self, arguments: list[Any]) -> Sequence[Any]:
        if torch._C._autograd._get_current_graph_task_keep_graph():  # outside of a backward pass, too
            for k in self._donated:
                arguments[k] = arguments[k].clone()
        return self._program(arguments)


class PlainGradients:
    """A backward program. At some positions it gets gradients as autograd has them: negated ones of complex
    numbers that nobody has computed yet, and zeros without memory."""

    def __init__(self, program: Any, positions: Sequence[int]) -> None:
        self._program = program
        self._positions = positions

    def __call__(self, arguments: list[Any]) -> Sequence[Any]:
        for k in self._positions:
            one = arguments[k]
            if one.is_neg():
                arguments[k] = one.resolve_neg()
            elif one._is_zerotensor():
                arguments[k] = torch.zeros(one.shape, dtype=one.dtype, device=one.device)
        return self._program(arguments)


class SegmentCall:
    """A program as a function of tensors, for generated code."""

    def __init__(self, program: Any) -> None:
        self.__name__ = "ferrite_segment"
        self._program = program

    def __call__(self, *arguments: Any) -> Sequence[Any]:
        return self._program(list(arguments))


class Part(torch.nn.Module):
    """A compiled part of a joint graph, as a function of tensors and as a module of FX graphs.

    inputs: for each its memory order, DLPack's type and the dtype; outputs: their types, as _bridge.Program
    takes them. donated: the inputs that it overwrites. said: the warnings of its compilation.
    """

    def __init__(
        self,
        source: Compiled | _Origin,
        inputs: Sequence[tuple[Any, ...]],
        outputs: Sequence[Any],
        donated: Sequence[int],
        said: Sequence[str] = (),
    ) -> None:
        super().__init__()
        self._source = source
        self._inputs = list(inputs)
        self._donated = donated
        self._own: Any = None
        self.outputs = list(outputs)
        self.said = said

    def program(self, sources: Iterable[int], outputs: Sequence[Any]) -> Any:
        """The part as a function of one list, in which its inputs have these positions."""
        if isinstance(self._source, _Origin):
            self._source = self._source.load()
        sources = list(sources)
        inputs = [(source, *rest, False) for source, rest in zip(sources, self._inputs, strict=True)]
        program = self._source.program(inputs, outputs)
        return Donating(program, [sources[k] for k in self._donated]) if self._donated else program

    def __call__(self, *tensors: Any) -> Sequence[Any]:
        if self._own is None:
            self.open()
        return self._own(list(tensors))

    def open(self) -> None:
        self._own = self.program(range(len(self._inputs)), self.outputs)

    def __deepcopy__(self, memo: dict[int, Any]) -> Part:
        return self  # it has no state

    def __reduce__(self) -> tuple[Any, ...]:
        # AOTAutograd keeps the backward graph for compiled autograd, which rarely runs: nothing is loaded
        # before.
        origin = self._source if isinstance(self._source, _Origin) else self._source.origin
        if origin is None:
            raise BypassAOTAutogradCache("its program cannot be a package")
        return Part, (origin, self._inputs, self.outputs, self._donated, self.said)


class _Namespace:
    """The object that the code of an FX graph has as `self`."""

    def __init__(self, attributes: dict[str, Any]) -> None:
        for name, value in attributes.items():
            place: Any = self
            *folders, last = name.split(".")
            for folder in folders:
                if not hasattr(place, folder):
                    setattr(place, folder, _Namespace({}))
                place = getattr(place, folder)
            setattr(place, last, value)


class _OneList(fx.CodeGen):
    """Code of a function of one list, which it empties: each tensor is freed after its last use, even while
    the function runs. Arguments of a call are held by their caller until it returns."""

    def gen_fn_def(self, free_vars: list[str], maybe_return_annotation: str, **options: Any) -> str:
        names = [variable.split(":")[0].split("=")[0].strip() for variable in free_vars]
        unpacked = f"    {', '.join(names)}, = ferrite_arguments\n" if names else ""
        return f"def {self._func_name}(self, ferrite_arguments):\n{unpacked}    ferrite_arguments.clear()"


class Eager:
    """The code of an FX graph as a function of one list. names: of its globals; attributes: of its `self`."""

    def __init__(self, source: str, names: dict[str, Any], attributes: dict[str, Any]) -> None:
        self._source = source
        self._names = names
        self._attributes = attributes
        self._self = _Namespace(attributes)
        self._forward = _forward_from_src(source, dict(names))
        for one in attributes.values():
            if isinstance(one, Part):
                one.open()

    @staticmethod
    def of(module: fx.GraphModule) -> Eager:
        usual = module.graph._codegen
        module.graph.set_codegen(_OneList())
        try:
            code = module.graph.python_code("self")
        finally:
            module.graph.set_codegen(usual)
        nodes = [node for node in module.graph.nodes if node.op in ("get_attr", "call_module")]
        attributes = {node.target: operator.attrgetter(node.target)(module) for node in nodes}
        return Eager(code.src, code.globals, attributes)

    def __call__(self, arguments: list[Any]) -> Sequence[Any]:
        return self._forward(self._self, arguments)

    def __reduce__(self) -> tuple[Any, ...]:
        names = {
            name: _ModuleName(value.__name__) if isinstance(value, types.ModuleType) else value
            for name, value in self._names.items()
        }
        return _load_eager, (self._source, names, self._attributes)


@dataclasses.dataclass(frozen=True)
class _ModuleName:
    """Stands for a module, which cannot be pickled."""

    name: str


def _load_eager(source: str, names: dict[str, Any], attributes: dict[str, Any]) -> Eager:
    found = {
        name: importlib.import_module(value.name) if isinstance(value, _ModuleName) else value
        for name, value in names.items()
    }
    return Eager(source, found, attributes)


@dataclasses.dataclass(frozen=True)
class _Kept:
    """A compiled graph as bytes. packages: those of its programs, which check themselves."""

    text: bytes
    packages: list[bytes]
    digest: bytes

    @staticmethod
    def of(run: Any) -> _Kept:
        packages: list[Any] = []
        with _disable_current_modes():
            text = pickle.dumps(run, protocol=5, buffer_callback=packages.append)
        return _Kept(text, [package.raw().obj for package in packages], hashlib.sha256(text).digest())

    def open(self) -> Callable[[list[Any]], Sequence[Any]]:
        if hashlib.sha256(self.text).digest() != self.digest:
            raise ValueError("the entry is damaged")
        with _disable_current_modes():
            return pickle.loads(self.text, buffers=self.packages)


class Boxed(OutputCode):
    """A function of one list. said: the warnings of its compilation, which a process that loads it gives,
    too."""

    def __init__(self, run: Callable[[list[Any]], Sequence[Any]], said: Sequence[str] = ()) -> None:
        super().__init__()
        self._run: Any = run
        self._said = said
        self._kept: _Kept | None = None
        self._boxed_call = True  # of the object, not of the class: wrappers copy the object's attributes

    def __call__(self, arguments: list[Any]) -> Sequence[Any]:
        return self._run(arguments)

    def with_plain_gradients(self, positions: Sequence[int]) -> Boxed:
        """The same for gradients at these positions in any form of autograd."""
        return Boxed(PlainGradients(self._run, positions), self._said)

    def prepare_for_serialization(self) -> None:
        """AOTAutograd calls it on a copy, before it pickles that."""
        try:
            self._kept = _Kept.of(self._run)
        except Exception as error:  # whatever a graph holds, it may not be picklable
            raise BypassAOTAutogradCache(f"the graph cannot be kept: {error}") from error
        self._run = None

    def post_compile(self, example_inputs: Any, constants: Any, graph_kwargs: Any) -> None:
        """AOTAutograd calls it after loading."""
        if self._kept is None:
            return
        try:
            self._run = self._kept.open()
        except Exception as error:  # damaged, or for another machine: it is compiled anew
            raise FXGraphCacheMiss(str(error)) from error
        self._kept = None
        for text in self._said:
            warn_once(text)

    def set_triton_bundle(self, triton_bundle: Any) -> None:
        pass


_said: set[str] = set()


def warn_once(text: str) -> None:
    if text not in _said:
        _said.add(text)
        warnings.warn(text, stacklevel=2)
