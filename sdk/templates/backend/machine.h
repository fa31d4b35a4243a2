// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Interprets a kernel, one point after the other. A real backend has code for its machine in this place.
#pragma once

#include <ferrite/kernel.hpp>
#include <ferrite/loop_check.hpp>
#include <ferrite/plugin.hpp>

#include <bit>
#include <cmath>
#include <limits>

using namespace ferrite;

class Machine {
 public:
  /// `buffers`: one pointer for each buffer of the kernel that is not local, in the kernel's order.
  Machine(const loop::Kernel& kernel, void* const* buffers)
      : kernel_(kernel), symbols_(kernel.pool.symbol_count()) {
    for (const auto& buffer : kernel.buffers) {
      if (buffer.kind == FE_BUFFER_LOCAL) locals_.emplace_back(static_cast<size_t>(buffer.bytes()));
      data_.push_back(buffer.kind == FE_BUFFER_LOCAL ? locals_.back().data()
                                                     : static_cast<char*>(*buffers++));
    }
    for (const auto& statement : kernel.statements) placement_.push_back(loop::place(kernel.pool, statement));
  }

  /// The number of tasks: points of the variables that all statements share. They may run in any order.
  static int64_t tasks(const loop::Kernel& kernel) {
    int64_t count = 1;
    for (uint32_t v = 0; v < kernel.shared; ++v) count *= kernel.statements[0].vars[v].extent;
    return count;
  }
  void run(int64_t begin, int64_t end) {
    for (int64_t task = begin; task < end; ++task) {
      int64_t rest = task;
      for (uint32_t v = kernel_.shared; v-- > 0;) {
        const auto& var = kernel_.statements[0].vars[v];
        symbols_[var.symbol] = rest % var.extent;
        rest /= var.extent;
      }
      for (size_t s = 0; s < kernel_.statements.size(); ++s) points(s, kernel_.shared);
    }
  }

  /// Why the kernel cannot run here; empty if it can.
  static std::string unsupported_reason(const loop::Kernel& kernel) {
    for (const auto& buffer : kernel.buffers)
      if (buffer.dtype != f32 || buffer.packing) return "a buffer is not of f32, or is packed";
    for (const auto& statement : kernel.statements) {
      for (const auto& var : statement.vars)
        if (var.extent == 0) return "a loop has no points";
      for (const auto& reduction : statement.reductions)
        if (reduction.kind > FE_REDUCE_MIN) return "a reduction is not a sum, a product, or an extreme";
      for (const auto& op : statement.ops) {
        if (op.dtype != f32 && op.dtype != boolean && op.dtype != i64)
          return "a value is of no type known here";
        if (op.is_prim() ? std::isnan(apply(op.prim(), 1, 1, 1))
                         : op.code > FE_OP_REDUCED || op.code == FE_OP_INDIRECT)
          return "an operation is not known here";
      }
      for (const auto& store : statement.stores)
        if (store.mode != FE_STORE_SET) return "a store does not set";
    }
    return {};
  }

 private:
  /// Iterates over the parallel variables from v on. At each point it runs the reductions, the finish part
  /// and the stores.
  void points(size_t s, size_t v) {
    const auto& statement = kernel_.statements[s];
    if (v < statement.parallel_count()) {
      for (int64_t k = 0; k < statement.vars[v].extent; ++k) {
        symbols_[statement.vars[v].symbol] = k;
        points(s, v + 1);
      }
      return;
    }
    const double lowest = -std::numeric_limits<double>::infinity();
    values_.assign(statement.ops.size(), 0);
    reduced_.clear();
    for (const auto& reduction : statement.reductions)
      reduced_.push_back(reduction.kind == FE_REDUCE_PROD  ? 1
                         : reduction.kind == FE_REDUCE_MAX ? lowest
                         : reduction.kind == FE_REDUCE_MIN ? -lowest
                                                           : 0);
    reduce(s, v);
    evaluate(s, true);
    store(s, false);
  }

  void reduce(size_t s, size_t v) {
    const auto& statement = kernel_.statements[s];
    if (v < statement.vars.size()) {
      for (int64_t k = 0; k < statement.vars[v].extent; ++k) {
        symbols_[statement.vars[v].symbol] = k;
        reduce(s, v + 1);
      }
      return;
    }
    evaluate(s, false);
    store(s, true);
    for (size_t k = 0; k < reduced_.size(); ++k) {
      const double element = values_[statement.reductions[k].element];
      switch (statement.reductions[k].kind) {
        case FE_REDUCE_SUM: reduced_[k] += element; break;
        case FE_REDUCE_PROD: reduced_[k] *= element; break;
        case FE_REDUCE_MAX: reduced_[k] = apply(Prim::max_, reduced_[k], element, 0); break;
        default: reduced_[k] = apply(Prim::min_, reduced_[k], element, 0);
      }
    }
  }

  /// Evaluates the statement's operations that belong to the finish part, or those that do not.
  void evaluate(size_t s, bool finish) {
    const auto& ops = kernel_.statements[s].ops;
    auto value = [&](loop::OpId id) { return id == loop::none ? 0.0 : values_[id]; };
    for (size_t k = 0; k < ops.size(); ++k) {
      if (placement_[s].finish[k] != finish) continue;
      const auto& op = ops[k];
      double result = 0;
      switch (op.code) {
        case FE_OP_LOAD:  // a masked-off load may have an index out of range
          result = op.a == loop::none || value(op.a) != 0 ? *address(op.buffer, op.index) : value(op.b);
          break;
        case FE_OP_CONSTANT:
          result = op.dtype == f32 ? std::bit_cast<float>(static_cast<uint32_t>(op.bits))
                                   : static_cast<double>(static_cast<int64_t>(op.bits));
          break;
        case FE_OP_INDEX: result = static_cast<double>(kernel_.pool.eval(op.index[0], symbols_)); break;
        case FE_OP_REDUCED: result = reduced_[op.bits]; break;
        default: result = apply(op.prim(), value(op.a), value(op.b), value(op.c));
      }
      values_[k] = op.dtype == f32       ? static_cast<float>(result)
                   : op.dtype == boolean ? result != 0
                                         : std::trunc(result);
    }
  }

  /// Executes the stores that run at every point, or those that run once after the reduction.
  void store(size_t s, bool every_point) {
    const auto& stores = kernel_.statements[s].stores;
    for (size_t k = 0; k < stores.size(); ++k)
      if (placement_[s].every_point[k] == every_point &&
          (stores[k].mask == loop::none || values_[stores[k].mask] != 0))
        *address(stores[k].buffer, stores[k].index) = static_cast<float>(values_[stores[k].value]);
  }

  float* address(loop::BufferId id, const std::vector<index::Expr>& index) const {
    const auto& buffer = kernel_.buffers[id];
    int64_t offset = buffer.offset;
    for (size_t d = 0; d < index.size(); ++d)
      offset += kernel_.pool.eval(index[d], symbols_) * buffer.strides[d];
    return reinterpret_cast<float*>(data_[id]) + offset;
  }

  /// NaN for a primitive that is not supported here; no supported one gives NaN for operands of 1.
  static double apply(Prim prim, double a, double b, double c) {
    switch (prim) {
      case Prim::add_: return a + b;
      case Prim::sub_: return a - b;
      case Prim::mul_: return a * b;
      case Prim::div_: return a / b;
      case Prim::neg_: return -a;
      case Prim::abs_: return std::fabs(a);
      case Prim::min_: return a < b || a != a ? a : b;
      case Prim::max_: return a > b || a != a ? a : b;
      case Prim::fma_: return std::fma(a, b, c);
      case Prim::lt_: return a < b;
      case Prim::le_: return a <= b;
      case Prim::gt_: return a > b;
      case Prim::ge_: return a >= b;
      case Prim::eq_: return a == b;
      case Prim::ne_: return a != b;
      case Prim::and_: return a != 0 && b != 0;
      case Prim::or_: return a != 0 || b != 0;
      case Prim::not_: return a == 0;
      case Prim::cast_: return a;
      case Prim::where_: return a != 0 ? b : c;
      case Prim::exp_: return std::exp(a);
      case Prim::log_: return std::log(a);
      case Prim::sqrt_: return std::sqrt(a);
      case Prim::rsqrt_: return 1 / std::sqrt(a);
      case Prim::reciprocal_: return 1 / a;
      case Prim::tanh_: return std::tanh(a);
      case Prim::erf_: return std::erf(a);
      case Prim::floor_: return std::floor(a);
      default: return std::numeric_limits<double>::quiet_NaN();
    }
  }

  const loop::Kernel& kernel_;
  std::vector<char*> data_;
  std::vector<std::vector<char>> locals_;
  std::vector<loop::Placement> placement_;
  std::vector<int64_t> symbols_;  // by number
  std::vector<double> values_, reduced_;
};
