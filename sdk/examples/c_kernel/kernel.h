// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A function of a C library that is independent of Ferrite.
#ifndef ACME_KERNEL_H
#define ACME_KERNEL_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// out[r][k] = the maximum of in[r][0] to in[r][k].
void running_max(const float* in, float* out, int64_t rows, int64_t columns);

#ifdef __cplusplus
}
#endif
#endif
