// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A few ops for the tests of core/ir/graph, written against the ABI as a plugin would.
#pragma once

#include <cstring>
#include <deque>
#include <string_view>
#include <vector>

#include "core/ir/graph/graph.h"
#include "core/ir/graph/op_registry.h"
#include "core/support/abi/abi.h"

namespace ferrite::core::graph::test {

inline fe_value_view operand(const fe_infer_args* args, uint64_t k) {
  return abi::element<fe_value_view>(args->op->operands, k);
}
inline const fe_attr* attribute(const fe_infer_args* args, std::string_view name) {
  const auto* attrs = static_cast<const fe_attr*>(args->op->attrs.data);
  for (uint64_t k = 0; k < args->op->attrs.count; ++k) {
    if (abi::view(attrs[k].name) == name) return attrs + k;
  }
  return nullptr;
}
inline int32_t fail(fe_call* call, std::string_view text) {
  call->set_error(call->host, abi::string(std::string_view("test/shape")), abi::string(text));
  return FE_EINVALID;
}

/// Results as the first operand.
inline int32_t infer_same(void*, fe_call*, const fe_infer_args* args, fe_infer_out* out) {
  const auto first = operand(args, 0);
  return out->add(out->host, &first.type);
}
/// Two operands of one type.
inline int32_t infer_binary(void*, fe_call* call, const fe_infer_args* args, fe_infer_out* out) {
  const auto a = operand(args, 0), b = operand(args, 1);
  const bool same = a.type.dtype == b.type.dtype && a.type.rank == b.type.rank &&
                    std::equal(a.type.dims, a.type.dims + a.type.rank, b.type.dims);
  if (!same) return fail(call, "the operands have different types");
  return out->add(out->host, &a.type);
}
/// Slices of the first operand along `axis`.
inline int32_t infer_split(void*, fe_call* call, const fe_infer_args* args, fe_infer_out* out) {
  const auto first = operand(args, 0);
  const int64_t axis = attribute(args, "axis")->i;
  if (axis < 0 || axis >= first.type.rank) return fail(call, "axis is no dimension");
  const fe_array& sizes = attribute(args, "sizes")->list;
  std::vector<int64_t> dims(first.type.dims, first.type.dims + first.type.rank);
  for (uint64_t k = 0; k < sizes.count; ++k) {
    dims[static_cast<size_t>(axis)] = abi::element<int64_t>(sizes, k);
    fe_tensor_type type = first.type;
    type.dims = dims.data();
    if (const int32_t status = out->add(out->host, &type)) return status;
  }
  return FE_OK;
}
/// The first operand with the dims that the second one, a constant, holds.
inline int32_t infer_reshape(void*, fe_call* call, const fe_infer_args* args, fe_infer_out* out) {
  const auto first = operand(args, 0), shape = operand(args, 1);
  if (!shape.data) return fail(call, "the shape is no constant");
  fe_tensor_type type = first.type;
  type.rank = static_cast<uint32_t>(shape.data_bytes / sizeof(int64_t));
  type.dims = static_cast<const int64_t*>(shape.data);
  return out->add(out->host, &type);
}
inline int32_t infer_none(void*, fe_call*, const fe_infer_args*, fe_infer_out*) { return FE_OK; }
/// Breaks its contract: one result promised, none given.
inline int32_t infer_broken(void*, fe_call*, const fe_infer_args*, fe_infer_out*) { return FE_OK; }

/// The tables, which live as long as this does.
class Ops {
 public:
  Ops() {
    add("relu", {{"x", 0}}, {}, 1, infer_same);
    add("add", {{"a", 0}, {"b", 0}}, {}, 1, infer_binary);
    add("split", {{"x", 0}}, {number("axis", 0, false), list("sizes")}, 0, infer_split);
    add("clamp", {{"x", 0}, {"low", FE_OPERAND_OPTIONAL}, {"high", FE_OPERAND_OPTIONAL}}, {}, 1, infer_same);
    add("concat", {{"xs", FE_OPERAND_VARIADIC}}, {number("axis", 0, true)}, 1, infer_same);
    add("reshape", {{"x", 0}, {"shape", 0}}, {}, 1, infer_reshape);
    add("print", {{"x", 0}}, {}, 0, infer_none);
    add("broken", {{"x", 0}}, {}, 1, infer_broken);
    fe_attr_def alpha = number("alpha", 0, false);
    alpha.value.kind = FE_ATTR_FLOAT;
    alpha.value.f = 0.5;
    add("acme.leaky", {{"x", 0}}, {alpha}, 1, infer_same);
    for (const fe_op_def& def : defs_) {
      if (!registry_.add(def, "test")) std::abort();
    }
  }
  const OpRegistry& registry() const { return registry_; }
  const std::deque<fe_op_def>& defs() const { return defs_; }

 private:
  struct Operand {
    const char* name;
    uint32_t flags;
  };
  static fe_attr_def number(const char* name, int64_t value, bool required) {
    auto def = abi::sized<fe_attr_def>();
    def.value = abi::sized<fe_attr>();
    def.value.name = abi::string(std::string_view(name));
    def.value.kind = FE_ATTR_INT;
    def.value.i = value;
    def.required = required;
    return def;
  }
  static fe_attr_def list(const char* name) {
    fe_attr_def def = number(name, 0, true);
    def.value.kind = FE_ATTR_INTS;
    return def;
  }
  void add(const char* name, const std::vector<Operand>& operands, std::vector<fe_attr_def> attrs,
           uint32_t results, int32_t (*infer)(void*, fe_call*, const fe_infer_args*, fe_infer_out*)) {
    auto& operand_defs = operands_.emplace_back();
    for (const Operand& operand : operands) {
      auto def = abi::sized<fe_operand_def>();
      def.name = abi::string(std::string_view(operand.name));
      def.flags = operand.flags;
      operand_defs.push_back(def);
    }
    auto& attr_defs = attrs_.emplace_back(std::move(attrs));
    auto def = abi::sized<fe_op_def>();
    def.rev = 1;
    def.name = abi::string(std::string_view(name));
    def.operands = abi::array(operand_defs.data(), operand_defs.size());
    def.attrs = abi::array(attr_defs.data(), attr_defs.size());
    def.results = results;
    def.infer = infer;
    defs_.push_back(def);
  }

  std::deque<std::vector<fe_operand_def>> operands_;
  std::deque<std::vector<fe_attr_def>> attrs_;
  std::deque<fe_op_def> defs_;
  OpRegistry registry_;
};

inline TensorType f32_type(std::vector<Dim> dims) { return {DType::f32_, std::move(dims), {}, 0}; }

}  // namespace ferrite::core::graph::test
