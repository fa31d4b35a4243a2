// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/embed/tensors.h"

#include <cstdlib>
#include <cstring>

namespace ferrite::core::embed {
namespace {

constexpr uint8_t no_code = 255;
constexpr int32_t most_dims = 64;
constexpr size_t output_alignment = 64;

std::string shape_text(std::span<const int64_t> dims) { return fmt::format("[{}]", fmt::join(dims, ",")); }

/// What is wrong with a tensor by itself, whatever it is bound to.
Result<void> check(const DLTensor* tensor, const std::string& where) {
  if (!tensor) return at(where, error(FE_EINVALID, "FE-X30", "the tensor is null"));
  if (tensor->device.device_type != kDLCPU)
    return at(where, error(FE_EUNSUPPORTED, "FE-X33",
                           "the tensor is on a device of DLPack's kind {}; copy it to host memory",
                           static_cast<int32_t>(tensor->device.device_type)));
  if (tensor->ndim < 0 || tensor->ndim > most_dims || (tensor->ndim > 0 && !tensor->shape))
    return at(where, error(FE_EINVALID, "FE-X32", "the tensor has {} dims{}", tensor->ndim,
                           tensor->shape ? "" : " and no shape"));
  int64_t bytes = tensor->dtype.bits / 8;
  for (int32_t d = 0; d < tensor->ndim; ++d)
    if (tensor->shape[d] < 0 || __builtin_mul_overflow(bytes, tensor->shape[d], &bytes))
      return at(where, error(FE_EINVALID, "FE-X32", "the shape {} is negative or too large",
                             shape_text({tensor->shape, static_cast<size_t>(tensor->ndim)})));
  return {};
}

Result<void> check_dtype(const DLTensor& tensor, DType dtype, const std::string& where) {
  auto expected = data_type_of(dtype);
  if (expected.code == no_code)
    return at(where,
              error(FE_EUNSUPPORTED, "FE-X02", "it has dtype {}, which DLPack cannot carry", name_of(dtype)));
  if (tensor.dtype.code != expected.code || tensor.dtype.bits != expected.bits || tensor.dtype.lanes != 1)
    return at(
        where,
        error(FE_EINVALID, "FE-X02",
              "it has dtype {} (DLPack code {}, {} bits), a tensor of code {}, {} bits, {} lanes was given",
              name_of(dtype), expected.code, expected.bits, tensor.dtype.code, tensor.dtype.bits,
              tensor.dtype.lanes));
  return {};
}

int64_t elements_of(const DLTensor& tensor) {
  int64_t count = 1;
  for (int32_t d = 0; d < tensor.ndim; ++d) count *= tensor.shape[d];
  return count;
}

bool contiguous(const DLTensor& tensor) {
  if (!tensor.strides) return true;
  int64_t expected = 1;
  for (int32_t d = tensor.ndim - 1; d >= 0; --d) {
    if (tensor.shape[d] != 1 && tensor.strides[d] != expected) return false;
    expected *= tensor.shape[d];
  }
  return true;
}

/// Elements of a strided tensor in the order of its indices.
std::vector<std::byte> gather(const DLTensor& tensor, const char* data) {
  const size_t width = tensor.dtype.bits / 8;
  const int64_t count = elements_of(tensor);
  std::vector<std::byte> result(static_cast<size_t>(count) * width);
  std::vector<int64_t> index(static_cast<size_t>(tensor.ndim), 0);
  int64_t offset = 0;
  for (int64_t k = 0; k < count; ++k) {
    std::memcpy(result.data() + static_cast<size_t>(k) * width, data + offset * static_cast<int64_t>(width),
                width);
    for (int32_t d = tensor.ndim - 1; d >= 0; --d) {
      offset += tensor.strides[d];
      if (++index[static_cast<size_t>(d)] < tensor.shape[d]) break;
      offset -= tensor.strides[d] * tensor.shape[d];
      index[static_cast<size_t>(d)] = 0;
    }
  }
  return result;
}

bool aligned(const void* data, const DLDataType& dtype) {
  return reinterpret_cast<uintptr_t>(data) % std::max<size_t>(1, std::min<size_t>(dtype.bits / 8, 8)) == 0;
}

}  // namespace

DLDataType data_type_of(DType dtype) {
  const auto* info = find_dtype(dtype);
  if (!info || info->bits % 8 != 0) return {no_code, 0, 1};
  auto bits = static_cast<uint8_t>(info->bits);
  auto with = [&](int code) { return DLDataType{static_cast<uint8_t>(code), bits, 1}; };
  switch (info->kind) {
    case FE_CLASS_BOOL: return with(kDLBool);
    case FE_CLASS_INT: return with(kDLInt);
    case FE_CLASS_UINT: return with(kDLUInt);
    case FE_CLASS_COMPLEX: return with(kDLComplex);
    default: break;
  }
  // DLPack numbers each of the small floats.
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

Result<std::vector<BoundTensor>> bind_inputs(const Model& model, const DLTensor* const* tensors,
                                             uint64_t count, bool with_data) {
  const auto& ports = model.inputs();
  if (count != ports.size())
    return error(FE_EINVALID, "FE-X01", "the model has {} inputs, {} were given", ports.size(), count);
  if (!tensors && count > 0) return error(FE_EINVALID, "FE-X30", "the inputs are null");
  std::vector<BoundTensor> result(ports.size());
  for (size_t k = 0; k < ports.size(); ++k) {
    const std::string where = fmt::format("input '{}'", ports[k].name);
    FE_CHECK(check(tensors[k], where));
    const auto& tensor = *tensors[k];
    FE_CHECK(check_dtype(tensor, ports[k].dtype, where));
    auto& bound = result[k];
    bound.dims.assign(tensor.shape, tensor.shape + tensor.ndim);
    if (!with_data || elements_of(tensor) == 0) continue;
    if (!tensor.data) return at(where, error(FE_EINVALID, "FE-X30", "the tensor has no data"));
    const char* data = static_cast<const char*>(tensor.data) + tensor.byte_offset;
    bound.data = data;
    if (!contiguous(tensor)) {
      bound.owned = gather(tensor, data);
    } else if (!aligned(data, tensor.dtype)) {
      const auto* bytes = reinterpret_cast<const std::byte*>(data);
      bound.owned.assign(bytes, bytes + elements_of(tensor) * (tensor.dtype.bits / 8));
    }
    if (!bound.owned.empty()) bound.data = bound.owned.data();
  }
  return result;
}

Result<std::vector<void*>> bind_outputs(const Model& model, const std::vector<run::PortInfo>& ports,
                                        DLTensor* const* tensors, uint64_t count) {
  if (count != ports.size())
    return error(FE_EINVALID, "FE-X01", "the model has {} outputs, {} were given", ports.size(), count);
  if (!tensors && count > 0) return error(FE_EINVALID, "FE-X30", "the outputs are null");
  std::vector<void*> result;
  for (size_t k = 0; k < ports.size(); ++k) {
    const std::string where = fmt::format("output '{}'", model.outputs()[k].name);
    FE_CHECK(check(tensors[k], where));
    const auto& tensor = *tensors[k];
    FE_CHECK(check_dtype(tensor, ports[k].dtype, where));
    std::span<const int64_t> shape(tensor.shape, static_cast<size_t>(tensor.ndim));
    if (!std::equal(shape.begin(), shape.end(), ports[k].dims.begin(), ports[k].dims.end()))
      return at(where, error(FE_EINVALID, "FE-X35", "the result has shape {}, a tensor of shape {} was given",
                             shape_text(ports[k].dims), shape_text(shape)));
    char* data = tensor.data ? static_cast<char*>(tensor.data) + tensor.byte_offset : nullptr;
    if (!data && ports[k].bytes > 0) return at(where, error(FE_EINVALID, "FE-X30", "the tensor has no data"));
    if (!contiguous(tensor) || !aligned(data, tensor.dtype))
      return at(where,
                error(FE_EINVALID, "FE-X35", "the memory must be contiguous and aligned to its elements"));
    result.push_back(data);
  }
  return result;
}

Result<OwnedTensor> make_tensor(const run::PortInfo& port) {
  auto dtype = data_type_of(port.dtype);
  if (dtype.code == no_code)
    return at(
        fmt::format("output '{}'", port.name),
        error(FE_EUNSUPPORTED, "FE-X02", "it has dtype {}, which DLPack cannot carry", name_of(port.dtype)));
  // One owner for the struct, its shape and its elements.
  struct Owner {
    DLManagedTensorVersioned tensor{};
    std::vector<int64_t> shape;
    void* data = nullptr;
  };
  auto owner = std::make_unique<Owner>();
  const size_t bytes = (static_cast<size_t>(std::max<int64_t>(port.bytes, 1)) + output_alignment - 1) /
                       output_alignment * output_alignment;
  owner->data = std::aligned_alloc(output_alignment, bytes);
  if (!owner->data)
    return error(FE_ENOMEM, "FE-X36",
                 "no memory for output '{}' of {} bytes; free memory, or use smaller sizes", port.name,
                 bytes);
  owner->shape = port.dims;
  auto& tensor = owner->tensor;
  tensor.version = {DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION};
  tensor.manager_ctx = owner.get();
  tensor.deleter = [](DLManagedTensorVersioned* self) {
    auto* owned = static_cast<Owner*>(self->manager_ctx);
    std::free(owned->data);
    delete owned;
  };
  tensor.dl_tensor = {owner->data,
                      {kDLCPU, 0},
                      static_cast<int32_t>(owner->shape.size()),
                      dtype,
                      owner->shape.data(),
                      nullptr,
                      0};
  return OwnedTensor(&owner.release()->tensor);
}

}  // namespace ferrite::core::embed
