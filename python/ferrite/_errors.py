# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The error of all calls of Ferrite."""

from ferrite import _bridge


class Error(RuntimeError):
    """An error: the fault, its place, and what to do about it.

    code: "FE-I50"; docs/errors.md lists all codes.
    text: what is wrong, and what to do about it.
    where: file:line:col, a node or a plugin; may be empty.
    status: 1 unsupported, 2 invalid input, 3 a defect of Ferrite or a plugin, 4 memory, 5 device.
    """

    def __init__(self, code: str, text: str, where: str = "", status: int = 2) -> None:
        super().__init__(f"{code} {where}: {text}" if where else f"{code}: {text}")
        self.code = code
        self.text = text
        self.where = where
        self.status = status

    def __reduce__(self):
        return (Error, (self.code, self.text, self.where, self.status))


_bridge.set_error_class(Error)
