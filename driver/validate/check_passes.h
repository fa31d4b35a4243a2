// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// --check-passes: after each pass, and each application of a rule within one, the changed part is interpreted
// before and after the change, on the same random inputs. The first change that alters a result is named,
// with a graph that shows it.
//
// Only the neighbourhood of each edit is interpreted, not the whole model: the operands that other nodes read
// now are compared with those that they read before, down to values that both graphs have. Such a difference
// is only a suspicion, because within the model these values may be ones for which both agree. It becomes a
// verdict if the pass, run alone on the part before the edit as a graph of its own, changes its result. There
// the inputs are free, and a correct pass preserves the result for all of them.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "core/passes/gate.h"
#include "driver/validate/uncompared.h"

namespace ferrite::core::validate {

struct CheckOptions {
  std::string folder = ".";  ///< where reproducers are written
  std::string options;  ///< for the command that shows one: options that load the plugins ("--plugin acme")
  int64_t most_points =
      /// of the loops of one part; larger parts are tried with smaller sizes, or counted as skipped
      20'000'000;
};

/// How much was compared.
struct CheckCounts {
  size_t passes = 0, applications = 0;  ///< those that changed the graph
  size_t places = 0;                    ///< edits that were interpreted; equal ones once
  size_t alike = 0;                     ///< edits that only rebuilt the same nodes over the same values
  Uncompared skipped;                   ///< edits that are too large, or cannot be interpreted
  size_t suspected = 0;  ///< differences that running the pass alone did not confirm; they are warnings
};

/// Watches one compilation. FE-R31 is the verdict on a rule, FE-R32 on a pass, FE-R33 where the reproducer
/// cannot be written. `registry` and `options` must outlive it. One thread.
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
  /// "checked 5 passes and 12 applications of rules: no difference in 14 places (3 alike, 1 not compared: 1
  /// too large for the interpreter)"; or "… nothing was compared: …".
  std::string summary() const;
  /// FE-R66 where values were replaced and none of them could be compared.
  std::optional<Error> nothing_compared() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ferrite::core::validate
