// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/schedule/rewrites/layout.h"

#include <algorithm>
#include <deque>
#include <map>
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
  LayoutChooser(LoopProgram& program, const TargetNumbers& target, Ledger& ledger)
      : program_(program),
        target_(target),
        ledger_(ledger),
        inner_(program.buffers.size()),
        by_storage_(program.buffers.size()),
        by_statement_(program.statements.size()) {}

  void run() {
    find_accesses();
    find_free();
    for (uint32_t s = 0; s < program_.statements.size(); ++s) request_channels_innermost(s);
    for (uint32_t s = 0; s < program_.statements.size(); ++s) request_order_of_ports(s);
    spread();
    keep_what_does_not_pay();
    std::vector<bool> touched(program_.statements.size());
    for (BufferId b = 0; b < program_.buffers.size(); ++b)
      if (inner_[b])
        for (size_t a : by_storage_[b]) touched[accesses_[a].statement] = true;
    std::vector<Relayout> relayouts;
    for (uint32_t s = 0; s < touched.size(); ++s)
      if (touched[s]) add_relayouts(s, relayouts);
    move_dims();
    for (uint32_t s = 0; s < touched.size(); ++s)
      if (touched[s]) order_loops(program_.statements[s]);
    for (const auto& relayout : relayouts) record(relayout);
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

  /// Temporaries that only this program's statements access.
  void find_free() {
    free_ = free_to_order(program_);
    for (BufferId b = 0; b < program_.buffers.size(); ++b)
      free_[b] = free_[b] && program_.buffers[b].dims.size() >= 3 && !by_storage_[b].empty();
    // A statement that only copies elements into a buffer of fixed layout should write in that order. Its
    // source therefore gets no order of its own, so that the copy can become part of the source's writer. A
    // copy that transposes would make the writer store across its vectors: then the source has the order of
    // the copy, where others want it.
    // Readers come later in the program, so walking backwards decides each buffer before the buffers that its
    // writer reads.
    follows_readers_.resize(program_.buffers.size());
    for (uint32_t s = static_cast<uint32_t>(program_.statements.size()); s-- > 0;)
      for (const auto& store : program_.statements[s].stores)
        if (const BufferId b = program_.storage(store.buffer); free_[b] && settled_by_readers(b)) {
          free_[b] = false;
          follows_readers_[b] = true;
        }
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
          written.elements() != program_.buffers[storage].elements() ||
          transposes(*accesses_[a].index, reader.stores[0].index))
        return false;
    }
    return read;
  }
  /// Whether a copy makes another dim innermost than that of its source.
  bool transposes(const std::vector<index::Expr>& read, const std::vector<index::Expr>& stored) const {
    if (read.empty() || stored.empty()) return false;
    const auto innermost = symbols_of(stored.back());
    return innermost.size() == 1 && symbols_of(read.back()) != innermost &&
           std::ranges::any_of(read, [&](index::Expr dim) { return symbols_of(dim) == innermost; });
  }

  bool is_sum(index::Expr expr) const { return program_.pool.affine(expr).rest.empty(); }

  /// The loop variables of which an index is a sum; empty where it is more than a sum.
  std::vector<index::Symbol> symbols_of(index::Expr expr) const {
    std::vector<index::Symbol> symbols;
    if (!is_sum(expr)) return symbols;
    for (const auto& term : program_.pool.affine(expr).terms) symbols.push_back(term.first);
    return symbols;
  }

  /// Requests that the dim becomes the innermost one. Sums of loop variables have to address it in all
  /// accesses. Other dims may have any index, such as that of a nearest-neighbour upsampling.
  void request(BufferId storage, size_t dim) {
    if (!free_[storage] || inner_[storage] || !std::ranges::all_of(by_storage_[storage], [&](size_t a) {
          return is_sum((*accesses_[a].index)[dim]);
        }))
      return;
    inner_[storage] = dim;
    pending_.push_back(storage);
  }

  /// A convolution reads and writes its channels together: neighbouring channels take part in the same
  /// products, at each offset of the window.
  void request_channels_innermost(uint32_t s) {
    const auto& statement = program_.statements[s];
    if (statement.kind != FE_STATEMENT_CONTRACT || statement.contract_kind != FE_CONTRACT_CONV) return;
    const auto& data = statement.ops[statement.contract_a];
    const auto& weight = statement.ops[statement.contract_b];
    if (data.code != FE_OP_LOAD || weight.code != FE_OP_LOAD || weight.index.size() < 3) return;
    std::vector<index::Symbol>
        channels;  // group and channel variables: those that address the first two dims of the weight
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
    convolutions_.push_back(s);
    if (const auto dim = channel_dim(data.index)) request(program_.storage(data.buffer), *dim);
    for (const auto& store : statement.stores)
      if (const auto dim = channel_dim(store.index)) request(program_.storage(store.buffer), *dim);
  }

  bool takes_part_in_products(BufferId storage) const {
    return std::ranges::any_of(by_storage_[storage], [&](size_t a) {
      return program_.statements[accesses_[a].statement].kind == FE_STATEMENT_CONTRACT;
    });
  }

  /// A map between a temporary and buffers of fixed layout, such as inputs whose channels their caller stores
  /// innermost: where the fixed ones agree about the innermost dim, the temporary has it innermost, too.
  void request_order_of_ports(uint32_t s) {
    const auto& statement = program_.statements[s];
    if (statement.kind != FE_STATEMENT_MAP || statement.stores.empty()) return;
    // A copy has the order that it was made for.
    if (statement.ops[statement.stores[0].value].code == FE_OP_LOAD) return;
    const int64_t elements = statement.points(VarKind::parallel);
    const auto is_whole = [&](BufferId b) {
      return program_.buffers[b].elements() == elements && program_.buffers[b].dims.size() >= 3;
    };
    std::optional<std::vector<index::Symbol>> innermost;
    for (size_t a : by_statement_[s]) {
      const auto& access = accesses_[a];
      if (free_[access.storage] || follows_readers_[access.storage] || !is_whole(access.storage) ||
          program_.buffers[access.storage].role == Role::constant)
        continue;
      auto symbols = symbols_of(access.index->back());
      if (symbols.size() != 1 || (innermost && *innermost != symbols)) return;
      innermost = std::move(symbols);
    }
    if (!innermost) return;
    for (size_t a : by_statement_[s]) {
      const auto& access = accesses_[a];
      if (!free_[access.storage] || !is_whole(access.storage) || takes_part_in_products(access.storage))
        continue;
      for (size_t d = 0; d + 1 < access.index->size(); ++d)
        if (symbols_of((*access.index)[d]) == *innermost && !is_innermost(access.storage, d))
          request(access.storage, d);
    }
  }

  /// Whether all later dims have one element, so that neighbours along this one are adjacent as it is.
  bool is_innermost(BufferId storage, size_t dim) const {
    return std::ranges::all_of(std::span(program_.buffers[storage].dims).subspan(dim + 1),
                               [](int64_t extent) { return extent == 1; });
  }

  /// Propagates decisions: a buffer that shares a statement with a decided one makes that dim innermost which
  /// the same variable addresses.
  void spread() {
    while (!pending_.empty()) {
      const BufferId storage = pending_.front();
      pending_.pop_front();
      for (size_t a : by_storage_[storage]) {
        const auto symbols = symbols_of((*accesses_[a].index)[*inner_[storage]]);
        if (symbols.size() != 1) continue;
        for (size_t other : by_statement_[accesses_[a].statement])
          for (size_t d = 0; d < accesses_[other].index->size(); ++d)
            if (symbols_of((*accesses_[other].index)[d]) == symbols) request(accesses_[other].storage, d);
      }
    }
  }

  /// By storage, the smallest number in its region. Two storages are in one region if a statement accesses
  /// both and both get their channels innermost.
  std::vector<BufferId> regions() const {
    std::vector<BufferId> region(program_.buffers.size());
    for (BufferId b = 0; b < region.size(); ++b) region[b] = b;
    const auto root = [&](BufferId b) {
      while (region[b] != b) b = region[b] = region[region[b]];
      return b;
    };
    for (const auto& list : by_statement_) {
      std::optional<BufferId> first;
      for (size_t a : list) {
        if (!inner_[accesses_[a].storage]) continue;
        const BufferId here = root(accesses_[a].storage);
        if (!first) first = here;
        const BufferId there = root(*first);
        region[std::max(here, there)] = std::min(here, there);
      }
    }
    for (BufferId b = 0; b < region.size(); ++b) region[b] = root(b);
    return region;
  }

  /// A region whose relayouts take longer than what it gains keeps its order. The estimate assumes that a
  /// convolution whose channels are not contiguous takes twice as long, and that a relayout, which a region
  /// may also spare, reads and writes its data once more.
  void keep_what_does_not_pay() {
    const auto region = regions();
    struct Price {
      double gain = 0, loss = 0;  ///< seconds of one worker
      int64_t bytes = 0;
      std::string names;
    };
    std::map<BufferId, Price> prices;
    for (const uint32_t s : convolutions_)
      for (size_t a : by_statement_[s]) {
        const BufferId storage = accesses_[a].storage;
        if (!inner_[storage]) continue;
        const auto& statement = program_.statements[s];
        auto& price = prices[region[storage]];
        price.gain += 2 * static_cast<double>(statement.points(VarKind::parallel)) *
                      static_cast<double>(statement.points(VarKind::reduction)) /
                      static_cast<double>(target_.operations);
        price.names += (price.names.empty() ? "" : ", ") + origin_names(statement);
        break;  // all buffers of a statement are in one region
      }
    for (uint32_t s = 0; s < program_.statements.size(); ++s) {
      for (const auto storage : spared_relayouts(s)) {
        auto& price = prices[region[storage]];
        const auto bytes = static_cast<double>(program_.buffers[storage].bytes());
        price.gain += 2 * bytes / static_cast<double>(target_.bandwidth);
        if (price.names.empty()) price.names = origin_names(program_.statements[s]);
      }
      std::vector<Relayout> relayouts;
      add_relayouts(s, relayouts);
      for (const auto& relayout : relayouts) {
        auto& price = prices[region[relayout.moved]];
        const int64_t bytes = program_.buffers[relayout.moved].bytes();
        price.bytes += bytes;
        price.loss += 2 * static_cast<double>(bytes) / static_cast<double>(target_.bandwidth);
      }
    }
    for (const auto& [first, price] : prices) {
      if (price.loss <= price.gain) continue;
      for (BufferId b = 0; b < region.size(); ++b)
        if (region[b] == first) inner_[b].reset();
      ledger_.add({"layout",
                   price.names,
                   {},
                   "kept",
                   "cost",
                   fmt::format("relayouts of {} bytes take {:.3g} us, channels last gains {:.3g} us",
                               price.bytes, price.loss * 1e6, price.gain * 1e6),
                   static_cast<double>(price.bytes)});
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

  /// Orders parallel loops like the dims of the first store, and the reduction loops of a contraction like
  /// the dims of the first load that has a new layout.
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

  /// A statement that reads one layout and writes another, and so converts between them.
  struct Relayout {
    uint32_t statement;
    BufferId settled, moved;  ///< storages: the one that keeps its layout, and the one that does not
    bool to_given;            ///< it reads the one whose layout changes
  };
  /// Adds the relayouts of a statement. Run before dims are moved.
  void add_relayouts(uint32_t s, std::vector<Relayout>& relayouts) const {
    const auto& statement = program_.statements[s];
    if (statement.stores.empty()) return;
    const auto& store = statement.stores[0];
    const BufferId to = program_.storage(store.buffer);
    for (size_t a : by_statement_[s]) {
      const auto& read = accesses_[a];
      if (read.store || inner_[read.storage].has_value() == inner_[to].has_value()) continue;
      const bool to_given = inner_[read.storage].has_value();
      const BufferId settled = to_given ? to : read.storage, moved = to_given ? read.storage : to;
      const auto& dims = program_.buffers[settled].dims;
      if (program_.buffers[settled].role == Role::constant ||
          program_.buffers[settled].elements() != program_.buffers[moved].elements() ||
          std::ranges::count_if(dims, [](int64_t dim) { return dim > 1; }) < 2 ||
          keeps_order(read, to, store.index))
        continue;
      relayouts.push_back({s, settled, moved, to_given});
    }
  }
  /// The moved storages that the statement reads or writes in the order of the other side, and did not
  /// before.
  std::vector<BufferId> spared_relayouts(uint32_t s) const {
    std::vector<BufferId> result;
    const auto& statement = program_.statements[s];
    if (statement.stores.empty() || statement.kind != FE_STATEMENT_MAP) return result;
    const auto& store = statement.stores[0];
    const BufferId to = program_.storage(store.buffer);
    for (size_t a : by_statement_[s]) {
      const auto& read = accesses_[a];
      if (read.store || read.index->empty() || store.index.empty() || !(inner_[read.storage] || inner_[to]) ||
          program_.buffers[read.storage].elements() != program_.buffers[to].elements())
        continue;
      if (!share_innermost(read.index->back(), store.index.back()) && keeps_order(read, to, store.index))
        result.push_back(inner_[to] ? to : read.storage);
    }
    return result;
  }
  void record(const Relayout& relayout) {
    const auto& settled = program_.buffers[relayout.settled];
    const bool leaves = settled.role == Role::output ||
                        std::ranges::find(program_.outputs, relayout.settled) != program_.outputs.end();
    const char* why = settled.role == Role::input ? "an input has the layout of its caller"
                      : leaves                    ? "an output has the layout of its caller"
                      : follows_readers_[relayout.settled]
                          ? "its reader only copies it into a fixed layout"
                          : "its channels are addressed by more than sums of loop variables, or share no "
                            "loop with a channels-last tensor";
    ledger_.add(
        {"layout",
         origin_names(program_.statements[relayout.statement]),
         fmt::format("{}x{}", name_of(settled.dtype), fmt::join(settled.dims, "x")),
         "relayout",
         {},
         fmt::format("converted {}: {}", relayout.to_given ? "to the given order" : "to channels last", why),
         static_cast<double>(settled.bytes())});
  }

  /// Whether the innermost dims of both accesses have the same variable after dims are moved.
  bool keeps_order(const Access& read, BufferId to, const std::vector<index::Expr>& stored) const {
    if (read.index->empty() || stored.empty()) return false;
    const auto last = [&](BufferId storage, const std::vector<index::Expr>& index) {
      return index[inner_[storage].value_or(index.size() - 1)];
    };
    return share_innermost(last(read.storage, *read.index), last(to, stored));
  }
  /// Whether the same variables address the innermost dims of two accesses.
  bool share_innermost(index::Expr one, index::Expr other) const {
    return is_sum(one) && is_sum(other) && symbols_of(one) == symbols_of(other);
  }

  LoopProgram& program_;
  const TargetNumbers& target_;
  Ledger& ledger_;
  std::vector<std::optional<size_t>> inner_;  ///< by storage: the dim that becomes the innermost
  std::vector<bool> free_;                    ///< by storage
  std::vector<bool> follows_readers_;  ///< by storage: it has the order of the buffer into which it is copied
  std::vector<Access> accesses_;
  std::vector<std::vector<size_t>> by_storage_, by_statement_;  ///< accesses
  std::deque<BufferId> pending_;
  std::vector<uint32_t> convolutions_;  ///< statements that request channels last for themselves
};

}  // namespace

std::vector<bool> free_to_order(const LoopProgram& program) {
  std::vector<bool> free(program.buffers.size());
  for (BufferId b = 0; b < program.buffers.size(); ++b)
    free[b] = program.buffers[b].base == none && program.buffers[b].role == Role::temporary;
  for (const auto& statement : program.statements)
    for (const auto* list : {&statement.call.reads, &statement.call.writes})
      for (BufferId b : *list) free[program.storage(b)] = false;
  for (BufferId b : program.outputs) free[program.storage(b)] = false;
  return free;
}

void choose_layouts(LoopProgram& program, const TargetNumbers& target, Ledger& ledger) {
  if (target.activations == Activations::channels_last) LayoutChooser(program, target, ledger).run();
}

}  // namespace ferrite::core::schedule
