// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/schedule/rewrites/scattered_operands.h"

#include <algorithm>
#include <optional>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/schedule/body.h"
#include "core/schedule/rewrites/at_load.h"

namespace ferrite::core::schedule {
namespace {

// An operand whose elements take part in fewer products than this is read where it lies.
constexpr int64_t least_products = 16;

class OperandStore {
 public:
  OperandStore(LoopProgram& program, Ledger& ledger)
      : program_(program), ledger_(ledger), at_load_(at_load(program)) {}

  void run() {
    std::vector<ProgramStatement> result;
    for (uint32_t s = 0; s < program_.statements.size(); ++s) {
      auto& statement = program_.statements[s];
      if (statement.kind == FE_STATEMENT_CONTRACT && statement.contract_kind != FE_CONTRACT_CONV &&
          !at_load_.statements[s])
        for (const OpId operand : {statement.contract_a, statement.contract_b})
          if (is_scattered(statement, operand)) read_copy(statement, operand, result);
      // A copy is of the contents at one time.
      for (const auto& store : statement.stores)
        std::erase_if(copies_, [&](const Copy& copy) {
          return program_.storage(copy.source) == program_.storage(store.buffer);
        });
      result.push_back(std::move(statement));
    }
    program_.statements = std::move(result);
  }

 private:
  struct Copy {
    BufferId source, stored;
    std::vector<index::Symbol> symbols;  ///< of the copy's variables
    std::vector<int64_t> extents;
    std::vector<index::Expr> index;  ///< where the source is read
  };

  bool is_scattered(const Statement& statement, OpId operand) const {
    const auto& load = statement.ops[operand];
    if (load.code != FE_OP_LOAD || load.a != none) return false;
    const auto& buffer = program_.buffers[load.buffer];
    if (program_.buffers[program_.storage(load.buffer)].role == Role::constant ||
        buffer.strides.size() != load.index.size())
      return false;
    for (const auto& op : statement.ops)
      if (op.code == FE_OP_INDIRECT && depends_on(load, op.symbol)) return false;
    if (products_of(program_, statement, load) < least_products) return false;
    std::vector<index::Term> terms;
    for (size_t d = 0; d < load.index.size(); ++d) terms.push_back({load.index[d], buffer.strides[d]});
    return !program_.pool.affine(program_.pool.linear(0, terms)).rest.empty();
  }

  bool depends_on(const BodyOp& load, index::Symbol symbol) const {
    return std::ranges::any_of(load.index,
                               [&](index::Expr expr) { return program_.pool.depends_on(expr, symbol); });
  }

  /// Lets the operand read a copy, which is added to `before` unless there is one already.
  void read_copy(ProgramStatement& statement, OpId operand, std::vector<ProgramStatement>& before) {
    auto& load = statement.ops[operand];
    std::vector<Var> vars;
    for (const auto& var : statement.vars)
      if (depends_on(load, var.symbol)) vars.push_back(var);
    for (const auto& copy : copies_)
      if (const auto order = order_in(copy, load, vars)) return read(load, copy.stored, *order);
    Copy copy{load.buffer, static_cast<BufferId>(program_.buffers.size()), {}, {}, {}};
    ProgramStatement made;
    made.kind = FE_STATEMENT_MAP;
    made.origins = statement.origins;
    ProgramBuffer buffer;
    buffer.dtype = load.dtype;
    Substitution to;
    for (const auto& var : vars) {
      const auto symbol = program_.pool.new_symbol({0, var.extent - 1});
      to.emplace_back(var.symbol, program_.pool.symbol(symbol));
      made.vars.push_back({symbol, var.extent, VarKind::parallel});
      copy.symbols.push_back(symbol);
      copy.extents.push_back(var.extent);
      buffer.dims.push_back(var.extent);
    }
    buffer.strides = ferrite::loop::contiguous_strides(buffer.dims);
    BodyOp source = load;
    for (auto& expr : source.index) expr = program_.pool.substitute(expr, to);
    copy.index = source.index;
    made.ops = {std::move(source)};
    Store store{copy.stored, {}, 0, none, FE_STORE_SET};
    for (const auto& [symbol, expr] : to) store.index.push_back(expr);
    made.stores = {std::move(store)};
    ledger_.add({"layout",
                 origin_names(statement),
                 fmt::format("{}x{}", name_of(buffer.dtype), fmt::join(buffer.dims, "x")),
                 "stored",
                 {},
                 "the product's operand is copied, since its address is not linear in the loops",
                 static_cast<double>(buffer.bytes())});
    program_.buffers.push_back(std::move(buffer));
    std::vector<index::Symbol> symbols;
    for (const auto& var : vars) symbols.push_back(var.symbol);
    read(load, copy.stored, symbols);
    before.push_back(std::move(made));
    copies_.push_back(std::move(copy));
  }

  /// The symbols of `vars` in the order of the copy's dims, if the copy holds what the load reads.
  std::optional<std::vector<index::Symbol>> order_in(const Copy& copy, const BodyOp& load,
                                                     std::vector<Var> vars) {
    if (copy.source != load.buffer || copy.symbols.size() != vars.size()) return std::nullopt;
    std::ranges::sort(vars, {}, &Var::symbol);
    do {
      Substitution to;
      bool fits = true;
      for (size_t k = 0; k < vars.size(); ++k) {
        fits = fits && vars[k].extent == copy.extents[k];
        to.emplace_back(vars[k].symbol, program_.pool.symbol(copy.symbols[k]));
      }
      if (!fits) continue;
      bool same = true;
      for (size_t d = 0; d < load.index.size() && same; ++d)
        same = program_.pool.substitute(load.index[d], to) == copy.index[d];
      if (!same) continue;
      std::vector<index::Symbol> order;
      for (const auto& var : vars) order.push_back(var.symbol);
      return order;
    } while (std::ranges::next_permutation(vars, {}, &Var::symbol).found);
    return std::nullopt;
  }

  void read(BodyOp& load, BufferId stored, std::span<const index::Symbol> symbols) {
    load.buffer = stored;
    load.index.clear();
    for (const auto symbol : symbols) load.index.push_back(program_.pool.symbol(symbol));
  }

  LoopProgram& program_;
  Ledger& ledger_;
  const AtLoad at_load_;
  std::vector<Copy> copies_;
};

}  // namespace

void store_scattered_operands(LoopProgram& program, Ledger& ledger) { OperandStore(program, ledger).run(); }

}  // namespace ferrite::core::schedule
