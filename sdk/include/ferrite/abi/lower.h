// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Lowering by definition: an op's lowering calls these host functions once, and the host records the loop
// statements.
//
// Tokens name recorded things within one lowering. A failed call returns the poison token 0. Every call that
// receives 0 returns 0 and keeps the first error, which the host reports in the end, so a lowering needs no
// error checks of its own.
#ifndef FERRITE_ABI_LOWER_H
#define FERRITE_ABI_LOWER_H

#include "ferrite/abi/base.h"
#include "ferrite/abi/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef uint32_t
    fe_buffer_token;  // operand k of the node is 1 + k; the results follow the operands; `temp` makes more
typedef uint32_t fe_index_token;  // an index expression
typedef uint32_t fe_value_token;  // a scalar in the statement's body

#define FE_VAR_PARALLEL 0u
#define FE_VAR_REDUCTION 1u
#define FE_VAR_SERIAL 2u

typedef struct fe_var {
  int64_t extent;
  uint32_t kind;  // FE_VAR_*; first parallel, then reduction, then serial variables
  uint32_t reserved;
} fe_var;

#define FE_INDEX_CONSTANT 0u
#define FE_INDEX_ADD 2u
#define FE_INDEX_MUL 3u
#define FE_INDEX_FLOORDIV 4u
#define FE_INDEX_MOD 5u
#define FE_INDEX_MIN 6u
#define FE_INDEX_MAX 7u

// The treatment of an indirect index that is out of range.
#define FE_INDIRECT_WRAP 0u  // negative values count from the end; then as FE_INDIRECT_CHECK
#define FE_INDIRECT_CLAMP 1u
#define FE_INDIRECT_CHECK 2u  // reports the index in the words of error_words.h
#define FE_INDIRECT_ASSUME 3u

#define FE_REDUCE_SUM 1u
#define FE_REDUCE_PROD 2u
#define FE_REDUCE_MAX 3u
#define FE_REDUCE_MIN 4u
#define FE_REDUCE_ANY 5u
#define FE_REDUCE_ALL 6u
#define FE_REDUCE_ARGMAX 7u  // the first index wins, NaN counts as the maximum; the result is i64
#define FE_REDUCE_ARGMIN 8u

#define FE_STORE_SET 0u
#define FE_STORE_ADD 1u
#define FE_STORE_MUL 2u
#define FE_STORE_MAX 3u
#define FE_STORE_MIN 4u

#define FE_CONTRACT_GENERIC 0u
#define FE_CONTRACT_GEMM 1u
#define FE_CONTRACT_CONV 2u

typedef struct fe_token_out {
  uint64_t size;
  uint32_t token;
  uint32_t reserved;
} fe_token_out;
typedef struct fe_temp_args {
  uint64_t size;
  fe_tensor_type type;
} fe_temp_args;
// Begins a statement. The result is the index token of the first variable; those of the others follow.
typedef struct fe_begin_args {
  uint64_t size;
  fe_array vars; /* of fe_var */
} fe_begin_args;
typedef struct fe_index_args {
  uint64_t size;
  uint32_t op;  // FE_INDEX_*
  fe_index_token a;
  fe_index_token b;  // 0 for FE_INDEX_CONSTANT
  uint32_t reserved;
  int64_t constant;  // FE_INDEX_CONSTANT only
} fe_index_args;
// mask = 0: an unmasked load, whose index must be in range. Otherwise the load happens where mask is true;
// elsewhere the result is `other`.
typedef struct fe_load_args {
  uint64_t size;
  fe_buffer_token buffer;
  fe_value_token mask;
  fe_value_token other;
  uint32_t reserved;
  fe_array index; /* of fe_index_token */
} fe_load_args;
// bits: the element's bits in the low end (f32 has 32 bits, i64 has 64, bool is 0 or 1).
typedef struct fe_constant_args {
  uint64_t size;
  uint64_t bits;
  fe_dtype dtype;
  uint16_t reserved[3];
} fe_constant_args;
// prim: FE_PRIM_*. dtype: the result type; used for cast and bitcast only. Missing operands are 0.
typedef struct fe_prim_args {
  uint64_t size;
  uint32_t prim;
  fe_value_token a, b, c;
  fe_dtype dtype;
  uint16_t reserved[3];
} fe_prim_args;
typedef struct fe_index_value_args {
  uint64_t size;
  fe_index_token index;
  fe_dtype dtype;
  uint16_t reserved;
} fe_index_value_args;
typedef struct fe_indirect_args {
  uint64_t size;
  fe_value_token value;  // an integer
  uint32_t mode;         // FE_INDIRECT_*
  int64_t extent;        // size of the dim that it indexes
} fe_indirect_args;
// Reduces `element` over the reduction variables; `index` (an i64 value) is for argmax and argmin only. The
// result is a scalar that depends on the parallel variables. accumulator: 0 = the dtype's default (f32 for
// smaller floats, otherwise the dtype itself).
typedef struct fe_reduce_args {
  uint64_t size;
  uint32_t kind;  // FE_REDUCE_*
  fe_value_token element;
  fe_value_token index;
  fe_dtype accumulator;
  uint16_t reserved;
} fe_reduce_args;
typedef struct fe_contract_args {
  uint64_t size;
  fe_value_token a, b;   // loads, or casts of loads
  uint32_t kind;         // FE_CONTRACT_*
  fe_dtype accumulator;  // 0: the dtype's default
  uint16_t reserved;
} fe_contract_args;
// A state carried over the serial variables: `init_bits` is its value before the first iteration, set_carry
// gives the next value.
typedef struct fe_carry_args {
  uint64_t size;
  uint64_t init_bits;
  fe_dtype dtype;
  uint16_t reserved[3];
} fe_carry_args;
typedef struct fe_set_carry_args {
  uint64_t size;
  fe_value_token carried;
  fe_value_token next;
} fe_set_carry_args;
typedef struct fe_store_args {
  uint64_t size;
  fe_buffer_token buffer;
  fe_value_token value;
  fe_value_token mask;  // 0: always
  uint32_t mode;        // FE_STORE_*
  fe_array index;       /* of fe_index_token */
} fe_store_args;
// An opaque kernel: a C function over contiguous buffers, called once per launch.
typedef struct fe_kernel_buffer {
  void* data;  // contiguous elements; owned by the host
  fe_tensor_type type;
} fe_kernel_buffer;
typedef struct fe_kernel_call_args {
  uint64_t size;
  fe_array buffers; /* of fe_kernel_buffer: reads, then writes */
  void* self;       // as given to `call`
} fe_kernel_call_args;
typedef int32_t (*fe_kernel_function)(void* self, fe_call*, const fe_kernel_call_args*, fe_none*);
typedef struct fe_call_args {
  uint64_t size;
  fe_kernel_function function;  // must live until the plugin is destroyed
  void* self;                   // passed to the function; may be null
  fe_array reads;               /* of fe_buffer_token */
  fe_array writes;
  fe_string name;  // for listings
} fe_call_args;

// The recorder, lent for one lowering and one thread.
typedef struct fe_lower_api {
  uint64_t size;
  uint32_t rev;
  uint32_t reserved;
  void* self;
  // Declares a temporary; gives a buffer token.
  int32_t (*temp)(void* self, fe_call*, const fe_temp_args*, fe_token_out*);
  int32_t (*begin)(void* self, fe_call*, const fe_begin_args*, fe_token_out*);
  int32_t (*end)(void* self, fe_call*, const fe_none*, fe_none*);               // ends the statement
  int32_t (*index)(void* self, fe_call*, const fe_index_args*, fe_token_out*);  // gives an index token
  // Gives a value token, as do constant, prim, index_value, reduce, contract and carry.
  int32_t (*load)(void* self, fe_call*, const fe_load_args*, fe_token_out*);
  int32_t (*constant)(void* self, fe_call*, const fe_constant_args*, fe_token_out*);
  int32_t (*prim)(void* self, fe_call*, const fe_prim_args*, fe_token_out*);
  int32_t (*index_value)(void* self, fe_call*, const fe_index_value_args*, fe_token_out*);
  int32_t (*indirect)(void* self, fe_call*, const fe_indirect_args*, fe_token_out*);  // gives an index token
  int32_t (*reduce)(void* self, fe_call*, const fe_reduce_args*, fe_token_out*);
  int32_t (*contract)(void* self, fe_call*, const fe_contract_args*, fe_token_out*);
  int32_t (*carry)(void* self, fe_call*, const fe_carry_args*, fe_token_out*);
  // Required once for each carried state.
  int32_t (*set_carry)(void* self, fe_call*, const fe_set_carry_args*, fe_none*);
  int32_t (*store)(void* self, fe_call*, const fe_store_args*, fe_none*);
  int32_t (*call)(void* self, fe_call*, const fe_call_args*, fe_none*);
} fe_lower_api;

#ifdef __cplusplus
}
#endif
#endif
