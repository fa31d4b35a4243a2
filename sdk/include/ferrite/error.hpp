// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Errors inside a plugin: exceptions, which the SDK's trampolines convert to error codes at the boundary.
#pragma once

#include <cstdint>
#include <cstring>
#include <exception>
#include <sstream>
#include <string>
#include <string_view>

#include "ferrite/abi/base.h"

namespace ferrite::inline v0 {

/// Thrown by plugin code; never leaves the plugin. `code` is "<plugin id>/<name>" or a code of the host.
class Failure : public std::exception {
 public:
  Failure(int32_t status, std::string code, std::string text)
      : status_(status), code_(std::move(code)), text_(std::move(text)) {}
  const char* what() const noexcept override { return text_.c_str(); }
  int32_t status() const { return status_; }
  const std::string& code() const { return code_; }

 private:
  int32_t status_;
  std::string code_;
  std::string text_;
};

namespace detail {
template <class... Parts>
std::string concatenate(const Parts&... parts) {
  std::ostringstream stream;
  (stream << ... << parts);
  return stream.str();
}
}  // namespace detail

/// fail("acme.fuse/shape", "operand ", k, " has rank ", rank): bad input.
template <class... Parts>
[[noreturn]] void fail(std::string_view code, const Parts&... parts) {
  throw Failure(FE_EINVALID, std::string(code), detail::concatenate(parts...));
}
/// Declines: the host tries the next lowering, provider or candidate, and records the reason.
template <class... Parts>
[[noreturn]] void decline(const Parts&... parts) {
  throw Failure(FE_EUNSUPPORTED, "FE-P20", detail::concatenate(parts...));
}

inline fe_string to_abi(std::string_view text) { return {text.data(), text.size()}; }
inline std::string_view from_abi(fe_string text) {
  return {text.data ? text.data : "", text.data ? text.length : 0};
}

namespace detail {

/// Runs `body` and converts any exception to a status and an error text. Every trampoline uses this.
template <class Body>
int32_t guarded(fe_call* call, Body&& body) noexcept {
  auto report = [&](int32_t status, std::string_view code, std::string_view text) {
    if (call && call->set_error) call->set_error(call->host, to_abi(code), to_abi(text));
    return status;
  };
  try {
    body();
    return FE_OK;
  } catch (const Failure& failure) {
    return report(failure.status(), failure.code(), failure.what());
  } catch (const std::bad_alloc&) {
    return report(FE_ENOMEM, "FE-P22", "out of memory");
  } catch (const std::exception& exception) {
    return report(FE_EINTERNAL, "FE-P21", exception.what());
  } catch (...) {
    return report(FE_EINTERNAL, "FE-P21", "an exception of unknown type");
  }
}

/// A call that keeps its error text, for calling the host's slots from a plugin.
struct HostCall {
  fe_call call{};
  std::string code, text;
  HostCall() {
    call.size = sizeof call;
    call.host = this;
    call.set_error = [](void* self, fe_string code_, fe_string text_) {
      static_cast<HostCall*>(self)->code = from_abi(code_);
      static_cast<HostCall*>(self)->text = from_abi(text_);
    };
    call.cancelled = [](void*) { return 0; };
  }
  HostCall(const HostCall&) = delete;
  /// Throws if the host returned an error.
  void check(int32_t status) {
    if (status != FE_OK)
      throw Failure(status, code.empty() ? "FE-P21" : code,
                    text.empty() ? "the host refused the call" : text);
  }
};

}  // namespace detail

/// Calls slot(self, call, &args, &out) of a host table. Throws on an error; a null slot counts as a decline.
template <class Table, class Slot, class Args, class Out>
void call_host(const Table& table, Slot slot, const Args& args, Out& out) {
  detail::HostCall call;
  if (!slot) throw Failure(FE_EUNSUPPORTED, "FE-P20", "this host lacks a function that the plugin needs");
  call.check(slot(table.self, &call.call, &args, &out));
}

/// A zeroed struct of the ABI with its size set.
template <class T>
T sized() {
  T value{};
  value.size = sizeof(T);
  return value;
}

/// A copy of the arguments at this side's size. An older host passes smaller structs; the missing fields are
/// zero.
template <class T>
T at_own_size(const T* given) {
  auto value = sized<T>();
  const uint64_t size = given->size < sizeof(T) ? given->size : sizeof(T);
  std::memcpy(&value, given, size);
  value.size = sizeof(T);
  return value;
}

template <class T>
fe_array to_array(const T* data, size_t count) {
  return {data, count, sizeof(T)};
}
/// Element k of a borrowed array. The stride may exceed sizeof(T) if the other side's struct is longer.
template <class T>
const T& element(const fe_array& array, size_t k) {
  return *reinterpret_cast<const T*>(static_cast<const char*>(array.data) + k * array.stride);
}

}  // namespace ferrite::inline v0
