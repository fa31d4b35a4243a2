// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Whether two graphs compute the same: both interpreted on the same random inputs.
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

/// A graph of known sizes, lowered for the interpreter once, so that it runs on several inputs.
class Interpreted {
 public:
  /// FE-R34 where a type is one that cannot be compared; else the codes of lowering.
  static Result<Interpreted> make(graph::Graph graph, const plugin::Registry& registry);

  const graph::Graph& graph() const { return graph_; }
  const plugin::Registry& registry() const { return *registry_; }
  /// Points of all loops: what a run costs.
  int64_t points() const { return points_; }
  /// Whether something is rounded to whole numbers: what ties are of interest to.
  bool rounds() const { return rounds_; }
  /// Whether something is computed in floats narrower than f32.
  bool narrow() const { return narrow_; }
  std::vector<Tensor> random_inputs(Contents contents, uint64_t seed) const;
  /// `exact`: where not null, whether no result of an operation was rounded. Of floats narrower than f32 it is never known.
  Result<std::vector<Tensor>> run(std::span<const Tensor> inputs, bool* exact = nullptr) const;

 private:
  Interpreted(graph::Graph graph, const plugin::Registry& registry)
      : registry_(&registry), graph_(std::move(graph)), parts_(graph_) {}
  const plugin::Registry* registry_;
  graph::Graph graph_, parts_;  // before and after it was decomposed; the program reads their constants
  loop::LoopProgram program_;
  int64_t points_ = 0;
  bool rounds_ = false, narrow_ = false;
};

/// An output that the second graph computes otherwise than the first.
struct Difference {
  Contents contents = Contents::normal;
  uint64_t seed = 0;
  std::string output;
  Mismatch mismatch;
  std::string failure;  ///< where the second graph could not run on inputs on which the first one did
  std::vector<Tensor> inputs;

  std::string text() const;  ///< "element 3 of 'y' is 0.5, was -0.5 (normal inputs, seed 1)"
};

/// The first difference over each kind of contents. Both graphs have the same inputs, and outputs of the same types. Where
/// the first graph by itself answers to rounding (inputs and constants moved by a unit in the last place move a result),
/// as much again and more is no difference; but where both compute the halves without rounding anything but to whole
/// numbers, they have to agree on ties. Halves are left out where the first graph, and the second where it is one, has
/// nothing that rounds to whole numbers.
/// Inputs on which `before` fails say nothing; where it fails on all of them its error is given.
Result<std::optional<Difference>> compare(const Interpreted& before, const Interpreted& after,
                                          std::span<const Contents> contents, uint64_t seed);
/// The same, `after` being anything that computes the outputs of inputs.
using Compute = std::function<Result<std::vector<Tensor>>(std::span<const Tensor> inputs)>;
Result<std::optional<Difference>> compare(const Interpreted& before, const Compute& after,
                                          std::span<const Contents> contents, uint64_t seed);

/// What a rule or a pass does to a graph.
using Edit = std::function<Result<void>(graph::Graph&)>;

/// What `edit` changes of what the graph computes; none where the edit fails or leaves it, or it cannot be interpreted.
std::optional<Difference> effect_of(const Edit& edit, const graph::Graph& graph,
                                    const plugin::Registry& registry, std::span<const Contents> contents);

inline constexpr Contents every_contents[] = {Contents::normal, Contents::positive, Contents::small,
                                              Contents::whole,  Contents::wide,     Contents::special,
                                              Contents::halves};
/// Without what overflows, NaN and infinities, which arise within a model only where something is lost already.
inline constexpr Contents ordinary_contents[] = {Contents::normal, Contents::positive, Contents::halves};

}  // namespace ferrite::core::validate
