// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The flat container: one fused group as versioned, position-independent plain data. The same bytes serve as
// cache key, go into packages and are sent to child processes. Little-endian; every offset counts from the
// start of the container and is a multiple of 8.
//
// A kernel executes its statements in order. The first `shared` variables of every statement form one common
// outer loop nest. A buffer of kind LOCAL exists only within one iteration of that nest (its strides over the
// shared coordinates are 0).
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
#define FE_FLAT_KERNEL 1u  // fe_flat_header.content
#define FE_FLAT_GRAPH 2u
#define FE_NONE32 0xffffffffu
// Optional features of a kernel. A provider that accepts one sets its bit in fe_provider.features; for other
// providers the host rewrites the kernel to a simpler form.
#define FE_FLAT_PROLOGUES 1u  // contract operands that are computed from loads instead of being loads

typedef struct fe_flat_header {
  uint32_t magic;          // FE_FLAT_MAGIC
  uint32_t endian;         // FE_FLAT_ENDIAN as written; another value means the other byte order
  uint32_t revision;       // FE_FLAT_REVISION of the writer
  uint32_t content;        // FE_FLAT_*
  uint64_t features;       // bits that a reader must understand
  uint64_t bytes;          // of the whole container
  uint32_t section_count;  // entries of the section table
  uint32_t reserved;
} fe_flat_header;  // the section table follows

#define FE_SECTION_MUST_UNDERSTAND 0x80000000u
// An entry of the section table.
typedef struct fe_flat_section {
  uint32_t kind;    // FE_SECTION_*, with the must-understand bit
  uint32_t rev;     // FE_FLAT_REVISION of the section's elements
  uint64_t stride;  // bytes per element
  uint64_t count;   // number of elements
  uint64_t offset;  // bytes from the start of the container
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
#define FE_SECTION_OPGRAPH 32u     // non-semantic: flat graph of the original ops; not hashed
#define FE_SECTION_PROVENANCE 33u  // non-semantic: text; not hashed

typedef struct fe_flat_kernel {
  uint32_t shared;    // leading variables common to all statements
  uint32_t flags;     // 0
  uint32_t numerics;  // rounding: 0 default, 1 eager (each operation rounds to its dtype)
  uint32_t reserved;
} fe_flat_kernel;
// The values of a symbol.
typedef struct fe_flat_symbol {
  int64_t lo, hi;   // inclusive
  int64_t divisor;  // divides every value; at least 1
} fe_flat_symbol;
// An index expression.
typedef struct fe_flat_expr {
  uint32_t op;  // FE_INDEX_*; 1 = symbol
  uint32_t reserved;
  int64_t value;      // constant or symbol number
  uint32_t lhs, rhs;  // operands: smaller positions in EXPRS
} fe_flat_expr;

#define FE_BUFFER_INPUT 0u   // read only
#define FE_BUFFER_OUTPUT 1u  // written; read only after this kernel has written it
#define FE_BUFFER_CONSTANT 2u
#define FE_BUFFER_LOCAL 3u
// A buffer of the kernel.
typedef struct fe_flat_buffer {
  fe_dtype dtype;
  uint16_t kind;    // FE_BUFFER_*
  uint16_t layout;  // FE_LAYOUT_STRIDED or FE_LAYOUT_BLOCKED
  // Blocked: each stored element is a sum of this many elements, weighted with the provider's factors; 0: no
  // sums.
  uint16_t terms;
  uint32_t rank;         // logical dims
  uint32_t alignment;    // of the base pointer, in bytes
  uint32_t dims;         // position in INTS [rank]: the logical dims
  uint32_t strides;      // position in INTS [rank]: in elements; blocked: FE_NONE32
  int64_t offset;        // in elements
  uint32_t packed_rank;  // blocked: number of dims of the stored array
  uint32_t packed_dims;  // blocked: position in INTS
  // Blocked: position in INDICES [rank]: each logical coordinate as an expression of the packed coordinates.
  uint32_t unpack;
  // Blocked: symbol of packed coordinate 0; the others follow, and after them the number of the term.
  uint32_t packed_symbol;
} fe_flat_buffer;
#define FE_MOST_TERMS 64u

#define FE_STATEMENT_MAP 1u
#define FE_STATEMENT_REDUCE 2u
#define FE_STATEMENT_CONTRACT 3u
#define FE_STATEMENT_SCATTER 4u
#define FE_STATEMENT_SERIAL 5u
#define FE_STATEMENT_CALL 6u
// A statement. Each pair of fields is the first element and the count in the section of that name.
typedef struct fe_flat_statement {
  uint32_t kind;           // FE_STATEMENT_*
  uint32_t contract_kind;  // FE_CONTRACT_*
  uint32_t vars, var_count;
  uint32_t ops, op_count;  // operation numbers in a statement are relative to `ops`
  uint32_t reductions, reduction_count;
  uint32_t carries, carry_count;
  uint32_t stores, store_count;
  uint32_t contract_a,
      contract_b;  // contract: the two operands, loads unless FE_FLAT_PROLOGUES; else FE_NONE32
} fe_flat_statement;
// A loop variable.
typedef struct fe_flat_var {
  int64_t extent;   // its values are 0 to extent - 1
  uint32_t symbol;  // its position in SYMBOLS
  uint32_t kind;    // FE_VAR_*
} fe_flat_var;

// Operation codes of a body: FE_PRIM_* (below 0x100) and the following.
#define FE_OP_LOAD 0x100u  // loads buffer[index]; a = mask or FE_NONE32, b = value where the mask is false
#define FE_OP_CONSTANT 0x101u  // the constant `bits`
#define FE_OP_INDEX 0x102u     // the value of one index expression
// A = integer value; defines `symbol` as an index; bits = extent; flags = FE_INDIRECT_*.
#define FE_OP_INDIRECT 0x103u
#define FE_OP_REDUCED 0x104u  // result of reduction number `bits`
#define FE_OP_CARRIED 0x105u  // carried state number `bits`
// An operation of a statement's body.
typedef struct fe_flat_op {
  uint16_t code;                // FE_PRIM_* or FE_OP_*
  fe_dtype dtype;               // of the result
  uint32_t flags;               // FE_OP_INDIRECT only, else 0
  uint32_t a, b, c;             // operation numbers, smaller than this operation's, or FE_NONE32
  uint32_t buffer;              // FE_OP_LOAD: position in BUFFERS
  uint32_t index, index_count;  // first element and count in INDICES
  uint32_t symbol;              // FE_OP_INDIRECT: position in SYMBOLS
  uint32_t reserved;
  uint64_t bits;  // by code: the constant's bits, the extent, or a number
} fe_flat_op;
// A reduction over the reduction variables.
typedef struct fe_flat_reduction {
  uint32_t kind;         // FE_REDUCE_*
  uint32_t element;      // operation number of the reduced value
  uint32_t index;        // argmax, argmin: operation number of its i64 index; else FE_NONE32
  fe_dtype accumulator;  // the type in which it accumulates
  uint16_t reserved;
} fe_flat_reduction;
// State carried over the serial variables.
typedef struct fe_flat_carry {
  uint64_t init_bits;  // value before the first iteration
  uint32_t next;       // operation number of the next value
  fe_dtype dtype;
  uint16_t reserved;
} fe_flat_carry;
// A store. If its value or index depends on reduction variables other than through FE_OP_REDUCED, it executes
// at every point, otherwise once for each point of the parallel variables.
typedef struct fe_flat_store {
  uint32_t buffer;              // position in BUFFERS
  uint32_t value;               // operation number
  uint32_t mask;                // operation number of a bool, or FE_NONE32: always
  uint32_t mode;                // FE_STORE_*
  uint32_t index, index_count;  // first element and count in INDICES
} fe_flat_store;

#ifdef __cplusplus
}
#endif
#endif
