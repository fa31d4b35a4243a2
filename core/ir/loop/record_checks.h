// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Argument checks for the functions of a recorder.
#pragma once

#include <cstdint>
#include <cstring>
#include <utility>

#include "core/support/error.h"
#include "ferrite/abi/base.h"
#include "ferrite/dtype.hpp"

namespace ferrite::core::loop::record {

/// An error for a call that is invalid in the recorder's current state.
template <class... Args>
Error misuse(fmt::format_string<Args...> format, Args&&... args) {
  return core::error(FE_EINVALID, "FE-K01", format, std::forward<Args>(args)...);
}
template <class... Args>
Error mistyped(fmt::format_string<Args...> format, Args&&... args) {
  return core::error(FE_EINVALID, "FE-K02", format, std::forward<Args>(args)...);
}

/// Element k of an array that is readable().
template <class T>
T at(const fe_array& array, uint64_t k) {
  T value;
  std::memcpy(&value, static_cast<const char*>(array.data) + k * array.stride, sizeof(T));
  return value;
}
template <class T>
bool readable(const fe_array& array) {
  return array.count == 0 ||
         (array.data != nullptr && array.stride >= sizeof(T) && array.count <= (1u << 20));
}

/// Whether the bits represent a value of the type.
inline bool fits(DType dtype, uint64_t bits) {
  if (dtype == DType::bool_) return bits <= 1;
  return bits_of(dtype) == 64 || bits >> bits_of(dtype) == 0;
}

}  // namespace ferrite::core::loop::record
