// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The program that a plugin with isolation = "process" runs in.
#include "driver/isolate/serve.h"

int main() { return ferrite::core::isolate::serve(); }
