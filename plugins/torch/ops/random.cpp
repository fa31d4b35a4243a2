// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Random numbers of seeds. Those that PyTorch's generator draws are a matter of its state between calls, so
// these nodes run in PyTorch; python/ferrite/torch/_random.py replaces most of them by functions of seeds.
#include "helpers.h"

namespace ferrite::from_torch {
namespace {

[[noreturn]] void refused(Context& c) {
  c.unsupported("random numbers of PyTorch's generator: the node runs in PyTorch");
}

/// Refuses a dropout, but for one outside of training or of probability 0, which drops nothing.
void need_no_drop(Context& c) {
  const double p = c.number("p");
  if (c.flag("train", true) && p != 0) refused(c);
}
void native_dropout(Context& c) {
  const Value x = c.tensor("input");
  need_no_drop(c);
  c.give(0, x);
  c.give(1, full(c, {boolean, x.dims()}, 1));
}
void dropout(Context& c) {
  need_no_drop(c);
  c.give(c.tensor("input"));
}
void native_dropout_backward(Context& c) {
  const Value g = c.tensor("grad_output");
  const DType wide = accumulated(g.dtype());
  const Value kept = binary(c, "mul", cast_to(c, g, wide), c.operand("mask", wide));
  c.give(cast_to(c, binary(c, "mul", kept, c.number("scale")), g.dtype()));
}
// Of a seed. The op takes a key and the number of a stream; both are any integers.

Value stream(Context& c, Value key, Value number) {
  const auto word = [&](Value value) { return reshape_to(c, cast_to(c, value, u64), {1}); };
  return concat(c, {word(key), word(number)}, 0);
}
/// Numbers of [0, 1) in a narrower float: 24 bits would round up to 1.
Value narrowed(Context& c, Value uniform, DType dtype) {
  if (dtype == f32) return uniform;
  if (dtype != f16 && dtype != bf16) c.unsupported("random numbers of ", name_of(dtype));
  const double steps = dtype == f16 ? 0x1p11 : 0x1p8;
  const Value whole = unary(c, "floor", binary(c, "mul", uniform, steps));
  return cast_to(c, binary(c, "mul", whole, 1 / steps), dtype);
}
void philox_rand(Context& c) {
  const auto& result = c.result(0);
  if (c.has("stride")) c.unsupported("a stride of random numbers");
  const Value seed = stream(c, c.tensor("seed"), c.tensor("offset"));
  c.give(0, narrowed(c, c.make("random_uniform", {seed}, attr("shape", result.dims)), result.dtype));
  // By how much the offset grows. Each offset is a stream of its own, and PyTorch counts in fours.
  if (c.wants(1)) c.give(1, integer_scalar(c, c.result(1).dtype, 4));
}
void lookup_seed(Context& c) {
  const Value seeds = c.tensor("seeds");
  c.give(reshape_to(c, slice_dim(c, seeds, 0, c.integer("index"), 1), {}));
}
/// The result of an op that takes a seed and gives a shape's numbers. A seed is two integers or, of PyTorch's
/// own nodes, one.
Value numbers(Context& c, const char* op) {
  const Value given = c.tensor("seed");
  const Value seed = given.rank() == 0 ? stream(c, given, integer_scalar(c, u64, 0)) : cast_to(c, given, u64);
  return c.make(op, {seed}, attr("shape", c.result().dims));
}
void random_uniform(Context& c) { c.give(numbers(c, "random_uniform")); }
void random_normal(Context& c) { c.give(numbers(c, "random_normal")); }
void inductor_random(Context& c) {
  const auto mode = c.text("mode", "rand");
  if (mode != "rand" && mode != "randn") c.bad("the mode is '", mode, "'");
  c.give(cast_to(c, numbers(c, mode == "rand" ? "random_uniform" : "random_normal"), c.result().dtype));
}
/// low + bits * (high - low) / 2^32.
void random_integers(Context& c) {
  const auto& result = c.result();
  const int64_t low = c.integer("low"), high = c.integer("high");
  if (low >= high) c.bad("no integer is in [", low, ", ", high, ")");
  const uint64_t count = static_cast<uint64_t>(high) - static_cast<uint64_t>(low);
  if (count > uint64_t{1} << 32) c.unsupported("random integers of more than 32 bits");
  const Value bits = cast_to(c, numbers(c, "random_bits"), u64);
  const Value scaled = binary(c, "mul", bits, integer_scalar(c, u64, static_cast<int64_t>(count)));
  const Value place = cast_to(c, binary(c, "shift_right", scaled, integer_scalar(c, u64, 32)), i64);
  c.give(cast_to(c, binary(c, "add", place, integer_scalar(c, i64, low)), result.dtype));
}

constexpr OpEntry entries[] = {
    {"aten.native_dropout.default", "input p train", native_dropout},
    {"aten.native_dropout_backward.default", "grad_output mask scale", native_dropout_backward},
    {"aten.dropout.default", "input p train", dropout},

    {"rngprims.philox_rand.default", "~size seed offset stride ~device ~dtype", philox_rand},
    {"prims.inductor_lookup_seed.default", "seeds index", lookup_seed},
    {"prims.inductor_random.default", "~size seed mode ~align_dtype", inductor_random},
    {"prims.inductor_randint.default", "low high ~size seed", random_integers},
    {"ferrite.random_uniform.default", "seed ~size", random_uniform},
    {"ferrite.random_normal.default", "seed ~size", random_normal},
    {"ferrite.random_integers.default", "seed low high ~size", random_integers},

    {"aten.rand.default", "~size ~dtype ~layout ~device ~pin_memory", refused},
    {"aten.rand.generator", "~size ~generator ~dtype ~layout ~device ~pin_memory", refused},
    {"aten.rand_like.default", "~self ~dtype ~layout ~device ~pin_memory ~memory_format", refused},
    {"aten.rand_like.generator", "~self ~generator ~dtype ~layout ~device ~pin_memory ~memory_format",
     refused},
    {"aten.randn.default", "~size ~dtype ~layout ~device ~pin_memory", refused},
    {"aten.randn.generator", "~size ~generator ~dtype ~layout ~device ~pin_memory", refused},
    {"aten.randn_like.default", "~self ~dtype ~layout ~device ~pin_memory ~memory_format", refused},
    {"aten.randn_like.generator", "~self ~generator ~dtype ~layout ~device ~pin_memory ~memory_format",
     refused},
    {"aten.randint.default", "~high ~size ~dtype ~layout ~device ~pin_memory", refused},
    {"aten.randint.generator", "~high ~size ~generator ~dtype ~layout ~device ~pin_memory", refused},
    {"aten.randint.low", "~low ~high ~size ~dtype ~layout ~device ~pin_memory", refused},
    {"aten.randint.low_generator", "~low ~high ~size ~generator ~dtype ~layout ~device ~pin_memory", refused},
    {"aten.randint_like.default", "~self ~high ~dtype ~layout ~device ~pin_memory ~memory_format", refused},
    {"aten.randint_like.generator",
     "~self ~high ~generator ~dtype ~layout ~device ~pin_memory ~memory_format", refused},
    {"aten.randint_like.Tensor", "~self ~high ~dtype ~layout ~device ~pin_memory ~memory_format", refused},
    {"aten.randint_like.Tensor_generator",
     "~self ~high ~generator ~dtype ~layout ~device ~pin_memory ~memory_format", refused},
    {"aten.randint_like.low_dtype", "~self ~low ~high ~dtype ~layout ~device ~pin_memory ~memory_format",
     refused},
    {"aten.randint_like.low_generator_dtype",
     "~self ~low ~high ~generator ~dtype ~layout ~device ~pin_memory ~memory_format", refused},
    {"aten.randperm.default", "~n ~dtype ~layout ~device ~pin_memory", refused},
    {"aten.randperm.generator", "~n ~generator ~dtype ~layout ~device ~pin_memory", refused},
    {"aten.bernoulli.default", "~self ~generator", refused},
    {"aten.bernoulli.p", "~self ~p ~generator", refused},
    {"aten.bernoulli.Tensor", "~self ~p ~generator", refused},
    {"aten.multinomial.default", "~self ~num_samples ~replacement ~generator", refused},
    {"aten.normal.Tensor_Tensor", "~mean ~std ~generator", refused},
    {"aten.normal.Tensor_float", "~mean ~std ~generator", refused},
    {"aten.normal.float_Tensor", "~mean ~std ~generator", refused},
    {"aten.normal.float_float", "~mean ~std ~size ~generator ~dtype ~layout ~device ~pin_memory", refused},
    {"aten.normal_functional.default", "~self ~mean ~std ~generator", refused},
    {"aten.log_normal.default", "~self ~mean ~std ~generator", refused},
    {"aten.uniform.default", "~self ~from ~to ~generator", refused},
    {"aten.exponential.default", "~self ~lambd ~generator", refused},
    {"aten.geometric.default", "~self ~p ~generator", refused},
    {"aten.cauchy.default", "~self ~median ~sigma ~generator", refused},
    {"aten.poisson.default", "~self ~generator", refused},
    {"prims.normal.default", "~shape ~mean ~std ~dtype ~device ~requires_grad ~generator", refused},
    {"prims.uniform.default", "~shape ~low ~high ~dtype ~device ~stride ~generator", refused},
    {"prims.inductor_seed.default", "~device", refused},
    {"prims.inductor_seeds.default", "~count ~device", refused},
};

}  // namespace

std::span<const OpEntry> random_ops() { return entries; }

}  // namespace ferrite::from_torch
