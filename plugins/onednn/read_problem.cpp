// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <algorithm>
#include <bit>
#include <cstdio>
#include <optional>
#include <utility>

#include "dnnl.h"
#include "ferrite/error.hpp"
#include "problem.h"

namespace ferrite::onednn {
namespace {

using loop::BodyOp;
using loop::Statement;
using loop::VarKind;
using Index = std::span<const index::Expr>;

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
    {"mul(add(1,erf(mul(0.5,mul(1.41421,x)))),mul(0.5,x))", dnnl::eltwise_gelu_erf, 0},
};

class Reader {
 public:
  explicit Reader(const loop::Kernel& kernel) : kernel_(kernel), s_(kernel.statements[0]) {}

  ReadProblem run() {
    check_statement();
    const auto start = result_.problem;
    std::string why;
    for (bool swapped : {false, true}) {
      result_.problem = start;
      result_.problem.swapped = swapped;
      result_.weight_dims.clear();
      plain_.clear();
      group_ = n_ = k_ = SIZE_MAX;
      packable_ = false;
      a_ = swapped ? s_.contract_b : s_.contract_a;
      b_ = swapped ? s_.contract_a : s_.contract_b;
      auto fault = read();
      if (fault.empty()) return std::move(result_);
      why += (why.empty() ? "" : "; with the operands the other way round, ") + fault;
    }
    decline(why);
  }

 private:
  const BodyOp& a() const { return s_.ops[a_]; }
  const BodyOp& b() const { return s_.ops[b_]; }

  void check_statement() {
    if (s_.kind != FE_STATEMENT_CONTRACT) decline("it is no contraction");
    if (s_.stores.size() != 1 || s_.reductions.size() != 1 || s_.stores[0].mask != loop::none ||
        s_.stores[0].mode != FE_STORE_SET)
      decline("it stores more than one product");
    const auto type = s_.ops[s_.contract_a].dtype;
    if (type != s_.ops[s_.contract_b].dtype || (type != f32 && type != bf16))
      decline("its operands are not both f32 or both bf16");
    auto& p = result_.problem;
    p.bf16 = type == bf16;
    const auto* value = &s_.ops[s_.stores[0].value];
    if (p.bf16 && value->code == static_cast<uint16_t>(Prim::cast_) && value->dtype == bf16) {
      p.bf16_result = 1;
      value = &s_.ops[value->a];
    }
    const auto reduced = [&](loop::OpId id) { return s_.ops[id].code == FE_OP_REDUCED; };
    if (!p.bf16 && value->is_prim() && value->prim() == Prim::add_ &&
        reduced(value->a) != reduced(value->b)) {
      finish_ = reduced(value->a) ? value->b : value->a;
      value = &s_.ops[reduced(value->a) ? value->a : value->b];
    }
    if (value->code != FE_OP_REDUCED || value->dtype != f32)
      decline("what it stores is not the product, or that and a bias");
    for (const auto& var : s_.vars) {
      if (var.kind == VarKind::serial || var.extent < 1) decline("it has loops that are none of a product");
      if (var.kind == VarKind::parallel) ++parallel_;
    }
  }

  // -- indices

  /// What a kernel keeps to itself becomes a buffer where its rest is computed by somebody else.
  static std::vector<int64_t> strides_of(const loop::Buffer& buffer) {
    return buffer.packing || buffer.kind == FE_BUFFER_LOCAL ? loop::contiguous_strides(buffer.dims)
                                                            : buffer.strides;
  }
  /// How far a step of a variable goes, in elements; none where that is not always the same.
  std::optional<int64_t> stride(const loop::Buffer& buffer, Index at, index::Symbol symbol) const {
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
  int64_t offset(const loop::Buffer& buffer, Index at) const {
    if (buffer.packing || buffer.kind == FE_BUFFER_LOCAL) return 0;
    int64_t total = buffer.offset;
    for (size_t d = 0; d < at.size(); ++d) total += kernel_.pool.affine(at[d]).constant * buffer.strides[d];
    return total;
  }
  bool uses(const BodyOp& load, index::Symbol symbol) const {
    return std::ranges::any_of(load.index, [&](auto expr) { return !symbols_of(expr, symbol).empty(); });
  }
  std::vector<index::Symbol> symbols_of(index::Expr expr, index::Symbol wanted) const {
    std::vector<index::Symbol> found;
    kernel_.pool.collect_symbols(expr, found);
    std::erase_if(found, [&](auto symbol) { return symbol != wanted; });
    return found;
  }
  Operand operand(loop::BufferId id, Index at) const {
    Operand result{0, offset(kernel_.buffers[id], at)};
    for (loop::BufferId k = 0; k < id; ++k) result.argument += kernel_.buffers[k].kind != FE_BUFFER_LOCAL;
    return result;
  }

  // -- loops

  std::string read() {
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
    if (finish_ != loop::none && !add_addend(s_, s_.ops[finish_]))
      return "what is added to the product is no bias";
    read_epilogue();
    auto fault = p.convolution ? collect_window() : collect_product();
    if (!fault.empty()) return fault;
    find_weight_dims();
    if (p.packed && result_.weight_dims.empty()) return "the packed operand has a form that is not known";
    if (p.convolution && !p.packed && !(result_.constant && !result_.weight_dims.empty()))
      return "the weights of the convolution are no constant that could be packed";
    return {};
  }

  bool read_result(loop::BufferId id, Index at) {
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

  /// Whether an index adds loops, or steps over elements, or reads beside the operand.
  bool is_convolution() const {
    if (s_.contract_kind != FE_CONTRACT_CONV) return false;
    if (a().a != loop::none) return true;
    for (auto at : a().index) {
      const auto affine = kernel_.pool.affine(at);
      if (affine.terms.size() > 1) return true;
      if (affine.terms.size() == 1 && affine.terms[0].second != 1) return true;
    }
    return false;
  }

  size_t number(index::Symbol symbol) const {
    size_t v = 0;
    while (v < s_.vars.size() && s_.vars[v].symbol != symbol) ++v;
    return v;
  }

  struct Axis {
    size_t out = SIZE_MAX, window = SIZE_MAX;  // variables
    size_t dim = 0;                            // of a's buffer
    Window form;
    int64_t shift = 0;                    // elements of the dim, before the first one that counts
    std::optional<int64_t> lower, upper;  // by the mask, of o * step + k * dilation
  };

  /// The dims of `a` that a window goes over.
  std::string read_window() {
    axes_.clear();
    depth_.clear();
    result_.problem.depthwise = 0;
    const auto& buffer = kernel_.buffers[a().buffer];
    for (size_t d = 0; d < a().index.size(); ++d) {
      const auto affine = kernel_.pool.affine(a().index[d]);
      if (affine.terms.empty()) continue;
      if (affine.terms.size() > 2) return "an index of a convolution adds more than two loops";
      Axis axis;
      axis.dim = d;
      axis.form.size = 0;
      axis.shift = affine.constant;
      for (const auto& [symbol, coefficient] : affine.terms) {
        const size_t v = number(symbol);
        if (v == s_.vars.size() || coefficient < 1) return "an index of a convolution has another form";
        if (v < parallel_) {
          if (axis.out != SIZE_MAX) return "an index of a convolution adds two loops of the result";
          axis.out = v;
          axis.form.step = coefficient;
        } else {
          if (axis.window != SIZE_MAX) return "an index of a convolution adds two loops of a sum";
          axis.window = v;
          axis.form.dilation = coefficient;
        }
      }
      if (axis.out == SIZE_MAX) {
        if (axis.form.dilation != 1 || axis.shift != 0) return "a sum goes over a part of a dim";
        depth_.push_back(axis.window);
        continue;
      }
      if (axis.window == SIZE_MAX && axis.form.step == 1) {
        // A loop of its own: the channel of both operands, an image, or an axis without a window, which is as good as an image.
        if (axis.shift != 0) return "a loop goes over a part of a dim";
        if (uses(b(), s_.vars[axis.out].symbol)) {
          if (std::exchange(result_.problem.depthwise, 1)) return "two loops are in both operands";
          group_ = axis.out;
        } else {
          plain_.push_back(axis);
        }
        continue;
      }
      axes_.push_back(axis);
    }
    if (axes_.empty() || axes_.size() > 2) return "the convolution has no window of one or two dims";
    if (depth_.size() > 1 || (result_.problem.depthwise && !(depth_.empty() && channel_.empty())))
      return "the convolution has groups of several channels";
    if (auto fault = read_mask(); !fault.empty()) return fault;
    for (auto& axis : axes_) {
      const int64_t out = s_.vars[axis.out].extent;
      const int64_t window = axis.window == SIZE_MAX ? 1 : s_.vars[axis.window].extent;
      const int64_t reach = (out - 1) * axis.form.step + (window - 1) * axis.form.dilation + 1;
      // Where the mask says what counts, the padding is what lies before it.
      const int64_t first = axis.lower.value_or(0);
      axis.form.low = std::max<int64_t>(0, first);
      axis.shift += axis.form.low;
      axis.form.size = std::min(reach, axis.upper.value_or(reach)) - axis.form.low;
      if (axis.form.size < 1) return "the convolution reads nothing but padding";
      if (axis.shift < 0 || axis.shift >= std::max<int64_t>(1, buffer.dims[axis.dim]))
        return "the convolution reads beside its operand";
    }
    return {};
  }

  /// The mask has to say nothing but that points of the window lie within the operand.
  std::string read_mask() {
    if (a().a == loop::none) return {};
    if (a().b == loop::none || s_.ops[a().b].code != FE_OP_CONSTANT || s_.ops[a().b].bits != 0)
      return "what lies beside the operand is not 0";
    std::vector<loop::OpId> open = {a().a};
    while (!open.empty()) {
      const auto& op = s_.ops[open.back()];
      open.pop_back();
      if (!op.is_prim()) return "the mask has another form";
      if (op.prim() == Prim::and_) {
        open.push_back(op.a);
        open.push_back(op.b);
        continue;
      }
      if (op.a == loop::none || op.b == loop::none) return "the mask has another form";
      const auto &left = s_.ops[op.a], &right = s_.ops[op.b];
      if (left.code != FE_OP_INDEX || right.code != FE_OP_CONSTANT) return "the mask has another form";
      const auto compared = kernel_.pool.affine(left.index[0]);
      const auto bound = static_cast<int64_t>(right.bits);
      auto same = [&](const Axis& axis) {
        const auto affine = kernel_.pool.affine(a().index[axis.dim]);
        return compared.rest.empty() && compared.terms == affine.terms;
      };
      const auto found = std::ranges::find_if(axes_, same);
      if (found == axes_.end()) return "the mask compares something else than a point of the window";
      if (op.prim() == Prim::ge_)
        found->lower = std::max(found->lower.value_or(INT64_MIN), bound - compared.constant);
      else if (op.prim() == Prim::lt_)
        found->upper = std::min(found->upper.value_or(INT64_MAX), bound - compared.constant);
      else
        return "the mask has another form";
    }
    return {};
  }

  std::string collect_window() {
    auto& p = result_.problem;
    const auto strides = kernel_.buffers[a().buffer].strides;
    p.a.offset = kernel_.buffers[a().buffer].offset;
    for (const auto& axis : axes_) p.a.offset += axis.shift * strides[axis.dim];
    // One window: its axis is the row of the output's columns.
    if (axes_.size() == 1 && !plain_.empty() && plain_.back().dim + 1 == axes_[0].dim) {
      auto rows = plain_.back();
      plain_.pop_back();
      rows.form.size = s_.vars[rows.out].extent;
      axes_.insert(axes_.begin(), rows);
    }
    std::vector<bool> used(s_.vars.size());
    auto take = [&](size_t v) {
      if (v == SIZE_MAX) return Loop();
      used[v] = true;
      return loops_[v];
    };
    auto at = [&](const Axis& axis, Loop& out, Loop& window, Window& form) {
      out = take(axis.out);
      window = take(axis.window);
      form = axis.form;
      out.a = strides[axis.dim];  // of an element of the input, not of a step
    };
    at(axes_.back(), p.column, p.window_column, p.columns);
    if (axes_.size() == 2) at(axes_.front(), p.m, p.window_row, p.rows);
    if (!depth_.empty()) p.k = take(depth_[0]);
    if (p.depthwise) {
      p.n = take(group_);
    } else {
      if (channel_.size() > 1) return "the convolution's channels are several loops";
      if (!channel_.empty()) p.n = take(channel_[0]);
    }
    if (p.n.extent == 1) p.n.c = 1;
    for (size_t v = 0; v < s_.vars.size(); ++v) {
      if (used[v]) continue;
      if (v >= parallel_) return "the convolution sums over more than a window and channels";
      if (loops_[v].b != 0) return "the convolution has groups of several channels";
      if (p.loop_count == static_cast<int64_t>(Problem::most_loops)) return "it has too many loops";
      p.loops[static_cast<size_t>(p.loop_count++)] = loops_[v];
    }
    for (size_t d = 0; d < static_cast<size_t>(p.addend_count); ++d)
      for (const auto* loop : {&p.m, &p.column, &p.n})
        if (loop->extent != 1 && loop->addend[d] == 0) return "what is added is not as large as the result";
    return {};
  }

  /// Makes one loop of as many of these as lie one after the other in every operand, starting with the first one; the others become
  /// loops around the product.
  Loop merge(std::vector<size_t> list) {
    Loop inner;
    if (list.empty()) return inner;
    inner = loops_[list[0]];
    list.erase(list.begin());
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

  std::string collect_product() {
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
    std::ranges::stable_sort(m, by_result);
    std::ranges::stable_sort(n, by_result);
    std::ranges::stable_sort(k, by_operand);
    if (n.empty() ? !m.empty() : loops_[n[0]].c != 1) return "the result's columns do not lie side by side";
    const size_t single = n.size() == 1 && k.size() == 1 ? 1 : 0;
    p.n = merge(n);
    if (n.empty()) p.n.c = 1;
    const size_t before = rest_.size();
    p.k = merge(k);
    if (rest_.size() != before) return "its sum goes over loops that do not follow each other";
    p.m = merge(m);
    if (single != 0) n_ = n[0], k_ = k[0];
    packable_ = single != 0 && std::ranges::none_of(rest_, [&](size_t v) { return loops_[v].b != 0; });
    if (rest_.size() > Problem::most_loops) return "it has too many loops";
    p.loop_count = 0;
    for (size_t v : rest_) p.loops[static_cast<size_t>(p.loop_count++)] = loops_[v];
    return {};
  }

  void find_weight_dims() {
    const auto& p = result_.problem;
    if (!p.convolution && !packable_) return;
    std::vector<Role> dims;
    for (auto at : b().index) {
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

  // -- epilogue

  /// Which variable each dim of an access is, or its constant; none for another form.
  std::optional<std::vector<int64_t>> shape_of(const Statement& s, Index at) const {
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

  /// Takes the statements that oneDNN computes with the product, one after the other.
  void read_epilogue() {
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

  bool is_read(loop::BufferId buffer, size_t from) const {
    for (size_t k = from; k < kernel_.statements.size(); ++k)
      for (const auto& op : kernel_.statements[k].ops)
        if (op.code == FE_OP_LOAD && op.buffer == buffer) return true;
    return false;
  }

  bool read_result_of(const Statement& map) {
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

  /// A map that adds to the product what it loads, and has an activation of that at most.
  bool add_step(const Statement& map, loop::BufferId product) {
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

  bool add_addend(const Statement& map, const BodyOp& load) {
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

  /// An expression as text, sums and products in one order.
  std::string text_of(const Statement& map, loop::OpId id, loop::OpId x, int depth) const {
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

  const loop::Kernel& kernel_;
  const Statement& s_;
  ReadProblem result_;
  loop::OpId a_ = 0, b_ = 0, finish_ = loop::none;  // the bias within the statement
  size_t parallel_ = 0;
  std::vector<Loop> loops_;      // by variable
  std::vector<size_t> channel_;  // variables of b and the result alone
  std::vector<size_t> depth_;    // of both operands, that a convolution sums over
  std::vector<size_t> rest_;     // around the product
  std::vector<Axis> axes_, plain_;
  size_t group_ = SIZE_MAX, n_ = SIZE_MAX, k_ = SIZE_MAX;
  bool packable_ = false;
};

}  // namespace

bool is_sound(const Problem& p) {
  const auto some = [](const Loop& loop) { return loop.extent >= 1 && loop.extent <= loop::max_extent; };
  const auto window = [](const Window& w) {
    return w.size >= 1 && w.step >= 1 && w.dilation >= 1 && w.low >= 0;
  };
  return p.loop_count >= 0 && p.loop_count <= static_cast<int64_t>(Problem::most_loops) &&
         p.addend_count >= 0 && p.addend_count <= static_cast<int64_t>(most_addends) && p.workers >= 1 &&
         std::ranges::all_of(p.loops, some) && window(p.rows) && window(p.columns) && some(p.m) &&
         some(p.n) && some(p.k) && some(p.column) && some(p.window_row) && some(p.window_column);
}

ReadProblem read_problem(const loop::Kernel& kernel) { return Reader(kernel).run(); }

}  // namespace ferrite::onednn
