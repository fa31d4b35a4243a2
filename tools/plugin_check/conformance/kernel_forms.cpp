// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "tools/plugin_check/conformance/kernel_forms.h"

#include <array>
#include <cmath>
#include <limits>

#include "tools/plugin_check/conformance/kernel_text.h"

namespace ferrite::core::plugin_check {
namespace {

struct Attention {
  enum class Order : uint8_t { plain, heads_inside, transposed };
  int64_t heads, rows, columns, depth, features;
  Order order = Order::plain;
  bool masked =
      false;  ///< from column 2 * row on; the results are multiplied by the elements of another tensor

  std::string name() const {
    auto text = fmt::format("attention of {}x{}x{}x{}x{}", heads, rows, columns, depth, features);
    if (order == Order::heads_inside) text += ", heads inside";
    if (order == Order::transposed) text += ", columns and values transposed";
    if (masked) text += ", masked";
    return text;
  }
};

/// The operations of a statement, with their numbers.
class Body {
 public:
  explicit Body(Text& text) : text_(text) {}
  template <class... Args>
  int add(fmt::format_string<Args...> format, Args&&... args) {
    text_.line("  %{} = {}", next_, fmt::format(format, std::forward<Args>(args)...));
    return next_++;
  }
  int cast(int value, DType from, DType to) {
    return from == to ? value : add("cast %{} : {}", value, name_of(to));
  }
  int load(const std::string& buffer, const std::string& index, DType dtype, DType wanted) {
    return cast(add("load {}[{}] : {}", buffer, index, name_of(dtype)), dtype, wanted);
  }
  int reduce(std::string_view kind, int value, DType dtype) {
    text_.line("  reduction 0 = {} %{} : {}", kind, value, name_of(dtype));
    return add("reduced 0 : {}", name_of(dtype));
  }
  void store(const std::string& buffer, const std::string& index, int value) {
    text_.line("  store {}[{}] = %{}\n}}", buffer, index, value);
  }

 private:
  Text& text_;
  int next_ = 0;
};

/// Scores, maximum of a row, exponentials, their sum, its reciprocal, weights, the product with the values:
/// in the form that lowering makes.
KernelCase attention(const Attention& shape, DType dtype) {
  const DType wide = dtype == f64 ? f64 : f32;
  const auto& [heads, rows, columns, depth, features, order, masked] = shape;
  // The dims of an operand with `inner` elements at each of its `outer` positions.
  const auto dims = [&](int64_t outer, int64_t inner, bool transposed) {
    if (transposed) return Dims{heads, inner, outer};
    return order == Attention::Order::heads_inside ? Dims{outer, heads, inner} : Dims{heads, outer, inner};
  };
  const auto at = [&](std::string_view outer, std::string_view inner, bool transposed) {
    if (transposed) return fmt::format("i0, {}, {}", inner, outer);
    return order == Attention::Order::heads_inside ? fmt::format("{}, i0, {}", outer, inner)
                                                   : fmt::format("i0, {}, {}", outer, inner);
  };
  const bool transposed = order == Attention::Order::transposed;
  Text text;
  const auto q = text.input(dtype, dims(rows, depth, false)),
             k = text.input(dtype, dims(columns, depth, transposed)),
             v = text.input(dtype, dims(columns, features, transposed));
  const auto gate = masked ? text.input(dtype, dims(rows, features, false)) : std::string();
  const auto out = text.output(dtype, dims(rows, features, false));
  const Dims of_columns{heads, rows, columns}, of_row{heads, rows, 1};
  const auto scores = text.temporary(wide, of_columns), most = text.temporary(wide, of_row),
             powers = text.temporary(wide, of_columns), sum = text.temporary(wide, of_row),
             share = text.temporary(wide, of_row), weights = text.temporary(dtype, of_columns);
  const auto loops = fmt::format("i0 < {}, i1 < {}", heads, rows);
  const auto wide_name = name_of(wide);
  const std::string point = "i0, i1, i2", reduced = "i0, i1, r0", row = "i0, i1, 0";
  // The operands are the first two loads; casts to a wider type follow them.
  const auto product = [&](Body& body, const std::string& a, const std::string& a_index, const std::string& b,
                           const std::string& b_index) {
    int x = body.add("load {}[{}] : {}", a, a_index, name_of(dtype));
    int y = body.add("load {}[{}] : {}", b, b_index, name_of(dtype));
    x = body.cast(x, dtype, wide);
    y = body.cast(y, dtype, wide);
    return body.reduce("sum", body.add("mul %{}, %{}", x, y), wide);
  };
  {
    text.line("contract gemm ({}, i2 < {}, reduce r0 < {}) of %0, %1 {{", loops, columns, depth);
    Body body(text);
    int score = product(body, q, at("i1", "r0", false), k, at("i2", "r0", transposed));
    score = body.add("mul %{}, %{}", score, body.add("constant {} : {}", number(wide, 0.125), wide_name));
    if (masked) {
      const int column = body.add("index i2 : i64"), first = body.add("index i1 * 2 : i64");
      const int kept = body.add("ge %{}, %{}", column, first);
      const int none =
          body.add("constant {} : {}", number(wide, -std::numeric_limits<double>::infinity()), wide_name);
      score = body.add("where %{}, %{}, %{}", kept, score, none);
    }
    body.store(scores, point, score);
  }
  {
    text.line("reduce ({}, reduce r0 < {}) {{", loops, columns);
    Body body(text);
    body.store(most, row, body.reduce("max", body.load(scores, reduced, wide, wide), wide));
  }
  {
    text.line("map ({}, i2 < {}) {{", loops, columns);
    Body body(text);
    const int score = body.load(scores, point, wide, wide), largest = body.load(most, row, wide, wide);
    body.store(powers, point, body.add("exp %{}", body.add("sub %{}, %{}", score, largest)));
  }
  {
    text.line("reduce ({}, reduce r0 < {}) {{", loops, columns);
    Body body(text);
    body.store(sum, row, body.reduce("sum", body.load(powers, reduced, wide, wide), wide));
  }
  {
    text.line("map ({}) {{", loops);
    Body body(text);
    body.store(share, row, body.add("reciprocal %{}", body.load(sum, row, wide, wide)));
  }
  {
    text.line("map ({}, i2 < {}) {{", loops, columns);
    Body body(text);
    const int power = body.load(powers, point, wide, wide), of_all = body.load(share, row, wide, wide);
    body.store(weights, point, body.cast(body.add("mul %{}, %{}", power, of_all), wide, dtype));
  }
  {
    text.line("contract gemm ({}, i2 < {}, reduce r0 < {}) of %0, %1 {{", loops, features, columns);
    Body body(text);
    int result = product(body, weights, reduced, v, at("r0", "i2", transposed));
    if (masked)
      result = body.add("mul %{}, %{}", result, body.load(gate, at("i1", "i2", false), dtype, wide));
    body.store(out, at("i1", "i2", false), body.cast(result, wide, dtype));
  }
  // Scores are exact and no value is negative, so that no result is a small difference of large numbers. The
  // remaining errors are the rounding of exponentials, of sums and, with 16 bits, of the weights and the
  // result.
  constexpr double of_exponential = 8, of_sums = 2, of_narrow = 2;
  constexpr int64_t columns_at_once = 512;  // more are not kept unless they stay in the caches
  KernelCase made{.name = shape.name(),
                  .text = text.finish(out),
                  .inputs = {Values::exact, Values::exact, Values::positive},
                  .ulp = bits_of(dtype) < 32
                             ? of_narrow
                             : of_exponential + of_sums * std::sqrt(static_cast<double>(columns)),
                  .fused = true,
                  .always = dtype == f16 || (dtype == f32 && (masked || columns > columns_at_once))};
  if (masked) made.inputs.push_back(Values::positive);
  return made;
}

}  // namespace

std::vector<int64_t> rows_of_columns(DType dtype) {
  constexpr int64_t line_bytes = 128, vector_bytes = 16, lines = 33;
  const int64_t bytes = bits_of(dtype) / 8;
  const int64_t whole = lines * line_bytes / bytes;
  return {whole + vector_bytes / bytes, whole + 1};
}

std::vector<KernelCase> attention_cases(DType dtype) {
  if (!is_float(dtype) || bits_of(dtype) < 16) return {};
  using enum Attention::Order;
  constexpr std::array shapes = {Attention{2, 26, 40, 24, 16}, Attention{2, 70, 61, 32, 40, heads_inside},
                                 Attention{2, 65, 136, 40, 24, transposed},
                                 Attention{2, 77, 150, 16, 16, plain, true}, Attention{2, 20, 7400, 8, 8}};
  std::vector<KernelCase> cases;
  for (const auto& shape : shapes) cases.push_back(attention(shape, dtype));
  return cases;
}

}  // namespace ferrite::core::plugin_check
