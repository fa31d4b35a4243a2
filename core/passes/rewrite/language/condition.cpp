// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Evaluates expressions for a match.
#include "core/passes/rewrite/language/condition.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <variant>

#include "core/ir/graph/print.h"
#include "core/passes/rewrite/language/print_rules.h"

namespace ferrite::core::rewrite {
namespace {

using graph::Dim;
using Form = Expression::Kind;

struct Undefined {};
/// The size of a symbolic dim. It equals itself; comparisons with anything else are undecided.
struct Symbolic {
  Dim dim;
};
struct Dims {
  std::vector<Dim> dims;
};
using Item = std::variant<Undefined, bool, int64_t, double, DType, std::string, std::vector<int64_t>,
                          std::vector<double>, std::vector<std::string>, Symbolic, Dims>;

bool undefined(const Item& item) { return std::holds_alternative<Undefined>(item); }
std::optional<double> number_of(const Item& item) {
  if (const auto* integer = std::get_if<int64_t>(&item)) return static_cast<double>(*integer);
  if (const auto* number = std::get_if<double>(&item)) return *number;
  return std::nullopt;
}
Item item_of(const graph::AttributeValue& value) {
  return std::visit([](const auto& v) { return Item(v); }, value);
}
Item item_of(Dim dim) { return graph::is_static(dim) ? Item(int64_t{dim}) : Item(Symbolic{dim}); }

/// Whether two shapes are equal; none if that depends on symbols.
std::optional<bool> equal_dims(const std::vector<Dim>& a, const std::vector<Dim>& b) {
  if (a.size() != b.size()) return false;
  bool unknown = false;
  for (size_t k = 0; k < a.size(); ++k) {
    if (a[k] == b[k]) continue;
    if (graph::is_static(a[k]) && graph::is_static(b[k])) return false;
    unknown = true;
  }
  if (unknown) return std::nullopt;
  return true;
}
/// Compares a shape with a list of sizes, in which negative numbers do not stand for symbolic dims.
std::optional<bool> equal_sizes(const std::vector<Dim>& dims, const std::vector<int64_t>& sizes) {
  if (std::any_of(sizes.begin(), sizes.end(), [](int64_t size) { return size < 0; })) return false;
  return equal_dims(dims, sizes);
}

std::optional<bool> equal(const Item& a, const Item& b) {
  if (const auto x = number_of(a), y = number_of(b); x && y) {
    const auto *i = std::get_if<int64_t>(&a), *j = std::get_if<int64_t>(&b);
    return i && j ? *i == *j : *x == *y;
  }
  if (const auto *x = std::get_if<Symbolic>(&a), *y = std::get_if<Symbolic>(&b); x && y) {
    return x->dim == y->dim ? std::optional(true) : std::nullopt;
  }
  if (std::holds_alternative<Symbolic>(a) || std::holds_alternative<Symbolic>(b)) return std::nullopt;
  if (const auto* x = std::get_if<Dims>(&a)) {
    if (const auto* y = std::get_if<Dims>(&b)) return equal_dims(x->dims, y->dims);
    if (const auto* y = std::get_if<std::vector<int64_t>>(&b)) return equal_sizes(x->dims, *y);
    return false;
  }
  if (std::holds_alternative<Dims>(b)) return equal(b, a);
  if (a.index() != b.index()) return false;
  return std::visit(
      [&](const auto& x) -> std::optional<bool> {
        using T = std::decay_t<decltype(x)>;
        if constexpr (std::is_same_v<T, Undefined> || std::is_same_v<T, Symbolic> ||
                      std::is_same_v<T, Dims>) {
          return std::nullopt;
        } else {
          return x == std::get<T>(b);
        }
      },
      a);
}

template <class T>
bool compare(Form kind, T x, T y) {
  switch (kind) {
    case Form::less: return x < y;
    case Form::less_equal: return x <= y;
    case Form::greater: return x > y;
    default: return x >= y;
  }
}

Item arithmetic(Form kind, const Item& a, const Item& b) {
  const auto *i = std::get_if<int64_t>(&a), *j = std::get_if<int64_t>(&b);
  if (i && j && kind != Form::divide) {
    int64_t result = 0;
    const bool overflow = kind == Form::add        ? __builtin_add_overflow(*i, *j, &result)
                          : kind == Form::subtract ? __builtin_sub_overflow(*i, *j, &result)
                                                   : __builtin_mul_overflow(*i, *j, &result);
    return overflow ? Item() : Item(result);
  }
  const auto x = number_of(a), y = number_of(b);
  if (!x || !y) return {};
  switch (kind) {
    case Form::add: return *x + *y;
    case Form::subtract: return *x - *y;
    case Form::multiply: return *x * *y;
    default: return *y == 0 ? Item() : Item(*x / *y);
  }
}

class Evaluator {
 public:
  Evaluator(const graph::Graph& graph, SplatCache& splats, Bindings& bindings)
      : graph_(graph), splats_(splats), bindings_(bindings) {}

  Result<Item> evaluate(const Expression& e) {
    switch (e.kind) {
      case Form::integer:
      case Form::number:
      case Form::boolean:
      case Form::dtype:
      case Form::string:
      case Form::list: return item_of(e.literal);
      case Form::attribute: {
        const graph::AttributeValue* value = bindings_.attribute(e.index);
        return value ? item_of(*value) : Item();
      }
      case Form::dimension: {
        const auto dim = bindings_.dimension(e.index);
        return dim ? item_of(*dim) : Item();
      }
      case Form::side_rank_of: {
        const RegionMatch* region = bindings_.region(e.index);
        return region ? Item(side_rank(graph_, *region)) : Item();
      }
      case Form::predicate: {
        FE_TRY(const bool accepted, bindings_.predicate(e.index));
        return Item(accepted);
      }
      case Form::logical_not:
      case Form::negate: {
        FE_TRY(const Item operand, evaluate(e.children[0]));
        if (e.kind == Form::negate) return arithmetic(Form::subtract, int64_t{0}, operand);
        const bool* holds = std::get_if<bool>(&operand);
        return holds ? Item(!*holds) : Item();
      }
      case Form::logical_and:
      case Form::logical_or: return logical(e);
      case Form::add:
      case Form::subtract:
      case Form::multiply:
      case Form::divide: {
        FE_TRY(const Item left, evaluate(e.children[0]));
        FE_TRY(const Item right, evaluate(e.children[1]));
        return arithmetic(e.kind, left, right);
      }
      case Form::list_of: return list(e);
      case Form::otherwise: return evaluate(e.children[reads_unbound(e.children[0], bindings_) ? 1 : 0]);
      case Form::equal:
      case Form::not_equal:
      case Form::less:
      case Form::less_equal:
      case Form::greater:
      case Form::greater_equal: return comparison(e);
      default: return property(e);
    }
  }

 private:
  /// A list of numbers (integers if all elements are) or of strings.
  Result<Item> list(const Expression& e) {
    std::vector<int64_t> integers;
    std::vector<double> numbers;
    std::vector<std::string> strings;
    for (const Expression& child : e.children) {
      FE_TRY(Item item, evaluate(child));
      if (const auto* integer = std::get_if<int64_t>(&item)) integers.push_back(*integer);
      if (const auto number = number_of(item)) numbers.push_back(*number);
      if (auto* string = std::get_if<std::string>(&item)) strings.push_back(std::move(*string));
    }
    const size_t count = e.children.size();
    if (integers.size() == count) return Item(std::move(integers));
    if (numbers.size() == count) return Item(std::move(numbers));
    return strings.size() == count ? Item(std::move(strings)) : Item();
  }

  Result<Item> logical(const Expression& e) {
    const bool decisive = e.kind == Form::logical_or;
    FE_TRY(const Item left, evaluate(e.children[0]));
    const bool* first = std::get_if<bool>(&left);
    if (first && *first == decisive) return left;
    FE_TRY(const Item right, evaluate(e.children[1]));
    const bool* second = std::get_if<bool>(&right);
    if (second && *second == decisive) return right;
    return first && second ? Item(!decisive) : Item();
  }

  Result<Item> comparison(const Expression& e) {
    FE_TRY(const Item left, evaluate(e.children[0]));
    FE_TRY(const Item right, evaluate(e.children[1]));
    if (undefined(left) || undefined(right)) return Item();
    if (e.kind == Form::equal || e.kind == Form::not_equal) {
      const auto same = equal(left, right);
      return same ? Item(*same == (e.kind == Form::equal)) : Item();
    }
    const auto *i = std::get_if<int64_t>(&left), *j = std::get_if<int64_t>(&right);
    if (i && j) return Item(compare(e.kind, *i, *j));
    const auto x = number_of(left), y = number_of(right);
    return x && y ? Item(compare(e.kind, *x, *y)) : Item();
  }

  Result<Item> property(const Expression& e) {
    const graph::ValueId id = bindings_.value(e.value);
    const graph::Value* value = graph_.find(id);
    if (!value) return Item();
    const graph::TensorType& type = value->type;
    switch (e.kind) {
      case Form::dtype_of: return Item(type.dtype);
      case Form::rank_of: return Item(static_cast<int64_t>(type.rank()));
      case Form::shape_of: return Item(Dims{type.dims});
      case Form::uses_of: return Item(static_cast<int64_t>(value->uses.size()));
      case Form::constant_of: return Item(value->constant && value->constant->kind != FE_CONSTANT_PARAMETER);
      case Form::elements_of: {
        const auto count = type.elements();
        return count ? Item(*count) : Item();
      }
      case Form::value_of: {
        const auto number = splats_.number(graph_, id);
        if (!number) return Item();
        return number->integer ? Item(*number->integer) : Item(number->value);
      }
      case Form::dim_of: {
        const auto rank = static_cast<int64_t>(type.rank());
        const std::vector<Dim> dims = type.dims;
        FE_TRY(const Item index, evaluate(e.children[0]));
        const auto* k = std::get_if<int64_t>(&index);
        if (!k || *k < -rank || *k >= rank) return Item();
        return item_of(dims[static_cast<size_t>(*k < 0 ? *k + rank : *k)]);
      }
      default: return Item();
    }
  }

  const graph::Graph& graph_;
  SplatCache& splats_;
  Bindings& bindings_;
};

std::string text_of(const graph::Graph& graph, const Item& item) {
  return std::visit(
      [&](const auto& value) -> std::string {
        using T = std::decay_t<decltype(value)>;
        if constexpr (std::is_same_v<T, Undefined>) {
          return "undefined";
        } else if constexpr (std::is_same_v<T, Symbolic>) {
          return graph.symbols().print(value.dim);
        } else if constexpr (std::is_same_v<T, Dims>) {
          std::vector<std::string> dims;
          for (const Dim dim : value.dims) dims.push_back(graph.symbols().print(dim));
          return fmt::format("[{}]", fmt::join(dims, ","));
        } else {
          return graph::print_attribute_value(value);
        }
      },
      item);
}

/// Collects the parts of an expression that depend on the match, each once, with its value.
class Facts {
 public:
  Facts(const graph::Graph& graph, const Rule& rule, Evaluator& evaluator)
      : graph_(graph), rule_(rule), evaluator_(evaluator) {}

  Result<void> collect(const Expression& e) {
    if (e.kind == Form::logical_and) {
      FE_TRY(const Item first, evaluator_.evaluate(e.children[0]));
      const bool* holds = std::get_if<bool>(&first);
      return collect(e.children[holds && *holds ? 1 : 0]);
    }
    const bool leaf = e.kind >= Form::attribute && e.kind <= Form::predicate;
    if (!leaf) {
      for (const Expression& child : e.children) FE_CHECK(collect(child));
      return {};
    }
    const std::string name = print(rule_, e);
    if (!seen_.insert(name).second) return {};
    FE_TRY(const Item item, evaluator_.evaluate(e));
    if (!text_.empty()) text_ += ", ";
    text_ += name + " is " + text_of(graph_, item);
    return {};
  }
  const std::string& text() const { return text_; }

 private:
  const graph::Graph& graph_;
  const Rule& rule_;
  Evaluator& evaluator_;
  std::set<std::string> seen_;
  std::string text_;
};

}  // namespace

Result<std::string> facts(const graph::Graph& graph, SplatCache& splats, const Rule& rule,
                          const Expression& expression, Bindings& bindings) {
  Evaluator evaluator(graph, splats, bindings);
  Facts facts(graph, rule, evaluator);
  FE_CHECK(facts.collect(expression));
  return facts.text();
}

bool reads_unbound(const Expression& expression, const Bindings& bindings) {
  const auto unbound = [&](const Expression& child) { return reads_unbound(child, bindings); };
  if (expression.kind == Form::otherwise)
    return std::all_of(expression.children.begin(), expression.children.end(), unbound);
  if (reads_value(expression.kind) && !bindings.value(expression.value)) return true;
  if (expression.kind == Form::attribute && !bindings.attribute(expression.index)) return true;
  return std::any_of(expression.children.begin(), expression.children.end(), unbound);
}

Result<std::optional<graph::AttributeValue>> evaluate(const graph::Graph& graph, SplatCache& splats,
                                                      const Expression& expression, Bindings& bindings) {
  FE_TRY(Item item, Evaluator(graph, splats, bindings).evaluate(expression));
  return std::visit(
      [&](auto& value) -> std::optional<graph::AttributeValue> {
        using T = std::decay_t<decltype(value)>;
        if constexpr (std::is_same_v<T, Undefined> || std::is_same_v<T, Symbolic>) {
          return std::nullopt;
        } else if constexpr (std::is_same_v<T, Dims>) {
          if (!std::all_of(value.dims.begin(), value.dims.end(), graph::is_static)) return std::nullopt;
          return graph::AttributeValue(std::vector<int64_t>(value.dims.begin(), value.dims.end()));
        } else {
          return graph::AttributeValue(std::move(value));
        }
      },
      item);
}

Result<bool> holds(const graph::Graph& graph, SplatCache& splats, const Expression& expression,
                   Bindings& bindings) {
  FE_TRY(const Item item, Evaluator(graph, splats, bindings).evaluate(expression));
  const bool* result = std::get_if<bool>(&item);
  return result && *result;
}

}  // namespace ferrite::core::rewrite
