// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Metric sinks: plugins that get the rows of the metric tables, whether files are written or not.
#pragma once

#include <vector>

#include "core/plugin/registry.h"
#include "core/support/error.h"
#include "driver/observe/metric_tables.h"

namespace ferrite::core::observe {

using Sinks = std::vector<plugin::Contributed<fe_metric_sink>>;

/// FE-C09 where a sink wants a table that there is none of.
Result<void> check_sinks(const Sinks& sinks);

/// Gives each sink the tables that it wants, a call a table, in the order of the manifest. FE-P84 where one fails whose plugin has
/// on_error = "fail"; another one gets no more tables of this compilation.
Result<void> give_to_sinks(const Sinks& sinks, const MetricSource& source);

}  // namespace ferrite::core::observe
