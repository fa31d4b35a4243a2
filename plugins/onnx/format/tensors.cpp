// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "format/tensors.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <system_error>

namespace ferrite::from_onnx {
namespace {

// Element types that older ONNX headers do not name.
constexpr int32_t float8_e4m3fn = 17, float8_e4m3fnuz = 18, float8_e5m2 = 19, float8_e5m2fnuz = 20;

/// Unsupported element types, with ONNX's names.
struct NamedType {
  int32_t number;
  std::string_view name;
};
constexpr NamedType unsupported_types[] = {{8, "strings"},
                                           {14, "complex numbers (COMPLEX64)"},
                                           {15, "complex numbers (COMPLEX128)"},
                                           {21, "UINT4"},
                                           {22, "INT4"},
                                           {23, "FLOAT4E2M1"},
                                           {24, "FLOAT8E8M0"},
                                           {25, "UINT2"},
                                           {26, "INT2"},
                                           {27, "FLOAT6E2M3"},
                                           {28, "FLOAT6E3M2"}};

namespace fs = std::filesystem;

constexpr uint64_t literal_limit = 1024;
constexpr int64_t element_limit = int64_t{1} << 48;

uint64_t bytes_needed(const TensorType& type) {
  return static_cast<uint64_t>(bytes_of(type.dtype, type.elements()));
}

void need_bytes(const TensorType& type, uint64_t bytes, const std::string& where) {
  if (bytes != bytes_needed(type))
    fail("FE-I18", where, ": ", to_string(type), " needs ", bytes_needed(type), " bytes and the file has ",
         bytes, "; the model is damaged, export it again");
}

/// The elements of a typed field, narrowed to the dtype: ONNX stores small integers and the bits of small
/// floats as int32.
template <class To, class List>
void narrow(const List& list, std::vector<std::byte>& bytes) {
  bytes.resize(static_cast<size_t>(list.size()) * sizeof(To));
  size_t at = 0;
  for (auto value : list) {
    To element = static_cast<To>(value);
    std::memcpy(bytes.data() + at, &element, sizeof element);
    at += sizeof element;
  }
}

std::vector<std::byte> typed_data(const onnx::TensorProto& tensor, DType dtype) {
  std::vector<std::byte> bytes;
  switch (dtype) {
    case DType::f32_: narrow<float>(tensor.float_data(), bytes); break;
    case DType::f64_: narrow<double>(tensor.double_data(), bytes); break;
    case DType::i64_: narrow<int64_t>(tensor.int64_data(), bytes); break;
    case DType::u64_: narrow<uint64_t>(tensor.uint64_data(), bytes); break;
    case DType::u32_: narrow<uint32_t>(tensor.uint64_data(), bytes); break;
    case DType::i32_: narrow<int32_t>(tensor.int32_data(), bytes); break;
    case DType::i16_:
    case DType::u16_:
    case DType::f16_:
    case DType::bf16_: narrow<uint16_t>(tensor.int32_data(), bytes); break;
    default: narrow<uint8_t>(tensor.int32_data(), bytes);
  }
  return bytes;
}

uint64_t parse_count(const std::string& text, const char* key, const std::string& where) {
  uint64_t value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size())
    fail("FE-I17", where, ": external data have the ", key, " '", text, "', which is no number of bytes");
  return value;
}

bool lies_in(const fs::path& file, const fs::path& folder) {
  auto relative = file.lexically_relative(folder);
  return !relative.empty() && *relative.begin() != "..";
}

/// The file of external data. It must lie in the model's folder after links are resolved; if the model itself
/// is a link, in the folder of the link's target.
fs::path resolve_external(const ModelFile& file, const std::string& location, const std::string& where) {
  auto leaves = [&] {
    fail("FE-I16", where, ": external data are at '", location,
         "', outside the model's folder; put the file beside the model");
  };
  fs::path relative = fs::path(location).lexically_normal();
  if (location.empty() || location.find('\0') != std::string::npos || relative.is_absolute() ||
      *relative.begin() == "..")
    leaves();
  fs::path path = fs::path(file.path).parent_path() / relative;
  std::error_code error;
  fs::path real = fs::canonical(path, error);
  if (error)
    fail("FE-I15", where, ": external data cannot be read: ", path.string(), ": ", error.message(),
         "; put the file beside the model");
  if (!fs::is_regular_file(real, error))
    fail("FE-I15", where, ": external data at ", path.string(),
         " are no file; put the file beside the model");
  fs::path folder = fs::canonical(fs::path(file.path).parent_path(), error);
  fs::path real_folder = fs::canonical(file.path, error).parent_path();
  if (!lies_in(real, folder) && (error || !lies_in(real, real_folder))) leaves();
  return path;
}

Value external_weight(Graph& graph, const ModelFile& file, const onnx::TensorProto& tensor,
                      const TensorType& type, const std::string& where) {
  std::string location;
  uint64_t offset = 0;
  std::optional<uint64_t> length;
  for (const auto& entry : tensor.external_data()) {
    if (entry.key() == "location") location = entry.value();
    if (entry.key() == "offset") offset = parse_count(entry.value(), "offset", where);
    if (entry.key() == "length") length = parse_count(entry.value(), "length", where);
  }
  fs::path path = resolve_external(file, location, where);
  std::error_code error;
  uint64_t size = fs::file_size(path, error);
  if (error) fail("FE-I15", where, ": external data cannot be read: ", path.string(), ": ", error.message());
  uint64_t needed = bytes_needed(type);
  if (length && *length != needed)
    fail("FE-I17", where, ": ", to_string(type), " needs ", needed,
         " bytes and the model says that its external data have ", *length);
  if (offset > size || needed > size - offset)
    fail("FE-I17", where, ": ", to_string(type), " needs the bytes [", offset, ", ", offset, " + ", needed,
         ") of ", path.string(), ", which has ", size, "; the file is truncated or of another model");
  if (needed == 0) return graph.literal(type, nullptr);
  return graph.weight(tensor.name(), type, path.string(), offset);
}

template <class To, class From>
std::vector<To> converted(const Value& constant) {
  auto elements = constant.elements<From>();
  return {elements.begin(), elements.end()};
}
/// Reads floats whose bits are stored as Bits.
template <class To, class Bits>
std::vector<To> rounded(const Value& constant) {
  std::vector<To> result;
  for (Bits bits : constant.elements<Bits>())
    result.push_back(static_cast<To>(float_value(constant.dtype(), bits)));
  return result;
}
template <class To>
std::vector<To> elements_as(const Value& constant) {
  DType dtype = constant.dtype();
  if (constant.type().elements() == 0) return {};
  switch (dtype) {
    case DType::bool_:
    case DType::u8_: return converted<To, uint8_t>(constant);
    case DType::i8_: return converted<To, int8_t>(constant);
    case DType::i16_: return converted<To, int16_t>(constant);
    case DType::u16_: return converted<To, uint16_t>(constant);
    case DType::i32_: return converted<To, int32_t>(constant);
    case DType::u32_: return converted<To, uint32_t>(constant);
    case DType::i64_: return converted<To, int64_t>(constant);
    case DType::u64_: return converted<To, uint64_t>(constant);
    case DType::f32_: return converted<To, float>(constant);
    case DType::f64_: return converted<To, double>(constant);
    case DType::f16_:
    case DType::bf16_: return rounded<To, uint16_t>(constant);
    case DType::f8e4m3_:
    case DType::f8e5m2_:
    case DType::f8e4m3fnuz_:
    case DType::f8e5m2fnuz_: return rounded<To, uint8_t>(constant);
    default:
      throw Failure(FE_EUNSUPPORTED, "FE-I19",
                    "constants of " + std::string(name_of(dtype)) + " cannot be read");
  }
}

}  // namespace

std::optional<DType> known_dtype(int32_t onnx_type) {
  using Proto = onnx::TensorProto;
  switch (onnx_type) {
    case Proto::BOOL: return boolean;
    case Proto::INT8: return i8;
    case Proto::INT16: return i16;
    case Proto::INT32: return i32;
    case Proto::INT64: return i64;
    case Proto::UINT8: return u8;
    case Proto::UINT16: return u16;
    case Proto::UINT32: return u32;
    case Proto::UINT64: return u64;
    case Proto::FLOAT16: return f16;
    case Proto::BFLOAT16: return bf16;
    case Proto::FLOAT: return f32;
    case Proto::DOUBLE: return f64;
    case float8_e4m3fn: return f8e4m3;
    case float8_e4m3fnuz: return f8e4m3fnuz;
    case float8_e5m2: return f8e5m2;
    case float8_e5m2fnuz: return f8e5m2fnuz;
    default: return std::nullopt;
  }
}

DType dtype_of(int32_t onnx_type, std::string_view where) {
  if (onnx_type == onnx::TensorProto::UNDEFINED) fail("FE-I18", where, ": the element type is not given");
  if (const auto dtype = known_dtype(onnx_type)) return *dtype;
  const auto found = std::ranges::find(unsupported_types, onnx_type, &NamedType::number);
  const std::string name =
      found == std::end(unsupported_types) ? "of an unknown type" : std::string(found->name);
  throw Failure(FE_EUNSUPPORTED, "FE-I19",
                detail::concatenate(where, ": the elements are ", name, " (ONNX type ", onnx_type,
                                    "), which is not supported; convert to bool, integers of 8 to 64 bits, "
                                    "f8, f16, bf16, f32 or f64"));
}

TensorType type_of(const onnx::TensorProto& tensor, std::string_view where) {
  TensorType type{dtype_of(tensor.data_type(), where), {tensor.dims().begin(), tensor.dims().end()}};
  int64_t count = 1;
  for (int64_t dim : type.dims)
    if (dim < 0 || __builtin_mul_overflow(count, dim, &count) || count > element_limit)
      fail("FE-I18", where, ": the dims ", to_string(type).substr(name_of(type.dtype).size()),
           " are no dims of a tensor that can exist");
  return type;
}

Value constant_of(Graph& graph, const ModelFile& file, const onnx::TensorProto& tensor, const RawRange* raw) {
  const std::string where = "tensor '" + tensor.name() + "'";
  TensorType type = type_of(tensor, where);
  if (tensor.has_segment())
    throw Failure(FE_EUNSUPPORTED, "FE-I24",
                  where + ": segments of tensors are not supported; export the model again");
  if (tensor.data_location() == onnx::TensorProto::EXTERNAL)
    return external_weight(graph, file, tensor, type, where);
  if (raw && raw->present) {
    need_bytes(type, raw->bytes, where);
    if (raw->bytes > literal_limit) return graph.weight(tensor.name(), type, file.path, raw->offset);
    return graph.literal(type, file.bytes.data() + raw->offset);
  }
  if (tensor.has_raw_data()) {
    need_bytes(type, tensor.raw_data().size(), where);
    return graph.literal(type, tensor.raw_data().data());
  }
  auto data = typed_data(tensor, type.dtype);
  need_bytes(type, data.size(), where);
  return graph.literal(type, data.data());
}

std::vector<int64_t> integers_of(const Value& constant) { return elements_as<int64_t>(constant); }
std::vector<double> numbers_of(const Value& constant) { return elements_as<double>(constant); }

}  // namespace ferrite::from_onnx
