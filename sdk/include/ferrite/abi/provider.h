// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A provider compiles kernels to blobs for a target. A runtime launches the blob, or the provider itself if
// it is a library.
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
  fe_array description;  // bytes from runtime.describe or from a file
} fe_open_target_args;
// The element types (bits 1 << FE_DTYPE_*) with which the target accepts a statement kind or a primitive. One
// of the two is 0.
typedef struct fe_capability {
  uint32_t statement;  // FE_STATEMENT_*
  uint32_t primitive;  // FE_PRIM_*
  uint64_t dtypes;
} fe_capability;
typedef struct fe_open_target_out {
  uint64_t size;
  void* target;               // the provider's own; passed to every later slot, freed by close_target
  fe_string name;             // for people
  uint32_t vector_bytes;      // preferred contiguous run, a hint for the cost model
  uint32_t buffer_alignment;  // required alignment of buffers, in bytes
  int64_t local_bytes;        // capacity for LOCAL buffers of one kernel, in bytes per outer iteration
  // Bits 1 << FE_STATEMENT_* of the kinds that compile accepts; others are rewritten to simpler ones. 0: all.
  uint64_t statement_kinds;
  // An array of fe_capability that lives as long as the target. Kernels with anything else are not offered.
  // Empty: all are.
  fe_array capabilities;
  // A request: the rows of large buffers that are internal to the program should be a multiple of this many
  // bytes apart. A power of two; 0: no request.
  uint32_t row_alignment;
  uint32_t row_padding_percent;  // limit on the padding of a row, 0 to FE_MOST_ROW_PADDING_PERCENT
  int64_t row_padding_from;      // bytes: smaller buffers are not padded
  const fe_target_numbers*
      numbers;  // for the host's decisions; lives as long as the target. Null: nothing is stated
} fe_open_target_out;
#define FE_MOST_ROW_PADDING_PERCENT 10000u

// The layout that a candidate requests for an operand, a constant or a buffer that the kernel only reads: the
// stored dims, and each logical coordinate as an expression (in the encoding of the flat container) of the
// packed coordinates p0, p1, ... . Stored elements whose logical coordinate is out of range are 0. With
// terms, stored elements are sums: packed[p] = sum over t < term_count of factors[p[factor_dim]][t] *
// operand[logical(p, t)]; the logical coordinates must then not depend on p[factor_dim]. The host packs a
// constant once, and other operands before each launch of the kernel: the candidate's cost includes that.
typedef struct fe_operand_layout {
  uint64_t size;
  uint32_t buffer;             // number of the kernel's buffer
  uint32_t packed_rank;        // number of stored dims
  const int64_t* packed_dims;  // [packed_rank]
  const fe_flat_expr* exprs;   // [expr_count], operands before users
  uint64_t expr_count;
  // [logical_rank], positions in exprs; symbol k is packed coordinate k, the symbol after them is t.
  const uint32_t* unpack;
  uint32_t logical_rank;  // rank of the buffer
  uint32_t term_count;    // at most FE_MOST_TERMS, for an operand of floats; 0: no sums
  // The packed dim whose coordinate selects the factors; its size is at most FE_MOST_TERMS.
  uint32_t factor_dim;
  uint32_t reserved;
  fe_array factors;  // of double: [packed_dims[factor_dim]][term_count], all finite
} fe_operand_layout;

// One way to compile a kernel. Strings and arrays need to live only until `add` returns.
typedef struct fe_candidate {
  uint64_t size;
  uint64_t id;               // the provider's own; passed to compile
  fe_string name;            // for listings
  double cost;               // estimated time in seconds, by the provider's model
  int64_t workspace_bytes;   // bytes per worker
  fe_array operand_layouts;  // of fe_operand_layout
  uint32_t covered;          // number of leading statements it covers; the others become a separate kernel
  uint32_t flags;            // 0
} fe_candidate;

typedef struct fe_propose_args {
  uint64_t size;
  void* target;     // from open_target
  fe_array kernel;  // a flat kernel (kernel.h)
} fe_propose_args;
// Call `add` for each candidate; the host copies it.
typedef struct fe_propose_out {
  uint64_t size;
  void* host;  // the first argument of add
  int32_t (*add)(void* host, const fe_candidate*);
} fe_propose_out;

typedef struct fe_compile_args {
  uint64_t size;
  void* target;  // from open_target
  // A flat kernel, with the operand layouts of the candidate applied; a flat graph for a claim.
  fe_array kernel;
  uint64_t candidate;    // its id
  fe_string entry;       // name of the entry to define: the kernel's hash
  fe_array config;       // a tuning configuration as bytes; empty: the provider's own choice
  fe_string provenance;  // model nodes, for listings
} fe_compile_args;
typedef struct fe_compile_out {
  uint64_t size;
  fe_sink blob;     // receives the code
  fe_sink listing;  // receives readable code, if listing.write is not null
  int64_t tasks;    // units of parallel work per launch, at most the kernel's points; 0 if it has none
  int64_t grain;    // minimum number of tasks per worker
  int64_t workspace_bytes;                  // bytes per worker
  int64_t registers, spills, shared_bytes;  // -1: unknown; spills and shared_bytes in bytes
} fe_compile_out;

// A library provider launches its own code: exec_create takes the blob; exec_launch takes the same arguments
// as the runtime's launch, with the exec as `function`. Buffers are in the device's memory.
typedef struct fe_exec_args {
  uint64_t size;
  void* target;     // from open_target
  fe_array blob;    // from compile
  fe_string entry;  // name of the entry
  // The device whose memory and streams launches use, and its driver's context as native_handle returns it;
  // null: the driver has none.
  uint32_t device;
  uint32_t reserved;
  void* native_context;
} fe_exec_args;
// Launches only queue work on native_stream and never wait, so they can be recorded once and replayed.
#define FE_EXEC_RECORDABLE 1u
// As in fe_function_out: the requirements of the exec itself. Tasks of -1 mean "not stated".
typedef struct fe_exec_out {
  uint64_t size;
  void* exec;  // the provider's own; passed to exec_launch and exec_destroy
  int64_t tasks;
  int64_t grain;
  int64_t workspace_bytes;  // bytes per worker
  fe_array arguments;       // of fe_argument_needs, lives as long as the exec. Empty: not stated
  uint64_t flags;           // FE_EXEC_*
} fe_exec_out;

// Regions of a graph that a provider claims as a whole. `graph` is the flat form of the graph (content
// FE_FLAT_GRAPH); nodes and values are identified by their numbers in it.
typedef struct fe_claim_layout {
  uint32_t value;  // a value that enters or leaves the region
  uint32_t reserved;
  // The provider's own name of an opaque layout; used only between regions of the same provider.
  fe_string layout;
  int64_t bytes;  // size of the value in this layout
} fe_claim_layout;
// A claim of one region. Strings and arrays need to live only until `add` returns.
typedef struct fe_claim {
  uint64_t size;
  uint64_t id;       // the provider's own; passed to compile as `candidate`
  fe_string name;    // for listings
  fe_array nodes;    // of uint32_t: node numbers
  double cost;       // estimated time in seconds, by the provider's model
  fe_array layouts;  // of fe_claim_layout
} fe_claim;
typedef struct fe_claim_args {
  uint64_t size;
  void* target;    // from open_target
  fe_array graph;  // a flat graph
} fe_claim_args;
// Call `add` for each claim; the host copies it.
typedef struct fe_claim_out {
  uint64_t size;
  void* host;  // the first argument of add
  int32_t (*add)(void* host, const fe_claim*);
} fe_claim_out;

// The table of a provider. Slots that compile are called from several threads unless thread_model serialises
// them.
typedef struct fe_provider {
  uint64_t size;
  uint32_t rev;
  uint32_t thread_model;  // FE_THREADS_*
  void* self;
  fe_string id;                // of the provider, unique
  fe_string device_kind;       // id of the runtime on whose devices its code runs
  uint32_t max_flat_revision;  // the newest FE_FLAT_REVISION that it reads
  uint32_t reserved;
  uint64_t features;  // FE_FLAT_PROLOGUES etc.: kernels with these features are accepted unchanged
  int32_t (*open_target)(void* self, fe_call*, const fe_open_target_args*, fe_open_target_out*);
  int32_t (*close_target)(void* self, fe_call*, const fe_open_target_out*, fe_none*);
  // May be null for a provider that only claims regions.
  int32_t (*propose)(void* self, fe_call*, const fe_propose_args*, fe_propose_out*);
  int32_t (*compile)(void* self, fe_call*, const fe_compile_args*, fe_compile_out*);
  // Appends bytes that change whenever compile would produce different code for the same kernel.
  int32_t (*fingerprint)(void* self, fe_call*, const fe_none*, fe_sink*);
  // rev 2. The exec slots make it a library provider; null in others. claim may be null.
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
