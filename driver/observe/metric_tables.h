// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The metric tables of a compilation, for files and plugins.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/compile.h"
#include "core/observe/observation.h"
#include "core/support/error.h"

namespace ferrite::core::observe {

struct MetricTable {
  std::string name;
  std::vector<std::string> columns;
  std::vector<std::vector<std::string>> rows;

  MetricTable(std::string title, std::vector<std::string> names)
      : name(std::move(title)), columns(std::move(names)) {}
  void add(std::vector<std::string> row) { rows.push_back(std::move(row)); }
};

/// The sources of the rows.
struct MetricSource {
  std::string_view model;
  const Observation& seen;
  const Compilation& compilation;
  const Ledger& ledger;
  std::string texts;  ///< the folder with the kernels' texts; empty: none
};

/// FE-C09 where there is no such table.
Result<void> check_metric_table(std::string_view name);

/// The requested tables; `statement` and `kernel` only where the compilation has kernels.
std::vector<MetricTable> metric_tables(const std::function<bool(std::string_view)>& wanted,
                                       const MetricSource& source);

}  // namespace ferrite::core::observe
