// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Overloads of lists of tensors, as optimisers use them. Each result is that of the pointwise overload on its
// tensors.
#include <cmath>
#include <limits>
#include <string>

#include "helpers.h"

namespace ferrite::from_torch {
namespace {

/// An argument that has a value for each tensor of the list: a list of tensors, a list of numbers, or one of
/// either for all.
class Items {
 public:
  Items(Context& c, std::string_view name) : c_(c), name_(name), argument_(c.argument(name)) {
    const auto* list = argument_.list();
    if (list && !list->empty() && list->front().tensor()) values_ = c.tensors(name);
  }
  Value at(size_t k, DType dtype) const {
    const auto* list = argument_.list();
    if (!list) return c_.operand(name_, dtype);
    if (k >= list->size()) c_.bad("argument '", name_, "' has ", list->size(), " elements");
    if (!values_.empty()) return cast_to(c_, values_[k], dtype);
    const auto& element = (*list)[k].value;
    if (const auto* integer = std::get_if<int64_t>(&element)) return integer_scalar(c_, dtype, *integer);
    if (const auto* number = std::get_if<double>(&element)) return c_.graph.scalar(dtype, *number);
    if (const auto* flag = std::get_if<bool>(&element)) return c_.graph.scalar(dtype, *flag);
    c_.bad("argument '", name_, "' has an element that is neither tensor nor number");
  }

 private:
  Context& c_;
  std::string_view name_;
  const Argument& argument_;
  std::vector<Value> values_;
};

/// Gives each wanted result by `make(k, its dtype)`.
template <class Make>
void each(Context& c, Make&& make) {
  for (size_t k = 0; k < c.result_count(); ++k)
    if (c.wants(k)) c.give(k, cast_to(c, make(k, c.result(k).dtype), c.result(k).dtype));
}

// Ops of one list.

void function(Context& c) {
  const Items self(c, "self");
  each(c, [&](size_t k, DType dtype) { return unary(c, c.entry.standard, self.at(k, dtype)); });
}
/// Rounding leaves integers as they are.
void rounding_of_each(Context& c) {
  const Items self(c, "self");
  each(c, [&](size_t k, DType dtype) {
    const Value x = self.at(k, dtype);
    return is_float(dtype) ? unary(c, c.entry.standard, x) : x;
  });
}
/// abs and sign.
void of_signed(Context& c) {
  const bool is_abs = std::string_view(c.entry.standard) == "abs";
  const Items self(c, "self");
  each(c, [&](size_t k, DType dtype) {
    const Value x = self.at(k, dtype);
    const bool has_no_sign = dtype == boolean || (is_abs && class_of(dtype) == FE_CLASS_UINT);
    return has_no_sign ? x : unary(c, c.entry.standard, x);
  });
}
void fraction(Context& c) {
  const Items self(c, "self");
  each(c, [&](size_t k, DType dtype) {
    const Value x = self.at(k, dtype);
    return binary(c, "sub", x, unary(c, "trunc", x));
  });
}
void same_list(Context& c) {
  const Items self(c, "self");
  each(c, [&](size_t k, DType dtype) { return self.at(k, dtype); });
}
void zero(Context& c) {
  each(c, [&](size_t k, DType) { return full(c, c.result(k), 0); });
}
void copy_each(Context& c) {
  const Items source(c, "src");
  each(c, [&](size_t k, DType dtype) { return expand_to(c, source.at(k, dtype), c.result(k).dims); });
}

// Ops of two lists. `standard` is the op; the second argument is named other, scalar, scalars or exponent.

void arithmetic_of_lists(Context& c) {
  const std::string_view op = c.entry.standard;
  const Items self(c, "self");
  const char* name = "other";
  for (const char* candidate : {"scalar", "scalars", "exponent"})
    if (c.has(candidate)) name = candidate;
  const Items other(c, name);
  const bool scaled = c.has("alpha") && c.number("alpha") != 1;
  each(c, [&](size_t k, DType dtype) {
    if (dtype == boolean && (op == "add" || op == "mul"))
      return binary(c, op == "add" ? "logical_or" : "logical_and", self.at(k, dtype), other.at(k, dtype));
    const DType wide = scaled ? accumulated(dtype) : dtype;
    Value b = other.at(k, wide);
    if (scaled) b = binary(c, "mul", b, c.operand("alpha", wide));
    return binary(c, op, self.at(k, wide), b);
  });
}

// Ops of three lists. PyTorch computes f16 and bf16 in f32 and rounds once.

/// self + value * tensor1 * tensor2, or / tensor2.
void add_products(Context& c) {
  const Items self(c, "self"), first(c, "tensor1"), second(c, "tensor2");
  const bool by_list = c.has("scalars");
  // One tensor has the factors of all.
  const Value factors = by_list && c.is_tensor("scalars") ? c.tensor("scalars") : Value();
  const Items scalars(c, by_list ? "scalars" : "value");
  const bool scaled = by_list || (c.has("value") && c.number("value") != 1);
  each(c, [&](size_t k, DType dtype) {
    const DType wide = accumulated(dtype);
    Value product = first.at(k, wide);
    if (scaled) {
      const Value factor =
          factors ? cast_to(c, reshape_to(c, slice_dim(c, factors, 0, static_cast<int64_t>(k), 1), {}), wide)
                  : scalars.at(k, wide);
      product = binary(c, "mul", factor, product);
    }
    product = binary(c, c.entry.standard, product, second.at(k, wide));
    return binary(c, "add", self.at(k, wide), product);
  });
}
/// PyTorch goes from the nearer end, so that a weight of 1 gives the end itself.
void lerp_of_lists(Context& c) {
  const Items self(c, "self"), ends(c, "tensors1"), weights(c, c.has("weights") ? "weights" : "weight");
  each(c, [&](size_t k, DType dtype) {
    const DType wide = accumulated(dtype);
    const Value start = self.at(k, wide), end = ends.at(k, wide), weight = weights.at(k, wide);
    const Value length = binary(c, "sub", end, start);
    const auto number = weight.number();
    const auto near = [&] { return binary(c, "add", start, binary(c, "mul", weight, length)); };
    const auto far = [&] {
      const Value rest = binary(c, "sub", number_like(c, weight, 1), weight);
      return binary(c, "sub", end, binary(c, "mul", length, rest));
    };
    if (number) return std::abs(*number) < 0.5 ? near() : far();
    const Value is_near = binary(c, "lt", unary(c, "abs", weight), 0.5);
    return select(c, is_near, near(), far());
  });
}

// Reductions of each tensor to one number.

void maximum_of_all(Context& c) {
  const Items self(c, "self");
  each(c, [&](size_t k, DType dtype) {
    const Value x = self.at(k, dtype);
    return reduce_over(c, "reduce_max", x, dim_range(0, x.rank()), false);
  });
}
void norm(Context& c) {
  const Items self(c, "self");
  const double order = c.number("ord", 2);
  c.dtype("dtype");
  const bool is_sum = std::string_view(c.entry.standard) == "powsum";
  each(c, [&](size_t k, DType dtype) {
    const Value x = self.at(k, accumulated(dtype));
    const Dims all = dim_range(0, x.rank());
    return is_sum ? power_sum(c, x, order, all, false) : norm_over(c, x, order, all, false);
  });
}

constexpr const char* one_list = "self";
constexpr const char* with_list = "self other";
constexpr const char* with_scaled = "self other alpha";
constexpr const char* with_scalar = "self scalar";
constexpr const char* with_scalars = "self scalars";
constexpr const char* product_scalar = "self tensor1 tensor2 value";
constexpr const char* product_scalars = "self tensor1 tensor2 scalars";

constexpr OpEntry foreach_entries[] = {
    {"aten._foreach_abs.default", one_list, of_signed, "abs"},
    {"aten._foreach_acos.default", one_list, function, "acos"},
    {"aten._foreach_asin.default", one_list, function, "asin"},
    {"aten._foreach_atan.default", one_list, function, "atan"},
    {"aten._foreach_ceil.default", one_list, rounding_of_each, "ceil"},
    {"aten._foreach_cos.default", one_list, function, "cos"},
    {"aten._foreach_cosh.default", one_list, function, "cosh"},
    {"aten._foreach_erf.default", one_list, function, "erf"},
    {"aten._foreach_exp.default", one_list, function, "exp"},
    {"aten._foreach_expm1.default", one_list, function, "expm1"},
    {"aten._foreach_floor.default", one_list, rounding_of_each, "floor"},
    {"aten._foreach_frac.default", one_list, fraction},
    {"aten._foreach_log.default", one_list, function, "log"},
    {"aten._foreach_log1p.default", one_list, function, "log1p"},
    {"aten._foreach_log2.default", one_list, function, "log2"},
    {"aten._foreach_neg.default", one_list, function, "neg"},
    {"aten._foreach_reciprocal.default", one_list, function, "reciprocal"},
    {"aten._foreach_round.default", one_list, rounding_of_each, "round"},
    {"aten._foreach_rsqrt.default", one_list, function, "rsqrt"},
    {"aten._foreach_sigmoid.default", one_list, function, "sigmoid"},
    {"aten._foreach_sign.default", one_list, of_signed, "sign"},
    {"aten._foreach_sin.default", one_list, function, "sin"},
    {"aten._foreach_sinh.default", one_list, function, "sinh"},
    {"aten._foreach_sqrt.default", one_list, function, "sqrt"},
    {"aten._foreach_tan.default", one_list, function, "tan"},
    {"aten._foreach_tanh.default", one_list, function, "tanh"},
    {"aten._foreach_trunc.default", one_list, rounding_of_each, "trunc"},
    {"aten._foreach_clone.default", "self ~memory_format", same_list},
    {"aten._foreach_zero.default", "~self", zero},
    {"aten._foreach_copy.default", "~self src ~non_blocking", copy_each},

    {"aten._foreach_add.List", with_scaled, arithmetic_of_lists, "add"},
    {"aten._foreach_add.Scalar", with_scalar, arithmetic_of_lists, "add"},
    {"aten._foreach_add.ScalarList", with_scalars, arithmetic_of_lists, "add"},
    {"aten._foreach_add.Tensor", with_scaled, arithmetic_of_lists, "add"},
    {"aten._foreach_sub.List", with_scaled, arithmetic_of_lists, "sub"},
    {"aten._foreach_sub.Scalar", with_scalar, arithmetic_of_lists, "sub"},
    {"aten._foreach_sub.ScalarList", with_scalars, arithmetic_of_lists, "sub"},
    {"aten._foreach_mul.List", with_list, arithmetic_of_lists, "mul"},
    {"aten._foreach_mul.Scalar", with_scalar, arithmetic_of_lists, "mul"},
    {"aten._foreach_mul.ScalarList", with_scalars, arithmetic_of_lists, "mul"},
    {"aten._foreach_mul.Tensor", with_list, arithmetic_of_lists, "mul"},
    {"aten._foreach_div.List", with_list, arithmetic_of_lists, "div"},
    {"aten._foreach_div.Scalar", with_scalar, arithmetic_of_lists, "div"},
    {"aten._foreach_div.ScalarList", with_scalars, arithmetic_of_lists, "div"},
    {"aten._foreach_div.Tensor", with_list, arithmetic_of_lists, "div"},
    {"aten._foreach_maximum.List", with_list, arithmetic_of_lists, "maximum"},
    {"aten._foreach_maximum.Scalar", with_scalar, arithmetic_of_lists, "maximum"},
    {"aten._foreach_maximum.ScalarList", with_scalars, arithmetic_of_lists, "maximum"},
    {"aten._foreach_minimum.List", with_list, arithmetic_of_lists, "minimum"},
    {"aten._foreach_minimum.Scalar", with_scalar, arithmetic_of_lists, "minimum"},
    {"aten._foreach_minimum.ScalarList", with_scalars, arithmetic_of_lists, "minimum"},
    {"aten._foreach_clamp_min.List", with_list, arithmetic_of_lists, "maximum"},
    {"aten._foreach_clamp_min.Scalar", with_scalar, arithmetic_of_lists, "maximum"},
    {"aten._foreach_clamp_min.ScalarList", with_scalars, arithmetic_of_lists, "maximum"},
    {"aten._foreach_clamp_max.List", with_list, arithmetic_of_lists, "minimum"},
    {"aten._foreach_clamp_max.Scalar", with_scalar, arithmetic_of_lists, "minimum"},
    {"aten._foreach_clamp_max.ScalarList", with_scalars, arithmetic_of_lists, "minimum"},
    {"aten._foreach_pow.List", "self exponent", arithmetic_of_lists, "pow"},
    {"aten._foreach_pow.Scalar", "self exponent", arithmetic_of_lists, "pow"},
    {"aten._foreach_pow.ScalarList", "self exponent", arithmetic_of_lists, "pow"},
    {"aten._foreach_pow.ScalarAndTensor", "self exponent", arithmetic_of_lists, "pow"},

    {"aten._foreach_addcmul.Scalar", product_scalar, add_products, "mul"},
    {"aten._foreach_addcmul.ScalarList", product_scalars, add_products, "mul"},
    {"aten._foreach_addcmul.Tensor", product_scalars, add_products, "mul"},
    {"aten._foreach_addcdiv.Scalar", product_scalar, add_products, "div"},
    {"aten._foreach_addcdiv.ScalarList", product_scalars, add_products, "div"},
    {"aten._foreach_addcdiv.Tensor", product_scalars, add_products, "div"},
    {"aten._foreach_lerp.List", "self tensors1 weights", lerp_of_lists},
    {"aten._foreach_lerp.Scalar", "self tensors1 weight", lerp_of_lists},
    {"aten._foreach_lerp.ScalarList", "self tensors1 weight", lerp_of_lists},

    {"aten._foreach_max.default", one_list, maximum_of_all},
    {"aten._foreach_norm.Scalar", "self ord dtype", norm, "norm"},
    {"aten._foreach_powsum.Scalar", "self ord dtype", norm, "powsum"},
};

}  // namespace

std::span<const OpEntry> foreach_ops() { return foreach_entries; }

}  // namespace ferrite::from_torch
