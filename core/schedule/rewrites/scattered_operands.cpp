// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/schedule/rewrites/scattered_operands.h"

#include <algorithm>
#include <functional>
#include <map>
#include <optional>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/schedule/body.h"
#include "core/schedule/rewrites/at_load.h"

namespace ferrite::core::schedule {
namespace {

// An operand whose elements take part in fewer products than this is read where it lies.
constexpr int64_t least_products = 16;
// Products of rows that are not aligned to so many bytes take several times as long on the matrix units of a
// GPU. A copy pays for large operands, each element of which takes part in many products.
constexpr int64_t row_bytes = 16, least_copied_bytes = 16 << 20, least_products_of_copy = 128;

class OperandStore {
 public:
  OperandStore(LoopProgram& program, const RowPadding& padding, Ledger& ledger)
      : program_(program), padding_(padding), ledger_(ledger), at_load_(at_load(program)) {
    for (const auto& statement : program.statements)
      for (const auto& store : statement.stores) ++writers_[program.storage(store.buffer)];
  }

  void run() {
    std::vector<ProgramStatement> result;
    for (uint32_t s = 0; s < program_.statements.size(); ++s) {
      auto& statement = program_.statements[s];
      const bool is_product = statement.kind == FE_STATEMENT_CONTRACT &&
                              statement.contract_kind != FE_CONTRACT_CONV && !at_load_.statements[s];
      if (is_product) {
        for (const OpId operand : {statement.contract_a, statement.contract_b}) {
          if (is_scattered(statement, operand))
            read_copy(statement, operand, false, result);
          else if (is_misaligned(statement, operand))
            read_copy(statement, operand, true, result);
        }
      }
      for (auto& op : statement.ops)
        if (op.code == FE_OP_LOAD)
          if (const auto moved = moved_.find(op.buffer); moved != moved_.end()) op.buffer = moved->second;
      // A copy is of the contents at one time.
      for (const auto& store : statement.stores)
        std::erase_if(copies_, [&](const Copy& copy) {
          return program_.storage(copy.source) == program_.storage(store.buffer);
        });
      std::optional<ProgramStatement> copied;
      if (is_product && gives_misaligned(statement)) copied = write_apart(statement);
      result.push_back(std::move(statement));
      if (copied) result.push_back(std::move(*copied));
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
    return !address_of(load).rest.empty();
  }

  /// In elements, as a sum of the loops' variables and a rest.
  index::Affine address_of(const BodyOp& load) const {
    const auto& strides = program_.buffers[load.buffer].strides;
    std::vector<index::Term> terms;
    for (size_t d = 0; d < load.index.size(); ++d) terms.push_back({load.index[d], strides[d]});
    return program_.pool.affine(program_.pool.linear(0, terms));
  }

  /// Whether rows of a large buffer begin at addresses that are not aligned to vectors.
  bool has_misaligned_rows(const ProgramBuffer& buffer) const {
    const auto more = [](int64_t dim) { return dim > 1; };
    const auto inner = std::find_if(buffer.dims.rbegin(), buffer.dims.rend(), more);
    return padding_.is_wanted() && buffer.base == none && buffer.bytes() >= least_copied_bytes &&
           inner != buffer.dims.rend() && std::any_of(inner + 1, buffer.dims.rend(), more) &&
           buffer.strides == ferrite::loop::contiguous_strides(buffer.dims) &&
           *inner * bits_of(buffer.dtype) / 8 % row_bytes != 0;
  }

  std::vector<int64_t> with_aligned_rows(const Buffer& buffer) const {
    auto dims = buffer.dims;
    const auto inner = std::find_if(dims.rbegin(), dims.rend(), [](int64_t dim) { return dim > 1; });
    const int64_t unit = padding_.alignment * 8 / bits_of(buffer.dtype);
    *inner = (*inner + unit - 1) / unit * unit;
    return ferrite::loop::contiguous_strides(dims);
  }

  bool is_misaligned(const Statement& statement, OpId operand) const {
    const auto& load = statement.ops[operand];
    if (load.code != FE_OP_LOAD || load.a != none) return false;
    const auto& buffer = program_.buffers[load.buffer];
    if (buffer.role != Role::input || !has_misaligned_rows(buffer) ||
        products_of(program_, statement, load) < least_products_of_copy)
      return false;
    const auto address = address_of(load);
    const int64_t row =
        *std::find_if(buffer.dims.rbegin(), buffer.dims.rend(), [](auto dim) { return dim > 1; });
    return address.rest.empty() && std::ranges::all_of(address.terms, [&](const auto& term) {
             return term.second == 1 || term.second % row == 0;
           });
  }

  /// Whether a product alone writes an output of the program that has such rows.
  bool gives_misaligned(const Statement& statement) const {
    if (statement.stores.size() != 1) return false;
    const auto& store = statement.stores[0];
    const auto& buffer = program_.buffers[store.buffer];
    return buffer.role == Role::output && has_misaligned_rows(buffer) && store.mask == none &&
           store.mode == FE_STORE_SET && writers_.at(store.buffer) == 1 &&
           statement.points(VarKind::reduction) >= least_products_of_copy;
  }

  /// Lets a product write a temporary, which later statements read; gives the statement that copies it to the
  /// output.
  ProgramStatement write_apart(ProgramStatement& product) {
    auto& store = product.stores[0];
    const BufferId output = store.buffer;
    ProgramBuffer buffer;
    buffer.dtype = program_.buffers[output].dtype;
    buffer.dims = program_.buffers[output].dims;
    buffer.strides = with_aligned_rows(buffer);
    const auto apart = static_cast<BufferId>(program_.buffers.size());
    ledger_.add({"layout",
                 origin_names(product),
                 fmt::format("{}x{}", name_of(buffer.dtype), fmt::join(buffer.dims, "x")),
                 "stored",
                 {},
                 "the product's result is copied to the output, whose rows are not aligned",
                 static_cast<double>(buffer.bytes())});
    ProgramStatement made;
    made.kind = FE_STATEMENT_MAP;
    made.origins = product.origins;
    Store copied{output, {}, 0, none, FE_STORE_SET};
    for (const int64_t extent : buffer.dims) {
      const auto symbol = program_.pool.new_symbol({0, extent - 1});
      made.vars.push_back({symbol, extent, VarKind::parallel});
      copied.index.push_back(program_.pool.symbol(symbol));
    }
    BodyOp source;
    source.code = FE_OP_LOAD;
    source.dtype = buffer.dtype;
    source.buffer = apart;
    source.index = copied.index;
    made.ops = {std::move(source)};
    made.stores = {std::move(copied)};
    program_.buffers.push_back(std::move(buffer));
    store.buffer = apart;
    moved_.emplace(output, apart);
    return made;
  }

  bool depends_on(const BodyOp& load, index::Symbol symbol) const {
    return std::ranges::any_of(load.index,
                               [&](index::Expr expr) { return program_.pool.depends_on(expr, symbol); });
  }

  /// Lets the operand read a copy, which is added to `before` unless there is one already. `in_order`: with
  /// the innermost dim of the source last; the address is a sum of variables.
  void read_copy(ProgramStatement& statement, OpId operand, bool in_order,
                 std::vector<ProgramStatement>& before) {
    auto& load = statement.ops[operand];
    std::vector<Var> vars;
    for (const auto& var : statement.vars)
      if (depends_on(load, var.symbol)) vars.push_back(var);
    if (in_order) {
      const auto address = address_of(load);
      std::ranges::stable_sort(vars, std::greater(), [&](const Var& var) {
        return std::ranges::find(address.terms, var.symbol, [](const auto& term) { return term.first; })
            ->second;
      });
    }
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
    buffer.strides = in_order ? with_aligned_rows(buffer) : ferrite::loop::contiguous_strides(buffer.dims);
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
                 in_order ? "the product's operand is copied, since its rows are not aligned"
                          : "the product's operand is copied, since its address is not linear in the loops",
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
  const RowPadding& padding_;
  Ledger& ledger_;
  const AtLoad at_load_;
  std::map<BufferId, size_t> writers_;  ///< by storage: the number of its stores
  std::map<BufferId, BufferId> moved_;  ///< outputs, and the temporaries that hold the same
  std::vector<Copy> copies_;
};

}  // namespace

void store_scattered_operands(LoopProgram& program, const RowPadding& padding, Ledger& ledger) {
  OperandStore(program, padding, ledger).run();
}

}  // namespace ferrite::core::schedule
