# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The command `ferrite` of an installed wheel: it runs the program inside the package."""

import os
import pathlib
import sys
from typing import NoReturn


def main() -> NoReturn:
    program = str(pathlib.Path(__file__).with_name("bin") / "ferrite")
    os.execv(program, [program, *sys.argv[1:]])
