# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Ferrite, a tensor compiler.

Without PyTorch, open a session, load a model and run it on numpy arrays or other DLPack tensors::

    import ferrite, numpy as np
    session = ferrite.Session()
    model = session.load("model.onnx")
    (probabilities,) = model.run(np.zeros((1, 3, 224, 224), np.float32))

With PyTorch, `torch.compile(model, backend="ferrite")` is all; see `ferrite.torch`.
"""

from ferrite._errors import Error
from ferrite._session import Model, Package, Port, Session, Stats

__all__ = ["Error", "Model", "Package", "Port", "Session", "Stats", "__version__"]


def __getattr__(name: str) -> str:
    if name == "__version__":
        from ferrite import _bridge

        return _bridge.version()
    raise AttributeError(f"module 'ferrite' has no attribute '{name}'")
