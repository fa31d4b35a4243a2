// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "runtime/capi/tensors.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <tuple>

#include "ferrite/counted.hpp"

namespace ferrite::core::capi {
namespace {

constexpr uint8_t no_code = 255;
constexpr int32_t most_dims = 64;
constexpr size_t output_alignment = 64;

constexpr DLDataType described(DType dtype) {
  const auto* info = find_dtype(dtype);
  if (!info || info->bits % 8 != 0) return {no_code, 0, 1};
  const auto bits = static_cast<uint8_t>(info->bits);
  const auto with = [&](int type) { return DLDataType{static_cast<uint8_t>(type), bits, 1}; };
  switch (info->kind) {
    case FE_CLASS_BOOL: return with(kDLBool);
    case FE_CLASS_INT: return with(kDLInt);
    case FE_CLASS_UINT: return with(kDLUInt);
    case FE_CLASS_COMPLEX: return with(kDLComplex);
    default: break;
  }
  // DLPack has a separate type code for each of the small floats.
  switch (dtype) {
    case DType::bf16_: return with(kDLBfloat);
    case DType::f8e4m3_: return with(10);
    case DType::f8e4m3fnuz_: return with(11);
    case DType::f8e5m2_: return with(12);
    case DType::f8e5m2fnuz_: return with(13);
    case DType::e8m0_: return with(14);
    default: return with(kDLFloat);
  }
}

/// By the code of a dtype: each call of a program asks for those of all its ports.
constexpr auto data_types = [] {
  std::array<DLDataType, dtype_table.size() + 1> types{};
  for (size_t code = 0; code < types.size(); ++code) types[code] = described(static_cast<DType>(code));
  return types;
}();

std::string shape_text(std::span<const int64_t> dims) { return fmt::format("[{}]", fmt::join(dims, ",")); }

std::string number_text(const DLDevice& device) {
  return fmt::format("{}:{}", static_cast<int32_t>(device.device_type), device.device_id);
}

/// The name of a port in an error.
struct Where {
  const char* kind;
  const std::string& name;
  std::string text() const { return fmt::format("{} '{}'", kind, name); }
};

/// The reason why a tensor fits no port.
enum class Fault { none, is_null, place, rank, shape, port_dtype, dtype };

/// Checks a tensor for a port of this dtype, and sets the bytes of its elements. Calls of programs with many
/// weights spend their time here, so that nothing is said yet.
Fault check(const DLTensor* tensor, DType dtype, const TensorDevice& device, int64_t& bytes) {
  if (!tensor) return Fault::is_null;
  if (tensor->device.device_type != kDLCPU && !device.has(*tensor)) return Fault::place;
  if (tensor->ndim < 0 || tensor->ndim > most_dims || (tensor->ndim > 0 && !tensor->shape))
    return Fault::rank;
  bytes = tensor->dtype.bits / 8;
  for (int32_t d = 0; d < tensor->ndim; ++d)
    if (tensor->shape[d] < 0 || __builtin_mul_overflow(bytes, tensor->shape[d], &bytes)) return Fault::shape;
  const auto expected = data_type_of(dtype);
  if (expected.code == no_code) return Fault::port_dtype;
  const bool same =
      tensor->dtype.code == expected.code && tensor->dtype.bits == expected.bits && tensor->dtype.lanes == 1;
  return same ? Fault::none : Fault::dtype;
}

Error error_of(Fault fault, const DLTensor* tensor, DType dtype, const TensorDevice& device,
               const Where& where) {
  const auto said = [&] {
    const auto expected = data_type_of(dtype);
    switch (fault) {
      case Fault::place:
        return error(
            FE_EUNSUPPORTED, "FE-X33",
            "the tensor is on DLPack's device {}, and the program runs on '{}', DLPack's device {}; copy "
            "it there or to host memory, or open the session with the tensor's device",
            number_text(tensor->device), device.name, number_text(device.device));
      case Fault::rank:
        return error(FE_EINVALID, "FE-X32", "the tensor has {} dims{}", tensor->ndim,
                     tensor->shape ? "" : " and no shape");
      case Fault::shape:
        return error(FE_EINVALID, "FE-X32", "the shape {} is negative or too large",
                     shape_text({tensor->shape, static_cast<size_t>(tensor->ndim)}));
      case Fault::port_dtype:
        return error(FE_EUNSUPPORTED, "FE-X02", "it has dtype {}, which DLPack cannot carry", name_of(dtype));
      case Fault::dtype:
        return error(
            FE_EINVALID, "FE-X02",
            "it has dtype {} (DLPack code {}, {} bits), a tensor of code {}, {} bits, {} lanes was given",
            name_of(dtype), expected.code, expected.bits, tensor->dtype.code, tensor->dtype.bits,
            tensor->dtype.lanes);
      default: return error(FE_EINVALID, "FE-X30", "the tensor is null");
    }
  };
  return at(where.text(), said());
}

/// Of a tensor that has elements.
bool contiguous(const DLTensor& tensor) {
  if (!tensor.strides) return true;
  int64_t expected = 1;
  for (int32_t d = tensor.ndim - 1; d >= 0; --d) {
    if (tensor.shape[d] != 1 && tensor.strides[d] != expected) return false;
    expected *= tensor.shape[d];
  }
  return true;
}

/// Calls `visit(offset)` for each element in index order; the offset is in bytes.
template <class Visit>
void each_element(const BoundTensor& tensor, Visit&& visit) {
  const auto& [dims, strides] = std::tie(tensor.dims, tensor.strides);
  std::vector<int64_t> index(dims.size(), 0);
  int64_t offset = 0;
  for (int64_t left = tensor.bytes / tensor.width; left > 0; --left) {
    visit(offset * tensor.width);
    for (size_t d = dims.size(); d-- > 0;) {
      offset += strides[d];
      if (++index[d] < dims[d]) break;
      offset -= strides[d] * dims[d];
      index[d] = 0;
    }
  }
}

/// Checks a tensor, and adds it to `bound`.
Fault add_bound(const DLTensor* tensor, DType dtype, const TensorDevice& device,
                std::vector<BoundTensor>& bound) {
  int64_t bytes = 0;
  if (const auto fault = check(tensor, dtype, device, bytes); fault != Fault::none) return fault;
  auto& result = bound.emplace_back();
  result.dims = {tensor->shape, static_cast<size_t>(tensor->ndim)};
  result.width = tensor->dtype.bits / 8;
  result.bytes = bytes;
  if (tensor->data) result.data = static_cast<char*>(tensor->data) + tensor->byte_offset;
  if (bytes > 0 && !contiguous(*tensor))
    result.strides = {tensor->strides, static_cast<size_t>(tensor->ndim)};
  result.on_device = device.has(*tensor);
  return Fault::none;
}

}  // namespace

DLDevice number_of(const runtime::Device& device) {
  return {static_cast<DLDeviceType>(device.dlpack), static_cast<int32_t>(device.number)};
}

TensorDevice tensor_device(const runtime::Devices& devices) {
  const auto& first = *devices.front();
  TensorDevice result;
  result.name = first.place();
  result.has_streams = !first.host_memory && first.has_streams();
  if (!first.host_memory) result.device = number_of(first);
  return result;
}

bool TensorDevice::has(const DLTensor& tensor) const {
  return is_apart() && tensor.device.device_type == device.device_type &&
         tensor.device.device_id == device.device_id;
}

bool TensorDevice::any_has(std::span<const DLTensor* const> tensors) const {
  return std::ranges::any_of(tensors, [&](const DLTensor* tensor) { return tensor && has(*tensor); });
}

bool BoundTensor::is_aligned() const {
  return reinterpret_cast<uintptr_t>(data) % static_cast<uintptr_t>(std::min<int64_t>(width, 8)) == 0;
}

std::vector<std::vector<int64_t>> dims_of(std::span<const BoundTensor> tensors) {
  std::vector<std::vector<int64_t>> dims;
  for (const auto& tensor : tensors) dims.emplace_back(tensor.dims.begin(), tensor.dims.end());
  return dims;
}

void gather(const BoundTensor& from, char* to) {
  each_element(from, [&](int64_t offset) {
    std::memcpy(to, from.data + offset, static_cast<size_t>(from.width));
    to += from.width;
  });
}

void scatter(const char* from, const BoundTensor& to) {
  each_element(to, [&](int64_t offset) {
    std::memcpy(to.data + offset, from, static_cast<size_t>(to.width));
    from += to.width;
  });
}

DLDataType data_type_of(DType dtype) {
  const auto code = static_cast<size_t>(dtype);
  return code < data_types.size() ? data_types[code] : data_types[0];
}

Result<std::vector<BoundTensor>> bind_inputs(const LoadedModel& model, const DLTensor* const* tensors,
                                             uint64_t count, const TensorDevice& device, bool with_data) {
  const auto& ports = model.inputs();
  if (count != ports.size())
    return error(FE_EINVALID, "FE-X01", "the model has {}, not {}", counted(ports.size(), "input"), count);
  if (!tensors && count > 0) return error(FE_EINVALID, "FE-X30", "the inputs are null");
  std::vector<BoundTensor> result;
  result.reserve(ports.size());
  for (size_t k = 0; k < ports.size(); ++k) {
    const Where where{"input", ports[k].name};
    if (const auto fault = add_bound(tensors[k], ports[k].dtype, device, result); fault != Fault::none)
      return error_of(fault, tensors[k], ports[k].dtype, device, where);
    const auto& input = result.back();
    if (!with_data || input.bytes == 0) continue;
    if (!input.data) return at(where.text(), error(FE_EINVALID, "FE-X30", "the tensor has no data"));
    if (input.on_device && !input.strides.empty())
      return at(where.text(),
                error(FE_EINVALID, "FE-X35",
                      "the tensor is strided in the device's memory; make it contiguous there"));
  }
  return result;
}

Result<std::vector<BoundTensor>> bind_outputs(const LoadedModel& model,
                                              const std::vector<runtime::PortInfo>& ports,
                                              DLTensor* const* tensors, uint64_t count,
                                              const TensorDevice& device) {
  if (count != ports.size())
    return error(FE_EINVALID, "FE-X01", "the model has {}, not {}", counted(ports.size(), "output"), count);
  if (!tensors && count > 0) return error(FE_EINVALID, "FE-X30", "the outputs are null");
  std::vector<BoundTensor> result;
  result.reserve(ports.size());
  for (size_t k = 0; k < ports.size(); ++k) {
    const Where where{"output", model.outputs()[k].name};
    if (const auto fault = add_bound(tensors[k], ports[k].dtype, device, result); fault != Fault::none)
      return error_of(fault, tensors[k], ports[k].dtype, device, where);
    const auto& output = result.back();
    if (!std::ranges::equal(output.dims, ports[k].dims))
      return at(where.text(),
                error(FE_EINVALID, "FE-X35", "the result has shape {}, a tensor of shape {} was given",
                      shape_text(ports[k].dims), shape_text(output.dims)));
    if (!output.data && output.bytes > 0)
      return at(where.text(), error(FE_EINVALID, "FE-X30", "the tensor has no data"));
    if (!output.strides.empty() || !output.is_aligned())
      return at(where.text(),
                error(FE_EINVALID, "FE-X35", "the memory must be contiguous and aligned to its elements"));
  }
  return result;
}

namespace {

/// Owns the struct, its shape and its elements.
struct Owner {
  DLManagedTensorVersioned tensor{};
  std::vector<int64_t> shape;
  std::shared_ptr<void> data;
};

Result<OwnedTensor> owned_tensor(const runtime::PortInfo& port, const DLDevice& device,
                                 std::shared_ptr<void> data) {
  auto dtype = data_type_of(port.dtype);
  if (dtype.code == no_code)
    return at(
        fmt::format("output '{}'", port.name),
        error(FE_EUNSUPPORTED, "FE-X02", "it has dtype {}, which DLPack cannot carry", name_of(port.dtype)));
  auto owner = std::make_unique<Owner>();
  owner->data = std::move(data);
  owner->shape = port.dims;
  auto& tensor = owner->tensor;
  tensor.version = {DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION};
  tensor.manager_ctx = owner.get();
  tensor.deleter = [](DLManagedTensorVersioned* self) { delete static_cast<Owner*>(self->manager_ctx); };
  tensor.dl_tensor = {
      owner->data.get(), device, static_cast<int32_t>(owner->shape.size()), dtype, owner->shape.data(),
      nullptr,           0};
  return OwnedTensor(&owner.release()->tensor);
}

}  // namespace

Result<OwnedTensor> make_tensor(const runtime::PortInfo& port) {
  const size_t bytes = (static_cast<size_t>(std::max<int64_t>(port.bytes, 1)) + output_alignment - 1) /
                       output_alignment * output_alignment;
  std::shared_ptr<void> data(std::aligned_alloc(output_alignment, bytes), std::free);
  if (!data)
    return error(FE_ENOMEM, "FE-X36",
                 "no memory for output '{}' of {} bytes; free memory, or use smaller sizes", port.name,
                 bytes);
  return owned_tensor(port, {kDLCPU, 0}, std::move(data));
}

Result<OwnedTensor> make_device_tensor(const runtime::PortInfo& port, DeviceMemory from) {
  const auto& first = *from.executable->devices.front();
  FE_TRY(void* const memory, from.executable->alloc(0, port.bytes, from.stream.get()));
  std::shared_ptr<void> data(memory, [from = std::move(from)](void* given) mutable {
    from.executable->free(0, given, from.stream.get());
    // Release the stream before the engine: it uses the session's plugins.
    from.stream.reset();
    from.executable.reset();
  });
  return owned_tensor(port, number_of(first), std::move(data));
}

}  // namespace ferrite::core::capi
