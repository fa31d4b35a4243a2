// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The table of what a backend was measured to compute. `ferrite plugin check` writes it; device placement
// reads it.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "core/support/error.h"
#include "ferrite/dtype.hpp"

namespace ferrite::core::runtime {

/// The result of compiling and running the samples of one cell.
enum class Verdict : uint8_t {
  passed,    ///< every sample that the provider accepts gave the interpreter's result
  failed,    ///< a sample gave a wrong result, was refused by the runtime or killed the process
  declined,  ///< the provider accepts none of the samples
};

/// The measured table of one target. A cell is a statement kind (map, reduce, contract, scatter, serial) or a
/// scalar primitive (prims.def), for one element type; for `cast` and `bitcast` that is the operand's type.
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

  /// None if the cell was not measured.
  std::optional<Verdict> find(std::string_view name, DType dtype) const;
  std::string text() const;
  /// The table's file name in a folder: "<target>.capabilities.toml".
  std::string file_name() const;

  /// `path` is used in error places. FE-M01 if the text is not TOML; FE-P54 if it is no such table or, with
  /// `wanted`, is for another target, provider or plugin than `wanted`.
  static Result<CapabilityTable> parse(std::string_view text, const std::string& path,
                                       const CapabilityTable* wanted = nullptr);
  /// As parse(); also FE-M14 if the file cannot be read.
  static Result<CapabilityTable> read(const std::string& path, const CapabilityTable* wanted = nullptr);
  /// FE-P54 if the file cannot be written.
  Result<void> write(const std::string& path) const;
};

/// The key of a table: 32 hex digits, a hash of the runtime's device description and of the provider's id and
/// fingerprint. Another machine, provider or provider version therefore has its own table.
std::string target_key(std::string_view description, std::string_view provider, std::string_view fingerprint);

}  // namespace ferrite::core::runtime
