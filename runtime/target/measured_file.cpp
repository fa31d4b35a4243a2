// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "runtime/target/measured_file.h"

#include <filesystem>

#include "core/support/files/user_folder.h"
#include "core/support/warning.h"

namespace ferrite::core::runtime {

MeasuredFile::MeasuredFile(std::string_view subject, std::string name)
    : folder_(cache::user_folder(subject)), name_(std::move(name)) {}

std::optional<nlohmann::json> MeasuredFile::contents(std::string& fault) const {
  constexpr uint64_t most_bytes = 64 << 10;
  const auto path = std::filesystem::path(folder_) / name_;
  // If even the existence of the file cannot be determined, treat it as missing: nothing was stored.
  if (std::error_code ignored; folder_.empty() || !std::filesystem::exists(path, ignored)) return {};
  if (fault = cache::distrusted(folder_); !fault.empty()) return {};
  const auto text = cache::read_file(path, most_bytes, fault);
  if (!text) return {};
  return nlohmann::json::parse(*text, nullptr, false);
}

void MeasuredFile::warn(std::string_view fault) const {
  const auto path = (std::filesystem::path(folder_) / name_).string();
  const auto damaged =
      error(FE_EINVALID, "FE-T46",
            "{}, so nothing counts as measured; `ferrite targets --measure` writes it anew", fault);
  log::warn("kernels", at(path, damaged).message());
}

Result<std::string> MeasuredFile::save(const nlohmann::ordered_json& object) const {
  if (folder_.empty())
    return error(FE_EINVALID, "FE-C10", "there is no cache folder: set HOME or XDG_CACHE_HOME");
  const auto text = object.dump(1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
  if (const auto fault = cache::write_file(folder_, name_, text); !fault.empty())
    return at(folder_, error(FE_EINVALID, "FE-C10", "the measurements cannot be stored: {}", fault));
  return (std::filesystem::path(folder_) / name_).string();
}

}  // namespace ferrite::core::runtime
