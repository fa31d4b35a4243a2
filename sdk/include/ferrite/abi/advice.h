// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Plugins that advise and observe: fusion policies, cost models, metric sinks. Their answers change how a
// program is divided into kernels, never its results.
#ifndef FERRITE_ABI_ADVICE_H
#define FERRITE_ABI_ADVICE_H

#include "ferrite/abi/base.h"
#include "ferrite/abi/kernel.h"
#include "ferrite/abi/schedule.h"
#include "ferrite/abi/target.h"

#ifdef __cplusplus
extern "C" {
#endif

// Two statements that share a buffer, and the groups to which they belong at this point.
typedef struct fe_fusion_pair {
  uint64_t size;
  uint32_t first, second;  // their numbers, in program order
  uint32_t buffer;         // number of the shared buffer; FE_NONE32: a pass requested the pair
  uint32_t flags;          // FE_FUSION_*
  int64_t bytes;           // size of the buffer
  // Set in decide only; empty and 0 in rank.
  fe_array first_group;   // of uint32_t: statements in program order
  fe_array second_group;  // of uint32_t
  uint32_t shared;        // number of loops around all statements of both groups after fusion
  uint32_t reserved;
} fe_fusion_pair;
#define FE_FUSION_READS 1u    // both statements only read the buffer
#define FE_FUSION_CHEAPER 2u  // decide: by the host's own costs, the pair would be fused

typedef struct fe_fusion_rank_args {
  uint64_t size;
  const fe_loop_api* loops;  // only its slots program and statement are set
  fe_array pairs;            // of fe_fusion_pair, in the host's order
} fe_fusion_rank_args;
typedef struct fe_fusion_rank_out {
  uint64_t size;
  double* scores;  // [count], owned by the host, initially 0
  uint64_t count;  // number of pairs
} fe_fusion_rank_out;

typedef struct fe_fusion_decide_args {
  uint64_t size;
  const fe_loop_api* loops;  // only its slots program and statement are set
  const fe_fusion_pair* pair;
} fe_fusion_decide_args;
#define FE_FUSION_NO_OPINION 0u
#define FE_FUSION_FUSE 1u
#define FE_FUSION_REFUSE 2u
typedef struct fe_fusion_decide_out {
  uint64_t size;
  uint32_t decision;  // FE_FUSION_NO_OPINION initially
  uint32_t reserved;
} fe_fusion_decide_out;

// Asked while groups are formed, and only about pairs that may legally fuse: every answer is correct.
typedef struct fe_fusion_policy {
  uint64_t size;
  uint32_t rev;
  uint32_t thread_model;  // FE_THREADS_*
  void* self;
  fe_string id;  // of the policy, unique
  // Called once per program, before the first decision. Pairs with higher scores are tried earlier; ties keep
  // the host's order. May be null; FE_EUNSUPPORTED leaves the order to the next policy.
  int32_t (*rank)(void* self, fe_call*, const fe_fusion_rank_args*, fe_fusion_rank_out*);
  // FE_EUNSUPPORTED means no opinion: the next policy is asked, and after the last one the host's costs
  // decide.
  int32_t (*decide)(void* self, fe_call*, const fe_fusion_decide_args*, fe_fusion_decide_out*);
} fe_fusion_policy;

typedef struct fe_cost_args {
  uint64_t size;
  fe_string device;                  // the device kind
  fe_array kernel;                   // bytes: a fused group as a flat kernel (kernel.h)
  const fe_target_numbers* numbers;  // the device's numbers that the host would use itself; all are set
} fe_cost_args;
typedef struct fe_cost_out {
  uint64_t size;
  double seconds;     // time of one launch in seconds; return FE_EUNSUPPORTED if it is unknown
  double operations;  // number of scalar primitives; negative: unknown
  int64_t bytes;      // bytes moved; negative: unknown
} fe_cost_out;

// Estimates how long kernels take. The first model that knows a kernel decides; the host estimates kernels
// that no model knows.
typedef struct fe_cost_model {
  uint64_t size;
  uint32_t rev;
  uint32_t thread_model;  // FE_THREADS_*
  void* self;
  fe_string id;      // of the model, unique
  fe_string device;  // a device kind; empty: any
  int32_t (*estimate)(void* self, fe_call*, const fe_cost_args*, fe_cost_out*);
} fe_cost_model;

typedef struct fe_metric_args {
  uint64_t size;
  fe_string table;   // "kernel"
  fe_array columns;  // of fe_string: names of the columns
  fe_array values;   // of fe_string: row by row, one value per column
} fe_metric_args;

// Receives the rows of metric tables: one call for each table for which a compilation has rows.
typedef struct fe_metric_sink {
  uint64_t size;
  uint32_t rev;
  uint32_t thread_model;  // FE_THREADS_*
  void* self;
  fe_string id;     // of the sink, unique
  fe_array tables;  // of fe_string: the tables it receives; empty: all
  int32_t (*write)(void* self, fe_call*, const fe_metric_args*, fe_none*);
} fe_metric_sink;

#ifdef __cplusplus
}
#endif
#endif
