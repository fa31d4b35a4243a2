// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ops over elements, with and without broadcasting.
#include "generator.h"

namespace ferrite::random_graphs {

void Generator::unary() {
  auto k = choose_float();
  if (!k) return;
  struct Function {
    const char* name;
    double slope;      ///< bound of the derivative
    double magnitude;  ///< bound of the result, 0: that of x
  };
  static const std::vector<Function> functions = {
      {"tanh", 1, 1},     {"sigmoid", 1, 1},    {"erf", 1.2, 1},       {"sin", 1, 1},       {"cos", 1, 1},
      {"atan", 1, 1.6},   {"gelu", 1.2, 0},     {"silu", 1.2, 0},      {"hardswish", 2, 0}, {"relu", 1, 0},
      {"softsign", 1, 1}, {"leaky_relu", 1, 0}, {"hardsigmoid", 1, 1}, {"asinh", 1, 0},     {"elu", 1, 0},
      {"mish", 1.2, 0},   {"selu", 1.8, 0},     {"celu", 1, 0}};
  auto f = random_.pick(functions);
  const auto t = w_.values[*k];
  if (t.magnitude > 50) return;
  const double magnitude = f.magnitude > 0 ? f.magnitude : 1.8 * t.magnitude + 1;
  emit(computed(t, magnitude, f.slope * t.error), fmt::format("{}({})", f.name, w_.use(*k)));
}

void Generator::exact_unary() {
  auto k = choose([](const Tensor& t) { return t.dtype != boolean; });
  if (!k) return;
  static const std::vector<std::string> any = {"neg", "abs"},
                                        steps = {"floor", "ceil", "round", "trunc", "sign"};
  auto t = w_.values[*k];
  const bool stepped = is_float(t.dtype) && is_exact(t) && random_.chance(0.6);
  auto name = stepped ? random_.pick(steps) : random_.pick(any);
  if (stepped) t.quantum = 1, t.magnitude += 1;
  // The negative of the least integer is itself.
  emit(t, fmt::format("{}({})", name, w_.use(*k)));
}

void Generator::exponential() {
  auto k = choose([](const Tensor& t) { return is_float(t.dtype) && t.magnitude <= 6; });
  if (!k) return;
  static const std::vector<std::string> names = {"exp", "expm1", "sinh", "cosh", "exp2"};
  const auto t = w_.values[*k];
  const double magnitude = std::exp(t.magnitude) + 1;
  emit(computed(t, magnitude, t.error * magnitude), fmt::format("{}({})", random_.pick(names), w_.use(*k)));
}

void Generator::guarded() {
  auto k = choose_float();
  if (!k || w_.values[*k].magnitude > 100) return;
  static const std::vector<std::string> names = {"log", "log2", "log1p", "sqrt", "rsqrt", "reciprocal"};
  const auto t = w_.values[*k];
  Tensor absolute = t;
  auto a = w_.node(absolute, fmt::format("abs({})", w_.use(*k)));
  absolute.quantum = 0;
  auto b = w_.node(computed(absolute, t.magnitude + 1, t.error),
                   fmt::format("add({}, {})", w_.use(a), w_.scalar(t.dtype, 1)));
  emit(computed(w_.values[b], t.magnitude + 1, 1.5 * w_.values[b].error),
       fmt::format("{}({})", random_.pick(names), w_.use(b)));
}

std::optional<Dims> Generator::broadcast(const Dims& a, const Dims& b) {
  Dims result(std::max(a.size(), b.size()), 1);
  for (size_t d = 0; d < result.size(); ++d) {
    auto at = [&](const Dims& dims) { return d < dims.size() ? dims[dims.size() - 1 - d] : 1; };
    const int64_t x = at(a), y = at(b);
    if (x != y && x != 1 && y != 1) return std::nullopt;
    result[result.size() - 1 - d] = x == 1 ? y : x;
  }
  return result;
}

size_t Generator::partner(size_t k, int exact) {
  const auto t = w_.values[k];
  if (random_.chance(0.55)) {
    auto other = choose([&](const Tensor& o) {
      if (o.dtype != t.dtype || (exact == 1 && !is_exact(o))) return false;
      auto dims = broadcast(t.dims, o.dims);
      return dims && Tensor{"", f32, *dims, 1, 0, 0, false, 0}.elements() <= most_elements;
    });
    if (other) return *other;
  }
  Dims dims = t.dims;
  for (auto& dim : dims)
    if (random_.chance(0.25)) dim = 1;
  if (!dims.empty() && random_.chance(0.3))
    dims.erase(dims.begin(), dims.begin() + random_.integer(1, static_cast<int64_t>(dims.size())));
  if (is_float(t.dtype) && Tensor{"", f32, dims, 1, 0, 0, false, 0}.elements() <= 1024 &&
      random_.chance(0.35))
    return w_.constant(t.dtype, dims);
  return fresh(t.dtype, dims, exact);
}

void Generator::binary() {
  auto k = choose([](const Tensor& t) { return t.dtype != boolean; });
  if (!k) return;
  const auto other = partner(*k, -1);
  const auto a = w_.values[*k], b = w_.values[other];
  auto dims = broadcast(a.dims, b.dims);
  if (!dims) return;
  Tensor r = a;
  r.dims = *dims;
  r.special = a.special || b.special;
  r.quantum = a.quantum > 0 && b.quantum > 0 ? std::min(a.quantum, b.quantum) : 0;
  static const std::vector<std::string> floats = {"add", "sub", "mul", "minimum", "maximum", "add", "mul"},
                                        integers = {
                                            "add",         "sub",        "mul",         "minimum",
                                            "maximum",     "div",        "mod",         "remainder_trunc",
                                            "bitwise_and", "bitwise_or", "bitwise_xor", "shift_left",
                                            "shift_right"};
  const auto name = random_.pick(is_float(a.dtype) ? floats : integers);
  if (!is_float(a.dtype)) {
    // What wraps may have any value of the type.
    r.magnitude = name == "minimum" || name == "maximum" || name == "mod" || name == "remainder_trunc"
                      ? std::max(a.magnitude, b.magnitude)
                  : name == "add" || name == "sub" ? a.magnitude + b.magnitude
                  : name == "mul"                  ? a.magnitude * b.magnitude
                                                   : most_integer(a.dtype);
  } else if (name == "mul") {
    // Infinity times what is nearly zero is NaN or not, as that was rounded.
    if ((a.special && !is_exact(b)) || (b.special && !is_exact(a))) return;
    r.magnitude = a.magnitude * b.magnitude;
    r.error = a.error * b.magnitude + b.error * a.magnitude + epsilon_of(a.dtype) * r.magnitude;
    r.quantum = a.quantum * b.quantum;
  } else if (name == "add" || name == "sub") {
    r.magnitude = a.magnitude + b.magnitude;
    r.error = a.error + b.error + epsilon_of(a.dtype) * r.magnitude;
  } else {
    r.magnitude = std::max(a.magnitude, b.magnitude);
    r.error = std::max(a.error, b.error);
  }
  emit(r, fmt::format("{}({}, {})", name, w_.use(*k), w_.use(other)));
}

void Generator::compare() {
  auto k = choose([](const Tensor& t) { return is_exact(t); });
  if (!k) return;
  const auto other = partner(*k, 1);
  if (!is_exact(w_.values[other])) return;
  Tensor r;
  auto dims = broadcast(w_.values[*k].dims, w_.values[other].dims);
  if (!dims) return;
  r.dtype = boolean;
  r.dims = *dims;
  static const std::vector<std::string> names = {"eq", "ne", "lt", "le", "gt", "ge"};
  emit(r, fmt::format("{}({}, {})", random_.pick(names), w_.use(*k), w_.use(other)));
}

void Generator::logic() {
  auto k = choose([](const Tensor& t) { return t.dtype == boolean; });
  if (!k) return;
  if (random_.chance(0.3)) return emit(w_.values[*k], fmt::format("logical_not({})", w_.use(*k)));
  const auto other = partner(*k, 1);
  Tensor r = w_.values[*k];
  auto dims = broadcast(r.dims, w_.values[other].dims);
  if (!dims) return;
  r.dims = *dims;
  static const std::vector<std::string> names = {"logical_and", "logical_or", "logical_xor"};
  emit(r, fmt::format("{}({}, {})", random_.pick(names), w_.use(*k), w_.use(other)));
}

void Generator::where() {
  auto k = choose([](const Tensor& t) { return t.dtype == boolean; });
  if (!k) return;
  auto a = choose([&](const Tensor& t) {
    auto dims = broadcast(t.dims, w_.values[*k].dims);
    return dims && Tensor{"", f32, *dims, 1, 0, 0, false, 0}.elements() <= most_elements;
  });
  if (!a) return;
  const auto b = partner(*a, -1);
  auto first = broadcast(w_.values[*a].dims, w_.values[b].dims);
  auto dims = first ? broadcast(*first, w_.values[*k].dims) : std::nullopt;
  if (!dims) return;
  Tensor r = joined(w_.values[*a], w_.values[b]);
  r.dims = *dims;
  emit(r, fmt::format("where({}, {}, {})", w_.use(*k), w_.use(*a), w_.use(b)));
}

Tensor Generator::joined(const Tensor& a, const Tensor& b) {
  Tensor r = a;
  r.magnitude = std::max(a.magnitude, b.magnitude);
  r.error = std::max(a.error, b.error);
  r.quantum = a.quantum > 0 && b.quantum > 0 ? std::min(a.quantum, b.quantum) : 0;
  r.special = a.special || b.special;
  return r;
}

void Generator::cast() {
  auto k = choose([](const Tensor&) { return true; });
  if (!k) return;
  Tensor r = w_.values[*k];
  const DType to = random_dtype();
  if (to == r.dtype) return;
  const bool from_float = is_float(r.dtype);
  if (from_float && !is_float(to) &&
      (!is_exact(r) || r.special || r.magnitude >= most_integer(to) || (!is_signed(to) && to != boolean)))
    return;
  if (is_float(to)) {
    if (!from_float) r.quantum = 1;
    if (r.magnitude > 1e4) return;
    r.error += epsilon_of(to) * r.magnitude;
  } else if (!from_float && r.magnitude > most_integer(to)) {
    r.magnitude = most_integer(to);
  } else if (!is_signed(to)) {
    r.magnitude = most_integer(to);
  }
  if (to == boolean) r.magnitude = 1;
  r.dtype = to;
  emit(r, fmt::format("cast({}) {{dtype = {}}}", w_.use(*k), name_of(to)));
}

void Generator::predicates() {
  auto k = choose_float();
  if (!k) return;
  Tensor r;
  r.dtype = boolean;
  r.dims = w_.values[*k].dims;
  emit(r, fmt::format("{}({})", random_.chance(0.5) ? "isnan" : "isinf", w_.use(*k)));
}

}  // namespace ferrite::random_graphs
