// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Effects of an archive's calls on the memory of tensors: some give views, others write. An archive names
// overloads only, and their schemas are not in it.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "format/program.h"

namespace ferrite::from_torch {

/// How the elements of a view lie in the tensor that it is a view of.
enum class ViewKind : uint8_t {
  order,      ///< the same elements in their order, under other dims or another dtype of the same width
  transpose,  ///< two dims change places: the call is its own inverse
  permute,    ///< all dims change places
  scatter,    ///< a part, which an overload NAME_scatter writes back
  parts,      ///< each result is a range of one dim
  unbind,     ///< each result is one index of a dim
  strided,    ///< any elements, which the layouts tell
};

/// Of the overloads that give views of their first argument. Some of them copy at times.
std::optional<ViewKind> view_kind(std::string_view target);
/// Whether the results may share memory with the arguments, in a way that view_kind() does not tell.
bool may_share(const ProgramNode& node);

/// Whether the overload writes to its first argument.
bool writes_argument(std::string_view target);
/// Whether the overload leaves the elements and changes what the tensor is: "aten.unsqueeze_.default".
bool reshapes_argument(std::string_view target);
/// "aten.add.Tensor" for "aten.add_.Tensor"; empty if no table has the functional form.
std::string functional_of(std::string_view target);
/// Whether the node is a norm in training. It updates its running statistics, which no schema says.
bool updates_statistics(const ProgramNode& node);
/// Checks of values. They give no tensor, and a program whose checks hold computes the same without them.
bool is_check(std::string_view target);

/// An argument by its parameter's name; null if it is None or not given. Archives name all arguments.
const Argument* find_argument(const ProgramNode& node, std::string_view name);
int64_t integer_argument(const ProgramNode& node, std::string_view name, int64_t otherwise);
bool flag_argument(const ProgramNode& node, std::string_view name);
/// The first argument, which views are of and in-place calls write to; null if it is no tensor.
const ValueRef* first_tensor(const ProgramNode& node);

/// Whether a tensor is stored with its last dim the fastest, without gaps.
bool by_rows(const Dims& dims, const Dims& strides);
bool same_strides(const Dims& dims, const Dims& a, const Dims& b);  ///< in the dims that have steps
/// Whether two elements may lie at one place: strides that are not nested count as such.
bool may_overlap(const Dims& dims, const Dims& strides);

}  // namespace ferrite::from_torch
