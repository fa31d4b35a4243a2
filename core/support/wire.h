// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Messages between a process and the child that a plugin lives in: fields one after another, read with every size checked.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "core/ir/graph/types.h"
#include "core/support/error.h"

namespace ferrite::core::isolate {

using Bytes = std::vector<std::byte>;

/// What a request asks for. The first field of each.
enum class Request : uint32_t {
  hello,  ///< first: which plugin; answered with its description
  load,   ///< a plugin whose ops the graphs use
  pass,
  predicate,
  open_target,
  close_target,
  propose,
  compile,
  fingerprint,
  claim,
  goodbye,  ///< destroy everything and end
};

/// The descriptors that a child finds open: the socket, and the shared memory of requests and of replies.
enum class Descriptor : int { control = 3, request = 4, reply = 5 };

/// Goes over the socket, once for each request and each reply; the payload is in the shared memory.
struct ControlMessage {
  static constexpr uint32_t right_magic = 0x69656546;
  uint32_t magic = right_magic;
  uint32_t sequence = 0;  ///< of the request, given back by its reply
  uint64_t bytes = 0;     ///< of the payload
};

class Encoder {
 public:
  template <class T>
    requires(std::is_arithmetic_v<T> || std::is_enum_v<T>)
  void put(T value) {
    raw(&value, sizeof value);
  }
  void put(std::string_view text) {
    put(uint64_t{text.size()});
    raw(text.data(), text.size());
  }
  void put(std::span<const std::byte> bytes) {
    put(uint64_t{bytes.size()});
    raw(bytes.data(), bytes.size());
  }
  template <class T>
    requires std::is_arithmetic_v<T>
  void put(const std::vector<T>& list) {
    put(uint64_t{list.size()});
    raw(list.data(), list.size() * sizeof(T));
  }
  void put(const std::vector<std::string>& list) {
    put(uint64_t{list.size()});
    for (const std::string& text : list) put(std::string_view(text));
  }
  void put(const graph::Attribute& attribute);
  /// The dims are static.
  void put(const graph::TensorType& type);

  const Bytes& bytes() const { return bytes_; }
  Bytes take() { return std::move(bytes_); }

 private:
  void raw(const void* data, size_t size) {
    const auto* first = static_cast<const std::byte*>(data);
    bytes_.insert(bytes_.end(), first, first + size);
  }
  Bytes bytes_;
};

/// Reads what may be garbage: after the first field that is not there, everything is empty and ok() is false. Never takes more
/// memory than the message has bytes, times a constant.
class Decoder {
 public:
  explicit Decoder(std::span<const std::byte> bytes) : bytes_(bytes) {}

  template <class T>
    requires(std::is_arithmetic_v<T> || std::is_enum_v<T>)
  T get() {
    T value{};
    if (const auto from = raw(sizeof value); !from.empty()) std::memcpy(&value, from.data(), sizeof value);
    return value;
  }
  std::span<const std::byte> bytes() { return raw(get<uint64_t>()); }
  std::string_view text() {
    const auto from = bytes();
    return {reinterpret_cast<const char*>(from.data()), from.size()};
  }
  template <class T>
  std::vector<T> list() {
    const uint64_t count = get<uint64_t>();
    const auto from = count <= bytes_.size() / sizeof(T) ? raw(count * sizeof(T)) : fail();
    std::vector<T> result(from.size() / sizeof(T));
    if (!result.empty()) std::memcpy(result.data(), from.data(), from.size());
    return result;
  }
  std::vector<std::string> texts() {
    std::vector<std::string> result;
    for (uint64_t left = count(); left > 0 && ok_; --left) result.emplace_back(text());
    return result;
  }
  /// How many things follow, each of at least a byte.
  uint64_t count() {
    const uint64_t count = get<uint64_t>();
    if (count > bytes_.size()) fail();
    return ok_ ? count : 0;
  }
  graph::Attribute attribute();
  graph::TensorType type();

  bool ok() const { return ok_; }
  /// All was there, and nothing is left.
  bool done() const { return ok_ && bytes_.empty(); }
  bool more() const { return ok_ && !bytes_.empty(); }

 private:
  std::span<const std::byte> fail() {
    ok_ = false;
    bytes_ = {};
    return {};
  }
  std::span<const std::byte> raw(uint64_t size) {
    if (size > bytes_.size()) return fail();
    const auto result = bytes_.first(static_cast<size_t>(size));
    bytes_ = bytes_.subspan(static_cast<size_t>(size));
    return result;
  }
  std::span<const std::byte> bytes_;
  bool ok_ = true;
};

/// A status and, unless it is FE_OK, code and text: how each reply begins.
void put_status(Encoder& to, int32_t status, const Error& error);
Result<void> get_status(Decoder& from);

}  // namespace ferrite::core::isolate
