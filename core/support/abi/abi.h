// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The host's side of the plugin ABI: structs that begin with their size, strings, arrays, sinks, and calls of
// slots.
// If the two sides know different sizes of a struct, the smaller one counts and the remaining fields are
// zero.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "core/support/error.h"
#include "ferrite/abi/base.h"

namespace ferrite::core::abi {

template <class T>
concept SizeLed = std::is_trivially_copyable_v<T> && requires(T t) {
  { t.size } -> std::same_as<uint64_t&>;
};

/// A zeroed struct with its size filled in.
template <SizeLed T>
T sized() {
  T value{};
  value.size = sizeof(T);
  return value;
}

/// How many bytes to copy of a struct whose peer states `size`: whole words, so that no pointer is cut in
/// half.
inline size_t readable_bytes(uint64_t size, size_t most) {
  return static_cast<size_t>(std::min<uint64_t>(size, most)) / sizeof(uint64_t) * sizeof(uint64_t);
}

/// A copy of the peer's struct at this side's size. Null gives a zeroed struct.
template <SizeLed T>
T read(const T* given) {
  // Fast path: the peer usually has the same version, and a copy of constant size is a few moves.
  if (given && given->size >= sizeof(T)) {
    T value;
    std::memcpy(&value, given, sizeof(T));
    value.size = sizeof(T);
    return value;
  }
  T value{};
  if (given) std::memcpy(&value, given, readable_bytes(given->size, sizeof(T)));
  value.size = sizeof(T);
  return value;
}

/// Copies as many fields as the peer has room for; its `size` is unchanged.
template <SizeLed T>
void write(T* out, const T& value) {
  constexpr uint64_t head = sizeof(uint64_t);
  if (!out || out->size <= head) return;
  char* to = reinterpret_cast<char*>(out) + head;
  const char* from = reinterpret_cast<const char*>(&value) + head;
  if (out->size >= sizeof(T)) {
    std::memcpy(to, from, sizeof(T) - head);
  } else {
    std::memcpy(to, from, out->size - head);
  }
}

inline std::string_view view(fe_string text) {
  return text.data ? std::string_view(text.data, text.length) : "";
}
inline std::string string(fe_string text) { return std::string(view(text)); }
inline fe_string string(std::string_view text) { return {text.data(), text.size()}; }

/// Element k of an array. Structs are converted to this side's size; other types are copied.
template <class T>
T element(const fe_array& array, uint64_t k) {
  const char* at = static_cast<const char*>(array.data) + k * array.stride;
  T value{};
  if constexpr (SizeLed<T>) {
    uint64_t size = 0;
    std::memcpy(&size, at, sizeof(size));
    std::memcpy(&value, at, readable_bytes(std::min(size, array.stride), sizeof(T)));
    value.size = sizeof(T);
  } else {
    std::memcpy(&value, at, std::min<uint64_t>(array.stride, sizeof(T)));
  }
  return value;
}
/// Whether an array of T is readable: it has data if it has elements, its stride is at least the size of the
/// smallest element, and each struct ends before the next one begins.
template <class T>
bool readable(const fe_array& array, uint64_t least = sizeof(T)) {
  if (array.count == 0) return true;
  if (!array.data || array.stride < least || array.count >= uint64_t{1} << 32) return false;
  if constexpr (SizeLed<T>) {
    for (uint64_t k = 0; k < array.count; ++k) {
      uint64_t size = 0;
      std::memcpy(&size, static_cast<const char*>(array.data) + k * array.stride, sizeof(size));
      if (size > array.stride) return false;
    }
  }
  return true;
}
template <class T>
fe_array array(const T* data, size_t count) {
  return {data, count, sizeof(T)};
}

template <class T>
fe_array array(const std::vector<T>& items) {
  return array(items.data(), items.size());
}

/// An fe_call whose error becomes an Error. The memory that get() returns is never freed: a plugin that keeps
/// the call and uses it later, or from another thread, gets an error (FE-P62, FE-P63) instead of undefined
/// behaviour.
class Call {
 public:
  Call();
  ~Call();
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;
  fe_call* get();

  /// Asks the callee to stop as soon as `holds` returns true.
  void cancel_when(std::function<bool()> holds);
  /// Sets the error, for the callee or for the host on its behalf.
  void set_error(std::string_view code, std::string_view text);
  /// The error for a status other than FE_OK; `code` and `text` apply if the callee set none.
  Error error(int32_t status, std::string_view code, std::string_view text) const;
  /// The status of a slot as a Result.
  Result<void> check(int32_t status, std::string_view code, std::string_view text) const {
    if (status == FE_OK) return {};
    return error(status, code, text);
  }

 private:
  struct Record;
  Record* const record_;
};

/// A sink that collects the bytes that a callee writes.
template <class Bytes = std::string>
class Collector {
 public:
  fe_sink sink() {
    return {sizeof(fe_sink), &bytes_, [](void* self, const void* data, uint64_t count) -> int32_t {
              const auto* begin = static_cast<const typename Bytes::value_type*>(data);
              static_cast<Bytes*>(self)->insert(static_cast<Bytes*>(self)->end(), begin, begin + count);
              return FE_OK;
            }};
  }
  Bytes& bytes() { return bytes_; }

 private:
  Bytes bytes_;
};

/// Stores an Error in a call and returns its class, for a host slot to return.
inline int32_t report(fe_call* call, const Error& error) {
  if (call && call->size >= offsetof(fe_call, cancelled) && call->set_error) {
    const std::string text = error.where.empty() ? error.text : error.where + ": " + error.text;
    call->set_error(call->host, string(std::string_view(error.code)), string(std::string_view(text)));
  }
  return error.status == FE_OK ? FE_EINTERNAL : error.status;
}

}  // namespace ferrite::core::abi
