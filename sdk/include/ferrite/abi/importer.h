// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// An importer turns a model file into a graph.
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
// The shapes of all inputs are known when build is called.
typedef struct fe_build_args {
  uint64_t size;
  void* model;
  const fe_graph_api* graph;  // empty; the importer adds inputs in signature order, nodes and outputs
  fe_array input_types;       // of fe_tensor_type
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
} fe_importer;

#ifdef __cplusplus
}
#endif
#endif
