// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The embedding API: load a model, bind tensors, run, read results. C11; ferrite.hpp is a C++ wrapper over it.
//
//   ferrite_session* session;  ferrite_session_open(NULL, &session);
//   ferrite_model* model;      ferrite_model_load(session, "model.onnx", &model);
//   ferrite_run(model, inputs, 1, outputs, 1);
//
// Rules that hold for every function:
//  - what fails returns a FERRITE_E* class; ferrite_last_error() then gives code, text and place. Exceptions and signals are
//    not used. Output arguments are written on success only.
//  - structs begin with `size`, which the caller sets to sizeof the struct; what the caller's struct lacks takes its default.
//  - strings are UTF-8 and NUL-terminated. Pointers that a function gives live as long as the object they came from, unless
//    it says otherwise.
//  - threads: every function may be called from any thread; calls on one model may run at the same time. A close or free
//    function must not run beside another call on the same object. A session is closed after its models are freed.
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
#define FERRITE_EUNSUPPORTED 1  // the model needs something that no enabled plugin offers
#define FERRITE_EINVALID 2      // bad input; the place says where
#define FERRITE_EINTERNAL 3     // a defect in Ferrite or a plugin
#define FERRITE_ENOMEM 4
#define FERRITE_EDEVICE 5

// The loaded plugins of a pipeline and its devices. Opaque.
typedef struct ferrite_session ferrite_session;
// A model or a package, with the programs that were compiled for it. Opaque.
typedef struct ferrite_model ferrite_model;

// The version of the library, as "0.1.0". The string is constant.
FERRITE_API const char* ferrite_version(void);

// The description of a failure; ferrite_last_error() fills it.
typedef struct ferrite_error {
  uint64_t size;
  int32_t status;  // FERRITE_E*
  int32_t reserved;
  const char* code;   // "FE-X04"
  const char* text;   // what is wrong and what to do
  const char* where;  // file:line:col, a node, a plugin; may be empty
} ferrite_error;
// The error of the calling thread's last failed call. The strings live until this thread's next failing call.
FERRITE_API void ferrite_last_error(ferrite_error* out);

// Memory of devices from the program's own pool instead of their runtimes': arenas, weights, results. Its functions are called from
// any thread. It lives until the session is closed and the tensors that runs made in it are ended.
typedef struct ferrite_allocator {
  uint64_t size;
  void* self;
  int32_t device_type;  // DLPack's number of the devices that it serves; 0: all, with the host (kDLCPU)
  uint32_t reserved;
  // `bytes` of the device's memory, aligned to `alignment`, a power of two; null where there is none. `stream`: of the driver, whose
  // work uses the memory from here on, so that it may be what earlier work in the same stream used; null: the device has no streams.
  void* (*alloc)(void* self, DLDevice device, uint64_t bytes, uint64_t alignment, void* stream);
  // What alloc gave, with the same device, bytes and stream. Work that used it is done, or given to that stream.
  void (*free)(void* self, DLDevice device, void* data, uint64_t bytes, void* stream);
} ferrite_allocator;

// The pipeline and the devices of a session.
typedef struct ferrite_session_options {
  uint64_t size;
  const char* manifest;        // a pipeline manifest (TOML); null: the default pipeline
  const char* const* plugins;  // [plugin_count] libraries, descriptors or folders that are enabled as well
  uint64_t plugin_count;
  const char* device;   // "cpu", "interpreter", ...; null: what the manifest says
  int64_t threads;      // workers; 0: what the manifest says, else the machine's processors
  const char* log;      // channels as of `ferrite --log`; null: none. Process-wide.
  const char* profile;  // [profile.NAME] of the manifest that is put over the rest; null: none
  uint32_t
      safe_mode;  // not 0: the built-in plugins of the default pipeline, without manifest, profile and plugins
  uint32_t reserved;
  const ferrite_allocator* allocator;  // copied; null: the devices' runtimes
} ferrite_session_options;
// Loads the pipeline's plugins. `options` may be null. Takes some 10 ms; one session serves any number of models.
FERRITE_API int32_t ferrite_session_open(const ferrite_session_options* options, ferrite_session** out);
// Closes a session, of which no model is left. Null is allowed.
FERRITE_API void ferrite_session_close(ferrite_session* session);
// The device in whose memory a run can read and write tensors beside the host's: the first of the session's devices. kDLCPU where
// that one works on the host's memory.
FERRITE_API int32_t ferrite_session_device(ferrite_session* session, DLDevice* out);

// Opens a model by its file's extension (.onnx, .fe, ...) and reads its signature. Nothing is compiled yet; of a
// package (.fepkg) nothing ever is.
FERRITE_API int32_t ferrite_model_load(ferrite_session* session, const char* path, ferrite_model** out);
// Frees a model and its programs. Null is allowed.
FERRITE_API void ferrite_model_free(ferrite_model* model);

// An input or output as the model declares it.
typedef struct ferrite_port {
  uint64_t size;
  const char* name;
  const char* dtype_name;        // "f32", "bf16", "i64", "bool", ...
  DLDataType dtype;              // code 255: DLPack has none for it
  int32_t rank;                  // -1: unknown
  const int64_t* dims;           // [rank]; -1: not fixed
  const char* const* dim_names;  // [rank]; names of dims that are not fixed, "" where they have none
} ferrite_port;
// The number of inputs that the model declares.
FERRITE_API uint64_t ferrite_model_input_count(const ferrite_model* model);
// The number of outputs that the model declares.
FERRITE_API uint64_t ferrite_model_output_count(const ferrite_model* model);
// Describes input `index`, counted from 0; FERRITE_EINVALID where there is none.
FERRITE_API int32_t ferrite_model_input(const ferrite_model* model, uint64_t index, ferrite_port* out);
// Describes output `index`, counted from 0; FERRITE_EINVALID where there is none.
FERRITE_API int32_t ferrite_model_output(const ferrite_model* model, uint64_t index, ferrite_port* out);

// Runs the model on `inputs`, in the order of its ports. A program is compiled for each new combination of input shapes, which
// takes up to seconds, and kept. Tensors lie in host memory (kDLCPU) or in the memory of ferrite_session_device(); what produces
// their contents is done. In host memory strided inputs are copied, contiguous ones are read in place; a device's are contiguous, and
// copied where they are not aligned to 64 bytes. Where some are the device's and some the host's, the latter are copied.
// Output tensors are the caller's: dtype and shape must be those of the result and the memory contiguous.
// Outputs must not overlap inputs or each other.
FERRITE_API int32_t ferrite_run(ferrite_model* model, const DLTensor* const* inputs, uint64_t input_count,
                                DLTensor* const* outputs, uint64_t output_count);
// The same, with output tensors made here: outputs[k] is set to a tensor that the caller ends with its deleter.
FERRITE_API int32_t ferrite_run_alloc(ferrite_model* model, const DLTensor* const* inputs,
                                      uint64_t input_count, DLManagedTensorVersioned** outputs,
                                      uint64_t output_count);
// Of one run.
typedef struct ferrite_run_options {
  uint64_t size;
  // A stream of the device's driver: the run is done behind what it was given before, and what it is given later behind the run. The
  // call returns when the work is given to it, where all tensors are the device's and the model checks no indices of its
  // inputs; what fails of that work later is told by the driver, or by a later call. The stream is kept until the model is freed
  // and the tensors that were made with it are ended. Null: the run waits for its own work alone, and for no stream.
  void* stream;
  uint32_t outputs_on_device;  // not 0: outputs that are made lie in the memory of ferrite_session_device()
  uint32_t reserved;
} ferrite_run_options;
// ferrite_run and ferrite_run_alloc with options, which may be null. A tensor that is made on the device is ended when what uses it is done,
// or, where the run has a stream, when that is given to the same stream.
FERRITE_API int32_t ferrite_run_with(ferrite_model* model, const ferrite_run_options* options,
                                     const DLTensor* const* inputs, uint64_t input_count,
                                     DLTensor* const* outputs, uint64_t output_count);
// See ferrite_run_with().
FERRITE_API int32_t ferrite_run_alloc_with(ferrite_model* model, const ferrite_run_options* options,
                                           const DLTensor* const* inputs, uint64_t input_count,
                                           DLManagedTensorVersioned** outputs, uint64_t output_count);
// Compiles for these shapes and the memory that the tensors lie in without running: data may be null.
FERRITE_API int32_t ferrite_model_compile(ferrite_model* model, const DLTensor* const* inputs,
                                          uint64_t input_count);

// Of the program that was compiled or run last on this model.
typedef struct ferrite_stats {
  uint64_t size;
  uint64_t nodes;       // of the imported graph
  uint64_t statements;  // after lowering
  uint64_t kernels;     // launches of one run
  double compile_ms;    // from import to link, with load_ms
  double init_ms;       // constants folded and packed when the program was loaded; in neither of the others
  double load_ms;       // kernels put into memory; of a package reading it, too
  double run_ms;        // of the last run; 0 before the first
} ferrite_stats;
// FERRITE_EINVALID before anything was compiled.
FERRITE_API int32_t ferrite_model_stats(const ferrite_model* model, ferrite_stats* out);

// The decision ledger of that program as a JSON list of {kind, subject, object, outcome, category, text, score}, given to
// `write` once.
FERRITE_API int32_t ferrite_model_ledger(const ferrite_model* model, void* context,
                                         void (*write)(void* context, const char* text, uint64_t bytes));

#ifdef __cplusplus
}
#endif
#endif
