// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "tools/cli/tensor_proto.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>

namespace ferrite::cli {
namespace {

using core::at;
using core::error;
using core::Result;

/// By TensorProto.DataType; none: not a tensor of numbers, or unknown.
constexpr std::array<DType, 24> data_types = {
    DType::none,        DType::f32_,    DType::u8_,         DType::i8_,   DType::u16_,  DType::i16_,
    DType::i32_,        DType::i64_,    DType::none,        DType::bool_, DType::f16_,  DType::f64_,
    DType::u32_,        DType::u64_,    DType::c64_,        DType::c128_, DType::bf16_, DType::f8e4m3_,
    DType::f8e4m3fnuz_, DType::f8e5m2_, DType::f8e5m2fnuz_, DType::u4_,   DType::i4_,   DType::f4e2m1_};

// Field numbers of TensorProto.
enum Field : uint32_t {
  dims = 1,
  data_type = 2,
  float_data = 4,
  int32_data = 5,
  string_data = 6,
  int64_data = 7,
  name = 8,
  raw_data = 9,
  double_data = 10,
  uint64_data = 11,
  external_data = 13,
  data_location = 14
};

/// The wire format of protobuf: tags, varints, fixed-width and length-delimited values.
class Wire {
 public:
  explicit Wire(std::string_view bytes) : rest_(bytes) {}
  bool done() const { return rest_.empty(); }

  std::optional<uint64_t> varint() {
    uint64_t value = 0;
    for (int shift = 0; shift < 64 && !rest_.empty(); shift += 7) {
      const auto byte = static_cast<unsigned char>(rest_.front());
      rest_.remove_prefix(1);
      value |= static_cast<uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
    return std::nullopt;
  }
  std::optional<std::string_view> take(uint64_t count) {
    if (count > rest_.size()) return std::nullopt;
    auto taken = rest_.substr(0, count);
    rest_.remove_prefix(count);
    return taken;
  }

 private:
  std::string_view rest_;
};

/// One field: a number, or bytes (length-delimited and fixed-width values).
struct Item {
  uint32_t field = 0;
  bool is_bytes = false;
  uint64_t number = 0;
  std::string_view bytes;
};

std::optional<Item> next_item(Wire& wire) {
  auto tag = wire.varint();
  if (!tag) return std::nullopt;
  Item item;
  item.field = static_cast<uint32_t>(*tag >> 3);
  std::optional<std::string_view> bytes;
  switch (*tag & 7) {
    case 0: {
      auto number = wire.varint();
      if (!number) return std::nullopt;
      item.number = *number;
      return item;
    }
    case 1: bytes = wire.take(8); break;
    case 5: bytes = wire.take(4); break;
    case 2:
      if (auto length = wire.varint()) bytes = wire.take(*length);
      break;
    default: break;
  }
  if (!bytes) return std::nullopt;
  item.is_bytes = true;
  item.bytes = *bytes;
  return item;
}

/// Appends a repeated integer, packed or one for each field.
bool append_varints(const Item& item, std::vector<uint64_t>& values) {
  if (!item.is_bytes) {
    values.push_back(item.number);
    return true;
  }
  Wire packed(item.bytes);
  while (!packed.done()) {
    auto value = packed.varint();
    if (!value) return false;
    values.push_back(*value);
  }
  return true;
}

struct Message {
  std::vector<uint64_t> dims, integers;
  uint64_t data_type = 0;
  std::string name, fixed, raw;  // fixed: float_data or double_data
  bool has_raw = false, external = false;
};

bool read_message(std::string_view bytes, Message& message) {
  Wire wire(bytes);
  while (!wire.done()) {
    auto item = next_item(wire);
    if (!item) return false;
    bool fine = true;
    switch (item->field) {
      case Field::dims: fine = append_varints(*item, message.dims); break;
      case Field::data_type:
        fine = !item->is_bytes;
        message.data_type = item->number;
        break;
      case Field::float_data:
      case Field::double_data:
        fine = item->is_bytes;
        message.fixed += item->bytes;
        break;
      case Field::int32_data:
      case Field::int64_data:
      case Field::uint64_data: fine = append_varints(*item, message.integers); break;
      case Field::name: message.name = item->bytes; break;
      case Field::raw_data:
        fine = item->is_bytes;
        message.raw = item->bytes;
        message.has_raw = true;
        break;
      case Field::external_data: message.external = true; break;
      case Field::data_location: message.external = message.external || item->number == 1; break;
      default: break;
    }
    if (!fine) return false;
  }
  return true;
}

/// Calls body(bytes) for each length-delimited value of a field, up to the first error in the message.
template <class Body>
void each_message(std::string_view message, uint32_t field, const Body& body) {
  Wire wire(message);
  while (!wire.done()) {
    auto item = next_item(wire);
    if (!item) return;
    if (item->field == field && item->is_bytes) body(item->bytes);
  }
}

/// The size of a TensorShapeProto.Dimension: its dim_value, or -1.
int64_t dim_of(std::string_view message) {
  Wire wire(message);
  int64_t size = -1;
  while (!wire.done()) {
    auto item = next_item(wire);
    if (!item) break;
    if (item->field == 1 && !item->is_bytes) size = static_cast<int64_t>(item->number);
  }
  return std::max<int64_t>(size, -1);
}

}  // namespace

Result<NamedTensor> read_tensor_proto(std::string_view bytes, const std::string& where) {
  auto damaged = [&](std::string_view what) {
    return at(where, error(FE_EINVALID, "FE-C20", "this is no TensorProto: {}", what));
  };
  auto unsupported = [&](std::string_view what) {
    return at(where, error(FE_EUNSUPPORTED, "FE-C21", "{} are not supported", what));
  };
  Message message;
  if (!read_message(bytes, message)) return damaged("its bytes are not those of one");
  if (message.data_type == 8) return unsupported("tensors of strings");
  if (message.data_type >= data_types.size() || data_types[message.data_type] == DType::none)
    return unsupported(fmt::format("tensors of data type {}", message.data_type));
  if (message.external) return unsupported("elements in another file");
  const DType dtype = data_types[message.data_type];
  std::vector<int64_t> shape(message.dims.begin(), message.dims.end());
  // The sizes are compared before memory is allocated for them.
  int64_t count = 1;
  for (int64_t dim : shape)
    if (dim < 0 || __builtin_mul_overflow(count, dim, &count))
      return damaged("its dims are negative or too large");
  int64_t bits = 0;
  if (__builtin_mul_overflow(count, int64_t{bits_of(dtype)}, &bits))
    return damaged("its dims are negative or too large");
  const auto needed = static_cast<uint64_t>(bytes_of(dtype, count));
  const bool fixed = dtype == DType::f32_ || dtype == DType::f64_ || class_of(dtype) == FE_CLASS_COMPLEX;
  const std::string* contents = message.has_raw ? &message.raw : fixed ? &message.fixed : nullptr;
  // Each value is one integer, except that two 4-bit integers share one.
  const uint64_t given = contents ? contents->size()
                         : bits_of(dtype) < 8
                             ? message.integers.size()
                             : message.integers.size() * static_cast<uint64_t>(bits_of(dtype) / 8);
  if (given != needed)
    return damaged(fmt::format("its shape needs {} bytes of elements, it has {}", needed, given));
  FE_TRY(auto tensor, Tensor::make(dtype, std::move(shape)));
  if (contents) {
    if (needed > 0) std::memcpy(tensor.data(), contents->data(), needed);
  } else {
    const size_t width = std::max<size_t>(1, static_cast<size_t>(bits_of(dtype)) / 8);
    for (size_t k = 0; k < message.integers.size(); ++k)
      std::memcpy(tensor.bytes().data() + k * width, &message.integers[k], width);
  }
  return NamedTensor{std::move(message.name), std::move(tensor)};
}

// ModelProto.graph.input: name, and type.tensor_type.shape.dim.
std::vector<DeclaredInput> declared_inputs(std::string_view model) {
  std::vector<DeclaredInput> result;
  each_message(model, 7, [&](std::string_view graph) {
    each_message(graph, 11, [&](std::string_view input) {
      auto& declared = result.emplace_back();
      each_message(input, 1, [&](std::string_view name) { declared.name = name; });
      each_message(input, 2, [&](std::string_view type) {
        each_message(type, 1, [&](std::string_view tensor) {
          each_message(tensor, 2, [&](std::string_view shape) {
            declared.ranked = true;
            each_message(shape, 1, [&](std::string_view dim) { declared.dims.push_back(dim_of(dim)); });
          });
        });
      });
    });
  });
  return result;
}

}  // namespace ferrite::cli
