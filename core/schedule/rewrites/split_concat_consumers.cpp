// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/schedule/rewrites/split_concat_consumers.h"

#include <algorithm>
#include <optional>
#include <set>
#include <unordered_map>

#include <fmt/format.h>

#include "core/schedule/body.h"

namespace ferrite::core::schedule {
namespace {

// Each part adds a statement that has the reader's whole body.
constexpr size_t most_parts = 4;

/// The range of a dim that a statement stores: `extent` elements from `offset` on.
struct Part {
  uint32_t writer = 0;
  int64_t offset = 0, extent = 1;
};

/// A buffer that is stored in adjacent ranges along one dim, in order.
struct Parts {
  size_t axis = 0;
  std::vector<Part> parts;
};

/// The range that is stored where the index is a variable of the statement plus a constant, or a constant.
std::optional<Part> part_of(const LoopProgram& program, const Statement& statement, index::Expr index) {
  Part part;
  if (const auto constant = program.pool.as_constant(index)) {
    part.offset = *constant;
    return part;
  }
  const auto affine = program.pool.affine(index);
  if (!affine.rest.empty() || affine.terms.size() != 1 || affine.terms[0].second != 1) return {};
  const auto var = std::ranges::find(statement.vars, affine.terms[0].first, &Var::symbol);
  if (var == statement.vars.end()) return {};
  part.offset = affine.constant;
  part.extent = var->extent;
  return part;
}

class ConsumerSplitter {
 public:
  ConsumerSplitter(LoopProgram& program, Ledger& ledger)
      : program_(program),
        ledger_(ledger),
        deps_(Dependencies::of(program)),
        replacements_(program.statements.size()) {
    for (BufferId b : program.outputs) outputs_.insert(program.storage(b));
    for (BufferId b = 0; b < program.buffers.size(); ++b)
      if (const auto base = program.buffers[b].base; base != none) versions_[base].push_back(b);
  }

  bool run() {
    const auto count = static_cast<BufferId>(program_.buffers.size());
    bool changed = false;
    for (BufferId b = 0; b < count; ++b) changed = consider(b) || changed;
    if (!changed) return false;
    std::vector<ProgramStatement> statements;
    for (size_t s = 0; s < replacements_.size(); ++s)
      if (replacements_[s].empty())
        statements.push_back(std::move(program_.statements[s]));
      else
        std::ranges::move(replacements_[s], std::back_inserter(statements));
    program_.statements = std::move(statements);
    read_last_versions();
    return true;
  }

 private:
  bool consider(BufferId b) {
    const auto &writers = deps_.writers[b], &readers = deps_.readers[b];
    if (program_.buffers[b].role != Role::temporary || outputs_.count(b) ||
        program_.buffers[b].base != none || writers.size() < 2 || writers.size() > most_parts ||
        readers.size() != 1 || readers[0] <= writers.back())
      return false;
    const uint32_t r = readers[0];
    if (!replacements_[r].empty() ||
        std::ranges::any_of(writers, [&](uint32_t w) { return !replacements_[w].empty(); }))
      return false;
    const auto parts = parts_of(b);
    if (!parts) return false;
    const auto along = variable(program_.statements[r], b, *parts);
    if (!along) return false;
    ledger_.add({"inline",
                 origin_names(program_.statements[writers[0]]),
                 origin_names(program_.statements[r]),
                 "read in parts",
                 {},
                 fmt::format("{} parts along dim {}", parts->parts.size(), parts->axis),
                 static_cast<double>(program_.buffers[b].bytes())});
    for (const auto& part : parts->parts)
      replacements_[r].push_back(consumer_of_part(program_.statements[r], b, *parts, part, *along));
    for (BufferId version : versions_[b]) {
      program_.buffers[version].base = none;
      program_.buffers[version].version = 0;
    }
    for (const auto& store : program_.statements[r].stores) make_versions(r, store.buffer);
    return true;
  }

  /// The parts, where each writer stores one of adjacent ranges of one dim, these cover the whole buffer, and
  /// the writers do nothing else.
  std::optional<Parts> parts_of(BufferId b) const {
    const auto& dims = program_.buffers[b].dims;
    Parts parts;
    parts.axis = dims.size();
    for (uint32_t w : deps_.writers[b]) {
      const auto& writer = program_.statements[w];
      if (writer.kind != FE_STATEMENT_MAP || writer.stores.size() != 1 || writer.stores[0].mask != none ||
          writer.stores[0].mode != FE_STORE_SET)
        return {};
      const auto& index = writer.stores[0].index;
      size_t variables = 0;
      for (size_t d = 0; d < dims.size(); ++d) {
        auto part = part_of(program_, writer, index[d]);
        if (!part) return {};
        variables += part->extent > 1 || !program_.pool.as_constant(index[d]);
        if (part->extent == dims[d]) continue;
        if (parts.axis != dims.size() && parts.axis != d) return {};
        parts.axis = d;
        part->writer = w;
        if (!parts.parts.empty() && parts.parts.back().writer == w) return {};
        parts.parts.push_back(*part);
      }
      if (variables != writer.vars.size()) return {};
    }
    if (parts.parts.size() != deps_.writers[b].size()) return {};
    std::ranges::sort(parts.parts, {}, &Part::offset);
    int64_t end = 0;
    for (const auto& part : parts.parts) {
      if (part.offset != end || part.extent == 0) return {};
      end += part.extent;
    }
    return end == dims[parts.axis] ? std::optional(parts) : std::nullopt;
  }

  /// The loop of the map that runs over the concatenated dim, where each of its loads has this loop's
  /// variable alone as that dim's index.
  std::optional<index::Symbol> variable(const ProgramStatement& reader, BufferId b,
                                        const Parts& parts) const {
    if (reader.kind != FE_STATEMENT_MAP) return {};
    for (const auto& store : reader.stores)
      if (versions_.contains(program_.storage(store.buffer)) || changes_input(store.buffer)) return {};
    std::optional<index::Symbol> along;
    for (const auto& op : reader.ops) {
      if (op.code != FE_OP_LOAD || program_.storage(op.buffer) != b) continue;
      const auto symbol = program_.pool.as_symbol(op.index[parts.axis]);
      if (op.a != none || !symbol || (along && along != symbol) || picks_in_size_one(program_, op)) return {};
      along = symbol;
    }
    if (!along) return {};
    const auto var = std::ranges::find(reader.vars, *along, &Var::symbol);
    return var != reader.vars.end() && var->kind == VarKind::parallel &&
                   var->extent == program_.buffers[b].dims[parts.axis]
               ? along
               : std::nullopt;
  }

  /// Whether the result is copied to an input that is changed in place: one statement must write that as a
  /// whole.
  bool changes_input(BufferId stored) const {
    return std::ranges::any_of(deps_.readers[program_.storage(stored)], [&](uint32_t s) {
      return std::ranges::any_of(program_.statements[s].stores, [&](const Store& store) {
        return program_.buffers[program_.storage(store.buffer)].role == Role::input;
      });
    });
  }

  /// The statement that does the reader's work on one part; the part becomes a buffer of its own.
  ProgramStatement consumer_of_part(const ProgramStatement& reader, BufferId b, const Parts& parts,
                                    const Part& part, index::Symbol along) {
    auto& pool = program_.pool;
    ProgramBuffer buffer = program_.buffers[b];
    buffer.dims[parts.axis] = part.extent;
    buffer.strides = ferrite::loop::contiguous_strides(buffer.dims);
    const auto own = static_cast<BufferId>(program_.buffers.size());
    program_.buffers.push_back(std::move(buffer));
    auto& store = program_.statements[part.writer].stores[0];
    store.buffer = own;
    store.index[parts.axis] = pool.sub(store.index[parts.axis], pool.constant(part.offset));

    ProgramStatement made;
    made.kind = reader.kind;
    made.origins = reader.origins;
    Substitution symbols;
    auto inside = pool.constant(0);
    for (const auto& var : reader.vars) {
      auto fresh = var;
      if (var.symbol == along) fresh.extent = part.extent;
      if (fresh.extent == 1 && var.symbol == along) {
        symbols.emplace_back(along, pool.constant(part.offset));
        continue;
      }
      fresh.symbol = pool.new_symbol({0, fresh.extent - 1});
      made.vars.push_back(fresh);
      auto place = pool.symbol(fresh.symbol);
      if (var.symbol == along) {
        inside = place;
        place = pool.add(place, part.offset);
      }
      symbols.emplace_back(var.symbol, place);
    }
    BodyWriter body(pool);
    const auto numbers =
        body.splice(reader.ops, symbols, none, [&](const BodyOp& load) -> std::optional<OpId> {
          if (program_.storage(load.buffer) != b) return {};
          auto moved = load;
          moved.buffer = own;
          moved.index[parts.axis] = inside;
          return body.builder.add(std::move(moved));
        });
    made.ops = std::move(body.ops);
    made.stores = reader.stores;
    for (auto& each : made.stores)
      for (auto& expr : each.index) expr = pool.substitute(expr, symbols);
    renumber(made, numbers);
    return made;
  }

  /// Several statements now store the buffer that one statement stored before: each but the first makes a new
  /// version.
  void make_versions(uint32_t reader, BufferId stored) {
    auto last = stored;
    uint32_t number = 0;
    for (auto& replacement : replacements_[reader])
      for (auto& store : replacement.stores) {
        if (store.buffer != stored) continue;
        if (number > 0) {
          ProgramBuffer version = program_.buffers[stored];
          version.base = stored;
          version.version = number;
          last = static_cast<BufferId>(program_.buffers.size());
          program_.buffers.push_back(std::move(version));
          store.buffer = last;
        }
        ++number;
      }
    last_.emplace(stored, last);
  }

  void read_last_versions() {
    const auto now = [&](BufferId& b) {
      if (const auto found = last_.find(b); found != last_.end()) b = found->second;
    };
    for (auto& statement : program_.statements) {
      for (auto& op : statement.ops)
        if (op.code == FE_OP_LOAD) now(op.buffer);
      for (auto& b : statement.call.reads) now(b);
    }
    for (auto& b : program_.outputs) now(b);
  }

  LoopProgram& program_;
  Ledger& ledger_;
  const Dependencies deps_;
  std::vector<std::vector<ProgramStatement>> replacements_;  ///< by statement: its replacements
  std::set<BufferId> outputs_;
  std::unordered_map<BufferId, std::vector<BufferId>> versions_;  ///< by storage
  std::unordered_map<BufferId, BufferId>
      /// last versions of the buffers that the replacements store, by the buffer that the original statement
      /// stored
      last_;
};

}  // namespace

bool split_concat_consumers(LoopProgram& program, Ledger& ledger) {
  // A buffer that is stored in parts has a version for each part but the first.
  const bool any = std::ranges::any_of(program.buffers, [&](const ProgramBuffer& buffer) {
    return buffer.base != none && program.buffers[buffer.base].role == Role::temporary;
  });
  return any && ConsumerSplitter(program, ledger).run();
}

}  // namespace ferrite::core::schedule
