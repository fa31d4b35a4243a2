// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The embedding API of ferrite.h on top of an engine: one that compiles, or one that only runs packages.
#include "ferrite/ferrite.h"

#include <cstdlib>
#include <cstring>
#include <new>

#include "core/support/log.h"
#include "ferrite/counted.hpp"
#include "runtime/capi/allocator.h"
#include "runtime/capi/handles.h"
#include "runtime/capi/tensors.h"
#include "runtime/forks.h"

using namespace ferrite::core;

namespace {

thread_local Error last_error;

int32_t fail(Error error) {
  last_error = std::move(error);
  if (last_error.status == FERRITE_OK) last_error.status = FERRITE_EINTERNAL;
  // Classes of the plugin ABI without a meaning for embedding programs (cancelled, stale) become
  // FERRITE_EINTERNAL.
  if (last_error.status > FERRITE_EDEVICE) last_error.status = FERRITE_EINTERNAL;
  return last_error.status;
}

/// Runs `body`, which returns a Result<void>, and converts errors and exceptions to a status.
template <class Body>
int32_t guarded(Body&& body) noexcept {
  try {
    const runtime::ForkSafeCall call;
    if (!runtime::ForkSafeCall::is_possible())
      return fail(error(FE_EUNSUPPORTED, "FE-X42",
                        "this process was forked while other threads were in calls of Ferrite, which hold "
                        "locks that nobody opens here: fork when none is running, or start a new program, "
                        "as multiprocessing's 'spawn' does"));
    Result<void> done = body();
    return done ? FERRITE_OK : fail(std::move(done.error()));
  } catch (const std::bad_alloc&) {
    return fail(Error{FERRITE_ENOMEM, "FE-X36", "out of memory; free memory, or use smaller sizes", {}});
  } catch (const std::exception& exception) {
    return fail(Error{FERRITE_EINTERNAL, "FE-X37", exception.what(), {}});
  }
}

template <class Handle>
void free_handle(Handle* handle) {
  const runtime::ForkSafeCall call;
  if (runtime::ForkSafeCall::is_possible()) delete handle;
}

Error null_argument(std::string_view function, std::string_view argument) {
  return at(std::string(function), error(FE_EINVALID, "FE-X30", "'{}' is null or has no size", argument));
}

constexpr int64_t most_threads = 4096;  // as in a manifest

/// Writes as many fields as the caller's struct has room for; its `size` is unchanged.
template <class T>
void give(T* out, const T& value) {
  constexpr size_t head = sizeof(uint64_t);
  if (out->size <= head) return;
  std::memcpy(reinterpret_cast<char*>(out) + head, reinterpret_cast<const char*>(&value) + head,
              std::min<size_t>(out->size, sizeof(T)) - head);
}

}  // namespace

const char* ferrite_version(void) { return FERRITE_VERSION; }

void ferrite_last_error(ferrite_error* out) {
  if (!out) return;
  ferrite_error value{sizeof value,
                      last_error.status,
                      0,
                      last_error.code.c_str(),
                      last_error.text.c_str(),
                      last_error.where.c_str()};
  if (last_error.code.empty()) value.status = FERRITE_OK;
  give(out, value);
}

int32_t ferrite_session_open(const ferrite_session_options* given, ferrite_session** out) {
  return guarded([&]() -> Result<void> {
    if (!out) return null_argument("ferrite_session_open", "out");
    ferrite_session_options options{};
    if (given) std::memcpy(&options, given, std::min<size_t>(given->size, sizeof options));
    if (options.threads < 0 || options.threads > most_threads)
      return at("ferrite_session_open",
                error(FE_EINVALID, "FE-X30", "'threads' is {}; give a number from 0 to {}", options.threads,
                      most_threads));
    if (options.log) FE_CHECK(log::enable(options.log));
    std::shared_ptr<runtime::Allocator> allocator;
    if (options.allocator) {
      FE_TRY(allocator, capi::GivenAllocator::make(*options.allocator));
    }
    for (uint64_t k = 0; options.plugins && k < options.plugin_count; ++k)
      if (!options.plugins[k]) return null_argument("ferrite_session_open", "plugins");
    auto session = std::make_unique<ferrite_session>();
    FE_TRY(session->engine, capi::open_engine(options, std::move(allocator)));
    *out = session.release();
    return {};
  });
}

void ferrite_session_close(ferrite_session* session) { free_handle(session); }

int32_t ferrite_session_device(ferrite_session* session, DLDevice* out) {
  return guarded([&]() -> Result<void> {
    if (!session) return null_argument("ferrite_session_device", "session");
    if (!out) return null_argument("ferrite_session_device", "out");
    FE_TRY(const auto device, session->device());
    *out = device.device;
    return {};
  });
}

namespace {

/// The handle of an opened model.
ferrite_model* handle_of(ferrite_session* session, std::unique_ptr<capi::LoadedModel> opened) {
  auto model = std::make_unique<ferrite_model>();
  model->session = session;
  model->model = std::move(opened);
  auto texts = [](const std::vector<ModelPort>& ports) {
    std::vector<capi::PortText> result;
    for (const auto& port : ports) {
      auto& text = result.emplace_back(capi::PortText{std::string(ferrite::name_of(port.dtype)), {}});
      for (const auto& name : port.dim_names) text.dim_names.push_back(name.c_str());
    }
    return result;
  };
  model->input_texts = texts(model->model->inputs());
  model->output_texts = texts(model->model->outputs());
  return model.release();
}

}  // namespace

int32_t ferrite_session_passes(ferrite_session* session, const char* phase, void* context,
                               void (*write)(void* context, const char* text, uint64_t bytes)) {
  return guarded([&]() -> Result<void> {
    if (!session) return null_argument("ferrite_session_passes", "session");
    if (!phase) return null_argument("ferrite_session_passes", "phase");
    if (!write) return null_argument("ferrite_session_passes", "write");
    const auto lines = session->engine->passes(phase);
    write(context, lines.data(), lines.size());
    return {};
  });
}

int32_t ferrite_session_identity(ferrite_session* session, void* context,
                                 void (*write)(void* context, const char* text, uint64_t bytes)) {
  return guarded([&]() -> Result<void> {
    if (!session) return null_argument("ferrite_session_identity", "session");
    if (!write) return null_argument("ferrite_session_identity", "write");
    FE_TRY(const auto text, session->engine->identity());
    write(context, text.data(), text.size());
    return {};
  });
}

int32_t ferrite_model_load(ferrite_session* session, const char* path, ferrite_model** out) {
  return guarded([&]() -> Result<void> {
    if (!session) return null_argument("ferrite_model_load", "session");
    if (!path) return null_argument("ferrite_model_load", "path");
    if (!out) return null_argument("ferrite_model_load", "out");
    FE_TRY(auto opened, session->engine->open_model(path));
    *out = handle_of(session, std::move(opened));
    return {};
  });
}

int32_t ferrite_model_load_bytes(ferrite_session* session, const char* path, const void* data, uint64_t bytes,
                                 ferrite_model** out) {
  return guarded([&]() -> Result<void> {
    if (!session) return null_argument("ferrite_model_load_bytes", "session");
    if (!path) return null_argument("ferrite_model_load_bytes", "path");
    if (!data && bytes != 0) return null_argument("ferrite_model_load_bytes", "data");
    if (!out) return null_argument("ferrite_model_load_bytes", "out");
    FE_TRY(auto opened, session->engine->open_model(path, {static_cast<const std::byte*>(data), bytes}));
    *out = handle_of(session, std::move(opened));
    return {};
  });
}

void ferrite_model_free(ferrite_model* model) { free_handle(model); }

uint64_t ferrite_model_input_count(const ferrite_model* model) {
  return model ? model->model->inputs().size() : 0;
}
uint64_t ferrite_model_output_count(const ferrite_model* model) {
  return model ? model->model->outputs().size() : 0;
}

namespace {

Result<void> give_port(std::string_view function, const std::vector<ModelPort>& ports,
                       const std::vector<capi::PortText>& texts, uint64_t index, ferrite_port* out) {
  if (!out || out->size == 0) return null_argument(function, "out");
  if (index >= ports.size())
    return at(std::string(function),
              error(FE_EINVALID, "FE-X30", "index {} of {}", index, ferrite::counted(ports.size(), "port")));
  const auto& port = ports[index];
  ferrite_port value{};
  value.name = port.name.c_str();
  value.dtype_name = texts[index].dtype_name.c_str();
  value.dtype = capi::data_type_of(port.dtype);
  value.rank = port.ranked ? static_cast<int32_t>(port.dims.size()) : -1;
  value.dims = port.dims.data();
  value.dim_names = texts[index].dim_names.data();
  give(out, value);
  return {};
}

}  // namespace

int32_t ferrite_model_input(const ferrite_model* model, uint64_t index, ferrite_port* out) {
  return guarded([&]() -> Result<void> {
    if (!model) return null_argument("ferrite_model_input", "model");
    return give_port("ferrite_model_input", model->model->inputs(), model->input_texts, index, out);
  });
}

int32_t ferrite_model_output(const ferrite_model* model, uint64_t index, ferrite_port* out) {
  return guarded([&]() -> Result<void> {
    if (!model) return null_argument("ferrite_model_output", "model");
    return give_port("ferrite_model_output", model->model->outputs(), model->output_texts, index, out);
  });
}

namespace {

std::span<const DLTensor* const> list(const DLTensor* const* tensors, uint64_t count) {
  return {tensors, tensors ? count : 0};
}

ferrite_run_options options_of(const ferrite_run_options* given) {
  ferrite_run_options options{};
  if (given) std::memcpy(&options, given, std::min<size_t>(given->size, sizeof options));
  return options;
}

Result<void> run_into(std::string_view function, ferrite_model* model, const ferrite_run_options& options,
                      const DLTensor* const* inputs, uint64_t input_count, DLTensor* const* outputs,
                      uint64_t output_count) {
  if (!model) return null_argument(function, "model");
  std::vector<const DLTensor*> all(outputs, outputs + (outputs ? output_count : 0));
  all.insert(all.end(), inputs, inputs + (inputs ? input_count : 0));
  FE_TRY(const auto device, model->device(options, all));
  FE_TRY(const auto bound, capi::bind_inputs(*model->model, inputs, input_count, device, true));
  FE_TRY(const auto program, model->prepare(bound, device.any_has(all)));
  FE_TRY(const auto targets,
         capi::bind_outputs(*model->model, program->outputs(), outputs, output_count, device));
  const ferrite_model::RunKey place{program, options.stream};
  return model->run(place, model->take(place), bound, targets, options);
}

Result<void> run_alloc(std::string_view function, ferrite_model* model, const ferrite_run_options& options,
                       const DLTensor* const* inputs, uint64_t input_count,
                       DLManagedTensorVersioned** outputs, uint64_t output_count) {
  if (!model) return null_argument(function, "model");
  FE_TRY(const auto device, model->device(options, list(inputs, input_count)));
  const bool on_device = options.outputs_on_device != 0 && device.is_apart();
  FE_TRY(const auto bound, capi::bind_inputs(*model->model, inputs, input_count, device, true));
  FE_TRY(const auto program, model->prepare(bound, on_device || device.any_has(list(inputs, input_count))));
  const auto& ports = program->outputs();
  if (output_count != ports.size())
    return at(std::string(function), error(FE_EINVALID, "FE-X01", "the model has {}, not {}",
                                           ferrite::counted(ports.size(), "output"), output_count));
  if (!outputs && output_count > 0) return null_argument(function, "outputs");
  const ferrite_model::RunKey place{program, options.stream};
  auto staging = model->take(place);
  std::vector<capi::OwnedTensor> made;
  std::vector<DLTensor*> tensors;
  for (const auto& port : ports) {
    if (on_device) {
      FE_TRY(auto memory, staging->device_memory(model->session->engine));
      FE_TRY(auto tensor, capi::make_device_tensor(port, std::move(memory)));
      made.push_back(std::move(tensor));
    } else {
      FE_TRY(auto tensor, capi::make_tensor(port));
      made.push_back(std::move(tensor));
    }
    tensors.push_back(&made.back()->dl_tensor);
  }
  FE_TRY(const auto targets,
         capi::bind_outputs(*model->model, ports, tensors.data(), tensors.size(), device));
  FE_CHECK(model->run(place, std::move(staging), bound, targets, options));
  // Output arguments are written on success only.
  for (size_t k = 0; k < made.size(); ++k) outputs[k] = made[k].release();
  return {};
}

/// The program for these shapes and the memory of these tensors, whose data may be null.
Result<std::shared_ptr<const capi::RunnableProgram>> compiled(ferrite_model* model,
                                                              const DLTensor* const* inputs,
                                                              uint64_t input_count) {
  FE_TRY(const auto device, model->device({}, list(inputs, input_count)));
  FE_TRY(const auto bound, capi::bind_inputs(*model->model, inputs, input_count, device, false));
  return model->prepare(bound, device.any_has(list(inputs, input_count)));
}

}  // namespace

int32_t ferrite_run(ferrite_model* model, const DLTensor* const* inputs, uint64_t input_count,
                    DLTensor* const* outputs, uint64_t output_count) {
  return guarded(
      [&] { return run_into("ferrite_run", model, {}, inputs, input_count, outputs, output_count); });
}

int32_t ferrite_run_with(ferrite_model* model, const ferrite_run_options* options,
                         const DLTensor* const* inputs, uint64_t input_count, DLTensor* const* outputs,
                         uint64_t output_count) {
  return guarded([&] {
    return run_into("ferrite_run_with", model, options_of(options), inputs, input_count, outputs,
                    output_count);
  });
}

int32_t ferrite_run_alloc(ferrite_model* model, const DLTensor* const* inputs, uint64_t input_count,
                          DLManagedTensorVersioned** outputs, uint64_t output_count) {
  return guarded(
      [&] { return run_alloc("ferrite_run_alloc", model, {}, inputs, input_count, outputs, output_count); });
}

int32_t ferrite_run_alloc_with(ferrite_model* model, const ferrite_run_options* options,
                               const DLTensor* const* inputs, uint64_t input_count,
                               DLManagedTensorVersioned** outputs, uint64_t output_count) {
  return guarded([&] {
    return run_alloc("ferrite_run_alloc_with", model, options_of(options), inputs, input_count, outputs,
                     output_count);
  });
}

int32_t ferrite_model_compile(ferrite_model* model, const DLTensor* const* inputs, uint64_t input_count) {
  return guarded([&]() -> Result<void> {
    if (!model) return null_argument("ferrite_model_compile", "model");
    FE_CHECK(compiled(model, inputs, input_count));
    return {};
  });
}

int32_t ferrite_model_workspace(ferrite_model* model, const DLTensor* const* inputs, uint64_t input_count,
                                uint64_t* bytes) {
  return guarded([&]() -> Result<void> {
    if (!model) return null_argument("ferrite_model_workspace", "model");
    if (!bytes) return null_argument("ferrite_model_workspace", "bytes");
    FE_TRY(const auto program, compiled(model, inputs, input_count));
    const auto executable = program->executable();
    *bytes = executable && executable->devices[0]->has_streams()
                 ? static_cast<uint64_t>(executable->workspace_bytes())
                 : 0;
    return {};
  });
}

int32_t ferrite_model_save(ferrite_model* model, const DLTensor* const* inputs, uint64_t input_count,
                           const char* const* targets, uint64_t target_count, const char* path) {
  return guarded([&]() -> Result<void> {
    if (!model) return null_argument("ferrite_model_save", "model");
    if (!path) return null_argument("ferrite_model_save", "path");
    if (!targets && target_count > 0) return null_argument("ferrite_model_save", "targets");
    std::vector<std::string> names;
    for (uint64_t k = 0; k < target_count; ++k) {
      if (!targets[k]) return null_argument("ferrite_model_save", fmt::format("targets[{}]", k));
      names.emplace_back(targets[k]);
    }
    FE_TRY(const auto device, model->device({}, list(inputs, input_count)));
    FE_TRY(const auto bound, capi::bind_inputs(*model->model, inputs, input_count, device, false));
    return model->model->save(capi::dims_of(bound), names, path);
  });
}

int32_t ferrite_model_package(ferrite_model* model, const DLTensor* const* inputs, uint64_t input_count,
                              void* context, void (*write)(void* context, const void* data, uint64_t bytes)) {
  return guarded([&]() -> Result<void> {
    if (!model) return null_argument("ferrite_model_package", "model");
    if (!write) return null_argument("ferrite_model_package", "write");
    FE_TRY(const auto device, model->device({}, list(inputs, input_count)));
    FE_TRY(const auto bound, capi::bind_inputs(*model->model, inputs, input_count, device, false));
    FE_TRY(const auto bytes, model->model->package(capi::dims_of(bound)));
    FE_TRY(const auto program, model->prepare(bound, false));  // for statistics: compiled by now
    write(context, bytes.data(), bytes.size());
    return {};
  });
}

int32_t ferrite_model_unsupported(ferrite_model* model, void* context,
                                  void (*write)(void* context, const char* text, uint64_t bytes)) {
  return guarded([&]() -> Result<void> {
    if (!model) return null_argument("ferrite_model_unsupported", "model");
    if (!write) return null_argument("ferrite_model_unsupported", "write");
    std::vector<std::vector<int64_t>> dims;
    for (const auto& port : model->model->inputs()) dims.push_back(port.dims);
    FE_TRY(const auto lines, model->model->unsupported(dims));
    write(context, lines.data(), lines.size());
    return {};
  });
}

int32_t ferrite_model_changed_regions(ferrite_model* model, const char* phase, const uint64_t* outputs,
                                      uint64_t output_count, void* context,
                                      void (*write)(void* context, const char* text, uint64_t bytes)) {
  return guarded([&]() -> Result<void> {
    constexpr std::string_view function = "ferrite_model_changed_regions";
    if (!model) return null_argument(function, "model");
    if (!phase) return null_argument(function, "phase");
    if (!outputs && output_count != 0) return null_argument(function, "outputs");
    if (!write) return null_argument(function, "write");
    const auto count = model->model->outputs().size();
    for (uint64_t k = 0; k < output_count; ++k)
      if (outputs[k] >= count)
        return at(std::string(function), error(FE_EINVALID, "FE-X30", "output {} of {}", outputs[k], count));
    FE_TRY(const auto text, model->model->changed_regions(phase, {outputs, output_count}));
    write(context, text.data(), text.size());
    return {};
  });
}

namespace {

// Passes of pre_grad are for graphs before differentiation.
constexpr const char* first_joint_stage = "decompose_early";

Result<void> check_forward_outputs(const ferrite_model& model, uint64_t count, std::string_view function) {
  const auto all = model.model->outputs().size();
  if (count <= all) return {};
  return at(std::string(function),
            error(FE_EINVALID, "FE-G58", "the model has {}, and {} of them are to be the forward part's",
                  ferrite::counted(all, "output"), count));
}

}  // namespace

int32_t ferrite_model_partition(ferrite_model* model, const ferrite_partition_options* options,
                                ferrite_model** forward, ferrite_model** backward) {
  return guarded([&]() -> Result<void> {
    constexpr std::string_view function = "ferrite_model_partition";
    if (!model) return null_argument(function, "model");
    if (!options || options->size == 0) return null_argument(function, "options");
    if (!forward) return null_argument(function, "forward");
    if (!backward) return null_argument(function, "backward");
    ferrite_partition_options given{};
    given.memory_budget = 1;
    std::memcpy(&given, options, std::min<size_t>(options->size, sizeof given));
    const auto count = model->model->inputs().size();
    if (!given.input_kinds && count != 0) return null_argument(function, "input_kinds");
    if (!given.saved && given.saved_count != 0) return null_argument(function, "saved");
    if (!given.recomputed && given.recomputed_count != 0) return null_argument(function, "recomputed");
    for (uint64_t k = 0; k < given.saved_count; ++k)
      if (!given.saved[k]) return null_argument(function, fmt::format("saved[{}]", k));
    for (uint64_t k = 0; k < given.recomputed_count; ++k)
      if (!given.recomputed[k]) return null_argument(function, fmt::format("recomputed[{}]", k));
    if (!given.orders && given.order_count != 0) return null_argument(function, "orders");
    if (!given.reorder_op && given.order_count != 0) return null_argument(function, "reorder_op");
    for (uint64_t k = 0; k < given.order_count; ++k) {
      if (!given.orders[k].dims && given.orders[k].rank != 0)
        return null_argument(function, fmt::format("orders[{}].dims", k));
      if (!given.orders[k].order && given.orders[k].rank != 0)
        return null_argument(function, fmt::format("orders[{}].order", k));
    }
    FE_CHECK(check_forward_outputs(*model, given.forward_outputs, function));
    capi::PartitionRequest request;
    request.forward_outputs = static_cast<uint32_t>(given.forward_outputs);
    request.input_kinds = {given.input_kinds, count};
    request.memory_budget = given.memory_budget;
    request.saved.assign(given.saved, given.saved + given.saved_count);
    request.recomputed.assign(given.recomputed, given.recomputed + given.recomputed_count);
    request.orders = {given.orders, given.order_count};
    if (given.reorder_op) request.reorder_op = given.reorder_op;
    request.donate_saved = given.donate_saved != 0;
    request.first_stage = given.first_stage ? given.first_stage : first_joint_stage;
    FE_TRY(auto parts, model->model->partition(request));
    *forward = handle_of(model->session, std::move(parts.forward));
    *backward = handle_of(model->session, std::move(parts.backward));
    return {};
  });
}

int32_t ferrite_model_joint(ferrite_model* model, uint64_t forward_outputs, const char* first_stage,
                            ferrite_model** joint) {
  return guarded([&]() -> Result<void> {
    constexpr std::string_view function = "ferrite_model_joint";
    if (!model) return null_argument(function, "model");
    if (!joint) return null_argument(function, "joint");
    FE_CHECK(check_forward_outputs(*model, forward_outputs, function));
    FE_TRY(auto made, model->model->joint(static_cast<uint32_t>(forward_outputs),
                                          first_stage ? first_stage : first_joint_stage));
    *joint = handle_of(model->session, std::move(made));
    return {};
  });
}

int32_t ferrite_model_stats(const ferrite_model* model, ferrite_stats* out) {
  return guarded([&]() -> Result<void> {
    if (!model) return null_argument("ferrite_model_stats", "model");
    if (!out || out->size == 0) return null_argument("ferrite_model_stats", "out");
    std::lock_guard lock(model->mutex);
    if (!model->last)
      return at("ferrite_model_stats",
                error(FE_EINVALID, "FE-X34", "nothing was compiled yet; run the model first"));
    const auto stats = model->last->figures();
    give(out, ferrite_stats{sizeof(ferrite_stats), stats.nodes, stats.statements, stats.kernels,
                            stats.compile_ms, stats.init_ms, stats.load_ms, model->run_ms});
    return {};
  });
}

int32_t ferrite_model_ledger(const ferrite_model* model, void* context,
                             void (*write)(void* context, const char* text, uint64_t bytes)) {
  return guarded([&]() -> Result<void> {
    if (!model) return null_argument("ferrite_model_ledger", "model");
    if (!write) return null_argument("ferrite_model_ledger", "write");
    std::shared_ptr<const capi::RunnableProgram> program;
    {
      std::lock_guard lock(model->mutex);
      program = model->last;
    }
    if (!program)
      return at("ferrite_model_ledger",
                error(FE_EINVALID, "FE-X34", "nothing was compiled yet; run the model first"));
    const auto text = program->ledger();
    write(context, text.data(), text.size());
    return {};
  });
}
