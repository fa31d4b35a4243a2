// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Over 600 lines because it is one table: a generator for each family of operators.
#include "graph_generator.h"

#include <optional>

#include "graph_writer.h"

namespace ferrite::random_graphs {
namespace {

class Generator {
 public:
  explicit Generator(uint64_t seed) : w_(seed), random_(w_.random) {}

  GeneratedGraph run() {
    if (random_.chance(0.1)) empty_ = 0.15;
    const int64_t first = random_.integer(1, 3);
    for (int64_t k = 0; k < first; ++k) fresh(random_dtype(), random_dims(), -1);
    const auto wanted = random_.integer(3, 25);
    for (int attempt = 0; w_.node_count() < wanted && attempt < 400; ++attempt) step();
    return w_.finish(outputs());
  }

 private:
  using Step = void (Generator::*)();

  // ---- choices

  DType random_dtype() {
    const int64_t k = random_.integer(0, 19);
    constexpr DType rare[] = {f64, i32, i64, i8, u8, boolean, bf16, bf16, f16};
    return k < 11 ? f32 : rare[k - 11];
  }
  int64_t random_dim() {
    static const std::vector<int64_t> sizes = {1, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 64};
    return random_.chance(empty_) ? 0 : random_.pick(sizes);
  }
  Dims random_dims(size_t low = 0, size_t high = 4) {
    Dims dims(static_cast<size_t>(random_.integer(static_cast<int64_t>(low), static_cast<int64_t>(high))));
    for (auto& dim : dims) dim = random_dim();
    while (Tensor{"", f32, dims, 1, 0, 0, false, 0}.elements() > most_elements / 2)
      dims[random_.bits() % dims.size()] = 2;
    return dims;
  }
  /// A new input; exact: 1 yes, 0 no, -1 either.
  size_t fresh(DType dtype, Dims dims, int exact) {
    const bool special = is_float(dtype) && random_.chance(0.12);
    if (is_float(dtype)) {
      const bool quantised = exact == 1 || (exact == -1 && random_.chance(0.4));
      return w_.input(dtype, std::move(dims), quantised ? Contents::quantised : Contents::real,
                      static_cast<double>(random_.integer(1, 4)), special);
    }
    const bool extreme = exact != 1 && random_.chance(0.3);
    return w_.input(dtype, std::move(dims), extreme ? Contents::extreme : Contents::whole, 9, false);
  }
  template <class Accept>
  std::optional<size_t> choose(Accept&& accept) {
    std::vector<size_t> fitting;
    for (size_t k = 0; k < w_.values.size(); ++k)
      if (accept(w_.values[k])) {
        fitting.push_back(k);
        // Values that nothing reads yet are taken more often, so that graphs grow deep.
        if (w_.values[k].uses == 0) fitting.insert(fitting.end(), 3, k);
      }
    if (fitting.empty()) return std::nullopt;
    return random_.pick(fitting);
  }
  std::optional<size_t> choose_float(size_t low_rank = 0) {
    return choose([&](const Tensor& t) { return is_float(t.dtype) && t.rank() >= low_rank; });
  }
  static bool is_exact(const Tensor& t) { return !is_float(t.dtype) || t.quantum > 0; }

  /// Adds a float result unless its bounds say that it would be meaningless, or bounds of an integer or bool.
  void emit(Tensor t, const std::string& call) {
    if (t.elements() > most_elements) return;
    if (is_float(t.dtype)) {
      // Exact while its multiples of the quantum fit the significand.
      const double limit = std::ldexp(1.0, t.dtype == f64   ? 52
                                           : t.dtype == f32 ? 23
                                           : t.dtype == f16 ? 10
                                                            : 7);
      if (t.quantum > 0 && t.magnitude / t.quantum > limit)
        t.quantum = 0, t.error += epsilon_of(t.dtype) * t.magnitude;
      if (t.quantum > 0) t.error = 0;
      const double worst = t.dtype == bf16 ? 0.5 : 0.05;
      if (t.magnitude > 1e4 || t.error > worst * std::max(1.0, t.magnitude)) return;
    } else {
      t.error = 0, t.quantum = 0;
      t.special = false;
      t.magnitude = std::min(t.magnitude, most_integer(t.dtype));
      if (t.magnitude >= most_integer(t.dtype)) t.magnitude = most_integer(t.dtype);
    }
    w_.node(std::move(t), call);
  }
  /// `t` with new bounds for a float result that is computed, and rounded once.
  static Tensor computed(const Tensor& t, double magnitude, double error) {
    Tensor r = t;
    r.magnitude = magnitude;
    r.quantum = 0;
    r.error = error + 2 * epsilon_of(t.dtype) * magnitude;
    return r;
  }

  // ---- pointwise

  void unary() {
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
  void exact_unary() {
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
  void exponential() {
    auto k = choose([](const Tensor& t) { return is_float(t.dtype) && t.magnitude <= 6; });
    if (!k) return;
    static const std::vector<std::string> names = {"exp", "expm1", "sinh", "cosh", "exp2"};
    const auto t = w_.values[*k];
    const double magnitude = std::exp(t.magnitude) + 1;
    emit(computed(t, magnitude, t.error * magnitude), fmt::format("{}({})", random_.pick(names), w_.use(*k)));
  }
  /// Functions with a pole, of |x| + 1.
  void guarded() {
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
  static std::optional<Dims> broadcast(const Dims& a, const Dims& b) {
    Dims result(std::max(a.size(), b.size()), 1);
    for (size_t d = 0; d < result.size(); ++d) {
      auto at = [&](const Dims& dims) { return d < dims.size() ? dims[dims.size() - 1 - d] : 1; };
      const int64_t x = at(a), y = at(b);
      if (x != y && x != 1 && y != 1) return std::nullopt;
      result[result.size() - 1 - d] = x == 1 ? y : x;
    }
    return result;
  }
  /// A second operand that broadcasts with value k: one that is there, a new input or a constant.
  size_t partner(size_t k, int exact) {
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
  void binary() {
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
  void compare() {
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
  void logic() {
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
  void where() {
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
  /// Bounds of what may be an element of either.
  static Tensor joined(const Tensor& a, const Tensor& b) {
    Tensor r = a;
    r.magnitude = std::max(a.magnitude, b.magnitude);
    r.error = std::max(a.error, b.error);
    r.quantum = a.quantum > 0 && b.quantum > 0 ? std::min(a.quantum, b.quantum) : 0;
    r.special = a.special || b.special;
    return r;
  }
  void cast() {
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
  void predicates() {
    auto k = choose_float();
    if (!k) return;
    Tensor r;
    r.dtype = boolean;
    r.dims = w_.values[*k].dims;
    emit(r, fmt::format("{}({})", random_.chance(0.5) ? "isnan" : "isinf", w_.use(*k)));
  }

  // ---- reductions

  void reduce() {
    auto k = choose([](const Tensor& t) { return t.rank() >= 1; });
    if (!k) return;
    Tensor r = w_.values[*k];
    std::vector<int64_t> axes;
    for (size_t d = 0; d < r.rank(); ++d)
      if (random_.chance(0.5))
        axes.push_back(static_cast<int64_t>(d) - (random_.chance(0.3) ? static_cast<int64_t>(r.rank()) : 0));
    if (axes.empty()) axes.push_back(static_cast<int64_t>(r.rank()) - 1);
    std::vector<bool> reduced(r.rank());
    double count = 1;
    for (int64_t axis : axes) {
      auto d = static_cast<size_t>(axis < 0 ? axis + static_cast<int64_t>(r.rank()) : axis);
      reduced[d] = true;
      count *= static_cast<double>(r.dims[d]);
    }
    static const std::vector<std::string> bools = {"reduce_any", "reduce_all"},
                                          integers = {"reduce_sum", "reduce_max", "reduce_min"},
                                          floats = {"reduce_sum",  "reduce_max",        "reduce_min",
                                                    "reduce_mean", "reduce_sum",        "reduce_sum_square",
                                                    "reduce_l1",   "reduce_log_sum_exp"};
    const auto name = random_.pick(r.dtype == boolean ? bools : is_float(r.dtype) ? floats : integers);
    const bool keep = random_.chance(0.5);
    Dims dims;
    for (size_t d = 0; d < r.rank(); ++d)
      if (!reduced[d] || keep) dims.push_back(reduced[d] ? 1 : r.dims[d]);
    const double wide = epsilon_of(compute_type(r.dtype)), magnitude = r.magnitude;
    if (name == "reduce_sum" || name == "reduce_l1") {
      r.magnitude = std::max(1.0, count) * magnitude;
      r.error = count * r.error + count * wide * r.magnitude / 4 + epsilon_of(r.dtype) * r.magnitude;
      // Sums of small floats are exact in f32, and rounded once.
    } else if (name == "reduce_sum_square") {
      r.error = 2 * count * r.error * magnitude;
      r.magnitude = std::max(1.0, count) * magnitude * magnitude;
      r.error += count * wide * r.magnitude / 4 + epsilon_of(r.dtype) * r.magnitude;
      r.quantum = r.quantum * r.quantum;
    } else if (name == "reduce_mean") {
      r = computed(r, magnitude, r.error + count * wide * magnitude);
      r.special = r.special || count == 0;
    } else if (name == "reduce_log_sum_exp") {
      r = computed(r, magnitude + std::log(std::max(1.0, count)) + 1, 2 * r.error + count * wide);
      r.special = r.special || count == 0;
    } else if (is_float(r.dtype) && count == 0) {
      r.special = true;
    } else if (count == 0 && r.dtype != boolean) {
      r.magnitude = most_integer(r.dtype);
    }
    if (!is_float(r.dtype) && r.dtype != boolean && name == "reduce_sum" &&
        r.magnitude > most_integer(r.dtype))
      r.magnitude = most_integer(r.dtype);
    r.dims = dims;
    emit(r,
         fmt::format("{}({}) {{axes = [{}], keepdims = {}}}", name, w_.use(*k), fmt::join(axes, ", "), keep));
  }
  void argmax() {
    auto k = choose([](const Tensor& t) { return t.rank() >= 1 && is_exact(t) && t.dtype != boolean; });
    if (!k) return;
    Tensor r = w_.values[*k];
    const auto axis = random_.integer(0, static_cast<int64_t>(r.rank()) - 1);
    auto& dim = r.dims[static_cast<size_t>(axis)];
    if (dim == 0) return;
    const bool keep = random_.chance(0.5), last = random_.chance(0.3);
    r.magnitude = static_cast<double>(dim);
    r.dtype = i64;
    dim = 1;
    if (!keep) r.dims.erase(r.dims.begin() + axis);
    emit(r, fmt::format("{}({}) {{axis = {}, keepdims = {}, select_last = {}}}",
                        random_.chance(0.5) ? "argmax" : "argmin", w_.use(*k), axis, keep, last));
  }
  void cumsum() {
    auto k = choose([](const Tensor& t) { return t.rank() >= 1 && t.dtype != boolean && t.magnitude < 100; });
    if (!k) return;
    Tensor r = w_.values[*k];
    const auto axis = random_.integer(0, static_cast<int64_t>(r.rank()) - 1);
    const auto count = std::max(1.0, static_cast<double>(r.dims[static_cast<size_t>(axis)]));
    r.magnitude *= count;
    r.error = count * r.error + count * epsilon_of(compute_type(r.dtype)) * r.magnitude +
              epsilon_of(r.dtype) * r.magnitude;
    emit(r, fmt::format("cumsum({}) {{axis = {}, exclusive = {}, reverse = {}}}", w_.use(*k), axis,
                        random_.chance(0.3), random_.chance(0.3)));
  }
  void softmax() {
    auto k = choose([](const Tensor& t) { return is_float(t.dtype) && t.rank() >= 1 && t.error < 0.05; });
    if (!k) return;
    const auto t = w_.values[*k];
    const auto axis = random_.integer(-1, static_cast<int64_t>(t.rank()) - 1);
    const auto dim = static_cast<double>(axis < 0 ? t.dims.back() : t.dims[static_cast<size_t>(axis)]);
    const double error =
        2 * t.error + epsilon_of(t.dtype) * t.magnitude + dim * epsilon_of(compute_type(t.dtype));
    if (random_.chance(0.4)) {
      const auto span = 2 * t.magnitude + std::log(dim + 1) + 1;
      return emit(computed(t, span, 2 * error),
                  fmt::format("log_softmax({}) {{axis = {}}}", w_.use(*k), axis));
    }
    if (random_.chance(0.5))
      return emit(computed(t, 1, error), fmt::format("softmax({}) {{axis = {}}}", w_.use(*k), axis));
    // Written out.
    Tensor row = t;
    row.dims[static_cast<size_t>(axis < 0 ? static_cast<int64_t>(t.rank()) - 1 : axis)] = 1;
    if (dim == 0 || t.magnitude > 40) return;
    const auto axes = fmt::format("{{axes = [{}], keepdims = true}}", axis);
    auto top = w_.node(row, fmt::format("reduce_max({}) {}", w_.use(*k), axes));
    auto shifted = w_.node(computed(t, 2 * t.magnitude, 2 * t.error),
                           fmt::format("sub({}, {})", w_.use(*k), w_.use(top)));
    auto powers = w_.node(computed(t, 1, w_.values[shifted].error), fmt::format("exp({})", w_.use(shifted)));
    auto sum = w_.node(computed(row, dim, dim * w_.values[powers].error),
                       fmt::format("reduce_sum({}) {}", w_.use(powers), axes));
    emit(computed(t, 1, 4 * w_.values[powers].error + error),
         fmt::format("div({}, {})", w_.use(powers), w_.use(sum)));
  }
  void normalise() {
    auto k = choose([](const Tensor& t) {
      return is_float(t.dtype) && t.rank() >= 1 && t.magnitude < 20 && t.error < 0.05;
    });
    if (!k) return;
    const auto t = w_.values[*k];
    const auto dim = static_cast<double>(t.dims.back());
    const double wide = epsilon_of(compute_type(t.dtype));
    // epsilon 0.25 bounds the scale by 2.
    const double error = 8 * (1 + t.magnitude) * (t.error + (dim + 4) * wide * (1 + t.magnitude));
    auto call = [&](const std::string& name, const std::string& scale) {
      return fmt::format("{}({}{}) {{axis = -1, epsilon = 0.25}}", name, w_.use(*k), scale);
    };
    const double magnitude = 4 * t.magnitude + 1;
    if (random_.chance(0.3)) return emit(computed(t, magnitude, error), call("rms_norm", ""));
    if (random_.chance(0.4)) {
      const auto scale = w_.constant(t.dtype, {t.dims.back()}), bias = w_.constant(t.dtype, {t.dims.back()});
      auto operands = fmt::format(", {}, {}", w_.use(scale), w_.use(bias));
      return emit(computed(t, 2 * magnitude + 2, 2 * error), call("layer_norm", operands));
    }
    if (random_.chance(0.4) || dim == 0) return emit(computed(t, magnitude, error), call("layer_norm", ""));
    Tensor row = t;
    row.dims.back() = 1;
    const std::string axes = "{axes = [-1], keepdims = true}";
    const double narrow = 32 * (1 + t.magnitude) * epsilon_of(t.dtype) * (1 + t.magnitude);
    auto mean =
        w_.node(computed(row, t.magnitude, t.error), fmt::format("reduce_mean({}) {}", w_.use(*k), axes));
    auto centred = w_.node(computed(t, 2 * t.magnitude, 2 * t.error),
                           fmt::format("sub({}, {})", w_.use(*k), w_.use(mean)));
    auto squares = w_.node(computed(t, 4 * t.magnitude * t.magnitude, error + narrow),
                           fmt::format("mul({}, {})", w_.use(centred), w_.use(centred)));
    auto variance = w_.node(computed(row, 4 * t.magnitude * t.magnitude, error + narrow),
                            fmt::format("reduce_mean({}) {}", w_.use(squares), axes));
    auto shifted = w_.node(computed(row, 4 * t.magnitude * t.magnitude + 1, error + narrow),
                           fmt::format("add({}, {})", w_.use(variance), w_.scalar(t.dtype, 0.25)));
    auto root =
        w_.node(computed(row, 2 * t.magnitude + 1, error + narrow), fmt::format("sqrt({})", w_.use(shifted)));
    emit(computed(t, magnitude, 4 * (error + narrow) * (1 + t.magnitude)),
         fmt::format("div({}, {})", w_.use(centred), w_.use(root)));
  }

  // ---- views and moves

  void view() {
    auto k = choose([](const Tensor&) { return true; });
    if (!k) return;
    Tensor r = w_.values[*k];
    switch (random_.integer(0, 3)) {
      case 0: return reshape(*k, r);
      case 1: {
        std::vector<int64_t> perm(r.rank());
        Dims dims;
        for (size_t d = 0; d < perm.size(); ++d) perm[d] = static_cast<int64_t>(d);
        for (size_t d = perm.size(); d-- > 1;) std::swap(perm[d], perm[random_.bits() % (d + 1)]);
        for (int64_t p : perm) dims.push_back(r.dims[static_cast<size_t>(p)]);
        r.dims = dims;
        return emit(r, fmt::format("transpose({}) {{perm = [{}]}}", w_.use(*k), fmt::join(perm, ", ")));
      }
      case 2: {
        for (auto& dim : r.dims)
          if (dim == 1 && random_.chance(0.6)) dim = random_dim();
        if (r.rank() < 4 && random_.chance(0.5)) r.dims.insert(r.dims.begin(), random_.integer(1, 4));
        return emit(r, fmt::format("expand({}) {{shape = [{}]}}", w_.use(*k), fmt::join(r.dims, ", ")));
      }
      default: return slice(*k, r);
    }
  }
  void reshape(size_t k, Tensor r) {
    int64_t rest = r.elements();
    Dims dims;
    if (rest == 0) {
      dims = {random_dim(), 0};
    } else {
      while (rest > 1 && dims.size() < 4) {
        std::vector<int64_t> divisors;
        for (int64_t d = 1; d <= std::min<int64_t>(rest, 64); ++d)
          if (rest % d == 0) divisors.push_back(d);
        dims.push_back(dims.size() == 3 ? rest : random_.pick(divisors));
        rest /= dims.back();
      }
    }
    r.dims = dims;
    if (rest > 1) r.dims.push_back(rest);
    emit(r, fmt::format("reshape({}) {{shape = [{}]}}", w_.use(k), fmt::join(r.dims, ", ")));
  }
  void slice(size_t k, Tensor r) {
    std::vector<int64_t> starts, sizes, strides;
    for (auto& dim : r.dims) {
      int64_t stride = random_.chance(0.4) ? 1 : random_.chance(0.5) ? -1 : random_.integer(-3, 3);
      int64_t start = dim == 0 ? 0 : random_.integer(0, dim - 1);
      int64_t most = dim == 0      ? 0
                     : stride > 0  ? (dim - 1 - start) / stride + 1
                     : stride == 0 ? 5
                                   : start / -stride + 1;
      if (stride != 0 && random_.chance(0.5)) {
        start = stride > 0 || dim == 0 ? 0 : dim - 1;
        most = dim == 0 ? 0 : (dim - 1) / std::abs(stride) + 1;
      }
      int64_t size = random_.chance(0.6) || most == 0 ? most : random_.integer(1, most);
      starts.push_back(start);
      sizes.push_back(size);
      strides.push_back(stride);
      dim = size;
    }
    emit(r, fmt::format("slice({}) {{starts = [{}], sizes = [{}], strides = [{}]}}", w_.use(k),
                        fmt::join(starts, ", "), fmt::join(sizes, ", "), fmt::join(strides, ", ")));
  }
  void concat() {
    auto k = choose([](const Tensor& t) { return t.rank() >= 1; });
    if (!k) return;
    Tensor r = w_.values[*k];
    const auto axis = static_cast<size_t>(random_.integer(0, static_cast<int64_t>(r.rank()) - 1));
    std::vector<std::string> operands = {w_.use(*k)};
    const auto more = random_.integer(1, 3);
    for (int64_t n = 0; n < more; ++n) {
      auto same = choose([&](const Tensor& t) {
        if (t.dtype != r.dtype || t.rank() != r.rank()) return false;
        for (size_t d = 0; d < t.rank(); ++d)
          if (d != axis && t.dims[d] != r.dims[d]) return false;
        return true;
      });
      size_t other = 0;
      if (same && random_.chance(0.7)) {
        other = *same;
      } else {
        Dims dims = r.dims;
        dims[axis] = random_dim();
        other = fresh(r.dtype, dims, -1);
      }
      const int64_t size = r.dims[axis] + w_.values[other].dims[axis];
      r = joined(r, w_.values[other]);
      r.dims[axis] = size;
      operands.push_back(w_.use(other));
    }
    emit(r, fmt::format("concat({}) {{axis = {}}}", fmt::join(operands, ", "), axis));
  }
  void pad() {
    auto k = choose([](const Tensor& t) { return t.rank() >= 1; });
    if (!k) return;
    Tensor r = w_.values[*k];
    static const std::vector<std::string> modes = {"constant", "constant", "constant",
                                                   "edge",     "reflect",  "wrap"};
    const auto mode = random_.pick(modes);
    if (mode != "constant" && r.elements() == 0) return;
    std::vector<int64_t> low, high;
    for (auto& dim : r.dims) {
      low.push_back(random_.integer(dim > 2 ? -1 : 0, 3));
      high.push_back(random_.integer(dim > 2 ? -1 : 0, 3));
      dim += low.back() + high.back();
    }
    std::string value;
    if (mode == "constant" && r.dtype != boolean && random_.chance(0.5)) {
      value = ", " + w_.scalar(r.dtype, 1);
      r.magnitude = std::max(r.magnitude, 1.0);
      if (r.quantum > 1) r.quantum = 1;
    }
    emit(r, fmt::format("pad({}{}) {{low = [{}], high = [{}], mode = \"{}\"}}", w_.use(*k), value,
                        fmt::join(low, ", "), fmt::join(high, ", "), mode));
  }
  void split() {
    auto k = choose([](const Tensor& t) { return t.rank() >= 1 && t.dims[0] >= 2; });
    if (!k) return;
    const auto t = w_.values[*k];
    const auto first = random_.integer(0, t.dims[0]);
    Tensor a = t, b = t;
    a.dims[0] = first;
    b.dims[0] = t.dims[0] - first;
    w_.nodes({a, b}, fmt::format("split({}) {{axis = 0, sizes = [{}, {}]}}", w_.use(*k), first, b.dims[0]));
  }
  void arrange() {
    auto k = choose([](const Tensor& t) { return t.rank() >= 2; });
    if (!k) return;
    Tensor r = w_.values[*k];
    if (random_.chance(0.5)) {
      auto diagonal = random_.integer(-3, 3);
      return emit(r,
                  fmt::format("trilu({}) {{upper = {}, k = {}}}", w_.use(*k), random_.chance(0.5), diagonal));
    }
    std::vector<int64_t> repeats;
    for (auto& dim : r.dims) {
      repeats.push_back(random_.integer(1, 2));
      dim *= repeats.back();
    }
    emit(r, fmt::format("tile({}) {{repeats = [{}]}}", w_.use(*k), fmt::join(repeats, ", ")));
  }
  void counting() {
    Tensor r;
    r.dims = random_dims(1, 3);
    r.dtype = random_.chance(0.5) ? f32 : i64;
    r.quantum = 1;
    const auto axis = random_.bits() % r.rank();
    r.magnitude = static_cast<double>(std::max<int64_t>(1, r.dims[axis]));
    emit(r, fmt::format("iota() {{dtype = {}, shape = [{}], axis = {}}}", name_of(r.dtype),
                        fmt::join(r.dims, ", "), axis));
  }

  // ---- indexing

  void gather() {
    auto k = choose([](const Tensor& t) { return t.rank() >= 1; });
    if (!k) return;
    Tensor r = w_.values[*k];
    const auto axis = static_cast<size_t>(random_.integer(0, static_cast<int64_t>(r.rank()) - 1));
    if (r.dims[axis] == 0) return;
    const auto limit = static_cast<double>(r.dims[axis]);
    const DType dtype = random_.chance(0.7) ? i64 : i32;
    const bool elements = random_.chance(0.4);
    Dims dims = elements ? r.dims : random_dims(0, 2);
    if (elements) dims[axis] = random_dim();
    const auto indices = w_.input(dtype, dims, Contents::index, limit, false);
    if (elements) {
      r.dims = dims;
    } else {
      r.dims.erase(r.dims.begin() + static_cast<std::ptrdiff_t>(axis));
      r.dims.insert(r.dims.begin() + static_cast<std::ptrdiff_t>(axis), dims.begin(), dims.end());
    }
    emit(r, fmt::format("{}({}, {}) {{axis = {}}}", elements ? "gather_elements" : "gather", w_.use(*k),
                        w_.use(indices), axis));
  }
  void scatter() {
    auto k = choose([](const Tensor& t) {
      return t.rank() >= 1 && t.elements() > 0 && t.dtype != boolean && t.magnitude < 1000;
    });
    if (!k) return;
    const auto t = w_.values[*k];
    const auto axis = static_cast<size_t>(random_.integer(0, static_cast<int64_t>(t.rank()) - 1));
    static const std::vector<std::string> reductions = {"none", "add", "max", "min"};
    const auto reduction = random_.pick(reductions);
    Dims dims = t.dims;
    // Without a reduction no element may be written twice.
    dims[axis] = reduction == "none" ? 1 : random_.integer(1, 9);
    const auto indices = w_.input(i64, dims, Contents::index, static_cast<double>(t.dims[axis]), false);
    const auto updates = fresh(t.dtype, dims, is_exact(t));
    Tensor r = joined(t, w_.values[updates]);
    if (reduction == "add") {
      r.magnitude = t.magnitude + 9 * w_.values[updates].magnitude;
      r.error = t.error + 18 * epsilon_of(r.dtype) * r.magnitude;
    }
    r.dims = t.dims;
    emit(r, fmt::format("scatter_elements({}, {}, {}) {{axis = {}, reduction = \"{}\"}}", w_.use(*k),
                        w_.use(indices), w_.use(updates), axis, reduction));
  }

  // ---- contractions and windows

  /// The other operand: a value with these dims, a new input or a weight.
  size_t operand(DType dtype, const Dims& dims, int exact) {
    auto same = choose([&](const Tensor& t) { return t.dtype == dtype && t.dims == dims; });
    if (same && random_.chance(0.3)) return *same;
    if (is_float(dtype) && random_.chance(0.5) && Tensor{"", f32, dims, 1, 0, 0, false, 0}.elements() <= 4096)
      return w_.constant(dtype, dims);
    return fresh(dtype, dims, exact);
  }
  /// A sum of `count` products.
  static Tensor summed(const Tensor& a, const Tensor& b, double count) {
    Tensor r = a;
    r.magnitude = std::max(1.0, count) * a.magnitude * b.magnitude;
    r.error = count * (a.error * b.magnitude + b.error * a.magnitude) +
              count * epsilon_of(compute_type(a.dtype)) * r.magnitude / 4 + epsilon_of(a.dtype) * r.magnitude;
    r.quantum = a.quantum * b.quantum;
    r.special = a.special || b.special;
    return r;
  }
  void matmul() {
    auto k =
        choose([](const Tensor& t) { return t.dtype != boolean && t.rank() >= 1 && t.magnitude <= 200; });
    if (!k) return;
    const auto a = w_.values[*k];
    const int64_t depth = a.dims.back(), columns = random_dim();
    Dims dims;
    const bool vector = random_.chance(0.15);
    if (vector) {
      dims = {depth};
    } else {
      dims = {depth, columns};
      if (a.rank() > 2 && random_.chance(0.6))
        for (size_t d = a.rank() - 2; d-- > 0;)
          dims.insert(dims.begin(), random_.chance(0.3) ? 1 : a.dims[d]);
    }
    Dims result(a.dims.begin(), a.dims.end() - 1);
    if (!vector) result.push_back(columns);
    Tensor shape{"", f32, result, 1, 0, 0, false, 0};
    if (shape.elements() > most_elements || shape.elements() * std::max<int64_t>(1, depth) > 600000) return;
    const auto b = operand(a.dtype, dims, -1);
    Tensor r = summed(a, w_.values[b], static_cast<double>(depth));
    r.dims = result;
    emit(r, fmt::format("matmul({}, {})", w_.use(*k), w_.use(b)));
  }
  /// The operand of an op over windows: batch, channels and one or two spatial dims.
  std::optional<size_t> image() {
    auto k = choose([](const Tensor& t) {
      return is_float(t.dtype) && (t.rank() == 3 || t.rank() == 4) && t.elements() > 0 && t.magnitude <= 100;
    });
    if (k && random_.chance(0.6)) return k;
    Dims dims = {random_.integer(1, 3), random_.pick(std::vector<int64_t>{1, 2, 3, 4, 8, 16, 17})};
    const auto spatial = random_.integer(1, 2);
    for (int64_t d = 0; d < spatial; ++d) dims.push_back(random_.integer(1, spatial == 1 ? 40 : 14));
    return fresh(random_.chance(0.75) ? f32 : random_.pick(std::vector<DType>{f64, bf16, f16}), dims, -1);
  }
  struct Windows {
    std::vector<int64_t> kernel, strides, low, high, dilations, result;
    int64_t volume = 1;
    std::string attributes() const {
      return fmt::format("strides = [{}], pads_low = [{}], pads_high = [{}], dilations = [{}]",
                         fmt::join(strides, ", "), fmt::join(low, ", "), fmt::join(high, ", "),
                         fmt::join(dilations, ", "));
    }
  };
  std::optional<Windows> windows(const Dims& dims) {
    Windows w;
    for (size_t d = 2; d < dims.size(); ++d) {
      w.kernel.push_back(random_.integer(1, 4));
      w.strides.push_back(random_.integer(1, 3));
      w.dilations.push_back(random_.chance(0.7) ? 1 : 2);
      // Pads smaller than the window: none lies in the padding alone.
      w.low.push_back(random_.integer(0, w.kernel.back() - 1));
      w.high.push_back(random_.integer(0, w.kernel.back() - 1));
      const int64_t room =
          dims[d] + w.low.back() + w.high.back() - ((w.kernel.back() - 1) * w.dilations.back() + 1);
      if (room < 0) return std::nullopt;
      w.result.push_back(room / w.strides.back() + 1);
      w.volume *= w.kernel.back();
    }
    return w;
  }
  void convolution() {
    auto k = image();
    if (!k) return;
    const auto x = w_.values[*k];
    auto w = windows(x.dims);
    if (!w) return;
    std::vector<int64_t> divisors;
    for (int64_t g = 1; g <= x.dims[1]; ++g)
      if (x.dims[1] % g == 0) divisors.push_back(g);
    const int64_t groups = random_.chance(0.5) ? 1 : random_.pick(divisors);
    const int64_t out =
        groups * (random_.chance(0.4) ? 1 : random_.pick(std::vector<int64_t>{1, 2, 3, 4, 8, 16, 17}));
    Dims weight = {out, x.dims[1] / groups};
    weight.insert(weight.end(), w->kernel.begin(), w->kernel.end());
    Tensor r = x;
    r.dims = {x.dims[0], out};
    r.dims.insert(r.dims.end(), w->result.begin(), w->result.end());
    const int64_t terms = weight[1] * w->volume;
    if (r.elements() > most_elements || r.elements() * terms > 600000 || r.elements() == 0) return;
    const auto b = operand(x.dtype, weight, -1);
    const Dims dims = r.dims;
    r = summed(x, w_.values[b], static_cast<double>(terms));
    r.dims = dims;
    std::string bias;
    if (random_.chance(0.4)) {
      const auto c = operand(x.dtype, {out}, -1);
      bias = ", " + w_.use(c);
      r.magnitude += w_.values[c].magnitude;
      r.error += w_.values[c].error + epsilon_of(r.dtype) * r.magnitude;
      r.special = r.special || w_.values[c].special;
      r.quantum = r.quantum > 0 && w_.values[c].quantum > 0 ? std::min(r.quantum, w_.values[c].quantum) : 0;
    }
    emit(r, fmt::format("conv({}, {}{}) {{{}, groups = {}}}", w_.use(*k), w_.use(b), bias, w->attributes(),
                        groups));
  }
  void pool() {
    auto k = image();
    if (!k) return;
    Tensor r = w_.values[*k];
    auto w = windows(r.dims);
    if (!w) return;
    // A window with dilation may lie in the padding alone; its average would be of nothing.
    const bool maximum = random_.chance(0.5);
    for (auto dilation : w->dilations)
      if (dilation > 1) return;
    if (!maximum)
      r = computed(r, r.magnitude, r.error + 16 * epsilon_of(compute_type(r.dtype)) * r.magnitude);
    r.dims.resize(2);
    r.dims.insert(r.dims.end(), w->result.begin(), w->result.end());
    const auto counted = maximum ? "" : fmt::format(", count_include_pad = {}", random_.chance(0.5));
    emit(r, fmt::format("{}({}) {{kernel = [{}], {}{}}}", maximum ? "max_pool" : "avg_pool", w_.use(*k),
                        fmt::join(w->kernel, ", "), w->attributes(), counted));
  }

  void step() {
    struct Choice {
      int weight;
      Step step;
    };
    static constexpr Choice choices[] = {
        {14, &Generator::binary},     {10, &Generator::unary},  {4, &Generator::exact_unary},
        {3, &Generator::exponential}, {3, &Generator::guarded}, {5, &Generator::compare},
        {2, &Generator::logic},       {4, &Generator::where},   {5, &Generator::cast},
        {1, &Generator::predicates},  {9, &Generator::reduce},  {3, &Generator::argmax},
        {3, &Generator::cumsum},      {4, &Generator::softmax}, {4, &Generator::normalise},
        {12, &Generator::view},       {4, &Generator::concat},  {4, &Generator::pad},
        {2, &Generator::split},       {2, &Generator::arrange}, {1, &Generator::counting},
        {5, &Generator::gather},      {3, &Generator::scatter}, {7, &Generator::matmul},
        {5, &Generator::convolution}, {4, &Generator::pool}};
    int total = 0;
    for (const auto& choice : choices) total += choice.weight;
    auto left = random_.integer(0, total - 1);
    for (const auto& choice : choices) {
      left -= choice.weight;
      if (left < 0) return (this->*choice.step)();
    }
  }
  /// What nothing reads, now and then a value that is read too, an input, or one value twice.
  std::vector<size_t> outputs() {
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

  GraphWriter w_;
  RandomSource& random_;
  double empty_ = 0.01;  ///< how often a dim has size 0: seldom, but in some graphs often
};

}  // namespace

GeneratedGraph generate(uint64_t seed) { return Generator(seed).run(); }

}  // namespace ferrite::random_graphs
