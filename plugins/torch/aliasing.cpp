// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "aliasing.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "registry.h"

namespace ferrite::from_torch {
namespace {

struct ViewOp {
  std::string_view name;
  ViewKind kind;
};
/// The overloads of ATen that give views, by name.
constexpr ViewOp view_ops_by_name[] = {
    {"_reshape_alias", ViewKind::order},
    {"_unsafe_view", ViewKind::order},
    {"alias", ViewKind::order},
    {"alpha_dropout", ViewKind::order},
    {"contiguous", ViewKind::order},
    {"detach", ViewKind::order},
    {"dropout", ViewKind::order},
    {"feature_alpha_dropout", ViewKind::order},
    {"feature_dropout", ViewKind::order},
    {"flatten", ViewKind::order},
    {"lift_fresh", ViewKind::order},
    {"positive", ViewKind::order},
    {"atleast_1d", ViewKind::order},
    {"atleast_2d", ViewKind::order},
    {"atleast_3d", ViewKind::order},
    {"ravel", ViewKind::order},
    {"reshape", ViewKind::order},
    {"reshape_as", ViewKind::order},
    {"resolve_conj", ViewKind::order},
    {"resolve_neg", ViewKind::order},
    {"squeeze", ViewKind::order},
    {"to", ViewKind::order},
    {"type_as", ViewKind::order},
    {"unflatten", ViewKind::order},
    {"unsqueeze", ViewKind::order},
    {"view", ViewKind::order},
    {"view_as", ViewKind::order},
    {"adjoint", ViewKind::strided},
    {"mT", ViewKind::strided},
    {"matrix_H", ViewKind::strided},
    {"mH", ViewKind::strided},
    {"numpy_T", ViewKind::strided},
    {"swapaxes", ViewKind::transpose},
    {"swapdims", ViewKind::transpose},
    {"t", ViewKind::transpose},
    {"transpose", ViewKind::transpose},
    {"permute", ViewKind::permute},
    {"diagonal", ViewKind::scatter},
    {"select", ViewKind::scatter},
    {"slice", ViewKind::scatter},
    {"chunk", ViewKind::parts},
    {"hsplit", ViewKind::strided},
    {"split", ViewKind::parts},
    {"split_with_sizes", ViewKind::parts},
    {"tensor_split", ViewKind::parts},
    {"unsafe_chunk", ViewKind::parts},
    {"unsafe_split", ViewKind::parts},
    {"unsafe_split_with_sizes", ViewKind::parts},
    {"unbind", ViewKind::unbind},
    {"as_strided", ViewKind::strided},
    {"broadcast_to", ViewKind::strided},
    {"dsplit", ViewKind::strided},
    {"expand", ViewKind::strided},
    {"expand_as", ViewKind::strided},
    {"linalg_diagonal", ViewKind::strided},
    {"movedim", ViewKind::strided},
    {"moveaxis", ViewKind::strided},
    {"narrow", ViewKind::parts},
    {"unfold", ViewKind::strided},
    {"vsplit", ViewKind::strided},
};

/// Other overloads that give views at times, of the tensors of a list most of them.
constexpr std::string_view sharing_names[] = {"broadcast_tensors", "einsum", "meshgrid", "sum_to_size"};
constexpr std::string_view reshaping_names[] = {"squeeze", "swapaxes",  "swapdims",
                                                "t",       "transpose", "unsqueeze"};

}  // namespace

std::optional<ViewKind> view_kind(std::string_view target) {
  const auto [space, name, overload] = parts_of(target);
  const auto found = std::ranges::find(view_ops_by_name, name, &ViewOp::name);
  if (space != "aten" || found == std::end(view_ops_by_name)) return std::nullopt;
  return found->kind;
}

bool may_share(const ProgramNode& node) {
  const auto* operands = find_argument(node, "tensors");
  const bool several = operands && operands->list() && operands->list()->size() > 1;
  if (several && node.target == "aten.einsum.default") return false;  // products are new tensors
  return std::ranges::count(sharing_names, parts_of(node.target).name) > 0;
}

bool reshapes_argument(std::string_view target) {
  const auto name = parts_of(target).name;
  return writes_argument(target) && std::ranges::count(reshaping_names, name.substr(0, name.size() - 1)) > 0;
}

bool writes_argument(std::string_view target) {
  const auto [space, name, overload] = parts_of(target);
  return space == "aten" && name.ends_with('_') && (!name.ends_with("__") || name.starts_with("__i"));
}
std::string functional_of(std::string_view target) {
  if (!writes_argument(target)) return {};
  const auto [space, name, overload] = parts_of(target);
  std::string form(name.substr(0, name.size() - 1));
  if (name.ends_with("__")) form = "__" + std::string(name.substr(3));  // "__iand__"
  if (name == "normal_") form = "normal_functional";
  const auto named = [&](std::string_view overload) { return "aten." + form + "." + std::string(overload); };
  // Some functional forms have other overloads, with the same arguments.
  for (const auto candidate :
       {overload, std::string_view("default"), std::string_view("int"), std::string_view("p")})
    if (find_op(named(candidate))) return named(candidate);
  return {};
}

bool is_check(std::string_view target) {
  return target.starts_with("aten._assert_") || target.starts_with("aten.sym_constrain_range");
}

const Argument* find_argument(const ProgramNode& node, std::string_view name) {
  const auto found = std::ranges::find(node.kwargs, name, &std::pair<std::string, Argument>::first);
  return found == node.kwargs.end() || found->second.is_none() ? nullptr : &found->second;
}
int64_t integer_argument(const ProgramNode& node, std::string_view name, int64_t otherwise) {
  const auto* found = find_argument(node, name);
  const auto* number = found ? std::get_if<int64_t>(&found->value) : nullptr;
  return number ? *number : otherwise;
}
bool flag_argument(const ProgramNode& node, std::string_view name) {
  const auto* found = find_argument(node, name);
  const auto* flag = found ? std::get_if<bool>(&found->value) : nullptr;
  return flag && *flag;
}
const ValueRef* first_tensor(const ProgramNode& node) {
  if (node.kwargs.empty() || (node.kwargs[0].first != "self" && node.kwargs[0].first != "input"))
    return nullptr;
  return node.kwargs[0].second.tensor();
}

bool by_rows(const Dims& dims, const Dims& strides) {
  uint64_t expected = 1;
  for (size_t k = dims.size(); k-- > 0; expected *= static_cast<uint64_t>(dims[k]))
    if (dims[k] != 1 && static_cast<uint64_t>(strides[k]) != expected) return false;
  return true;
}
bool same_strides(const Dims& dims, const Dims& a, const Dims& b) {
  for (size_t k = 0; k < dims.size(); ++k)
    if (dims[k] > 1 && a[k] != b[k]) return false;
  return true;
}
bool may_overlap(const Dims& dims, const Dims& strides) {
  std::vector<size_t> order(dims.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::sort(order, {}, [&](size_t k) { return strides[k]; });
  uint64_t reach = 0;
  for (const auto k : order) {
    if (dims[k] < 2) continue;
    if (static_cast<uint64_t>(strides[k]) <= reach) return true;
    reach += static_cast<uint64_t>(dims[k] - 1) * static_cast<uint64_t>(strides[k]);
  }
  return false;
}

bool updates_statistics(const ProgramNode& node) {
  const auto* mean = find_argument(node, "running_mean");
  const auto* variance = find_argument(node, "running_var");
  return node.target == "aten.batch_norm.default" && flag_argument(node, "training") && mean &&
         mean->tensor() && variance && variance->tensor() && node.results.size() == 1 && node.results[0];
}

}  // namespace ferrite::from_torch
