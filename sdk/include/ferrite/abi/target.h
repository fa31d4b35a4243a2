// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The numbers of a target by which the host decides what becomes one kernel: a provider states them when it opens a target, and a
// cost model is given them.
#ifndef FERRITE_ABI_TARGET_H
#define FERRITE_ABI_TARGET_H

#include "ferrite/abi/base.h"

#ifdef __cplusplus
extern "C" {
#endif

// Which order of dims the convolutions of a target want of what they read and write.
#define FE_ACTIVATIONS_ANY 0u  // none: each buffer stays as the graph has it
#define FE_ACTIVATIONS_CHANNELS_LAST 1u

// What contractions of a target may share loops with, beside the maps behind them.
#define FE_PRODUCTS_ANY 0u    // with others and with reductions, row by row
#define FE_PRODUCTS_APART 1u  // with nothing: each has a kernel of its own
// With nothing, too; but two of them and a softmax of the rows between them are one kernel where find_softmax_products() of
// ferrite/analysis/softmax_products.hpp says that it is one.
#define FE_PRODUCTS_SOFTMAX 2u

// Of a provider, 0 is: not stated. What was measured on the device counts for more than what is stated, and what is neither has a
// default. Rates are those of one worker: what a device has of its own that takes tasks, a core or a multiprocessor.
typedef struct fe_target_numbers {
  uint64_t size;
  int64_t
      workers;  // that programs are cut for; results depend on it, so it should be the same for like devices
  int64_t local_bytes;  // of a cost model only; a provider states it in fe_open_target_out
  int64_t near_bytes;   // that several statements may touch in turn, and find again where it is near
  int64_t line_bytes;   // that memory moves at a time
  int64_t page_bytes;
  int64_t pages;         // that are looked up quickly
  int64_t uncoalesced;   // times that an access counts which no inner loop walks; default: the f32 of a line
  int64_t launch_ns;     // that one launch more costs, workers waiting for each other included
  int64_t join_ns;       // in which one worker is alone with a launch, until others have joined
  int64_t bandwidth;     // bytes a second from memory
  int64_t operations;    // scalar primitives a second
  uint32_t activations;  // FE_ACTIVATIONS_*
  uint32_t products;     // FE_PRODUCTS_*
  // Of a point of a scatter that replaces, in the order of the points, by one thread. Stated where scatters that add, or take the largest
  // or smallest, of 32 and 64 bits, run all points at once; 0: they run in order, too, or in order is as fast.
  int64_t ordered_ns;
} fe_target_numbers;

#ifdef __cplusplus
}
#endif
#endif
