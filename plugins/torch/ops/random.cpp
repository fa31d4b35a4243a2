// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Random numbers of seeds. Where PyTorch runs a program, those that its generator draws are a matter of its
// state between calls, so these nodes run in PyTorch; python/ferrite/torch/_random.py replaces most of them
// by functions of seeds. In an archive they are functions of the program's seed.
#include <numbers>
#include <utility>

#include <algorithm>

#include "helpers.h"

namespace ferrite::from_torch {
namespace {

[[noreturn]] void drawn_elsewhere(Context& c) {
  c.unsupported("random numbers that only PyTorch's generator draws");
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
/// low + bits * (high - low) / 2^32, with bits of u32.
Value scaled_bits(Context& c, Value bits, int64_t low, int64_t high) {
  if (low >= high) c.bad("no integer is in [", low, ", ", high, ")");
  const uint64_t count = static_cast<uint64_t>(high) - static_cast<uint64_t>(low);
  if (count > uint64_t{1} << 32) c.unsupported("random integers of more than 32 bits");
  const Value scaled =
      binary(c, "mul", cast_to(c, bits, u64), integer_scalar(c, u64, static_cast<int64_t>(count)));
  const Value place = cast_to(c, binary(c, "shift_right", scaled, integer_scalar(c, u64, 32)), i64);
  return cast_to(c, binary(c, "add", place, integer_scalar(c, i64, low)), c.result().dtype);
}
void random_integers(Context& c) {
  c.give(scaled_bits(c, numbers(c, "random_bits"), c.integer("low"), c.integer("high")));
}

// Of the program's seed.

/// f32 of [0, 1), f32 of the standard normal distribution or u32, as the op says.
Value drawn(Context& c, const char* op, const Dims& dims) {
  return c.make(op, {c.random_seed()}, attr("shape", dims));
}
Value uniform(Context& c) { return drawn(c, "random_uniform", c.result().dims); }
/// Of the exponential distribution of rate 1. No number is 0, of which a logarithm would be infinite.
Value exponential_numbers(Context& c, const Dims& dims) {
  const Value value = unary(c, "log1p", unary(c, "neg", drawn(c, "random_uniform", dims)));
  return binary(c, "maximum", unary(c, "neg", value), 0x1p-24);
}
/// A parameter of a distribution: a tensor or a number.
Value parameter(Context& c, std::string_view name, double otherwise) {
  return c.has(name) ? c.operand(name, f32) : c.graph.scalar(f32, otherwise);
}
void give_numbers(Context& c, Value value) {
  const DType dtype = c.result().dtype;
  if (dtype != f32 && dtype != f16 && dtype != bf16) c.unsupported("random numbers of ", name_of(dtype));
  c.give(cast_to(c, value, dtype));
}

void rand(Context& c) { c.give(narrowed(c, uniform(c), c.result().dtype)); }
void uniform_between(Context& c) {
  const Value low = parameter(c, c.has("from") ? "from" : "low", 0);
  const Value high = parameter(c, c.has("to") ? "to" : "high", 1);
  give_numbers(c, binary(c, "add", binary(c, "mul", uniform(c), binary(c, "sub", high, low)), low));
}
Value normal_numbers(Context& c, double mean, double deviation) {
  const Value value = drawn(c, "random_normal", c.result().dims);
  return binary(c, "add", binary(c, "mul", value, parameter(c, "std", deviation)),
                parameter(c, "mean", mean));
}
void normal(Context& c) { give_numbers(c, normal_numbers(c, 0, 1)); }
void log_normal(Context& c) { give_numbers(c, unary(c, "exp", normal_numbers(c, 1, 2))); }
void exponential(Context& c) {
  give_numbers(c, binary(c, "div", exponential_numbers(c, c.result().dims), parameter(c, "lambd", 1)));
}
/// The number of the first success.
void geometric(Context& c) {
  const Value failure = unary(c, "log1p", unary(c, "neg", parameter(c, "p", 0.5)));
  const Value count = binary(c, "div", unary(c, "neg", exponential_numbers(c, c.result().dims)), failure);
  c.give(cast_to(c, binary(c, "maximum", unary(c, "ceil", count), 1), c.result().dtype));
}
void cauchy(Context& c) {
  const Value angle = binary(c, "mul", binary(c, "sub", uniform(c), 0.5), std::numbers::pi);
  const Value value = binary(c, "mul", unary(c, "tan", angle), parameter(c, "sigma", 1));
  give_numbers(c, binary(c, "add", value, parameter(c, "median", 0)));
}
void randint(Context& c) {
  if (c.is_tensor("high")) c.unsupported("a bound that is a tensor");
  c.give(scaled_bits(c, drawn(c, "random_bits", c.result().dims), c.integer("low", 0), c.integer("high")));
}
/// The order of random keys.
void permutation(Context& c) {
  const Value keys = drawn(c, "random_bits", c.result().dims);
  const auto sorted =
      c.graph.make_all("sort", std::vector{keys}, std::vector{attr("axis", 0), attr("descending", false)});
  c.give(cast_to(c, sorted[1], c.result().dtype));
}
void bernoulli(Context& c) {
  const Value chosen = binary(c, "lt", uniform(c), parameter(c, c.has("p") ? "p" : "self", 0.5));
  c.give(cast_to(c, chosen, c.result().dtype));
}
/// Without replacement the greatest of p / e, where e is exponential; else where a uniform number falls among
/// the sums of the probabilities.
void multinomial(Context& c) {
  const Value p = c.operand("self", f32);
  need_rank(c, p.rank(), 1);
  const Dims dims = p.dims();
  const int64_t count = c.integer("num_samples"), last = static_cast<int64_t>(dims.size()) - 1;
  if (!c.flag("replacement", false) || count == 1) {
    const Value keys = binary(c, "div", p, exponential_numbers(c, dims));
    const auto best = c.graph.make_all(
        "topk", std::vector{keys}, std::vector{attr("k", count), attr("axis", last), attr("largest", true)});
    return c.give(best[1]);
  }
  const Value sums = c.make("cumsum", {p}, attr("axis", last));
  const Value total = slice_dim(c, sums, dims.size() - 1, dims.back() - 1, 1);
  const Value at = binary(c, "mul", uniform(c), total);
  Dims of_samples = c.result().dims, of_sums = dims;
  of_samples.push_back(1);
  of_sums.insert(of_sums.end() - 1, 1);
  const Value before = binary(c, "le", reshape_to(c, sums, of_sums), reshape_to(c, at, of_samples));
  c.give(clamped(c, sum_of_last(c, cast_to(c, before, i64)), 0, dims.back() - 1));
}

/// Whether dropout leaves elements out.
bool drops(Context& c) {
  const bool some = c.number("p") != 0;
  return c.flag("train", true) && some;
}
/// Which elements stay, and these elements scaled.
std::pair<Value, Value> dropped(Context& c, bool channels = false) {
  const Value x = c.tensor("input");
  const double p = c.number("p");
  Dims dims = x.dims();
  if (channels) std::fill(dims.begin() + std::min<std::ptrdiff_t>(2, std::ssize(dims)), dims.end(), 1);
  const Value kept = binary(c, "lt", drawn(c, "random_uniform", dims), 1 - p);
  const DType wide = accumulated(x.dtype());
  const Value scaled = binary(c, "mul", cast_to(c, x, wide), p == 1 ? 0.0 : 1 / (1 - p));
  return {kept, cast_to(c, binary(c, "mul", scaled, cast_to(c, kept, wide)), x.dtype())};
}
void native_dropout(Context& c) {
  const Value x = c.tensor("input");
  const auto [kept, y] = drops(c) ? dropped(c) : std::pair(full(c, {boolean, x.dims()}, 1), x);
  c.give(0, y);
  c.give(1, kept);
}
void dropout(Context& c) { c.give(drops(c) ? dropped(c).second : c.tensor("input")); }

/// Of whole channels.
void feature_dropout(Context& c) { c.give(drops(c) ? dropped(c, true).second : c.tensor("input")); }
void alpha_dropout(Context& c) {
  if (drops(c)) c.unsupported("alpha dropout in training; export the model after eval()");
  c.give(c.tensor("input"));
}

constexpr OpEntry random_entries[] = {
    {"aten.native_dropout.default", "input p train", native_dropout},
    {"aten.native_dropout_backward.default", "grad_output mask scale", native_dropout_backward},
    {"aten.dropout.default", "input p train", dropout},
    {"aten.feature_dropout.default", "input p train", feature_dropout},
    {"aten.alpha_dropout.default", "input p train", alpha_dropout},
    {"aten.feature_alpha_dropout.default", "input p train", alpha_dropout},

    {"rngprims.philox_rand.default", "~size seed offset stride ~device ~dtype", philox_rand},
    {"prims.inductor_lookup_seed.default", "seeds index", lookup_seed},
    {"prims.inductor_random.default", "~size seed mode ~align_dtype", inductor_random},
    {"prims.inductor_randint.default", "low high ~size seed", random_integers},
    {"ferrite.random_uniform.default", "seed ~size", random_uniform},
    {"ferrite.random_normal.default", "seed ~size", random_normal},
    {"ferrite.random_integers.default", "seed low high ~size", random_integers},

    {"aten.rand.default", "~size ~dtype ~layout ~device ~pin_memory", rand},
    {"aten.rand.generator", "~size ~generator ~dtype ~layout ~device ~pin_memory", rand},
    {"aten.rand_like.default", "~self ~dtype ~layout ~device ~pin_memory ~memory_format", rand},
    {"aten.rand_like.generator", "~self ~generator ~dtype ~layout ~device ~pin_memory ~memory_format", rand},
    {"aten.randn.default", "~size ~dtype ~layout ~device ~pin_memory", normal},
    {"aten.randn.generator", "~size ~generator ~dtype ~layout ~device ~pin_memory", normal},
    {"aten.randn_like.default", "~self ~dtype ~layout ~device ~pin_memory ~memory_format", normal},
    {"aten.randn_like.generator", "~self ~generator ~dtype ~layout ~device ~pin_memory ~memory_format",
     normal},
    {"aten.randint.default", "high ~size ~dtype ~layout ~device ~pin_memory", randint},
    {"aten.randint.generator", "high ~size ~generator ~dtype ~layout ~device ~pin_memory", randint},
    {"aten.randint.low", "low high ~size ~dtype ~layout ~device ~pin_memory", randint},
    {"aten.randint.low_generator", "low high ~size ~generator ~dtype ~layout ~device ~pin_memory", randint},
    {"aten.randint_like.default", "~self high ~dtype ~layout ~device ~pin_memory ~memory_format", randint},
    {"aten.randint_like.generator", "~self high ~generator ~dtype ~layout ~device ~pin_memory ~memory_format",
     randint},
    {"aten.randint_like.Tensor", "~self high ~dtype ~layout ~device ~pin_memory ~memory_format", randint},
    {"aten.randint_like.Tensor_generator",
     "~self high ~generator ~dtype ~layout ~device ~pin_memory ~memory_format", randint},
    {"aten.randint_like.low_dtype", "~self low high ~dtype ~layout ~device ~pin_memory ~memory_format",
     randint},
    {"aten.randint_like.low_generator_dtype",
     "~self low high ~generator ~dtype ~layout ~device ~pin_memory ~memory_format", randint},
    {"aten.randperm.default", "~n ~dtype ~layout ~device ~pin_memory", permutation},
    {"aten.randperm.generator", "~n ~generator ~dtype ~layout ~device ~pin_memory", permutation},
    {"aten.bernoulli.default", "self ~generator", bernoulli},
    {"aten.bernoulli.p", "~self p ~generator", bernoulli},
    {"aten.bernoulli.Tensor", "~self p ~generator", bernoulli},
    {"aten.multinomial.default", "self num_samples replacement ~generator", multinomial},
    {"aten.normal.Tensor_Tensor", "mean std ~generator", normal},
    {"aten.normal.Tensor_float", "mean std ~generator", normal},
    {"aten.normal.float_Tensor", "mean std ~generator", normal},
    {"aten.normal.float_float", "mean std ~size ~generator ~dtype ~layout ~device ~pin_memory", normal},
    {"aten.normal_functional.default", "~self mean std ~generator", normal},
    {"aten.log_normal.default", "~self mean std ~generator", log_normal},
    {"aten.uniform.default", "~self from to ~generator", uniform_between},
    {"aten.exponential.default", "~self lambd ~generator", exponential},
    {"aten.geometric.default", "~self p ~generator", geometric},
    {"aten.cauchy.default", "~self median sigma ~generator", cauchy},
    {"aten.poisson.default", "~self ~generator", drawn_elsewhere},
    {"prims.normal.default", "~shape mean std ~dtype ~device ~requires_grad ~generator", normal},
    {"prims.uniform.default", "~shape low high ~dtype ~device ~stride ~generator", uniform_between},
    {"prims.inductor_seed.default", "~device", drawn_elsewhere},
    {"prims.inductor_seeds.default", "~count ~device", drawn_elsewhere},
};

}  // namespace

std::span<const OpEntry> random_ops() { return random_entries; }

}  // namespace ferrite::from_torch
