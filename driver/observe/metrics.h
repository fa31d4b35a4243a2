// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Metric tables: CSV files to which compilations add rows, where environment variables request them.
#pragma once

#include <set>
#include <string>
#include <string_view>

#include "core/compile.h"
#include "core/observe/observation.h"
#include "core/support/error.h"

namespace ferrite::core::observe {

/// "2.0 GB", "512 B": decimal units.
std::string bytes_text(int64_t bytes);

/// The requested tables, and the folder of their files. Any-thread; several processes may write to one
/// folder.
class Metrics {
 public:
  /// Reads FERRITE_METRICS, a comma-separated list of tables, and FERRITE_METRICS_DIR, the folder; by default
  /// the working directory. FE-C09 for an unknown table.
  static Result<Metrics> from_environment();

  bool any() const { return !tables_.empty(); }
  bool has(std::string_view table) const { return tables_.contains(table); }
  /// Adds a compilation's rows to the requested tables: metric_TABLE.csv, with a header line in a new file.
  /// The rows of one compilation are adjacent. FE-C10 where a file cannot be written, or has other columns.
  Result<void> write(std::string_view model, const Observation& seen, const Compilation& compilation,
                     const Ledger& ledger) const;

 private:
  std::set<std::string, std::less<>> tables_;
  std::string folder_;
};

}  // namespace ferrite::core::observe
