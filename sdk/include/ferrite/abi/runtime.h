// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A runtime owns devices: memory, modules, launches. It opens its driver at run time.
#ifndef FERRITE_ABI_RUNTIME_H
#define FERRITE_ABI_RUNTIME_H

#include "ferrite/abi/base.h"

#ifdef __cplusplus
extern "C" {
#endif

// A stream is a queue of a device's: what it is given is done in order, and beside what other streams are given. It is an object of
// the runtime's, made by stream_open; null, here and in all other arguments, is the stream that each device has of its own.
typedef struct fe_device_args {
  uint64_t size;
  uint32_t device;
  uint32_t reserved;
  void* stream;  // where a slot speaks of one
} fe_device_args;
typedef struct fe_device_count_out {
  uint64_t size;
  uint32_t count;
  uint32_t reserved;
} fe_device_count_out;
typedef struct fe_describe_out {
  uint64_t size;
  fe_sink description;    // bytes for provider.open_target
  fe_sink name;           // for people
  int32_t dlpack_device;  // DLPack's number of the device kind
  uint32_t host_memory;   // 1: the device reads and writes host pointers
  uint64_t alignment;     // of allocations, bytes
  uint64_t capacity;      // bytes, 0 = unknown
} fe_describe_out;
typedef struct fe_alloc_args {
  uint64_t size;
  uint32_t device;
  uint32_t reserved;
  uint64_t bytes;
  void* stream;  // whose work may use it at once; null: whatever is given to the device behind the call
} fe_alloc_args;
typedef struct fe_alloc_out {
  uint64_t size;
  void* data;
} fe_alloc_out;
typedef struct fe_free_args {
  uint64_t size;
  uint32_t device;
  uint32_t reserved;
  void* data;
  void* stream;  // behind whose work the memory is free
} fe_free_args;
#define FE_COPY_TO_DEVICE 0u
#define FE_COPY_TO_HOST 1u
#define FE_COPY_ON_DEVICE 2u
// From the memory of `peer` to the device's. What the peer does with what is copied is done, or the stream was told to wait for it.
#define FE_COPY_PEER 3u
// Memory of the host is the caller's again when the call has returned, unless it is pinned: a copy from there, by whomever it is pinned,
// and one to memory of host_alloc may use it until the stream was waited for.
typedef struct fe_copy_args {
  uint64_t size;
  uint32_t device;
  uint32_t kind;
  void* to;
  const void* from;
  uint64_t bytes;
  void* stream;
  uint32_t peer;  // of FE_COPY_PEER: a device of the same runtime
  uint32_t reserved;
} fe_copy_args;
typedef struct fe_module_args {
  uint64_t size;
  uint32_t device;
  uint32_t reserved;
  fe_array blobs; /* of fe_array: bytes */
  fe_string name;
} fe_module_args;
typedef struct fe_module_out {
  uint64_t size;
  void* module;
} fe_module_out;
typedef struct fe_function_args {
  uint64_t size;
  void* module;
  fe_string entry;
} fe_function_args;
// What a function reaches through one argument of a launch.
typedef struct fe_argument_needs {
  int64_t bytes;     // that the buffer has at least
  uint32_t written;  // 1: it is written to
  uint32_t reserved;
} fe_argument_needs;
// The numbers are what the code itself says that its launches need; the host refuses a kernel that is said to need others, and
// buffers that are too few or too small. It sets tasks to -1 before it asks: where they stay so, nothing is said.
typedef struct fe_function_out {
  uint64_t size;
  void* function;
  int64_t tasks;
  int64_t grain;
  int64_t workspace_bytes;  // per worker
  fe_array arguments;  // of fe_argument_needs, lives as long as the module. Empty: nothing is said of them
  // What the loaded code takes, which the host sets to -1, unknown: of each thread the registers and the bytes of memory that stand for
  // those which it does not have; of each block its shared memory.
  int64_t registers;
  int64_t spills;
  int64_t shared_bytes;
} fe_function_out;
// buffers: one pointer for each non-local buffer of the kernel, in its order. error: the words of error_words.h, all 0 before, in memory
// that the device can write, set by checked indices; null may stand for them where the kernel checks none. workspace: workers x
// workspace_bytes, aligned as allocations are.
typedef struct fe_launch_args {
  uint64_t size;
  void* function;
  void* const* buffers;
  uint64_t buffer_count;
  int64_t tasks;
  int64_t grain;
  void* workspace;
  int64_t workspace_bytes;
  int64_t workers;  // at most this many host threads; 0 = all
  int64_t* error;
  void* stream;
  void* native_stream;  // for library providers, as native_handle gives it; null: there are no such handles
} fe_launch_args;

// stream_open. native: null: a new stream; else a stream of the driver's that the caller goes on to own, and keeps until it is closed.
typedef struct fe_stream_args {
  uint64_t size;
  uint32_t device;
  uint32_t reserved;
  void* native;
} fe_stream_args;
typedef struct fe_stream_out {
  uint64_t size;
  void* stream;
} fe_stream_out;

// event_record and event_wait: the device is the stream's. event_close: the event's.
typedef struct fe_event_args {
  uint64_t size;
  uint32_t device;
  uint32_t reserved;
  void* stream;
  void* event;
} fe_event_args;
typedef struct fe_event_out {
  uint64_t size;
  void* event;
} fe_event_out;

// The driver's own handles, for libraries that are written against it.
#define FE_NATIVE_DEVICE 0u   // a number as a pointer
#define FE_NATIVE_CONTEXT 1u  // null where the driver has no contexts
#define FE_NATIVE_STREAM 2u
typedef struct fe_native_args {
  uint64_t size;
  uint32_t device;
  uint32_t kind;  // FE_NATIVE_*
  void* stream;
} fe_native_args;
typedef struct fe_native_out {
  uint64_t size;
  void* handle;
} fe_native_out;

// A recorded sequence of launches and copies.
typedef struct fe_graph_out {
  uint64_t size;
  void* graph;
} fe_graph_out;
// Another pointer for one argument of a launch that was recorded; it stays so in later replays.
typedef struct fe_rebinding {
  uint32_t launch;    // by the order in which the runtime's launch was called
  uint32_t argument;  // into buffers
  void* data;
} fe_rebinding;
typedef struct fe_replay_args {
  uint64_t size;
  void* graph;
  void* stream;         // of the device that recorded it; it is replayed on one stream at a time
  fe_array rebindings;  // of fe_rebinding
} fe_replay_args;

#define FE_DEVICE_OK 0u
#define FE_DEVICE_FAULT 1u  // work failed since the last time that it was asked for; what comes later is done
#define FE_DEVICE_LOST 2u   // nothing is done on it any more in this process
typedef struct fe_device_status_out {
  uint64_t size;
  uint32_t status;  // FE_DEVICE_*
  uint32_t reserved;
  fe_sink text;  // what the driver says
} fe_device_status_out;

// The target that code was compiled for, as open_target took it.
typedef struct fe_accept_args {
  uint64_t size;
  uint32_t device;
  uint32_t reserved;
  fe_array description;  // bytes
} fe_accept_args;

typedef struct fe_runtime {
  uint64_t size;
  uint32_t rev;
  uint32_t thread_model;
  void* self;
  fe_string id;
  int32_t (*device_count)(void* self, fe_call*, const fe_none*, fe_device_count_out*);
  int32_t (*describe)(void* self, fe_call*, const fe_device_args*, fe_describe_out*);
  int32_t (*alloc)(void* self, fe_call*, const fe_alloc_args*, fe_alloc_out*);
  int32_t (*free)(void* self, fe_call*, const fe_free_args*, fe_none*);
  int32_t (*copy)(void* self, fe_call*, const fe_copy_args*, fe_none*);
  int32_t (*module_load)(void* self, fe_call*, const fe_module_args*, fe_module_out*);
  int32_t (*module_unload)(void* self, fe_call*, const fe_module_out*, fe_none*);
  int32_t (*function)(void* self, fe_call*, const fe_function_args*, fe_function_out*);
  int32_t (*launch)(void* self, fe_call*, const fe_launch_args*, fe_none*);
  // rev 2
  // FE_OK where code for the target runs on the device, FE_EUNSUPPORTED with the reason where it does not. A runtime without this
  // slot runs what was compiled for its own description alone.
  int32_t (*accept)(void* self, fe_call*, const fe_accept_args*, fe_none*);
  // rev 3
  // Waits until all copies and launches that were given to the stream are done, and says what failed of them. Needed where launches and
  // copies return before their work is done.
  int32_t (*synchronise)(void* self, fe_call*, const fe_device_args*, fe_none*);
  // rev 4
  // Streams, all three or none. A stream is closed when its work is done; closing waits for it.
  int32_t (*stream_open)(void* self, fe_call*, const fe_stream_args*, fe_stream_out*);
  int32_t (*stream_close)(void* self, fe_call*, const fe_device_args*, fe_none*);
  int32_t (*native_handle)(void* self, fe_call*, const fe_native_args*, fe_native_out*);
  // Launch graphs, all four or none. Between record_begin and record_end what the stream is given is kept instead of done, by whomever
  // it comes; the same thread calls both, and waits for nothing between. record_end is called in any case, and fails where something
  // cannot be kept: the stream then is as it was before record_begin. Memory is taken and given back beside it, and never recorded.
  int32_t (*record_begin)(void* self, fe_call*, const fe_device_args*, fe_none*);
  int32_t (*record_end)(void* self, fe_call*, const fe_device_args*, fe_graph_out*);
  // Gives the stream all that was recorded.
  int32_t (*replay)(void* self, fe_call*, const fe_replay_args*, fe_none*);
  // When what was replayed is done.
  int32_t (*graph_free)(void* self, fe_call*, const fe_graph_out*, fe_none*);
  // Memory of the host that the device copies from and to by itself.
  int32_t (*host_alloc)(void* self, fe_call*, const fe_alloc_args*, fe_alloc_out*);
  int32_t (*host_free)(void* self, fe_call*, const fe_free_args*, fe_none*);
  // Whether the device still does what it is given. Asked for behind a failure.
  int32_t (*device_status)(void* self, fe_call*, const fe_device_args*, fe_device_status_out*);
  // rev 5
  // Events, beside streams, all four or none; the host waits neither where one is recorded nor where it is waited for. An event is
  // recorded on streams of its device, and stands for what the last one was given until then.
  int32_t (*event_open)(void* self, fe_call*, const fe_device_args*, fe_event_out*);
  int32_t (*event_record)(void* self, fe_call*, const fe_event_args*, fe_none*);
  // What the stream, of any device of the runtime, is given behind the call is done behind what the event stands for at the call, which is
  // nothing if it was not recorded. Neither is given to a stream that is recorded for a launch graph.
  int32_t (*event_wait)(void* self, fe_call*, const fe_event_args*, fe_none*);
  // When no stream waits for it any more.
  int32_t (*event_close)(void* self, fe_call*, const fe_event_args*, fe_none*);
} fe_runtime;

#ifdef __cplusplus
}
#endif
#endif
