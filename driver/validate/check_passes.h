// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// --check-passes: after each pass, and each application of a rule within one, what it changed is interpreted as it was and
// as it is, on the same random inputs. The first that changes a result is named, with a graph that shows it.
//
// Not the whole model is interpreted but the neighbourhood of each edit: the operands that other nodes read now, against
// those that they read before, down to values that both graphs have. Such a difference is only a suspicion (within the
// model the values there may be ones on which both agree). It becomes a verdict where the part before the edit, taken as a
// graph of its own, is changed by the pass when that runs on it alone: there the inputs are free, and a pass that keeps
// what a graph computes keeps it on each of them.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "core/passes/gate.h"
#include "driver/validate/uncompared.h"

namespace ferrite::core::validate {

struct CheckOptions {
  std::string folder = ".";  ///< where reproducers are written
  std::string options;       ///< of the command that shows one: what loads the plugins ("--plugin acme")
  int64_t most_points =
      20'000'000;  ///< of the loops of one part; larger ones are tried with smaller sizes, or counted
};

/// How much was compared.
struct CheckCounts {
  size_t passes = 0, applications = 0;  ///< that changed the graph
  size_t places = 0;                    ///< edits that were interpreted; equal ones once
  size_t alike = 0;                     ///< edits that are the same nodes over the same values again
  Uncompared skipped;                   ///< edits that are too large, or not to be interpreted
  size_t suspected = 0;                 ///< differences that running the pass alone did not show: warned of
};

/// Watches one compilation. FE-R31 is the verdict on a rule, FE-R32 on a pass, FE-R33 where the reproducer cannot be
/// written. `registry` and `options` outlive it. One thread.
class PassCheck final : public plugin::PassWatcher {
 public:
  PassCheck(const plugin::Registry& registry, CheckOptions options);
  ~PassCheck() override;

  void begin(std::string_view phase, const plugin::PassEntry& pass, const graph::Graph& graph) override;
  Result<void> end(const graph::Graph& graph, bool well) override;
  void before(const rewrite::Rule& rule, const graph::Graph& graph) override;
  Result<void> after(const rewrite::Rule& rule, const graph::Graph& graph,
                     std::span<const rewrite::Replaced> replaced) override;

  const CheckCounts& counts() const;
  /// "checked 5 passes and 12 applications of rules: no difference in 14 places (3 alike, 1 not compared: 1 too large for
  /// the interpreter)"; "… nothing was compared: …" where that is so.
  std::string summary() const;
  /// FE-R66 where values were replaced and none of them could be compared.
  std::optional<Error> nothing_compared() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ferrite::core::validate
