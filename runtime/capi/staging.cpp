// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "runtime/capi/staging.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace ferrite::core::capi {

Staging::Staging(std::shared_ptr<const RunnableProgram> program, void* native_stream,
                 runtime::ArenaPool& arenas)
    : program_(std::move(program)), executable_(program_->executable().get()), native_stream_(native_stream) {
  copies_.resize(program_->inputs().size() + program_->outputs().size());
  if (!executable_) return;
  apart_ = executable_->memory_of_ports() != runtime::Executable::host;
  context_ = std::make_unique<runtime::Executable::Context>(*executable_, native_stream, arenas);
}

Staging::~Staging() {
  for (const auto& copy : copies_)
    if (copy.device) executable_->free(0, copy.device, context_->stream(0));
}

Result<void> Staging::copy(uint32_t direction, void* to, const void* from, int64_t bytes) const {
  return executable_->devices[0]->copy(direction, to, from, bytes, context_->stream(0));
}

Result<DeviceMemory> Staging::device_memory(std::shared_ptr<const Engine> engine) {
  DeviceMemory memory{std::move(engine), program_->executable(), {}};
  if (native_stream_ && !stream_) {
    // Open a stream of its own: tensors may outlive the context and its stream.
    FE_TRY(void* const stream, executable_->devices[0]->open_stream(native_stream_));
    stream_ = std::shared_ptr<void>(
        stream, [device = executable_->devices[0]](void* opened) { device->close_stream(opened); });
  }
  memory.stream = stream_;
  return memory;
}

bool Staging::in_place(const BoundTensor& tensor) const {
  if (tensor.bytes == 0) return true;
  if (tensor.on_device != apart_ || !tensor.strides.empty()) return false;
  // Kernels may rely on the alignment of device memory; in host memory only elements need to be aligned.
  return apart_ ? reinterpret_cast<uintptr_t>(tensor.data) % runtime::least_alignment == 0
                : tensor.is_aligned();
}

Result<void*> Staging::memory(Copy& copy, const BoundTensor& tensor) {
  if (!apart_) {
    copy.host.resize(static_cast<size_t>(tensor.bytes));
    return static_cast<void*>(copy.host.data());
  }
  if (!copy.device) {
    FE_TRY(copy.device, executable_->alloc(0, tensor.bytes, context_->stream(0)));
  }
  return copy.device;
}

Result<void> Staging::copy_in(Copy& copy, const BoundTensor& tensor, void* to) {
  if (tensor.on_device)
    return this->copy(apart_ ? FE_COPY_ON_DEVICE : FE_COPY_TO_HOST, to, tensor.data, tensor.bytes);
  char* from = tensor.data;
  if (!tensor.strides.empty()) {
    copy.host.resize(static_cast<size_t>(tensor.bytes));
    from = copy.host.data();
    gather(tensor, from);
  }
  if (apart_) return this->copy(FE_COPY_TO_DEVICE, to, from, tensor.bytes);
  if (from != to) std::memcpy(to, from, static_cast<size_t>(tensor.bytes));
  return {};
}

Result<void> Staging::copy_out(Copy& copy, const void* from, const BoundTensor& tensor) {
  if (tensor.on_device)
    return this->copy(apart_ ? FE_COPY_ON_DEVICE : FE_COPY_TO_DEVICE, tensor.data, from, tensor.bytes);
  if (tensor.strides.empty()) {
    if (apart_) return this->copy(FE_COPY_TO_HOST, tensor.data, from, tensor.bytes);
    std::memcpy(tensor.data, from, static_cast<size_t>(tensor.bytes));
    return {};
  }
  if (apart_) FE_CHECK(this->copy(FE_COPY_TO_HOST, copy.host.data(), from, tensor.bytes));
  scatter(copy.host.data(), tensor);
  return {};
}

Result<void> Staging::run(std::span<const BoundTensor> inputs, std::span<const BoundTensor> outputs,
                          const ferrite_run_options& options) {
  if (context_) FE_CHECK(context_->opened());
  const auto on_host = [](const BoundTensor& tensor) { return !tensor.on_device && tensor.bytes > 0; };
  // Return early only if the host has nothing to do after the run: all tensors are on the device.
  const bool early =
      native_stream_ && std::ranges::none_of(inputs, on_host) && std::ranges::none_of(outputs, on_host);
  if (context_) {
    context_->return_early(early, options.defer_checks != 0);
    context_->use_workspace(options.workspace, options.workspace_bytes);
  }
  std::vector<const void*> in;
  std::vector<void*> out;
  in.reserve(inputs.size());
  out.reserve(outputs.size());
  for (size_t k = 0; k < inputs.size(); ++k) {
    void* data = inputs[k].data;
    if (!in_place(inputs[k])) {
      FE_TRY(data, memory(copies_[k], inputs[k]));
      FE_CHECK(copy_in(copies_[k], inputs[k], data));
    }
    in.push_back(data);
  }
  const std::span<Copy> results = std::span(copies_).subspan(inputs.size());
  for (size_t k = 0; k < outputs.size(); ++k) {
    void* data = outputs[k].data;
    if (!in_place(outputs[k])) {
      FE_TRY(data, memory(results[k], outputs[k]));
    }
    out.push_back(data);
  }
  FE_CHECK(program_->run(context_.get(), in, out));
  const auto& ports = program_->inputs();
  bool copied = false;
  // The run changed copies of these inputs: copy the new contents back to the caller's tensors.
  for (size_t k = 0; k < inputs.size(); ++k)
    if (ports[k].changed && in[k] != inputs[k].data) {
      FE_CHECK(copy_out(copies_[k], in[k], inputs[k]));
      copied = true;
    }
  for (size_t k = 0; k < outputs.size(); ++k)
    if (out[k] != outputs[k].data) {
      FE_CHECK(copy_out(results[k], out[k], outputs[k]));
      copied = true;
    }
  return copied && !early && executable_ ? executable_->devices[0]->synchronise(context_->stream(0))
                                         : Result<void>();
}

}  // namespace ferrite::core::capi
