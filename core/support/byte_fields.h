// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Bytes as a sequence of fields, with every size checked: messages between processes, programs in packages.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace ferrite::core {

using Bytes = std::vector<std::byte>;

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
  const Bytes& bytes() const { return bytes_; }
  Bytes take() { return std::move(bytes_); }

 private:
  void raw(const void* data, size_t size) {
    const auto* first = static_cast<const std::byte*>(data);
    bytes_.insert(bytes_.end(), first, first + size);
  }
  Bytes bytes_;
};

/// Reads untrusted bytes. After the first missing field, every further field is empty and ok() is false.
/// Allocates at most a constant times the size of the message.
class Decoder {
 public:
  explicit Decoder(std::span<const std::byte> bytes) : bytes_(bytes) {}

  /// Not of bool, of which most bytes are no value.
  template <class T>
    requires((std::is_arithmetic_v<T> && !std::is_same_v<T, bool>) || std::is_enum_v<T>)
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
  /// The number of items that follow, each of which has at least one byte.
  uint64_t count() {
    const uint64_t count = get<uint64_t>();
    if (count > bytes_.size()) fail();
    return ok_ ? count : 0;
  }
  /// Marks the bytes as invalid: all further fields are empty.
  void refuse() { fail(); }

  bool ok() const { return ok_; }
  /// Whether every field was present and no bytes are left.
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

}  // namespace ferrite::core
