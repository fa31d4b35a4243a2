// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// DLPack tensors as a model's inputs and outputs.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "ferrite/ferrite.h"
#include "runtime/capi/engine.h"

namespace ferrite::core::capi {

/// Where tensors of runs may lie beside the host's memory.
struct TensorDevice {
  DLDevice device{kDLCPU, 0};
  std::string name;  ///< "cpu:0"
  bool has_streams = false;
  /// It has memory of its own; else tensors are in the host's.
  bool is_apart() const { return device.device_type != kDLCPU; }
  bool has(const DLTensor& tensor) const;
  bool any_has(std::span<const DLTensor* const> tensors) const;  ///< tensors may be null
};
/// DLPack's kind and number.
DLDevice number_of(const runtime::Device& device);
/// That of programs on these devices.
TensorDevice tensor_device(const runtime::Devices& devices);

/// A tensor that was checked. Its elements are where the caller has them.
struct BoundTensor {
  std::vector<int64_t> dims;
  std::vector<int64_t> strides;  ///< in elements; empty: contiguous
  int64_t width = 1;             ///< of an element, in bytes
  int64_t bytes = 0;             ///< of all elements
  char* data = nullptr;
  bool on_device = false;  ///< in the device's memory, contiguous

  bool is_aligned() const;  ///< to its elements
};

/// Checks tensors against the model's ports. FE-X01 another number of inputs, FE-X02 another dtype, FE-X30 a null pointer, FE-X32 a
/// malformed tensor, FE-X33 neither in host memory nor in that of `device`, FE-X35 strided on the device. Without `with_data` data may be
/// null.
Result<std::vector<BoundTensor>> bind_inputs(const LoadedModel& model, const DLTensor* const* tensors,
                                             uint64_t count, const TensorDevice& device, bool with_data);

/// The caller's output tensors. Beside the codes above FE-X35: shape, strides or alignment do not fit.
Result<std::vector<BoundTensor>> bind_outputs(const LoadedModel& model,
                                              const std::vector<runtime::PortInfo>& ports,
                                              DLTensor* const* tensors, uint64_t count,
                                              const TensorDevice& device);

struct EndTensor {
  void operator()(DLManagedTensorVersioned* tensor) const { tensor->deleter(tensor); }
};
using OwnedTensor = std::unique_ptr<DLManagedTensorVersioned, EndTensor>;
/// A new tensor of the port's type in host memory; its elements are not initialised.
Result<OwnedTensor> make_tensor(const runtime::PortInfo& port);

/// Where a tensor on the device comes from, which is kept as long as the tensor.
struct DeviceMemory {
  std::shared_ptr<const Engine> engine;
  std::shared_ptr<const runtime::Executable> executable;
  std::shared_ptr<void> stream;  ///< whose work it is taken and given back behind; null: the device's own
};
/// The same in the memory of the program's first device. FE-D03.
Result<OwnedTensor> make_device_tensor(const runtime::PortInfo& port, DeviceMemory from);

/// Elements of a tensor in the order of its indices, from one that is strided or into it.
void gather(const BoundTensor& from, char* to);
void scatter(const char* from, const BoundTensor& to);

/// Code 255 where DLPack has no such type.
DLDataType data_type_of(DType dtype);

}  // namespace ferrite::core::capi
