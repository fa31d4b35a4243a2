// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <algorithm>
#include <utility>

#include "ferrite/error.hpp"
#include "problem_reader.h"

namespace ferrite::contraction {

ReadProblem ProblemReader::run() {
  check_statement();
  const auto start = result_.problem;
  std::string why;
  // Either factor may play the role of the weights: try both orders.
  for (bool swapped : {false, true}) {
    result_.problem = start;
    result_.problem.swapped = swapped;
    result_.weight_dims.clear();
    plain_.clear();
    group_ = several_ = n_ = k_ = SIZE_MAX;
    packable_ = false;
    a_ = swapped ? s_.contract_b : s_.contract_a;
    b_ = swapped ? s_.contract_a : s_.contract_b;
    auto fault = read();
    if (fault.empty()) return std::move(result_);
    why += (why.empty() ? "" : "; with the operands the other way round, ") + fault;
  }
  decline(why);
}

void ProblemReader::check_statement() {
  if (s_.kind != FE_STATEMENT_CONTRACT) decline("it is no contraction");
  if (s_.stores.size() != 1 || s_.reductions.size() != 1 || s_.stores[0].mask != loop::none ||
      s_.stores[0].mode != FE_STORE_SET)
    decline("it stores more than one product");
  const auto& a = s_.ops[s_.contract_a];
  const auto& b = s_.ops[s_.contract_b];
  if (a.code != FE_OP_LOAD || b.code != FE_OP_LOAD) decline("its operands are computed");
  if (a.dtype != b.dtype) decline("its operands are of two types");
  auto& p = result_.problem;
  p.type = a.dtype;
  if ((abilities_.types & bit_of(p.type)) == 0)
    decline(abilities_.library, " multiplies no ", name_of(p.type));
  if (s_.reductions[0].accumulator != accumulator()) decline("it sums in another type");
  p.result = s_.ops[s_.stores[0].value].dtype;
  if (p.result != accumulator() && p.result != p.type) decline("its result is of another type");
  for (const auto& var : s_.vars) {
    if (var.kind == VarKind::serial || var.extent < 1) decline("it has loops that are none of a product");
    if (var.kind == VarKind::parallel) ++parallel_;
  }
}

std::vector<int64_t> ProblemReader::strides_of(const loop::Buffer& buffer) {
  return buffer.packing || buffer.kind == FE_BUFFER_LOCAL ? loop::contiguous_strides(buffer.dims)
                                                          : buffer.strides;
}

std::optional<int64_t> ProblemReader::stride(const loop::Buffer& buffer, Index at,
                                             index::Symbol symbol) const {
  const auto strides = strides_of(buffer);
  int64_t total = 0;
  for (size_t d = 0; d < at.size(); ++d) {
    const auto affine = kernel_.pool.affine(at[d]);
    if (!affine.rest.empty()) return {};
    for (const auto& [term, coefficient] : affine.terms)
      if (term == symbol) total += coefficient * strides[d];
  }
  return total;
}

int64_t ProblemReader::offset(const loop::Buffer& buffer, Index at) const {
  // As strides_of() has it, such a buffer is contiguous from its base on.
  if (buffer.packing || buffer.kind == FE_BUFFER_LOCAL) return 0;
  int64_t total = buffer.offset;
  for (size_t d = 0; d < at.size(); ++d) total += kernel_.pool.affine(at[d]).constant * buffer.strides[d];
  return total;
}

bool ProblemReader::uses(const BodyOp& load, index::Symbol symbol) const {
  return std::ranges::any_of(load.index, [&](auto expr) { return !symbols_of(expr, symbol).empty(); });
}

std::vector<index::Symbol> ProblemReader::symbols_of(index::Expr expr, index::Symbol wanted) const {
  std::vector<index::Symbol> found;
  kernel_.pool.collect_symbols(expr, found);
  std::erase_if(found, [&](auto symbol) { return symbol != wanted; });
  return found;
}

Operand ProblemReader::operand(loop::BufferId id, Index at) const {
  // LOCAL buffers are no arguments of the launch, so the number skips them.
  Operand result{0, offset(kernel_.buffers[id], at)};
  for (loop::BufferId k = 0; k < id; ++k) result.argument += kernel_.buffers[k].kind != FE_BUFFER_LOCAL;
  return result;
}

std::string ProblemReader::read() {
  auto& p = result_.problem;
  const auto& weight = kernel_.buffers[b().buffer];
  if (kernel_.buffers[a().buffer].packing) return "its first operand is packed";
  result_.weight = b().buffer;
  result_.constant = weight.kind == FE_BUFFER_CONSTANT && !weight.packing;
  p.packed = weight.packing.has_value();
  if (b().a != loop::none) return "both of its operands are masked";
  loops_.assign(s_.vars.size(), {});
  for (size_t v = 0; v < s_.vars.size(); ++v) {
    const auto symbol = s_.vars[v].symbol;
    const auto in_a = stride(kernel_.buffers[a().buffer], a().index, symbol),
               in_b = stride(weight, b().index, symbol);
    if (!in_a || !in_b) return "an operand's index is not linear in the loops";
    loops_[v].extent = s_.vars[v].extent;
    loops_[v].a = *in_a;
    loops_[v].b = *in_b;
  }
  p.a = operand(a().buffer, a().index);
  p.b = operand(b().buffer, b().index);
  if (!read_result(s_.stores[0].buffer, s_.stores[0].index)) return "the result's index is not linear";
  // The window and the bias are read by means of the channel loops, so these come first.
  channel_.clear();
  for (size_t v = 0; v < parallel_; ++v) {
    const auto symbol = s_.vars[v].symbol;
    if (!uses(a(), symbol) && !uses(b(), symbol)) return "a loop is in no operand";
    if (!uses(a(), symbol)) channel_.push_back(v);
  }
  p.convolution = is_convolution();
  if (p.convolution)
    if (auto fault = read_window(); !fault.empty()) return fault;
  if (!p.convolution && a().a != loop::none) return "an operand is masked";
  // The epilogue comes before the loops are merged: it sets the strides of the bias and of addends, and a map
  // in it replaces those of the result.
  if (!read_finish()) return "it stores more of the product than " + abilities_.library + " computes";
  read_epilogue();
  auto fault = p.convolution ? collect_window() : collect_product();
  if (!fault.empty()) return fault;
  find_weight_dims();
  if (p.packed && result_.weight_dims.empty()) return "the packed operand has a form that is not known";
  if (abilities_.packs && p.convolution && !p.packed && !(result_.constant && !result_.weight_dims.empty()))
    return "the weights of the convolution are no constant that could be packed";
  return {};
}

bool ProblemReader::read_result(loop::BufferId id, Index at) {
  const auto& buffer = kernel_.buffers[id];
  if (buffer.packing) return false;
  for (size_t v = 0; v < parallel_; ++v) {
    const auto step = stride(buffer, at, s_.vars[v].symbol);
    if (!step) return false;
    loops_[v].c = *step;
  }
  result_.problem.c = operand(id, at);
  return true;
}

size_t ProblemReader::number(index::Symbol symbol) const {
  size_t v = 0;
  while (v < s_.vars.size() && s_.vars[v].symbol != symbol) ++v;
  return v;
}

Loop ProblemReader::merge(std::vector<size_t> list) {
  Loop inner;
  if (list.empty()) return inner;
  inner = loops_[list[0]];
  list.erase(list.begin());
  // One loop advances all operands, so the strides of each must continue.
  auto follows = [&](size_t v) {
    const auto& outer = loops_[v];
    bool fits = outer.a == inner.a * inner.extent && outer.b == inner.b * inner.extent &&
                outer.c == inner.c * inner.extent && outer.bias == inner.bias * inner.extent;
    for (size_t k = 0; k < most_addends; ++k)
      fits = fits && outer.addend[k] == inner.addend[k] * inner.extent;
    return fits;
  };
  for (auto next = std::ranges::find_if(list, follows); next != list.end();
       next = std::ranges::find_if(list, follows)) {
    inner.extent *= loops_[*next].extent;
    list.erase(next);
  }
  rest_.insert(rest_.end(), list.begin(), list.end());
  return inner;
}

std::string ProblemReader::collect_product() {
  auto& p = result_.problem;
  std::vector<size_t> m, n, k;
  rest_.clear();
  for (size_t v = 0; v < s_.vars.size(); ++v) {
    const auto symbol = s_.vars[v].symbol;
    if (s_.vars[v].kind == VarKind::reduction)
      k.push_back(v);
    else if (!uses(b(), symbol))
      m.push_back(v);
    else if (!uses(a(), symbol))
      n.push_back(v);
    else
      rest_.push_back(v);
  }
  if (k.empty()) return "it sums nothing";
  auto by_result = [&](size_t x, size_t y) { return loops_[x].c < loops_[y].c; };
  auto by_operand = [&](size_t x, size_t y) { return loops_[x].a < loops_[y].a; };
  // Innermost loops first, so that merge() starts with the contiguous one.
  std::ranges::stable_sort(m, by_result);
  std::ranges::stable_sort(n, by_result);
  std::ranges::stable_sort(k, by_operand);
  // A matrix times a vector has no columns here: its rows are the columns in the other order of operands.
  if (n.empty() ? !m.empty() : loops_[n[0]].c != 1) return "the result's columns do not lie side by side";
  const size_t single = n.size() == 1 && k.size() == 1 ? 1 : 0;
  p.n = merge(n);
  if (n.empty()) p.n.c = 1;
  const size_t before = rest_.size();
  p.k = merge(k);
  // A split reduction is not one product, even if its parts could be added.
  if (rest_.size() != before) return "its sum goes over loops that do not follow each other";
  p.m = merge(m);
  if (single != 0) n_ = n[0], k_ = k[0];
  // A library packs b as one matrix: two single loops, and no loop around the product that moves it.
  packable_ = single != 0 && std::ranges::none_of(rest_, [&](size_t v) { return loops_[v].b != 0; });
  if (rest_.size() > Problem::most_loops) return "it has too many loops";
  p.loop_count = 0;
  for (size_t v : rest_) p.loops[static_cast<size_t>(p.loop_count++)] = loops_[v];
  return {};
}

void ProblemReader::find_weight_dims() {
  const auto& p = result_.problem;
  if (!p.convolution && !packable_) return;
  std::vector<Role> dims;
  for (auto at : b().index) {
    // A loop of extent 1 may be gone from the statement: its dim then has the index 0.
    if (kernel_.pool.as_constant(at) == 0) {
      dims.push_back(Role::zero);
      continue;
    }
    const auto symbol = kernel_.pool.as_symbol(at);
    if (!symbol) return;
    const size_t v = number(*symbol);
    auto is = [&](size_t var) { return v == var && v < s_.vars.size(); };
    if (!p.convolution) {
      if (!is(n_) && !is(k_)) return;
      dims.push_back(is(n_) ? Role::n : Role::k);
    } else if (p.depthwise ? is(group_) : !channel_.empty() && is(channel_[0])) {
      dims.push_back(Role::n);
    } else if (!depth_.empty() && is(depth_[0])) {
      dims.push_back(Role::k);
    } else if (is(axes_.back().window)) {
      dims.push_back(Role::window_column);
    } else if (axes_.size() == 2 && is(axes_.front().window)) {
      dims.push_back(Role::window_row);
    } else {
      return;
    }
  }
  result_.weight_dims = std::move(dims);
}

bool is_sound(const Problem& p) {
  const auto some = [](const Loop& loop) { return loop.extent >= 1 && loop.extent <= loop::max_extent; };
  const auto window = [](const Window& w) {
    return w.size >= 1 && w.step >= 1 && w.dilation >= 1 && w.low >= 0;
  };
  return find_dtype(p.type) && find_dtype(p.result) && p.loop_count >= 0 &&
         p.loop_count <= static_cast<int64_t>(Problem::most_loops) && p.addend_count >= 0 &&
         p.addend_count <= static_cast<int64_t>(most_addends) && p.workers >= 1 &&
         p.activation >= Activation::none && p.activation <= Activation::gelu_tanh &&
         std::ranges::all_of(p.loops, some) && window(p.rows) && window(p.columns) && some(p.m) &&
         some(p.n) && some(p.k) && some(p.column) && some(p.window_row) && some(p.window_column);
}

ReadProblem read_problem(const loop::Kernel& kernel, const Abilities& abilities, size_t most_statements) {
  return ProblemReader(kernel, abilities, most_statements).run();
}

loop::Kernel read_kernel_of(std::span<const std::byte> bytes, std::string_view plugin) {
  std::string error;
  auto kernel = read_kernel(bytes, &error);
  if (!kernel || kernel->statements.empty())
    fail(std::string(plugin) + "/kernel", "the kernel cannot be read: ", error);
  return std::move(*kernel);
}

}  // namespace ferrite::contraction
