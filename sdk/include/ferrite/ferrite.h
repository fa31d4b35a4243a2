// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The embedding API: load a model, bind tensors, run, read results. C11; ferrite.hpp is a C++ wrapper over
// it.
//
//   ferrite_session* session;  ferrite_session_open(NULL, &session);
//   ferrite_model* model;      ferrite_model_load(session, "model.onnx", &model);
//   ferrite_run(model, inputs, 1, outputs, 1);
//
// Rules that hold for every function:
//  - A function that fails returns a FERRITE_E* class; ferrite_last_error() then gives code, text and place.
//    Exceptions and signals are not used. Output arguments are written on success only.
//  - Structs begin with `size`, which the caller sets to sizeof the struct. Fields beyond the caller's size
//    take their defaults.
//  - Strings are UTF-8 and NUL-terminated. A pointer that a function returns lives as long as the object it
//    came from, unless the function's comment says otherwise.
//  - Threads: every function may be called from any thread, and calls on one model may run concurrently. A
//    close or free function must not run concurrently with another call on the same object. Close a session
//    after freeing its models.
#ifndef FERRITE_FERRITE_H
#define FERRITE_FERRITE_H

#include <stddef.h>
#include <stdint.h>

#include "ferrite/dlpack.h"

#if !defined(DLPACK_MAJOR_VERSION) || DLPACK_MAJOR_VERSION < 1
#error "ferrite.h needs DLPack 1.0 or newer; an older dlpack.h was included before it"
#endif

#define FERRITE_API __attribute__((visibility("default")))

#ifdef __cplusplus
extern "C" {
#endif

#define FERRITE_OK 0
#define FERRITE_EUNSUPPORTED 1  // the model needs a feature that no enabled plugin provides
#define FERRITE_EINVALID 2      // invalid input; the error's place says where
#define FERRITE_EINTERNAL 3     // a defect in Ferrite or in a plugin
#define FERRITE_ENOMEM 4
#define FERRITE_EDEVICE 5

// A session: the loaded plugins of a pipeline, and its devices. Opaque.
typedef struct ferrite_session ferrite_session;
// A model or a package, with the programs compiled for it. Opaque.
typedef struct ferrite_model ferrite_model;

// The version of the library, as "0.1.0". The string is constant.
FERRITE_API const char* ferrite_version(void);

// The description of a failure, filled by ferrite_last_error().
typedef struct ferrite_error {
  uint64_t size;
  int32_t status;  // FERRITE_E*
  int32_t reserved;
  const char* code;   // "FE-X04"
  const char* text;   // what is wrong, and what to do about it
  const char* where;  // file:line:col, a node or a plugin; may be empty
} ferrite_error;
// Gives the error of the calling thread's last failed call. Its strings live until this thread's next failed
// call.
FERRITE_API void ferrite_last_error(ferrite_error* out);

// Provides device memory (arenas, weights, results) from the program's own pool instead of the devices'
// runtimes. The functions are called from any thread. The allocator must live until the session is closed and
// all tensors that its runs made are released.
typedef struct ferrite_allocator {
  uint64_t size;
  void* self;
  int32_t device_type;  // DLPack's type of the devices that it serves; 0: all, including the host (kDLCPU)
  uint32_t reserved;
  // Allocates `bytes` of the device's memory, aligned to `alignment`, a power of two; returns null if memory
  // is short. `stream`: the stream of the device's driver whose work will use the memory, so memory whose
  // last use is earlier work in that stream may be reused; null: the device has no streams.
  void* (*alloc)(void* self, DLDevice device, uint64_t bytes, uint64_t alignment, void* stream);
  // Frees memory from alloc, with the same device, bytes and stream. The work that used it is finished or
  // queued in that stream.
  void (*free)(void* self, DLDevice device, void* data, uint64_t bytes, void* stream);
} ferrite_allocator;

// The pipeline and the devices of a session.
typedef struct ferrite_session_options {
  uint64_t size;
  const char* manifest;        // a pipeline manifest (TOML); null: the default pipeline
  const char* const* plugins;  // [plugin_count]: more libraries, descriptors or folders of plugins to enable
  uint64_t plugin_count;
  const char* device;   // "cpu", "interpreter", ...; null: as in the manifest
  int64_t threads;      // number of workers, up to 4096; 0: as in the manifest, else one per processor
  const char* log;      // log channels as for `ferrite --log`; null: none. Process-wide.
  const char* profile;  // the manifest's [profile.NAME], which overrides its other settings; null: none
  // Non-zero: only the built-in plugins of the default pipeline, without manifest, profile and plugins.
  uint32_t safe_mode;
  // Non-zero: products and convolutions of f32 may round their operands to tf32, as `tf32` in [pipeline]
  // says.
  uint32_t tf32;
  const ferrite_allocator* allocator;  // copied; null: the runtimes allocate
  const char* tune;  // "off", "cached" or seconds, as `tune` in [pipeline]; null: as in the manifest
} ferrite_session_options;
// Opens a session and loads the pipeline's plugins. `options` may be null. Takes about 10 ms; one session
// serves any number of models.
FERRITE_API int32_t ferrite_session_open(const ferrite_session_options* options, ferrite_session** out);
// Closes a session whose models have all been freed. Null is allowed.
FERRITE_API void ferrite_session_close(ferrite_session* session);
// The device whose memory tensors of runs may use, besides the host's: the session's first device. kDLCPU if
// that device works in the host's memory.
FERRITE_API int32_t ferrite_session_device(ferrite_session* session, DLDevice* out);

// The enabled passes of a phase: calls `write` once with a line for each, its name and its plugin's id
// separated by a tab.
FERRITE_API int32_t ferrite_session_passes(ferrite_session* session, const char* phase, void* context,
                                           void (*write)(void* context, const char* text, uint64_t bytes));

// Gives a text that two sessions share only if they compile models alike, where their options are the same:
// calls `write` once with hashes of this library, the manifests and the files of the plugins, and with the
// devices. FE-M14 if a file cannot be read; errors of opening the devices.
FERRITE_API int32_t ferrite_session_identity(ferrite_session* session, void* context,
                                             void (*write)(void* context, const char* text, uint64_t bytes));

// Opens a model; the file's extension (.onnx, .fe, ...) selects the importer. Reads the signature only and
// compiles nothing. A package (.fepkg) is never compiled.
FERRITE_API int32_t ferrite_model_load(ferrite_session* session, const char* path, ferrite_model** out);
// The same for the contents of a file in memory, which are copied. `path` need not exist: its extension
// selects the importer, relative names in the model are resolved against its folder, and errors name it.
FERRITE_API int32_t ferrite_model_load_bytes(ferrite_session* session, const char* path, const void* data,
                                             uint64_t bytes, ferrite_model** out);
// Frees a model and its programs. Null is allowed.
FERRITE_API void ferrite_model_free(ferrite_model* model);

// An input or output as the model declares it.
typedef struct ferrite_port {
  uint64_t size;
  const char* name;
  const char* dtype_name;        // "f32", "bf16", "i64", "bool", ...
  DLDataType dtype;              // code 255: DLPack has no such type
  int32_t rank;                  // -1: unknown
  const int64_t* dims;           // [rank]; -1: not fixed
  const char* const* dim_names;  // [rank]; names of dims that are not fixed, "" if they have none
} ferrite_port;
// The number of inputs that the model declares.
FERRITE_API uint64_t ferrite_model_input_count(const ferrite_model* model);
// The number of outputs that the model declares.
FERRITE_API uint64_t ferrite_model_output_count(const ferrite_model* model);
// Describes input `index`, counted from 0; FERRITE_EINVALID if there is no such input.
FERRITE_API int32_t ferrite_model_input(const ferrite_model* model, uint64_t index, ferrite_port* out);
// Describes output `index`, counted from 0; FERRITE_EINVALID if there is no such output.
FERRITE_API int32_t ferrite_model_output(const ferrite_model* model, uint64_t index, ferrite_port* out);

// Runs the model on `inputs`, in the order of its ports. For each new combination of input shapes a program
// is compiled, which takes up to seconds, and cached. Tensors are in host memory (kDLCPU) or in the memory of
// ferrite_session_device(); the work that produces their contents must be finished. In host memory,
// contiguous inputs are read in place and strided ones are copied. On a device, inputs must be contiguous;
// they are copied if they are not aligned to 64 bytes. If some tensors are on the device and others on the
// host, the latter are copied.
// Output tensors belong to the caller: dtype and shape must be those of the result, and the memory
// contiguous. Outputs must not overlap inputs or each other.
FERRITE_API int32_t ferrite_run(ferrite_model* model, const DLTensor* const* inputs, uint64_t input_count,
                                DLTensor* const* outputs, uint64_t output_count);
// Like ferrite_run, but allocates the outputs: sets outputs[k] to a tensor that the caller releases with its
// deleter.
FERRITE_API int32_t ferrite_run_alloc(ferrite_model* model, const DLTensor* const* inputs,
                                      uint64_t input_count, DLManagedTensorVersioned** outputs,
                                      uint64_t output_count);
// Options of one run.
typedef struct ferrite_run_options {
  uint64_t size;
  // A stream of the device's driver; a driver's legacy default stream by its handle that is not null (1). The
  // run starts after the work queued on it so far, and later work on it starts after the run. If all tensors
  // are on the device and the model checks no indices that depend on its inputs, or checks them later, the
  // call returns as soon as the work is queued; a later failure of that work is reported by the driver or by
  // a later call. The stream must stay open until the model is freed and the tensors made with it are
  // released. Null: the run waits for its own work, and for no other stream.
  void* stream;
  // Non-zero: outputs that the run allocates are in the memory of ferrite_session_device().
  uint32_t outputs_on_device;
  // Non-zero: a run on a stream does not wait for its checks of indices. A later run of the model on that
  // stream reports an index that was out of range (FE-X10); nothing is read or written there in any case.
  // An error that no later run reports is a warning in the log when the model is freed.
  uint32_t defer_checks;
  // For a run on a stream: memory of the session's device that the run uses between its kernels, of
  // ferrite_model_workspace() bytes and aligned to 256; it may be freed in the order of that stream. Null, or
  // less memory than the run needs: the session provides it, and keeps it from one run to the next.
  void* workspace;
  uint64_t workspace_bytes;
} ferrite_run_options;
// ferrite_run and ferrite_run_alloc with options, which may be null. Release a tensor made on the device when
// the work that uses it is finished or, if the run had a stream, queued on that stream.
FERRITE_API int32_t ferrite_run_with(ferrite_model* model, const ferrite_run_options* options,
                                     const DLTensor* const* inputs, uint64_t input_count,
                                     DLTensor* const* outputs, uint64_t output_count);
// See ferrite_run_with().
FERRITE_API int32_t ferrite_run_alloc_with(ferrite_model* model, const ferrite_run_options* options,
                                           const DLTensor* const* inputs, uint64_t input_count,
                                           DLManagedTensorVersioned** outputs, uint64_t output_count);
// Compiles for these shapes and for the memory of these tensors without running; their data may be null.
FERRITE_API int32_t ferrite_model_compile(ferrite_model* model, const DLTensor* const* inputs,
                                          uint64_t input_count);
// Sets `bytes` to the size of ferrite_run_options::workspace for tensors of these shapes in this memory, and
// compiles for them; 0 if the session's device has no streams. The data of the tensors may be null.
FERRITE_API int32_t ferrite_model_workspace(ferrite_model* model, const DLTensor* const* inputs,
                                            uint64_t input_count, uint64_t* bytes);
// Compiles for these shapes and each of the targets ("x86-64-v4", "sm_90a", ...; with no target, for the
// session's devices on this machine) and writes a package to `path` (.fepkg), which ferrite_model_load()
// reads, also in libferrite_runtime. The data of `inputs` may be null. Loads no code. FERRITE_EUNSUPPORTED
// (FE-X41) in libferrite_runtime, which compiles nothing; FE-D24, or a backend's own code, for an unknown
// target; FE-K54, FE-K55 and the errors of compiling.
FERRITE_API int32_t ferrite_model_save(ferrite_model* model, const DLTensor* const* inputs,
                                       uint64_t input_count, const char* const* targets,
                                       uint64_t target_count, const char* path);

// Compiles for these shapes, as ferrite_model_compile() does for tensors in host memory, and gives the
// program as a package for this machine, also of a part that ferrite_model_partition() made: calls `write`
// once with the bytes, which ferrite_model_load_bytes() reads. The data of `inputs` may be null.
// FERRITE_EUNSUPPORTED (FE-X41) for a model that is a package; FE-K54 for a program that cannot be kept, and
// the errors of compiling.
FERRITE_API int32_t ferrite_model_package(ferrite_model* model, const DLTensor* const* inputs,
                                          uint64_t input_count, void* context,
                                          void (*write)(void* context, const void* data, uint64_t bytes));

// Tells which nodes of the model cannot be imported, trying each by itself for the model's fixed shapes.
// Calls `write` once with a text: for each such node a line with its index, op, error code and reason,
// separated by tabs; no line if all can be imported. FERRITE_EUNSUPPORTED (FE-I06) if the format's importer
// cannot tell; FERRITE_EINVALID (FE-X04) if an input's shape is not fixed.
FERRITE_API int32_t ferrite_model_unsupported(ferrite_model* model, void* context,
                                              void (*write)(void* context, const char* text, uint64_t bytes));

// Runs the passes of one phase that works on graphs on the imported model, and tells what they change in
// terms of the model's own nodes. The model's outputs are all values that may be named; outputs[output_count]
// are the numbers of those that it really has. Calls `write` once with JSON, a list of regions. Each replaces
// nodes of the model by ops that compute the outputs from the inputs:
//   [{"nodes": [name...], "passes": [name...], "inputs": [name...],
//     "constants": [[dtype, dims, bytes as hex]...],
//     "ops": [[op, [number of a value or null...], {attribute: [kind, value]}, number of results]...],
//     "outputs": [[name, number of a value]...]}]
// Values are numbered: inputs, then constants, then the results of each op. Kinds are those of FE_ATTR_*
// (ferrite/abi/graph.h); floats that JSON does not have are {"f": "inf", "-inf" or "nan"}. FE-G59 if a change
// cannot be told in these terms; errors of importing and of passes.
FERRITE_API int32_t ferrite_model_changed_regions(
    ferrite_model* model, const char* phase, const uint64_t* outputs, uint64_t output_count, void* context,
    void (*write)(void* context, const char* text, uint64_t bytes));

// How an input of a joint model counts when the model is divided.
#define FERRITE_INPUT_TRANSIENT 0  // to keep it for the backward part costs its bytes
#define FERRITE_INPUT_HELD 1       // it stays in memory in any case, as weights do
#define FERRITE_INPUT_TANGENT 2    // the gradient of a forward output: only the backward part has it
// The order in which the dims of values that the forward part keeps lie in memory.
typedef struct ferrite_saved_order {
  const int64_t* dims;   // [rank]: of the values
  const int64_t* order;  // [rank]: by position, the dim that is stored there; the last is contiguous
  uint64_t rank;
} ferrite_saved_order;
// How a joint model, which computes forward outputs and gradients, is divided.
typedef struct ferrite_partition_options {
  uint64_t size;
  uint64_t forward_outputs;    // so many outputs, the first ones, are the forward part's
  const uint8_t* input_kinds;  // [number of inputs]: FERRITE_INPUT_*
  // From 0, to keep as few bytes as possible, to 1, to compute nothing again that costs more than the kernels
  // that read it. A smaller budget never keeps more bytes.
  double memory_budget;
  const char* const*
      saved;  // [saved_count]: names of nodes of the model whose results are not computed again
  uint64_t saved_count;
  const char* const* recomputed;  // [recomputed_count]: names of nodes whose results are never kept
  uint64_t recomputed_count;
  // [order_count]: kept values of these dims are outputs with their dims in this order.
  const ferrite_saved_order* orders;
  uint64_t order_count;
  const char*
      reorder_op;         // the op, with one operand and the attribute "perm"; null where there are no orders
  uint64_t donate_saved;  // not 0: the backward part may overwrite the memory of its inputs "saved.0", ...
  // The stage from which passes run: "pre_grad" where the passes of that hook have not run before
  // differentiation; null: "decompose_early".
  const char* first_stage;
} ferrite_partition_options;
// Divides a joint model in a forward and a backward part, models of the same session: imports it, runs the
// passes of the stages from first_stage to joint_post on the whole of it, and chooses the values that the
// forward part keeps for the backward part (docs/pytorch.md). Compiling a part runs the stages from
// post_grad_pre on. The sizes of all inputs must be fixed (FE-X04).
// The forward part has the forward outputs and then those that it keeps, named "saved.0", ... Each part has
// the inputs of the model that it reads, under their names. Inputs of the backward part are those, tangents
// among them, and outputs of the forward part, under the names that they have there. With `donate_saved`, a
// run of the backward part leaves those outputs that are only kept for it with any contents, so that its peak
// memory is less; to run it twice on them, copy them first. FE-G58 if the model or the options do not allow
// it, among them an order that has not each dim once; errors of importing and of passes.
FERRITE_API int32_t ferrite_model_partition(ferrite_model* model, const ferrite_partition_options* options,
                                            ferrite_model** forward, ferrite_model** backward);
// A joint model that is not divided, such as a training step that is one program: imports `model`, and gives
// a model of the same session. Compiling it runs the stages from `first_stage` on, joint_pre and joint_post
// among them; first_stage is as in ferrite_partition_options. The first `forward_outputs` outputs are those
// of a forward pass. The sizes of all inputs must be fixed (FE-X04). FE-G58 if the model has fewer outputs,
// FE-C04 if there is no such stage of graphs; errors of importing.
FERRITE_API int32_t ferrite_model_joint(ferrite_model* model, uint64_t forward_outputs,
                                        const char* first_stage, ferrite_model** joint);

// Statistics of the program that this model compiled or ran last.
typedef struct ferrite_stats {
  uint64_t size;
  uint64_t nodes;       // of the imported graph
  uint64_t statements;  // after lowering
  uint64_t kernels;     // launches per run
  double compile_ms;    // from import to link, including load_ms
  double init_ms;  // time to fold and pack constants when the program was loaded; not part of the other times
  double load_ms;  // time to load kernels; for a package also to read it
  double run_ms;   // duration of the last run; 0 before the first
} ferrite_stats;
// FERRITE_EINVALID if nothing has been compiled yet.
FERRITE_API int32_t ferrite_model_stats(const ferrite_model* model, ferrite_stats* out);

// The decision ledger of that program as a JSON list of {kind, subject, object, outcome, category, text,
// score}. Calls `write` once with the whole text.
FERRITE_API int32_t ferrite_model_ledger(const ferrite_model* model, void* context,
                                         void (*write)(void* context, const char* text, uint64_t bytes));

#ifdef __cplusplus
}
#endif
#endif
