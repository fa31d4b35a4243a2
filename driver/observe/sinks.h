// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Metric sinks: plugins that receive the rows of the metric tables, whether or not files are written.
#pragma once

#include <vector>

#include "core/plugin/registry.h"
#include "core/support/error.h"
#include "driver/observe/metric_tables.h"

namespace ferrite::core::observe {

using Sinks = std::vector<plugin::Contributed<fe_metric_sink>>;

/// FE-C09 where a sink requests an unknown table.
Result<void> check_sinks(const Sinks& sinks);

/// Calls each sink once for each table that it requests, in the order of the manifest. FE-P84 where a sink
/// fails whose plugin has on_error = "fail"; any other failing sink receives no more tables of this
/// compilation.
Result<void> give_to_sinks(const Sinks& sinks, const MetricSource& source);

}  // namespace ferrite::core::observe
