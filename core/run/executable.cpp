// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/run/executable.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "core/plugin/serial.h"
#include "core/support/abi.h"
#include "core/support/elapsed.h"

namespace ferrite::core::run {

namespace {

constexpr uint64_t least_alignment = 64;  // of buffers: kernels may assume it

/// What a launch says of the indices that it checked.
using ErrorWords = std::array<int64_t, 2>;

Error bad_index(const std::string& provenance) {
  return at(provenance, error(FE_EINVALID, "FE-X10", "an index that the inputs give is out of range"));
}

/// FE-P67 where the kernel is said to need other launches than its code does, which says so in fe_function_out or fe_exec_out.
/// `kernel` then has what the code reaches through its arguments.
template <class Out>
Result<void> take_needs(CompiledKernel& kernel, const Out& needs) {
  kernel.arguments.clear();
  if (needs.tasks < 0) return {};
  if (!abi::readable<fe_argument_needs>(needs.arguments))
    return at(kernel.provenance,
              error(FE_EINTERNAL, "FE-P67", "what its code says of its arguments cannot be read"));
  if (needs.tasks != kernel.tasks || needs.grain != kernel.grain ||
      needs.workspace_bytes != kernel.workspace_bytes)
    return at(kernel.provenance,
              error(FE_EINVALID, "FE-P67",
                    "the kernel is said to have {} tasks, a grain of {} and {} bytes of workspace; its code "
                    "has {}, {} and {}",
                    kernel.tasks, kernel.grain, kernel.workspace_bytes, needs.tasks, needs.grain,
                    needs.workspace_bytes));
  for (uint64_t k = 0; k < needs.arguments.count; ++k)
    kernel.arguments.push_back(abi::element<fe_argument_needs>(needs.arguments, k));
  return {};
}

}  // namespace

std::vector<PortInfo> describe_ports(const loop::LoopProgram& program,
                                     std::span<const loop::BufferId> buffers) {
  std::vector<PortInfo> ports;
  for (loop::BufferId id : buffers) {
    const auto& buffer = program.buffers[id];
    ports.push_back({buffer.name, buffer.dtype, buffer.dims, bytes_of(buffer.dtype, buffer.elements())});
  }
  return ports;
}

uint32_t Executable::add_persistent(uint32_t device, int64_t bytes) {
  persistent_.push_back({device, bytes, nullptr});
  return static_cast<uint32_t>(persistent_.size() - 1);
}

Executable::~Executable() {
  for (const auto& block : persistent_) free(block.device, block.data);
  unload_code();
}

void Executable::unload_code() {
  auto out = abi::sized<fe_none>();
  for (auto& kernel : kernels) {
    void* function = std::exchange(kernel.function, nullptr);
    if (!kernel.library || !function || !kernel.library->slots.exec_destroy) continue;
    abi::Call call;
    auto args = abi::sized<fe_exec_out>();
    args.exec = function;
    plugin::invoke(*kernel.library->table, kernel.library->slots.exec_destroy, call, &args, &out);
  }
  for (size_t d = 0; d < modules_.size(); ++d) {
    const auto& runtime = *devices[d]->runtime;
    if (!modules_[d] || !runtime.module_unload) continue;
    abi::Call call;
    auto args = abi::sized<fe_module_out>();
    args.module = modules_[d];
    plugin::invoke(runtime, runtime.module_unload, call, &args, &out);
  }
  modules_.clear();
}

Result<void*> Executable::alloc(uint32_t device, int64_t bytes) const {
  if (bytes <= 0) return static_cast<void*>(nullptr);
  const auto& runtime = *devices[device]->runtime;
  const uint64_t capacity = devices[device]->capacity;
  const uint64_t alignment = devices[device]->alignment;
  abi::Call call;
  auto args = abi::sized<fe_alloc_args>();
  args.device = devices[device]->number;
  args.bytes = static_cast<uint64_t>(bytes);
  auto out = abi::sized<fe_alloc_out>();
  const auto place = fmt::format("device {}:{}", devices[device]->kind, devices[device]->number);
  if (capacity != 0 && args.bytes > capacity)
    return at(place, error(FE_ENOMEM, "FE-D03",
                           "no memory for {} bytes, it has {}; use smaller sizes, or fewer threads", bytes,
                           capacity));
  if (plugin::invoke(runtime, runtime.alloc, call, &args, &out) != FE_OK || !out.data)
    return at(place,
              error(FE_ENOMEM, "FE-D03", "no memory for {} bytes; free memory, or use smaller sizes", bytes));
  if (reinterpret_cast<uintptr_t>(out.data) % alignment == 0) return out.data;
  free(device, out.data);
  return at(place,
            error(FE_EDEVICE, "FE-P66", "its memory is not aligned to {} bytes, as it says", alignment));
}

void Executable::free(uint32_t device, void* data) const {
  if (!data) return;
  const auto& runtime = *devices[device]->runtime;
  if (!runtime.free) return;
  abi::Call call;
  auto args = abi::sized<fe_free_args>();
  args.device = devices[device]->number;
  args.data = data;
  auto out = abi::sized<fe_none>();
  plugin::invoke(runtime, runtime.free, call, &args, &out);
}

int64_t Executable::behind_arena(uint32_t device) const {
  const auto alignment = static_cast<int64_t>(devices[device]->alignment);
  return (arena_bytes[device] + alignment - 1) / alignment * alignment;
}

Executable::Context::Context(const Executable& executable, std::span<const Launch> launches)
    : executable_(executable), bytes_(executable.arena_bytes) {
  const auto take = [&](uint32_t device, int64_t bytes) -> void* {
    auto allocated = allocated_ ? executable.alloc(device, bytes) : Result<void*>(nullptr);
    if (allocated) return *allocated;
    allocated_ = std::move(allocated.error());
    return nullptr;
  };
  for (const auto& launch : launches) {
    if (launch.copy != no_copy || launch.call.function || launch.workspace >= 0) continue;
    const auto& kernel = executable.kernels[launch.kernel];
    if (kernel.workspace_bytes == 0) continue;
    const int64_t end = executable.behind_arena(kernel.device) + kernel.workspace_bytes * executable.workers;
    bytes_[kernel.device] = std::max(bytes_[kernel.device], end);
  }
  for (uint32_t d = 0; d < executable.devices.size(); ++d) {
    arenas_.push_back(take(d, bytes_[d]));
    const bool fails = std::ranges::any_of(launches, [&](const Launch& launch) {
      return executable.may_fail(launch) && executable.kernels[launch.kernel].device == d;
    });
    errors_.push_back(fails && !executable.devices[d]->host_memory
                          ? take(d, static_cast<int64_t>(launches.size() * sizeof(ErrorWords)))
                          : nullptr);
  }
}

Executable::Context::~Context() {
  for (uint32_t d = 0; d < arenas_.size(); ++d)
    for (void* data : {arenas_[d], errors_[d]}) executable_.free(d, data);
}

void Executable::Context::fill_arenas(std::byte value) {
  for (uint32_t d = 0; d < arenas_.size(); ++d)
    if (arenas_[d] && executable_.devices[d]->host_memory)
      std::memset(arenas_[d], static_cast<int>(value), static_cast<size_t>(bytes_[d]));
}

/// What a device's runtime launches, one module a device.
Result<void> Executable::load_modules(std::span<const std::string> blobs) {
  modules_.resize(devices.size());
  for (uint32_t d = 0; d < devices.size(); ++d) {
    const auto& runtime = *devices[d]->runtime;
    std::vector<fe_array> arrays;
    for (size_t k = 0; k < kernels.size(); ++k)
      if (kernels[k].device == d && !kernels[k].library)
        arrays.push_back({blobs[k].data(), blobs[k].size(), 1});
    if (arrays.empty()) continue;
    abi::Call call;
    auto args = abi::sized<fe_module_args>();
    args.device = devices[d]->number;
    args.blobs = abi::array(arrays);
    auto out = abi::sized<fe_module_out>();
    int32_t status = plugin::invoke(runtime, runtime.module_load, call, &args, &out);
    if (status != FE_OK) return call.error(status, "FE-D02", "the kernels could not be loaded");
    modules_[d] = out.module;
  }
  for (auto& kernel : kernels) {
    if (kernel.library) continue;
    const auto& runtime = *devices[kernel.device]->runtime;
    abi::Call call;
    auto args = abi::sized<fe_function_args>();
    args.module = modules_[kernel.device];
    args.entry = abi::string(kernel.entry);
    auto out = abi::sized<fe_function_out>();
    out.tasks = -1;
    int32_t status = plugin::invoke(runtime, runtime.function, call, &args, &out);
    if (status != FE_OK)
      return at(kernel.provenance, call.error(status, "FE-D02", "a kernel is not in the loaded module"));
    kernel.function = out.function;
    FE_CHECK(take_needs(kernel, out));
  }
  return {};
}

/// What library providers launch themselves.
Result<void> Executable::load_libraries(std::span<const std::string> blobs) {
  for (size_t k = 0; k < kernels.size(); ++k) {
    auto& kernel = kernels[k];
    if (!kernel.library) continue;
    abi::Call call;
    auto args = abi::sized<fe_exec_args>();
    args.target = kernel.library->target.target;
    args.blob = {blobs[k].data(), blobs[k].size(), 1};
    args.entry = abi::string(kernel.entry);
    auto out = abi::sized<fe_exec_out>();
    out.tasks = -1;
    int32_t status =
        plugin::invoke(*kernel.library->table, kernel.library->slots.exec_create, call, &args, &out);
    if (status != FE_OK)
      return at(kernel.provenance,
                call.error(status, "FE-D02", "the library could not load what it compiled"));
    kernel.function = out.exec;
    FE_CHECK(take_needs(kernel, out));
  }
  return {};
}

Result<void> Executable::load(std::span<const std::string> blobs) {
  FE_CHECK(load_code(blobs));
  return prepare();
}

Result<void> Executable::load_code(std::span<const std::string> blobs) {
  const auto begin = std::chrono::steady_clock::now();
  auto loaded = load_modules(blobs);
  if (loaded) loaded = load_libraries(blobs);
  if (!loaded) unload_code();
  load_ms = milliseconds_since(begin);
  return loaded;
}

bool Executable::may_fail(const Launch& launch) const {
  return launch.copy == no_copy && !launch.call.function && kernels[launch.kernel].checks_indices;
}

uint32_t Executable::memory_of(const Place& place) const {
  switch (place.kind) {
    case Place::Kind::constant: return host;
    case Place::Kind::input:
    case Place::Kind::output: return memory_of_ports();
    default: return memory_of(place.device);
  }
}

bool Executable::host_reaches(const Place& place) const { return memory_of(place) == host; }

bool Executable::device_reaches(uint32_t device, const Place& place) const {
  return memory_of(place) == memory_of(device);
}

Result<void> Executable::check(const Launch& launch) const {
  const auto refuse = [&](std::string what) {
    return at(launch.provenance, Error{FE_EINVALID, "FE-P67", std::move(what), {}});
  };
  const auto& given = launch.arguments;
  for (const Place& place : given)
    if (place.kind == Place::Kind::arena &&
        static_cast<uint64_t>(place.offset) %
                std::min<uint64_t>(least_alignment, devices[place.device]->alignment) !=
            0)
      return refuse(fmt::format("an argument lies at {}, where no buffer begins", place.offset));
  if (launch.copy != no_copy) {
    const bool from_host = launch.copy == FE_COPY_TO_DEVICE, to_host = launch.copy == FE_COPY_TO_HOST;
    if ((from_host ? host_reaches(given[0]) : device_reaches(launch.device, given[0])) &&
        (to_host ? host_reaches(given[1]) : device_reaches(launch.device, given[1])) &&
        given[1].kind != Place::Kind::constant)
      return {};
    return refuse("a copy is from or to memory that its device does not reach");
  }
  if (launch.call.function) return {};
  const auto& kernel = kernels[launch.kernel];
  for (const Place& place : given)
    if (!device_reaches(kernel.device, place))
      return refuse("an argument of the kernel lies in memory that its device does not reach");
  const auto& wanted = kernel.arguments;
  if (wanted.empty()) return {};
  if (given.size() != wanted.size())
    return refuse(
        fmt::format("the kernel is given {} arguments, and its code takes {}", given.size(), wanted.size()));
  for (size_t k = 0; k < given.size(); ++k) {
    if (given[k].bytes < wanted[k].bytes)
      return refuse(fmt::format("argument {} of the kernel has {} bytes, and its code reaches {}", k,
                                given[k].bytes, wanted[k].bytes));
    if (wanted[k].written != 0 && given[k].kind == Place::Kind::constant)
      return refuse(fmt::format("argument {} of the kernel is a constant, and its code writes there", k));
  }
  return {};
}

Result<void> Executable::check_launches() const {
  for (const auto* list : {&init, &steps})
    for (const auto& launch : *list) FE_CHECK(check(launch));
  for (size_t k = 0; k < output_places.size(); ++k) {
    const auto& place = output_places[k];
    if ((!host_reaches(place) && memory_of(place) != memory_of_ports()) || place.bytes != outputs[k].bytes)
      return at(outputs[k].name, error(FE_EINVALID, "FE-P67", "{} bytes are to go into an output of {}",
                                       place.bytes, outputs[k].bytes));
  }
  return {};
}

Result<void> Executable::prepare() {
  arena_bytes.resize(devices.size());
  FE_CHECK(check_launches());
  const auto loaded = std::chrono::steady_clock::now();
  // Kernels may assume a buffer's alignment; a weight in a mapped file can lie anywhere.
  constexpr uintptr_t alignment = least_alignment;
  aligned_constants_.resize(constants.size());
  for (size_t k = 0; k < constants.size(); ++k) {
    auto& constant = constants[k];
    if (reinterpret_cast<uintptr_t>(constant.data) % alignment == 0) continue;
    auto& copy = aligned_constants_[k];
    copy.resize(constant.bytes + alignment);
    auto start = (reinterpret_cast<uintptr_t>(copy.data()) + alignment - 1) / alignment * alignment;
    std::memcpy(reinterpret_cast<void*>(start), constant.data, constant.bytes);
    constant.data = reinterpret_cast<const std::byte*>(start);
  }
  for (auto& block : persistent_) {
    FE_TRY(block.data, alloc(block.device, std::max<int64_t>(block.bytes, 1)));
  }
  Context context(*this, init);
  FE_CHECK(context.allocated_);
  FE_CHECK(launch_all(init, {}, context));
  // Copies that only init read are not needed again.
  std::vector<bool> used(constants.size());
  for (const auto& step : steps)
    for (const auto& place : step.arguments)
      if (place.kind == Place::Kind::constant) used[place.number] = true;
  for (const auto& place : output_places)
    if (place.kind == Place::Kind::constant) used[place.number] = true;
  for (size_t k = 0; k < constants.size(); ++k)
    if (!used[k] && !aligned_constants_[k].empty()) {
      std::vector<std::byte>().swap(aligned_constants_[k]);
      constants[k].data = nullptr;
    }
  init_ms = milliseconds_since(loaded);
  return {};
}

void* Executable::address(const Place& place, const Buffers& buffers, const Context& context) const {
  switch (place.kind) {
    case Place::Kind::input: return const_cast<void*>(buffers.inputs[place.number]);
    case Place::Kind::output: return buffers.outputs[place.number];
    case Place::Kind::constant: return const_cast<std::byte*>(constants[place.number].data);
    case Place::Kind::persistent: return persistent_[place.number].data;
    case Place::Kind::arena: return static_cast<char*>(context.arenas_[place.device]) + place.offset;
  }
  return nullptr;
}

Result<void> Executable::copy(uint32_t device, uint32_t direction, void* to, const void* from,
                              int64_t bytes) const {
  const auto& runtime = *devices[device]->runtime;
  if (bytes <= 0) return {};
  if (!runtime.copy)
    return error(FE_EUNSUPPORTED, "FE-D21", "the runtime '{}' copies nothing", devices[device]->kind);
  abi::Call call;
  auto args = abi::sized<fe_copy_args>();
  args.device = devices[device]->number;
  args.kind = direction;
  args.to = to;
  args.from = from;
  args.bytes = static_cast<uint64_t>(bytes);
  auto out = abi::sized<fe_none>();
  const int32_t status = plugin::invoke(runtime, runtime.copy, call, &args, &out);
  return call.check(status, "FE-D21", "a copy between the host's memory and the device's failed");
}

Result<void> Executable::launch_all(std::span<const Launch> launches, const Buffers& buffers,
                                    Context& context) const {
  if (launches.empty()) return {};
  std::vector<ErrorWords> words;  // of what runs where the host does not reach them
  const auto bytes = static_cast<int64_t>(launches.size() * sizeof(ErrorWords));
  const auto move_words = [&](uint32_t direction) -> Result<void> {
    for (uint32_t d = 0; d < devices.size(); ++d) {
      if (!context.errors_[d]) continue;
      words.assign(launches.size(), {});
      const bool to_host = direction == FE_COPY_TO_HOST;
      FE_CHECK(to_host ? copy(d, direction, words.data(), context.errors_[d], bytes)
                       : copy(d, direction, context.errors_[d], words.data(), bytes));
      for (size_t k = 0; k < words.size(); ++k)
        if (words[k][0] != 0) return bad_index(launches[k].provenance);
    }
    return {};
  };
  FE_CHECK(move_words(FE_COPY_TO_DEVICE));
  for (size_t k = 0; k < launches.size(); ++k) {
    if (!context.times_) {
      FE_CHECK(launch(launches[k], k, buffers, context));
      continue;
    }
    const auto start = std::chrono::steady_clock::now();
    FE_CHECK(launch(launches[k], k, buffers, context));
    FE_CHECK(synchronise());
    context.times_->push_back({start, std::chrono::steady_clock::now()});
  }
  FE_CHECK(move_words(FE_COPY_TO_HOST));
  return synchronise();
}

Result<void> Executable::synchronise() const {
  for (const auto& device : devices) {
    const auto slots = abi::read(device->runtime);
    if (device->host_memory || !slots.synchronise) continue;
    abi::Call call;
    auto args = abi::sized<fe_device_args>();
    args.device = device->number;
    auto out = abi::sized<fe_none>();
    const int32_t status = plugin::invoke(*device->runtime, slots.synchronise, call, &args, &out);
    FE_CHECK(call.check(status, "FE-D04", "work on the device failed"));
  }
  return {};
}

Result<void> Executable::launch(const Launch& step, size_t number, const Buffers& buffers,
                                const Context& context) const {
  std::vector<void*> pointers(step.arguments.size());
  for (size_t k = 0; k < pointers.size(); ++k) pointers[k] = address(step.arguments[k], buffers, context);
  if (step.copy != no_copy)
    return copy(step.device, step.copy, pointers[1], pointers[0], step.arguments[0].bytes);
  if (!step.call.function) return launch_kernel(step, number, pointers, context);
  abi::Call call;
  auto out = abi::sized<fe_none>();
  std::vector<fe_kernel_buffer> given;
  for (size_t k = 0; k < pointers.size(); ++k) given.push_back({pointers[k], step.call_types[k]});
  auto args = abi::sized<fe_kernel_call_args>();
  args.buffers = abi::array(given);
  args.self = step.call.self;
  int32_t status = callback::call({{}, "kernel of a lowering", step.call.name}, step.call.function,
                                  step.call.self, call, &args, &out);
  if (status != FE_OK)
    return at(step.call.name, call.error(status, "FE-X11", "the kernel that a plugin gave failed"));
  return {};
}

Result<void> Executable::launch_kernel(const Launch& launch, size_t number, std::span<void* const> pointers,
                                       const Context& context) const {
  const auto& kernel = kernels[launch.kernel];
  const uint32_t d = kernel.device;
  ErrorWords error_words{};
  abi::Call call;
  auto out = abi::sized<fe_none>();
  auto args = abi::sized<fe_launch_args>();
  args.function = kernel.function;
  args.buffers = pointers.data();
  args.buffer_count = pointers.size();
  args.tasks = kernel.tasks;
  args.grain = kernel.grain;
  if (kernel.workspace_bytes > 0)
    args.workspace =
        static_cast<char*>(context.arenas_[d]) + (launch.workspace < 0 ? behind_arena(d) : launch.workspace);
  args.workspace_bytes = kernel.workspace_bytes;
  args.workers = workers;
  if (context.errors_[d])
    args.error = static_cast<ErrorWords*>(context.errors_[d])[number].data();
  else if (devices[d]->host_memory)
    args.error = error_words.data();
  const auto* library = kernel.library;
  const auto& runtime = *devices[d]->runtime;
  const int32_t status = library
                             ? plugin::invoke(*library->table, library->slots.exec_launch, call, &args, &out)
                             : plugin::invoke(runtime, runtime.launch, call, &args, &out);
  if (status != FE_OK) return at(kernel.provenance, call.error(status, "FE-D04", "the launch failed"));
  if (error_words[0] != 0) return bad_index(kernel.provenance);
  return {};
}

Result<void> Executable::run(Context& context, std::span<const void* const> input_data,
                             std::span<void* const> output_data) const {
  FE_CHECK(context.allocated_);
  const Buffers buffers{input_data, output_data};
  if (context.times_) context.times_->clear();
  FE_CHECK(launch_all(steps, buffers, context));
  for (size_t k = 0; k < output_places.size(); ++k) {
    const auto& place = output_places[k];
    if (place.kind == Place::Kind::output && place.number == k) continue;
    const void* from = address(place, buffers, context);
    if (memory_of_ports() != host) {
      FE_CHECK(copy(ports_device(), host_reaches(place) ? FE_COPY_TO_DEVICE : FE_COPY_ON_DEVICE,
                    output_data[k], from, place.bytes));
      FE_CHECK(synchronise());
    } else if (place.bytes > 0) {
      std::memcpy(output_data[k], from, static_cast<size_t>(place.bytes));
    }
  }
  return {};
}

}  // namespace ferrite::core::run
