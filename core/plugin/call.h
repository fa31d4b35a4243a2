// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Calling a plugin's slots: the host's side of fe_call, strings, arrays and sinks.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/support/error.h"
#include "ferrite/abi/base.h"

namespace ferrite::core::plugin {

template <class T>
T make_sized() {
  T value{};
  value.size = sizeof(T);
  return value;
}
inline fe_string abi_of(std::string_view text) { return {text.data(), text.size()}; }
inline std::string_view text_of(fe_string text) {
  return text.data ? std::string_view{text.data, text.length} : std::string_view{};
}
template <class T>
const T& element_of(const fe_array& array, size_t k) {
  return *reinterpret_cast<const T*>(static_cast<const char*>(array.data) + k * array.stride);
}
template <class T>
fe_array array_of(const std::vector<T>& items) {
  return {items.data(), items.size(), sizeof(T)};
}

/// One call: keeps the error text that the callee sets. Lives on the stack around a slot's call.
class HostCall {
 public:
  HostCall() {
    call_.size = sizeof call_;
    call_.host = this;
    call_.set_error = [](void* self, fe_string code, fe_string text) {
      auto* call = static_cast<HostCall*>(self);
      call->code_ = text_of(code);
      call->text_ = text_of(text);
    };
    call_.cancelled = [](void*) -> int32_t { return 0; };
  }
  HostCall(const HostCall&) = delete;
  fe_call* get() { return &call_; }
  /// The error that a status other than FE_OK stands for; `code` and `text` where the callee set none.
  Error error(int32_t status, std::string_view code, std::string_view text) const {
    return Error{
        status, code_.empty() ? std::string(code) : code_, text_.empty() ? std::string(text) : text_, {}};
  }

 private:
  fe_call call_{};
  std::string code_, text_;
};

/// Collects what a callee writes.
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

}  // namespace ferrite::core::plugin
