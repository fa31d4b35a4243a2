// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The program in which a plugin with isolation = "process" runs.
#include "driver/isolate/serve.h"

int main() { return ferrite::core::isolate::serve(); }
