// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A runtime owns devices: memory, modules, launches. It loads its driver dynamically.
#ifndef FERRITE_ABI_RUNTIME_H
#define FERRITE_ABI_RUNTIME_H

#include "ferrite/abi/base.h"

#ifdef __cplusplus
extern "C" {
#endif

// A stream is a queue of a device: its work runs in order, and concurrently with that of other streams. It is
// an object of the runtime, made by stream_open. Null, here and in all other arguments, is the device's
// default stream.
typedef struct fe_device_args {
  uint64_t size;
  uint32_t device;  // number from 0
  uint32_t reserved;
  void* stream;  // for slots that act on a stream
} fe_device_args;
typedef struct fe_device_count_out {
  uint64_t size;
  uint32_t count;
  uint32_t reserved;
} fe_device_count_out;
typedef struct fe_describe_out {
  uint64_t size;
  fe_sink description;    // receives the bytes for provider.open_target
  fe_sink name;           // receives the name for people
  int32_t dlpack_device;  // DLPack's device type
  uint32_t host_memory;   // 1: the device can access host pointers
  uint64_t alignment;     // of allocations, in bytes
  uint64_t capacity;      // bytes of memory; 0: unknown
} fe_describe_out;
typedef struct fe_alloc_args {
  uint64_t size;
  uint32_t device;
  uint32_t reserved;
  uint64_t bytes;
  // The stream whose work may use the memory immediately; null: all later work of the device may.
  void* stream;
} fe_alloc_args;
typedef struct fe_alloc_out {
  uint64_t size;
  void* data;  // owned by the caller until free
} fe_alloc_out;
typedef struct fe_free_args {
  uint64_t size;
  uint32_t device;
  uint32_t reserved;
  void* data;    // from alloc, of the same device
  void* stream;  // the memory is free after the work queued on this stream
} fe_free_args;
#define FE_COPY_TO_DEVICE 0u
#define FE_COPY_TO_HOST 1u
#define FE_COPY_ON_DEVICE 2u
// From the memory of `peer` to that of the device. The peer's earlier work on the source is finished, or the
// stream was told to wait for it.
#define FE_COPY_PEER 3u
// When the call returns, host memory belongs to the caller again, except pinned memory: a copy from memory
// that anyone has pinned, and a copy to memory of host_alloc, may use it until the stream has been waited
// for.
typedef struct fe_copy_args {
  uint64_t size;
  uint32_t device;
  uint32_t kind;  // FE_COPY_*
  void* to;
  const void* from;
  uint64_t bytes;
  void* stream;
  uint32_t peer;  // FE_COPY_PEER: a device of the same runtime
  uint32_t reserved;
} fe_copy_args;
typedef struct fe_module_args {
  uint64_t size;
  uint32_t device;
  uint32_t reserved;
  fe_array blobs;  /* of fe_array: bytes */
  fe_string name;  // for people
} fe_module_args;
typedef struct fe_module_out {
  uint64_t size;
  void* module;  // the runtime's own; freed by module_unload
} fe_module_out;
typedef struct fe_function_args {
  uint64_t size;
  void* module;
  fe_string entry;  // name of the entry
} fe_function_args;
// The access of a function through one argument of a launch.
typedef struct fe_argument_needs {
  int64_t bytes;     // the minimum size of the buffer
  uint32_t written;  // 1: the function writes to it
  uint32_t reserved;
} fe_argument_needs;
// The launch requirements that the code itself states. The host refuses a kernel whose launch data differ,
// and buffers that are missing or too small. The host sets tasks to -1 before the call; unchanged, it means
// "not stated".
typedef struct fe_function_out {
  uint64_t size;
  void* function;  // the runtime's own; lives as long as the module
  int64_t tasks;
  int64_t grain;
  int64_t workspace_bytes;  // bytes per worker
  fe_array arguments;       // of fe_argument_needs, lives as long as the module. Empty: not stated
  // Resources of the loaded code, set to -1 (unknown) by the host: registers per thread, bytes per thread for
  // spilled registers, and bytes of shared memory per block.
  int64_t registers;
  int64_t spills;
  int64_t shared_bytes;
} fe_function_out;
// buffers: one pointer for each non-local buffer of the kernel, in their order. error: the words of
// error_words.h in memory that the device can write, all 0 at first, set by checked indices; may be null if
// the kernel checks none. workspace: workers x workspace_bytes, aligned like allocations.
// The latest work on the stream is a launch of this runtime, from the same run. Without it the stream may
// hold work of others, such as a library's kernels, of which the last one may be finished before an earlier
// one.
#define FE_LAUNCH_FOLLOWS 1u
typedef struct fe_launch_args {
  uint64_t size;
  void* function;  // from function, or the exec of a library provider
  void* const* buffers;
  uint64_t buffer_count;
  int64_t tasks;
  int64_t grain;
  void* workspace;          // null if workspace_bytes is 0
  int64_t workspace_bytes;  // per worker
  int64_t workers;          // at most this many host threads; 0: all
  int64_t* error;
  void* stream;
  // For library providers, as native_handle returns it; null if the driver has no streams.
  void* native_stream;
  uint64_t flags;  // FE_LAUNCH_*
} fe_launch_args;

// stream_open. native: null: open a new stream; else a stream of the driver, which the caller continues to
// own and keeps open until stream_close.
typedef struct fe_stream_args {
  uint64_t size;
  uint32_t device;
  uint32_t reserved;
  void* native;
} fe_stream_args;
typedef struct fe_stream_out {
  uint64_t size;
  void* stream;  // the runtime's own; freed by stream_close
} fe_stream_out;

// The device is that of the stream for event_record and event_wait, and that of the event for event_close.
typedef struct fe_event_args {
  uint64_t size;
  uint32_t device;
  uint32_t reserved;
  void* stream;
  void* event;
} fe_event_args;
typedef struct fe_event_out {
  uint64_t size;
  void* event;  // the runtime's own; freed by event_close
} fe_event_out;

// The driver's own handles, for libraries written against the driver.
#define FE_NATIVE_DEVICE 0u   // the device's number, cast to a pointer
#define FE_NATIVE_CONTEXT 1u  // null if the driver has no contexts
#define FE_NATIVE_STREAM 2u
typedef struct fe_native_args {
  uint64_t size;
  uint32_t device;
  uint32_t kind;  // FE_NATIVE_*
  void* stream;   // FE_NATIVE_STREAM only
} fe_native_args;
typedef struct fe_native_out {
  uint64_t size;
  void* handle;  // owned by the driver; may be null
} fe_native_out;

// A recorded sequence of launches and copies.
typedef struct fe_graph_out {
  uint64_t size;
  void* graph;  // the runtime's own; freed by graph_free
} fe_graph_out;
// Replaces the pointer of one argument of a recorded launch, for this and all later replays.
typedef struct fe_rebinding {
  uint32_t launch;    // number of the launch, in the order of the recorded calls of `launch`
  uint32_t argument;  // index into its buffers
  void* data;
} fe_rebinding;
typedef struct fe_replay_args {
  uint64_t size;
  void* graph;
  void* stream;  // a stream of the device that recorded it; a graph is replayed on one stream at a time
  fe_array rebindings;  // of fe_rebinding
} fe_replay_args;

#define FE_DEVICE_OK 0u
#define FE_DEVICE_FAULT 1u  // work has failed since the last call; later work is done
#define FE_DEVICE_LOST 2u   // the device does no more work in this process
typedef struct fe_device_status_out {
  uint64_t size;
  uint32_t status;  // FE_DEVICE_*
  uint32_t reserved;
  fe_sink text;  // receives the driver's message
} fe_device_status_out;

// The target for which code was compiled, as open_target received it.
typedef struct fe_accept_args {
  uint64_t size;
  uint32_t device;
  uint32_t reserved;
  fe_array description;  // bytes
} fe_accept_args;

// The table of a runtime.
typedef struct fe_runtime {
  uint64_t size;
  uint32_t rev;
  uint32_t thread_model;  // FE_THREADS_*
  void* self;
  fe_string id;  // the device kind: "cpu", "npu"
  int32_t (*device_count)(void* self, fe_call*, const fe_none*, fe_device_count_out*);
  int32_t (*describe)(void* self, fe_call*, const fe_device_args*, fe_describe_out*);
  int32_t (*alloc)(void* self, fe_call*, const fe_alloc_args*, fe_alloc_out*);
  int32_t (*free)(void* self, fe_call*, const fe_free_args*, fe_none*);
  int32_t (*copy)(void* self, fe_call*, const fe_copy_args*, fe_none*);
  int32_t (*module_load)(void* self, fe_call*, const fe_module_args*, fe_module_out*);
  int32_t (*module_unload)(void* self, fe_call*, const fe_module_out*, fe_none*);
  // Finds an entry of a loaded module.
  int32_t (*function)(void* self, fe_call*, const fe_function_args*, fe_function_out*);
  // Queues one launch on the stream.
  int32_t (*launch)(void* self, fe_call*, const fe_launch_args*, fe_none*);
  // rev 2. FE_OK if code for the target runs on the device; FE_EUNSUPPORTED, with the reason, if it does not.
  // A runtime without this slot accepts only code compiled for its own description.
  int32_t (*accept)(void* self, fe_call*, const fe_accept_args*, fe_none*);
  // rev 3. Waits for all copies and launches given to the stream, and reports those that failed. Required if
  // launches or copies return before their work is finished.
  int32_t (*synchronise)(void* self, fe_call*, const fe_device_args*, fe_none*);
  // rev 4. Streams: all three slots or none. stream_close waits for the stream's work.
  int32_t (*stream_open)(void* self, fe_call*, const fe_stream_args*, fe_stream_out*);
  int32_t (*stream_close)(void* self, fe_call*, const fe_device_args*, fe_none*);
  int32_t (*native_handle)(void* self, fe_call*, const fe_native_args*, fe_native_out*);
  // Launch graphs: all four slots or none. Between record_begin and record_end the stream records work
  // instead of doing it, no matter which code submits the work. One thread calls both, and waits for nothing
  // in between. record_end is always called; it fails if something cannot be recorded, and the stream is then
  // in its state before record_begin. Allocation and release of memory are not recorded.
  int32_t (*record_begin)(void* self, fe_call*, const fe_device_args*, fe_none*);
  int32_t (*record_end)(void* self, fe_call*, const fe_device_args*, fe_graph_out*);
  // Gives the recorded work to the stream.
  int32_t (*replay)(void* self, fe_call*, const fe_replay_args*, fe_none*);
  // Called when the replayed work is finished.
  int32_t (*graph_free)(void* self, fe_call*, const fe_graph_out*, fe_none*);
  // Pinned host memory, which the device can access for asynchronous copies.
  int32_t (*host_alloc)(void* self, fe_call*, const fe_alloc_args*, fe_alloc_out*);
  int32_t (*host_free)(void* self, fe_call*, const fe_free_args*, fe_none*);
  // Whether the device still works. Called after a failure.
  int32_t (*device_status)(void* self, fe_call*, const fe_device_args*, fe_device_status_out*);
  // rev 5. Events, in addition to streams: all four slots or none. Neither recording nor waiting blocks the
  // host. An event is recorded on streams of its device; it marks the work given to the stream of the last
  // recording by then.
  int32_t (*event_open)(void* self, fe_call*, const fe_device_args*, fe_event_out*);
  int32_t (*event_record)(void* self, fe_call*, const fe_event_args*, fe_none*);
  // Later work of the stream, which may belong to any device of the runtime, waits for the work that the
  // event marks at the time of the call; if the event was never recorded, for nothing. Streams that are being
  // recorded for a launch graph receive neither of the two calls.
  int32_t (*event_wait)(void* self, fe_call*, const fe_event_args*, fe_none*);
  // Called when no stream waits for the event any more.
  int32_t (*event_close)(void* self, fe_call*, const fe_event_args*, fe_none*);
} fe_runtime;

#ifdef __cplusplus
}
#endif
#endif
