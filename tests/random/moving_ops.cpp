// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ops that move elements: views, joins, gathers, scatters and sorts.
#include "generator.h"

namespace ferrite::random_graphs {

void Generator::view() {
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

void Generator::reshape(size_t k, Tensor r) {
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

void Generator::slice(size_t k, Tensor r) {
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

void Generator::concat() {
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

void Generator::pad() {
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

void Generator::split() {
  auto k = choose([](const Tensor& t) { return t.rank() >= 1 && t.dims[0] >= 2; });
  if (!k) return;
  const auto t = w_.values[*k];
  const auto first = random_.integer(0, t.dims[0]);
  Tensor a = t, b = t;
  a.dims[0] = first;
  b.dims[0] = t.dims[0] - first;
  w_.nodes({a, b}, fmt::format("split({}) {{axis = 0, sizes = [{}, {}]}}", w_.use(*k), first, b.dims[0]));
}

void Generator::arrange() {
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

void Generator::counting() {
  Tensor r;
  r.dims = random_dims(1, 3);
  r.dtype = random_.chance(0.5) ? f32 : i64;
  r.quantum = 1;
  const auto axis = random_.bits() % r.rank();
  r.magnitude = static_cast<double>(std::max<int64_t>(1, r.dims[axis]));
  emit(r, fmt::format("iota() {{dtype = {}, shape = [{}], axis = {}}}", name_of(r.dtype),
                      fmt::join(r.dims, ", "), axis));
}

void Generator::draw() {
  const auto seed = w_.input(u64, {2}, Contents::extreme, 0, false);
  Tensor r;
  r.dims = random_dims();
  std::string distribution = "bits";
  if (random_.chance(0.4)) {
    r.dtype = u32;
    r.magnitude = most_integer(u32);
  } else if (random_.chance(0.5)) {
    distribution = "uniform";
    r.dtype = f32;
    r.quantum = 0x1p-24;
  } else {
    distribution = "normal";
    r.dtype = f32;
    const double most = 6, slope = 6.3;  // the root of -2 log(2^-24); of the cosine of a turn
    r = computed(r, most, most * slope * epsilon_of(f32));
  }
  emit(r, fmt::format("random_{}({}) {{shape = [{}]}}", distribution, w_.use(seed), fmt::join(r.dims, ", ")));
}

void Generator::gather() {
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

void Generator::scatter() {
  auto k = choose([](const Tensor& t) {
    return t.rank() >= 1 && t.elements() > 0 && t.dtype != boolean && t.magnitude < 1000;
  });
  if (!k) return;
  auto t = w_.values[*k];
  if (random_.chance(0.3)) {
    // Upon a constant, which need not become a tensor.
    const auto fill = random_.integer(0, 3);
    const size_t count = w_.values.size();
    Tensor base = t;
    base.magnitude = 3;
    base.error = 0;
    emit(base, fmt::format("full() {{dtype = {}, shape = [{}], value = {}.0}}", name_of(t.dtype),
                           fmt::join(t.dims, ", "), fill));
    if (w_.values.size() > count) {
      k = count;
      t = w_.values[count];
    }
  }
  const auto axis = static_cast<size_t>(random_.integer(0, static_cast<int64_t>(t.rank()) - 1));
  static const std::vector<std::string> reductions = {"none", "add", "max", "min"};
  const auto reduction = random_.pick(reductions);
  Dims dims = t.dims;
  // Several updates of an element: of those that replace, the last one stays.
  dims[axis] = random_.integer(1, 9);
  auto indices = w_.input(i64, dims, Contents::index, static_cast<double>(t.dims[axis]), false);
  if (random_.chance(0.3)) {
    // Numbered from the other end.
    auto turned = w_.values[indices];
    const auto last = w_.scalar(i64, static_cast<double>(t.dims[axis] - 1));
    indices = w_.node(turned, fmt::format("sub({}, {})", last, w_.use(indices)));
  }
  auto updates = fresh(t.dtype, dims, is_exact(t));
  if (random_.chance(0.4)) updates = w_.node(w_.values[updates], fmt::format("neg({})", w_.use(updates)));
  Tensor r = joined(t, w_.values[updates]);
  if (reduction == "add") {
    r.magnitude = t.magnitude + 9 * w_.values[updates].magnitude;
    r.error = t.error + 18 * epsilon_of(r.dtype) * r.magnitude;
  }
  r.dims = t.dims;
  emit(r, fmt::format("scatter_elements({}, {}, {}) {{axis = {}, reduction = \"{}\"}}", w_.use(*k),
                      w_.use(indices), w_.use(updates), axis, reduction));
}

/// Of values that are exact, as an order is.
void Generator::sort() {
  auto k = choose([](const Tensor& t) { return t.rank() >= 1 && is_exact(t); });
  if (!k) return;
  Tensor values = w_.values[*k];
  const auto axis = random_.integer(0, static_cast<int64_t>(values.rank()) - 1);
  auto& length = values.dims[static_cast<size_t>(axis)];
  // Pairs, which the interpreter compares one at a time.
  constexpr int64_t most_compared = 1 << 20;
  if (values.elements() * length > most_compared) return;
  const auto limit = static_cast<double>(length);
  const bool down = random_.chance(0.5);
  auto call = fmt::format("sort({}) {{axis = {}, descending = {}}}", w_.use(*k), axis, down);
  if (random_.chance(0.6)) {
    length =
        random_.chance(0.5) ? random_.integer(0, std::min<int64_t>(length, 3)) : random_.integer(0, length);
    call = fmt::format("topk({}) {{axis = {}, k = {}, largest = {}}}", w_.use(*k), axis, length, down);
  }
  Tensor indices = values;
  indices.dtype = i64;
  indices.magnitude = limit;
  indices.error = indices.quantum = 0;
  indices.special = false;
  w_.nodes({values, indices}, call);
}

}  // namespace ferrite::random_graphs
