// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The protobuf encoding: a message is a sequence of fields, each a tag (number << 3 | wire type) and its
// payload.
#include "format/wire.h"

#include <algorithm>
#include <array>
#include <utility>

namespace ferrite::from_onnx {
namespace {

constexpr uint32_t varint_type = 0, fixed64_type = 1, length_type = 2, fixed32_type = 5;
constexpr uint32_t graph_field = 7;        // in ModelProto
constexpr uint32_t initializer_field = 5;  // in GraphProto
constexpr uint32_t raw_data_field = 9;     // in TensorProto

/// The fields of ModelProto that may come first in a file, with their wire types.
constexpr std::array<std::pair<uint32_t, uint32_t>, 10> model_fields{{{1, varint_type},
                                                                      {2, length_type},
                                                                      {3, length_type},
                                                                      {4, length_type},
                                                                      {5, varint_type},
                                                                      {6, length_type},
                                                                      {7, length_type},
                                                                      {8, length_type},
                                                                      {14, length_type},
                                                                      {25, length_type}}};

struct Field {
  uint32_t number = 0, type = 0;
  size_t start = 0;             ///< offset of the tag
  size_t payload = 0, end = 0;  ///< for length-delimited fields: without the length itself
};

class Walker {
 public:
  explicit Walker(Bytes bytes) : bytes_(bytes) {}

  SlimModel model() {
    if (bytes_.empty()) fail("FE-I11", "the file is empty; give a complete ONNX model");
    SlimModel slim;
    for (size_t at = 0; at < bytes_.size();) {
      Field field = next(at, bytes_.size());
      known_ = known_ || std::ranges::count(model_fields, std::pair{field.number, field.type}) > 0;
      if (!known_) damaged(field.start, "no field of a model starts here");
      if (field.number == graph_field && field.type == length_type)
        append(slim.message, field, graph(field, slim.raw));
      else
        copy(slim.message, field.start, field.end);
      at = field.end;
    }
    return slim;
  }

 private:
  std::string graph(const Field& whole, std::vector<RawRange>& raw) {
    std::string message;
    for (size_t at = whole.payload; at < whole.end;) {
      Field field = next(at, whole.end);
      if (field.number == initializer_field && field.type == length_type)
        append(message, field, tensor(field, raw.emplace_back()));
      else
        copy(message, field.start, field.end);
      at = field.end;
    }
    return message;
  }

  std::string tensor(const Field& whole, RawRange& raw) {
    std::string message;
    for (size_t at = whole.payload; at < whole.end;) {
      Field field = next(at, whole.end);
      if (field.number == raw_data_field && field.type == length_type)
        raw = {true, field.payload, field.end - field.payload};
      else
        copy(message, field.start, field.end);
      at = field.end;
    }
    return message;
  }

  Field next(size_t at, size_t limit) {
    Field field;
    field.start = at;
    uint64_t tag = varint(at, limit);
    field.number = static_cast<uint32_t>(tag >> 3);
    field.type = static_cast<uint32_t>(tag & 7);
    if (tag >> 32 || field.number == 0) damaged(field.start, "no field has this number");
    field.payload = at;
    uint64_t length = 0;
    switch (field.type) {
      case varint_type: varint(at, limit); break;
      case fixed64_type: length = 8; break;
      case fixed32_type: length = 4; break;
      case length_type:
        length = varint(at, limit);
        field.payload = at;
        break;
      default: damaged(field.start, "the field has an unknown wire type");
    }
    if (length > limit - at)
      damaged(field.start, "a field declares ", length, " bytes and ", limit - at, " are left");
    field.end = at + length;
    return field;
  }

  uint64_t varint(size_t& at, size_t limit) {
    uint64_t value = 0;
    const size_t start = at;
    for (int shift = 0; shift < 64; shift += 7) {
      if (at >= limit) damaged(start, "the data end within a number");
      auto byte = static_cast<uint8_t>(bytes_[at++]);
      value |= static_cast<uint64_t>(byte & 0x7f) << shift;
      if (!(byte & 0x80)) return value;
    }
    damaged(start, "a number is longer than 10 bytes");
  }

  void copy(std::string& message, size_t start, size_t end) const {
    message.append(reinterpret_cast<const char*>(bytes_.data()) + start, end - start);
  }
  static void put_varint(std::string& message, uint64_t value) {
    for (; value >= 0x80; value >>= 7) message += static_cast<char>(value | 0x80);
    message += static_cast<char>(value);
  }
  static void append(std::string& message, const Field& field, const std::string& payload) {
    put_varint(message, uint64_t{field.number} << 3 | length_type);
    put_varint(message, payload.size());
    message += payload;
  }

  template <class... Parts>
  [[noreturn]] void damaged(size_t at, const Parts&... parts) const {
    if (!known_)
      fail("FE-I12", "not an ONNX model: at byte ", at, " ", parts...,
           "; give a file that holds a ModelProto");
    fail("FE-I13", "the model is truncated or damaged: at byte ", at, " ", parts...,
         "; copy or export it again");
  }

  Bytes bytes_;
  bool known_ = false;  ///< a field with which a model may begin was read
};

}  // namespace

SlimModel slim_model(Bytes bytes) { return Walker(bytes).model(); }

}  // namespace ferrite::from_onnx
