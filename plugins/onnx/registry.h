// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Which ONNX ops are imported, in which versions, by which function.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ferrite::from_onnx {

class Context;

/// One op. `first` to `last` are the operator sets in which its meaning is known to the handler.
struct OpEntry {
  std::string_view name;
  int first;
  int last;
  void (*handler)(Context&);
  const char* standard = nullptr;  ///< for handlers of several ops: the operator that it becomes
  std::string_view domain = {};    ///< "" = ai.onnx
};

/// The newest operator set whose changes are known. An op that none of them changed is taken up to here.
inline constexpr int newest = 28;

// One table a file.
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

/// Null where the op is not known at all.
const OpEntry* find_op(std::string_view domain, std::string_view name);
/// All of them as source ops: "onnx:Relu".
std::vector<std::string> supported_sources();
/// A line "<op>\t<versions>\t<state>" for each op of ONNX, sorted; the state is "supported" or "missing", and the versions of a
/// missing one are those that have it: "20-" from 20 on.
std::string coverage_text();

}  // namespace ferrite::from_onnx
