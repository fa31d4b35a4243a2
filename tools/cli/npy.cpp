// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "tools/cli/npy.h"

#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "core/support/files/file_fault.h"
#include "tools/cli/common.h"

namespace ferrite::cli {
namespace {

using core::at;
using core::error;
using core::Result;

constexpr std::string_view magic = "\x93NUMPY";
constexpr size_t longest_header = 1 << 16;
constexpr size_t most_dims = 32;

struct TypeCode {
  std::string_view code;
  DType dtype;
};
constexpr std::array<TypeCode, 14> type_codes = {{{"|b1", DType::bool_},
                                                  {"|i1", DType::i8_},
                                                  {"|u1", DType::u8_},
                                                  {"<i2", DType::i16_},
                                                  {"<u2", DType::u16_},
                                                  {"<i4", DType::i32_},
                                                  {"<u4", DType::u32_},
                                                  {"<i8", DType::i64_},
                                                  {"<u8", DType::u64_},
                                                  {"<f2", DType::f16_},
                                                  {"<f4", DType::f32_},
                                                  {"<f8", DType::f64_},
                                                  {"<c8", DType::c64_},
                                                  {"<c16", DType::c128_}}};

/// The header is a Python literal: {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }
class Header {
 public:
  explicit Header(std::string_view text) : rest_(text) {}

  std::string descr;
  bool fortran_order = false;
  std::vector<int64_t> shape;

  /// Whether the text is such a header with its three keys.
  bool parse() {
    bool have_descr = false, have_order = false, have_shape = false;
    if (!take('{')) return false;
    while (!take('}')) {
      std::string key;
      if (!quoted(key) || !take(':')) return false;
      if (key == "descr") {
        have_descr = quoted(descr) || fields(descr);
        if (!have_descr) return false;
      } else if (key == "fortran_order") {
        have_order = true;
        if (word("True"))
          fortran_order = true;
        else if (!word("False"))
          return false;
      } else if (key == "shape") {
        have_shape = tuple();
        if (!have_shape) return false;
      } else {
        return false;
      }
      if (!take(',')) {
        if (!take('}')) return false;
        break;
      }
    }
    return have_descr && have_order && have_shape;
  }

 private:
  void skip() {
    while (!rest_.empty() && (rest_.front() == ' ' || rest_.front() == '\n' || rest_.front() == '\t'))
      rest_.remove_prefix(1);
  }
  bool take(char c) {
    skip();
    if (rest_.empty() || rest_.front() != c) return false;
    rest_.remove_prefix(1);
    return true;
  }
  bool word(std::string_view text) {
    skip();
    if (!rest_.starts_with(text)) return false;
    rest_.remove_prefix(text.size());
    return true;
  }
  bool quoted(std::string& text) {
    skip();
    if (rest_.empty() || (rest_.front() != '\'' && rest_.front() != '"')) return false;
    auto end = rest_.find(rest_.front(), 1);
    if (end == std::string_view::npos) return false;
    text = rest_.substr(1, end - 1);
    rest_.remove_prefix(end + 1);
    return true;
  }
  /// The list that describes records, as text.
  bool fields(std::string& text) {
    skip();
    if (rest_.empty() || rest_.front() != '[') return false;
    size_t depth = 0, end = 0;
    do {
      depth += rest_[end] == '[' ? 1 : 0;
      depth -= rest_[end] == ']' ? 1 : 0;
      ++end;
    } while (depth > 0 && end < rest_.size());
    text = rest_.substr(0, end);
    rest_.remove_prefix(end);
    return depth == 0;
  }
  bool tuple() {
    if (!take('(')) return false;
    while (!take(')')) {
      skip();
      int64_t dim = 0;
      auto [end, fault] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), dim);
      if (fault != std::errc() || dim < 0 || shape.size() == most_dims) return false;
      rest_.remove_prefix(static_cast<size_t>(end - rest_.data()));
      shape.push_back(dim);
      if (!take(',')) return take(')');
    }
    return true;
  }

  std::string_view rest_;
};

Result<Tensor> transposed(const Tensor& fortran, std::vector<int64_t> dims) {
  FE_TRY(auto result, Tensor::make(fortran.dtype, std::move(dims)));
  const size_t width = static_cast<size_t>(bits_of(result.dtype)) / 8;
  std::vector<int64_t> index(result.dims.size(), 0);
  for (int64_t k = 0; k < result.elements(); ++k) {
    int64_t from = 0;
    for (size_t d = index.size(); d-- > 0;) from = from * result.dims[d] + index[d];
    std::memcpy(result.bytes().data() + static_cast<size_t>(k) * width,
                fortran.bytes().data() + static_cast<size_t>(from) * width, width);
    for (size_t d = index.size(); d-- > 0;) {
      if (++index[d] < result.dims[d]) break;
      index[d] = 0;
    }
  }
  return result;
}

}  // namespace

Result<Tensor> read_npy(const std::string& path) {
  auto damaged = [&](std::string_view what) {
    return at(path, error(FE_EINVALID, "FE-C11", "the .npy file is damaged: {}; save it again", what));
  };
  std::error_code failed;
  const auto status = std::filesystem::status(path, failed);
  if (!std::filesystem::exists(status))
    return at(path, error(FE_EINVALID, "FE-C10", "there is no such file"));
  if (!std::filesystem::is_regular_file(status))
    return at(path, error(FE_EINVALID, "FE-C10", "it is {}; give a .npy file",
                          std::filesystem::is_directory(status) ? "a folder" : "no regular file"));
  const auto total = std::filesystem::file_size(path, failed);
  errno = failed.value();
  std::ifstream file(path, std::ios::binary);
  if (!file || failed)
    return at(path,
              error(FE_EINVALID, "FE-C10", "the file cannot be read: {}", core::file_fault(path, errno)));

  std::array<unsigned char, 12> start{};
  if (total < 10 || !file.read(reinterpret_cast<char*>(start.data()), 10) ||
      std::memcmp(start.data(), magic.data(), magic.size()) != 0)
    return at(path, error(FE_EINVALID, "FE-C11", "this is no .npy file; numpy.save writes one"));
  const unsigned major = start[6];
  if (major < 1 || major > 3) return damaged(fmt::format("version {} of the format is unknown", major));
  size_t header_bytes = start[8] | static_cast<size_t>(start[9]) << 8;
  size_t data_start = 10;
  if (major > 1) {
    if (!file.read(reinterpret_cast<char*>(start.data() + 10), 2))
      return damaged("it ends within its header");
    header_bytes |= static_cast<size_t>(start[10]) << 16 | static_cast<size_t>(start[11]) << 24;
    data_start = 12;
  }
  if (header_bytes > longest_header || header_bytes > total - data_start)
    return damaged("it ends within its header");
  std::string text(header_bytes, '\0');
  if (!file.read(text.data(), static_cast<std::streamsize>(header_bytes)))
    return damaged("it ends within its header");
  data_start += header_bytes;
  Header header(text);
  if (!header.parse()) return damaged("its header is malformed");

  DType dtype = DType::none;
  for (const auto& entry : type_codes)
    if (entry.code == header.descr) dtype = entry.dtype;
  if (dtype == DType::none)
    return at(path,
              error(FE_EUNSUPPORTED, "FE-C12",
                    "elements of type '{}' are not read; save as one of |b1 |i1 |u1 <i2 <u2 <i4 <u4 <i8 <u8 "
                    "<f2 <f4 <f8 <c8 <c16",
                    header.descr));
  // The sizes are compared before memory is allocated for them.
  int64_t bytes = bits_of(dtype) / 8;
  for (int64_t dim : header.shape)
    if (__builtin_mul_overflow(bytes, dim, &bytes)) return damaged("its shape is too large");
  if (static_cast<uint64_t>(bytes) != total - data_start)
    return damaged(fmt::format("its shape [{}] needs {} bytes of elements, it has {}",
                               fmt::join(header.shape, ","), bytes, total - data_start));
  FE_TRY(auto tensor, Tensor::make(dtype, header.shape));
  if (bytes > 0 && !file.read(reinterpret_cast<char*>(tensor.data()), bytes))
    return damaged("it ends within its elements");
  if (header.fortran_order && header.shape.size() > 1) return transposed(tensor, header.shape);
  return tensor;
}

Result<void> write_npy(const std::string& path, const Tensor& tensor) {
  std::string_view descr;
  for (const auto& entry : type_codes)
    if (entry.dtype == tensor.dtype) descr = entry.code;
  auto dims = tensor.dims;
  if (descr.empty()) {
    descr = bits_of(tensor.dtype) == 16 ? "<u2" : "|u1";
    if (bits_of(tensor.dtype) < 8) dims = {static_cast<int64_t>(tensor.bytes().size())};
  }
  auto shape = fmt::format("({}{})", fmt::join(dims, ", "), dims.size() == 1 ? "," : "");
  auto header = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': {}, }}", descr, shape);
  // Elements start at a multiple of 64 bytes.
  while ((magic.size() + 4 + header.size() + 1) % 64 != 0) header += ' ';
  header += '\n';
  errno = 0;
  std::ofstream file(path, std::ios::binary);
  const char prefix[] = {1, 0, static_cast<char>(header.size() & 0xff),
                         static_cast<char>(header.size() >> 8)};
  file.write(magic.data(), static_cast<std::streamsize>(magic.size())).write(prefix, sizeof prefix);
  file.write(header.data(), static_cast<std::streamsize>(header.size()));
  file.write(reinterpret_cast<const char*>(tensor.data()),
             static_cast<std::streamsize>(tensor.bytes().size()));
  file.close();
  return file ? Result<void>() : not_written(path);
}

}  // namespace ferrite::cli
