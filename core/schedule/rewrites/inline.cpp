// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <algorithm>
#include <optional>
#include <set>

#include "core/schedule/body.h"
#include "core/schedule/rewrites/at_load.h"
#include "core/schedule/schedule.h"

namespace ferrite::core::schedule {
namespace {

// Limits of a body after inlining; docs/architecture.md gives the cost of larger ones.
constexpr size_t most_operations = 96, most_loads = 8;
// A value that would be recomputed from loaded values more often than this is stored, whatever it costs.
constexpr int64_t most_times = 4;
// A statement that gathers elements picks few of them if its source is this many times larger than its
// result.
constexpr int64_t times_larger = 16;

struct BodyCost {
  size_t prims = 0, expensive = 0, loads = 0, indirect = 0;
  int64_t loaded_elements = 0;
};

BodyCost cost_of(const LoopProgram& program, const Statement& statement) {
  BodyCost cost;
  for (const auto& op : statement.ops) {
    if (op.code == FE_OP_LOAD) {
      if (program.buffers[op.buffer].elements() > 1) ++cost.loads;  // a single number stays in a register
      cost.loaded_elements += program.buffers[op.buffer].elements();
    } else if (op.code == FE_OP_INDIRECT) {
      ++cost.indirect;
    } else if (op.is_prim()) {
      ++cost.prims;
      if (!is_cheap(op.prim())) ++cost.expensive;
    }
  }
  return cost;
}

class Inliner {
 public:
  Inliner(LoopProgram& program, const TargetNumbers& target, Ledger& ledger,
          const DeviceAssignment& assignment)
      : program_(program),
        ledger_(ledger),
        assignment_(assignment),
        target_(target),
        cheap_(static_cast<size_t>(target.operations_of_element())),
        at_load_(at_load(program)),
        deps_(Dependencies::of(program)),
        dropped_(program.statements.size()) {
    for (const auto& readers : deps_.readers) readers_.emplace_back(readers.begin(), readers.end());
    for (BufferId b : program.outputs) outputs_.insert(program.storage(b));
    for (BufferId b = 0; b < program.buffers.size(); ++b)
      if (program.buffers[b].base != none) versioned_.insert(program.buffers[b].base);
  }

  void run() {
    // Consumers come first: when a producer is considered, its readers have their final form. Statements that
    // run at load and are read only there come before all others, because whether the last of them should be
    // stored can be told only when it includes the steps before it.
    for (uint32_t s = static_cast<uint32_t>(program_.statements.size()); s-- > 0;)
      if (stays_at_load(s)) consider(s);
    for (uint32_t s = static_cast<uint32_t>(program_.statements.size()); s-- > 0;)
      if (!dropped_[s]) consider(s);
    std::vector<ProgramStatement> kept;
    for (uint32_t s = 0; s < dropped_.size(); ++s)
      if (!dropped_[s]) kept.push_back(std::move(program_.statements[s]));
    program_.statements = std::move(kept);
  }

 private:
  /// Whether the statement and all readers of its results run at load.
  bool stays_at_load(uint32_t s) const {
    return at_load_.statements[s] &&
           std::ranges::all_of(program_.statements[s].stores, [&](const Store& store) {
             return std::ranges::all_of(readers_[program_.storage(store.buffer)],
                                        [&](uint32_t r) { return at_load_.statements[r]; });
           });
  }

  void consider(uint32_t s) {
    auto& producer = program_.statements[s];
    if (producer.kind == FE_STATEMENT_CALL || producer.stores.empty()) return;
    bool needed = false;
    for (const auto& store : producer.stores) {
      BufferId storage = program_.storage(store.buffer);
      needed = needed || outputs_.count(storage) || versioned_.count(storage) || !readers_[storage].empty();
    }
    if (!needed) return drop(s);
    if (!makes_temporary(producer)) return;
    const BufferId storage = program_.storage(producer.stores[0].buffer);
    if (!worth_it(s, storage)) return;
    const std::string names = origin_names(producer);
    std::string readers;  // as they were before they absorbed the producer
    for (uint32_t reader : readers_[storage]) {
      readers += (readers.empty() ? "" : ", ") + origin_names(program_.statements[reader]);
      inline_into(reader, s, storage);
    }
    ledger_.add({"inline",
                 names,
                 readers,
                 "inlined",
                 {},
                 {},
                 static_cast<double>(program_.buffers[storage].bytes())});
    drop(s);
  }

  bool worth_it(uint32_t s, BufferId storage) {
    const auto& producer = program_.statements[s];
    const auto& readers = readers_[storage];
    auto cost = cost_of(program_, producer);
    const auto& value = producer.ops[producer.stores[0].value];
    bool view = value.code == FE_OP_LOAD && cost.prims == 0 && cost.indirect == 0;
    bool unmasked_view = view && value.a == none;
    int64_t points = std::max<int64_t>(1, producer.points(VarKind::parallel));
    // A read must not move past a later write to the same buffer.
    for (BufferId b : deps_.reads[s])
      for (uint32_t w : deps_.writers[b])
        if (w > s && std::ranges::any_of(readers, [&](uint32_t r) { return w <= r; })) return false;
    std::optional<bool> narrows_all;  // all contractions that read it, once one was met
    for (uint32_t r : readers) {
      const auto& reader = program_.statements[r];
      if (reader.kind == FE_STATEMENT_CALL) return false;
      if (!view && assignment_.apart(s, r)) return false;
      // A result that is computed once, at load, is not recomputed in each run, unless this takes no longer
      // than loading it.
      if (!view && at_load_.statements[s] && !at_load_.statements[r] &&
          !is_as_cheap_as_stored(program_, producer, target_))
        return false;
      for (const auto& op : reader.ops) {
        if (op.code != FE_OP_LOAD || program_.storage(op.buffer) != storage) continue;
        if (op.a != none && !unmasked_view && cost.indirect > 0) return false;
        if (!view && picks_in_size_one(program_, op)) return false;
      }
      for (const auto& st : reader.stores)
        if (program_.storage(st.buffer) == storage) return false;
      // A contraction's operand has to stay a load here; fusion decides about computed operands (prologues).
      const bool is_operand = reader.kind == FE_STATEMENT_CONTRACT && reads_as_operand(reader, storage);
      if (is_operand && !narrows_all) {
        std::set<uint32_t> seen;
        narrows_all = narrows_products(s, seen);
      }
      const bool narrows = is_operand && *narrows_all;
      if (is_operand && !unmasked_view && !narrows) return false;
      const auto reads = static_cast<size_t>(std::ranges::count_if(reader.ops, [&](const BodyOp& op) {
        return op.code == FE_OP_LOAD && program_.storage(op.buffer) == storage;
      }));
      if (reader.ops.size() + reads * producer.ops.size() > most_operations) return false;
      if (index_grows_too_large(program_, reader, producer)) return false;
      auto reader_cost = cost_of(program_, reader);
      if (!view && reader_cost.loads + cost.loads > most_loads) return false;
      if (view || narrows) continue;
      // The number of times that the reader would compute each element.
      const int64_t computed = executions(reader) * static_cast<int64_t>(reads);
      bool recomputed = computed > points;
      if (recomputed && (cost.expensive > 0 || cost.prims > cheap_ || cost.loads > 1 || cost.indirect > 0))
        return false;
      // To widen a number takes as long as to load the wide one.
      if (recomputed && computed > most_times * points && cost.loads > 0 && cost.prims > 0 &&
          !widens(producer))
        return false;
    }
    if (view) return true;
    if (picks_few(producer, points)) return false;
    if (readers.size() == 1) return true;
    if (cost.loads == 0 && cost.expensive == 0) return true;
    if (is_copied_to_result(storage) && !is_wider_than_inputs(producer, storage)) return false;
    // The narrow input is in memory already and is smaller. Each reader widens it again, so that no wide copy
    // is stored.
    if (widens(producer)) return true;
    // With several readers: only where reading the inputs costs no more than reading the result. A recomputed
    // index is also checked again, so it must serve many elements, such as a whole row.
    bool small = cost.prims <= cheap_ && cost.expensive == 0 && readers.size() <= 3 &&
                 (cost.indirect == 0 || cost.loaded_elements * 4 <= points);
    return small && cost.loaded_elements * 10 <= points * 12 && !could_be_epilogue(s);
  }

  /// Whether the statement only casts its input, element by element, to a wider float.
  bool widens(const Statement& producer) const {
    const auto& value = producer.ops[producer.stores[0].value];
    if (!value.is_prim() || value.prim() != Prim::cast_) return false;
    const auto& load = producer.ops[value.a];
    return load.code == FE_OP_LOAD && load.a == none && is_float(load.dtype) && is_float(value.dtype) &&
           bits_of(load.dtype) < bits_of(value.dtype) &&
           program_.buffers[load.buffer].elements() <= producer.points(VarKind::parallel);
  }

  /// Whether a result of the program is a plain copy of the storage. The value is in memory then in any case,
  /// and compute_in_results() lets the copy and its source share it.
  bool is_copied_to_result(BufferId storage) const {
    return std::ranges::any_of(readers_[storage], [&](uint32_t r) {
      const auto& reader = program_.statements[r];
      return reader.kind == FE_STATEMENT_MAP && reader.ops.size() == 1 && reader.stores.size() == 1 &&
             is_view(reader) && reader.stores[0].mask == none &&
             outputs_.contains(program_.storage(reader.stores[0].buffer)) &&
             reader.points(VarKind::parallel) == program_.buffers[storage].elements();
    });
  }
  bool is_wider_than_inputs(const Statement& producer, BufferId storage) const {
    int64_t bytes = 0;
    for (const auto& op : producer.ops)
      if (op.code == FE_OP_LOAD) bytes += program_.buffers[op.buffer].bytes();
    return program_.buffers[storage].bytes() > bytes;
  }

  /// Whether the statement alone makes a temporary, element by element: its readers can do without it.
  bool makes_temporary(const ProgramStatement& statement) const {
    if (statement.kind != FE_STATEMENT_MAP || statement.stores.size() != 1) return false;
    const auto& store = statement.stores[0];
    const BufferId storage = program_.storage(store.buffer);
    return !outputs_.count(storage) && !versioned_.count(storage) && deps_.writers[storage].size() == 1 &&
           store.mask == none && store.mode == FE_STORE_SET && stores_identity(program_, statement);
  }
  /// Whether what makes a temporary is a view that can be inlined into any reader.
  static bool is_view(const ProgramStatement& statement) {
    const auto& value = statement.ops[statement.stores[0].value];
    return value.code == FE_OP_LOAD && value.a == none;
  }
  /// The statement that makes a storage of contraction operands, through views.
  std::optional<uint32_t> operand_maker(BufferId storage) const {
    while (!deps_.writers[storage].empty()) {
      const uint32_t s = deps_.writers[storage].front();
      const auto& maker = program_.statements[s];
      if (!makes_temporary(maker)) return std::nullopt;
      if (!is_view(maker)) return s;
      storage = program_.storage(maker.ops[maker.stores[0].value].buffer);
    }
    return std::nullopt;
  }
  /// The contractions that have a storage as an operand, directly or through views.
  void add_products(BufferId storage, std::set<uint32_t>& products) const {
    for (uint32_t r : readers_[storage]) {
      const auto& reader = program_.statements[r];
      if (reader.kind == FE_STATEMENT_CONTRACT && reads_as_operand(reader, storage)) products.insert(r);
      // A statement that makes no temporary may write the storage that it reads.
      if (makes_temporary(reader) && is_view(reader))
        add_products(program_.storage(reader.stores[0].buffer), products);
    }
  }
  /// Whether the statement only widens, and all contractions that have its result as an operand can take the
  /// narrow type of both operands instead: products of two types have no instructions. `seen`: statements of
  /// which this is assumed.
  bool narrows_products(uint32_t s, std::set<uint32_t>& seen) const {
    if (!seen.insert(s).second) return true;
    const auto& producer = program_.statements[s];
    if (at_load_.statements[s] || !widens(producer)) return false;
    const auto narrow_type = [](const ProgramStatement& from) {
      return from.ops[from.ops[from.stores[0].value].a].dtype;
    };
    std::set<uint32_t> products;
    add_products(program_.storage(producer.stores[0].buffer), products);
    for (const uint32_t r : products) {
      const auto& reader = program_.statements[r];
      for (const OpId id : {reader.contract_a, reader.contract_b}) {
        const auto& load = reader.ops[id];
        if (load.code != FE_OP_LOAD) return false;
        if (load.dtype == narrow_type(producer)) continue;
        const auto maker = operand_maker(program_.storage(load.buffer));
        if (!maker || !widens(program_.statements[*maker]) ||
            narrow_type(program_.statements[*maker]) != narrow_type(producer) ||
            !narrows_products(*maker, seen))
          return false;
      }
    }
    return true;
  }

  /// Whether the statement gathers a few elements from the result of another statement. If it runs soon after
  /// that one, the large source need not be kept until the statement's reader runs.
  bool picks_few(const Statement& producer, int64_t points) const {
    const auto picked = [&](const BodyOp& load) {
      return std::ranges::any_of(producer.ops, [&](const BodyOp& op) {
        return op.code == FE_OP_INDIRECT && std::ranges::any_of(load.index, [&](index::Expr expr) {
                 return program_.pool.depends_on(expr, op.symbol);
               });
      });
    };
    return std::ranges::any_of(producer.ops, [&](const BodyOp& op) {
      return op.code == FE_OP_LOAD && !deps_.writers[program_.storage(op.buffer)].empty() &&
             program_.buffers[op.buffer].elements() >= times_larger * points && picked(op);
    });
  }

  static bool reads_as_operand_op(const Statement& reader, OpId id) {
    return id == reader.contract_a || id == reader.contract_b;
  }
  bool reads_as_operand(const Statement& reader, BufferId storage) const {
    for (OpId id = 0; id < reader.ops.size(); ++id)
      if (reader.ops[id].code == FE_OP_LOAD && program_.storage(reader.ops[id].buffer) == storage &&
          reads_as_operand_op(reader, id))
        return true;
    return false;
  }

  /// Whether a contraction with the same number of results computes one of the inputs, and no other input
  /// depends on the contraction's result. The statement could then be its epilogue.
  bool could_be_epilogue(uint32_t s) const {
    const auto& statement = program_.statements[s];
    for (BufferId b : deps_.reads[s])
      for (uint32_t w : deps_.writers[b]) {
        const auto& writer = program_.statements[w];
        if (writer.kind == FE_STATEMENT_CONTRACT &&
            writer.points(VarKind::parallel) == statement.points(VarKind::parallel))
          return std::ranges::none_of(deps_.reads[s], [&](BufferId other) {
            return other != b && std::ranges::any_of(deps_.writers[other], [&](uint32_t maker) {
                     return maker > w && std::ranges::find(deps_.reads[maker], b) != deps_.reads[maker].end();
                   });
          });
      }
    return false;
  }

  void inline_into(uint32_t r, uint32_t s, BufferId storage) {
    splice_into(program_, program_.statements[r], program_.statements[s]);
    if (program_.statements[r].kind == FE_STATEMENT_CONTRACT) take_narrow_operands(program_.statements[r]);
    for (BufferId b : deps_.reads[s])
      if (readers_[b].insert(r).second) deps_.reads[r].push_back(b);
    std::erase(deps_.reads[r], storage);
  }

  void drop(uint32_t s) {
    dropped_[s] = true;
    for (BufferId b : deps_.reads[s]) readers_[b].erase(s);
    for (BufferId b : deps_.writes[s]) std::erase(deps_.writers[b], s);
  }

  LoopProgram& program_;
  Ledger& ledger_;
  const DeviceAssignment& assignment_;
  const TargetNumbers& target_;
  const size_t cheap_;  ///< operations that cost less to recompute than the transfer of one element
  const AtLoad at_load_;
  Dependencies deps_;  ///< but for the readers
  std::vector<std::set<uint32_t>>
      readers_;  ///< by storage; many statements may read one, and stop one by one
  std::vector<bool> dropped_;
  std::set<BufferId> outputs_, versioned_;
};

}  // namespace

void inline_producers(LoopProgram& program, const TargetNumbers& target, Ledger& ledger,
                      const DeviceAssignment& assignment) {
  Inliner(program, target, ledger, assignment).run();
}

}  // namespace ferrite::core::schedule
