# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs a file of tests in the environment with PyTorch. Without one: says so, and ends with status 77."""

import os
import pathlib
import sys

here = pathlib.Path(__file__).parent
python = os.environ["FERRITE_TORCH_PYTHON"]
if not os.path.exists(python):
    print(f"skipped: there is no PyTorch at {python}; './dev setup torch' installs it")
    sys.exit(77)
os.execv(python, [python, str(here / sys.argv[1]), *sys.argv[2:]])
