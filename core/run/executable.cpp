// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/run/executable.h"

#include <algorithm>
#include <cstring>

#include "core/plugin/serial.h"
#include "core/support/abi.h"

namespace ferrite::core::run {

std::vector<PortInfo> describe_ports(const loop::LoopProgram& program,
                                     std::span<const loop::BufferId> buffers) {
  std::vector<PortInfo> ports;
  for (loop::BufferId id : buffers) {
    const auto& buffer = program.buffers[id];
    ports.push_back({buffer.name, buffer.dtype, buffer.dims, bytes_of(buffer.dtype, buffer.elements())});
  }
  return ports;
}

Executable::~Executable() {
  for (void* data : persistent_) free(data);
  if (module_ && runtime && runtime->module_unload) {
    abi::Call call;
    auto args = abi::sized<fe_module_out>();
    args.module = module_;
    auto out = abi::sized<fe_none>();
    plugin::invoke(*runtime, runtime->module_unload, call, &args, &out);
  }
}

Result<void*> Executable::alloc(int64_t bytes) const {
  if (bytes <= 0) return static_cast<void*>(nullptr);
  abi::Call call;
  auto args = abi::sized<fe_alloc_args>();
  args.device = device;
  args.bytes = static_cast<uint64_t>(bytes);
  auto out = abi::sized<fe_alloc_out>();
  const auto place = fmt::format("device {}:{}", abi::view(runtime->id), device);
  if (plugin::invoke(*runtime, runtime->alloc, call, &args, &out) != FE_OK || !out.data)
    return at(place, error(FE_ENOMEM, "FE-D03", "no memory for {} bytes", bytes));
  if (reinterpret_cast<uintptr_t>(out.data) % alignment == 0) return out.data;
  free(out.data);
  return at(place,
            error(FE_EDEVICE, "FE-P66", "its memory is not aligned to {} bytes, as it says", alignment));
}

void Executable::free(void* data) const {
  if (!data || !runtime->free) return;
  abi::Call call;
  auto args = abi::sized<fe_free_args>();
  args.device = device;
  args.data = data;
  auto out = abi::sized<fe_none>();
  plugin::invoke(*runtime, runtime->free, call, &args, &out);
}

Executable::Context::Context(const Executable& executable) : executable_(executable) {
  const auto take = [&](int64_t bytes, void*& data) {
    auto allocated = allocated_ ? executable.alloc(bytes) : Result<void*>(nullptr);
    if (allocated)
      data = *allocated;
    else
      allocated_ = std::move(allocated.error());
  };
  take(executable.arena_bytes, arena_);
  take(executable.workspace_bytes_ * executable.workers, workspace_);
}

Executable::Context::~Context() {
  executable_.free(arena_);
  executable_.free(workspace_);
}

Result<void> Executable::load(std::span<const std::string> blobs) {
  if (!blobs.empty()) {
    std::vector<fe_array> arrays;
    for (const auto& blob : blobs) arrays.push_back({blob.data(), blob.size(), 1});
    abi::Call call;
    auto args = abi::sized<fe_module_args>();
    args.device = device;
    args.blobs = abi::array(arrays);
    auto out = abi::sized<fe_module_out>();
    int32_t status = plugin::invoke(*runtime, runtime->module_load, call, &args, &out);
    if (status != FE_OK) return call.error(status, "FE-D02", "the kernels could not be loaded");
    module_ = out.module;
  }
  for (auto& kernel : kernels) {
    abi::Call call;
    auto args = abi::sized<fe_function_args>();
    args.module = module_;
    args.entry = abi::string(kernel.entry);
    auto out = abi::sized<fe_function_out>();
    int32_t status = plugin::invoke(*runtime, runtime->function, call, &args, &out);
    if (status != FE_OK)
      return at(kernel.provenance, call.error(status, "FE-D02", "a kernel is not in the loaded module"));
    kernel.function = out.function;
    workspace_bytes_ = std::max(workspace_bytes_, kernel.workspace_bytes);
  }
  // Kernels may assume a buffer's alignment; a weight in a mapped file can lie anywhere.
  constexpr uintptr_t alignment = 64;
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
  for (int64_t bytes : persistent_bytes) {
    FE_TRY(void* data, alloc(std::max<int64_t>(bytes, 1)));
    persistent_.push_back(data);
  }
  Context context(*this);
  FE_CHECK(context.allocated_);
  int64_t error_words[2] = {0, 0};
  for (const auto& step : init)
    FE_CHECK(launch(step, {}, {}, static_cast<char*>(context.arena_), static_cast<char*>(context.workspace_),
                    error_words));
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
  return {};
}

const void* Executable::address(const Place& place, std::span<const void* const> inputs,
                                std::span<void* const> outputs, const char* arena) const {
  switch (place.kind) {
    case Place::Kind::input: return inputs[place.number];
    case Place::Kind::output: return outputs[place.number];
    case Place::Kind::constant: return constants[place.number].data;
    case Place::Kind::persistent: return persistent_[place.number];
    case Place::Kind::arena: return arena + place.offset;
  }
  return nullptr;
}

Result<void> Executable::launch(const Launch& step, std::span<const void* const> inputs,
                                std::span<void* const> outputs, char* arena, char* workspace,
                                int64_t* error_words) const {
  std::vector<void*> pointers(step.arguments.size());
  for (size_t k = 0; k < pointers.size(); ++k)
    pointers[k] = const_cast<void*>(address(step.arguments[k], inputs, outputs, arena));
  abi::Call call;
  auto out = abi::sized<fe_none>();
  if (step.call.function) {
    std::vector<fe_kernel_buffer> buffers;
    for (size_t k = 0; k < pointers.size(); ++k) buffers.push_back({pointers[k], step.call_types[k]});
    auto args = abi::sized<fe_kernel_call_args>();
    args.buffers = abi::array(buffers);
    args.self = step.call.self;
    int32_t status = callback::call({{}, "kernel of a lowering", step.call.name}, step.call.function,
                                    step.call.self, call, &args, &out);
    if (status != FE_OK)
      return at(step.call.name, call.error(status, "FE-X11", "the kernel that a plugin gave failed"));
    return {};
  }
  const auto& kernel = kernels[step.kernel];
  auto args = abi::sized<fe_launch_args>();
  args.function = kernel.function;
  args.buffers = pointers.data();
  args.buffer_count = pointers.size();
  args.tasks = kernel.tasks;
  args.grain = kernel.grain;
  args.workspace = workspace;
  args.workspace_bytes = kernel.workspace_bytes;
  args.workers = workers;
  args.error = error_words;
  int32_t status = plugin::invoke(*runtime, runtime->launch, call, &args, &out);
  if (status != FE_OK) return at(kernel.provenance, call.error(status, "FE-D04", "the launch failed"));
  if (error_words[0] != 0)
    return at(kernel.provenance,
              error(FE_EINVALID, "FE-X10", "an index that the inputs give is out of range"));
  return {};
}

Result<void> Executable::run(Context& context, std::span<const void* const> input_data,
                             std::span<void* const> output_data) const {
  FE_CHECK(context.allocated_);
  int64_t error_words[2] = {0, 0};
  for (const auto& step : steps)
    FE_CHECK(launch(step, input_data, output_data, static_cast<char*>(context.arena_),
                    static_cast<char*>(context.workspace_), error_words));
  for (size_t k = 0; k < output_places.size(); ++k) {
    const auto& place = output_places[k];
    if (place.kind == Place::Kind::output && place.number == k) continue;
    if (place.bytes > 0)
      std::memcpy(output_data[k], address(place, input_data, output_data, static_cast<char*>(context.arena_)),
                  static_cast<size_t>(place.bytes));
  }
  return {};
}

}  // namespace ferrite::core::run
