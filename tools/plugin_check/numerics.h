// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// L3: whether a plugin's results are right, compared with the interpreter.
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

/// Runs ops over their own samples: deterministic, and the same by lowering and by decomposition.
void check_ops(const CheckOptions& options, const Subject& subject, Runner& runner);
/// Runs passes and rules over sampled graphs and models: the result is verified, computes the same, is a
/// fixed point and deterministic, and takes bounded time.
void check_passes(const CheckOptions& options, const Subject& subject, Runner& runner);
/// Runs importers over the given models.
void check_importers(const CheckOptions& options, const Subject& subject, Runner& runner);
/// Checks import handlers and aliases, over the given models.
void check_readers(const CheckOptions& options, const Subject& subject, Runner& runner);

/// The results of a program that was compiled with red zones. FE-P52 where it writes outside of its buffers;
/// else the codes of running it.
Result<std::vector<validate::Tensor>> run_on(const runtime::Executable& executable,
                                             std::span<const validate::Tensor> inputs);

/// The verdict of a check that had graphs but could compare none of them.
Verdict nothing_compared(const validate::Uncompared& skipped);
/// The graph for the interpreter; none where it cannot be lowered or would take too long, which `skipped`
/// counts.
std::optional<validate::Interpreted> interpretable(const graph::Graph& graph,
                                                   const plugin::Registry& registry,
                                                   validate::Uncompared& skipped);

/// Whether the pass runs in a phase with a graph.
bool works_on_graphs(const plugin::PassEntry& pass);

/// The graphs of the sample models, with open sizes set to 1, followed by `count` sampled ones. Models that
/// cannot be read are left out; the checks of importers report them.
std::vector<graph::Graph> sample_graphs(const Subject& subject, const CheckOptions& options, size_t count);

}  // namespace ferrite::core::plugin_check
