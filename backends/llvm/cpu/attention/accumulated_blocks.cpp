// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "backends/llvm/cpu/attention/accumulated_blocks.h"

#include <algorithm>
#include <numeric>
#include <span>

#include "backends/llvm/analysis/statement_values.h"
#include "backends/llvm/cpu/gemm/emit.h"
#include "backends/llvm/gemm/tile_sizes.h"
#include "backends/llvm/nest/nest_emitter.h"
#include "ferrite/analysis/accumulated_products.hpp"

namespace ferrite::emitter {
namespace {

using Role = AccumulatedBlocks::Role;

constexpr int64_t most_rows = 64;      // more rows share the packed columns with no further gain
constexpr int64_t enough_rows = 16;    // fewer rows would read all columns too often
constexpr int64_t even_elements = 16;  // rows of a block start at cache lines
constexpr int64_t least_unit = 64;     // shorter passes load and store their sums too often
constexpr int64_t most_unit = 128;     // a coarser diagonal leaves out too little

int64_t points_before(const loop::Kernel& kernel, size_t count) {
  int64_t points = 1;
  for (const auto& var : std::span(kernel.statements[0].vars).first(count)) points *= var.extent;
  return points;
}

/// column - row + constant, as the difference of two operands of a comparison.
struct Distance {
  int64_t row = 0, column = 0, constant = 0;
  bool known = true;

  void add(const index::Pool& pool, const loop::BodyOp& op, int64_t sign, const loop::Var& row_var,
           const loop::Var& column_var) {
    if (op.code == FE_OP_CONSTANT && op.dtype == DType::i64_) {
      constant += sign * static_cast<int64_t>(op.bits);
    } else if (op.code == FE_OP_INDEX) {
      const auto affine = pool.affine(op.index[0]);
      known = known && affine.rest.empty();
      constant += sign * affine.constant;
      for (const auto& [symbol, coefficient] : affine.terms) {
        known = known && (symbol == row_var.symbol || symbol == column_var.symbol);
        (symbol == row_var.symbol ? row : column) += sign * coefficient;
      }
    } else {
      known = false;
    }
  }
};

/// A k for which the condition holds only where column <= row + k; nullopt if it says no such thing.
std::optional<int64_t> diagonal_of(const index::Pool& pool, const loop::Statement& statement,
                                   loop::OpId condition, const loop::Var& row, const loop::Var& column) {
  const auto& op = statement.ops[condition];
  if (!op.is_prim()) return std::nullopt;
  if (op.prim() == Prim::and_) {
    const auto a = diagonal_of(pool, statement, op.a, row, column),
               b = diagonal_of(pool, statement, op.b, row, column);
    return a && b ? std::min(*a, *b) : a ? a : b;
  }
  const bool less = op.prim() == Prim::le_ || op.prim() == Prim::lt_;
  const bool greater = op.prim() == Prim::ge_ || op.prim() == Prim::gt_;
  if (!less && !greater) return std::nullopt;
  Distance distance;
  distance.add(pool, statement.ops[op.a], less ? 1 : -1, row, column);
  distance.add(pool, statement.ops[op.b], less ? -1 : 1, row, column);
  if (!distance.known || distance.column != 1 || distance.row != -1) return std::nullopt;
  const bool strict = op.prim() == Prim::lt_ || op.prim() == Prim::gt_;
  return -distance.constant - (strict ? 1 : 0);
}

class Planner {
 public:
  Planner(const Target& target, loop::Kernel& kernel)
      : target_(target), kernel_(kernel), found_(loop::find_accumulated_products(kernel.pool, kernel)) {}

  std::optional<AccumulatedBlocks> plan() {
    if (!found_ || !shared_loops_are_independent()) return std::nullopt;
    plan_.extent = found_.rows;
    find_diagonal();
    if (!share_rows()) return std::nullopt;
    keep_rows();
    for (auto& statement : kernel_.statements) make_addresses(kernel_, statement);
    if (!plan_contracts()) return std::nullopt;
    choose_rows();
    if (plan_.diagonal && !diagonal_pays()) plan_.diagonal.reset();
    for (size_t s = 0; s < kernel_.statements.size(); ++s)
      if (plan_.contracts[s]) fit(*plan_.contracts[s], plan_.roles[s]);
    for (loop::BufferId b = 0; b < kernel_.buffers.size(); ++b)
      if (plan_.kept[b] > 0) kernel_.buffers[b].dims = {plan_.rows * plan_.kept[b]};
    return std::move(plan_);
  }

 private:
  bool shared_loops_are_independent() const {
    return std::ranges::all_of(kernel_.statements, [&](const loop::Statement& statement) {
      for (size_t k = 0; k < kernel_.shared; ++k)
        if (statement.vars[k].extent > 1 && !independent(kernel_.pool, statement, k)) return false;
      return true;
    });
  }

  bool is_matrix(loop::BufferId b) const { return found_.row_dim[b] != loop::none; }

  /// The other variable that addresses the matrices that the statement accesses; nullopt if there is none, or
  /// several.
  std::optional<loop::Var> column_of(const loop::Statement& statement) const {
    std::optional<index::Symbol> found;
    bool several = false;
    const auto visit = [&](loop::BufferId b, const std::vector<index::Expr>& index) {
      if (!is_matrix(b)) return;
      const auto& buffer = kernel_.buffers[b];
      for (uint32_t d = 0; d < index.size(); ++d) {
        if (d == found_.row_dim[b] || buffer.strides[d] == 0 || buffer.dims[d] == 1) continue;
        const auto symbol = kernel_.pool.as_symbol(index[d]);
        several = several || !symbol || (found && *found != *symbol);
        if (symbol) found = symbol;
      }
    };
    for (const auto& op : statement.ops)
      if (op.code == FE_OP_LOAD) visit(op.buffer, op.index);
    for (const auto& store : statement.stores) visit(store.buffer, store.index);
    if (several || !found) return std::nullopt;
    return *std::ranges::find(statement.vars, *found, &loop::Var::symbol);
  }

  /// The diagonal above which every matrix is zero: whoever stores one selects between a value and zero by
  /// the positions of row and column.
  void find_diagonal() {
    std::optional<int64_t> most;
    for (size_t s = 0; s < kernel_.statements.size(); ++s) {
      const auto& statement = kernel_.statements[s];
      for (const auto& store : statement.stores) {
        if (!is_matrix(store.buffer)) continue;
        const auto column = column_of(statement);
        const auto& value = statement.ops[store.value];
        if (!column || !value.is_prim() || value.prim() != Prim::where_) return;
        const auto& other = statement.ops[value.c];
        if (other.code != FE_OP_CONSTANT || other.bits != 0) return;
        const auto diagonal =
            diagonal_of(kernel_.pool, statement, value.a, statement.vars[found_.row_var[s]], *column);
        if (!diagonal) return;
        most = std::max(most.value_or(*diagonal), *diagonal);
        plan_.columns = column->extent;
      }
    }
    plan_.diagonal = most;
  }

  /// Makes the rows the last shared loop; of a product that sums over them, the rows of its result, which are
  /// the columns of the matrix.
  bool share_rows() {
    for (size_t s = 0; s < kernel_.statements.size(); ++s) {
      auto& vars = kernel_.statements[s].vars;
      size_t place = found_.row_var[s];
      if (found_.accumulates(kernel_, s)) {
        const auto column = column_of(kernel_.statements[s]);
        if (!column || column->kind != loop::VarKind::parallel) return false;
        place =
            static_cast<size_t>(std::ranges::find(vars, column->symbol, &loop::Var::symbol) - vars.begin());
        if (place < kernel_.shared) return false;
        plan_.roles.push_back(Role::accumulates);
      } else {
        plan_.roles.push_back(Role::map);  // products are told apart when they have a plan
      }
      const auto first = vars.begin() + kernel_.shared,
                 row = vars.begin() + static_cast<std::ptrdiff_t>(place);
      std::rotate(first, row, row + 1);
    }
    ++kernel_.shared;
    return true;
  }

  /// Gives each matrix a slot for each row, as if all rows existed.
  void keep_rows() {
    plan_.kept.assign(kernel_.buffers.size(), 0);
    for (loop::BufferId b = 0; b < kernel_.buffers.size(); ++b) {
      if (!is_matrix(b)) continue;
      auto& buffer = kernel_.buffers[b];
      buffer.dims[found_.row_dim[b]] = 1;
      int64_t row = ceil_div(buffer.extent(), even_elements) * even_elements;
      // A row stride that is a multiple of a page maps all rows to the same few cache sets.
      if (row * KernelContext::storage_bytes(buffer.dtype) % 2048 == 0) row += even_elements;
      plan_.kept[b] = buffer.strides[found_.row_dim[b]] = row;
    }
  }

  bool plan_contracts() {
    plan_.contracts.assign(kernel_.statements.size(), std::nullopt);
    for (size_t s = 0; s < kernel_.statements.size(); ++s) {
      if (kernel_.statements[s].kind != FE_STATEMENT_CONTRACT) continue;
      auto contract = plan_gemm_inside(target_, kernel_, s);
      if (!contract || contract->own_batches(kernel_.shared) != 1) return false;
      const bool multiplies =
          contract->row.load != loop::none && is_matrix(contract->statement.ops[contract->row.load].buffer);
      if (plan_.roles[s] == Role::accumulates) {
        if (!multiplies || contract->depth.vars.size() != 1) return false;
        // Passes over the depth are short, so the matrix is read in place, however long its rows are.
        contract->row.access = Access::direct;
        contract->row.dtype = contract->statement.ops[contract->row.load].dtype;
      } else {
        plan_.roles[s] = multiplies ? Role::consumes : Role::makes;
      }
      plan_.contracts[s] = std::move(contract);
    }
    return true;
  }

  /// The rows of a block: a multiple of every register block that works row by row.
  void choose_rows() {
    int64_t unit = 1, row_bytes = 1;
    for (size_t s = 0; s < kernel_.statements.size(); ++s)
      if (plan_.contracts[s] && plan_.roles[s] != Role::accumulates)
        unit = std::lcm(unit, int64_t{plan_.contracts[s]->block_rows});
    for (loop::BufferId b = 0; b < kernel_.buffers.size(); ++b)
      row_bytes += plan_.kept[b] * KernelContext::storage_bytes(kernel_.buffers[b].dtype);
    const int64_t most = std::clamp(target_.l2_bytes / 2 / row_bytes, enough_rows, most_rows);
    const int64_t blocks = ceil_div(plan_.extent, most);
    plan_.rows = ceil_div(ceil_div(plan_.extent, blocks), unit) * unit;
  }

  /// Whether blocks above the diagonal can be left out. The micro-kernels at the edges of a product are those
  /// of all its rows and columns, so columns end at a multiple of every register block.
  bool diagonal_pays() {
    for (size_t s = 0; s < kernel_.statements.size(); ++s) {
      if (!plan_.contracts[s]) continue;
      const auto& contract = *plan_.contracts[s];
      const bool stores = std::ranges::any_of(kernel_.statements[s].stores,
                                              [&](const auto& store) { return is_matrix(store.buffer); });
      switch (plan_.roles[s]) {
        case Role::map: continue;
        case Role::makes:
          if (!stores || contract.columns.vars.size() != 1) return false;
          plan_.unit = std::lcm(plan_.unit, contract.block_columns());
          break;
        case Role::consumes:
          if (stores || contract.depth.vars.size() != 1) return false;
          break;
        case Role::accumulates:
          plan_.sum_unit = std::lcm(plan_.sum_unit, int64_t{contract.block_rows});
          break;
      }
    }
    // Sums along a row are made in passes of this many columns.
    plan_.unit = ceil_div(least_unit, plan_.unit) * plan_.unit;
    return std::max(plan_.unit, plan_.sum_unit) <= most_unit && plan_.unit < plan_.columns &&
           plan_.rows < plan_.extent;
  }

  /// Sizes of a product's tile: the rows of a block, or all sums of a product that sums over them.
  void fit(GemmPlan& contract, Role role) const {
    if (role == Role::accumulates) {
      contract.tile_rows = ceil_div(contract.rows.extent, contract.block_rows) * contract.block_rows;
      contract.depth_tile = std::min(plan_.rows, contract.depth.extent);
      return;
    }
    contract.tile_rows = plan_.rows;
    // Sums along a row of the matrix end at the diagonal: they are made in short passes.
    if (plan_.diagonal && role == Role::consumes) contract.depth_tile = plan_.unit;
  }

  const Target& target_;
  loop::Kernel& kernel_;
  const loop::AccumulatedProducts found_;
  AccumulatedBlocks plan_;
};

class Emitter {
 public:
  Emitter(KernelContext& context, const AccumulatedBlocks& plan)
      : context_(context),
        builder_(context.builder),
        kernel_(context.kernel),
        plan_(plan),
        contracts_(kernel_.statements.size()),
        maps_(kernel_.statements.size()) {
    for (size_t s = 0; s < kernel_.statements.size(); ++s) {
      if (plan.contracts[s])
        contracts_[s].emplace(context, *plan.contracts[s]);
      else
        maps_[s] = plan_statement(context.target, kernel_, kernel_.statements[s], kernel_.shared);
    }
    for (loop::BufferId b = 0; b < kernel_.buffers.size(); ++b) bases_.push_back(context.base(b));
  }

  void emit(EmitResult& result) {
    result.tasks = points_before(kernel_, kernel_.shared - 1);
    result.grain = 1;
    context_.loop(context_.begin, context_.end, 1, "task", [&](llvm::Value* task) {
      point_ = task;
      coordinates_ =
          context_.coordinates(std::span(kernel_.statements[0].vars.data(), kernel_.shared - 1), task);
      each_sum([&](InnerGemm& sums, int64_t rows) {
        sums.begin_sums(point_, context_.i64(0), context_.i64(rows));
      });
      context_.loop(context_.i64(0), context_.i64(plan_.extent), plan_.rows, "block",
                    [&](llvm::Value* from) { emit_block(from); });
      each_sum([&](InnerGemm& sums, int64_t) { sums.finish_sums(); });
    });
  }

 private:
  llvm::Value* smaller(llvm::Value* a, int64_t b) {
    return builder_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, a, context_.i64(b));
  }
  llvm::Value* larger(llvm::Value* a, int64_t b) {
    return builder_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, a, context_.i64(b));
  }

  /// Calls body(product, rows of its result) for each product that keeps sums from block to block.
  template <class Body>
  void each_sum(Body&& body) {
    for (size_t s = 0; s < contracts_.size(); ++s)
      if (plan_.roles[s] == Role::accumulates && plan_.contracts[s]->deep())
        body(*contracts_[s], plan_.contracts[s]->rows.extent);
  }

  llvm::Value* rounded_up(llvm::Value* value, int64_t unit) {
    auto* units = builder_.CreateUDiv(builder_.CreateAdd(value, context_.i64(unit - 1)), context_.i64(unit));
    return smaller(builder_.CreateMul(units, context_.i64(unit)), plan_.columns);
  }

  void emit_block(llvm::Value* from) {
    auto* to = smaller(builder_.CreateNSWAdd(from, context_.i64(plan_.rows)), plan_.extent);
    // With a diagonal: the end of the columns that are not all zero in these rows. All columns that are
    // summed have to be made, zeros included.
    llvm::Value *end = nullptr, *sum_end = nullptr;
    if (plan_.diagonal) {
      sum_end = rounded_up(larger(builder_.CreateAdd(to, context_.i64(*plan_.diagonal)), 1), plan_.sum_unit);
      end = rounded_up(sum_end, plan_.unit);
    }
    auto* fresh = builder_.CreateICmpEQ(from, context_.i64(0));
    for (loop::BufferId b = 0; b < kernel_.buffers.size(); ++b)
      if (plan_.kept[b] > 0) {
        // Accesses use the row's number in the kernel, but the buffer starts with the block's first row: move
        // the base back.
        auto* before = builder_.CreateNSWMul(from, context_.i64(-plan_.kept[b]));
        context_.move_base(
            b, builder_.CreateGEP(context_.storage_type(kernel_.buffers[b].dtype), bases_[b], before));
      }
    for (size_t s = 0; s < contracts_.size(); ++s) {
      switch (plan_.roles[s]) {
        case Role::map: emit_map(s, from, to); break;
        case Role::makes:
          if (end)
            contracts_[s]->emit_front(point_, from, to, end, fresh);
          else
            contracts_[s]->emit(point_, from, to, fresh);
          break;
        case Role::consumes:
          if (!end) {
            contracts_[s]->emit(point_, from, to, fresh);
            break;
          }
          contracts_[s]->begin_sums(point_, from, to);
          context_.loop(context_.i64(0), end, plan_.contracts[s]->depth_tile, "columns",
                        [&](llvm::Value* column) { contracts_[s]->add_pass(column); });
          contracts_[s]->finish_sums();
          break;
        case Role::accumulates: {
          auto* rows = context_.i64(plan_.contracts[s]->rows.extent);
          if (plan_.contracts[s]->deep())
            contracts_[s]->add_pass(from, sum_end);
          else
            contracts_[s]->emit(point_, context_.i64(0), rows, builder_.getTrue());
          break;
        }
      }
    }
  }

  void emit_map(size_t s, llvm::Value* from, llvm::Value* to) {
    context_.loop(from, to, 1, "row", [&](llvm::Value* row) {
      const auto& vars = maps_[s]->statement.vars;
      Point at;
      for (size_t d = 0; d + 1 < kernel_.shared; ++d) at.set(vars[d].symbol, coordinates_[d]);
      at.set(vars[kernel_.shared - 1].symbol, row);
      StatementEmitter(context_, *maps_[s], false).emit(at, 0, {});
    });
  }

  KernelContext& context_;
  llvm::IRBuilder<>& builder_;
  loop::Kernel& kernel_;
  const AccumulatedBlocks& plan_;
  std::vector<std::optional<InnerGemm>> contracts_;
  std::vector<std::optional<StatementPlan>> maps_;
  std::vector<llvm::Value*> bases_;  ///< base pointers of the matrices before they move
  llvm::Value* point_ = nullptr;
  std::vector<llvm::Value*> coordinates_;
};

}  // namespace

std::optional<AccumulatedBlocks> plan_accumulated_blocks(const Target& target, loop::Kernel& kernel) {
  return Planner(target, kernel).plan();
}

void emit_accumulated_blocks(KernelContext& context, const AccumulatedBlocks& plan, EmitResult& result) {
  Emitter(context, plan).emit(result);
}

double accumulated_block_cycles(const Target& target, loop::Kernel& kernel, const AccumulatedBlocks& plan) {
  double cycles = 0;
  for (size_t s = 0; s < kernel.statements.size(); ++s) {
    if (plan.contracts[s]) {
      cycles += plan.contracts[s]->cycles;
      continue;
    }
    const auto map = plan_statement(target, kernel, kernel.statements[s], kernel.shared);
    cycles += static_cast<double>(points_before(kernel, kernel.shared)) * points_of(map) * map.cycles;
  }
  return plan.diagonal ? cycles / 2 : cycles;
}

}  // namespace ferrite::emitter
