// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What a backend was measured to compute: `ferrite plugin check` writes the table, placement reads it.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "core/support/error.h"
#include "ferrite/dtype.hpp"

namespace ferrite::core::runtime {

/// What came of compiling and running the samples of one cell.
enum class Verdict : uint8_t {
  passed,    ///< every sample that the provider takes gave the interpreter's result
  failed,    ///< one was wrong, was refused by the runtime or killed the process
  declined,  ///< the provider takes none of them
};

/// The measured table of one target. A cell is a kind of statement (map, reduce, contract, scatter, serial) or a scalar
/// primitive (prims.def), for one element type; of `cast` and `bitcast` the type is the operand's.
///
///     schema = 0
///     target = "5f3c…"              # target_key()
///     provider = "cpu"
///     plugin = "ferrite.cpu 0.1.0"
///     [passed]
///     map = ["f32", "i32"]
///     [failed]
///     [declined]
///     contract = ["f64"]
struct CapabilityTable {
  std::string target, provider, plugin;
  std::map<std::pair<std::string, DType>, Verdict, std::less<>> cells;

  /// None where the cell was not measured.
  std::optional<Verdict> find(std::string_view name, DType dtype) const;
  std::string text() const;
  /// The file's name in a folder of tables: "<target>.capabilities.toml".
  std::string file_name() const;

  /// `path` is for places. FE-M01 where the text is no TOML, FE-P54 where it is no such table, or, with `wanted`, one of
  /// another target, provider or plugin than that.
  static Result<CapabilityTable> parse(std::string_view text, const std::string& path,
                                       const CapabilityTable* wanted = nullptr);
  /// FE-M14 where it cannot be read, too.
  static Result<CapabilityTable> read(const std::string& path, const CapabilityTable* wanted = nullptr);
  /// FE-P54 where the file cannot be written.
  Result<void> write(const std::string& path) const;
};

/// What tables are keyed by: 32 hex digits over the description that the runtime gives of its device and the provider's id and
/// fingerprint, so that another machine, provider or version of it has a table of its own.
std::string target_key(std::string_view description, std::string_view provider, std::string_view fingerprint);

}  // namespace ferrite::core::runtime
