// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// DLPack tensors as a model's inputs and outputs.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "core/session.h"
#include "ferrite/ferrite.h"

namespace ferrite::core::embed {

/// An input's elements, contiguous and aligned to their own size: in place, or copied to `owned`.
struct BoundTensor {
  std::vector<int64_t> dims;
  const void* data = nullptr;
  std::vector<std::byte> owned;
};

/// Checks tensors against the model's ports and makes them contiguous. FE-X01 another number of inputs, FE-X02 another dtype,
/// FE-X30 a null pointer, FE-X32 a malformed tensor, FE-X33 not in host memory. Without `with_data` elements are not looked at.
Result<std::vector<BoundTensor>> bind_inputs(const Model& model, const DLTensor* const* tensors,
                                             uint64_t count, bool with_data);

/// The memory of the caller's output tensors. Beside the codes above FE-X35: shape, strides or alignment do not fit.
Result<std::vector<void*>> bind_outputs(const Model& model, const std::vector<run::PortInfo>& ports,
                                        DLTensor* const* tensors, uint64_t count);

struct EndTensor {
  void operator()(DLManagedTensorVersioned* tensor) const { tensor->deleter(tensor); }
};
using OwnedTensor = std::unique_ptr<DLManagedTensorVersioned, EndTensor>;
/// A new tensor of the port's type; its elements are not initialised.
Result<OwnedTensor> make_tensor(const run::PortInfo& port);

/// Code 255 where DLPack has no such type.
DLDataType data_type_of(DType dtype);

}  // namespace ferrite::core::embed
