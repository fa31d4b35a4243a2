// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What `ferrite targets --measure` keeps in the user's cache folder.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "core/support/error.h"

namespace ferrite::core::runtime {

/// A JSON object in the file `name` of the folder `subject`. Files may be shared by processes.
class MeasuredFile {
 public:
  MeasuredFile(std::string_view subject, std::string name);

  /// Calls `read` with the object, where the file is there; what that gives back is what the file says, or, where it is no such
  /// object, nothing. Nothing too, with a warning (FE-T46), where the file is damaged or not to be trusted.
  template <class Read>
  auto load(Read&& read) const {
    std::string fault;
    const auto json = contents(fault);
    auto result = json && json->is_object() ? read(*json) : decltype(read(*json)){};
    if (json && !result) fault = "it is not what `ferrite targets --measure` writes";
    if (!fault.empty()) warn(fault);
    return result;
  }

  /// Gives the file's path. FE-C10 where that fails.
  Result<std::string> save(const nlohmann::ordered_json& object) const;

 private:
  /// What the file has, whatever it is; nothing where it is not there, and where `fault` says why it is not used.
  std::optional<nlohmann::json> contents(std::string& fault) const;
  void warn(std::string_view fault) const;

  std::string folder_, name_;
};

}  // namespace ferrite::core::runtime
