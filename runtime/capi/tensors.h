// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Binds DLPack tensors to a model's inputs and outputs.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "ferrite/ferrite.h"
#include "runtime/capi/engine.h"

namespace ferrite::core::capi {

/// The device on which tensors of runs may be, besides the host.
struct TensorDevice {
  DLDevice device{kDLCPU, 0};
  std::string name;  ///< "cpu:0"
  bool has_streams = false;
  /// Whether it has separate memory; if not, its tensors are in host memory.
  bool is_apart() const { return device.device_type != kDLCPU; }
  bool has(const DLTensor& tensor) const;
  bool any_has(std::span<const DLTensor* const> tensors) const;  ///< elements of `tensors` may be null
};
/// The device as DLPack's type and number.
DLDevice number_of(const runtime::Device& device);
/// The tensor device of programs on these devices.
TensorDevice tensor_device(const runtime::Devices& devices);

/// A checked tensor. Its elements, dims and strides stay in the caller's memory.
struct BoundTensor {
  std::span<const int64_t> dims;
  std::span<const int64_t> strides;  ///< in elements; empty: contiguous
  int64_t width = 1;                 ///< of an element, in bytes
  int64_t bytes = 0;                 ///< of all elements
  char* data = nullptr;
  bool on_device = false;  ///< in the device's memory, contiguous

  bool is_aligned() const;  ///< to the size of its elements
};

std::vector<std::vector<int64_t>> dims_of(std::span<const BoundTensor> tensors);

/// Checks tensors against the model's ports. FE-X01 wrong number of inputs, FE-X02 wrong dtype, FE-X30 null
/// pointer, FE-X32 malformed tensor, FE-X33 neither in host memory nor in that of `device`, FE-X35 strided on
/// the device. Without `with_data` the data may be null.
Result<std::vector<BoundTensor>> bind_inputs(const LoadedModel& model, const DLTensor* const* tensors,
                                             uint64_t count, const TensorDevice& device, bool with_data);

/// Checks the caller's output tensors. Codes as above; also FE-X35 if shape, strides or alignment do not fit.
Result<std::vector<BoundTensor>> bind_outputs(const LoadedModel& model,
                                              const std::vector<runtime::PortInfo>& ports,
                                              DLTensor* const* tensors, uint64_t count,
                                              const TensorDevice& device);

struct EndTensor {
  void operator()(DLManagedTensorVersioned* tensor) const { tensor->deleter(tensor); }
};
using OwnedTensor = std::unique_ptr<DLManagedTensorVersioned, EndTensor>;
/// A new tensor of the port's type in host memory, not initialised.
Result<OwnedTensor> make_tensor(const runtime::PortInfo& port);

/// The origin of a device tensor. The tensor keeps all of it alive.
struct DeviceMemory {
  std::shared_ptr<const Engine> engine;
  std::shared_ptr<const runtime::Executable> executable;
  /// Allocation and release are ordered after its work; null: the device's default stream.
  std::shared_ptr<void> stream;
};
/// A new tensor in the memory of the program's first device. FE-D03.
Result<OwnedTensor> make_device_tensor(const runtime::PortInfo& port, DeviceMemory from);

/// Copies the elements of a tensor in index order: gather() from a strided tensor, scatter() into one.
void gather(const BoundTensor& from, char* to);
void scatter(const char* from, const BoundTensor& to);

/// The code is 255 if DLPack has no such type.
DLDataType data_type_of(DType dtype);

}  // namespace ferrite::core::capi
