// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The flat graph: a graph, or a part of one, in the flat container (kernel.h) with content FE_FLAT_GRAPH.
//
// Values are numbered: first the inputs, then the constants, then the results of the nodes in their order.
// Nodes are in topological order: a node that reads a value comes after the node that makes it. Each element
// of a pool (STRINGS, INTS, REFERENCES, ATTRIBUTES, TEXTS, DATA) belongs to at most one fe_flat_range, or one
// pair of first element and count. Readers refuse a container whose ranges of one pool have more elements
// together than the pool, so the container's size bounds what it describes. Strings are UTF-8 if the model's
// names are, and not NUL-terminated. An empty name means no name.
#ifndef FERRITE_ABI_FLAT_GRAPH_H
#define FERRITE_ABI_FLAT_GRAPH_H

#include "ferrite/abi/graph.h"
#include "ferrite/abi/kernel.h"

#ifdef __cplusplus
extern "C" {
#endif

// Sections in addition to FE_SECTION_EXPRS and FE_SECTION_INTS, which are as in a kernel.
#define FE_SECTION_GRAPH 16u       // one fe_flat_graph
#define FE_SECTION_STRINGS 17u     // bytes
#define FE_SECTION_SIZES 18u       // fe_flat_size: the k-th describes symbol k of EXPRS
#define FE_SECTION_GUARDS 19u      // fe_flat_guard
#define FE_SECTION_VALUES 20u      // fe_flat_value
#define FE_SECTION_INPUTS 21u      // fe_flat_input: one for each of the first values
#define FE_SECTION_OUTPUTS 22u     // fe_flat_output
#define FE_SECTION_CONSTANTS 23u   // fe_flat_constant: one for each of the values after the inputs
#define FE_SECTION_NODES 24u       // fe_flat_node
#define FE_SECTION_REFERENCES 25u  // uint32_t pool of value numbers
#define FE_SECTION_ATTRIBUTES 26u  // fe_flat_attribute
#define FE_SECTION_TEXTS 27u       // fe_flat_range pool: the elements of lists of strings
#define FE_SECTION_DATA 28u        // bytes: the contents of constants, each at a multiple of 8

// Elements [first, first + count) of a pool.
typedef struct fe_flat_range {
  uint32_t first;
  uint32_t count;
} fe_flat_range;

typedef struct fe_flat_graph {
  fe_flat_range name;        // STRINGS
  uint32_t forward_outputs;  // number of forward outputs of a joint graph; FE_NONE32: not a joint graph
  uint32_t reserved;
} fe_flat_graph;

// A symbolic size.
typedef struct fe_flat_size {
  int64_t lo, hi;      // inclusive
  int64_t divisor;     // divides every value; at least 1
  int64_t hint;        // expected value, for cost models; -1: none
  fe_flat_range name;  // STRINGS
} fe_flat_size;

#define FE_RELATION_EQUAL 0u
#define FE_RELATION_NOT_EQUAL 1u
#define FE_RELATION_LESS 2u
#define FE_RELATION_LESS_EQUAL 3u
// A condition on symbolic sizes that the graph assumes.
typedef struct fe_flat_guard {
  uint32_t lhs, rhs;  // positions in EXPRS
  uint32_t relation;  // FE_RELATION_*
  uint32_t reserved;
  fe_flat_range by;  // STRINGS: the pass or plugin that added it
} fe_flat_guard;

// A value.
typedef struct fe_flat_value {
  fe_flat_range name;  // STRINGS
  fe_dtype dtype;
  uint16_t layout;     // FE_LAYOUT_*
  uint32_t device;     // index into the program's device table
  fe_flat_range dims;  // INTS: >= 0 a size, < 0 expression -(1 + number in EXPRS)
  // In INTS, by layout: for FE_LAYOUT_STRIDED one stride per dim, in elements; for FE_LAYOUT_BLOCKED pairs of
  // dim and size (0: the remainder), outermost first; else empty.
  fe_flat_range places;
  fe_flat_range tag;   // STRINGS: name of the layout, for FE_LAYOUT_OPAQUE
  int64_t offset;      // in elements, for FE_LAYOUT_STRIDED
  uint32_t alignment;  // in bytes, for FE_LAYOUT_STRIDED; 0: the dtype's own
  uint32_t reserved;
} fe_flat_value;

typedef struct fe_flat_input {
  uint32_t mutated_by;  // the value that the input's memory holds after the run; FE_NONE32: unchanged
  uint32_t flags;       // FE_INPUT_*
} fe_flat_input;
typedef struct fe_flat_output {
  fe_flat_range name;     // STRINGS
  fe_flat_range strides;  // INTS: required strides in elements; empty: any
  uint32_t value;         // its number
  uint32_t alias_of;      // the input whose memory the output shares; FE_NONE32: it has its own
} fe_flat_output;

// The contiguous elements of a constant: in DATA, or `bytes` bytes at `file_offset` of a file. A weight may
// have neither: its contents are not included.
typedef struct fe_flat_constant {
  uint32_t kind;         // FE_CONSTANT_*, not NONE; literals have data
  uint32_t has_data;     // 1: in DATA
  fe_flat_range file;    // STRINGS: relative to the model's folder unless absolute; empty: no file
  uint64_t file_offset;  // bytes from the start of the file
  uint64_t bytes;        // size of the elements
  uint64_t data;         // position in DATA
} fe_flat_constant;

// A node. made_by: the pass or rule that made it.
typedef struct fe_flat_node {
  fe_flat_range op, origin, made_by;  // STRINGS
  fe_flat_range operands;             // REFERENCES; FE_NONE32: an absent optional operand
  fe_flat_range attributes;           // ATTRIBUTES
  uint32_t results;                   // number of results; they follow those of the previous node in VALUES
  uint32_t reserved;
} fe_flat_node;

typedef struct fe_flat_attribute {
  fe_flat_range name;  // STRINGS
  uint32_t kind;       // FE_ATTR_*
  uint32_t reserved;
  // By kind: INTS for integers and for floats as bits, TEXTS for strings, STRINGS for one string.
  fe_flat_range list;
  uint64_t bits;  // integer, float, bool or dtype
} fe_flat_attribute;

#ifdef __cplusplus
}
#endif
#endif
