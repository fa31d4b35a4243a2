// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/schedule/layout.h"

#include <algorithm>
#include <deque>
#include <optional>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace ferrite::core::schedule {
namespace {

/// One access of a statement to a storage.
struct Access {
  uint32_t statement;
  BufferId storage;
  const std::vector<index::Expr>* index;
  bool store;
};

bool contains(std::span<const index::Symbol> symbols, index::Symbol symbol) {
  return std::ranges::find(symbols, symbol) != symbols.end();
}

class LayoutChooser {
 public:
  LayoutChooser(LoopProgram& program, Ledger& ledger)
      : program_(program),
        ledger_(ledger),
        inner_(program.buffers.size()),
        by_storage_(program.buffers.size()),
        by_statement_(program.statements.size()) {}

  void run() {
    find_accesses();
    find_free();
    for (uint32_t s = 0; s < program_.statements.size(); ++s) wish_of_convolution(s);
    spread();
    std::vector<bool> touched(program_.statements.size());
    for (BufferId b = 0; b < program_.buffers.size(); ++b)
      if (inner_[b])
        for (size_t a : by_storage_[b]) touched[accesses_[a].statement] = true;
    move_dims();
    for (uint32_t s = 0; s < touched.size(); ++s)
      if (touched[s]) order_loops(program_.statements[s]);
    for (uint32_t s = 0; s < touched.size(); ++s)
      if (touched[s]) record_relayouts(s);
  }

 private:
  void find_accesses() {
    for (uint32_t s = 0; s < program_.statements.size(); ++s) {
      const auto add = [&](BufferId buffer, const std::vector<index::Expr>& index, bool store) {
        const BufferId storage = program_.storage(buffer);
        by_storage_[storage].push_back(accesses_.size());
        by_statement_[s].push_back(accesses_.size());
        accesses_.push_back({s, storage, &index, store});
      };
      for (const auto& op : program_.statements[s].ops)
        if (op.code == FE_OP_LOAD) add(op.buffer, op.index, false);
      for (const auto& store : program_.statements[s].stores) add(store.buffer, store.index, true);
    }
  }

  /// Temporaries that nobody else sees, each dim of which is addressed by sums of loop variables.
  void find_free() {
    free_.resize(program_.buffers.size());
    for (BufferId b = 0; b < program_.buffers.size(); ++b) {
      const auto& buffer = program_.buffers[b];
      free_[b] = buffer.base == none && buffer.role == Role::temporary && buffer.dims.size() >= 3 &&
                 !by_storage_[b].empty();
      for (size_t a : by_storage_[b])
        free_[b] = free_[b] && std::ranges::all_of(*accesses_[a].index, [&](index::Expr expr) {
                     return program_.pool.affine(expr).rest.empty();
                   });
    }
    for (const auto& statement : program_.statements)
      for (const auto* list : {&statement.call.reads, &statement.call.writes})
        for (BufferId b : *list) free_[program_.storage(b)] = false;
    for (BufferId b : program_.outputs) free_[program_.storage(b)] = false;
    // What is only brought on into a settled order, element by element, is written in that order: its reader is then part of what
    // writes it. Readers come later in the program: from the last statement on each is decided before what it reads.
    for (uint32_t s = static_cast<uint32_t>(program_.statements.size()); s-- > 0;)
      for (const auto& store : program_.statements[s].stores)
        if (const BufferId b = program_.storage(store.buffer); free_[b] && settled_by_readers(b))
          free_[b] = false;
  }

  bool settled_by_readers(BufferId storage) const {
    bool read = false;
    for (size_t a : by_storage_[storage]) {
      if (accesses_[a].store) continue;
      read = true;
      const auto& reader = program_.statements[accesses_[a].statement];
      if (reader.kind != FE_STATEMENT_MAP || reader.stores.empty()) return false;
      const BufferId target = program_.storage(reader.stores[0].buffer);
      const auto& written = program_.buffers[target];
      if (free_[target] || written.dims.size() < 3 ||
          written.elements() != program_.buffers[storage].elements())
        return false;
    }
    return read;
  }

  std::vector<index::Symbol> symbols_of(index::Expr expr) const {
    std::vector<index::Symbol> symbols;
    for (const auto& term : program_.pool.affine(expr).terms) symbols.push_back(term.first);
    return symbols;
  }

  void want(BufferId storage, size_t dim) {
    if (!free_[storage] || inner_[storage]) return;
    inner_[storage] = dim;
    pending_.push_back(storage);
  }

  /// A convolution reads and writes its channels together: neighbours in them take part in the same products, at every place
  /// of the window alike.
  void wish_of_convolution(uint32_t s) {
    const auto& statement = program_.statements[s];
    if (statement.kind != FE_STATEMENT_CONTRACT || statement.contract_kind != FE_CONTRACT_CONV) return;
    const auto& data = statement.ops[statement.contract_a];
    const auto& weight = statement.ops[statement.contract_b];
    if (data.code != FE_OP_LOAD || weight.code != FE_OP_LOAD || weight.index.size() < 3) return;
    std::vector<index::Symbol>
        channels;  // groups and channels: what the first two dims of the weight are addressed by
    for (size_t d = 0; d < 2; ++d)
      for (const auto symbol : symbols_of(weight.index[d])) channels.push_back(symbol);
    const auto channel_dim = [&](const std::vector<index::Expr>& index) -> std::optional<size_t> {
      for (size_t d = 0; d < index.size(); ++d) {
        const auto symbols = symbols_of(index[d]);
        if (!symbols.empty() &&
            std::ranges::all_of(symbols, [&](index::Symbol each) { return contains(channels, each); }))
          return d;
      }
      return std::nullopt;
    };
    if (const auto dim = channel_dim(data.index)) want(program_.storage(data.buffer), *dim);
    for (const auto& store : statement.stores)
      if (const auto dim = channel_dim(store.index)) want(program_.storage(store.buffer), *dim);
  }

  /// What is read or written in one loop with a buffer whose innermost dim is decided has that dim where the same variable
  /// addresses it.
  void spread() {
    while (!pending_.empty()) {
      const BufferId storage = pending_.front();
      pending_.pop_front();
      for (size_t a : by_storage_[storage]) {
        const auto symbols = symbols_of((*accesses_[a].index)[*inner_[storage]]);
        if (symbols.size() != 1) continue;
        for (size_t other : by_statement_[accesses_[a].statement])
          for (size_t d = 0; d < accesses_[other].index->size(); ++d)
            if (symbols_of((*accesses_[other].index)[d]) == symbols) want(accesses_[other].storage, d);
      }
    }
  }

  template <class T>
  void move_last(std::vector<T>& list, size_t from) const {
    std::rotate(list.begin() + static_cast<std::ptrdiff_t>(from),
                list.begin() + static_cast<std::ptrdiff_t>(from) + 1, list.end());
  }

  void move_dims() {
    for (BufferId b = 0; b < program_.buffers.size(); ++b) {
      auto& buffer = program_.buffers[b];
      const auto inner = inner_[program_.storage(b)];
      buffer.channels_last = buffer.base == none && inner;
      if (!inner || *inner + 1 == buffer.dims.size()) continue;
      if (buffer.base == none) {
        std::vector<int64_t> order(buffer.dims.size());
        for (size_t d = 0; d < order.size(); ++d) order[d] = static_cast<int64_t>(d);
        move_last(order, *inner);
        ledger_.add({"layout",
                     writer_of(b),
                     fmt::format("{}x{}", name_of(buffer.dtype), fmt::join(buffer.dims, "x")),
                     "channels last",
                     {},
                     fmt::format("dims are stored in the order {}", fmt::join(order, ", ")),
                     static_cast<double>(buffer.bytes())});
      }
      move_last(buffer.dims, *inner);
      buffer.strides = ferrite::loop::contiguous_strides(buffer.dims);
    }
    for (auto& statement : program_.statements) {
      for (auto& op : statement.ops)
        if (op.code == FE_OP_LOAD) move_index(op.buffer, op.index);
      for (auto& store : statement.stores) move_index(store.buffer, store.index);
    }
  }
  void move_index(BufferId buffer, std::vector<index::Expr>& index) const {
    if (const auto inner = inner_[program_.storage(buffer)]) move_last(index, *inner);
  }
  std::string writer_of(BufferId storage) const {
    for (size_t a : by_storage_[storage])
      if (accesses_[a].store) return origin_names(program_.statements[accesses_[a].statement]);
    return {};
  }

  /// Parallel loops in the order of the first store's dims; the loops of a sum in that of the first load that all of them
  /// address.
  void order_loops(Statement& statement) const {
    if (statement.stores.empty() || statement.has(VarKind::serial) || statement.kind == FE_STATEMENT_SCATTER)
      return;
    const auto parallel = statement.vars.begin() + static_cast<std::ptrdiff_t>(statement.parallel_count());
    sort_by(std::span(statement.vars.begin(), parallel), statement.stores[0].index);
    if (statement.kind != FE_STATEMENT_CONTRACT) return;
    for (const auto& op : statement.ops) {
      if (op.code != FE_OP_LOAD || !inner_[program_.storage(op.buffer)]) continue;
      sort_by(std::span(parallel, statement.vars.end()), op.index);
      break;
    }
  }
  void sort_by(std::span<Var> vars, const std::vector<index::Expr>& index) const {
    const auto place = [&](const Var& var) {
      for (size_t d = 0; d < index.size(); ++d)
        if (program_.pool.depends_on(index[d], var.symbol)) return d;
      return size_t{0};
    };
    std::ranges::stable_sort(vars, {}, place);
  }

  /// A statement that reads in one order and writes in another brings its values from one to the other.
  void record_relayouts(uint32_t s) {
    const auto& statement = program_.statements[s];
    for (size_t a : by_statement_[s]) {
      if (accesses_[a].store || statement.stores.empty()) continue;
      const auto& store = statement.stores[0];
      const BufferId from = accesses_[a].storage, to = program_.storage(store.buffer);
      if (inner_[from].has_value() == inner_[to].has_value()) continue;
      const auto& settled = inner_[from] ? program_.buffers[to] : program_.buffers[from];
      const auto& moved = inner_[from] ? program_.buffers[from] : program_.buffers[to];
      const auto longer = [](int64_t dim) { return dim > 1; };
      if (settled.role == Role::constant || settled.elements() != moved.elements() ||
          std::ranges::count_if(settled.dims, longer) < 2 || keeps_order(accesses_[a], store.index))
        continue;
      const char* why =
          settled.role == Role::input    ? "an input has the layout of its caller"
          : settled.role == Role::output ? "an output has the layout of its caller"
          : program_.outputs.end() != std::ranges::find(program_.outputs, inner_[from] ? to : from)
              ? "an output has the layout of its caller"
              : "it is addressed by more than sums of loop variables, or shares no loop over "
                "channels with what is stored channels last";
      ledger_.add(
          {"layout",
           origin_names(statement),
           fmt::format("{}x{}", name_of(settled.dtype), fmt::join(settled.dims, "x")),
           "relayout",
           {},
           fmt::format("{} on the way: {}", inner_[from] ? "to the given order" : "to channels last", why),
           static_cast<double>(settled.bytes())});
    }
  }

  /// Whether both sides are walked with the same variable innermost.
  bool keeps_order(const Access& read, const std::vector<index::Expr>& stored) const {
    return !read.index->empty() && !stored.empty() &&
           symbols_of(read.index->back()) == symbols_of(stored.back());
  }

  LoopProgram& program_;
  Ledger& ledger_;
  std::vector<std::optional<size_t>> inner_;  ///< by storage: the dim that becomes the last
  std::vector<bool> free_;                    ///< by storage
  std::vector<Access> accesses_;
  std::vector<std::vector<size_t>> by_storage_, by_statement_;  ///< accesses
  std::deque<BufferId> pending_;
};

}  // namespace

void choose_layouts(LoopProgram& program, Ledger& ledger) { LayoutChooser(program, ledger).run(); }

}  // namespace ferrite::core::schedule
