// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The flat graph: a graph, or a part of one, in the flat container (kernel.h) with content FE_FLAT_GRAPH.
//
// Values are numbered: the inputs, then the constants, then the results of the nodes in their order. Nodes stand in
// topological order. A node that reads a value comes after the one that makes it. What a fe_flat_range or a count with its
// first element takes of a pool (STRINGS, INTS, REFERENCES, ATTRIBUTES, TEXTS, DATA), nothing else takes: readers refuse a
// container whose ranges of one pool have more elements together than the pool, so that its size bounds what it describes.
// Strings are UTF-8 as far as the model's names are, without a terminator. An empty name is none.
#ifndef FERRITE_ABI_FLAT_GRAPH_H
#define FERRITE_ABI_FLAT_GRAPH_H

#include "ferrite/abi/kernel.h"

#ifdef __cplusplus
extern "C" {
#endif

// Sections besides FE_SECTION_EXPRS and FE_SECTION_INTS, which are as in a kernel.
#define FE_SECTION_GRAPH 16u       // one fe_flat_graph
#define FE_SECTION_STRINGS 17u     // bytes
#define FE_SECTION_SIZES 18u       // fe_flat_size: symbol k of EXPRS is the k-th
#define FE_SECTION_GUARDS 19u      // fe_flat_guard
#define FE_SECTION_VALUES 20u      // fe_flat_value
#define FE_SECTION_INPUTS 21u      // fe_flat_input, one for each of the first values
#define FE_SECTION_OUTPUTS 22u     // fe_flat_output
#define FE_SECTION_CONSTANTS 23u   // fe_flat_constant, one for each of the values behind the inputs
#define FE_SECTION_NODES 24u       // fe_flat_node
#define FE_SECTION_REFERENCES 25u  // uint32_t pool of value numbers
#define FE_SECTION_ATTRIBUTES 26u  // fe_flat_attribute
#define FE_SECTION_TEXTS 27u       // fe_flat_range pool: the elements of lists of strings
#define FE_SECTION_DATA 28u        // bytes: the contents of constants, each from a multiple of 8 on

// Elements [first, first + count) of a pool.
typedef struct fe_flat_range {
  uint32_t first;
  uint32_t count;
} fe_flat_range;

typedef struct fe_flat_graph {
  fe_flat_range name;        // STRINGS
  uint32_t forward_outputs;  // of a joint graph; FE_NONE32: it is none
  uint32_t reserved;
} fe_flat_graph;

typedef struct fe_flat_size {
  int64_t lo, hi;  // inclusive
  int64_t divisor;
  int64_t hint;        // -1: none
  fe_flat_range name;  // STRINGS
} fe_flat_size;

#define FE_RELATION_EQUAL 0u
#define FE_RELATION_NOT_EQUAL 1u
#define FE_RELATION_LESS 2u
#define FE_RELATION_LESS_EQUAL 3u
typedef struct fe_flat_guard {
  uint32_t lhs, rhs;  // EXPRS
  uint32_t relation;  // FE_RELATION_*
  uint32_t reserved;
  fe_flat_range by;  // STRINGS
} fe_flat_guard;

typedef struct fe_flat_value {
  fe_flat_range name;  // STRINGS
  fe_dtype dtype;
  uint16_t layout;     // FE_LAYOUT_*
  uint32_t device;     // index into the program's device table
  fe_flat_range dims;  // INTS: >= 0 a size, < 0 expression -(1 + number in EXPRS)
  // By layout: FE_LAYOUT_STRIDED one stride a dim, in elements; FE_LAYOUT_BLOCKED pairs of dim and size (0: the rest),
  // outermost first; both in INTS. Else empty.
  fe_flat_range places;
  fe_flat_range tag;   // STRINGS: FE_LAYOUT_OPAQUE
  int64_t offset;      // elements: FE_LAYOUT_STRIDED
  uint32_t alignment;  // bytes: FE_LAYOUT_STRIDED; 0 is the dtype's own
  uint32_t reserved;
} fe_flat_value;

#define FE_INPUT_DONATED 1u
typedef struct fe_flat_input {
  uint32_t mutated_by;  // the value that is in the input's memory after the run; FE_NONE32: left as it is
  uint32_t flags;       // FE_INPUT_*
} fe_flat_input;
typedef struct fe_flat_output {
  fe_flat_range name;     // STRINGS
  fe_flat_range strides;  // INTS: required, in elements; empty: any
  uint32_t value;
  uint32_t alias_of;  // an input whose memory the output is; FE_NONE32: its own
} fe_flat_output;

// The elements, contiguous: in DATA, or `bytes` from `file_offset` on of a file, or (a weight without both) not given.
typedef struct fe_flat_constant {
  uint32_t kind;  // FE_CONSTANT_*, not NONE; literals have data
  uint32_t has_data;
  fe_flat_range file;  // STRINGS: relative to the model's folder where it is no absolute path
  uint64_t file_offset;
  uint64_t bytes;
  uint64_t data;  // into DATA
} fe_flat_constant;

typedef struct fe_flat_node {
  fe_flat_range op, origin, made_by;  // STRINGS
  fe_flat_range operands;             // REFERENCES; FE_NONE32: an optional one that is absent
  fe_flat_range attributes;           // ATTRIBUTES
  uint32_t results;                   // how many of VALUES, behind those of the node before it
  uint32_t reserved;
} fe_flat_node;

typedef struct fe_flat_attribute {
  fe_flat_range name;  // STRINGS
  uint32_t kind;       // FE_ATTR_*
  uint32_t reserved;
  fe_flat_range list;  // INTS: integers, and floats as their bits; TEXTS: strings; STRINGS: a string
  uint64_t bits;       // integer, float, bool, dtype
} fe_flat_attribute;

#ifdef __cplusplus
}
#endif
#endif
