// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The table of ATen overloads that the importer reads.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ferrite::from_torch {

class Context;

/// One overload. `parameters` are those of PyTorch's schema, in its order, separated by spaces. A parameter
/// that says nothing about the values, such as the device or the layout of memory, begins with '~': the
/// handler need not read it. A last parameter "~*" stands for any others of that kind.
struct OpEntry {
  std::string_view target;      ///< "aten.add.Tensor"
  std::string_view parameters;  ///< "self other alpha"
  void (*handler)(Context&);
  const char* standard =
      nullptr;  ///< for handlers of several overloads: the operator that the overload becomes
};

/// An overload with the parameters and the meaning of another one: a prim, mostly, which asks more of its
/// arguments than the overload of ATen.
struct OpAlias {
  std::string_view target, same_as;
};
/// An overload that no graph of tensors can express.
struct Refusal {
  std::string_view target, reason;
};

// One table per file.
std::span<const OpEntry> activation_ops();
std::span<const OpEntry> attention_ops();
std::span<const OpEntry> contract_ops();
std::span<const OpEntry> create_ops();
std::span<const OpEntry> distance_ops();
std::span<const OpEntry> divide_ops();
std::span<const OpEntry> embedding_ops();
std::span<const OpEntry> foreach_ops();
std::span<const OpEntry> gamma_ops();
std::span<const OpEntry> index_ops();
std::span<const OpEntry> loss_ops();
std::span<const OpEntry> norm_ops();
std::span<const OpEntry> part_ops();
std::span<const OpEntry> pointwise_ops();
std::span<const OpEntry> pool_ops();
std::span<const OpEntry> product_ops();
std::span<const OpEntry> random_ops();
std::span<const OpEntry> recurrent_ops();
std::span<const OpEntry> reduce_ops();
std::span<const OpEntry> resize_ops();
std::span<const OpEntry> special_ops();
std::span<const OpEntry> view_ops();
std::span<const OpAlias> aliases();
std::span<const Refusal> refusals();

/// Null if no table has the overload.
const OpEntry* find_op(std::string_view target);
/// Why the overload is refused; empty if nothing is known about it.
std::string_view why_refused(std::string_view target);
/// All overloads as source ops, sorted: "torch:aten::add.Tensor".
std::vector<std::string> supported_sources();
/// A line "<overload>\tall\tsupported" for each overload, sorted.
std::string coverage_text();
/// "torch:aten::add.Tensor" for "aten.add.Tensor", "torch:acme::rope" for "acme.rope.default".
std::string source_of(std::string_view target);

}  // namespace ferrite::from_torch
