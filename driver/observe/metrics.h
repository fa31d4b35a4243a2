// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Metric tables: files of comma-separated values that compilations add rows to, where the environment asks for them.
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

/// The tables that are on, and the folder of their files. Any-thread; several processes may write to one folder.
class Metrics {
 public:
  /// FERRITE_METRICS, a comma-separated list of tables, and FERRITE_METRICS_DIR, without which the folder is the working one.
  /// FE-C09 for a table that there is none of.
  static Result<Metrics> from_environment();

  bool any() const { return !tables_.empty(); }
  bool has(std::string_view table) const { return tables_.contains(table); }
  /// Adds a compilation's rows to the tables that are on: metric_TABLE.csv, with a line of names in a new file. Rows of one
  /// compilation stand together. FE-C10 where a file cannot be written, or has other columns.
  Result<void> write(std::string_view model, const Observation& seen, const Compilation& compilation,
                     const Ledger& ledger) const;

 private:
  std::set<std::string, std::less<>> tables_;
  std::string folder_;
};

}  // namespace ferrite::core::observe
