// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Constant tensors, tensors whose contents follow from shapes and constants, and random numbers.
#include <bit>
#include <cmath>

#include "helpers.h"

namespace ferrite::from_onnx {
namespace {

constexpr int64_t fold_limit = int64_t{1} << 24;  // maximum elements of a tensor that is computed at import

template <class T>
Value vector_literal(Context& c, DType dtype, const std::vector<T>& values) {
  return c.graph.literal({dtype, {static_cast<int64_t>(values.size())}}, values.data());
}

void constant(Context& c) {
  using Attribute = onnx::AttributeProto;
  if (c.node.attribute_size() != 1)
    c.bad("a constant has one attribute and this one ", c.node.attribute_size());
  const auto& a = c.node.attribute(0);
  if (a.name() == "value")
    return c.give(constant_of(c.graph, c.file, c.attribute("value", Attribute::TENSOR).t(), nullptr));
  if (a.name() == "value_float") {
    float value = c.attribute("value_float", Attribute::FLOAT).f();
    return c.give(c.graph.literal({f32, {}}, &value));
  }
  if (a.name() == "value_int") {
    int64_t value = c.integer("value_int");
    return c.give(c.graph.literal({i64, {}}, &value));
  }
  if (a.name() == "value_ints") return c.give(c.graph.integers(*c.integers("value_ints")));
  if (a.name() == "value_floats") {
    auto list = *c.numbers("value_floats");
    return c.give(vector_literal(c, f32, std::vector<float>(list.begin(), list.end())));
  }
  c.unsupported("constants by the attribute '", a.name(),
                "' are not supported; tensors, floats and integers are");
}

void constant_of_shape(Context& c) {
  Dims shape = c.constant_integers(0);
  for (int64_t dim : shape)
    if (dim < 0) c.bad("the shape ", dims_text(shape), " is no shape");
  Value value;
  if (c.has_attribute("value")) {
    value = constant_of(c.graph, c.file, c.attribute("value", onnx::AttributeProto::TENSOR).t(), nullptr);
    if (value.type().elements() != 1)
      c.bad("attribute 'value' holds ", value.type().elements(), " numbers and must hold one");
    value = reshape_to(c, value, {});
  } else {
    value = c.graph.scalar(f32, 0);
  }
  c.give(expand_to(c, value, shape));
}

/// A range of `count` numbers from `start` in steps of `delta`, in the type's own arithmetic.
template <class T>
Value range_of(Context& c, DType dtype, const T& start, const T& limit, const T& delta) {
  if (delta == T{0}) c.bad("the step is 0");
  double exact =
      std::ceil((static_cast<double>(limit) - static_cast<double>(start)) / static_cast<double>(delta));
  if (!(exact <= static_cast<double>(fold_limit)))
    c.unsupported("the range has more than ", fold_limit, " elements");
  std::vector<T> values;
  for (int64_t k = 0; k < static_cast<int64_t>(exact); ++k)
    values.push_back(static_cast<T>(start + static_cast<T>(k) * delta));
  return vector_literal(c, dtype, values);
}
template <class T>
Value range_from(Context& c, DType dtype) {
  T bounds[3];
  for (size_t k = 0; k < 3; ++k) {
    if (c.operand(k).dtype() != dtype) c.bad("start, limit and delta differ in dtype");
    auto values = c.constant(k).elements<T>();
    if (values.size() != 1) c.bad(input_text(c.signature, k), " must hold one number");
    bounds[k] = values[0];
  }
  return range_of(c, dtype, bounds[0], bounds[1], bounds[2]);
}
void range(Context& c) {
  switch (DType dtype = c.operand(0).dtype()) {
    case DType::i16_: return c.give(range_from<int16_t>(c, dtype));
    case DType::i32_: return c.give(range_from<int32_t>(c, dtype));
    case DType::i64_: return c.give(range_from<int64_t>(c, dtype));
    case DType::f32_: return c.give(range_from<float>(c, dtype));
    case DType::f64_: return c.give(range_from<double>(c, dtype));
    default: c.unsupported("ranges of ", name_of(dtype), " are not supported");
  }
}

/// The dtype in the attribute.
DType given_dtype(Context& c, DType otherwise) {
  return c.has_attribute("dtype") ? dtype_of(static_cast<int32_t>(c.integer("dtype")), c.where()) : otherwise;
}

void eye_like(Context& c) {
  auto x = c.type(0);
  if (x.rank() != 2) c.bad("the input ", to_string(x), " must have rank 2");
  DType dtype = given_dtype(c, x.dtype);
  int64_t k = c.integer("k", 0);
  // The difference of a counting row and a counting column numbers the diagonals.
  Value columns = counting(c, i64, x.dims[1], 1, 2), rows = counting(c, i64, x.dims[0], 0, 2);
  Value diagonal = c.make("sub", {columns, rows});
  c.give(cast_to(c, c.make("eq", {diagonal, c.graph.literal({i64, {}}, &k)}), dtype));
}

void one_hot(Context& c) {
  Value indices = c.operand(0);
  if (!is_integer(indices.dtype())) indices = cast_to(c, indices, i64);
  auto depth = c.constant_numbers(1);
  if (depth.size() != 1 || !(depth[0] >= 0 && depth[0] < 0x1p40))
    c.bad("the depth must be one number that is not negative");
  int64_t axis = c.axis(c.integer("axis", -1), indices.rank() + 1);
  c.give(c.make("one_hot", {indices, c.operand(2)}, attr("axis", axis),
                attr("depth", static_cast<int64_t>(depth[0]))));
}

/// The coordinates of a constant's nonzero elements; their number determines the shape, so it must be a
/// constant.
void non_zero(Context& c) {
  Value x = c.constant(0);
  auto numbers = numbers_of(x);
  Dims dims = x.dims();
  std::vector<Dims> coordinates(dims.size());
  for (size_t k = 0; k < numbers.size(); ++k) {
    if (numbers[k] == 0) continue;
    auto rest = static_cast<int64_t>(k);
    for (size_t d = dims.size(); d-- > 0; rest /= dims[d]) coordinates[d].push_back(rest % dims[d]);
  }
  Dims flat;
  for (const auto& list : coordinates) flat.insert(flat.end(), list.begin(), list.end());
  int64_t count = dims.empty() ? 0 : static_cast<int64_t>(coordinates[0].size());
  c.give(c.graph.literal({i64, {static_cast<int64_t>(dims.size()), count}}, flat.data()));
}

/// The seed of a random op. The attribute's value gives the same seed to all nodes with it; without one, the
/// seed is derived from the result's name (64 bits of FNV-1a). Repeated runs give the same numbers.
Value seed_of(Context& c) {
  uint64_t words[] = {0, 0};
  if (c.has_attribute("seed")) {
    words[0] = std::bit_cast<uint32_t>(static_cast<float>(c.number("seed", 0)));
  } else {
    words[1] = 0xcbf29ce484222325;
    for (const char letter : c.node.output(0))
      words[1] = (words[1] ^ static_cast<uint8_t>(letter)) * 0x100000001b3;
  }
  return c.graph.literal({u64, {2}}, words);
}

/// Numbers of the standard distribution, scaled and shifted in f32, then cast.
void random(Context& c, const Dims& shape, DType dtype) {
  if (!is_float(dtype)) c.unsupported("random numbers of ", name_of(dtype), " are not supported");
  for (int64_t dim : shape)
    if (dim < 0) c.bad("the shape ", dims_text(shape), " is no shape");
  const std::string op = c.entry.standard;
  const bool normal = op == "random_normal";
  const double low = normal ? c.number("mean", 0) : c.number("low", 0);
  const double factor = normal ? c.number("scale", 1) : c.number("high", 1) - low;
  const Value numbers = c.make(op, {seed_of(c)}, attr("shape", shape));
  const Value scaled = c.make("mul", {numbers, c.graph.scalar(f32, factor)});
  c.give(cast_to(c, c.make("add", {scaled, c.graph.scalar(f32, low)}), dtype));
}
void random_of_shape(Context& c) { random(c, *c.integers("shape"), given_dtype(c, f32)); }
void random_like(Context& c) { random(c, c.type(0).dims, given_dtype(c, c.type(0).dtype)); }

constexpr OpEntry create_entries[] = {
    {"Constant", 1, newest, constant},
    {"ConstantOfShape", 9, newest, constant_of_shape},
    {"Range", 11, newest, range},
    {"EyeLike", 9, newest, eye_like},
    {"OneHot", 9, newest, one_hot},
    {"NonZero", 9, newest, non_zero},
    {"RandomUniform", 1, newest, random_of_shape, "random_uniform"},
    {"RandomNormal", 1, newest, random_of_shape, "random_normal"},
    {"RandomUniformLike", 1, newest, random_like, "random_uniform"},
    {"RandomNormalLike", 1, newest, random_like, "random_normal"},
};

}  // namespace

std::span<const OpEntry> create_ops() { return create_entries; }

}  // namespace ferrite::from_onnx
