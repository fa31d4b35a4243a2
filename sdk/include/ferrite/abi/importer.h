// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// An importer converts a model file to a graph. Import handlers of other plugins read the ops that the
// importer does not know.
#ifndef FERRITE_ABI_IMPORTER_H
#define FERRITE_ABI_IMPORTER_H

#include "ferrite/abi/base.h"
#include "ferrite/abi/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct fe_model_open_args {
  uint64_t size;
  fe_string path;  // of the file; relative names in it are resolved against its folder
  fe_array bytes;  // the contents of the file, mapped by the host until model_close
} fe_model_open_args;
typedef struct fe_model_open_out {
  uint64_t size;
  void* model;  // the importer's own; freed by model_close
} fe_model_open_out;
typedef struct fe_model_args {
  uint64_t size;
  void* model;
} fe_model_args;
// An input or output of the model. A dim that is not fixed is -1 and has a name ("" = anonymous).
typedef struct fe_port {
  uint64_t size;
  fe_string name;
  fe_dtype dtype;
  uint16_t reserved;
  uint32_t rank;               // FE_NONE32: unknown
  const int64_t* dims;         // [rank]; -1: not fixed
  const fe_string* dim_names;  // [rank]
} fe_port;
typedef struct fe_signature_out {
  uint64_t size;
  fe_array inputs;   // of fe_port, valid until model_close
  fe_array outputs;  // of fe_port
} fe_signature_out;

// A source op is "<format>:<op>": the name of an op in models of a format, with "::" between its parts:
// "onnx:com.acme::FusedRope"; "onnx:MatMul" for the format's own domain; "torch:acme::rope".

typedef struct fe_named_value {
  uint64_t size;
  fe_string name;
  fe_value value;
} fe_named_value;
// A node of a model, of any format. Valid until the call returns.
typedef struct fe_import_node {
  uint64_t size;
  fe_string source;   // the source op
  int64_t version;    // version of the op's operator set; 0 if the format has none
  fe_string name;     // becomes the origin of the nodes made for it
  fe_string place;    // "node 'rope' (com.acme.FusedRope, opset 1)": error texts begin with it
  fe_array operands;  // of fe_value; 0: absent
  fe_array attrs;     // of fe_attr, as in the model
  fe_array tensors;   // of fe_named_value: tensor attributes, as constants of the graph
  // An array of fe_dtype, indexed by the format's own numbers of element types; 0: not supported.
  fe_array element_types;
  fe_array results;  // of fe_string: the model's names of the results; "" if nothing reads the result
} fe_import_node;
typedef struct fe_import_args {
  uint64_t size;
  const fe_graph_api* graph;
  const fe_import_node* node;
} fe_import_args;
typedef struct fe_import_out {
  uint64_t size;
  // [capacity], owned by the caller, all 0 before the call; set one for each result that is read.
  fe_value* results;
  uint64_t capacity;
} fe_import_out;
// Reads an op in models of one format, for versions `first` to `last` of its operator set. It makes the nodes
// that replace the model's node, and adds no inputs or outputs. FE_EUNSUPPORTED with code FE-P20 declines:
// its edits are undone, and the next reader is asked. A handler must refuse a node of which it ignores an
// attribute or an input (FE-I44).
typedef struct fe_import_handler {
  uint64_t size;
  uint32_t rev;
  uint32_t reserved;
  void* self;
  fe_string source;  // the source op
  int64_t first;
  int64_t last;  // INT64_MAX: all later versions, too
  int32_t (*import_node)(void* self, fe_call*, const fe_import_args*, fe_import_out*);
} fe_import_handler;

#define FE_READER_NONE 0u
#define FE_READER_HANDLER 1u  // an import handler
#define FE_READER_ALIAS 2u    // an alias in a descriptor
#define FE_READER_OP 3u  // an op with the matching name: "com.acme.FusedRope" for "onnx:com.acme::FusedRope"
typedef struct fe_reader_args {
  uint64_t size;
  fe_string source;
  int64_t version;  // version of the op's operator set
  fe_array known;   // of fe_string: source ops that the importer reads itself, for suggestions
} fe_reader_args;
// Its strings are valid until the next call.
typedef struct fe_reader_out {
  uint64_t size;
  uint32_t kind;  // FE_READER_* of the first reader that is asked
  uint32_t reserved;
  fe_string plugin;  // id of that reader's plugin
  fe_string
      versions;  // if `kind` is none: the versions of the op's handlers, "1 to 3, 5"; empty if it has none
  fe_string suggestion;  // if `kind` is none: a source op with a similar name, or empty
} fe_reader_out;
// The ops that plugins read. An importer asks for those that it does not know. The order of readers for a
// node: handlers, then the alias, then the op with the matching name.
typedef struct fe_import_api {
  uint64_t size;
  uint32_t rev;
  uint32_t reserved;
  void* self;
  int32_t (*find)(void* self, fe_call*, const fe_reader_args*, fe_reader_out*);
  // Adds nodes that compute the model's node. FE-I41 (FE_EUNSUPPORTED): no reader, or all handlers declined.
  int32_t (*import_node)(void* self, fe_call*, const fe_import_args*, fe_import_out*);
} fe_import_api;

// When build is called, the shapes of all inputs are known.
typedef struct fe_build_args {
  uint64_t size;
  void* model;  // from model_open
  // Empty at first; the importer adds inputs in signature order, nodes and outputs.
  const fe_graph_api* graph;
  fe_array input_types;          // of fe_tensor_type, in signature order
  const fe_import_api* plugins;  // null if no plugin reads ops
} fe_build_args;

typedef struct fe_importer {
  uint64_t size;
  uint32_t rev;
  uint32_t thread_model;  // FE_THREADS_*
  void* self;
  fe_string id;          // of the importer, unique
  fe_string extensions;  // ".onnx"; several are separated by commas
  int32_t (*model_open)(void* self, fe_call*, const fe_model_open_args*, fe_model_open_out*);
  int32_t (*model_close)(void* self, fe_call*, const fe_model_args*, fe_none*);
  int32_t (*signature)(void* self, fe_call*, const fe_model_args*, fe_signature_out*);
  int32_t (*build)(void* self, fe_call*, const fe_build_args*, fe_none*);
  // Appends lines "<source op>\t<versions>\t<supported | reason>", for `ferrite ops`.
  int32_t (*coverage)(void* self, fe_call*, const fe_none*, fe_sink*);
  fe_string format;  // rev 2. Prefix of the source ops of its models: "onnx"; empty: plugins read none
  // rev 3. Like build, but tries each node by itself: appends a line "<index of the node>\t<source
  // op>\t<code>\t <reason>" for each that cannot be imported, whose results become inputs of the graph, and
  // adds no outputs. The caller discards the graph. Null: the importer cannot tell.
  int32_t (*unsupported)(void* self, fe_call*, const fe_build_args*, fe_sink*);
} fe_importer;

#ifdef __cplusplus
}
#endif
#endif
