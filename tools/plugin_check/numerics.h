// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// L3: whether what a plugin computes is right, against the interpreter.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/ir/graph/graph.h"
#include "core/plugin/registry.h"
#include "driver/validate/compare.h"
#include "driver/validate/samples/tensors.h"
#include "driver/validate/uncompared.h"
#include "runtime/executable.h"
#include "tools/plugin_check/levels.h"

namespace ferrite::core::plugin_check {

class Subject;

inline constexpr int64_t most_points = 20'000'000;  ///< of the loops of a graph that is interpreted

/// Ops over their own samples: the same result each time, and the same by lowering and by decomposition.
void check_ops(const CheckOptions& options, const Subject& subject, Runner& runner);
/// Passes and rules over sampled graphs and models: verified, equal to what was there, settled, repeatable, bounded in time.
void check_passes(const CheckOptions& options, const Subject& subject, Runner& runner);
/// Importers over the models that are given.
void check_importers(const CheckOptions& options, const Subject& subject, Runner& runner);
/// Of import handlers and aliases, over the models that are given.
void check_readers(const CheckOptions& options, const Subject& subject, Runner& runner);

/// What a compiled program, compiled with red zones, gives. FE-P52 where it writes beside its buffers; else the codes of running it.
Result<std::vector<validate::Tensor>> run_on(const runtime::Executable& executable,
                                             std::span<const validate::Tensor> inputs);

/// A check that had graphs and could compare none of them.
Verdict nothing_compared(const validate::Uncompared& skipped);
/// The graph, for the interpreter; none where it cannot lower it or would take too long, which `skipped` counts.
std::optional<validate::Interpreted> interpretable(const graph::Graph& graph,
                                                   const plugin::Registry& registry,
                                                   validate::Uncompared& skipped);

/// Whether the phase is one of those that see a graph.
bool works_on_graphs(const plugin::PassEntry& pass);

/// The graphs of the sample models, sizes that they leave open being 1, then `count` sampled ones. Models that cannot be
/// read are left out: where importers are checked they are blamed.
std::vector<graph::Graph> sample_graphs(const Subject& subject, const CheckOptions& options, size_t count);

}  // namespace ferrite::core::plugin_check
