// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Plugins that advise and watch: fusion policies, cost models, metric sinks. What they answer changes how a program is cut into
// kernels, never what it computes.
#ifndef FERRITE_ABI_ADVICE_H
#define FERRITE_ABI_ADVICE_H

#include "ferrite/abi/base.h"
#include "ferrite/abi/kernel.h"
#include "ferrite/abi/schedule.h"
#include "ferrite/abi/target.h"

#ifdef __cplusplus
extern "C" {
#endif

// Two statements that share a buffer, and the groups that they are in by now.
typedef struct fe_fusion_pair {
  uint64_t size;
  uint32_t first, second;  // statements in their order
  uint32_t buffer;         // FE_NONE32: a pass asked for the pair
  uint32_t flags;          // FE_FUSION_*
  int64_t bytes;           // of the buffer
  // Of decide only; empty and 0 in rank.
  fe_array first_group;   // of uint32_t: statements in their order
  fe_array second_group;  // of uint32_t
  uint32_t shared;        // loops around all statements of both, if they become one
  uint32_t reserved;
} fe_fusion_pair;
#define FE_FUSION_READS 1u    // both only read the buffer
#define FE_FUSION_CHEAPER 2u  // decide: by the costs that the host knows, the pair is to be fused

typedef struct fe_fusion_rank_args {
  uint64_t size;
  const fe_loop_api* loops;  // program and statement; its other slots are null
  fe_array pairs;            // of fe_fusion_pair, in the host's order
} fe_fusion_rank_args;
typedef struct fe_fusion_rank_out {
  uint64_t size;
  double* scores;  // [count], zeros at first
  uint64_t count;
} fe_fusion_rank_out;

typedef struct fe_fusion_decide_args {
  uint64_t size;
  const fe_loop_api* loops;
  const fe_fusion_pair* pair;
} fe_fusion_decide_args;
#define FE_FUSION_NO_OPINION 0u
#define FE_FUSION_FUSE 1u
#define FE_FUSION_REFUSE 2u
typedef struct fe_fusion_decide_out {
  uint64_t size;
  uint32_t decision;  // FE_FUSION_NO_OPINION at first
  uint32_t reserved;
} fe_fusion_decide_out;

// Asked while groups are formed. Only pairs that may legally become one are asked about, so that no answer is wrong.
typedef struct fe_fusion_policy {
  uint64_t size;
  uint32_t rev;
  uint32_t thread_model;
  void* self;
  fe_string id;
  // Once a program, before the first pair: those with higher scores are tried earlier, equal ones in the host's order.
  // Optional; FE_EUNSUPPORTED leaves the order to the next policy.
  int32_t (*rank)(void* self, fe_call*, const fe_fusion_rank_args*, fe_fusion_rank_out*);
  // FE_EUNSUPPORTED is no opinion: the next policy is asked, and behind the last one the host's costs decide.
  int32_t (*decide)(void* self, fe_call*, const fe_fusion_decide_args*, fe_fusion_decide_out*);
} fe_fusion_policy;

typedef struct fe_cost_args {
  uint64_t size;
  fe_string device;  // its kind
  fe_array kernel;   // of bytes: a fused group as kernel.h has it
  const fe_target_numbers*
      numbers;  // of the device, by which the host decides where no model knows; each is known
} fe_cost_args;
typedef struct fe_cost_out {
  uint64_t size;
  double seconds;     // of one launch; FE_EUNSUPPORTED where it is not known
  double operations;  // of scalar primitives; less than 0: not known
  int64_t bytes;      // moved; less than 0: not known
} fe_cost_out;

// How long kernels take. The first one that knows a kernel is believed; what none knows is estimated by the host.
typedef struct fe_cost_model {
  uint64_t size;
  uint32_t rev;
  uint32_t thread_model;
  void* self;
  fe_string id;
  fe_string device;  // a kind; empty = any
  int32_t (*estimate)(void* self, fe_call*, const fe_cost_args*, fe_cost_out*);
} fe_cost_model;

typedef struct fe_metric_args {
  uint64_t size;
  fe_string table;   // "kernel"
  fe_array columns;  // of fe_string
  fe_array values;   // of fe_string: row by row, a value for each column
} fe_metric_args;

// Gets the rows of the metric tables, a call for each table that a compilation has rows for.
typedef struct fe_metric_sink {
  uint64_t size;
  uint32_t rev;
  uint32_t thread_model;
  void* self;
  fe_string id;
  fe_array tables;  // of fe_string: the ones that are wanted; empty = all
  int32_t (*write)(void* self, fe_call*, const fe_metric_args*, fe_none*);
} fe_metric_sink;

#ifdef __cplusplus
}
#endif
#endif
