// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <string_view>
#include <unordered_map>

#include "ferrite/index/pool.hpp"
#include "ferrite/index/simplify.hpp"

namespace ferrite::inline v0::index {

inline const char* describe(RecordFault fault) {
  switch (fault) {
    case RecordFault::none: return "no fault";
    case RecordFault::too_many: return "there are too many index records";
    case RecordFault::unknown_op: return "the operation is unknown";
    case RecordFault::unused_field: return "an unused field is not zero";
    case RecordFault::operand: return "an operand does not precede its user";
    case RecordFault::symbol: return "the symbol is not declared";
    case RecordFault::zero_divisor: return "the divisor may be zero";
    case RecordFault::too_large: return "the expressions are too large";
  }
  return "the fault is unknown";
}

namespace detail {

inline std::int64_t apply(Op op, std::int64_t a, std::int64_t b) {
  switch (op) {
    case Op::add: return wrap_add(a, b);
    case Op::mul: return wrap_mul(a, b);
    case Op::floordiv: return floor_div(a, b);
    case Op::mod: return floor_mod(a, b);
    case Op::min: return std::min(a, b);
    case Op::max: return std::max(a, b);
    case Op::constant:
    case Op::symbol: break;
  }
  return 0;
}

}  // namespace detail

// --------------------------------------------------------------------------------------------------------
// queries

inline std::optional<std::int64_t> Pool::as_constant(Expr e) const {
  return node(e).op == Op::constant ? std::optional(node(e).value) : std::nullopt;
}

inline std::optional<Symbol> Pool::as_symbol(Expr e) const {
  return node(e).op == Op::symbol ? std::optional(static_cast<Symbol>(node(e).value)) : std::nullopt;
}

inline Op Pool::op(Expr e) const {
  const Node& n = node(e);
  return n.op == Op::add && n.rhs == 1 && n.value == 0 ? Op::mul : n.op;
}

inline Expr Pool::lhs(Expr e) {
  const Node n = node(e);
  if (n.op == Op::constant || n.op == Op::symbol) return {};
  if (n.op != Op::add) return {n.lhs};
  if (n.rhs == 1 && n.value == 0) return terms_[n.lhs].expr;
  Linear l;
  const std::size_t count = n.value != 0 ? n.rhs : n.rhs - 1;
  for (std::size_t i = 0; i < count; ++i) l.terms.push(terms_[n.lhs + i]);
  return count == 1 && l.terms[0].coefficient == 1 ? l.terms[0].expr : intern_sum(l);
}

inline Expr Pool::rhs(Expr e) {
  const Node n = node(e);
  if (n.op == Op::constant || n.op == Op::symbol) return {};
  if (n.op != Op::add) return {n.rhs};
  if (n.value != 0) return constant(n.value);
  const Term last = terms_[n.lhs + n.rhs - 1];
  if (n.rhs == 1) return constant(last.coefficient);
  return mul(last.expr, last.coefficient);
}

template <class Visitor>
decltype(auto) Pool::visit(Expr e, Visitor&& visitor) const {
  const Node& n = node(e);
  const Expr a{n.lhs}, b{n.rhs};
  switch (n.op) {
    case Op::symbol: return visitor.symbol(static_cast<Symbol>(n.value));
    case Op::add: return visitor.sum(n.value, sum_terms(n));
    case Op::mul: return visitor.mul(a, b);
    case Op::floordiv: return visitor.floordiv(a, b);
    case Op::mod: return visitor.mod(a, b);
    case Op::min: return visitor.min(a, b);
    case Op::max: return visitor.max(a, b);
    case Op::constant: break;
  }
  return visitor.constant(n.value);
}

/// Calls visit(Expr) -> bool once for each expression below the roots, users before operands; false skips the
/// operands. Operands have smaller ids than their users, so a heap of ids gives this order without marks.
template <class Visit>
void Pool::descend(std::span<const Expr> roots, Visit&& visit) const {
  std::vector<std::uint32_t> heap;
  for (const Expr root : roots) heap.push_back(root.id);
  std::make_heap(heap.begin(), heap.end());
  std::uint32_t last = 0;
  const auto push = [&](std::uint32_t id) {
    heap.push_back(id);
    std::push_heap(heap.begin(), heap.end());
  };
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end());
    const std::uint32_t id = heap.back();
    heap.pop_back();
    if (id == last) continue;
    last = id;
    if (!visit(Expr{id})) continue;
    const Node& n = nodes_[id];
    if (n.op == Op::add) {
      for (const Term& t : sum_terms(n)) push(t.expr.id);
    } else if (n.op != Op::constant && n.op != Op::symbol) {
      push(n.lhs);
      push(n.rhs);
    }
  }
}

inline bool Pool::depends_on(Expr e, Symbol symbol) const {
  const std::uint64_t bit = std::uint64_t{1} << (symbol % 64);
  if ((node(e).symbols & bit) == 0) return false;
  bool found = false;
  descend({&e, 1}, [&](Expr part) {
    found = found || as_symbol(part) == symbol;
    return !found && (node(part).symbols & bit) != 0;
  });
  return found;
}

inline void Pool::collect_symbols(Expr e, std::vector<Symbol>& symbols) const {
  const std::size_t known = symbols.size();
  descend({&e, 1}, [&](Expr part) {
    if (const auto s = as_symbol(part)) {
      if (std::find(symbols.begin(), symbols.begin() + static_cast<std::ptrdiff_t>(known), *s) ==
          symbols.begin() + static_cast<std::ptrdiff_t>(known)) {
        symbols.push_back(*s);
      }
    }
    return node(part).symbols != 0;
  });
  std::sort(symbols.begin() + static_cast<std::ptrdiff_t>(known), symbols.end());
}

inline std::optional<std::int64_t> Pool::coefficient(Expr e, Symbol symbol) const {
  if (!is_sum(e)) {
    if (as_symbol(e) == symbol) return 1;
    return depends_on(e, symbol) ? std::nullopt : std::optional<std::int64_t>(0);
  }
  std::int64_t result = 0;
  for (const Term& t : sum_terms(node(e))) {
    if (as_symbol(t.expr) == symbol)
      result = t.coefficient;
    else if (depends_on(t.expr, symbol))
      return std::nullopt;
  }
  return result;
}

inline Affine Pool::affine(Expr e) const {
  Affine result;
  Linear l;
  accumulate(l, e, 1);
  result.constant = l.constant;
  for (const Term& t : l.terms) {
    if (const auto s = as_symbol(t.expr))
      result.terms.emplace_back(*s, t.coefficient);
    else
      result.rest.emplace_back(t.expr, t.coefficient);
  }
  return result;
}

inline std::vector<Expr> Pool::post_order(std::span<const Expr> roots) const {
  std::vector<Expr> order;
  descend(roots, [&](Expr e) {
    order.push_back(e);
    return true;
  });
  std::reverse(order.begin(), order.end());
  return order;
}

// -----------------------------------------------------------------------------------------------------
// rebuilding

inline Expr Pool::combine(Op op, Expr a, Expr b) {
  switch (op) {
    case Op::add: return add(a, b);
    case Op::mul: return mul(a, b);
    case Op::floordiv: return floordiv(a, b);
    case Op::mod: return mod(a, b);
    case Op::min: return min(a, b);
    case Op::max: return max(a, b);
    case Op::constant:
    case Op::symbol: break;
  }
  return {};
}

/// Rebuilds `root` of `source` in this pool, with leaf(Symbol) for symbols. If `source` is this pool, parts
/// without a symbol of the mask `changed` are kept.
template <class Leaf>
Expr Pool::rebuild(const Pool& source, Expr root, std::uint64_t changed, Leaf&& leaf) {
  const auto stays = [&](Expr e) { return &source == this && (source.node(e).symbols & changed) == 0; };
  if (stays(root)) return root;
  struct Entry {
    Expr from, to;
  };
  std::vector<Entry> entries;  // descending by `from`
  source.descend({&root, 1}, [&](Expr e) {
    if (stays(e)) return false;
    entries.push_back({e, {}});
    return true;
  });
  const auto image = [&](Expr e) {
    if (stays(e)) return e;
    return std::lower_bound(entries.begin(), entries.end(), e,
                            [](const Entry& entry, Expr key) { return entry.from.id > key.id; })
        ->to;
  };
  for (auto entry = entries.rbegin(); entry != entries.rend(); ++entry) {
    const Node n = source.node(entry->from);
    if (n.op == Op::constant) {
      entry->to = constant(n.value);
    } else if (n.op == Op::symbol) {
      entry->to = leaf(static_cast<Symbol>(n.value));
    } else if (n.op == Op::add) {
      Linear l;
      l.constant = n.value;
      for (const Term& t : source.sum_terms(n)) accumulate(l, image(t.expr), t.coefficient);
      entry->to = finish(l);
    } else {
      entry->to = combine(n.op, image(Expr{n.lhs}), image(Expr{n.rhs}));
    }
  }
  return entries.front().to;
}

inline Expr Pool::substitute(Expr e, std::span<const std::pair<Symbol, Expr>> replacements) {
  std::uint64_t changed = 0;
  for (const auto& [symbol, to] : replacements) changed |= std::uint64_t{1} << (symbol % 64);
  return rebuild(*this, e, changed, [&](Symbol s) {
    for (const auto& [symbol, to] : replacements) {
      if (symbol == s) return to;
    }
    return symbol(s);
  });
}

template <class SymbolMap>
Expr Pool::import(const Pool& other, Expr e, SymbolMap&& symbol_map) {
  return rebuild(other, e, ~std::uint64_t{0}, symbol_map);
}

// -----------------------------------------------------------------------------------------------------
// evaluation

inline std::int64_t Pool::eval_tree(std::uint32_t id, std::span<const std::int64_t> values) const {
  const Node& n = nodes_[id];
  if (n.op == Op::constant) return n.value;
  if (n.op == Op::symbol) {
    const std::size_t s = static_cast<std::size_t>(n.value);
    return s < values.size() ? values[s] : 0;
  }
  if (n.op != Op::add) return detail::apply(n.op, eval_tree(n.lhs, values), eval_tree(n.rhs, values));
  std::int64_t sum = n.value;
  for (const Term& t : sum_terms(n)) {
    sum = detail::wrap_add(sum, detail::wrap_mul(t.coefficient, eval_tree(t.expr.id, values)));
  }
  return sum;
}

/// Evaluates expressions at many points: a linear list of steps, compiled once. It keeps no reference to the
/// pool. Several threads may use it in parallel, each with its own scratch memory.
class Evaluator {
 public:
  Evaluator() = default;
  Evaluator(const Pool& pool, std::span<const Expr> roots) {
    const std::vector<Expr> order = pool.post_order(roots);
    const auto slot = [&](Expr e) {
      return static_cast<std::uint32_t>(
          std::lower_bound(order.begin(), order.end(), e, [](Expr a, Expr b) { return a.id < b.id; }) -
          order.begin());
    };
    steps_.reserve(order.size());
    for (const Expr e : order) {
      const Pool::Node& n = pool.node(e);
      Step step{n.op, n.lhs, n.rhs, n.value};
      if (n.op == Op::add) {
        step.lhs = static_cast<std::uint32_t>(terms_.size());
        for (const Term& t : pool.sum_terms(n)) terms_.push_back({slot(t.expr), t.coefficient});
      } else if (n.op != Op::constant && n.op != Op::symbol) {
        step.lhs = slot(Expr{n.lhs});
        step.rhs = slot(Expr{n.rhs});
      }
      steps_.push_back(step);
    }
    for (const Expr root : roots) results_.push_back(slot(root));
  }

  /// The number of values that `scratch` must hold.
  std::size_t scratch_size() const { return steps_.size(); }

  /// results[i] = the value of root i for symbol s = values_by_symbol[s]; a symbol beyond the span counts as
  /// 0.
  void eval(std::span<const std::int64_t> values_by_symbol, std::span<std::int64_t> results,
            std::span<std::int64_t> scratch) const {
    for (std::size_t i = 0; i < steps_.size(); ++i) {
      const Step& step = steps_[i];
      std::int64_t value = step.value;
      if (step.op == Op::symbol) {
        const std::size_t s = static_cast<std::size_t>(value);
        value = s < values_by_symbol.size() ? values_by_symbol[s] : 0;
      } else if (step.op == Op::add) {
        for (std::uint32_t t = step.lhs; t < step.lhs + step.rhs; ++t) {
          value = detail::wrap_add(value, detail::wrap_mul(terms_[t].coefficient, scratch[terms_[t].slot]));
        }
      } else if (step.op != Op::constant) {
        value = detail::apply(step.op, scratch[step.lhs], scratch[step.rhs]);
      }
      scratch[i] = value;
    }
    for (std::size_t i = 0; i < results_.size(); ++i) results[i] = scratch[results_[i]];
  }

 private:
  struct Step {
    Op op;
    std::uint32_t lhs, rhs;
    std::int64_t value;
  };
  struct SlotTerm {
    std::uint32_t slot;
    std::int64_t coefficient;
  };
  std::vector<Step> steps_;
  std::vector<SlotTerm> terms_;
  std::vector<std::uint32_t> results_;
};

inline std::int64_t Pool::eval(Expr e, std::span<const std::int64_t> values_by_symbol) const {
  // The limit bounds both the stack and the repeated evaluation of shared parts.
  constexpr std::uint32_t small_tree = 256;
  if (node(e).tree <= small_tree) return eval_tree(e.id, values_by_symbol);
  const Evaluator evaluator(*this, {&e, 1});
  std::vector<std::int64_t> scratch(evaluator.scratch_size());
  std::int64_t result = 0;
  evaluator.eval(values_by_symbol, {&result, 1}, scratch);
  return result;
}

// -------------------------------------------------------------------------------------------------------
// printing

/// `level` 0: no parentheses; 1: an operand of an infix operator, in parentheses unless it is a leaf or a
/// call.
template <class Name>
void Pool::print_to(std::string& out, Expr e, int level, Name&& name) const {
  constexpr std::uint32_t max_tree = 4096;
  const Node& n = node(e);
  if (n.tree > max_tree) {
    out += "<" + std::to_string(n.tree) + " nodes>";
    return;
  }
  if (n.op == Op::constant) {
    out += std::to_string(n.value);
    return;
  }
  if (n.op == Op::symbol) {
    out += name(static_cast<Symbol>(n.value));
    return;
  }
  if (n.op == Op::min || n.op == Op::max) {
    out += n.op == Op::min ? "min(" : "max(";
    print_to(out, Expr{n.lhs}, 0, name);
    out += ", ";
    print_to(out, Expr{n.rhs}, 0, name);
    out += ")";
    return;
  }
  if (level > 0) out += "(";
  if (n.op == Op::add) {
    const std::span<const Term> terms = sum_terms(n);
    for (std::size_t i = 0; i < terms.size(); ++i) {
      std::int64_t c = terms[i].coefficient;
      if (i > 0) out += c < 0 && c != detail::lowest ? " - " : " + ";
      if (i > 0 && c < 0 && c != detail::lowest) c = -c;
      print_to(out, terms[i].expr, 1, name);
      if (c != 1) out += "*" + std::to_string(c);
    }
    if (n.value != 0) {
      const bool negative = n.value < 0 && n.value != detail::lowest;
      out += negative ? " - " : " + ";
      out += std::to_string(negative ? -n.value : n.value);
    }
  } else {
    print_to(out, Expr{n.lhs}, 1, name);
    out += n.op == Op::mul ? "*" : n.op == Op::floordiv ? " // " : " % ";
    print_to(out, Expr{n.rhs}, 1, name);
  }
  if (level > 0) out += ")";
}

template <class Name>
std::string Pool::print(Expr e, Name&& name) const {
  std::string out;
  if (e) print_to(out, e, 0, name);
  return out;
}

inline std::string Pool::print(Expr e) const {
  return print(
      e, [this](Symbol s) { return symbol_name(s).empty() ? "s" + std::to_string(s) : symbol_name(s); });
}

// --------------------------------------------------------------------------------------------------------
// records

inline std::vector<std::uint32_t> Pool::write_records(std::span<const Expr> roots,
                                                      std::vector<Record>& records) const {
  std::unordered_map<std::uint32_t, std::uint32_t> positions;
  std::unordered_map<std::int64_t, std::uint32_t> constants;
  const auto append = [&](Op op, std::int64_t value, std::uint32_t lhs, std::uint32_t rhs) {
    Record record;
    record.op = static_cast<std::uint8_t>(op);
    record.value = value;
    record.lhs = lhs;
    record.rhs = rhs;
    records.push_back(record);
    return static_cast<std::uint32_t>(records.size() - 1);
  };
  const auto append_constant = [&](std::int64_t value) {
    const auto found = constants.find(value);
    if (found != constants.end()) return found->second;
    const std::uint32_t position = append(Op::constant, value, 0, 0);
    constants.emplace(value, position);
    return position;
  };
  const auto append_node = [&](const Node& n) {
    if (n.op == Op::constant) return append_constant(n.value);
    if (n.op == Op::symbol) return append(Op::symbol, n.value, 0, 0);
    if (n.op != Op::add) return append(n.op, 0, positions.at(n.lhs), positions.at(n.rhs));
    std::optional<std::uint32_t> sum;
    for (const Term& t : sum_terms(n)) {
      std::uint32_t part = positions.at(t.expr.id);
      if (t.coefficient != 1) part = append(Op::mul, 0, part, append_constant(t.coefficient));
      sum = sum ? append(Op::add, 0, *sum, part) : part;
    }
    return n.value == 0 ? *sum : append(Op::add, 0, *sum, append_constant(n.value));
  };
  // Depth first from the roots: the bytes depend on the expressions only, not on the pool's history.
  struct Frame {
    std::uint32_t id;
    bool expanded;
  };
  std::vector<Frame> stack;
  for (auto root = roots.rbegin(); root != roots.rend(); ++root) stack.push_back({root->id, false});
  while (!stack.empty()) {
    const Frame frame = stack.back();
    stack.pop_back();
    if (positions.count(frame.id) != 0) continue;
    const Node& n = nodes_[frame.id];
    if (frame.expanded || n.op == Op::constant || n.op == Op::symbol) {
      positions.emplace(frame.id, append_node(n));
      continue;
    }
    stack.push_back({frame.id, true});
    if (n.op == Op::add) {
      for (std::size_t i = n.rhs; i-- > 0;) stack.push_back({terms_[n.lhs + i].expr.id, false});
    } else {
      stack.push_back({n.rhs, false});
      stack.push_back({n.lhs, false});
    }
  }
  std::vector<std::uint32_t> result;
  for (const Expr root : roots) result.push_back(positions.at(root.id));
  return result;
}

inline RecordStatus Pool::read_records(std::span<const Record> records, std::span<const Expr> symbols,
                                       std::vector<Expr>& exprs) {
  exprs.clear();
  if (records.size() > max_records) return {RecordFault::too_many, max_records};
  const std::size_t start = nodes_.size() + terms_.size();
  RecordFault fault = RecordFault::none;
  const auto build = [&](const Record& r, std::size_t position) -> Expr {
    const auto refuse = [&](RecordFault reason) {
      fault = reason;
      return Expr{};
    };
    if (r.op > static_cast<std::uint8_t>(Op::max)) return refuse(RecordFault::unknown_op);
    for (const std::uint8_t byte : r.pad) {
      if (byte != 0) return refuse(RecordFault::unused_field);
    }
    const Op op = static_cast<Op>(r.op);
    if (op == Op::constant || op == Op::symbol) {
      if (r.lhs != 0 || r.rhs != 0) return refuse(RecordFault::unused_field);
      if (op == Op::constant) return constant(r.value);
      if (r.value < 0 || static_cast<std::uint64_t>(r.value) >= symbols.size())
        return refuse(RecordFault::symbol);
      const Expr e = symbols[static_cast<std::size_t>(r.value)];
      return e ? e : refuse(RecordFault::symbol);
    }
    if (r.value != 0) return refuse(RecordFault::unused_field);
    if (r.lhs >= position || r.rhs >= position) return refuse(RecordFault::operand);
    const Expr a = exprs[r.lhs], b = exprs[r.rhs];
    const bool divides = op == Op::floordiv || op == Op::mod;
    if (divides && range(b).lo <= 0 && range(b).hi >= 0) return refuse(RecordFault::zero_divisor);
    const Expr e = combine(op, a, b);
    return nodes_.size() + terms_.size() - start > max_record_growth ? refuse(RecordFault::too_large) : e;
  };
  exprs.reserve(records.size());
  for (std::size_t i = 0; i < records.size(); ++i) {
    const Expr e = build(records[i], i);
    if (fault != RecordFault::none) {
      exprs.clear();
      return {fault, i};
    }
    exprs.push_back(e);
  }
  return {};
}

inline RecordStatus Pool::read_records(std::span<const Record> records, std::vector<Expr>& exprs) {
  std::vector<Expr> symbols;
  symbols.reserve(symbols_.size());
  for (Symbol s = 0; s < symbols_.size(); ++s) symbols.push_back(symbol(s));
  return read_records(records, symbols, exprs);
}

}  // namespace ferrite::inline v0::index
