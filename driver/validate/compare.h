// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Whether two graphs compute the same: both are interpreted on the same random inputs.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/ir/graph/graph.h"
#include "core/ir/loop/program.h"
#include "core/plugin/registry.h"
#include "core/support/error.h"
#include "driver/validate/samples/tensors.h"

namespace ferrite::core::validate {

/// A graph of known sizes, lowered for the interpreter once, so that it can run on several inputs.
class Interpreted {
 public:
  /// FE-R34 where a type cannot be compared; else the codes of lowering.
  static Result<Interpreted> make(graph::Graph graph, const plugin::Registry& registry);

  const graph::Graph& graph() const { return graph_; }
  const plugin::Registry& registry() const { return *registry_; }
  /// The points of all loops: the cost of a run.
  int64_t points() const { return points_; }
  /// Whether a value is rounded to whole numbers, so that ties matter.
  bool rounds() const { return rounds_; }
  /// Whether some floats are narrower than f32.
  bool narrow() const { return narrow_; }
  std::vector<Tensor> random_inputs(Contents contents, uint64_t seed) const;
  /// `exact`: if not null, receives whether no operation rounded its result. It is unknown for floats
  /// narrower than f32.
  Result<std::vector<Tensor>> run(std::span<const Tensor> inputs, bool* exact = nullptr) const;

 private:
  Interpreted(graph::Graph graph, const plugin::Registry& registry)
      : registry_(&registry), graph_(std::move(graph)), parts_(graph_) {}
  const plugin::Registry* registry_;
  graph::Graph graph_, parts_;  // before and after decomposition; the program reads their constants
  loop::LoopProgram program_;
  int64_t points_ = 0;
  bool rounds_ = false, narrow_ = false;
};

/// An output that the second graph computes differently from the first.
struct Difference {
  Contents contents = Contents::normal;
  uint64_t seed = 0;
  std::string output;
  Mismatch mismatch;
  std::string failure;  ///< the error of the second graph on inputs on which the first one ran
  std::vector<Tensor> inputs;

  std::string text() const;  ///< "element 3 of 'y' is 0.5, was -0.5 (normal inputs, seed 1)"
};

/// The first difference over each kind of contents. Both graphs have the same inputs, and outputs of the same
/// types. Where the first graph itself is sensitive to rounding (perturbing inputs and constants by a unit in
/// the last place changes a result), differences of that size, with a margin, are tolerated. But where both
/// graphs compute on `halves` without any rounding other than to whole numbers, they must agree on ties.
/// `halves` are left out where neither the first graph, nor the second if it is one, rounds to whole numbers.
/// Inputs on which `before` fails are skipped; where it fails on all of them its error is returned.
Result<std::optional<Difference>> compare(const Interpreted& before, const Interpreted& after,
                                          std::span<const Contents> contents, uint64_t seed);
/// The same, where `after` is any function from inputs to outputs.
using Compute = std::function<Result<std::vector<Tensor>>(std::span<const Tensor> inputs)>;
Result<std::optional<Difference>> compare(const Interpreted& before, const Compute& after,
                                          std::span<const Contents> contents, uint64_t seed);

/// A rule or pass as an edit of a graph.
using Edit = std::function<Result<void>(graph::Graph&)>;

/// The difference that `edit` makes to the results of the graph; none where the edit fails or changes
/// nothing, or the graph cannot be interpreted.
std::optional<Difference> effect_of(const Edit& edit, const graph::Graph& graph,
                                    const plugin::Registry& registry, std::span<const Contents> contents);

inline constexpr Contents every_contents[] = {Contents::normal, Contents::positive, Contents::small,
                                              Contents::whole,  Contents::wide,     Contents::special,
                                              Contents::halves};
/// Without overflow, NaN and infinities, which arise within a model only where a result is lost already.
inline constexpr Contents ordinary_contents[] = {Contents::normal, Contents::positive, Contents::halves};

}  // namespace ferrite::core::validate
