// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The words in which a launch reports an index out of range: fe_launch_args::error.
#ifndef FERRITE_ABI_ERROR_WORDS_H
#define FERRITE_ABI_ERROR_WORDS_H

#include <stdint.h>

#define FE_ERROR_WORDS 4

// {1, the index, the size of the dim, FE_BAD_INDEX_*}. If several indices are bad, any one of them is
// reported; all 0: none. Code may set the first word alone, which only reports that there is one.
typedef int64_t fe_error_words[FE_ERROR_WORDS];

#define FE_BAD_INDEX_TOLD 1u      // the other words hold the index and the size
#define FE_BAD_INDEX_WRAPS 2u     // negative indices count from the end
#define FE_BAD_INDEX_UNSIGNED 4u  // the index has an unsigned type

#endif
