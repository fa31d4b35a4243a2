// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ops that combine many elements: reductions, contractions, and those over windows.
#include <algorithm>
#include <numeric>

#include "generator.h"

namespace ferrite::random_graphs {

void Generator::reduce() {
  auto k = choose([](const Tensor& t) { return t.rank() >= 1; });
  if (!k) return;
  const size_t rank = w_.values[*k].rank();
  std::vector<int64_t> axes;
  for (size_t d = 0; d < rank; ++d)
    if (random_.chance(0.5))
      axes.push_back(static_cast<int64_t>(d) - (random_.chance(0.3) ? static_cast<int64_t>(rank) : 0));
  if (axes.empty()) axes.push_back(static_cast<int64_t>(rank) - 1);
  reduce_over(*k, axes);
}

void Generator::reduce_over(size_t k, const std::vector<int64_t>& axes) {
  Tensor r = w_.values[k];
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
  if (!is_float(r.dtype) && r.dtype != boolean && name == "reduce_sum" && r.magnitude > most_integer(r.dtype))
    r.magnitude = most_integer(r.dtype);
  r.dims = dims;
  emit(r, fmt::format("{}({}) {{axes = [{}], keepdims = {}}}", name, w_.use(k), fmt::join(axes, ", "), keep));
}

void Generator::along_and_over_rows() {
  static const std::vector<int64_t> some_rows = {64, 96, 128, 240}, some_columns = {8, 17, 32, 64};
  const bool large = most_ > most_elements;  // then rows have lines enough to be asked for ahead
  const int64_t rows = large ? 512 : random_.pick(some_rows),
                columns = large ? 288 : random_.pick(some_columns);
  const auto x = fresh(f32, {rows, columns}, -1);
  const auto t = w_.values[x];
  size_t scaled = 0;
  if (random_.chance(0.5)) {
    const double error = epsilon_of(f32) * (t.magnitude + static_cast<double>(columns));
    scaled = w_.node(computed(t, 1, error), fmt::format("softmax({}) {{axis = 1}}", w_.use(x)));
  } else {
    Tensor top = t;
    top.dims = {rows, 1};
    const auto tops = w_.node(top, fmt::format("reduce_max({}) {{axes = [1], keepdims = true}}", w_.use(x)));
    scaled = w_.node(computed(t, t.magnitude * t.magnitude, 0),
                     fmt::format("mul({}, {})", w_.use(x), w_.use(tops)));
  }
  unary();
  auto over = w_.values[scaled];
  over.dims = {columns};
  emit(over, fmt::format("reduce_max({}) {{axes = [0], keepdims = false}}", w_.use(scaled)));
}

void Generator::long_rows() {
  static const std::vector<DType> dtypes = {f32, f32, f32, f64, i32, i64};
  const auto dtype = random_.pick(dtypes);
  const int64_t rows = random_.integer(1, 3), length = random_.integer(1500, 5000);
  const int64_t axis = random_.chance(0.7) ? 1 : 0;
  const Dims dims = axis == 1 ? Dims{rows, length} : Dims{length, rows};
  // Sums of floats that are small stay within the bounds; of multiples of a quantum they are exact.
  auto k = is_float(dtype)
               ? w_.input(dtype, dims, random_.chance(0.7) ? Contents::quantised : Contents::real, 1, false)
               : fresh(dtype, dims, -1);
  if (random_.chance(0.4)) {
    const Tensor transposed = w_.values[k];
    k = w_.node(transposed, fmt::format("neg({})", w_.use(k)));
  }
  switch (random_.integer(0, 3)) {
    case 0:
      if (is_exact(w_.values[k])) return argmax_along(k, axis);
      return reduce_over(k, {axis});
    case 1: return reduce_over(k, {axis});
    default: return cumsum_along(k, axis);
  }
}

void Generator::byte_sums() {
  const auto width = random_.pick(std::vector<int64_t>{3, 4, 8, 16, 17, 32, 64, 100});
  const Dims dims = {random_.integer(1, 9), width};
  const bool distances = random_.chance(0.5);
  const auto byte = [&](bool is_signed) {
    const auto k = w_.input(is_signed ? i8 : u8, dims, Contents::extreme, 9, false);
    auto wide = w_.values[k];
    wide.dtype = i32;
    return w_.node(wide, fmt::format("cast({}) {{dtype = i32}}", w_.use(k)));
  };
  const auto a = byte(random_.chance(0.3)), b = byte(!distances && random_.chance(0.7));
  auto each = w_.values[a];
  auto combined = w_.node(each, fmt::format("{}({}, {})", distances ? "sub" : "mul", w_.use(a), w_.use(b)));
  if (distances) combined = w_.node(each, fmt::format("abs({})", w_.use(combined)));
  each.dims = {dims[0]};
  emit(each, fmt::format("reduce_sum({}) {{axes = [1], keepdims = false}}", w_.use(combined)));
}

void Generator::argmax() {
  auto k = choose([](const Tensor& t) { return t.rank() >= 1 && is_exact(t) && t.dtype != boolean; });
  if (k) argmax_along(*k, random_.integer(0, static_cast<int64_t>(w_.values[*k].rank()) - 1));
}

void Generator::argmax_along(size_t k, int64_t axis) {
  Tensor r = w_.values[k];
  auto& dim = r.dims[static_cast<size_t>(axis)];
  if (dim == 0) return;
  const bool keep = random_.chance(0.5), last = random_.chance(0.3);
  r.magnitude = static_cast<double>(dim);
  r.dtype = i64;
  dim = 1;
  if (!keep) r.dims.erase(r.dims.begin() + axis);
  emit(r, fmt::format("{}({}) {{axis = {}, keepdims = {}, select_last = {}}}",
                      random_.chance(0.5) ? "argmax" : "argmin", w_.use(k), axis, keep, last));
}

void Generator::cumsum() {
  auto k = choose([](const Tensor& t) { return t.rank() >= 1 && t.dtype != boolean && t.magnitude < 100; });
  if (k) cumsum_along(*k, random_.integer(0, static_cast<int64_t>(w_.values[*k].rank()) - 1));
}

void Generator::cumsum_along(size_t k, int64_t axis) {
  Tensor r = w_.values[k];
  const auto count = std::max(1.0, static_cast<double>(r.dims[static_cast<size_t>(axis)]));
  r.magnitude *= count;
  r.error = count * r.error + count * epsilon_of(compute_type(r.dtype)) * r.magnitude +
            epsilon_of(r.dtype) * r.magnitude;
  emit(r, fmt::format("cumsum({}) {{axis = {}, exclusive = {}, reverse = {}}}", w_.use(k), axis,
                      random_.chance(0.3), random_.chance(0.3)));
}

void Generator::softmax() {
  auto k = choose([](const Tensor& t) { return is_float(t.dtype) && t.rank() >= 1 && t.error < 0.05; });
  if (!k) return;
  const auto t = w_.values[*k];
  const auto axis = random_.integer(-1, static_cast<int64_t>(t.rank()) - 1);
  const auto dim = static_cast<double>(axis < 0 ? t.dims.back() : t.dims[static_cast<size_t>(axis)]);
  const double error =
      2 * t.error + epsilon_of(t.dtype) * t.magnitude + dim * epsilon_of(compute_type(t.dtype));
  if (random_.chance(0.4)) {
    const auto span = 2 * t.magnitude + std::log(dim + 1) + 1;
    return emit(computed(t, span, 2 * error), fmt::format("log_softmax({}) {{axis = {}}}", w_.use(*k), axis));
  }
  if (random_.chance(0.5))
    return emit(computed(t, 1, error), fmt::format("softmax({}) {{axis = {}}}", w_.use(*k), axis));
  // Written out.
  Tensor row = t;
  row.dims[static_cast<size_t>(axis < 0 ? static_cast<int64_t>(t.rank()) - 1 : axis)] = 1;
  if (dim == 0 || t.magnitude > 40) return;
  const auto axes = fmt::format("{{axes = [{}], keepdims = true}}", axis);
  auto top = w_.node(row, fmt::format("reduce_max({}) {}", w_.use(*k), axes));
  auto shifted =
      w_.node(computed(t, 2 * t.magnitude, 2 * t.error), fmt::format("sub({}, {})", w_.use(*k), w_.use(top)));
  auto powers = w_.node(computed(t, 1, w_.values[shifted].error), fmt::format("exp({})", w_.use(shifted)));
  auto sum = w_.node(
      computed(row, dim, dim * w_.values[powers].error + dim * dim * epsilon_of(compute_type(t.dtype)) / 4),
      fmt::format("reduce_sum({}) {}", w_.use(powers), axes));
  emit(computed(t, 1, 4 * w_.values[powers].error + error),
       fmt::format("div({}, {})", w_.use(powers), w_.use(sum)));
}

void Generator::normalise() {
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

size_t Generator::operand(DType dtype, const Dims& dims, int exact) {
  auto same = choose([&](const Tensor& t) { return t.dtype == dtype && t.dims == dims; });
  if (same && random_.chance(0.3)) return *same;
  if (is_float(dtype) && random_.chance(0.5) && Tensor{"", f32, dims, 1, 0, 0, false, 0}.elements() <= 4096)
    return w_.constant(dtype, dims);
  return fresh(dtype, dims, exact);
}

size_t Generator::prepared(size_t k) {
  const Tensor t = w_.values[k];
  if (!is_float(t.dtype) || t.rank() == 0 || t.elements() == 0 || random_.chance(0.6)) return k;
  if (random_.chance(0.3)) return w_.node(t, fmt::format("neg({})", w_.use(k)));
  if (t.dtype == f32 && random_.chance(0.3)) {
    const auto narrow = fresh(random_.pick(std::vector<DType>{bf16, f16, f8e4m3, f8e5m2}), t.dims, 0);
    Tensor r = w_.values[narrow];
    r.dtype = f32;
    return w_.node(r, fmt::format("cast({}) {{dtype = f32}}", w_.use(narrow)));
  }
  if (t.dtype == f32 && random_.chance(0.5)) {
    const auto whole = fresh(random_.chance(0.5) ? i8 : u8, t.dims, 1);
    const auto axis = random_.integer(0, static_cast<int64_t>(t.rank()) - 1);
    const auto scale =
        w_.constant(f32, random_.chance(0.3) ? Dims{} : Dims{t.dims[static_cast<size_t>(axis)]});
    Tensor r = w_.values[whole];
    r.dtype = f32;
    r.magnitude *= w_.values[scale].magnitude;
    r.quantum = w_.values[scale].quantum;
    return w_.node(
        r, fmt::format("dequantize_linear({}, {}) {{axis = {}}}", w_.use(whole), w_.use(scale), axis));
  }
  const auto scale = w_.constant(t.dtype, {t.dims.back()});
  const double most = w_.values[scale].magnitude;
  return w_.node(computed(t, most * t.magnitude, most * t.error),
                 fmt::format("mul({}, {})", w_.use(k), w_.use(scale)));
}

Tensor Generator::summed(const Tensor& a, const Tensor& b, double count) {
  Tensor r = a;
  r.magnitude = std::max(1.0, count) * a.magnitude * b.magnitude;
  r.error = count * (a.error * b.magnitude + b.error * a.magnitude) +
            count * epsilon_of(compute_type(a.dtype)) * r.magnitude / 4 + epsilon_of(a.dtype) * r.magnitude;
  r.quantum = a.quantum * b.quantum;
  r.special = a.special || b.special;
  // An infinity times what is 0 on one side only.
  if ((a.special && b.error > 0) || (b.special && a.error > 0)) r.error = HUGE_VAL;
  return r;
}

void Generator::matmul() {
  auto k = choose([](const Tensor& t) { return t.dtype != boolean && t.rank() >= 1 && t.magnitude <= 200; });
  if (!k) return;
  k = prepared(*k);
  const auto a = w_.values[*k];
  const int64_t depth = a.dims.back(), columns = random_dim();
  Dims dims;
  const bool vector = random_.chance(0.15);
  if (vector) {
    dims = {depth};
  } else {
    dims = {depth, columns};
    if (a.rank() > 2 && random_.chance(0.6))
      for (size_t d = a.rank() - 2; d-- > 0;) dims.insert(dims.begin(), random_.chance(0.3) ? 1 : a.dims[d]);
  }
  Dims result(a.dims.begin(), a.dims.end() - 1);
  if (!vector) result.push_back(columns);
  Tensor shape{"", f32, result, 1, 0, 0, false, 0};
  if (shape.elements() > most_elements || shape.elements() * std::max<int64_t>(1, depth) > 600000) return;
  const auto b = prepared(operand(a.dtype, dims, -1));
  Tensor r = summed(a, w_.values[b], static_cast<double>(depth));
  r.dims = result;
  emit(r, fmt::format("matmul({}, {})", w_.use(*k), w_.use(b)));
}

void Generator::few_rows() {
  const auto dtype = random_.chance(0.6) ? f32 : random_.pick(std::vector<DType>{f64, bf16, f16});
  const bool transposed = random_.chance(0.5);
  const int64_t rows = random_.integer(1, 9), wide = random_.integer(900, 2200),
                narrow = random_.integer(3, 70);
  if (rows * wide * narrow > 600000 || rows * wide > most_) return;
  const int64_t depth = transposed ? wide : narrow, columns = transposed ? narrow : wide;
  const auto a = prepared(fresh(dtype, {rows, depth}, -1));
  auto b = fresh(dtype, transposed ? Dims{columns, depth} : Dims{depth, columns}, -1);
  if (transposed) {
    auto transposed_b = w_.values[b];
    std::swap(transposed_b.dims[0], transposed_b.dims[1]);
    b = w_.node(transposed_b, fmt::format("transpose({}) {{perm = [1, 0]}}", w_.use(b)));
  }
  Tensor r = summed(w_.values[a], w_.values[b], static_cast<double>(depth));
  r.dims = {rows, columns};
  emit(r, fmt::format("matmul({}, {})", w_.use(a), w_.use(b)));
}

/// softmax(q * k [+ mask]) * v, with whatever of it the bounds of errors still allow.
void Generator::attention() {
  auto k = choose([](const Tensor& t) {
    return is_float(t.dtype) && t.rank() >= 2 && t.elements() > 0 && t.magnitude <= 4 && t.error < 0.002;
  });
  // Rows enough for one kernel of all.
  if (!k || random_.chance(0.6))
    k = fresh(random_.chance(0.75) ? f32 : random_.pick(std::vector<DType>{f64, bf16, f16}),
              {random_.integer(2, 5), random_.integer(24, 70), random_.integer(1, 20)}, 0);
  const auto q = w_.values[*k];
  const Dims batch(q.dims.begin(), q.dims.end() - 2);
  const int64_t rows = q.dims[q.rank() - 2], depth = q.dims.back();
  const int64_t columns = std::max<int64_t>(1, random_dim()), width = std::max<int64_t>(1, random_dim());
  const auto with = [&](int64_t first, int64_t second) {
    Dims dims = batch;
    if (random_.chance(0.2)) std::ranges::fill(dims, 1);
    dims.push_back(first);
    dims.push_back(second);
    return dims;
  };
  Dims scores = batch, results = batch;
  scores.insert(scores.end(), {rows, columns});
  results.insert(results.end(), {rows, width});
  const Tensor largest{"", f32, scores, 1, 0, 0, false, 0}, last{"", f32, results, 1, 0, 0, false, 0};
  if (largest.elements() > most_elements || last.elements() > most_elements ||
      largest.elements() * (depth + width) > 600000)
    return;
  const bool transposed = random_.chance(0.5);
  auto keys = fresh(q.dtype, transposed ? with(columns, depth) : with(depth, columns), 0);
  auto product = summed(q, w_.values[keys], static_cast<double>(depth));
  product.dims = scores;
  auto key_text = w_.use(keys);
  if (transposed) {
    auto transposed_keys = w_.values[keys];
    std::swap(transposed_keys.dims[transposed_keys.rank() - 1],
              transposed_keys.dims[transposed_keys.rank() - 2]);
    std::vector<size_t> order(transposed_keys.rank());
    std::iota(order.begin(), order.end(), size_t{0});
    std::swap(order[order.size() - 1], order[order.size() - 2]);
    key_text = w_.use(w_.node(
        transposed_keys, fmt::format("transpose({}) {{perm = [{}]}}", key_text, fmt::join(order, ", "))));
  }
  auto made = w_.node(product, fmt::format("matmul({}, {})", w_.use(*k), key_text));
  if (random_.chance(0.5)) {
    auto bounded = computed(product, 1, product.error);
    made = w_.node(bounded, fmt::format("tanh({})", w_.use(made)));
  }
  if (random_.chance(0.4)) {
    const auto mask = fresh(q.dtype, {rows, columns}, 0);
    const auto& m = w_.values[mask];
    auto masked =
        computed(w_.values[made], w_.values[made].magnitude + m.magnitude, w_.values[made].error + m.error);
    masked.special = masked.special || m.special;
    made = w_.node(masked, fmt::format("add({}, {})", w_.use(made), w_.use(mask)));
  }
  const auto t = w_.values[made];
  if (t.error >= 0.05) return;
  const double error = 2 * t.error + epsilon_of(t.dtype) * t.magnitude +
                       static_cast<double>(columns) * epsilon_of(compute_type(t.dtype));
  const auto shares = w_.node(computed(t, 1, error), fmt::format("softmax({}) {{axis = -1}}", w_.use(made)));
  const auto values = fresh(q.dtype, with(columns, width), 0);
  auto r = summed(w_.values[shares], w_.values[values], static_cast<double>(columns));
  r.dims = results;
  emit(r, fmt::format("matmul({}, {})", w_.use(shares), w_.use(values)));
}

std::optional<size_t> Generator::image() {
  auto k = choose([](const Tensor& t) {
    return is_float(t.dtype) && (t.rank() == 3 || t.rank() == 4) && t.elements() > 0 && t.magnitude <= 100;
  });
  if (k && random_.chance(0.6)) return k;
  Dims dims = {random_.integer(1, 3), random_.pick(std::vector<int64_t>{1, 2, 3, 4, 8, 16, 17})};
  const auto spatial = random_.integer(1, 2);
  for (int64_t d = 0; d < spatial; ++d) dims.push_back(random_.integer(1, spatial == 1 ? 40 : 14));
  return fresh(random_.chance(0.75) ? f32 : random_.pick(std::vector<DType>{f64, bf16, f16}), dims, -1);
}

std::optional<Generator::Windows> Generator::windows(const Dims& dims) {
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

void Generator::convolution() {
  auto k = image();
  if (!k) return;
  k = prepared(*k);
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
  // Padding may be left out: whether an infinite weight meets its zeros, which makes a NaN, is not known.
  if (w_.values[b].special) return;
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

void Generator::transposed_convolution() {
  auto k = image();
  if (!k) return;
  const auto x = w_.values[*k];
  const int64_t channels = x.dims[1], out = random_.integer(1, 4);
  std::vector<int64_t> strides;
  Dims weight = {channels, out}, dims = {x.dims[0], out};
  int64_t terms = channels;
  for (size_t d = 2; d < x.rank(); ++d) {
    strides.push_back(random_.integer(1, 3));
    weight.push_back(random_.chance(0.7) ? strides.back() : random_.integer(1, 3));
    dims.push_back((x.dims[d] - 1) * strides.back() + weight.back());
    terms *= weight.back();
  }
  const Tensor shape{"", f32, dims, 1, 0, 0, false, 0};
  if (shape.elements() > most_elements || shape.elements() * terms > 600000) return;
  const auto b = operand(x.dtype, weight, -1);
  if (w_.values[b].special) return;  // as above: what no tap meets is padding, too
  Tensor r = summed(x, w_.values[b], static_cast<double>(terms));
  r.dims = dims;
  const size_t result = w_.values.size();
  emit(r, fmt::format("conv_transpose({}, {}) {{strides = [{}]}}", w_.use(*k), w_.use(b),
                      fmt::join(strides, ", ")));
  // A map after it, which should share its loops.
  if (w_.values.size() > result) prepared(result);
}

void Generator::pool() {
  auto k = image();
  if (!k) return;
  Tensor r = w_.values[*k];
  auto w = windows(r.dims);
  if (!w) return;
  // A window with dilation may lie in the padding alone; its average would be of nothing.
  const bool maximum = random_.chance(0.5);
  for (auto dilation : w->dilations)
    if (dilation > 1) return;
  if (!maximum) r = computed(r, r.magnitude, r.error + 16 * epsilon_of(compute_type(r.dtype)) * r.magnitude);
  r.dims.resize(2);
  r.dims.insert(r.dims.end(), w->result.begin(), w->result.end());
  const auto counted = maximum ? "" : fmt::format(", count_include_pad = {}", random_.chance(0.5));
  emit(r, fmt::format("{}({}) {{kernel = [{}], {}{}}}", maximum ? "max_pool" : "avg_pool", w_.use(*k),
                      fmt::join(w->kernel, ", "), w->attributes(), counted));
}

}  // namespace ferrite::random_graphs
