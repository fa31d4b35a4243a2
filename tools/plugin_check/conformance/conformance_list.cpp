// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "tools/plugin_check/conformance/conformance_list.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>

#include "core/ir/text/loop_keywords.h"
#include "ferrite/loop_check.hpp"
#include "tools/plugin_check/conformance/kernel_forms.h"
#include "tools/plugin_check/conformance/kernel_text.h"

namespace ferrite::core::plugin_check {
namespace {

constexpr std::array computable = {boolean, i8,   i16, i32, i64,    u8,     u16,        u32,       u64,
                                   f16,     bf16, f32, f64, f8e4m3, f8e5m2, f8e4m3fnuz, f8e5m2fnuz};
enum class Order : uint8_t { plain, transposed, reversed, strided, broadcast };
constexpr std::array<std::string_view, 5> order_names = {"", " transposed", " reversed", " strided",
                                                         " broadcast"};

/// "i0 < 3, i1 < 5"
std::string loops(const Dims& dims) {
  std::vector<std::string> parts;
  for (size_t k = 0; k < dims.size(); ++k) parts.push_back(fmt::format("i{} < {}", k, dims[k]));
  return fmt::format("{}", fmt::join(parts, ", "));
}
std::string indices(size_t count) {
  std::vector<std::string> parts;
  for (size_t k = 0; k < count; ++k) parts.push_back(fmt::format("i{}", k));
  return fmt::format("[{}]", fmt::join(parts, ", "));
}

/// The dims and the index of an operand that loops over `dims` read in some order.
struct Access {
  Dims dims;
  std::string index;
};
Access access(const Dims& dims, Order order) {
  Access result{dims, indices(dims.size())};
  if (dims.empty()) return result;
  std::vector<std::string> parts;
  for (size_t k = 0; k < dims.size(); ++k) parts.push_back(fmt::format("i{}", k));
  switch (order) {
    case Order::plain: break;
    case Order::transposed:
      std::reverse(result.dims.begin(), result.dims.end());
      std::reverse(parts.begin(), parts.end());
      break;
    case Order::reversed: parts.back() = fmt::format("{} - {}", dims.back() - 1, parts.back()); break;
    case Order::strided:
      result.dims.back() *= 2;
      parts.back() += " * 2";
      break;
    case Order::broadcast:
      result.dims.back() = 1;
      parts.back() = "0";
      break;
  }
  result.index = fmt::format("[{}]", fmt::join(parts, ", "));
  return result;
}

struct ShapeAndOrder {
  Dims dims;
  Order order;
  std::string name() const {
    return (dims.empty() ? "scalar" : fmt::format("{}", fmt::join(dims, "x"))) +
           std::string(order_names[static_cast<size_t>(order)]);
  }
};
std::vector<ShapeAndOrder> shapes_and_orders() {
  std::vector<ShapeAndOrder> result;
  for (const auto& dims : {Dims{83}, Dims{5, 9}, Dims{3, 4, 16}, Dims{7}, Dims{2, 130}, Dims{}})
    for (auto order : {Order::plain, Order::transposed, Order::reversed, Order::strided, Order::broadcast}) {
      if (dims.empty() && order != Order::plain) continue;
      if (dims.size() < 2 && order == Order::transposed) continue;
      result.push_back({dims, order});
    }
  return result;
}

/// Values within the domain of a primitive.
Values values_for(Prim prim, DType dtype, int operand) {
  if (!is_float(dtype))
    return prim == Prim::pow_ || prim == Prim::shl_ || prim == Prim::shr_ ? Values::index : Values::ordinary;
  switch (prim) {
    case Prim::asin_:
    case Prim::acos_:
    case Prim::atanh_: return Values::fraction;
    case Prim::acosh_: return Values::above_one;
    case Prim::pow_: return operand == 0 ? Values::positive : Values::ordinary;
    case Prim::rsqrt_:
    case Prim::log_:
    case Prim::log2_:
    case Prim::log1p_: return Values::positive;
    case Prim::sin_:
    case Prim::cos_:
    case Prim::tan_:
    case Prim::mod_:
    case Prim::rem_: return Values::ordinary;
    default: return Values::special;
  }
}

/// The bound in units in the last place: that of prims.def for f32. For f64 the reference itself comes from a
/// library, and narrower floats are computed in f32 and rounded once more.
double ulp_for(Prim prim, DType dtype) {
  const double bound = info_of(prim).max_ulp;
  if (!is_float(dtype)) return 0;
  if (bits_of(dtype) < 32) return 1;
  return dtype == f64 && bound > 0 ? bound + 1 : bound;
}

std::vector<KernelCase> primitive_cases(const PrimInfo& info, DType dtype) {
  std::vector<DType> results = {info.gives_bool ? boolean : dtype};
  const bool converts = info.prim == Prim::cast_ || info.prim == Prim::bitcast_;
  if (converts) {
    results.clear();
    for (DType to : computable)
      if (ferrite::loop::result_type(info.prim, dtype, DType::none, DType::none, to) != DType::none)
        results.push_back(to);
  }
  std::vector<KernelCase> cases;
  for (const auto& shape : shapes_and_orders())
    for (DType result : results) {
      Text text;
      KernelCase made{
          shape.name(), {}, {}, converts && !is_float(result) ? 0 : ulp_for(info.prim, dtype), false};
      if (converts) made.name += fmt::format(" to {}", name_of(result));
      std::vector<std::string> operands;
      std::string loads;
      for (int k = 0; k < info.operands; ++k) {
        // Where broadcasting all operands would leave no loop, only one operand is broadcast.
        const auto order =
            shape.order == Order::broadcast && k == 0 && info.operands > 1 ? Order::plain : shape.order;
        const auto read = access(shape.dims, order);
        const DType type = info.prim == Prim::where_ && k == 0 ? boolean : dtype;
        const auto buffer = text.input(type, read.dims);
        made.inputs.push_back(values_for(info.prim, type, k));
        loads += fmt::format("  %{} = load {}{} : {}\n", k, buffer, read.index, name_of(type));
        operands.push_back(fmt::format("%{}", k));
      }
      const auto out = text.output(result, shape.dims);
      text.line("map ({}) {{\n{}  %{} = {} {}{}", loops(shape.dims), loads, info.operands, info.name,
                fmt::join(operands, ", "), converts ? fmt::format(" : {}", name_of(result)) : "");
      text.line("  store {}{} = %{}\n}}", out, indices(shape.dims.size()), info.operands);
      made.text = text.finish(out);
      cases.push_back(std::move(made));
    }
  return cases;
}

/// Copies in every order, masked loads, masked stores, two stores into one buffer, indirect indices of every
/// mode.
std::vector<KernelCase> map_cases(DType dtype) {
  std::vector<KernelCase> cases;
  const auto type = name_of(dtype);
  for (const auto& shape : shapes_and_orders()) {
    Text text;
    const auto read = access(shape.dims, shape.order);
    const auto x = text.input(dtype, read.dims), out = text.output(dtype, shape.dims);
    text.line("map ({}) {{\n  %0 = load {}{} : {}\n  store {}{} = %0\n}}", loops(shape.dims), x, read.index,
              type, out, indices(shape.dims.size()));
    cases.push_back({shape.name(), text.finish(out), {Values::special}, 0, false});
  }
  for (int64_t size : {4, 9, 40, 83}) {
    // A window that begins before the buffer and ends after it: masked-out elements are never read.
    Text text;
    const auto x = text.input(dtype, {size}), out = text.output(dtype, {size + 7});
    text.line(
        "map (i0 < {}) {{\n  %0 = index i0 - 3 : i64\n  %1 = constant 0 : i64\n  %2 = ge %0, %1\n"
        "  %3 = constant {} : i64\n  %4 = lt %0, %3\n  %5 = and %2, %4",
        size + 7, size);
    text.line(
        "  %6 = constant {} : {}\n  %7 = load {}[i0 - 3] where %5 else %6 : {}\n  store {}[i0] = %7\n}}",
        number(dtype, 1), type, x, type, out);
    cases.push_back({fmt::format("{} masked load", size), text.finish(out), {Values::special}, 0, false});
  }
  for (int64_t size : {9, 64}) {
    Text text;
    const auto x = text.input(dtype, {size}), y = text.input(dtype, {2 * size}),
               out = text.output(dtype, {3 * size});
    text.version(out);
    text.line("map (i0 < {}) {{\n  %0 = load {}[i0] : {}\n  store {}[i0] = %0\n}}", size, x, type, out);
    text.line("map (i0 < {}) {{\n  %0 = load {}[i0] : {}\n  store {}.1[i0 + {}] = %0\n}}", 2 * size, y, type,
              out, size);
    cases.push_back({fmt::format("{} side by side", size),
                     text.finish(out + ".1"),
                     {Values::special, Values::special},
                     0,
                     false});
  }
  for (const DType counted : {i64, u64})
    for (uint32_t mode = FE_INDIRECT_WRAP; mode <= FE_INDIRECT_ASSUME; ++mode) {
      Text text;
      const auto name = loop::keyword::indirect_modes[mode];
      const auto table = text.input(dtype, {5, 12}), rows = text.input(counted, {13}),
                 out = text.output(dtype, {13, 12});
      text.line("map (i0 < 13, i1 < 12) {{\n  %0 = load {}[i0] : {}\n  $1 = indirect %0 < 5 {}", rows,
                name_of(counted), name);
      text.line("  %2 = load {}[$1, i1] : {}\n  store {}[i0, i1] = %2\n}}", table, type, out);
      // An unsigned index cannot count from the end.
      const bool wraps = mode == FE_INDIRECT_WRAP && counted == i64, clamps = mode == FE_INDIRECT_CLAMP;
      const Values valid = wraps ? Values::signed_index : clamps ? Values::outside : Values::index;
      const auto title = fmt::format("rows by {}{}", name, counted == u64 ? " of u64" : "");
      cases.push_back({title, text.finish(out), {Values::special, valid}, 0, false});
      if (mode != FE_INDIRECT_WRAP && mode != FE_INDIRECT_CHECK) continue;
      auto outside = cases.back();
      outside.name += ", out of range";
      outside.inputs[1] = counted == u64 ? Values::signed_index : Values::outside;
      outside.out_of_range = true;
      cases.push_back(std::move(outside));
    }
  return cases;
}

/// The reduced values are also stored, at every point, as after a map is fused into the reduction that reads
/// it.
KernelCase stored_and_reduced(DType dtype) {
  Text text;
  const auto x = text.input(dtype, {6, 21}), every = text.output(dtype, {6, 21}),
             most = text.output(dtype, {6});
  text.line("reduce (i0 < 6, reduce r0 < 21) {{\n  %0 = load {}[i0, r0] : {}", x, name_of(dtype));
  text.line("  %1 = mul %0, %0\n  reduction 0 = max %1 : {}\n  %2 = reduced 0 : {}", name_of(dtype),
            name_of(dtype));
  text.line("  store {}[i0, r0] = %1\n  store {}[i0] = %2\n}}", every, most);
  return {.name = "stored and reduced",
          .text = text.finish(every + ", " + most),
          .inputs = {Values::special},
          .always = true};
}

std::vector<KernelCase> reduce_cases(DType dtype) {
  std::vector<KernelCase> cases;
  if (dtype != boolean) cases.push_back(stored_and_reduced(dtype));
  const auto type = name_of(dtype);
  for (uint32_t kind = FE_REDUCE_SUM; kind <= FE_REDUCE_ARGMIN; ++kind) {
    const bool logical = kind == FE_REDUCE_ANY || kind == FE_REDUCE_ALL;
    const auto accumulator = ferrite::loop::default_accumulator(kind, dtype);
    if (logical != (dtype == boolean) || !ferrite::loop::accumulates(kind, dtype, accumulator)) continue;
    const bool by_index = ferrite::loop::is_arg_reduction(kind);
    const DType result = by_index ? i64 : dtype, reduced = by_index ? i64 : accumulator;
    const auto values = kind == FE_REDUCE_SUM    ? Values::exact
                        : kind == FE_REDUCE_PROD ? Values::powers
                                                 : Values::special;
    struct Shape {
      Dims kept;
      int64_t reduced;
      bool first;            // the reduced dim comes first
      bool columns = false;  // of the form that works on blocks of columns
    };
    std::vector<Shape> shapes = {{{6}, 40, false}, {{40}, 6, true},     {{3, 5}, 17, false},
                                 {{}, 257, false}, {{2, 33}, 64, true}, {{130}, 3, false}};
    if (dtype != boolean)
      for (const int64_t columns : rows_of_columns(dtype))
        shapes.push_back({{outer_of_columns, columns}, rows_of_sums, true, true});
    for (const auto& shape : shapes) {
      Text text;
      Dims dims = shape.kept;
      dims.insert(shape.first ? dims.begin() : dims.end(), shape.reduced);
      std::vector<std::string> index;
      for (size_t k = 0; k < shape.kept.size(); ++k) index.push_back(fmt::format("i{}", k));
      index.insert(shape.first ? index.begin() : index.end(), "r0");
      const auto x = text.input(dtype, dims), out = text.output(result, shape.kept);
      int next = 1;
      text.line("reduce ({}{}reduce r0 < {}) {{\n  %0 = load {}[{}] : {}", loops(shape.kept),
                shape.kept.empty() ? "" : ", ", shape.reduced, x, fmt::join(index, ", "), type);
      if (by_index) text.line("  %{} = index r0 : i64", next++);
      text.line("  reduction 0 = {} %0{} : {}", ferrite::loop::reduction_name(kind), by_index ? " at %1" : "",
                name_of(accumulator));
      text.line("  %{} = reduced 0 : {}", next, name_of(reduced));
      if (reduced != result) {
        text.line("  %{} = cast %{} : {}", next + 1, next, name_of(result));
        ++next;
      }
      text.line("  store {}{} = %{}\n}}", out, indices(shape.kept.size()), next);
      cases.push_back({.name = fmt::format("{} of {}{}", ferrite::loop::reduction_name(kind),
                                           fmt::join(dims, "x"), shape.first ? " over the first" : ""),
                       .text = text.finish(out),
                       .inputs = {values},
                       .always = shape.columns && (kind == FE_REDUCE_SUM || kind == FE_REDUCE_ARGMAX) &&
                                 (dtype == f16 || dtype == f32)});
    }
  }
  return cases;
}

/// Matrix products, batched and transposed ones, a convolution with padding.
std::vector<KernelCase> contract_cases(DType dtype) {
  std::vector<KernelCase> cases;
  const auto type = name_of(dtype);
  const DType accumulator = ferrite::loop::default_accumulator(FE_REDUCE_SUM, dtype);
  // The lines after the two loads: a and b are operations, and b is the last one so far.
  auto finish = [&](Text& text, const std::string& out, const std::string& index, int a, int b) {
    int last = b + 2;
    text.line("  %{0} = mul %{1}, %{2}\n  reduction 0 = sum %{0} : {3}\n  %{4} = reduced 0 : {3}", b + 1, a,
              b, name_of(accumulator), last);
    if (accumulator != dtype) {
      text.line("  %{} = cast %{} : {}", last + 1, last, type);
      ++last;
    }
    text.line("  store {}{} = %{}\n}}", out, index, last);
  };
  struct Size {
    int64_t m, n, k;
  };
  // For the last one, devices with more multiprocessors than it has tiles divide the summed dim as well.
  constexpr Size deep{37, 16, 1788};
  for (const auto& [m, n, k] : {Size{7, 5, 9}, {16, 16, 16}, {33, 40, 65}, {2, 83, 3}, deep})
    for (bool transposed : {false, true}) {
      Text text;
      const auto a = text.input(dtype, {m, k}), b = text.input(dtype, transposed ? Dims{n, k} : Dims{k, n}),
                 out = text.output(dtype, {m, n});
      text.line("contract gemm (i0 < {}, i1 < {}, reduce r0 < {}) of %0, %1 {{\n  %0 = load {}[i0, r0] : {}",
                m, n, k, a, type);
      text.line("  %1 = load {}[{}] : {}", b, transposed ? "i1, r0" : "r0, i1", type);
      finish(text, out, "[i0, i1]", 0, 1);
      cases.push_back({.name = fmt::format("{}x{}x{}{}", m, n, k, transposed ? " transposed" : ""),
                       .text = text.finish(out),
                       .inputs = {Values::exact, Values::exact},
                       .always = k == deep.k && !transposed && (dtype == f16 || dtype == f32)});
    }
  {
    Text text;
    const auto a = text.input(dtype, {3, 6, 11}), b = text.input(dtype, {3, 11, 17}),
               out = text.output(dtype, {3, 6, 17});
    text.line(
        "contract gemm (i0 < 3, i1 < 6, i2 < 17, reduce r0 < 11) of %0, %1 {{\n  %0 = load {}[i0, i1, r0] : "
        "{}",
        a, type);
    text.line("  %1 = load {}[i0, r0, i2] : {}", b, type);
    finish(text, out, "[i0, i1, i2]", 0, 1);
    cases.push_back({"3 of 6x17x11", text.finish(out), {Values::exact, Values::exact}, 0, false});
  }
  for (int64_t stride : {1, 2}) {
    Text text;
    const int64_t size = stride == 1 ? 9 : 5;
    const auto x = text.input(dtype, {1, 3, 9, 9}), w = text.input(dtype, {4, 3, 3, 3}),
               out = text.output(dtype, {1, 4, size, size});
    const auto row = fmt::format("i2 * {} + r1 - 1", stride),
               column = fmt::format("i3 * {} + r2 - 1", stride);
    text.line(
        "contract conv (i0 < 1, i1 < 4, i2 < {0}, i3 < {0}, reduce r0 < 3, reduce r1 < 3, reduce r2 < 3) of "
        "%12, "
        "%13 {{",
        size);
    text.line(
        "  %0 = constant 0 : i64\n  %1 = constant 9 : i64\n  %2 = index {} : i64\n  %3 = index {} : i64", row,
        column);
    text.line(
        "  %4 = ge %2, %0\n  %5 = lt %2, %1\n  %6 = ge %3, %0\n  %7 = lt %3, %1\n  %8 = and %4, %5\n"
        "  %9 = and %6, %7\n  %10 = and %8, %9\n  %11 = constant {} : {}",
        number(dtype, 0), type);
    text.line("  %12 = load {}[i0, r0, {}, {}] where %10 else %11 : {}", x, row, column, type);
    text.line("  %13 = load {}[i1, r0, r1, r2] : {}", w, type);
    finish(text, out, "[i0, i1, i2, i3]", 12, 13);
    cases.push_back({fmt::format("convolution of stride {}", stride),
                     text.finish(out),
                     {Values::exact, Values::exact},
                     0,
                     false});
  }
  {
    // Attention without its exponentials: rows of one product are summed and scaled, then multiplied into
    // rows of another.
    Text text;
    const auto q = text.input(dtype, {2, 26, 9}), k = text.input(dtype, {2, 9, 21}),
               v = text.input(dtype, {2, 21, 17}), out = text.output(dtype, {2, 26, 17}),
               scores = text.temporary(dtype, {2, 26, 21}), most = text.temporary(dtype, {2, 26, 1}),
               shares = text.temporary(dtype, {2, 26, 21});
    text.line("contract gemm (i0 < 2, i1 < 26, i2 < 21, reduce r0 < 9) of %0, %1 {{");
    text.line("  %0 = load {}[i0, i1, r0] : {}\n  %1 = load {}[i0, r0, i2] : {}", q, type, k, type);
    finish(text, scores, "[i0, i1, i2]", 0, 1);
    text.line("reduce (i0 < 2, i1 < 26, reduce r0 < 21) {{\n  %0 = load {}[i0, i1, r0] : {}", scores, type);
    text.line("  reduction 0 = max %0 : {0}\n  %1 = reduced 0 : {0}\n  store {1}[i0, i1, 0] = %1\n}}", type,
              most);
    text.line("map (i0 < 2, i1 < 26, i2 < 21) {{\n  %0 = load {}[i0, i1, i2] : {}", scores, type);
    text.line("  %1 = load {}[i0, i1, 0] : {}\n  %2 = sub %1, %0\n  store {}[i0, i1, i2] = %2\n}}", most,
              type, shares);
    text.line("contract gemm (i0 < 2, i1 < 26, i2 < 17, reduce r0 < 21) of %0, %1 {{");
    text.line("  %0 = load {}[i0, i1, r0] : {}\n  %1 = load {}[i0, r0, i2] : {}", shares, type, v, type);
    finish(text, out, "[i0, i1, i2]", 0, 1);
    KernelCase rows{
        "fused GEMM chain", text.finish(out), {Values::exact, Values::exact, Values::exact}, 0, false};
    rows.fused = true;
    cases.push_back(std::move(rows));
  }
  std::ranges::move(attention_cases(dtype), std::back_inserter(cases));
  return cases;
}

std::vector<KernelCase> scatter_cases(DType dtype) {
  std::vector<KernelCase> cases;
  const auto type = name_of(dtype);
  std::vector<std::pair<std::string, Values>> modes = {
      {"", Values::exact}, {" max", Values::exact}, {" min", Values::exact}};
  if (dtype != boolean) {
    modes.emplace_back(" add", Values::exact);
    modes.emplace_back(" mul", Values::powers);
  }
  for (const auto& [mode, values] : modes)
    for (int64_t width : {3, 38}) {  // an odd and an even number of elements
      Text text;
      const auto rows = text.input(i64, {11}), x = text.input(dtype, {11, width}),
                 out = text.output(dtype, {5, width});
      text.version(out);
      text.line("map (i0 < 5, i1 < {}) {{\n  %0 = constant {} : {}\n  store {}[i0, i1] = %0\n}}", width,
                number(dtype, 1), type, out);
      text.line("scatter (i0 < 11, i1 < {}) {{\n  %0 = load {}[i0] : i64\n  $1 = indirect %0 < 5 wrap", width,
                rows);
      text.line("  %2 = load {}[i0, i1] : {}\n  store {}.1[$1, i1]{} = %2\n}}", x, type, out, mode);
      cases.push_back({fmt::format("{} rows{}", width, mode),
                       text.finish(out + ".1"),
                       {Values::signed_index, values},
                       0,
                       false});
    }
  return cases;
}

/// Running sums along a dim, forwards and backwards.
std::vector<KernelCase> serial_cases(DType dtype) {
  std::vector<KernelCase> cases;
  if (dtype == boolean) return cases;
  const auto type = name_of(dtype);
  for (bool backwards : {false, true})
    for (int64_t width : {1, 20}) {
      Text text;
      const auto x = text.input(dtype, {4, 13, width}), out = text.output(dtype, {4, 13, width});
      const std::string at = backwards ? "12 - t0" : "t0";
      const bool inner = width > 1;
      text.line("serial (i0 < 4{}, serial t0 < 13) {{", inner ? fmt::format(", i1 < {}", width) : "");
      const auto index = fmt::format("[i0, {}, {}]", at, inner ? "i1" : "0");
      text.line("  %0 = carried 0 : {}\n  %1 = load {}{} : {}\n  %2 = add %0, %1", type, x, index, type);
      text.line("  carry 0 = init {} next %2 : {}\n  store {}{} = %2\n}}", number(dtype, 0), type, out,
                index);
      cases.push_back({fmt::format("4x13x{}{}", width, backwards ? " backwards" : ""),
                       text.finish(out),
                       {Values::exact},
                       0,
                       false});
    }
  return cases;
}

using MakeCases = std::vector<KernelCase> (*)(DType);
constexpr std::array<std::pair<uint32_t, MakeCases>, 5> kinds = {
    std::pair{FE_STATEMENT_MAP, MakeCases(map_cases)},
    {FE_STATEMENT_REDUCE, reduce_cases},
    {FE_STATEMENT_CONTRACT, contract_cases},
    {FE_STATEMENT_SCATTER, scatter_cases},
    {FE_STATEMENT_SERIAL, serial_cases}};

}  // namespace

std::vector<std::string> kernel_names() {
  std::vector<std::string> names;
  for (const auto& [kind, make] : kinds) names.emplace_back(ferrite::loop::statement_name(kind));
  for (const auto& info : prim_table) names.emplace_back(info.name);
  return names;
}

std::vector<DType> types_of(const std::string& name) {
  std::vector<DType> result;
  const auto* info = find_prim(std::string_view(name));
  const auto contract = ferrite::loop::statement_name(FE_STATEMENT_CONTRACT);
  const auto serial = ferrite::loop::statement_name(FE_STATEMENT_SERIAL);
  for (DType dtype : computable)
    if (info ? (ferrite::loop::prim_class(dtype) & info->classes) != 0
             : dtype != boolean || (name != contract && name != serial))
      result.push_back(dtype);
  return result;
}

std::vector<KernelCase> cases_of(const KernelCell& cell) {
  for (const auto& [kind, make] : kinds)
    if (ferrite::loop::statement_name(kind) == cell.name) return make(cell.dtype);
  const auto* info = find_prim(std::string_view(cell.name));
  if (!info || !(ferrite::loop::prim_class(cell.dtype) & info->classes)) return {};
  return primitive_cases(*info, cell.dtype);
}

}  // namespace ferrite::core::plugin_check
