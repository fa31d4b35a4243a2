// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Errors of the core: values with a code. No exception crosses a module's border.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>

#include "ferrite/abi/base.h"

namespace ferrite::core {

/// An error. `code` is from errors.def (or "<plugin>/<name>"), `text` says what is wrong and what to do,
/// `where` is file:line:col, a node or a plugin.
struct Error {
  int32_t status = FE_EINTERNAL;  ///< FE_E* class
  std::string code;
  std::string text;
  std::string where;

  /// "FE-G07 model.fe:3:5: text"
  std::string message() const {
    std::string result = code;
    if (!where.empty()) result += " " + where + ":";
    return result + " " + text;
  }
};

/// error(FE_EINVALID, "FE-G07", "what {} is wrong", thing)
template <class... Args>
Error error(int32_t status, std::string_view code, fmt::format_string<Args...> format, Args&&... args) {
  return Error{status, std::string(code), fmt::format(format, std::forward<Args>(args)...), {}};
}
/// Sets the error's place to `where`, unless it already has one.
inline Error at(std::string where, Error error) {
  if (error.where.empty()) error.where = std::move(where);
  return error;
}

/// A value or an error. Test before use; `*` on an error is a defect.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}
  explicit operator bool() const { return state_.index() == 0; }
  bool has_value() const { return state_.index() == 0; }
  T& operator*() & { return std::get<0>(state_); }
  const T& operator*() const& { return std::get<0>(state_); }
  T&& operator*() && { return std::get<0>(std::move(state_)); }
  T* operator->() { return &std::get<0>(state_); }
  const T* operator->() const { return &std::get<0>(state_); }
  Error& error() & { return std::get<1>(state_); }
  const Error& error() const& { return std::get<1>(state_); }
  Error&& error() && { return std::get<1>(std::move(state_)); }

 private:
  std::variant<T, Error> state_;
};

/// Success or an error.
template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : error_(std::move(error)), failed_(true) {}
  explicit operator bool() const { return !failed_; }
  bool has_value() const { return !failed_; }
  Error& error() { return error_; }
  const Error& error() const { return error_; }

 private:
  Error error_;
  bool failed_ = false;
};

/// An error in a file that a manifest or descriptor names at `place`. The error moves to `place`, and its
/// text keeps the position within the named file. Unchanged if `place` is empty.
inline Error named_at(const std::string& place, Error error) {
  if (place.empty()) return error;
  if (!error.where.empty()) error.text = fmt::format("{}: {}", error.where, error.text);
  error.where = place;
  return error;
}

}  // namespace ferrite::core

#define FE_CONCAT_(a, b) a##b
#define FE_CONCAT(a, b) FE_CONCAT_(a, b)
/// FE_TRY(auto x, f()); returns the error of f from the enclosing function.
#define FE_TRY(declaration, expression)                                                            \
  auto FE_CONCAT(fe_result_, __LINE__) = (expression);                                             \
  if (!FE_CONCAT(fe_result_, __LINE__)) return std::move(FE_CONCAT(fe_result_, __LINE__).error()); \
  declaration = std::move(*FE_CONCAT(fe_result_, __LINE__))
/// FE_CHECK(f()); for a Result<void>.
#define FE_CHECK(expression)                             \
  do {                                                   \
    auto fe_result = (expression);                       \
    if (!fe_result) return std::move(fe_result.error()); \
  } while (false)
