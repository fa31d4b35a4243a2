// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The graph as a plugin sees it: plain-data views for reading, and a table of host functions for editing.
#ifndef FERRITE_ABI_GRAPH_H
#define FERRITE_ABI_GRAPH_H

#include "ferrite/abi/base.h"

#ifdef __cplusplus
extern "C" {
#endif

// Handles are {index, generation}. A handle of an erased item or of another graph gives FE_ESTALE. 0 is none.
typedef uint64_t fe_node;
typedef uint64_t fe_value;

#define FE_ATTR_INT 1u
#define FE_ATTR_FLOAT 2u
#define FE_ATTR_STRING 3u
#define FE_ATTR_DTYPE 4u
#define FE_ATTR_INTS 5u
#define FE_ATTR_FLOATS 6u
#define FE_ATTR_STRINGS 7u
#define FE_ATTR_BOOL 8u

typedef struct fe_attr {
  uint64_t size;
  fe_string name;
  uint32_t kind;  // FE_ATTR_*
  uint32_t reserved;
  int64_t i;      // FE_ATTR_INT, _BOOL and _DTYPE
  double f;       // FE_ATTR_FLOAT
  fe_string s;    // FE_ATTR_STRING
  fe_array list;  // of int64_t, double or fe_string: FE_ATTR_INTS, _FLOATS and _STRINGS
} fe_attr;

#define FE_CONSTANT_NONE 0u
#define FE_CONSTANT_LITERAL 1u    // at most 1 KiB, stored by value
#define FE_CONSTANT_WEIGHT 2u     // in a mapped file, identified by file and offset
#define FE_CONSTANT_PARAMETER 3u  // mutable, never folded

typedef struct fe_value_view {
  uint64_t size;
  fe_value handle;
  fe_node producer;    // 0 for graph inputs and constants
  uint32_t result;     // its number among the producer's results
  uint32_t use_count;  // number of operands that read it, plus graph outputs
  uint32_t is_output;  // 0 or 1
  uint32_t is_input;   // 0 or 1
  uint32_t constant;   // FE_CONSTANT_*
  uint32_t reserved;
  fe_string name;  // empty if it has none
  fe_tensor_type type;
  const void* data;  // literals and readable weights: the contiguous elements; else null
  uint64_t data_bytes;
} fe_value_view;

// A node. Valid until the next edit.
typedef struct fe_node_view {
  uint64_t size;
  fe_node handle;
  fe_string op;
  fe_array operands;  // of fe_value; an absent optional operand is 0
  fe_array results;   // of fe_value
  fe_array attrs;     // of fe_attr
  fe_string origin;   // the model's own node names, separated by commas
  uint32_t flags;     // FE_OP_* bits of the op (contrib.h)
  uint32_t reserved;
} fe_node_view;

// The whole graph in topological order. Valid until the next edit.
typedef struct fe_graph_view {
  uint64_t size;
  fe_string name;
  fe_array nodes;     // of fe_node
  fe_array inputs;    // of fe_value
  fe_array outputs;   // of fe_value
  uint64_t revision;  // increases with each edit
} fe_graph_view;

typedef struct fe_node_args {
  uint64_t size;
  fe_node node;
} fe_node_args;
typedef struct fe_value_args {
  uint64_t size;
  fe_value value;
} fe_value_args;
typedef struct fe_handle_out {
  uint64_t size;
  uint64_t handle;
} fe_handle_out;

// make: inserts before `before` (0 = append). Types are inferred by the op's shape rule. `results` receives
// up to `capacity` handles.
typedef struct fe_make_args {
  uint64_t size;
  fe_string op;
  fe_array operands;  // of fe_value
  fe_array attrs;     // of fe_attr
  fe_node before;
  fe_string origin;  // empty: inherited from `like`
  fe_node like;      // the node whose provenance is inherited; 0 = none
} fe_make_args;
typedef struct fe_make_out {
  uint64_t size;
  fe_node node;
  fe_value* results;  // [capacity], owned by the caller; may be null if capacity is 0
  uint64_t capacity;
  uint64_t count;  // number of results that the node has
} fe_make_out;

typedef struct fe_literal_args {
  uint64_t size;
  fe_tensor_type type;
  const void* data;  // contiguous elements, copied
  uint64_t bytes;
} fe_literal_args;
// A weight: bytes [offset, offset + bytes) of a file that the host maps, or memory that outlives the graph
// (data != null).
typedef struct fe_weight_args {
  uint64_t size;
  fe_string name;
  fe_tensor_type type;
  fe_string file;  // empty if data is not null
  uint64_t offset;
  uint64_t bytes;
  const void* data;  // contiguous elements, not copied; null: in the file
} fe_weight_args;
typedef struct fe_input_args {
  uint64_t size;
  fe_string name;
  fe_tensor_type type;
} fe_input_args;
typedef struct fe_output_args {
  uint64_t size;
  fe_string name;
  fe_value value;
} fe_output_args;
#define FE_INPUT_DONATED 1u  // the program may overwrite the input's memory
typedef struct fe_input_memory_args {
  uint64_t size;
  fe_value input;
  fe_value mutated_by;  // the value that the input's memory holds after the run; 0: unchanged
  uint32_t flags;       // FE_INPUT_*
  uint32_t reserved;
} fe_input_memory_args;
typedef struct fe_replace_args {
  uint64_t size;
  fe_value from;
  fe_value to;
} fe_replace_args;
typedef struct fe_attr_args {
  uint64_t size;
  fe_node node;
  fe_attr attr;
} fe_attr_args;
typedef struct fe_operand_args {
  uint64_t size;
  fe_node node;
  uint32_t index;  // number of the operand
  uint32_t reserved;
  fe_value value;  // 0: makes an optional operand absent
} fe_operand_args;

typedef struct fe_users_out {
  uint64_t size;
  fe_array nodes;  // of fe_node, valid until the next edit
} fe_users_out;

// The table for passes, rules, decompositions and importers. `self` is fe_graph_api.self. Lent for one
// callback and one thread.
typedef struct fe_graph_api {
  uint64_t size;
  uint32_t rev;
  uint32_t reserved;
  void* self;
  int32_t (*view)(void* self, fe_call*, const fe_none*, fe_graph_view* out);
  int32_t (*node)(void* self, fe_call*, const fe_node_args*, fe_node_view* out);
  int32_t (*value)(void* self, fe_call*, const fe_value_args*, fe_value_view* out);
  int32_t (*make)(void* self, fe_call*, const fe_make_args*, fe_make_out* out);
  int32_t (*literal)(void* self, fe_call*, const fe_literal_args*, fe_handle_out* out);
  int32_t (*weight)(void* self, fe_call*, const fe_weight_args*, fe_handle_out* out);
  int32_t (*input)(void* self, fe_call*, const fe_input_args*, fe_handle_out* out);
  int32_t (*output)(void* self, fe_call*, const fe_output_args*, fe_none* out);
  // Graph outputs included.
  int32_t (*replace_uses)(void* self, fe_call*, const fe_replace_args*, fe_none* out);
  // FE_EINVALID if a result still has uses.
  int32_t (*erase)(void* self, fe_call*, const fe_node_args*, fe_none* out);
  int32_t (*set_operand)(void* self, fe_call*, const fe_operand_args*, fe_none* out);
  int32_t (*set_attr)(void* self, fe_call*, const fe_attr_args*, fe_none* out);
  // Evaluates a value that depends on constants only (by interpretation; results up to 64 KiB) and returns it
  // as a literal or as a weight in memory. FE_EUNSUPPORTED if it depends on an input or is too large.
  int32_t (*evaluate)(void* self, fe_call*, const fe_value_args*, fe_handle_out* out);
  // The nodes that use a value, without duplicates, in order.
  int32_t (*users)(void* self, fe_call*, const fe_value_args*, fe_users_out* out);
  // rev 2. Says how the memory of an input is used; without it the memory stays as it is.
  int32_t (*set_input_memory)(void* self, fe_call*, const fe_input_memory_args*, fe_none* out);
} fe_graph_api;

#ifdef __cplusplus
}
#endif
#endif
