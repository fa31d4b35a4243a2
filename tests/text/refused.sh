#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# refused.sh [--status N] PROGRAM ARGUMENTS...: passes where the program ends with status N, without it with
# that of bad input (3) or of what is not supported (4), and prints its message. Everything else, a crash too,
# fails.
wanted='3|4'
if [ "$1" = --status ]; then
  wanted=$2
  shift 2
fi
message=$("$@" 2>&1 >/dev/null)
status=$?
printf '%s\n' "$message"
printf '%s' "$status" | grep -qxE "$wanted"
