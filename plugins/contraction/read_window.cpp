// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The operand of a convolution: the dims that a window moves over, and the mask that keeps it inside them.
#include <algorithm>
#include <utility>

#include "problem_reader.h"

namespace ferrite::contraction {

bool ProblemReader::is_convolution() const {
  if (s_.contract_kind != FE_CONTRACT_CONV) return false;
  if (a().a != loop::none) return true;
  for (auto at : a().index) {
    const auto affine = kernel_.pool.affine(at);
    if (affine.terms.size() > 1) return true;
    if (affine.terms.size() == 1 && affine.terms[0].second != 1) return true;
  }
  return false;
}

std::string ProblemReader::read_window() {
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
      // A loop without a window: the channel of both operands, an image, or an axis, which can be treated as
      // an image.
      if (axis.shift != 0) return "a loop goes over a part of a dim";
      if (uses(b(), s_.vars[axis.out].symbol)) {
        if (std::exchange(result_.problem.depthwise, 1)) return "two loops are in both operands";
        group_ = axis.out;
      } else {
        plain_.push_back(axis);
      }
      continue;
    }
    // Channels within a group, and the loop over groups.
    if (abilities_.groups && axis.window != SIZE_MAX && uses(b(), s_.vars[axis.out].symbol)) {
      if (axis.form.dilation != 1 || axis.form.step != s_.vars[axis.window].extent || axis.shift != 0 ||
          several_ != SIZE_MAX)
        return "the convolution's groups have another form";
      several_ = axis.out;
      depth_.push_back(axis.window);
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
    const int64_t span = (window - 1) * axis.form.dilation + 1;
    const int64_t reach = (out - 1) * axis.form.step + span;
    // If a mask gives the valid range, the padding is the distance to its start.
    const int64_t first = axis.lower.value_or(0);
    axis.form.low = std::max<int64_t>(0, first);
    axis.shift += axis.form.low;
    axis.form.size = std::min(reach, axis.upper.value_or(reach)) - axis.form.low;
    if (axis.form.size < 1) return "the convolution reads nothing but padding";
    if (axis.shift < 0 || axis.shift >= std::max<int64_t>(1, buffer.dims[axis.dim]))
      return "the convolution reads beside its operand";
    // Take the whole dim if the elements after the last window are too few for another one: libraries expect
    // images without gaps.
    const int64_t whole = buffer.dims[axis.dim] - axis.shift;
    if (axis.form.size + axis.form.low == reach && whole > axis.form.size &&
        (whole + axis.form.low - span) / axis.form.step + 1 == out)
      axis.form.size = whole;
  }
  return {};
}

std::string ProblemReader::read_mask() {
  if (a().a == loop::none) return {};
  if (a().b == loop::none || s_.ops[a().b].code != FE_OP_CONSTANT || s_.ops[a().b].bits != 0)
    return "the values beside the operand are not 0";
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

std::string ProblemReader::collect_window() {
  auto& p = result_.problem;
  const auto strides = kernel_.buffers[a().buffer].strides;
  p.a.offset = kernel_.buffers[a().buffer].offset;
  for (const auto& axis : axes_) p.a.offset += axis.shift * strides[axis.dim];
  // With one window only, its axis provides the rows of output columns.
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
    out.a = strides[axis.dim];  // stride of an input element, not of a step
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
    if (loops_[v].b != 0 && v != several_) return "the convolution has groups of several channels";
    if (p.loop_count == static_cast<int64_t>(Problem::most_loops)) return "it has too many loops";
    p.loops[static_cast<size_t>(p.loop_count++)] = loops_[v];
  }
  for (size_t d = 0; d < static_cast<size_t>(p.addend_count); ++d)
    for (const auto* loop : {&p.m, &p.column, &p.n})
      if (loop->extent != 1 && loop->addend[d] == 0) return "the addend is not as large as the result";
  return {};
}

}  // namespace ferrite::contraction
