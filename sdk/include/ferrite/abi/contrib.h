// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What a plugin contributes: ops, lowerings, rules, passes; providers, runtimes and importers have headers of their own.
#ifndef FERRITE_ABI_CONTRIB_H
#define FERRITE_ABI_CONTRIB_H

#include "ferrite/abi/base.h"
#include "ferrite/abi/graph.h"
#include "ferrite/abi/lower.h"
#include "ferrite/abi/schedule.h"

#ifdef __cplusplus
extern "C" {
#endif

// An op instance as its callbacks see it. operand_values[k].data is set for constants.
typedef struct fe_instance {
  uint64_t size;
  fe_string op;
  fe_array operands;  // of fe_value_view; an absent operand has handle 0
  fe_array results;   // of fe_value_view; empty in infer
  fe_array attrs;     // of fe_attr, defaults filled in
  fe_string device;   // lowering: the device kind, else empty
} fe_instance;

typedef struct fe_operand_def {
  uint64_t size;
  fe_string name;
  uint32_t flags;  // FE_OPERAND_*
  uint32_t reserved;
} fe_operand_def;
#define FE_OPERAND_OPTIONAL 1u
#define FE_OPERAND_VARIADIC 2u  // the last one only

typedef struct fe_attr_def {
  uint64_t size;
  fe_attr value;  // name, kind and, unless required, the default
  uint32_t required;
  uint32_t flags;  // FE_ATTRIBUTE_*
  fe_string doc;
} fe_attr_def;
// An integer that names a dim, or a list of integers that names a set of dims: from 0 on, or from -1 on downwards from the last
// one. Rules take both spellings and any order of a set for the same.
#define FE_ATTRIBUTE_AXIS 1u            // a dim of operand 0
#define FE_ATTRIBUTE_AXIS_OF_RESULT 2u  // a dim of result 0

typedef struct fe_infer_args {
  uint64_t size;
  const fe_instance* op;
} fe_infer_args;
typedef struct fe_infer_out {
  uint64_t size;
  void* host;
  int32_t (*add)(void* host, const fe_tensor_type*);  // once for each result, in order; copied
} fe_infer_out;
typedef struct fe_decompose_args {
  uint64_t size;
  const fe_graph_api* graph;
  const fe_instance* op;
  fe_node node;  // new nodes go before it
} fe_decompose_args;
typedef struct fe_decompose_out {
  uint64_t size;
  fe_value* results;  // [capacity], the replacements of the node's results
  uint64_t capacity;
} fe_decompose_out;
typedef struct fe_lowering_args {
  uint64_t size;
  const fe_lower_api* lower;
  const fe_instance* op;
} fe_lowering_args;

#define FE_OP_COMMUTATIVE 1u
#define FE_OP_DECOMPOSE_EARLY 2u
#define FE_OP_VIEW 4u       // moves elements, computes nothing
#define FE_OP_POINTWISE 8u  // each result element from the operand elements of the same (broadcast) index
#define FE_OP_RANDOM 16u    // never folded, never merged
#define FE_OP_EFFECT 32u    // never removed

typedef struct fe_op_def {
  uint64_t size;
  uint32_t rev;
  uint32_t flags;
  void* self;
  fe_string name;
  fe_string doc;
  fe_array operands;  // of fe_operand_def
  fe_array attrs;     // of fe_attr_def
  uint32_t results;   // fixed number, 0 = as infer adds
  uint32_t reserved;
  int32_t (*infer)(void* self, fe_call*, const fe_infer_args*, fe_infer_out*);
  int32_t (*decompose)(void* self, fe_call*, const fe_decompose_args*, fe_decompose_out*);
  int32_t (*lower)(void* self, fe_call*, const fe_lowering_args*, fe_none*);
  // Sample inputs for conformance: graph texts, appended to the sink, separated by a line "---".
  int32_t (*samples)(void* self, fe_call*, const fe_none*, fe_sink*);
} fe_op_def;

// A lowering for an op that somebody else defined; FE_EUNSUPPORTED falls through to the next one.
typedef struct fe_lowering {
  uint64_t size;
  uint32_t rev;
  uint32_t reserved;
  void* self;
  fe_string op;
  fe_string device;  // empty = any
  int32_t (*lower)(void* self, fe_call*, const fe_lowering_args*, fe_none*);
} fe_lowering;

// A decomposition for an op that somebody else defined. It goes before the op's own lowering and its own decomposition, and
// behind lowerings that plugins give; FE_EUNSUPPORTED falls through, and what was built until then is undone.
typedef struct fe_decomposition {
  uint64_t size;
  uint32_t rev;
  uint32_t reserved;
  void* self;
  fe_string op;
  int32_t (*decompose)(void* self, fe_call*, const fe_decompose_args*, fe_decompose_out*);
} fe_decomposition;

// A rule is text of the rule language; callbacks that its where clause names are resolved here.
typedef struct fe_match_args {
  uint64_t size;
  const fe_graph_api* graph;
  fe_array names;   // of fe_string: captured values
  fe_array values;  // of fe_value, 0 where the alternatives that matched do not have it
  fe_node root;
  fe_array
      attrs;  // of fe_attr: captured attributes, without those that the alternatives that matched do not have
} fe_match_args;
typedef struct fe_predicate_out {
  uint64_t size;
  uint32_t accepted;
  uint32_t reserved;
} fe_predicate_out;
typedef struct fe_predicate {
  uint64_t size;
  void* self;
  fe_string name;
  int32_t (*accept)(void* self, fe_call*, const fe_match_args*, fe_predicate_out*);
} fe_predicate;
typedef struct fe_rule_set {
  uint64_t size;
  uint32_t rev;
  uint32_t reserved;
  fe_string text;  // the rule language; `file` is the name for error messages
  fe_string file;
  fe_array predicates;  // of fe_predicate
} fe_rule_set;

typedef struct fe_pass_args {
  uint64_t size;
  const fe_graph_api* graph;        // graph hooks
  const fe_loop_api* loops;         // pre_fusion
  const fe_schedule_api* schedule;  // post_fusion
} fe_pass_args;
typedef struct fe_pass_out {
  uint64_t size;
  uint32_t changed;
  uint32_t reserved;
} fe_pass_out;
typedef struct fe_pass {
  uint64_t size;
  uint32_t rev;
  uint32_t reserved;
  void* self;
  fe_string name;
  fe_string
      phase;  // pre_grad, joint_pre, joint_post, post_grad_pre, post_grad, post_grad_post, pre_lower, pre_fusion, post_fusion
  fe_array after;   // of fe_string: pass names
  fe_array before;  // of fe_string
  int32_t (*run)(void* self, fe_call*, const fe_pass_args*, fe_pass_out*);
} fe_pass;

#ifdef __cplusplus
}
#endif
#endif
