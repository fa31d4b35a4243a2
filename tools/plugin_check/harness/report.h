// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The checks of a plugin: their findings, and the runner through which a child process reports them.
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
  skipped,  ///< could not be done; the text has the reason
};
std::string_view name_of(Outcome outcome);

/// The result of a check. An Error is a failure, so that FE_TRY and FE_CHECK work inside checks.
struct Verdict {
  Outcome outcome = Outcome::passed;
  std::string code;  ///< of failures
  std::string text;  ///< passed: the counts; failed: the error; skipped: the reason

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

/// One line from a child to the process that started it: JSON, so that no text can contain a line break.
struct Message {
  enum class Kind : uint8_t {
    begins,
    goes_on,  ///< one part of a long check is done: the time limit of a check starts again
    found,
    done
  } kind = Kind::done;
  Finding finding;  ///< begins: only its name; goes_on: none
};
std::string encode(const Message& message);
/// None for a line that is no message.
std::optional<Message> decode(std::string_view line);

/// Runs the checks of a level one after the other. Their order is the same in every process, so that after a
/// crash another process can continue after the check that crashed.
class Runner {
 public:
  using Say = std::function<void(const Message&)>;
  /// Only checks whose names match one of the shell patterns are run and counted; all of them if there are no
  /// patterns. Checks before number `first` are not run again.
  Runner(std::string level, std::vector<std::string> patterns, size_t first, Say say)
      : level_(std::move(level)), patterns_(std::move(patterns)), first_(first), say_(std::move(say)) {}
  Runner(const Runner&) = delete;

  /// Whether another process ran the first checks.
  bool resumed() const { return first_ > 0; }

  /// Reports that the check begins, runs it and reports its result. An exception is a failure (FE-P53).
  void run(std::string_view name, const std::function<Verdict()>& check);
  /// A check that others depend on, such as loading the plugin. If no pattern matches its name, it runs
  /// anyway, but is reported only if it does not pass.
  void run_needed(std::string_view name, const std::function<Verdict()>& check);
  /// Called within a check: one of many parts is done.
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

/// Whether a name matches a shell pattern.
bool matches(const std::string& name, const std::string& pattern);

/// "L0 L1 L2 L3: 41 checks passed", with the numbers of failures and skipped checks, if any. Levels without
/// checks are not named.
std::string badge(const std::vector<Finding>& findings);

}  // namespace ferrite::core::plugin_check
