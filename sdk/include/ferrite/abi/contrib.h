// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Contributions of plugins: ops, lowerings, rules, passes. Providers, runtimes and importers have their own
// headers.
#ifndef FERRITE_ABI_CONTRIB_H
#define FERRITE_ABI_CONTRIB_H

#include "ferrite/abi/base.h"
#include "ferrite/abi/graph.h"
#include "ferrite/abi/lower.h"
#include "ferrite/abi/schedule.h"

#ifdef __cplusplus
extern "C" {
#endif

// An op instance as its callbacks receive it. The `data` of an operand is set if the operand is a constant.
typedef struct fe_instance {
  uint64_t size;
  fe_string op;       // the op's name
  fe_array operands;  // of fe_value_view; an absent operand has handle 0
  fe_array results;   // of fe_value_view; empty in infer
  fe_array attrs;     // of fe_attr, including defaults
  fe_string device;   // in lower: the device kind; else empty
} fe_instance;

// An operand of an op's definition.
typedef struct fe_operand_def {
  uint64_t size;
  fe_string name;
  uint32_t flags;  // FE_OPERAND_*
  uint32_t reserved;
} fe_operand_def;
#define FE_OPERAND_OPTIONAL 1u
#define FE_OPERAND_VARIADIC 2u  // the last operand only

typedef struct fe_attr_def {
  uint64_t size;
  fe_attr value;      // name, kind and, unless it is required, the default
  uint32_t required;  // 1: every node must give it
  uint32_t flags;     // FE_ATTRIBUTE_*
  fe_string doc;      // for docs; may be empty
} fe_attr_def;
// An integer that names a dim, or a list of integers that names a set of dims. 0, 1, ... count from the first
// dim; -1, -2, ... count backwards from the last one. Rules treat both spellings, and all orders of a set, as
// equal.
#define FE_ATTRIBUTE_AXIS 1u            // a dim of operand 0
#define FE_ATTRIBUTE_AXIS_OF_RESULT 2u  // a dim of result 0

typedef struct fe_infer_args {
  uint64_t size;
  const fe_instance* op;
} fe_infer_args;
typedef struct fe_infer_out {
  uint64_t size;
  void* host;                                         // the first argument of add
  int32_t (*add)(void* host, const fe_tensor_type*);  // call it once per result, in order; the type is copied
} fe_infer_out;
typedef struct fe_decompose_args {
  uint64_t size;
  const fe_graph_api* graph;
  const fe_instance* op;
  fe_node node;  // the node to replace; new nodes go before it
} fe_decompose_args;
typedef struct fe_decompose_out {
  uint64_t size;
  fe_value* results;  // [capacity], filled by the plugin: the replacements of the node's results
  uint64_t capacity;  // the number of results
} fe_decompose_out;
typedef struct fe_lowering_args {
  uint64_t size;
  const fe_lower_api* lower;
  const fe_instance* op;
} fe_lowering_args;

#define FE_OP_COMMUTATIVE 1u
#define FE_OP_DECOMPOSE_EARLY 2u
#define FE_OP_VIEW 4u  // only moves elements, computes nothing
// Each result element depends only on the operand elements with the same (broadcast) index.
#define FE_OP_POINTWISE 8u
#define FE_OP_RANDOM 16u  // never folded and never merged
#define FE_OP_EFFECT 32u  // has side effects: never removed

// The definition of an op. All strings and arrays live until destroy.
typedef struct fe_op_def {
  uint64_t size;
  uint32_t rev;
  uint32_t flags;  // FE_OP_*
  void* self;
  fe_string name;     // "acme.fma"
  fe_string doc;      // for docs; may be empty
  fe_array operands;  // of fe_operand_def
  fe_array attrs;     // of fe_attr_def
  uint32_t results;   // number of results; 0: as many as infer adds
  uint32_t reserved;
  int32_t (*infer)(void* self, fe_call*, const fe_infer_args*, fe_infer_out*);  // the shape rule; required
  int32_t (*decompose)(void* self, fe_call*, const fe_decompose_args*, fe_decompose_out*);  // may be null
  int32_t (*lower)(void* self, fe_call*, const fe_lowering_args*, fe_none*);                // may be null
  // Sample inputs for conformance tests: graph texts, appended to the sink, separated by lines "---". May be
  // null.
  int32_t (*samples)(void* self, fe_call*, const fe_none*, fe_sink*);
} fe_op_def;

// A lowering for an op that another plugin defines. If it returns FE_EUNSUPPORTED, the next one is tried.
typedef struct fe_lowering {
  uint64_t size;
  uint32_t rev;
  uint32_t reserved;
  void* self;
  fe_string op;      // the op's name
  fe_string device;  // a device kind; empty: any
  int32_t (*lower)(void* self, fe_call*, const fe_lowering_args*, fe_none*);
} fe_lowering;

// A decomposition for an op that another plugin defines. It is tried before the op's own lowering and
// decomposition, and after the lowerings that plugins provide for it. If it returns FE_EUNSUPPORTED, its
// edits are undone and the next one is tried.
typedef struct fe_decomposition {
  uint64_t size;
  uint32_t rev;
  uint32_t reserved;
  void* self;
  fe_string op;
  int32_t (*decompose)(void* self, fe_call*, const fe_decompose_args*, fe_decompose_out*);
} fe_decomposition;

// A rule is text in the rule language. The callbacks that its where clauses name are resolved here.
typedef struct fe_match_args {
  uint64_t size;
  const fe_graph_api* graph;
  fe_array names;   // of fe_string: names of captured values
  fe_array values;  // of fe_value, parallel to `names`; 0 for a name in an alternative that was not taken
  fe_node root;     // the node at which the match begins
  fe_array attrs;   // of fe_attr: captured attributes, except those in alternatives that were not taken
} fe_match_args;
typedef struct fe_predicate_out {
  uint64_t size;
  uint32_t accepted;  // 1: the condition holds
  uint32_t reserved;
} fe_predicate_out;
// A callback that a rule's where clause names.
typedef struct fe_predicate {
  uint64_t size;
  void* self;
  fe_string name;  // as the rules name it
  int32_t (*accept)(void* self, fe_call*, const fe_match_args*, fe_predicate_out*);
} fe_predicate;
typedef struct fe_rule_set {
  uint64_t size;
  uint32_t rev;
  uint32_t reserved;
  fe_string text;  // in the rule language; `file` is its name in error messages
  fe_string file;
  fe_array predicates;  // of fe_predicate
} fe_rule_set;

typedef struct fe_pass_args {
  uint64_t size;
  const fe_graph_api* graph;        // set in graph phases, else null
  const fe_loop_api* loops;         // set in pre_fusion, else null
  const fe_schedule_api* schedule;  // set in post_fusion, else null
} fe_pass_args;
typedef struct fe_pass_out {
  uint64_t size;
  uint32_t changed;  // 1: the pass changed something
  uint32_t reserved;
} fe_pass_out;
// An imperative pass.
typedef struct fe_pass {
  uint64_t size;
  uint32_t rev;
  uint32_t reserved;
  void* self;
  fe_string name;  // "acme.drop_dropout"
  // One of pre_grad, joint_pre, joint_post, post_grad_pre, post_grad, post_grad_post, pre_lower, pre_fusion,
  // post_fusion.
  fe_string phase;
  fe_array after;   // of fe_string: names of passes that run earlier
  fe_array before;  // of fe_string: names of passes that run later
  int32_t (*run)(void* self, fe_call*, const fe_pass_args*, fe_pass_out*);
} fe_pass;

#ifdef __cplusplus
}
#endif
#endif
