// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "driver/validate/compare.h"

#include <algorithm>
#include <cfenv>
#include <cmath>

#include "core/ir/graph/verify.h"
#include "core/ir/loop/interpreter.h"
#include "core/lower/lower.h"
#include "driver/validate/part.h"

namespace ferrite::core::validate {
namespace {

Result<void> check_types(const graph::Graph& graph) {
  const auto check = [&](graph::ValueId id, const std::string& name) -> Result<void> {
    const auto& type = graph.type(id);
    if (comparable(type.dtype) && type.bytes()) return {};
    return error(FE_EUNSUPPORTED, "FE-R34", "'{}' is {}, of which nothing can be compared", name,
                 type.bytes() ? ferrite::name_of(type.dtype) : "of no known size");
  };
  for (const auto& input : graph.inputs()) FE_CHECK(check(input.value, graph.value(input.value).name));
  for (const auto& output : graph.outputs()) FE_CHECK(check(output.value, output.name));
  return {};
}

bool rounds_to_whole(const loop::BodyOp& op) {
  if (!op.is_prim()) return false;
  switch (op.prim()) {
    case Prim::floor_:
    case Prim::ceil_:
    case Prim::round_:
    case Prim::trunc_: return true;
    default: return false;
  }
}

/// The effect of rounding on the results of a graph: one list for each output.
class Rounding {
 public:
  Rounding(const Interpreted& of, std::vector<Tensor> inputs, const std::vector<Tensor>& results)
      : of_(of), inputs_(std::move(inputs)) {
    spread_.resize(results.size());
    // Constants are made inputs so that they can be perturbed too, unless the ops require constants.
    auto freed = with_free_constants();
    const Interpreted& moved = freed ? *freed : of;
    Random random(1);
    const int runs = moved.points() <= 1'000'000 ? 16 : 4;
    for (int run = 0; run < runs; ++run) {
      // Squares of small f16 numbers lose bits, so that one unit of the input may have no effect after them.
      const int units = of.narrow() && run % 2 == 1 ? 4 : 1;
      std::vector<Tensor> inputs;
      for (size_t k = 0; k < moved.graph().inputs().size(); ++k)
        inputs.push_back(
            perturbed(moved.graph().type(moved.graph().inputs()[k].value), inputs_[k], units, random));
      const auto other = moved.run(inputs);
      for (size_t k = 0; other && k < results.size(); ++k)
        add_spread(of.graph().type(of.graph().outputs()[k].value), results[k], (*other)[k], spread_[k]);
    }
  }

  std::span<const double> of_output(size_t output) const { return spread_[output]; }

 private:
  std::optional<Interpreted> with_free_constants() {
    const graph::Graph& graph = of_.graph();
    Part part;
    for (const auto& input : graph.inputs()) part.inputs.push_back(input.value);
    for (const auto& output : graph.outputs()) part.outputs.push_back(output.value);
    const size_t before = part.inputs.size();
    std::vector<Tensor> values(inputs_);
    for (const graph::ValueId constant : graph.constants()) {
      const auto& type = graph.type(constant);
      const auto bytes = graph.constant_bytes(constant);
      if (!is_float(type.dtype) || type.elements().value_or(0) < 2 || !bytes) continue;
      part.inputs.push_back(constant);
      values.emplace_back(bytes->begin(), bytes->end());
    }
    if (part.inputs.size() == before) return std::nullopt;
    auto freed = extract(graph, of_.registry().ops(), part);
    if (!freed) return std::nullopt;
    auto interpreted = Interpreted::make(std::move(*freed), of_.registry());
    if (!interpreted) return std::nullopt;
    inputs_ = std::move(values);
    return std::move(*interpreted);
  }

  const Interpreted& of_;
  std::vector<Tensor> inputs_;
  std::vector<std::vector<double>> spread_;
};

}  // namespace

Result<Interpreted> Interpreted::make(graph::Graph graph, const plugin::Registry& registry) {
  FE_CHECK(check_types(graph));
  Interpreted result(std::move(graph), registry);
  Ledger ledger;
  FE_CHECK(lower::decompose(result.parts_, registry, "interpreter", false, ledger));
  FE_TRY(result.program_, lower::lower(result.parts_, registry, "interpreter", ledger));
  for (const auto& statement : result.program_.statements) {
    int64_t points = 1;
    for (const auto& var : statement.vars)
      if (__builtin_mul_overflow(points, var.extent, &points)) points = INT64_MAX;
    if (__builtin_add_overflow(result.points_, points, &result.points_)) result.points_ = INT64_MAX;
    const auto& body = statement.ops;
    result.rounds_ = result.rounds_ || std::ranges::any_of(body, rounds_to_whole);
    const auto narrow = [](const loop::BodyOp& op) { return is_float(op.dtype) && bits_of(op.dtype) < 32; };
    result.narrow_ = result.narrow_ || std::ranges::any_of(body, narrow);
  }
  return result;
}

std::vector<Tensor> Interpreted::random_inputs(Contents contents, uint64_t seed) const {
  std::vector<Tensor> inputs;
  for (const auto& input : graph_.inputs()) {
    // Each input has a random stream of its own, so that an additional input does not change the others.
    Random random((seed + 1) * 0x9e3779b97f4a7c15u + inputs.size());
    inputs.push_back(random_tensor(graph_.type(input.value), contents, random));
  }
  return inputs;
}

Result<std::vector<Tensor>> Interpreted::run(std::span<const Tensor> inputs, bool* exact) const {
  const std::vector<loop::ConstMemory> in(inputs.begin(), inputs.end());
  std::vector<Tensor> outputs;
  for (const auto id : program_.outputs)
    outputs.emplace_back(static_cast<size_t>(program_.buffers[id].bytes()));
  const std::vector<loop::Memory> out(outputs.begin(), outputs.end());
  std::feclearexcept(FE_INEXACT);
  FE_CHECK(loop::evaluate(program_, in, out));
  // The interpreter computes in this thread, in f64. Rounding to f32 is a conversion, which sets the flag;
  // rounding to narrower types is done in software and does not.
  if (exact) *exact = !narrow_ && std::fetestexcept(FE_INEXACT) == 0;
  return outputs;
}

std::string Difference::text() const {
  const std::string of = fmt::format(" ({} inputs, seed {})", name_of(contents), seed);
  if (!failure.empty()) return "it cannot be computed any more: " + failure + of;
  // As many digits as are needed to tell the numbers apart.
  const auto in_digits = [](double value, int digits) {
    return std::isnan(value) ? "nan" : fmt::format("{:.{}g}", value, digits);
  };
  int digits = 7;
  while (digits < 17 && in_digits(mismatch.actual, digits) == in_digits(mismatch.expected, digits)) ++digits;
  const auto number = [&](double value) { return in_digits(value, digits); };
  return fmt::format("element {} of '{}' is {}, was {}", mismatch.element, output, number(mismatch.actual),
                     number(mismatch.expected)) +
         of;
}

namespace {

/// `exact_after`: whether the last computation of `after` was exact.
Result<std::optional<Difference>> compare_all(const Interpreted& before, const Compute& after, bool rounds,
                                              const bool& exact_after, std::span<const Contents> contents,
                                              uint64_t seed) {
  std::optional<Error> fault;
  bool compared = false;
  for (const Contents kind : contents) {
    // Ties matter only if something is rounded to whole numbers.
    if (kind == Contents::halves && !rounds) continue;
    auto inputs = before.random_inputs(kind, seed);
    bool exact = false;
    auto expected = before.run(inputs, &exact);
    if (!expected) {
      fault = std::move(expected.error());
      continue;
    }
    compared = true;
    Difference difference{kind, seed, {}, {}, {}, {}};
    auto actual = after(inputs);
    if (!actual) {
      difference.failure = actual.error().message();
      difference.inputs = std::move(inputs);
      return std::optional(std::move(difference));
    }
    const auto outputs = before.graph().outputs();
    std::optional<Rounding> rounding;  // computed only where results disagree
    for (size_t k = 0; k < outputs.size(); ++k) {
      const auto& type = before.graph().type(outputs[k].value);
      std::optional<Mismatch> found;
      if (kind == Contents::wide) {
        // The precision of such extreme values means nothing, but the second graph must not overflow earlier
        // than the first.
        found = first_out_of_range(type, (*expected)[k], (*actual)[k]);
      } else if (found = first_mismatch(type, (*expected)[k], (*actual)[k]); found) {
        // A tie that both graphs computed exactly is not due to rounding, so they must agree on it.
        if (kind != Contents::halves || !exact || !exact_after) {
          if (!rounding) rounding.emplace(before, inputs, *expected);
          found = first_mismatch(type, (*expected)[k], (*actual)[k], rounding->of_output(k));
        }
      }
      if (!found) continue;
      difference.output = outputs[k].name;
      difference.mismatch = *found;
      difference.inputs = std::move(inputs);
      return std::optional(std::move(difference));
    }
  }
  if (!compared && fault) return std::move(*fault);
  return std::optional<Difference>();
}

}  // namespace

Result<std::optional<Difference>> compare(const Interpreted& before, const Interpreted& after,
                                          std::span<const Contents> contents, uint64_t seed) {
  bool exact = false;
  const Compute compute = [&](std::span<const Tensor> inputs) { return after.run(inputs, &exact); };
  return compare_all(before, compute, before.rounds() || after.rounds(), exact, contents, seed);
}

Result<std::optional<Difference>> compare(const Interpreted& before, const Compute& after,
                                          std::span<const Contents> contents, uint64_t seed) {
  const bool never = false;
  return compare_all(before, after, before.rounds(), never, contents, seed);
}

std::optional<Difference> effect_of(const Edit& edit, const graph::Graph& graph,
                                    const plugin::Registry& registry, std::span<const Contents> contents) {
  graph::Graph edited(graph);
  const uint64_t revision = edited.revision();
  // An invalid result is not a difference; the verifier reports it.
  if (!edit(edited) || edited.revision() == revision || !graph::verify(edited, registry.ops())) return {};
  const auto before = Interpreted::make(graph, registry);
  if (!before) return {};
  const auto after = Interpreted::make(std::move(edited), registry);
  if (!after) return {};
  // One set of few special elements may miss a difference that another one shows.
  const uint64_t seeds = before->points() <= 10'000 ? 4 : 1;
  for (uint64_t seed = 1; seed <= seeds; ++seed)
    if (auto found = compare(*before, *after, contents, seed); found && *found) return std::move(*found);
  return {};
}

}  // namespace ferrite::core::validate
