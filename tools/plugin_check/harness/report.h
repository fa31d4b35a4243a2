// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The checks of a plugin: what each one found, and the runner that a child process sends its findings through.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/support/error.h"

namespace ferrite::core::plugin_check {

enum class Outcome : uint8_t {
  passed,
  failed,
  skipped,  ///< could not be done; the text says why
};
std::string_view name_of(Outcome outcome);

/// What a check gives. An Error is a failure, so that FE_TRY and FE_CHECK work inside of checks.
struct Verdict {
  Outcome outcome = Outcome::passed;
  std::string code;  ///< failures
  std::string text;  ///< passed: what was counted; failed: what is wrong; skipped: why

  Verdict() = default;
  Verdict(const Error& error)
      : outcome(Outcome::failed),
        code(error.code),
        text(error.where.empty() ? error.text : error.where + ": " + error.text) {}
  static Verdict passed(std::string text) { return {Outcome::passed, std::move(text)}; }
  static Verdict skipped(std::string reason) { return {Outcome::skipped, std::move(reason)}; }

 private:
  Verdict(Outcome given, std::string words) : outcome(given), text(std::move(words)) {}
};

struct Finding {
  std::string level;  ///< "L0" to "L3"
  std::string name;
  Outcome outcome = Outcome::passed;
  std::string code, text;
};

/// One line of what a child says to the process that started it: JSON, so that nothing in a text can end it.
struct Message {
  enum class Kind : uint8_t {
    begins,
    goes_on,  ///< a check that has many parts is through with one: the time that a check may take counts from here
    found,
    done
  } kind = Kind::done;
  Finding finding;  ///< begins: its name only; goes_on: none
};
std::string encode(const Message& message);
/// None for a line that is no message.
std::optional<Message> decode(std::string_view line);

/// Runs the checks of a level one after the other. The order is the same in every process, so that a process that died in one
/// check is followed by another that goes on behind it.
class Runner {
 public:
  using Say = std::function<void(const Message&)>;
  /// Only checks whose name matches one of `patterns` (of a shell) are run and counted, all where there is none; those before number
  /// `first` are not run again.
  Runner(std::string level, std::vector<std::string> patterns, size_t first, Say say)
      : level_(std::move(level)), patterns_(std::move(patterns)), first_(first), say_(std::move(say)) {}
  Runner(const Runner&) = delete;

  /// Whether another process ran the first checks.
  bool resumed() const { return first_ > 0; }

  /// Says that the check begins, runs it and says what it found. What it throws is a failure (FE-P53).
  void run(std::string_view name, const std::function<Verdict()>& check);
  /// One that others need, such as that the plugin loads: where its name is not asked for it is run all the same, and found if it does not
  /// pass.
  void run_needed(std::string_view name, const std::function<Verdict()>& check);
  /// Within a check: one part of many is done.
  void goes_on() const;

 private:
  bool wanted(const std::string& name) const;
  Verdict verdict_of(const std::function<Verdict()>& check) const;
  void begins(std::string_view name) const;
  void found(std::string_view name, Verdict verdict) const;

  std::string level_;
  std::vector<std::string> patterns_;
  size_t first_, next_ = 0;
  Say say_;
};

/// Whether a name matches a pattern of a shell.
bool matches(const std::string& name, const std::string& pattern);

/// "L0 L1 L2 L3: 41 checks passed", with failures and skipped checks where there are any. Levels in which nothing was done are not
/// named.
std::string badge(const std::vector<Finding>& findings);

}  // namespace ferrite::core::plugin_check
