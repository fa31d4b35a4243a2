// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Sums of products: matmul, gemm, einsum. Small floats multiply and accumulate in f32.
#include <algorithm>
#include <cmath>

#include "common.h"

namespace ferrite::standard {
namespace {

/// matmul's dims: [batch.., m, k] x [batch.., k, n]; a 1-D operand lacks m or n.
struct Matmul {
  Dims batch;
  int64_t m = 1, n = 1, k = 1;
  bool has_m = true, has_n = true;
  Dims result() const {
    Dims dims = batch;
    if (has_m) dims.push_back(m);
    if (has_n) dims.push_back(n);
    return dims;
  }
};
Matmul matmul_dims(const Instance& op) {
  auto a = typed(op, 0, numeric), b = op.operand(1);
  need_same_dtype(op, 1, a.dtype);
  // There are at most 64 loops over the result and over k.
  need_rank(op, 0, a.rank(), 1, 63);
  need_rank(op, 1, b.rank(), 1, 63);
  Matmul dims;
  dims.has_m = a.rank() > 1;
  dims.has_n = b.rank() > 1;
  dims.k = a.dims.back();
  if (dims.has_m) dims.m = a.dims[a.rank() - 2];
  if (dims.has_n) dims.n = b.dims.back();
  int64_t rows = b.dims[b.rank() - (dims.has_n ? 2 : 1)];
  need_fit(rows == dims.k, op, to_string(a), " has ", dims.k, " columns and ", to_string(b), " has ", rows,
           " rows");
  auto batch_of = [](const TensorType& type) {
    return Dims(type.dims.begin(),
                type.dims.end() - static_cast<std::ptrdiff_t>(std::min<size_t>(2, type.rank())));
  };
  dims.batch = broadcast_dims(op.op(), batch_of(a), batch_of(b));
  return dims;
}

/// The batch coordinates of operand k: aligned at the right, 0 if the dim has size 1.
Indices batch_index(Lowering& l, size_t k, const Indices& batch) {
  auto dims = l.op.operand(k).dims;
  size_t rank = dims.size() - std::min<size_t>(2, dims.size());
  Indices at;
  for (size_t d = 0; d < rank; ++d)
    at.push_back(dims[d] == 1 ? l.constant_index(0) : batch[batch.size() - rank + d]);
  return at;
}

void lower_matmul(Lowering& l) {
  auto dims = matmul_dims(l.op);
  auto vars = l.begin(dims.result(), {&dims.k, 1});
  Idx k = vars.back();
  vars.pop_back();
  Indices batch(vars.begin(), vars.begin() + static_cast<std::ptrdiff_t>(dims.batch.size()));
  Indices a = batch_index(l, 0, batch), b = batch_index(l, 1, batch);
  if (dims.has_m) a.push_back(vars[batch.size()]);
  a.push_back(k);
  b.push_back(k);
  if (dims.has_n) b.push_back(vars.back());
  // Loaded in statements of their own: in which order a call's arguments are evaluated depends on the
  // compiler, and so would the kernel's text.
  const Val right = widen(l.load(1, b)), left = widen(l.load(0, a));
  Val sum = l.contract(left, right, FE_CONTRACT_GEMM);
  l.store(l.result(), vars, cast(sum, l.result().type.dtype));
  l.end();
}

OpDef matmul_op() {
  return op_def("matmul")
      .doc(
          "The matrix product over the last two dims, batch dims broadcast; a 1-D operand is a row or a "
          "column.")
      .operands("a", "b")
      .infer([](const Instance& op) {
        return std::vector{TensorType{op.operand(0).dtype, matmul_dims(op).result()}};
      })
      .lower(lower_matmul)
      .samples({sample("%a: f32[5,7], %b: f32[7,3]", "matmul(%a, %b)"),
                sample("%a: f32[2,1,5,7], %b: f32[3,7,4]", "matmul(%a, %b)"),
                sample("%a: f32[7], %b: f32[7,3]", "matmul(%a, %b)"),
                sample("%a: f32[2,5,7], %b: f32[7]", "matmul(%a, %b)"),
                sample("%a: bf16[17,33], %b: bf16[33,9]", "matmul(%a, %b)"),
                sample("%a: i32[3,4], %b: i32[4,2]", "matmul(%a, %b)"),
                sample("%a: f32[3,0], %b: f32[0,2]", "matmul(%a, %b)")});
}

/// Whether an integer dtype can represent the number.
bool holds(DType dtype, double number) {
  const double end = std::ldexp(1.0, bits_of(dtype) - is_signed(dtype));
  return std::trunc(number) == number && number < end && number >= (is_signed(dtype) ? -end : 0);
}

OpDef gemm_op() {
  return op_def("gemm")
      .doc(
          "alpha * a * b + beta * c of matrices, a and b transposed where said; c broadcasts, and is not "
          "read "
          "where beta is 0. Integers wrap; where their dtype has not the number alpha or beta, the product "
          "is "
          "scaled and c added in f64, and the result is truncated and saturates.")
      .operands("a", "b", "c?")
      .attr(attr("alpha", 1.0))
      .attr(attr("beta", 1.0))
      .attr(attr("trans_a", false))
      .attr(attr("trans_b", false))
      .flags(FE_OP_DECOMPOSE_EARLY)
      .infer([](const Instance& op) {
        auto a = typed(op, 0, numeric), b = op.operand(1);
        need_same_dtype(op, 1, a.dtype);
        need_rank(op, 0, a.rank(), 2, 2);
        need_rank(op, 1, b.rank(), 2, 2);
        if (op.attrs.boolean("trans_a")) std::swap(a.dims[0], a.dims[1]);
        if (op.attrs.boolean("trans_b")) std::swap(b.dims[0], b.dims[1]);
        need_fit(a.dims[1] == b.dims[0], op, "a has ", a.dims[1], " columns and b has ", b.dims[0], " rows");
        TensorType result{a.dtype, {a.dims[0], b.dims[1]}};
        if (op.has_operand(2)) {
          need_same_dtype(op, 2, a.dtype);
          need_fit(broadcast_dims(op.op(), op.operand(2).dims, result.dims) == result.dims, op, "c ",
                   to_string(op.operand(2)), " does not broadcast to the result ", to_string(result));
        }
        return std::vector{result};
      })
      .decompose([](Graph& g, const Instance& op, std::span<const Value> operands) {
        auto transposed_if = [&](size_t k, std::string_view flag) {
          if (!op.attrs.boolean(flag)) return operands[k];
          return g.make("transpose", {operands[k]}, {attr("perm", Dims{1, 0})});
        };
        const double alpha = op.attrs.number("alpha"), beta = op.attrs.number("beta");
        const bool adds = op.has_operand(2) && beta != 0;
        const DType dtype = op.operand(0).dtype;
        const bool in_f64 = is_integer(dtype) && !(holds(dtype, alpha) && (!adds || holds(dtype, beta)));
        auto scaled = [&](Value x, double by) {
          if (in_f64) x = cast_to(g, x, f64);
          return by == 1.0 ? x : g.make("mul", {x, g.scalar(x.dtype(), by)});
        };
        Value product = g.make("matmul", {transposed_if(0, "trans_a"), transposed_if(1, "trans_b")});
        Value result = scaled(product, alpha);
        if (adds) result = g.make("add", {result, scaled(operands[2], beta)});
        return std::vector{cast_to(g, result, dtype)};
      })
      .samples({sample("%a: f32[7,5], %b: f32[3,7], %c: f32[3]",
                       "gemm(%a, %b, %c) {alpha = 0.5, beta = 2.0, trans_a = true, trans_b = true}"),
                sample("%a: i32[3,4], %b: i32[4,2], %c: i32[2]", "gemm(%a, %b, %c) {alpha = 0.5}")});
}

/// A parsed equation: one label per dim of each operand and of the result. The dims of an ellipsis get the
/// labels '0', '1', ..., from its last dim.
struct Equation {
  std::vector<std::string> operands;
  std::string result;
  std::string labels;  ///< the result's labels, then the summed ones
  Dims extents;        ///< extents of `labels`
};

std::string expand_ellipsis(const Instance& op, std::string term, size_t dims) {
  auto at = term.find("...");
  if (at == std::string::npos) return term;
  need_value(dims < 10, op, "equation", "has an ellipsis of more than 9 dims");
  std::string labels;
  for (size_t d = 0; d < dims; ++d) labels += static_cast<char>('0' + (9 - dims) + d);
  return term.replace(at, 3, labels);
}

Equation equation_of(const Instance& op) {
  std::string text;
  for (char c : op.attrs.string("equation"))
    if (c != ' ') text += c;
  auto arrow = text.find("->");
  std::string inputs = text.substr(0, arrow) + ",";
  Equation eq;
  for (size_t comma; (comma = inputs.find(',')) != std::string::npos; inputs.erase(0, comma + 1))
    eq.operands.push_back(inputs.substr(0, comma));
  need_value(eq.operands.size() == op.operand_count(), op, "equation", "has ", eq.operands.size(),
             " terms for ", op.operand_count(), " operands");
  size_t most = 0;  // dims of the longest ellipsis
  for (size_t k = 0; k < eq.operands.size(); ++k) {
    auto& term = eq.operands[k];
    size_t rank = op.operand(k).rank(), named = term.size();
    if (term.find("...") != std::string::npos) {
      named -= 3;
      need_value(named <= rank, op, "equation", "names ", named, " dims of operand ", k, " of rank ", rank);
      most = std::max(most, rank - named);
      term = expand_ellipsis(op, term, rank - named);
    }
    need_value(term.size() == rank && term.find('.') == std::string::npos, op, "equation", "has the term '",
               term, "' for operand ", k, " of rank ", rank);
  }
  std::string all;
  for (const auto& term : eq.operands) all += term;
  if (arrow != std::string::npos) {
    eq.result = expand_ellipsis(op, text.substr(arrow + 2), most);
  } else {  // the ellipsis, then the labels that occur once, in order
    for (char c : all)
      if (eq.result.find(c) == std::string::npos && (c <= '9' || std::count(all.begin(), all.end(), c) == 1))
        eq.result += c;
    std::sort(eq.result.begin(), eq.result.end());
  }
  eq.labels = eq.result;
  for (char c : all)
    if (eq.labels.find(c) == std::string::npos) eq.labels += c;
  need_value(eq.labels.size() <= 64, op, "equation", "has ", eq.labels.size(),
             " labels, the dims of ellipses among them, and 64 is the most");
  for (char c : eq.result)
    need_value(all.find(c) != std::string::npos && std::count(eq.result.begin(), eq.result.end(), c) == 1, op,
               "equation", "has the result label '", std::string(1, c),
               "', which must occur once there and in an operand");
  for (char c : eq.labels) {
    int64_t extent = 1;
    for (size_t k = 0; k < eq.operands.size(); ++k)
      for (size_t d = 0; d < eq.operands[k].size(); ++d) {
        if (eq.operands[k][d] != c) continue;
        int64_t dim = op.operand(k).dims[d];
        need_fit(extent == dim || extent == 1 || dim == 1, op, "label '", std::string(1, c), "' has sizes ",
                 extent, " and ", dim);
        if (dim != 1) extent = dim;
      }
    eq.extents.push_back(extent);
  }
  return eq;
}

void lower_einsum(Lowering& l) {
  auto eq = equation_of(l.op);
  auto split = eq.extents.begin() + static_cast<std::ptrdiff_t>(eq.result.size());
  Dims summed(split, eq.extents.end());
  auto vars = l.begin(Dims(eq.extents.begin(), split), summed);
  const bool moves_only = eq.operands.size() == 1 && summed.empty();  // and so preserves the bits of NaN
  std::vector<Val> x;
  for (size_t k = 0; k < eq.operands.size(); ++k) {
    Indices at;
    for (size_t d = 0; d < eq.operands[k].size(); ++d) {
      bool single = l.op.operand(k).dims[d] == 1;
      at.push_back(single ? l.constant_index(0) : vars[eq.labels.find(eq.operands[k][d])]);
    }
    const Val element = l.load(k, at);
    x.push_back(moves_only ? element : widen(element));
  }
  Val result;
  if (x.size() == 2 && !summed.empty()) {
    result = l.contract(x[0], x[1], FE_CONTRACT_GENERIC);
  } else {
    result = x[0];
    for (size_t k = 1; k < x.size(); ++k) result = result * x[k];
    if (!summed.empty()) result = l.reduce(FE_REDUCE_SUM, result);
  }
  vars.resize(eq.result.size());
  l.store(l.result(), vars, cast(result, l.result().type.dtype));
  l.end();
}

OpDef einsum_op() {
  return op_def("einsum")
      .doc(
          "The sum of products that the equation says, as NumPy's einsum: \"bij,bjk->bik\", with \"...\" for "
          "broadcast dims.")
      .operands("xs...")
      .required(attr("equation", ""))
      .infer([](const Instance& op) {
        auto x = typed(op, 0, numeric);
        for (size_t k = 1; k < op.operand_count(); ++k) need_same_dtype(op, k, x.dtype);
        auto eq = equation_of(op);
        eq.extents.resize(eq.result.size());
        return std::vector{TensorType{x.dtype, eq.extents}};
      })
      .lower(lower_einsum)
      .samples(
          {sample("%a: f32[2,3,4], %b: f32[2,4,5]", "einsum(%a, %b) {equation = \"bij,bjk->bik\"}"),
           sample("%a: f32[2,3,4]", "einsum(%a) {equation = \"...ij->...ji\"}"),
           sample("%a: f32[5,5]", "einsum(%a) {equation = \"ii\"}"),
           sample("%a: f32[3], %b: f32[4], %c: f32[3]", "einsum(%a, %b, %c) {equation = \"i,j,i->j\"}")});
}

}  // namespace

void add_contract(PluginBuilder& builder, const PluginContext&) {
  for (auto make : {matmul_op, gemm_op, einsum_op}) builder.add(make());
}

}  // namespace ferrite::standard
