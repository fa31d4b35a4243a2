#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# refused.sh PROGRAM ARGUMENTS...: passes where the program ends with the status of bad input (3) or of what is
# not supported (4), and prints its message. Everything else, a crash too, fails.
message=$("$@" 2>&1 >/dev/null)
status=$?
printf '%s\n' "$message"
[ $status -eq 3 ] || [ $status -eq 4 ]
