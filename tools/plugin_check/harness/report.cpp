// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "tools/plugin_check/harness/report.h"

#include <fnmatch.h>

#include <algorithm>
#include <array>
#include <exception>
#include <new>
#include <nlohmann/json.hpp>

namespace ferrite::core::plugin_check {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::array<std::string_view, 3> outcome_names = {"passed", "failed", "skipped"};

std::string text_of(const Json& object, const char* key) {
  auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

}  // namespace

std::string_view name_of(Outcome outcome) { return outcome_names[static_cast<size_t>(outcome)]; }

std::string encode(const Message& message) {
  const auto& finding = message.finding;
  Json line;
  switch (message.kind) {
    case Message::Kind::begins: line = {{"begins", finding.name}}; break;
    case Message::Kind::goes_on: line = {{"goes_on", true}}; break;
    case Message::Kind::done: line = {{"done", true}}; break;
    case Message::Kind::found:
      line = {{"level", finding.level},
              {"name", finding.name},
              {"outcome", name_of(finding.outcome)},
              {"code", finding.code},
              {"text", finding.text}};
  }
  return line.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::optional<Message> decode(std::string_view line) {
  const auto object = Json::parse(line, nullptr, false);
  if (!object.is_object()) return std::nullopt;
  Message message;
  if (object.contains("done")) return message;
  if (object.contains("goes_on")) {
    message.kind = Message::Kind::goes_on;
    return message;
  }
  if (object.contains("begins")) {
    message.kind = Message::Kind::begins;
    message.finding.name = text_of(object, "begins");
    return message;
  }
  const auto outcome = std::find(outcome_names.begin(), outcome_names.end(), text_of(object, "outcome"));
  if (outcome == outcome_names.end()) return std::nullopt;
  message.kind = Message::Kind::found;
  message.finding = {text_of(object, "level"), text_of(object, "name"),
                     static_cast<Outcome>(outcome - outcome_names.begin()), text_of(object, "code"),
                     text_of(object, "text")};
  return message;
}

void Runner::goes_on() const {
  Message message;
  message.kind = Message::Kind::goes_on;
  say_(message);
}

bool matches(const std::string& name, const std::string& pattern) {
  return fnmatch(pattern.c_str(), name.c_str(), 0) == 0;
}

bool Runner::wanted(const std::string& name) const {
  return patterns_.empty() ||
         std::ranges::any_of(patterns_, [&](const std::string& pattern) { return matches(name, pattern); });
}

Verdict Runner::verdict_of(const std::function<Verdict()>& check) const {
  try {
    return check();
  } catch (const std::bad_alloc&) {
    return error(FE_ENOMEM, "FE-P53", "the check ran out of memory");
  } catch (const std::exception& exception) {
    return error(FE_EINTERNAL, "FE-P53", "an exception crossed the ABI: {}", exception.what());
  }
}

void Runner::begins(std::string_view name) const {
  Message message;
  message.kind = Message::Kind::begins;
  message.finding.name = name;
  say_(message);
}

void Runner::found(std::string_view name, Verdict verdict) const {
  Message message;
  message.kind = Message::Kind::found;
  message.finding = {level_, std::string(name), verdict.outcome, std::move(verdict.code),
                     std::move(verdict.text)};
  say_(message);
}

void Runner::run(std::string_view name, const std::function<Verdict()>& check) {
  if (!wanted(std::string(name)) || next_++ < first_) return;
  begins(name);
  found(name, verdict_of(check));
}

void Runner::run_needed(std::string_view name, const std::function<Verdict()>& check) {
  if (wanted(std::string(name))) return run(name, check);
  auto verdict = verdict_of(check);
  if (verdict.outcome == Outcome::passed || next_++ < first_) return;
  begins(name);
  found(name, std::move(verdict));
}

std::string badge(const std::vector<Finding>& findings) {
  std::string levels;
  std::array<size_t, 3> counts{};
  for (const auto& finding : findings) {
    ++counts[static_cast<size_t>(finding.outcome)];
    if (finding.outcome == Outcome::skipped || levels.find(finding.level) != std::string::npos) continue;
    levels += (levels.empty() ? "" : " ") + finding.level;
  }
  const auto [passed, failed, skipped] = counts;
  std::string result =
      fmt::format("{}: {} check{} passed", levels.empty() ? "none" : levels, passed, passed == 1 ? "" : "s");
  if (failed > 0) result += fmt::format(", {} failed", failed);
  if (skipped > 0) result += fmt::format(", {} skipped", skipped);
  return result;
}

}  // namespace ferrite::core::plugin_check
