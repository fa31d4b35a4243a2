// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A provider turns kernels into blobs for a target. A codegen is the provider whose blob a runtime launches.
#ifndef FERRITE_ABI_PROVIDER_H
#define FERRITE_ABI_PROVIDER_H

#include "ferrite/abi/base.h"
#include "ferrite/abi/kernel.h"
#include "ferrite/abi/runtime.h"
#include "ferrite/abi/target.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct fe_open_target_args {
  uint64_t size;
  fe_array description;  // bytes: what runtime.describe gave, or a file
} fe_open_target_args;
// Element types (1 << FE_DTYPE_*) with which the target takes a kind of statement or a primitive. One of the two is 0.
typedef struct fe_capability {
  uint32_t statement;  // FE_STATEMENT_*
  uint32_t primitive;  // FE_PRIM_*
  uint64_t dtypes;
} fe_capability;
typedef struct fe_open_target_out {
  uint64_t size;
  void* target;  // given to every later slot; closed by close_target
  fe_string name;
  uint32_t vector_bytes;      // preferred contiguous run, a hint for the cost model
  uint32_t buffer_alignment;  // bytes
  int64_t local_bytes;        // budget of LOCAL buffers of one kernel, per outer iteration
  uint64_t
      statement_kinds;  // 1 << FE_STATEMENT_*: the kinds that compile takes; others become simpler ones. 0: all
  fe_array
      capabilities;  // of fe_capability, lives as long as the target; what is not in it is not asked for. Empty: all
  // A wish: rows of large buffers that nobody outside of the program sees lie multiples of so many bytes apart, a power of two.
  // 0: none
  uint32_t row_alignment;
  uint32_t row_padding_percent;  // the most that this may add to a row, 0 to FE_MOST_ROW_PADDING_PERCENT
  int64_t row_padding_from;      // bytes: a buffer that is smaller stays as it is
  const fe_target_numbers*
      numbers;  // by which the host decides, lives as long as the target. Null: nothing is stated
} fe_open_target_out;
#define FE_MOST_ROW_PADDING_PERCENT 10000u

// The layout that a candidate wants for a constant operand: stored dims, and each logical coordinate as an expression (FLAT
// encoding) of the packed coordinates p0, p1, ...; elements whose logical coordinate is out of range hold 0.
// With terms, what is stored are sums: packed[p] = sum over t < term_count of factors[p[factor_dim]][t] * constant[logical(p, t)],
// where the logical coordinates do not depend on p[factor_dim].
typedef struct fe_operand_layout {
  uint64_t size;
  uint32_t buffer;  // of the kernel
  uint32_t packed_rank;
  const int64_t* packed_dims;
  const fe_flat_expr* exprs;
  uint64_t expr_count;
  const uint32_t*
      unpack;  // [logical_rank], expression numbers; symbol k is packed coordinate k, the next one t
  uint32_t logical_rank;  // of the buffer
  uint32_t term_count;    // at most FE_MOST_TERMS, of a constant of floats; 0: no sums
  uint32_t factor_dim;    // the packed dim, of at most FE_MOST_TERMS, by whose coordinate factors are
  uint32_t reserved;
  fe_array factors;  // of double: [packed_dims[factor_dim]][term_count], all finite
} fe_operand_layout;

typedef struct fe_candidate {
  uint64_t size;
  uint64_t id;  // given back to compile
  fe_string name;
  double cost;               // seconds, by the provider's model
  int64_t workspace_bytes;   // per worker
  fe_array operand_layouts;  // of fe_operand_layout
  uint32_t covered;          // leading statements it covers; the rest becomes a kernel of its own
  uint32_t flags;
} fe_candidate;

typedef struct fe_propose_args {
  uint64_t size;
  void* target;
  fe_array kernel;  // bytes
} fe_propose_args;
// Each candidate is handed to `add`; the host copies it.
typedef struct fe_propose_out {
  uint64_t size;
  void* host;
  int32_t (*add)(void* host, const fe_candidate*);
} fe_propose_out;

typedef struct fe_compile_args {
  uint64_t size;
  void* target;
  fe_array kernel;       // bytes, operand layouts of the candidate already in place
  uint64_t candidate;    // id
  fe_string entry;       // name of the entry, the kernel's hash
  fe_array config;       // bytes; empty = the provider's own choice
  fe_string provenance;  // for listings
} fe_compile_args;
typedef struct fe_compile_out {
  uint64_t size;
  fe_sink blob;     // code
  fe_sink listing;  // text, only when listing.write is not null
  int64_t tasks;    // units of parallel work of one launch, at most the kernel's points; 0 where it has none
  int64_t grain;    // tasks that one worker should take at least
  int64_t workspace_bytes;                  // per worker
  int64_t registers, spills, shared_bytes;  // -1 = unknown
} fe_compile_out;

// A library provider launches what it compiled itself: exec_create takes the blob, exec_launch the same arguments as the
// runtime's launch, with the exec as `function`. Its buffers lie in the memory of the device.
typedef struct fe_exec_args {
  uint64_t size;
  void* target;
  fe_array blob;  // bytes
  fe_string entry;
  // The device whose memory and streams launches are for, and its driver's context, as native_handle gives it; null: it has none.
  uint32_t device;
  uint32_t reserved;
  void* native_context;
} fe_exec_args;
// Its launches only give work to native_stream and never wait, so that they can be recorded once and replayed.
#define FE_EXEC_RECORDABLE 1u
// As of fe_function_out, the numbers are what the exec itself needs; tasks of -1 say nothing.
typedef struct fe_exec_out {
  uint64_t size;
  void* exec;
  int64_t tasks;
  int64_t grain;
  int64_t workspace_bytes;
  fe_array arguments;  // of fe_argument_needs, lives as long as the exec. Empty: nothing is said of them
  uint64_t flags;      // FE_EXEC_*
} fe_exec_out;

// Regions of a graph that a provider takes as a whole. `graph` is the flat form of the graph (content FE_FLAT_GRAPH); nodes and
// values are named by their numbers in it.
typedef struct fe_claim_layout {
  uint32_t value;  // that enters or leaves the region
  uint32_t reserved;
  fe_string layout;  // the provider's own name of an opaque layout: used only between regions of one provider
  int64_t bytes;     // that the value takes in it
} fe_claim_layout;
typedef struct fe_claim {
  uint64_t size;
  uint64_t id;  // given back to compile
  fe_string name;
  fe_array nodes;    // of uint32_t
  double cost;       // seconds, by the provider's model
  fe_array layouts;  // of fe_claim_layout
} fe_claim;
typedef struct fe_claim_args {
  uint64_t size;
  void* target;
  fe_array graph;  // bytes
} fe_claim_args;
// Each claim is handed to `add`; the host copies it.
typedef struct fe_claim_out {
  uint64_t size;
  void* host;
  int32_t (*add)(void* host, const fe_claim*);
} fe_claim_out;

typedef struct fe_provider {
  uint64_t size;
  uint32_t rev;
  uint32_t thread_model;  // FE_THREADS_*
  void* self;
  fe_string id;
  fe_string device_kind;  // runtime id whose devices it targets
  uint32_t max_flat_revision;
  uint32_t reserved;
  uint64_t features;  // FE_FLAT_PROLOGUES and the like: kernels with these are taken as they are
  int32_t (*open_target)(void* self, fe_call*, const fe_open_target_args*, fe_open_target_out*);
  int32_t (*close_target)(void* self, fe_call*, const fe_open_target_out*, fe_none*);
  int32_t (*propose)(void* self, fe_call*, const fe_propose_args*, fe_propose_out*);
  int32_t (*compile)(void* self, fe_call*, const fe_compile_args*, fe_compile_out*);
  int32_t (*fingerprint)(void* self, fe_call*, const fe_none*, fe_sink*);
  // rev 2
  int32_t (*exec_create)(void* self, fe_call*, const fe_exec_args*, fe_exec_out*);
  int32_t (*exec_launch)(void* self, fe_call*, const fe_launch_args*, fe_none*);
  int32_t (*exec_destroy)(void* self, fe_call*, const fe_exec_out*, fe_none*);
  int32_t (*claim)(void* self, fe_call*, const fe_claim_args*, fe_claim_out*);
} fe_provider;

#define FE_THREADS_SERIALISED 0u
#define FE_THREADS_ANY 1u
#define FE_THREADS_STREAM 2u

#ifdef __cplusplus
}
#endif
#endif
