// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

// Index expressions and their pool. The file exceeds 600 lines because it is one class whose functions are
// all inline: plugins use it without linking a library.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace ferrite::inline v0::index {

/// The kind of an expression. The numbers are part of the serialised form (`Record`) and never change.
enum class Op : std::uint8_t {
  constant = 0,
  symbol = 1,
  add = 2,
  mul = 3,
  floordiv = 4,
  mod = 5,
  min = 6,
  max = 7
};

/// All values from `lo` to `hi`, both inclusive.
struct Range {
  std::int64_t lo, hi;
  friend bool operator==(const Range&, const Range&) = default;
};

/// A handle into a Pool; id 0 is "none". Within one pool, equal handles mean equal canonical forms.
struct Expr {
  std::uint32_t id = 0;
  explicit operator bool() const { return id != 0; }
  friend bool operator==(Expr, Expr) = default;
};

/// The number of a variable in its pool: 0, 1, 2, ... in the order of declaration.
using Symbol = std::uint32_t;

/// An addend of a sum: coefficient * expr.
struct Term {
  Expr expr;
  std::int64_t coefficient = 0;
  friend bool operator==(const Term&, const Term&) = default;
};

/// An expression as constant + sum of coefficient * symbol + sum of coefficient * (anything else).
struct Affine {
  std::int64_t constant = 0;
  std::vector<std::pair<Symbol, std::int64_t>> terms;
  std::vector<std::pair<Expr, std::int64_t>> rest;
};

/// One node of the flat form. A leaf holds its constant or its symbol number in `value`; any other node holds
/// the positions of its operands, both less than its own. Unused fields and `pad` are zero.
struct Record {
  std::uint8_t op = 0;
  std::uint8_t pad[7] = {};
  std::int64_t value = 0;
  std::uint32_t lhs = 0, rhs = 0;
};
static_assert(sizeof(Record) == 24);

/// The reason why a list of records was refused.
enum class RecordFault : std::uint8_t {
  none,          ///< accepted
  too_many,      ///< more than `Pool::max_records` records
  unknown_op,    ///< `op` is not an Op
  unused_field,  ///< a field that the op does not use is not zero
  operand,       ///< an operand does not lie before its user
  symbol,        ///< a symbol number outside the declared symbols
  zero_divisor,  ///< a divisor whose range includes zero
  too_large,     ///< the expressions need more than `Pool::max_record_growth` nodes and terms
};

/// The outcome of Pool::read_records: the fault and the position of the record that has it.
struct RecordStatus {
  RecordFault fault = RecordFault::none;
  std::size_t position = 0;
  explicit operator bool() const { return fault == RecordFault::none; }
};

/// A sentence fragment that describes the fault, for messages.
inline const char* describe(RecordFault fault);

namespace detail {

__extension__ typedef __int128 Wide;

inline constexpr std::int64_t lowest = std::numeric_limits<std::int64_t>::min();
inline constexpr std::int64_t highest = std::numeric_limits<std::int64_t>::max();

inline std::int64_t wrap_add(std::int64_t a, std::int64_t b) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
}
inline std::int64_t wrap_mul(std::int64_t a, std::int64_t b) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
}
inline std::int64_t wrap_neg(std::int64_t a) {
  return static_cast<std::int64_t>(0 - static_cast<std::uint64_t>(a));
}
/// a // b rounded down. Total: a // 0 = 0, and lowest // -1 wraps.
inline std::int64_t floor_div(std::int64_t a, std::int64_t b) {
  if (b == 0) return 0;
  if (b == -1) return wrap_neg(a);
  const std::int64_t quotient = a / b;
  return quotient - ((a % b != 0) && ((a < 0) != (b < 0)));
}
/// a - b * floor_div(a, b): has the sign of b. Total: a mod 0 = a.
inline std::int64_t floor_mod(std::int64_t a, std::int64_t b) {
  if (b == 0) return a;
  if (b == -1) return 0;
  const std::int64_t remainder = a % b;
  return remainder != 0 && ((remainder < 0) != (b < 0)) ? remainder + b : remainder;
}
inline Wide wide_floor_div(Wide a, std::int64_t b) {  // b > 0
  const Wide quotient = a / b;
  return quotient - (a % b < 0);
}
inline bool fits(Wide value) { return value >= lowest && value <= highest; }
inline std::int64_t magnitude(std::int64_t a) {  // |a|, and 2^62 (a divisor of it) for the lowest
  return a == lowest ? std::int64_t{1} << 62 : (a < 0 ? -a : a);
}
/// gcd(g, a * b) for g, a, b >= 0. If g = 0 and the product overflows, a divisor of it.
inline std::int64_t gcd_product(std::int64_t g, std::int64_t a, std::int64_t b) {
  const Wide product = static_cast<Wide>(a) * b;
  if (g == 0) return fits(product) ? static_cast<std::int64_t>(product) : a;
  return std::gcd(g, static_cast<std::int64_t>(product % g));
}
inline std::uint64_t mix(std::uint64_t hash, std::uint64_t value) {
  hash = (hash ^ value) * 0x9E3779B97F4A7C15u;
  return hash ^ (hash >> 29);
}

/// A list of terms that is on the stack while it is short.
class TermList {
 public:
  TermList() = default;
  TermList(const TermList&) = delete;
  TermList& operator=(const TermList&) = delete;
  void push(Term term) {
    if (size_ == capacity_) grow();
    data_[size_++] = term;
  }
  void resize_down(std::size_t size) { size_ = size; }
  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  Term& operator[](std::size_t i) { return data_[i]; }
  const Term& operator[](std::size_t i) const { return data_[i]; }
  Term* begin() { return data_; }
  Term* end() { return data_ + size_; }
  const Term* begin() const { return data_; }
  const Term* end() const { return data_ + size_; }

 private:
  void grow() {
    std::unique_ptr<Term[]> larger(new Term[capacity_ * 2]);
    std::copy(begin(), end(), larger.get());
    heap_ = std::move(larger);
    data_ = heap_.get();
    capacity_ *= 2;
  }
  static constexpr std::size_t inline_capacity = 8;
  Term inline_[inline_capacity];
  Term* data_ = inline_;
  std::size_t size_ = 0, capacity_ = inline_capacity;
  std::unique_ptr<Term[]> heap_;
};

/// constant + sum of terms, under construction.
struct Linear {
  std::int64_t constant = 0;
  TermList terms;
};

/// The interval of a sum over the integers; `known` is false if it may exceed 128 bits.
struct Bounds {
  Wide lo = 0, hi = 0;
  bool known = true;
  bool exact() const { return known && fits(lo) && fits(hi); }
};

}  // namespace detail

/// A hash-consed arena of index expressions in canonical form.
///
/// Values are 64-bit two's complement integers; sums and products wrap. A rule that holds for integers but
/// not for wrapped ones (such as those for division) is applied only if the ranges prove that nothing wraps.
/// So for symbol values within their ranges, every rewrite keeps the value exactly, whatever the ranges are.
/// Give symbols real bounds: an unbounded symbol prevents the simplification of divisions of its multiples.
///
/// floordiv rounds down and mod has the sign of the divisor. Both are total here (x // 0 = 0, x mod 0 = x),
/// but emitted code need not be: a divisor's range must not include zero.
///
/// Canonical form: a sum is one node, c0 + c1*t1 + c2*t2 + ..., with non-zero coefficients and distinct terms
/// in a fixed order that depends on symbol numbers and structure, not on the history of the pool. A multiple
/// c*t is a sum of one term. A term is a symbol, a product (of terms, or of sums too large to distribute), or
/// a floordiv, mod, min or max. A symbol or other expression whose range has a single value is that constant,
/// except a computed symbol and expressions that contain one.
///
/// There are two ways to walk an expression: `visit` shows a sum as the n-ary node that it is (for emission
/// and analysis); `op`, `lhs` and `rhs` show a binary tree, in which a sum is a chain of Op::add over
/// Op::mul(term, constant).
///
/// Const members may run concurrently with each other, but not with the others. Only std::bad_alloc is
/// thrown. Operands must belong to this pool and must not be none.
class Pool {
 public:
  static constexpr std::size_t max_records = 1u << 16;
  static constexpr std::size_t max_record_growth = 1u << 20;

  Pool();

  /// Declares a variable with its range and a number that divides all its values (at least 1). A range with
  /// hi < lo (an empty loop) counts as [lo, lo].
  Symbol new_symbol(Range range, std::int64_t divisor = 1, std::string name = {});
  /// Declares a variable whose value is computed, by a computation that may fail. Even if its range has a
  /// single value, it is not replaced by that value: expressions keep depending on it, unless a rule
  /// eliminates it for every value.
  Symbol new_computed_symbol(Range range, std::int64_t divisor = 1);
  std::size_t symbol_count() const { return symbols_.size(); }
  Range symbol_range(Symbol symbol) const { return symbols_[symbol].range; }
  std::int64_t symbol_divisor(Symbol symbol) const { return symbols_[symbol].divisor; }
  const std::string& symbol_name(Symbol symbol) const { return symbols_[symbol].name; }

  // Simplifying constructors.
  Expr constant(std::int64_t value);
  /// The variable. Its value instead if its range has only one and it is not computed.
  Expr symbol(Symbol symbol);
  Expr add(Expr a, Expr b);
  Expr sub(Expr a, Expr b);
  Expr neg(Expr a);
  Expr mul(Expr a, Expr b);
  Expr floordiv(Expr a, Expr b);
  Expr mod(Expr a, Expr b);
  Expr min(Expr a, Expr b);
  Expr max(Expr a, Expr b);
  Expr add(Expr a, std::int64_t b) { return add(a, constant(b)); }
  Expr mul(Expr a, std::int64_t b);
  Expr floordiv(Expr a, std::int64_t b);
  Expr mod(Expr a, std::int64_t b);
  /// constant + sum of coefficient * expr in one step: the dot product of indices and strides.
  Expr linear(std::int64_t constant, std::span<const Term> terms);

  // The binary view. `lhs` and `rhs` may intern the part of a sum that they return; a leaf has none.
  Op op(Expr e) const;
  Expr lhs(Expr e);
  Expr rhs(Expr e);
  std::optional<std::int64_t> as_constant(Expr e) const;
  std::optional<Symbol> as_symbol(Expr e) const;

  /// The n-ary view: calls one of visitor.constant(int64_t), .symbol(Symbol), .sum(int64_t constant,
  /// std::span<const Term>), .mul(Expr, Expr), .floordiv(Expr, Expr), .mod(Expr, Expr), .min(Expr, Expr),
  /// .max(Expr, Expr), and returns its result. The span is valid until the pool next grows.
  template <class Visitor>
  decltype(auto) visit(Expr e, Visitor&& visitor) const;

  /// A conservative range of the expression's values. Constant time.
  Range range(Expr e) const { return {node(e).lo, node(e).hi}; }
  /// A number that divides every value of the expression; 0 for the constant 0. Constant time.
  std::int64_t divisor(Expr e) const { return node(e).divisor; }
  /// Whether a <= b; none if neither answer can be proved.
  std::optional<bool> less_equal(Expr a, Expr b) const;
  bool depends_on(Expr e, Symbol symbol) const;
  /// Appends those symbols of `e` that are not yet in `symbols`, in ascending order.
  void collect_symbols(Expr e, std::vector<Symbol>& symbols) const;
  /// c if e = c*s + (terms without s); none if s occurs in any other way.
  std::optional<std::int64_t> coefficient(Expr e, Symbol symbol) const;
  Affine affine(Expr e) const;
  /// All expressions below the roots, without duplicates, operands before users (sums as n-ary nodes).
  std::vector<Expr> post_order(std::span<const Expr> roots) const;
  std::size_t node_count() const { return nodes_.size() - 1; }

  /// Replaces symbols simultaneously.
  Expr substitute(Expr e, std::span<const std::pair<Symbol, Expr>> replacements);
  /// Copies an expression of another pool (or this one). `symbol_map(Symbol) -> Expr` gives the replacement
  /// of each of its symbols.
  template <class SymbolMap>
  Expr import(const Pool& other, Expr e, SymbolMap&& symbol_map);

  /// The value for symbol s = values_by_symbol[s]; a symbol beyond the span counts as 0. For many points use
  /// Evaluator.
  std::int64_t eval(Expr e, std::span<const std::int64_t> values_by_symbol) const;

  /// Infix text with `//` and `%`; `name(Symbol) -> std::string` (or string_view) names a symbol.
  template <class Name>
  std::string print(Expr e, Name&& name) const;
  /// With the names given to new_symbol; a symbol without one is s<number>.
  std::string print(Expr e) const;

  /// Appends the flat form of the roots, shared parts once, and returns each root's position.
  std::vector<std::uint32_t> write_records(std::span<const Expr> roots, std::vector<Record>& records) const;
  /// Rebuilds expressions from untrusted records; `symbols[s]` replaces symbol number s. On success `exprs`
  /// has one expression per record; on a fault it is empty. Time and memory are bounded, whatever the records
  /// contain.
  RecordStatus read_records(std::span<const Record> records, std::span<const Expr> symbols,
                            std::vector<Expr>& exprs);
  /// As above, with this pool's own symbols.
  RecordStatus read_records(std::span<const Record> records, std::vector<Expr>& exprs);

 private:
  friend class Evaluator;
  using Wide = detail::Wide;
  using Linear = detail::Linear;
  using Bounds = detail::Bounds;

  struct SymbolInfo {
    Range range;
    std::int64_t divisor;
    std::string name;
    Expr expr;
    bool computed = false;
  };

  /// Op::add is a sum: `value` is its constant, lhs the offset of its terms and rhs their count.
  struct Node {
    Op op = Op::constant;
    bool exact = true;      ///< the operation itself cannot wrap
    bool computed = false;  ///< it contains a computed symbol whose range has a single value
    std::uint32_t lhs = 0, rhs = 0;
    std::uint32_t tree = 1;  ///< number of nodes if written as a tree; saturates
    std::int64_t value = 0;
    std::int64_t lo = 0, hi = 0;
    std::int64_t divisor = 1;
    std::uint64_t key =
        0;  ///< structural order and hash: a symbol's number, else a hash with the top bit set
    std::uint64_t symbols = 0;  ///< bit s % 64 is set if symbol s occurs
  };

  /// Bounds the work of one outermost constructor call. A rule that would exceed the bound is not applied:
  /// adversarial nesting gives a less simple result, but takes no excessive time or stack.
  class Effort {
   public:
    explicit Effort(Pool& pool, std::size_t cost) : pool_(pool) {
      if (pool_.depth_++ == 0) pool_.work_ = 0;
      pool_.work_ += cost + 1;
    }
    ~Effort() { --pool_.depth_; }
    Effort(const Effort&) = delete;
    Effort& operator=(const Effort&) = delete;
    bool spent() const { return pool_.depth_ > 48 || pool_.work_ > 4096; }

   private:
    Pool& pool_;
  };

  const Node& node(Expr e) const { return nodes_[e.id]; }
  bool is_sum(Expr e) const { return node(e).op == Op::add; }
  std::span<const Term> sum_terms(const Node& n) const { return {terms_.data() + n.lhs, n.rhs}; }
  std::size_t sum_size(Expr e) const { return is_sum(e) ? node(e).rhs : 1; }
  bool before(Expr a, Expr b) const {
    const std::uint64_t ka = node(a).key, kb = node(b).key;
    return ka != kb ? ka < kb : a.id < b.id;
  }

  // Storage (pool.hpp).
  template <class Same>
  std::uint32_t* find_slot(std::uint64_t key, Same&& same);
  Expr store(std::uint32_t* slot, const Node& n);
  void rehash();
  Expr intern_sum(const Linear& l);
  Expr intern_binary(Op op, Expr a, Expr b);
  void binary_facts(Node& n, const Node& a, const Node& b) const;

  // Sums (simplify.hpp).
  void accumulate(Linear& l, Expr e, std::int64_t scale) const;
  void normalise(Linear& l) const;
  Bounds bounds(const Linear& l) const;
  Expr finish(Linear& l);
  Expr finish_sorted(Linear& l);
  bool recombine(Linear& l);
  std::optional<std::int64_t> find_term(const Linear& l, Expr e) const;
  Expr add_scaled(Expr a, Expr b, std::int64_t scale);
  std::optional<Term> pivot(Expr e, Op op) const;
  bool holds_term(Expr e, const Term& term) const;

  // Products, division, extrema (simplify.hpp).
  struct Split {
    Linear quotient, remainder, multiples;
  };
  struct Grid {
    std::int64_t step = 0;  ///< 0: no step was found
    Linear coarse, fine;
  };
  Expr product(Expr a, Expr b);
  Expr divide_constant(Expr x, std::int64_t c);
  Expr modulo_constant(Expr x, std::int64_t c);
  Expr divide_symbolic(Expr x, Expr d);
  Expr modulo_symbolic(Expr x, Expr d);
  bool split_constant(Expr x, std::int64_t c, Split& split) const;
  bool split_symbolic(Expr x, Expr d, Split& split);
  Expr without_factor(Expr product, Expr factor);
  void find_grid(Expr x, std::int64_t c, Grid& grid) const;
  Expr extremum(Op op, Expr a, Expr b);

  // Walking (walk.hpp).
  template <class Visit>
  void descend(std::span<const Expr> roots, Visit&& visit) const;
  std::int64_t eval_tree(std::uint32_t id, std::span<const std::int64_t> values) const;
  template <class Leaf>
  Expr rebuild(const Pool& source, Expr root, std::uint64_t changed, Leaf&& leaf);
  template <class Name>
  void print_to(std::string& out, Expr e, int level, Name&& name) const;
  Expr combine(Op op, Expr a, Expr b);

  std::vector<Node> nodes_;
  std::vector<Term> terms_;
  std::vector<std::uint32_t> table_;  // open addressing, at most half full, 0 is a free slot
  std::vector<SymbolInfo> symbols_;
  std::uint32_t depth_ = 0;
  std::size_t work_ = 0;
};

inline Pool::Pool() : nodes_(1), table_(256) {}

inline Symbol Pool::new_symbol(Range range, std::int64_t divisor, std::string name) {
  if (divisor < 1) divisor = 1;
  // Round the ends inwards to multiples of the divisor. A range without a multiple keeps its lower end.
  if (range.hi < range.lo) range.hi = range.lo;
  const Wide lo = -detail::wide_floor_div(-static_cast<Wide>(range.lo), divisor) * divisor;
  const Wide hi = detail::wide_floor_div(range.hi, divisor) * divisor;
  if (lo <= hi) {
    range = {static_cast<std::int64_t>(lo), static_cast<std::int64_t>(hi)};
  } else {
    range.hi = range.lo;
  }
  symbols_.push_back({range, divisor, std::move(name), {}});
  return static_cast<Symbol>(symbols_.size() - 1);
}

inline Symbol Pool::new_computed_symbol(Range range, std::int64_t divisor) {
  const Symbol symbol = new_symbol(range, divisor);
  symbols_[symbol].computed = true;
  return symbol;
}

template <class Same>
std::uint32_t* Pool::find_slot(std::uint64_t key, Same&& same) {
  if (table_.size() < nodes_.size() * 2) rehash();
  const std::size_t mask = table_.size() - 1;
  for (std::size_t i = detail::mix(key, 0) & mask;; i = (i + 1) & mask) {
    const std::uint32_t id = table_[i];
    if (id == 0 || (nodes_[id].key == key && same(nodes_[id]))) return &table_[i];
  }
}

inline void Pool::rehash() {
  table_.assign(table_.size() * 2, 0);
  const std::size_t mask = table_.size() - 1;
  for (std::uint32_t id = 1; id < nodes_.size(); ++id) {
    std::size_t i = detail::mix(nodes_[id].key, 0) & mask;
    while (table_[i] != 0) i = (i + 1) & mask;
    table_[i] = id;
  }
}

inline Expr Pool::store(std::uint32_t* slot, const Node& n) {
  nodes_.push_back(n);
  *slot = static_cast<std::uint32_t>(nodes_.size() - 1);
  return {*slot};
}

inline Expr Pool::constant(std::int64_t value) {
  Node n;
  n.key = detail::mix(0x51, static_cast<std::uint64_t>(value)) | (std::uint64_t{1} << 63);
  std::uint32_t* slot =
      find_slot(n.key, [&](const Node& o) { return o.op == Op::constant && o.value == value; });
  if (*slot != 0) return {*slot};
  n.value = n.lo = n.hi = value;
  n.divisor = detail::magnitude(value);
  return store(slot, n);
}

inline Expr Pool::symbol(Symbol symbol) {
  SymbolInfo& info = symbols_[symbol];
  if (info.expr) return info.expr;
  const bool single = info.range.lo == info.range.hi;
  // s in [v, v] -> v   if s is not computed
  if (single && !info.computed) return info.expr = constant(info.range.lo);
  Node n;
  n.op = Op::symbol;
  n.computed = single;
  n.key = symbol;
  n.value = symbol;
  n.lo = info.range.lo;
  n.hi = info.range.hi;
  n.divisor = info.divisor;
  n.symbols = std::uint64_t{1} << (symbol % 64);
  return info.expr = store(find_slot(n.key, [](const Node& o) { return o.op == Op::symbol; }), n);
}

/// The terms are sorted, distinct and non-zero, and are not just one term with coefficient 1.
inline Expr Pool::intern_sum(const Linear& l) {
  std::uint64_t key = detail::mix(0x52, static_cast<std::uint64_t>(l.constant));
  for (const Term& t : l.terms) {
    key = detail::mix(key, node(t.expr).key);
    key = detail::mix(key, static_cast<std::uint64_t>(t.coefficient));
  }
  key |= std::uint64_t{1} << 63;
  std::uint32_t* slot = find_slot(key, [&](const Node& o) {
    return o.op == Op::add && o.value == l.constant && o.rhs == l.terms.size() &&
           std::equal(l.terms.begin(), l.terms.end(), terms_.begin() + o.lhs);
  });
  if (*slot != 0) return {*slot};
  Node n;
  n.op = Op::add;
  n.key = key;
  n.value = l.constant;
  n.lhs = static_cast<std::uint32_t>(terms_.size());
  n.rhs = static_cast<std::uint32_t>(l.terms.size());
  n.divisor = detail::magnitude(l.constant);
  std::uint64_t tree = 1;
  for (const Term& t : l.terms) {
    const Node& o = node(t.expr);
    n.divisor = detail::gcd_product(n.divisor, detail::magnitude(t.coefficient), o.divisor);
    n.symbols |= o.symbols;
    n.computed |= o.computed;
    tree += o.tree;
  }
  n.tree =
      static_cast<std::uint32_t>(std::min<std::uint64_t>(tree, std::numeric_limits<std::uint32_t>::max()));
  const Bounds b = bounds(l);
  n.exact = b.exact();
  n.lo = n.exact ? static_cast<std::int64_t>(b.lo) : detail::lowest;
  n.hi = n.exact ? static_cast<std::int64_t>(b.hi) : detail::highest;
  // Wrapping preserves divisibility by powers of two only.
  if (!n.exact) n.divisor &= -n.divisor;
  if (n.lo == n.hi && !n.computed) return constant(n.lo);
  terms_.insert(terms_.end(), l.terms.begin(), l.terms.end());
  return store(slot, n);
}

/// Interns a mul, floordiv, mod, min or max without simplifying it.
inline Expr Pool::intern_binary(Op op, Expr a, Expr b) {
  std::uint64_t key = detail::mix(0x53 + static_cast<std::uint64_t>(op), node(a).key);
  key = detail::mix(key, node(b).key) | (std::uint64_t{1} << 63);
  std::uint32_t* slot =
      find_slot(key, [&](const Node& o) { return o.op == op && o.lhs == a.id && o.rhs == b.id; });
  if (*slot != 0) return {*slot};
  Node n;
  n.op = op;
  n.key = key;
  n.lhs = a.id;
  n.rhs = b.id;
  const Node &na = node(a), &nb = node(b);
  n.symbols = na.symbols | nb.symbols;
  n.computed = na.computed || nb.computed;
  n.tree = static_cast<std::uint32_t>(std::min<std::uint64_t>(std::uint64_t{na.tree} + nb.tree + 1,
                                                              std::numeric_limits<std::uint32_t>::max()));
  binary_facts(n, na, nb);
  if (n.lo == n.hi && !n.computed) return constant(n.lo);
  return store(slot, n);
}

/// Range, divisor and exactness of a binary node.
inline void Pool::binary_facts(Node& n, const Node& a, const Node& b) const {
  using detail::floor_div;
  using detail::highest;
  using detail::lowest;
  switch (n.op) {
    case Op::mul: {
      const Wide corners[] = {static_cast<Wide>(a.lo) * b.lo, static_cast<Wide>(a.lo) * b.hi,
                              static_cast<Wide>(a.hi) * b.lo, static_cast<Wide>(a.hi) * b.hi};
      const Wide lo = *std::min_element(corners, corners + 4), hi = *std::max_element(corners, corners + 4);
      n.exact = detail::fits(lo) && detail::fits(hi);
      n.lo = n.exact ? static_cast<std::int64_t>(lo) : lowest;
      n.hi = n.exact ? static_cast<std::int64_t>(hi) : highest;
      n.divisor = detail::gcd_product(0, a.divisor, b.divisor);
      if (!n.exact) n.divisor &= -n.divisor;
      return;
    }
    case Op::floordiv: {
      if (b.lo > 0) {
        const std::int64_t corners[] = {floor_div(a.lo, b.lo), floor_div(a.lo, b.hi), floor_div(a.hi, b.lo),
                                        floor_div(a.hi, b.hi)};
        n.lo = *std::min_element(corners, corners + 4);
        n.hi = *std::max_element(corners, corners + 4);
      } else if (a.lo == lowest) {
        n.lo = lowest, n.hi = highest;
      } else {
        // |x // d| <= |x|
        n.hi = std::max(detail::magnitude(a.lo), detail::magnitude(a.hi));
        n.lo = -n.hi;
      }
      const bool divides = b.lo == b.hi && b.lo > 0 && a.divisor % b.lo == 0;
      n.divisor = divides ? a.divisor / b.lo : 1;
      return;
    }
    case Op::mod:
      n.divisor = std::gcd(a.divisor, b.divisor);
      if (b.lo > 0) {
        n.lo = 0;
        n.hi = b.lo == b.hi ? b.hi - n.divisor : b.hi - 1;
        if (a.lo >= 0) n.hi = std::min(n.hi, a.hi);
      } else {
        // Between 0 and the divisor; x itself if the divisor is 0.
        n.lo = std::min({b.lo, a.lo, std::int64_t{0}});
        n.hi = std::max({b.hi, a.hi, std::int64_t{0}});
      }
      return;
    case Op::min:
    case Op::max: {
      const bool least = n.op == Op::min;
      n.lo = least ? std::min(a.lo, b.lo) : std::max(a.lo, b.lo);
      n.hi = least ? std::min(a.hi, b.hi) : std::max(a.hi, b.hi);
      n.divisor = std::gcd(a.divisor, b.divisor);
      return;
    }
    case Op::constant:
    case Op::symbol:
    case Op::add: return;
  }
}

}  // namespace ferrite::inline v0::index
