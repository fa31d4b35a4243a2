// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The epilogues that libraries compute with a product: the addition of a bias or other operands, and an
// activation.
#include <algorithm>
#include <bit>
#include <cstdio>

#include "problem_reader.h"

namespace ferrite::contraction {
namespace {

struct Known {
  /// Text of the expression: `x` is its input, and operands of sums and products are sorted by their text.
  const char* text;
  Activation activation;
};
constexpr Known known_activations[] = {
    {"max(0,x)", Activation::relu},
    {"tanh(x)", Activation::tanh},
    {"div(1,add(1,exp(neg(x))))", Activation::sigmoid},
    {"div(x,add(1,exp(neg(x))))", Activation::silu},
    {"mul(add(1,erf(mul(0.707107,x))),mul(0.5,x))", Activation::gelu},
    {"mul(add(1,tanh(mul(0.797885,add(mul(0.044715,mul(mul(x,x),x)),x)))),mul(0.5,x))",
     Activation::gelu_tanh},
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

bool ProblemReader::read_finish() {
  loop::OpId at = 0;
  while (at < s_.ops.size() && s_.ops[at].code != FE_OP_REDUCED) ++at;
  return at < s_.ops.size() && add_steps(s_, at);
}

void ProblemReader::read_epilogue() {
  auto& p = result_.problem;
  if ((abilities_.epilogue_types & bit_of(p.type)) == 0) return;
  const auto* last = &s_;
  const size_t end = std::min(most_statements_, kernel_.statements.size());
  for (size_t k = 1; k < end && p.activation == Activation::none; ++k) {
    const auto& map = kernel_.statements[k];
    const auto between = last->stores[0].buffer;
    if (kernel_.buffers[between].kind != FE_BUFFER_LOCAL || is_read(between, k + 1)) return;
    if (map.kind != FE_STATEMENT_MAP || map.vars.size() != parallel_ || map.stores.size() != 1 ||
        map.stores[0].mask != loop::none || map.stores[0].mode != FE_STORE_SET)
      return;
    for (size_t v = 0; v < parallel_; ++v)
      if (map.vars[v].extent != s_.vars[v].extent || map.vars[v].kind != VarKind::parallel) return;
    const auto stored = shape_of(*last, last->stores[0].index);
    for (const auto& op : map.ops)
      if (op.code == FE_OP_LOAD && op.buffer == between &&
          (op.a != loop::none || !stored || shape_of(map, op.index) != stored))
        return;
    // The map may fail after some fields are set, so keep the state before it.
    const auto loops = loops_;
    const auto before = p;
    if (!take_result_type(map) || !add_map(map, between) || !read_result_of(map)) {
      loops_ = loops;
      p = before;
      return;
    }
    p.covered = static_cast<int64_t>(k) + 1;
    last = &map;
  }
}

bool ProblemReader::take_result_type(const Statement& map) {
  auto& p = result_.problem;
  const auto type = map.ops[map.stores[0].value].dtype;
  if (type == p.result) return true;
  // Earlier addends have the type of the result, which must not change after them.
  if ((type != accumulator() && type != p.type) || p.bias.argument >= 0 || p.addend_count > 0) return false;
  p.result = type;
  return true;
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

bool ProblemReader::add_map(const Statement& map, loop::BufferId product) {
  auto is_product = [&](const BodyOp& op) { return op.code == FE_OP_LOAD && op.buffer == product; };
  loop::OpId at = 0;
  while (at < map.ops.size() && !is_product(map.ops[at])) ++at;
  return std::ranges::count_if(map.ops, is_product) == 1 && add_steps(map, at);
}

bool ProblemReader::is_rounding(const BodyOp& op) const {
  const auto type = result_.problem.type;
  return op.is_prim() && op.prim() == Prim::cast_ && (op.dtype == accumulator() || op.dtype == type);
}

bool ProblemReader::add_steps(const Statement& s, loop::OpId at) {
  auto& p = result_.problem;
  const auto value = s.stores[0].value;
  while (at != value) {
    auto uses_it = [&](const BodyOp& op) { return op.a == at || op.b == at || op.c == at; };
    const auto next = std::ranges::find_if(s.ops, uses_it);
    if (next == s.ops.end()) return false;
    const bool once = std::ranges::count_if(s.ops, uses_it) == 1;
    // Operations between the sum and the store are computed in the accumulator's type, so casts change
    // nothing.
    if (once && is_rounding(*next)) {
      at = static_cast<loop::OpId>(next - s.ops.begin());
      continue;
    }
    if ((abilities_.epilogue_types & bit_of(p.type)) == 0) return false;
    const auto text = text_of(s, value, at, 0);
    for (const auto& known : known_activations)
      if (text == known.text) {
        p.activation = known.activation;
        return abilities_.activates(p, known.activation);
      }
    if (!once || !next->is_prim() || next->prim() != Prim::add_ || !is_computed(*next) ||
        !add_addend(s, next->a == at ? next->b : next->a))
      return false;
    at = static_cast<loop::OpId>(next - s.ops.begin());
  }
  return true;
}

bool ProblemReader::is_computed(const BodyOp& op) const {
  return op.dtype == accumulator() || op.dtype == result_.problem.type;
}

std::optional<double> ProblemReader::constant_of(const BodyOp& op) const {
  if (op.code != FE_OP_CONSTANT || !is_computed(op)) return {};
  if (op.dtype == f64) return std::bit_cast<double>(op.bits);
  if (op.dtype == f32) return std::bit_cast<float>(static_cast<uint32_t>(op.bits));
  const auto bits = static_cast<uint16_t>(op.bits);
  return op.dtype == bf16 ? bf16_value(bits) : f16_value(bits);
}

bool ProblemReader::add_addend(const Statement& map, loop::OpId addend) {
  auto& p = result_.problem;
  while (is_rounding(map.ops[addend])) addend = map.ops[addend].a;
  const auto& load = map.ops[addend];
  if (load.code != FE_OP_LOAD || load.a != loop::none || load.dtype != p.result) return false;
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
      const int64_t wanted = channel                              ? 1
                             : v == several_ && !channel_.empty() ? s_.vars[channel_[0]].extent
                                                                  : 0;
      of_channel = of_channel && *step == wanted;
      whole = whole && *step != 0;
    }
  }
  if (of_channel && p.bias.argument < 0) {
    for (size_t v = 0; v < parallel_; ++v) loops_[v].bias = steps[v];
    p.bias = operand(load.buffer, load.index);
    return true;
  }
  // Its rows must be a repeated element, or contiguous like those of the result.
  for (size_t v : p.convolution ? std::vector<size_t>() : channel_)
    if (s_.vars[v].extent != 1 && steps[v] != 0 && steps[v] != loops_[v].c) return false;
  const auto number = static_cast<size_t>(p.addend_count);
  if (number >= std::min(abilities_.addends, most_addends)) return false;
  if ((p.convolution || !abilities_.addends_repeat) && !whole) return false;
  if (p.convolution && number > 0) return false;
  for (size_t v = 0; v < parallel_; ++v) loops_[v].addend[number] = steps[v];
  p.addends[number] = operand(load.buffer, load.index);
  ++p.addend_count;
  return true;
}

std::string ProblemReader::text_of(const Statement& map, loop::OpId id, loop::OpId x, int depth) const {
  const auto& op = map.ops[id];
  if (id == x) return "x";
  if (is_rounding(op)) return text_of(map, op.a, x, depth);
  if (const auto constant = constant_of(op)) {
    char text[32];
    std::snprintf(text, sizeof text, "%g", *constant);
    return text;
  }
  constexpr int deepest = 12;
  const auto* info = op.is_prim() ? find_prim(op.code) : nullptr;
  if (!info || !is_computed(op) || depth == deepest) return "?";
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

}  // namespace ferrite::contraction
