# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A part of PyTorch's operator samples; operators.py runs all of them."""

import sys

import operators

sys.argv = [sys.argv[0], "--part", "3/16", "--dtypes", "float32,int64,bool", *sys.argv[1:]]
sys.exit(operators.main())
