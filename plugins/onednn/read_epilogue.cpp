// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What oneDNN computes with a product: sums with a bias or other operands, and an activation.
#include <algorithm>
#include <bit>
#include <cstdio>

#include "dnnl.h"
#include "problem_reader.h"

namespace ferrite::onednn {
namespace {

/// The number of relu here: oneDNN's own gives 0 for NaN, so that it is computed behind it.
constexpr int64_t relu = dnnl::eltwise_relu;

struct Activation {
  const char*
      text;  ///< of the value, `x` being what comes in; operands of sums and products in the order of their text
  int64_t algorithm;
  float alpha;
};
constexpr Activation activations[] = {
    {"max(0,x)", relu, 0},
    {"tanh(x)", dnnl::eltwise_tanh, 0},
    {"div(1,add(1,exp(neg(x))))", dnnl::eltwise_logistic, 0},
    {"div(x,add(1,exp(neg(x))))", dnnl::eltwise_swish, 1},
    {"mul(add(1,erf(mul(0.707107,x))),mul(0.5,x))", dnnl::eltwise_gelu_erf, 0},
};

}  // namespace

std::optional<std::vector<int64_t>> ProblemReader::shape_of(const Statement& s, Index at) const {
  std::vector<int64_t> dims;
  for (auto expr : at) {
    if (const auto constant = kernel_.pool.as_constant(expr)) {
      dims.push_back(-1 - *constant);
      continue;
    }
    const auto symbol = kernel_.pool.as_symbol(expr);
    if (!symbol) return {};
    const auto found = std::ranges::find(s.vars, *symbol, &loop::Var::symbol);
    if (found == s.vars.end()) return {};
    dims.push_back(found - s.vars.begin());
  }
  return dims;
}

void ProblemReader::read_epilogue() {
  auto& p = result_.problem;
  if (p.bf16) return;
  const auto* last = &s_;
  for (size_t k = 1; k < kernel_.statements.size() && p.activation == 0; ++k) {
    const auto& map = kernel_.statements[k];
    const auto between = last->stores[0].buffer;
    if (kernel_.buffers[between].kind != FE_BUFFER_LOCAL || is_read(between, k + 1)) return;
    if (map.kind != FE_STATEMENT_MAP || map.vars.size() != parallel_ || map.stores.size() != 1 ||
        map.stores[0].mask != loop::none || map.stores[0].mode != FE_STORE_SET ||
        map.ops[map.stores[0].value].dtype != f32)
      return;
    for (size_t v = 0; v < parallel_; ++v)
      if (map.vars[v].extent != s_.vars[v].extent || map.vars[v].kind != VarKind::parallel) return;
    const auto stored = shape_of(*last, last->stores[0].index);
    for (const auto& op : map.ops)
      if (op.code == FE_OP_LOAD && op.buffer == between &&
          (op.a != loop::none || !stored || shape_of(map, op.index) != stored))
        return;
    const auto loops = loops_;
    const auto before = p;
    if (!add_step(map, between) || !read_result_of(map)) {
      loops_ = loops;
      p = before;
      return;
    }
    p.covered = static_cast<int64_t>(k) + 1;
    last = &map;
  }
}

bool ProblemReader::is_read(loop::BufferId buffer, size_t from) const {
  for (size_t k = from; k < kernel_.statements.size(); ++k)
    for (const auto& op : kernel_.statements[k].ops)
      if (op.code == FE_OP_LOAD && op.buffer == buffer) return true;
  return false;
}

bool ProblemReader::read_result_of(const Statement& map) {
  const auto& buffer = kernel_.buffers[map.stores[0].buffer];
  if (buffer.packing) return false;
  for (size_t v = 0; v < parallel_; ++v) {
    const auto step = stride(buffer, map.stores[0].index, map.vars[v].symbol);
    if (!step) return false;
    loops_[v].c = *step;
  }
  result_.problem.c = operand(map.stores[0].buffer, map.stores[0].index);
  return true;
}

bool ProblemReader::add_step(const Statement& map, loop::BufferId product) {
  auto& p = result_.problem;
  const auto value = map.stores[0].value;
  auto is_product = [&](const BodyOp& op) { return op.code == FE_OP_LOAD && op.buffer == product; };
  loop::OpId at = 0;
  while (at < map.ops.size() && !is_product(map.ops[at])) ++at;
  if (std::ranges::count_if(map.ops, is_product) != 1) return false;
  while (at != value) {
    const auto text = text_of(map, value, at, 0);
    for (const auto& known : activations)
      if (text == known.text) {
        // Some of oneDNN's convolutions give 0 for the sigmoid of NaN.
        if (p.convolution && known.algorithm == dnnl::eltwise_logistic) return false;
        p.activation = known.algorithm;
        p.alpha = known.alpha;
        return true;
      }
    auto uses_it = [&](const BodyOp& op) { return op.a == at || op.b == at || op.c == at; };
    const auto next = std::ranges::find_if(map.ops, uses_it);
    if (std::ranges::count_if(map.ops, uses_it) != 1 || !next->is_prim() || next->prim() != Prim::add_ ||
        next->dtype != f32 || !add_addend(map, map.ops[next->a == at ? next->b : next->a]))
      return false;
    at = static_cast<loop::OpId>(next - map.ops.begin());
  }
  return true;
}

bool ProblemReader::add_addend(const Statement& map, const BodyOp& load) {
  auto& p = result_.problem;
  if (load.code != FE_OP_LOAD || load.a != loop::none || load.dtype != f32) return false;
  const auto& buffer = kernel_.buffers[load.buffer];
  if (buffer.packing || buffer.kind == FE_BUFFER_LOCAL) return false;
  std::vector<int64_t> steps(parallel_);
  bool of_channel = true, whole = true;
  for (size_t v = 0; v < parallel_; ++v) {
    const auto step = stride(buffer, load.index, map.vars[v].symbol);
    if (!step) return false;
    steps[v] = *step;
    const bool channel = p.depthwise ? v == group_ : std::ranges::find(channel_, v) != channel_.end();
    if (s_.vars[v].extent != 1) {
      of_channel = of_channel && (channel ? *step == 1 : *step == 0);
      whole = whole && *step != 0;
    }
  }
  if (of_channel && p.bias.argument < 0) {
    for (size_t v = 0; v < parallel_; ++v) loops_[v].bias = steps[v];
    p.bias = operand(load.buffer, load.index);
    return true;
  }
  // A row of it is one element, or lies side by side as the result's does.
  for (size_t v : p.convolution ? std::vector<size_t>() : channel_)
    if (s_.vars[v].extent != 1 && steps[v] != 0 && steps[v] != loops_[v].c) return false;
  const auto number = static_cast<size_t>(p.addend_count);
  if ((p.convolution && (!whole || number > 0)) || number == most_addends) return false;
  for (size_t v = 0; v < parallel_; ++v) loops_[v].addend[number] = steps[v];
  p.addends[number] = operand(load.buffer, load.index);
  ++p.addend_count;
  return true;
}

std::string ProblemReader::text_of(const Statement& map, loop::OpId id, loop::OpId x, int depth) const {
  const auto& op = map.ops[id];
  if (id == x) return "x";
  if (op.code == FE_OP_CONSTANT && op.dtype == f32) {
    char text[32];
    std::snprintf(text, sizeof text, "%g",
                  static_cast<double>(std::bit_cast<float>(static_cast<uint32_t>(op.bits))));
    return text;
  }
  constexpr int deepest = 12;
  const auto* info = op.is_prim() ? find_prim(op.code) : nullptr;
  if (!info || op.dtype != f32 || depth == deepest) return "?";
  std::vector<std::string> operands;
  for (auto operand : {op.a, op.b, op.c})
    if (operand != loop::none) operands.push_back(text_of(map, operand, x, depth + 1));
  const auto prim = op.prim();
  if (prim == Prim::add_ || prim == Prim::mul_ || prim == Prim::max_ || prim == Prim::min_)
    std::ranges::sort(operands);
  std::string text(info->name);
  for (size_t k = 0; k < operands.size(); ++k) text += (k == 0 ? "(" : ",") + operands[k];
  return text + ")";
}

}  // namespace ferrite::onednn
