// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A few ops for the tests of core/passes/rewrite, written against the ABI as a plugin would.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "core/ir/graph/op_registry.h"
#include "core/support/abi/abi.h"

namespace ferrite::core::rewrite::test {

inline fe_value_view operand(const fe_infer_args* args, uint64_t k) {
  return abi::element<fe_value_view>(args->op->operands, k);
}
inline fe_attr attribute(const fe_infer_args* args, std::string_view name) {
  for (uint64_t k = 0; k < args->op->attrs.count; ++k) {
    const auto attr = abi::element<fe_attr>(args->op->attrs, k);
    if (abi::view(attr.name) == name) return attr;
  }
  return {};
}
inline int32_t fail(fe_call* call, std::string_view text) {
  call->set_error(call->host, abi::string(std::string_view("test/shape")), abi::string(text));
  return FE_EINVALID;
}

/// The operand of the highest rank; the others are scalars or have its dims, and its dtype.
inline int32_t infer_broadcast(void*, fe_call* call, const fe_infer_args* args, fe_infer_out* out) {
  fe_tensor_type type = operand(args, 0).type;
  for (uint64_t k = 1; k < args->op->operands.count; ++k) {
    const fe_tensor_type other = operand(args, k).type;
    if (other.dtype != type.dtype) return fail(call, "the operands have different dtypes");
    if (other.rank > type.rank) type = other;
  }
  for (uint64_t k = 0; k < args->op->operands.count; ++k) {
    const fe_tensor_type other = operand(args, k).type;
    if (other.rank != 0 &&
        (other.rank != type.rank || !std::equal(type.dims, type.dims + type.rank, other.dims))) {
      return fail(call, "the operands do not broadcast");
    }
  }
  return out->add(out->host, &type);
}
inline int32_t infer_same(void*, fe_call*, const fe_infer_args* args, fe_infer_out* out) {
  const auto first = operand(args, 0);
  return out->add(out->host, &first.type);
}
inline int32_t infer_second(void*, fe_call*, const fe_infer_args* args, fe_infer_out* out) {
  const auto second = operand(args, 1);
  return out->add(out->host, &second.type);
}
inline int32_t infer_cast(void*, fe_call*, const fe_infer_args* args, fe_infer_out* out) {
  fe_tensor_type type = operand(args, 0).type;
  type.dtype = static_cast<fe_dtype>(attribute(args, "dtype").i);
  return out->add(out->host, &type);
}
inline int32_t infer_reshape(void*, fe_call*, const fe_infer_args* args, fe_infer_out* out) {
  fe_tensor_type type = operand(args, 0).type;
  const fe_array shape = attribute(args, "shape").list;
  type.rank = static_cast<uint32_t>(shape.count);
  type.dims = static_cast<const int64_t*>(shape.data);
  return out->add(out->host, &type);
}
inline int32_t infer_twice(void*, fe_call*, const fe_infer_args* args, fe_infer_out* out) {
  const auto first = operand(args, 0);
  const int32_t status = out->add(out->host, &first.type);
  return status ? status : out->add(out->host, &first.type);
}

/// The tables, which live as long as this does.
class Ops {
 public:
  Ops() {
    add("add", {"a", "b"}, {}, infer_broadcast, FE_OP_COMMUTATIVE | FE_OP_POINTWISE);
    add("mul", {"a", "b"}, {}, infer_broadcast, FE_OP_COMMUTATIVE | FE_OP_POINTWISE);
    add("sub", {"a", "b"}, {}, infer_broadcast, FE_OP_POINTWISE);
    add("neg", {"x"}, {}, infer_same, FE_OP_POINTWISE);
    add("relu", {"x"}, {}, infer_same, FE_OP_POINTWISE);
    add("noise", {"x"}, {}, infer_same, FE_OP_POINTWISE | FE_OP_RANDOM);
    add("acme.fma", {"x", "y", "z"}, {of_kind("axis", FE_ATTR_INT)}, infer_broadcast, FE_OP_POINTWISE);
    add("cast", {"x"}, {of_kind("dtype", FE_ATTR_DTYPE, true)}, infer_cast);
    add("reshape", {"x"}, {of_kind("shape", FE_ATTR_INTS, true)}, infer_reshape);
    add("scale", {"x"},
        {of_kind("by", FE_ATTR_FLOAT), of_kind("axis", FE_ATTR_INT), of_kind("mode", FE_ATTR_STRING)},
        infer_same);
    add("turn", {"x"},
        {axis(of_kind("axis", FE_ATTR_INT)), axis(of_kind("axes", FE_ATTR_INTS)),
         of_kind("sizes", FE_ATTR_INTS)},
        infer_same);
    add("clamp", {"x", "low?", "high?"}, {}, infer_same);
    add("choose", {"condition", "a", "b"}, {}, infer_second);
    add("halves", {"x"}, {}, infer_twice, 0, 2);
    add("swapped_halves", {"x"}, {}, infer_twice, 0, 2);
    add("log", {"x"}, {}, infer_same, FE_OP_EFFECT | FE_OP_POINTWISE);
    for (const fe_op_def& def : defs_) {
      if (!registry_.add(def, "test")) std::abort();
    }
  }
  const graph::OpRegistry& registry() const { return registry_; }

 private:
  static fe_attr_def of_kind(const char* name, uint32_t kind, bool required = false) {
    auto def = abi::sized<fe_attr_def>();
    def.value = abi::sized<fe_attr>();
    def.value.name = abi::string(std::string_view(name));
    def.value.kind = kind;
    def.required = required;
    return def;
  }
  static fe_attr_def axis(fe_attr_def def) {
    def.flags = FE_ATTRIBUTE_AXIS;
    return def;
  }
  void add(const char* name, std::vector<std::string> operands, std::vector<fe_attr_def> attrs,
           int32_t (*infer)(void*, fe_call*, const fe_infer_args*, fe_infer_out*), uint32_t flags = 0,
           uint32_t results = 1) {
    auto& names = names_.emplace_back(std::move(operands));
    auto& operand_defs = operands_.emplace_back();
    for (std::string& operand : names) {
      auto def = abi::sized<fe_operand_def>();
      if (operand.ends_with('?')) {
        operand.pop_back();
        def.flags = FE_OPERAND_OPTIONAL;
      }
      def.name = abi::string(std::string_view(operand));
      operand_defs.push_back(def);
    }
    auto& attr_defs = attrs_.emplace_back(std::move(attrs));
    auto def = abi::sized<fe_op_def>();
    def.rev = 1;
    def.flags = flags;
    def.name = abi::string(std::string_view(name));
    def.operands = abi::array(operand_defs.data(), operand_defs.size());
    def.attrs = abi::array(attr_defs.data(), attr_defs.size());
    def.results = results;
    def.infer = infer;
    defs_.push_back(def);
  }

  std::deque<std::vector<std::string>> names_;
  std::deque<std::vector<fe_operand_def>> operands_;
  std::deque<std::vector<fe_attr_def>> attrs_;
  std::deque<fe_op_def> defs_;
  graph::OpRegistry registry_;
};

}  // namespace ferrite::core::rewrite::test
