// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "format/declared.h"

#include "format/tensors.h"

namespace ferrite::from_onnx {
namespace {

constexpr size_t most_shown = 4;

/// -1 if the dim is no number.
int64_t size_of(const onnx::TensorShapeProto::Dimension& dim) {
  return dim.has_dim_value() && dim.dim_value() >= 0 ? dim.dim_value() : -1;
}

bool contradicts(const onnx::TensorShapeProto& shape, const Dims& dims) {
  if (static_cast<size_t>(shape.dim_size()) != dims.size()) return true;
  for (int d = 0; d < shape.dim_size(); ++d)
    if (const int64_t size = size_of(shape.dim(d)); size >= 0 && size != dims[static_cast<size_t>(d)])
      return true;
  return false;
}

/// "f32[batch,3,?]"
std::string type_text(DType dtype, const onnx::TensorShapeProto& shape) {
  std::string text = std::string(name_of(dtype)) + "[";
  for (int d = 0; d < shape.dim_size(); ++d) {
    const auto& dim = shape.dim(d);
    const int64_t size = size_of(dim);
    text += d > 0 ? "," : "";
    text += size >= 0 ? std::to_string(size) : dim.dim_param().empty() ? "?" : dim.dim_param();
  }
  return text + "]";
}

}  // namespace

void DeclaredTypes::add(const onnx::GraphProto& graph) {
  for (const auto* infos : {&graph.value_info(), &graph.output()})
    for (const auto& info : *infos)
      if (info.type().tensor_type().elem_type() != onnx::TensorProto::UNDEFINED)
        types_[info.name()] = &info.type().tensor_type();
}

void DeclaredTypes::check(const std::string& name, const Value& value, const std::string& where) {
  const auto found = types_.find(name);
  if (found == types_.end()) return;
  const auto& type = *found->second;
  const std::string subject = "value '" + name + "'";
  const DType declared = dtype_of(type.elem_type(), subject);
  if (declared != value.dtype())
    fail("FE-I27", subject, " is declared as ", name_of(declared), ", and the graph makes ",
         name_of(value.dtype()), "; the model is damaged, export it again");
  if (!type.has_shape() || !contradicts(type.shape(), value.dims()) || !differ_.insert(name).second) return;
  if (!warn_ || differ_.size() > most_shown) return;
  warn_(detail::concatenate("FE-I30", " ", file_, ": ", where, ": value '", name, "' is declared as ",
                            type_text(declared, type.shape()), " and is ", to_string(value.type()),
                            ", which is used; export the model again, or infer its shapes anew"));
}

void DeclaredTypes::finish() {
  if (warn_ && differ_.size() > most_shown)
    warn_(detail::concatenate("FE-I30", " ", file_, ": ", differ_.size() - most_shown,
                              " more values have another shape than the model declares"));
}

}  // namespace ferrite::from_onnx
