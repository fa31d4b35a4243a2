// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The format of an entry: 32 hexadecimal digits, which are the hash of the rest; a line feed; JSON.
#include "driver/tune/decision_store.h"

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "core/support/files/user_folder.h"
#include "core/support/hash.h"
#include "core/support/warning.h"

namespace ferrite::core::tune {
namespace {

using select::Decision;
using select::DecisionStore;
namespace fs = std::filesystem;

constexpr std::string_view suffix = ".decision";
constexpr int schema = 0;
constexpr size_t digits = 32;
constexpr uint64_t most_bytes = 64 << 10;

void warn(const std::string& where, Error fault) {
  log::warn("kernels", at(where, std::move(fault)).message());
}

bool is_time(double seconds) { return std::isfinite(seconds) && seconds >= 0; }

/// Parses an entry; `fault` gets the reason where it is invalid.
std::optional<Decision> parse(std::string_view text, std::string_view key, std::string& fault) {
  const auto refuse = [&](const char* reason) {
    fault = reason;
    return std::nullopt;
  };
  if (text.size() <= digits || text[digits] != '\n') return refuse("it is cut short");
  const auto body = text.substr(digits + 1);
  // Before JSON is parsed: a torn or edited file must not decide anything.
  if (hash128(body) != text.substr(0, digits)) return refuse("its contents were changed");
  const auto json = nlohmann::json::parse(body, nullptr, false);
  if (!json.is_object()) return refuse("it is no decision");
  const auto string = [&](const char* name, std::string& to) {
    const auto found = json.find(name);
    if (found == json.end() || !found->is_string()) return false;
    to = found->get<std::string>();
    return true;
  };
  const auto number = [&](const char* name, double& to) {
    const auto found = json.find(name);
    if (found == json.end() || !found->is_number()) return false;
    to = found->get<double>();
    return is_time(to);
  };
  Decision decision;
  std::string of;
  const auto version = json.find("schema"), covered = json.find("covered");
  if (version == json.end() || *version != schema) return refuse("it is of another version");
  // A file that was copied to another name would have a valid hash.
  if (!string("key", of) || of != key) return refuse("it is another kernel's");
  if (!string("provider", decision.provider) || !string("candidate", decision.candidate) ||
      !string("usual", decision.usual) || !number("cost", decision.cost) ||
      !number("seconds", decision.seconds) || !number("usual_seconds", decision.usual_seconds) ||
      covered == json.end() || !covered->is_number_unsigned())
    return refuse("it is no decision");
  decision.covered = covered->get<uint64_t>();
  decision.by = "stored";
  return decision;
}

class Folder : public DecisionStore {
 public:
  explicit Folder(std::string folder) : folder_(std::move(folder)) {}
  std::optional<Decision> find(const std::string& key) const override;
  void keep(const std::string& key, const Decision& decision) const override;

 private:
  std::string folder_;
};

std::optional<Decision> Folder::find(const std::string& key) const {
  if (key.empty()) return std::nullopt;
  const fs::path path = fs::path(folder_) / (key + std::string(suffix));
  std::string fault;
  if (const auto text = cache::read_file(path, most_bytes, fault))
    if (auto decision = parse(*text, key, fault)) return decision;
  if (fault.empty()) return std::nullopt;
  // A damaged entry is renamed and not deleted, so that users can inspect it; the new name is never read.
  const std::string aside = path.string() + ".damaged";
  std::error_code failed;
  fs::rename(path, aside, failed);
  warn(path.string(), error(FE_EINVALID, "FE-T40", "{}; {}, and the kernel is decided anew", fault,
                            failed ? fmt::format("it cannot be set aside: {}", failed.message())
                                   : "it is set aside as " + aside));
  return std::nullopt;
}

void Folder::keep(const std::string& key, const Decision& decision) const {
  if (key.empty()) return;
  const nlohmann::ordered_json json{{"schema", schema},
                                    {"key", key},
                                    {"provider", decision.provider},
                                    {"candidate", decision.candidate},
                                    {"covered", decision.covered},
                                    {"cost", decision.cost},
                                    {"seconds", decision.seconds},
                                    {"usual", decision.usual},
                                    {"usual_seconds", decision.usual_seconds}};
  const auto text = json.dump(1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
  if (const auto why = cache::write_file(folder_, key + std::string(suffix), hash128(text) + "\n" + text);
      !why.empty())
    warn(folder_, error(FE_EINVALID, "FE-T41", "a decision is not kept: {}", why));
}

}  // namespace

std::unique_ptr<const DecisionStore> open_store(const std::string& folder) {
  if (folder.empty()) return nullptr;
  // A folder that others may write could name candidates for this user's kernels.
  if (const auto why = cache::distrusted(folder); !why.empty()) {
    warn(folder, error(FE_EINVALID, "FE-T41", "decisions are not kept there: {}", why));
    return nullptr;
  }
  return std::make_unique<Folder>(folder);
}

}  // namespace ferrite::core::tune
