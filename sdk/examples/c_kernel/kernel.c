// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "kernel.h"

void running_max(const float* in, float* out, int64_t rows, int64_t columns) {
  for (int64_t row = 0; row < rows; ++row, in += columns, out += columns)
    for (int64_t k = 0; k < columns; ++k) out[k] = k > 0 && out[k - 1] > in[k] ? out[k - 1] : in[k];
}
