// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Files in which `ferrite targets --measure` stores its results, in the user's cache folder.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "core/support/error.h"

namespace ferrite::core::runtime {

/// A JSON object stored in the file `name` of the cache folder `subject`. Several processes may use a file.
class MeasuredFile {
 public:
  MeasuredFile(std::string_view subject, std::string name);

  /// If the file exists, calls `read` with its object and returns the result, or none if the contents are no
  /// such object. Also none, with a warning (FE-T46), if the file is damaged or not trusted.
  template <class Read>
  auto load(Read&& read) const {
    std::string fault;
    const auto json = contents(fault);
    auto result = json && json->is_object() ? read(*json) : decltype(read(*json)){};
    if (json && !result) fault = "it was not written by `ferrite targets --measure`";
    if (!fault.empty()) warn(fault);
    return result;
  }

  /// Writes the object; returns the file's path. FE-C10 if writing fails.
  Result<std::string> save(const nlohmann::ordered_json& object) const;

 private:
  /// The parsed contents of the file; none if it does not exist, or if it is refused for the reason in
  /// `fault`.
  std::optional<nlohmann::json> contents(std::string& fault) const;
  void warn(std::string_view fault) const;

  std::string folder_, name_;
};

}  // namespace ferrite::core::runtime
