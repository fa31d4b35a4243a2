// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The table of imported ONNX ops, with their versions and functions.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ferrite::from_onnx {

class Context;

/// One op. `first` to `last` are the operator sets in which the handler knows its meaning.
struct OpEntry {
  std::string_view name;
  int first;
  int last;
  void (*handler)(Context&);
  const char* standard = nullptr;  ///< for handlers of several ops: the operator that the op becomes
  std::string_view domain = {};    ///< "" = ai.onnx
};

/// The newest operator set whose changes are known. Ops that none of them changed are accepted up to here.
inline constexpr int newest = 28;

// One table per file.
std::span<const OpEntry> pointwise_ops();
std::span<const OpEntry> activation_ops();
std::span<const OpEntry> shape_ops();
std::span<const OpEntry> move_ops();
std::span<const OpEntry> create_ops();
std::span<const OpEntry> control_ops();
std::span<const OpEntry> reduce_ops();
std::span<const OpEntry> norm_ops();
std::span<const OpEntry> attention_ops();
std::span<const OpEntry> contract_ops();
std::span<const OpEntry> window_ops();
std::span<const OpEntry> resize_ops();
std::span<const OpEntry> quantise_ops();
std::span<const OpEntry> loss_ops();

/// Null if the op is not known in any version.
const OpEntry* find_op(std::string_view domain, std::string_view name);
/// All entries as source ops: "onnx:Relu".
std::vector<std::string> supported_sources();
/// A line "<op>\t<versions>\t<state>" for each op of ONNX, sorted. The state is "supported" or "missing"; for
/// a missing op, the versions are those that have it: "20-" means from 20 on.
std::string coverage_text();

}  // namespace ferrite::from_onnx
