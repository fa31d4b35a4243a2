// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "driver/isolate/messages.h"

#include <type_traits>
#include <variant>

namespace ferrite::core::isolate {

void put(Encoder& to, const graph::Attribute& attribute) {
  to.put(std::string_view(attribute.name));
  to.put(attribute.kind());
  std::visit(
      [&to]<class T>(const T& value) {
        if constexpr (std::is_same_v<T, bool>)
          to.put(uint8_t{value});
        else
          to.put(value);
      },
      attribute.value);
}

graph::Attribute get_attribute(Decoder& from) {
  graph::Attribute result;
  result.name = from.text();
  switch (from.get<uint32_t>()) {
    case FE_ATTR_INT: result.value = from.get<int64_t>(); break;
    case FE_ATTR_FLOAT: result.value = from.get<double>(); break;
    case FE_ATTR_STRING: result.value = std::string(from.text()); break;
    case FE_ATTR_DTYPE: result.value = from.get<DType>(); break;
    case FE_ATTR_INTS: result.value = from.list<int64_t>(); break;
    case FE_ATTR_FLOATS: result.value = from.list<double>(); break;
    case FE_ATTR_STRINGS: result.value = from.texts(); break;
    case FE_ATTR_BOOL: result.value = from.get<uint8_t>() != 0; break;
    default: from.refuse();
  }
  return result;
}

void put(Encoder& to, const graph::TensorType& type) {
  to.put(type.dtype);
  to.put(type.dims);
  to.put(type.device);
  to.put(type.layout.kind);
  to.put(type.layout.strides);
  to.put(type.layout.offset);
  to.put(type.layout.alignment);
}

graph::TensorType get_type(Decoder& from) {
  graph::TensorType type;
  type.dtype = from.get<DType>();
  type.dims = from.list<int64_t>();
  type.device = from.get<uint32_t>();
  type.layout.kind = from.get<uint16_t>();
  type.layout.strides = from.list<int64_t>();
  type.layout.offset = from.get<int64_t>();
  type.layout.alignment = from.get<uint32_t>();
  // Symbols are numbered differently in each process, so they cannot be sent.
  for (const int64_t dim : type.dims)
    if (dim < 0) from.refuse();
  if (type.layout.kind == FE_LAYOUT_STRIDED && type.layout.strides.size() != type.dims.size()) from.refuse();
  return type;
}

void put_status(Encoder& to, int32_t status, const Error& error) {
  to.put(status);
  if (status == FE_OK) return;
  to.put(std::string_view(error.code));
  to.put(std::string_view(error.text));
}

Result<void> get_status(Decoder& from) {
  const auto status = from.get<int32_t>();
  if (status == FE_OK) return {};
  constexpr size_t longest_code = 256, longest_text = 16 << 10;
  Error error;
  error.status = status > FE_OK && status <= FE_ESTALE ? status : FE_EINTERNAL;
  error.code = from.text().substr(0, longest_code);
  error.text = from.text().substr(0, longest_text);
  return error;
}

}  // namespace ferrite::core::isolate
