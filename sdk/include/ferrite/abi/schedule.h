// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Read-only views of the loop program and the schedule for the fusion hooks, and the edits that are legal
// there.
#ifndef FERRITE_ABI_SCHEDULE_H
#define FERRITE_ABI_SCHEDULE_H

#include "ferrite/abi/base.h"

#ifdef __cplusplus
extern "C" {
#endif

// The strings and arrays of views are valid until the next edit or the end of the pass.
typedef struct fe_statement_view {
  uint64_t size;
  uint32_t id;        // the statement's number
  uint32_t kind;      // FE_STATEMENT_*
  fe_array extents;   // of int64_t, parallel variables first
  uint32_t parallel;  // the number of parallel variables
  uint32_t group;     // number of the fused group; FE_NONE32 before fusion
  fe_array reads;     // of uint32_t: numbers of buffers
  fe_array writes;    // of uint32_t: numbers of buffers
  fe_string origin;   // names of the model's nodes
  fe_string text;     // the statement's text form
} fe_statement_view;
typedef struct fe_program_view {
  uint64_t size;
  uint32_t statement_count;
  uint32_t buffer_count;
  uint32_t group_count;  // 0 before fusion
  uint32_t reserved;
} fe_program_view;
typedef struct fe_statement_args {
  uint64_t size;
  uint32_t statement;  // its number
  uint32_t reserved;
} fe_statement_args;
// A pair of statements, by number.
typedef struct fe_pair_args {
  uint64_t size;
  uint32_t a, b;
} fe_pair_args;
typedef struct fe_group_args {
  uint64_t size;
  uint32_t group;
  uint32_t at; /* first statement of the new group */
} fe_group_args;

// For passes of pre_fusion. Lent for one callback.
typedef struct fe_loop_api {
  uint64_t size;
  uint32_t rev;
  uint32_t reserved;
  void* self;
  int32_t (*program)(void* self, fe_call*, const fe_none*, fe_program_view*);
  int32_t (*statement)(void* self, fe_call*, const fe_statement_args*, fe_statement_view*);
  // The pair never shares a kernel.
  int32_t (*forbid_fusion)(void* self, fe_call*, const fe_pair_args*, fe_none*);
  // Fuses the pair before any other pair is considered, if that is legal; otherwise the ledger records the
  // reason.
  int32_t (*force_fusion)(void* self, fe_call*, const fe_pair_args*, fe_none*);
} fe_loop_api;

// For passes of post_fusion. Lent for one callback.
typedef struct fe_schedule_api {
  uint64_t size;
  uint32_t rev;
  uint32_t reserved;
  void* self;
  int32_t (*program)(void* self, fe_call*, const fe_none*, fe_program_view*);
  int32_t (*statement)(void* self, fe_call*, const fe_statement_args*, fe_statement_view*);
  // Splits a group in two before the given statement.
  int32_t (*split_group)(void* self, fe_call*, const fe_group_args*, fe_none*);
} fe_schedule_api;

#ifdef __cplusplus
}
#endif
#endif
