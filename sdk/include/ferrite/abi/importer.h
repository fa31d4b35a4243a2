// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// An importer turns a model file into a graph; import handlers of other plugins read the ops that it does not know.
#ifndef FERRITE_ABI_IMPORTER_H
#define FERRITE_ABI_IMPORTER_H

#include "ferrite/abi/base.h"
#include "ferrite/abi/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct fe_model_open_args {
  uint64_t size;
  fe_string path;  // of the file; names beside it are resolved against its folder
  fe_array bytes;  // the whole file, mapped by the host until model_close
} fe_model_open_args;
typedef struct fe_model_open_out {
  uint64_t size;
  void* model;
} fe_model_open_out;
typedef struct fe_model_args {
  uint64_t size;
  void* model;
} fe_model_args;
// One input or output of the model. A dim that is not fixed has the value -1 and a name ("" = anonymous).
typedef struct fe_port {
  uint64_t size;
  fe_string name;
  fe_dtype dtype;
  uint16_t reserved;
  uint32_t rank;               // FE_NONE32: unknown
  const int64_t* dims;         // [rank]
  const fe_string* dim_names;  // [rank]
} fe_port;
typedef struct fe_signature_out {
  uint64_t size;
  fe_array inputs;   // of fe_port, valid until model_close
  fe_array outputs;  // of fe_port
} fe_signature_out;

// A source op is "<format>:<op>": an op as models of one format name it, with "::" between its parts: "onnx:com.acme::FusedRope",
// "onnx:MatMul" for one of the format's own domain, "torch:acme::rope".

typedef struct fe_named_value {
  uint64_t size;
  fe_string name;
  fe_value value;
} fe_named_value;
// A node of a model, whatever its format. Valid until the call returns.
typedef struct fe_import_node {
  uint64_t size;
  fe_string source;        // the source op
  int64_t version;         // of the operator set that the op belongs to; 0 where the format has none
  fe_string name;          // the origin of the nodes that are made for it
  fe_string place;         // "node 'rope' (com.acme.FusedRope, opset 1)": how error texts begin
  fe_array operands;       // of fe_value; an absent one is 0
  fe_array attrs;          // of fe_attr, as the model has them
  fe_array tensors;        // of fe_named_value: attributes that are tensors, as constants of the graph
  fe_array element_types;  // of fe_dtype, by the format's own numbers of element types; 0: not supported
  fe_array results;        // of fe_string: what the model calls them; "" where nothing reads the result
} fe_import_node;
typedef struct fe_import_args {
  uint64_t size;
  const fe_graph_api* graph;
  const fe_import_node* node;
} fe_import_args;
typedef struct fe_import_out {
  uint64_t size;
  fe_value* results;  // [capacity], all 0 before the call; one for each result of the node that is read
  uint64_t capacity;
} fe_import_out;
// Reads an op in models of a format, in versions `first` to `last` of its operator set. The nodes that it makes are the node's place
// in the graph; it adds no inputs and outputs. FE_EUNSUPPORTED with code FE-P20 declines: what it made is undone, and the node is read
// as without it. It refuses a node of which it ignores an attribute or an input (FE-I44).
typedef struct fe_import_handler {
  uint64_t size;
  uint32_t rev;
  uint32_t reserved;
  void* self;
  fe_string source;
  int64_t first;
  int64_t last;  // INT64_MAX: all later ones too
  int32_t (*import_node)(void* self, fe_call*, const fe_import_args*, fe_import_out*);
} fe_import_handler;

#define FE_READER_NONE 0u
#define FE_READER_HANDLER 1u  // an import handler
#define FE_READER_ALIAS 2u    // an alias in a descriptor
#define FE_READER_OP 3u       // an op of the name, "com.acme.FusedRope" for "onnx:com.acme::FusedRope"
typedef struct fe_reader_args {
  uint64_t size;
  fe_string source;
  int64_t version;
  fe_array known;  // of fe_string: source ops that the importer reads itself, for suggestions
} fe_reader_args;
// Strings are valid until the next call.
typedef struct fe_reader_out {
  uint64_t size;
  uint32_t kind;  // FE_READER_*: of the first one that is asked
  uint32_t reserved;
  fe_string plugin;
  fe_string
      versions;  // "1 to 3, 5": those of handlers where `kind` is none; empty where there are no handlers
  fe_string suggestion;  // where `kind` is none: a source op of a similar name, or empty
} fe_reader_out;
// The ops that plugins read, as an importer asks for them. The order for a node: handlers, the alias, an op of the name.
typedef struct fe_import_api {
  uint64_t size;
  uint32_t rev;
  uint32_t reserved;
  void* self;
  int32_t (*find)(void* self, fe_call*, const fe_reader_args*, fe_reader_out*);
  // Adds what the node computes. FE-I41, FE_EUNSUPPORTED: nothing reads it, or all handlers declined.
  int32_t (*import_node)(void* self, fe_call*, const fe_import_args*, fe_import_out*);
} fe_import_api;

// The shapes of all inputs are known when build is called.
typedef struct fe_build_args {
  uint64_t size;
  void* model;
  const fe_graph_api* graph;     // empty; the importer adds inputs in signature order, nodes and outputs
  fe_array input_types;          // of fe_tensor_type
  const fe_import_api* plugins;  // null where no plugin reads ops
} fe_build_args;

typedef struct fe_importer {
  uint64_t size;
  uint32_t rev;
  uint32_t thread_model;
  void* self;
  fe_string id;
  fe_string extensions;  // ".onnx", comma separated
  int32_t (*model_open)(void* self, fe_call*, const fe_model_open_args*, fe_model_open_out*);
  int32_t (*model_close)(void* self, fe_call*, const fe_model_args*, fe_none*);
  int32_t (*signature)(void* self, fe_call*, const fe_model_args*, fe_signature_out*);
  int32_t (*build)(void* self, fe_call*, const fe_build_args*, fe_none*);
  // Appends lines "<source op>\t<versions>\t<supported | reason>" for `ferrite ops`.
  int32_t (*coverage)(void* self, fe_call*, const fe_none*, fe_sink*);
  fe_string format;  // revision 2: what source ops of its models begin with: "onnx"; empty: plugins read none
} fe_importer;

#ifdef __cplusplus
}
#endif
#endif
