// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The flat container: one fused group as versioned, position-independent plain data. The same bytes are a cache key's input,
// go into a package and to a child process. Little-endian; every offset is from the start of the container and a multiple of 8.
//
// A kernel computes its statements in order. The first `shared` variables of every statement are the same outer loop nest;
// a buffer of kind LOCAL lives only inside one iteration of it (its strides over the shared coordinates are 0).
#ifndef FERRITE_ABI_KERNEL_H
#define FERRITE_ABI_KERNEL_H

#include "ferrite/abi/base.h"
#include "ferrite/abi/lower.h"

#ifdef __cplusplus
extern "C" {
#endif

#define FE_FLAT_MAGIC 0x4b454546u  // "FEEK"
#define FE_FLAT_ENDIAN 0x01020304u
#define FE_FLAT_REVISION 1u
#define FE_FLAT_KERNEL 1u  // content
#define FE_FLAT_GRAPH 2u
#define FE_NONE32 0xffffffffu
// Features of a kernel: what a provider has to take beyond the rest (fe_provider.features). Without the bit the host gives
// a provider a simpler form.
#define FE_FLAT_PROLOGUES 1u  // operands of contracts that are not loads but computed from loads

typedef struct fe_flat_header {
  uint32_t magic;
  uint32_t endian;
  uint32_t revision;
  uint32_t content;   // FE_FLAT_*
  uint64_t features;  // bits that a reader must understand
  uint64_t bytes;     // of the whole container
  uint32_t section_count;
  uint32_t reserved;
} fe_flat_header;  // the section table follows

#define FE_SECTION_MUST_UNDERSTAND 0x80000000u
typedef struct fe_flat_section {
  uint32_t kind;  // FE_SECTION_*, with the must-understand bit
  uint32_t rev;
  uint64_t stride;
  uint64_t count;
  uint64_t offset;
} fe_flat_section;

#define FE_SECTION_KERNEL 1u       // one fe_flat_kernel
#define FE_SECTION_SYMBOLS 2u      // fe_flat_symbol: variables of all statements, then indirect symbols
#define FE_SECTION_EXPRS 3u        // fe_flat_expr, operands before users
#define FE_SECTION_BUFFERS 4u      // fe_flat_buffer
#define FE_SECTION_INTS 5u         // int64_t pool: dims, strides, packed dims
#define FE_SECTION_STATEMENTS 6u   // fe_flat_statement
#define FE_SECTION_VARS 7u         // fe_flat_var
#define FE_SECTION_OPS 8u          // fe_flat_op
#define FE_SECTION_INDICES 9u      // uint32_t pool of expression numbers
#define FE_SECTION_REDUCTIONS 10u  // fe_flat_reduction
#define FE_SECTION_CARRIES 11u     // fe_flat_carry
#define FE_SECTION_STORES 12u      // fe_flat_store
#define FE_SECTION_OPGRAPH 32u     // non-semantic: flat graph of the original ops, not hashed
#define FE_SECTION_PROVENANCE 33u  // non-semantic: text, not hashed

typedef struct fe_flat_kernel {
  uint32_t shared;  // leading variables common to all statements
  uint32_t flags;
  uint32_t numerics;  // 0 default, 1 eager
  uint32_t reserved;
} fe_flat_kernel;
typedef struct fe_flat_symbol {
  int64_t lo, hi;  // inclusive
  int64_t divisor;
} fe_flat_symbol;
typedef struct fe_flat_expr {
  uint32_t op;  // FE_INDEX_*; 1 = symbol
  uint32_t reserved;
  int64_t value;  // constant, or symbol number
  uint32_t lhs, rhs;
} fe_flat_expr;

#define FE_BUFFER_INPUT 0u   // read only
#define FE_BUFFER_OUTPUT 1u  // written; may be read after it is written by this kernel
#define FE_BUFFER_CONSTANT 2u
#define FE_BUFFER_LOCAL 3u
typedef struct fe_flat_buffer {
  fe_dtype dtype;
  uint16_t kind;    // FE_BUFFER_*
  uint16_t layout;  // FE_LAYOUT_STRIDED or FE_LAYOUT_BLOCKED
  uint16_t
      terms;  // blocked: what is stored are sums of so many elements, with the provider's factors; 0: none
  uint32_t rank;
  uint32_t alignment;    // bytes
  uint32_t dims;         // into INTS [rank], logical
  uint32_t strides;      // into INTS [rank], elements; blocked: FE_NONE32
  int64_t offset;        // elements
  uint32_t packed_rank;  // blocked: dims of the stored array
  uint32_t packed_dims;  // into INTS
  uint32_t
      unpack;  // into INDICES [rank]: logical coordinate as an expression of the packed coordinates, whose
  uint32_t packed_symbol;  // symbols are packed_symbol + k, with terms the one behind them is a term's number
} fe_flat_buffer;
#define FE_MOST_TERMS 64u

#define FE_STATEMENT_MAP 1u
#define FE_STATEMENT_REDUCE 2u
#define FE_STATEMENT_CONTRACT 3u
#define FE_STATEMENT_SCATTER 4u
#define FE_STATEMENT_SERIAL 5u
#define FE_STATEMENT_CALL 6u
typedef struct fe_flat_statement {
  uint32_t kind;           // FE_STATEMENT_*
  uint32_t contract_kind;  // FE_CONTRACT_*
  uint32_t vars, var_count;
  uint32_t ops, op_count;  // operation numbers below are relative to `ops`
  uint32_t reductions, reduction_count;
  uint32_t carries, carry_count;
  uint32_t stores, store_count;
  uint32_t contract_a,
      contract_b;  // the operands, FE_NONE32 unless a contract: loads, else FE_FLAT_PROLOGUES
} fe_flat_statement;
typedef struct fe_flat_var {
  int64_t extent;
  uint32_t symbol;
  uint32_t kind;  // FE_VAR_*
} fe_flat_var;

// Operation codes of a body: FE_PRIM_* (below 0x100) and these.
#define FE_OP_LOAD 0x100u      // buffer, index; a = mask or none, b = other
#define FE_OP_CONSTANT 0x101u  // bits
#define FE_OP_INDEX 0x102u     // the value of one index expression
#define FE_OP_INDIRECT 0x103u  // a = value; binds `symbol`; bits = extent; flags = FE_INDIRECT_*
#define FE_OP_REDUCED 0x104u   // result of reduction number `bits`
#define FE_OP_CARRIED 0x105u   // state number `bits`
typedef struct fe_flat_op {
  uint16_t code;
  fe_dtype dtype;  // of the result
  uint32_t flags;
  uint32_t a, b, c;  // operation numbers, smaller than this one's, or FE_NONE32
  uint32_t buffer;
  uint32_t index, index_count;  // into INDICES
  uint32_t symbol;
  uint32_t reserved;
  uint64_t bits;
} fe_flat_op;
typedef struct fe_flat_reduction {
  uint32_t kind;  // FE_REDUCE_*
  uint32_t element;
  uint32_t index;  // argmax, argmin
  fe_dtype accumulator;
  uint16_t reserved;
} fe_flat_reduction;
typedef struct fe_flat_carry {
  uint64_t init_bits;
  uint32_t next;
  fe_dtype dtype;
  uint16_t reserved;
} fe_flat_carry;
// A store whose value or index depends on reduction variables without passing through FE_OP_REDUCED happens at every point,
// otherwise once for each point of the parallel variables.
typedef struct fe_flat_store {
  uint32_t buffer;
  uint32_t value;
  uint32_t mask;
  uint32_t mode;                // FE_STORE_*
  uint32_t index, index_count;  // into INDICES
} fe_flat_store;

#ifdef __cplusplus
}
#endif
#endif
