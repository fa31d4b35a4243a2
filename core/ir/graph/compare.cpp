// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <algorithm>
#include <unordered_map>

#include "core/ir/graph/graph.h"
#include "core/ir/graph/print.h"

namespace ferrite::core::graph {
namespace {

class Comparison {
 public:
  Comparison(const Graph& a, const Graph& b) : a_(a), b_(b) {}

  bool equal() {
    return a_.name() == b_.name() && a_.forward_outputs() == b_.forward_outputs() && symbols() && values() &&
           nodes() && signature();
  }

 private:
  bool symbols() const {
    const SymbolTable &x = a_.symbols(), &y = b_.symbols();
    if (x.size() != y.size() || x.guards().size() != y.guards().size()) return false;
    for (index::Symbol k = 0; k < x.size(); ++k) {
      if (x.name(k) != y.name(k) || x.range(k) != y.range(k) || x.divisor(k) != y.divisor(k) ||
          x.hint(k) != y.hint(k)) {
        return false;
      }
    }
    for (size_t k = 0; k < x.guards().size(); ++k) {
      if (print_guard(x, x.guards()[k]) != print_guard(y, y.guards()[k])) return false;
    }
    return true;
  }

  /// Equality of types whose symbolic dims are in different pools.
  bool same(const TensorType& x, const TensorType& y) const {
    if (x.dtype != y.dtype || x.layout != y.layout || x.device != y.device || x.rank() != y.rank())
      return false;
    for (size_t k = 0; k < x.rank(); ++k) {
      const Dim p = x.dims[k], q = y.dims[k];
      if (is_static(p) || is_static(q) ? p != q : a_.symbols().print(p) != b_.symbols().print(q))
        return false;
    }
    return true;
  }

  /// The value of b that corresponds to value `x` of a.
  ValueId mapped(ValueId x) const {
    const auto found = map_.find(x.bits);
    return found == map_.end() ? ValueId{} : found->second;
  }
  bool match(ValueId x, ValueId y) {
    const Value &p = a_.value(x), &q = b_.value(y);
    map_.emplace(x.bits, y);
    return p.kind == q.kind && p.name == q.name && same(p.type, q.type) &&
           (p.constant ? q.constant && *p.constant == *q.constant : !q.constant);
  }

  bool values() {
    if (a_.inputs().size() != b_.inputs().size() || a_.constants().size() != b_.constants().size())
      return false;
    for (size_t k = 0; k < a_.inputs().size(); ++k) {
      if (!match(a_.inputs()[k].value, b_.inputs()[k].value)) return false;
    }
    for (size_t k = 0; k < a_.constants().size(); ++k) {
      if (!match(a_.constants()[k], b_.constants()[k])) return false;
    }
    return true;
  }

  bool nodes() {
    if (a_.node_count() != b_.node_count()) return false;
    for (NodeId x = a_.first(), y = b_.first(); x; x = a_.next(x), y = b_.next(y)) {
      const Node &p = a_.node(x), &q = b_.node(y);
      if (a_.op_name(p.op) != b_.op_name(q.op) || p.origin != q.origin || p.made_by != q.made_by ||
          p.attributes != q.attributes || p.operands.size() != q.operands.size() ||
          p.results.size() != q.results.size()) {
        return false;
      }
      for (size_t k = 0; k < p.operands.size(); ++k) {
        if (mapped(p.operands[k]) != q.operands[k]) return false;
      }
      for (size_t k = 0; k < p.results.size(); ++k) {
        if (!match(p.results[k], q.results[k])) return false;
      }
    }
    return true;
  }

  bool signature() const {
    if (a_.outputs().size() != b_.outputs().size()) return false;
    for (size_t k = 0; k < a_.outputs().size(); ++k) {
      const Output &p = a_.outputs()[k], &q = b_.outputs()[k];
      if (p.name != q.name || mapped(p.value) != q.value || mapped(p.alias_of) != q.alias_of ||
          p.strides != q.strides) {
        return false;
      }
    }
    for (size_t k = 0; k < a_.inputs().size(); ++k) {
      const Input &p = a_.inputs()[k], &q = b_.inputs()[k];
      if (mapped(p.mutated_by) != q.mutated_by || p.donated != q.donated) return false;
    }
    return true;
  }

  const Graph &a_, &b_;
  std::unordered_map<uint64_t, ValueId> map_;
};

}  // namespace

bool equal(const Graph& a, const Graph& b) { return Comparison(a, b).equal(); }

}  // namespace ferrite::core::graph
