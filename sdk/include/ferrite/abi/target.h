// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The numbers of a target from which the host decides which loops become one kernel. A provider states them
// when it opens a target; cost models receive them.
#ifndef FERRITE_ABI_TARGET_H
#define FERRITE_ABI_TARGET_H

#include "ferrite/abi/base.h"

#ifdef __cplusplus
extern "C" {
#endif

// The order of dims that a target's convolutions prefer for their inputs and outputs.
#define FE_ACTIVATIONS_ANY 0u  // no preference: each buffer keeps the graph's order
#define FE_ACTIVATIONS_CHANNELS_LAST 1u

// The statements with which a target's contractions may share a kernel, apart from the maps after them.
#define FE_PRODUCTS_ANY 0u    // other contractions and reductions, row by row
#define FE_PRODUCTS_APART 1u  // nothing: each contraction has a kernel of its own
// Nothing, with two exceptions: two contractions with a softmax over the rows between them form one kernel,
// if find_softmax_products() of ferrite/analysis/softmax_products.hpp accepts it, and so do the products of a
// gradient of attention, if find_tiled_products() of ferrite/analysis/tiled_products.hpp does.
#define FE_PRODUCTS_SOFTMAX 2u

// 0 from a provider means "not stated". A measurement on the device takes precedence over a stated value; the
// host has defaults for numbers that are neither. Rates are per worker. A worker is the unit of the device
// that executes tasks: a core or a multiprocessor.
typedef struct fe_target_numbers {
  uint64_t size;
  // For which programs are divided; results depend on it, so similar devices should state the same.
  int64_t workers;
  int64_t local_bytes;  // bytes; for cost models only: a provider states it in fe_open_target_out
  int64_t near_bytes;   // bytes that several statements can touch in turn and still find in a near cache
  int64_t line_bytes;   // bytes per memory transfer
  int64_t page_bytes;   // rows at least this many bytes apart are on different pages
  int64_t pages;        // entries of the fast TLB
  // Cost factor of an access that no inner loop walks; default: the number of f32 in a line.
  int64_t uncoalesced;
  int64_t launch_ns;     // cost of one more launch, including synchronisation of the workers
  int64_t join_ns;       // time before other workers have joined a launch
  int64_t bandwidth;     // bytes per second from memory
  int64_t operations;    // scalar primitives per second
  uint32_t activations;  // FE_ACTIVATIONS_*
  uint32_t products;     // FE_PRODUCTS_*
  // Time per point of a scatter that replaces values and therefore runs in order, on one thread. State it if
  // scatters of 32 and 64 bits that add, or take the maximum or minimum, run all points in parallel. 0: they
  // run in order, too, or running in order is no slower.
  int64_t ordered_ns;
} fe_target_numbers;

#ifdef __cplusplus
}
#endif
#endif
