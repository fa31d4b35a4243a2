// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/support/wire.h"

namespace ferrite::core::isolate {

void Encoder::put(const graph::Attribute& attribute) {
  put(std::string_view(attribute.name));
  put(attribute.kind());
  std::visit(
      [this]<class T>(const T& value) {
        if constexpr (std::is_same_v<T, bool>)
          put(uint8_t{value});
        else
          put(value);
      },
      attribute.value);
}

graph::Attribute Decoder::attribute() {
  graph::Attribute result;
  result.name = text();
  switch (get<uint32_t>()) {
    case FE_ATTR_INT: result.value = get<int64_t>(); break;
    case FE_ATTR_FLOAT: result.value = get<double>(); break;
    case FE_ATTR_STRING: result.value = std::string(text()); break;
    case FE_ATTR_DTYPE: result.value = get<DType>(); break;
    case FE_ATTR_INTS: result.value = list<int64_t>(); break;
    case FE_ATTR_FLOATS: result.value = list<double>(); break;
    case FE_ATTR_STRINGS: result.value = texts(); break;
    case FE_ATTR_BOOL: result.value = get<uint8_t>() != 0; break;
    default: fail();
  }
  return result;
}

void Encoder::put(const graph::TensorType& type) {
  put(type.dtype);
  put(type.dims);
  put(type.device);
  put(type.layout.kind);
  put(type.layout.strides);
  put(type.layout.offset);
  put(type.layout.alignment);
}

graph::TensorType Decoder::type() {
  graph::TensorType type;
  type.dtype = get<DType>();
  type.dims = list<int64_t>();
  type.device = get<uint32_t>();
  type.layout.kind = get<uint16_t>();
  type.layout.strides = list<int64_t>();
  type.layout.offset = get<int64_t>();
  type.layout.alignment = get<uint32_t>();
  // Symbols have numbers of their own in each process.
  for (const int64_t dim : type.dims)
    if (dim < 0) fail();
  if (type.layout.kind == FE_LAYOUT_STRIDED && type.layout.strides.size() != type.dims.size()) fail();
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
