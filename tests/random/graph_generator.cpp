// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "generator.h"

namespace ferrite::random_graphs {

GeneratedGraph Generator::run() {
  if (random_.chance(0.1)) empty_ = 0.15;
  const int64_t first = random_.integer(1, 3);
  for (int64_t k = 0; k < first; ++k) fresh(random_dtype(), random_dims(), -1);
  auto wanted = random_.integer(3, 25);
  if (random_.chance(0.05)) {
    // Large enough that its reductions are divided among workers.
    static const std::vector<Dims> large = {{150001},   {3, 50021},   {4096, 40}, {2, 70000},
                                            {40961, 4}, {600, 8, 32}, {1, 163840}};
    most_ = int64_t{1} << 18;
    wanted = random_.integer(3, 8);
    fresh(random_dtype(), random_.pick(large), -1);
    // Along rows and then over them, as in the gradients of a normalisation.
    if (random_.chance(0.5)) {
      fresh(f32, {4096, 40}, -1);
      softmax();
      normalise();
      reduce();
      reduce();
    } else if (random_.chance(0.5)) {
      along_and_over_rows();
    }
  }
  for (int attempt = 0; w_.node_count() < wanted && attempt < 400; ++attempt) step();
  if (random_.chance(0.15)) mutations();
  return w_.finish(outputs());
}

DType Generator::random_dtype() {
  const int64_t k = random_.integer(0, 19);
  constexpr DType rare[] = {f64, i32, i64, i8, u8, boolean, bf16, bf16, f16};
  return k < 11 ? f32 : rare[k - 11];
}

int64_t Generator::random_dim() {
  static const std::vector<int64_t> sizes = {1, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 64};
  return random_.chance(empty_) ? 0 : random_.pick(sizes);
}

Dims Generator::random_dims(size_t low, size_t high) {
  Dims dims(static_cast<size_t>(random_.integer(static_cast<int64_t>(low), static_cast<int64_t>(high))));
  for (auto& dim : dims) dim = random_dim();
  while (Tensor{"", f32, dims, 1, 0, 0, false, 0}.elements() > most_elements / 2)
    dims[random_.bits() % dims.size()] = 2;
  return dims;
}

size_t Generator::fresh(DType dtype, Dims dims, int exact) {
  const bool special = is_float(dtype) && random_.chance(0.12);
  if (is_float(dtype)) {
    const bool quantised = exact == 1 || (exact == -1 && random_.chance(0.4));
    return w_.input(dtype, std::move(dims), quantised ? Contents::quantised : Contents::real,
                    static_cast<double>(random_.integer(1, 4)), special);
  }
  const bool extreme = exact != 1 && random_.chance(0.3);
  return w_.input(dtype, std::move(dims), extreme ? Contents::extreme : Contents::whole, 9, false);
}

std::optional<size_t> Generator::choose_float(size_t low_rank) {
  return choose([&](const Tensor& t) { return is_float(t.dtype) && t.rank() >= low_rank; });
}

void Generator::emit(Tensor t, const std::string& call) {
  if (t.elements() > most_) return;
  if (is_float(t.dtype)) {
    // Exact while its multiples of the quantum fit the significand.
    const double limit = std::ldexp(1.0, find_dtype(t.dtype)->mantissa);
    if (t.quantum > 0 && t.magnitude / t.quantum > limit)
      t.quantum = 0, t.error += epsilon_of(t.dtype) * t.magnitude;
    if (t.quantum > 0) t.error = 0;
    const double worst = t.dtype == bf16 ? 0.5 : 0.05;
    const double most = is_f8(t.dtype) ? f8_largest(t.dtype) / 2 : 1e4;
    if (t.magnitude > most || t.error > worst * std::max(1.0, t.magnitude)) return;
  } else {
    t.error = 0, t.quantum = 0;
    t.special = false;
    t.magnitude = std::min(t.magnitude, most_integer(t.dtype));
    if (t.magnitude >= most_integer(t.dtype)) t.magnitude = most_integer(t.dtype);
  }
  w_.node(std::move(t), call);
}

Tensor Generator::computed(const Tensor& t, double magnitude, double error) {
  Tensor r = t;
  r.magnitude = magnitude;
  r.quantum = 0;
  r.error = error + 2 * epsilon_of(t.dtype) * magnitude;
  return r;
}

void Generator::step() {
  struct Choice {
    int weight;
    Step step;
  };
  static constexpr Choice choices[] = {
      {14, &Generator::binary},
      {10, &Generator::unary},
      {4, &Generator::exact_unary},
      {3, &Generator::exponential},
      {3, &Generator::guarded},
      {5, &Generator::compare},
      {2, &Generator::logic},
      {4, &Generator::where},
      {5, &Generator::cast},
      {1, &Generator::predicates},
      {9, &Generator::reduce},
      {2, &Generator::long_rows},
      {1, &Generator::along_and_over_rows},
      {3, &Generator::argmax},
      {1, &Generator::byte_sums},
      {3, &Generator::cumsum},
      {4, &Generator::softmax},
      {4, &Generator::normalise},
      {2, &Generator::attention},
      {12, &Generator::view},
      {4, &Generator::concat},
      {4, &Generator::pad},
      {2, &Generator::split},
      {2, &Generator::arrange},
      {1, &Generator::counting},
      {1, &Generator::draw},
      {5, &Generator::gather},
      {3, &Generator::scatter},
      {7, &Generator::matmul},
      {1, &Generator::few_rows},
      {5, &Generator::convolution},
      {2, &Generator::transposed_convolution},
      {4, &Generator::pool},
      {2, &Generator::sort},
  };
  int total = 0;
  for (const auto& choice : choices) total += choice.weight;
  auto left = random_.integer(0, total - 1);
  for (const auto& choice : choices) {
    left -= choice.weight;
    if (left < 0) return (this->*choice.step)();
  }
}

void Generator::mutations() {
  for (size_t input = 0; input < w_.inputs().size(); ++input) {
    const auto& of = w_.inputs()[input];
    const auto value = choose(
        [&](const Tensor& t) { return t.dtype == of.dtype && t.dims == of.dims && t.name != of.name; });
    if (value && random_.chance(0.8)) w_.mutate(input, *value);
  }
}

std::vector<size_t> Generator::outputs() {
  std::vector<size_t> chosen;
  for (size_t k = 0; k < w_.values.size(); ++k) {
    const auto& t = w_.values[k];
    if (t.name[0] == 'v' ? t.uses == 0 || random_.chance(0.1) : t.name[0] == 'x' && random_.chance(0.02))
      chosen.push_back(k);
  }
  if (chosen.empty()) chosen.push_back(0);
  if (random_.chance(0.05)) chosen.push_back(chosen[0]);
  return chosen;
}

GeneratedGraph generate(uint64_t seed) { return Generator(seed).run(); }

}  // namespace ferrite::random_graphs
