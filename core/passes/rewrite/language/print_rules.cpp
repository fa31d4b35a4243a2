// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/passes/rewrite/language/print_rules.h"

#include "core/ir/graph/print.h"

namespace ferrite::core::rewrite {
namespace {

using text::sigil_name;

/// A name in a position that expects an identifier: quoted if it is none.
std::string word(const std::string& name) {
  const bool digit = !name.empty() && name[0] >= '0' && name[0] <= '9';
  return digit ? text::quote(name) : sigil_name('%', name).substr(1);
}

/// The precedence of the context around an expression.
enum Level : int {
  else_level,
  or_level,
  and_level,
  not_level,
  comparison_level,
  sum_level,
  product_level,
  atom_level
};

class Printer {
 public:
  explicit Printer(const Rule& rule) : rule_(rule) {}

  std::string whole() const {
    std::string text = "rule " + word(rule_.name) + " at " + rule_.phase + " {\n  match {\n";
    for (const Region& region : rule_.regions) text += "    " + declaration(region) + "\n";
    size_t next = 0;
    const auto choices_before = [&](size_t terms) {
      for (; next < rule_.choices.size() && rule_.choices[next].terms_before <= terms; ++next) {
        const Choice& choice = rule_.choices[next];
        if (!choice.name.empty())
          text += "    " + sigil_name('%', choice.name) + " = " + alternatives(choice) + "\n";
      }
    };
    for (size_t k = 0; k < rule_.terms.size(); ++k) {
      choices_before(k);
      text += statement(rule_.terms[k]);
    }
    choices_before(rule_.terms.size());
    text += "  }\n";
    if (!rule_.conditions.empty()) {
      text += "  where {\n";
      for (const Condition& condition : rule_.conditions) text += "    " + condition.text + ",\n";
      text += "  }\n";
    }
    text += "  yield {\n";
    for (const OpTerm& term : rule_.yields) text += statement(term);
    for (const Replacement& replacement : rule_.replacements) {
      const std::string from = operand(replacement.from), to = operand(replacement.to);
      if (from != to)
        text += "    " + from + " = " + to + "\n";  // otherwise the op term itself has the replaced name
    }
    return text + "  }\n}\n";
  }

  std::string expression(const Expression& e, int around) const {
    using Form = Expression::Kind;
    const auto wrap = [&](std::string text, int level) { return around > level ? "(" + text + ")" : text; };
    const auto binary = [&](const char* between, int level, int left, int right) {
      return wrap(expression(e.children[0], left) + between + expression(e.children[1], right), level);
    };
    const auto call = [&](const char* function) { return function + ("(" + operand(e.value) + ")"); };
    const auto compare = [&](const char* sign) {
      return binary(sign, comparison_level, sum_level, sum_level);
    };
    switch (e.kind) {
      case Form::integer:
      case Form::number:
      case Form::boolean:
      case Form::dtype:
      case Form::string:
      case Form::list: return graph::print_attribute_value(e.literal);
      case Form::attribute: return sigil_name('$', rule_.attributes[e.index]);
      case Form::dimension: return rule_.dims[e.index];
      case Form::side_rank_of: return "side_rank(" + sigil_name('%', rule_.regions[e.index].name) + ")";
      case Form::dtype_of: return call("dtype");
      case Form::rank_of: return call("rank");
      case Form::dim_of: return "dim(" + operand(e.value) + ", " + expression(e.children[0], or_level) + ")";
      case Form::shape_of: return call("shape");
      case Form::elements_of: return call("elements");
      case Form::uses_of: return call("uses");
      case Form::constant_of: return call("constant");
      case Form::value_of: return call("value");
      case Form::predicate: return "predicate(" + text::quote(rule_.predicates[e.index]) + ")";
      case Form::list_of: {
        std::string items;
        for (const Expression& item : e.children)
          items += (items.empty() ? "" : ", ") + expression(item, else_level);
        return "[" + items + "]";
      }
      case Form::otherwise: return binary(" else ", else_level, or_level, else_level);
      case Form::add: return binary(" + ", sum_level, sum_level, product_level);
      case Form::subtract: return binary(" - ", sum_level, sum_level, product_level);
      case Form::multiply: return binary(" * ", product_level, product_level, atom_level);
      case Form::divide: return binary(" / ", product_level, product_level, atom_level);
      case Form::negate: return "-(" + expression(e.children[0], or_level) + ")";
      case Form::equal: return compare(" == ");
      case Form::not_equal: return compare(" != ");
      case Form::less: return compare(" < ");
      case Form::less_equal: return compare(" <= ");
      case Form::greater: return compare(" > ");
      case Form::greater_equal: return compare(" >= ");
      case Form::logical_not: return wrap("not " + expression(e.children[0], not_level), not_level);
      case Form::logical_and: return binary(" and ", and_level, and_level, not_level);
      case Form::logical_or: return binary(" or ", or_level, or_level, and_level);
    }
    return {};
  }

  std::string operand(const Operand& o) const {
    switch (o.kind) {
      case Operand::Kind::capture: return sigil_name('%', rule_.captures[o.index]);
      case Operand::Kind::matched: return result(rule_.terms[o.index], o.result);
      case Operand::Kind::made: return result(rule_.yields[o.index], o.result);
      case Operand::Kind::choice: {
        const Choice& choice = rule_.choices[o.index];
        return choice.name.empty() ? alternatives(choice) : sigil_name('%', choice.name);
      }
      case Operand::Kind::number:
        return o.number.integer ? std::to_string(*o.number.integer) : text::format_number(o.number.value);
      case Operand::Kind::any: return "_";
      case Operand::Kind::none: return "none";
    }
    return {};
  }

  std::string call(const OpTerm& term) const {
    std::string operands;
    for (const Operand& o : term.operands) operands += (operands.empty() ? "" : ", ") + operand(o);
    return (term.region ? term.op : word(term.op)) + "(" + operands + ")";
  }

  std::string over(const Region& region) const {
    std::string text;
    for (const RegionDim& dim : *region.over) {
      text += text.empty() ? "over [" : ", ";
      switch (dim.kind) {
        case RegionDim::Kind::any: text += "_"; break;
        case RegionDim::Kind::size: text += std::to_string(dim.size); break;
        case RegionDim::Kind::name: text += rule_.dims[dim.name]; break;
      }
    }
    return text.empty() ? "over []" : text + "]";
  }

  std::string attribute(const AttributeTerm& a) const {
    return word(a.name) + " = " +
           (a.capture    ? sigil_name('$', rule_.attributes[*a.capture])
            : a.computed ? expression(*a.computed, else_level)
                         : graph::print_attribute_value(a.literal));
  }

  std::string alternatives(const Choice& choice) const {
    std::string text;
    for (const Operand& way : choice.ways) text += (text.empty() ? "" : " | ") + operand(way);
    return text;
  }

 private:
  /// The term as a line of its own; empty if it is printed inline at its use.
  std::string statement(const OpTerm& term) const {
    return inline_term(term) ? "" : "    " + results(term) + " = " + op(term) + "\n";
  }
  static bool inline_term(const OpTerm& term) { return term.results[0].empty(); }
  std::string result(const OpTerm& term, uint32_t index) const {
    return inline_term(term) ? op(term) : sigil_name('%', term.results[index]);
  }

  std::string declaration(const Region& region) const {
    const std::string text = "region " + sigil_name('%', region.name) + ": pointwise";
    return region.over ? text + " " + over(region) : text;
  }

  static std::string results(const OpTerm& term) {
    std::string text;
    for (const std::string& name : term.results) text += (text.empty() ? "" : ", ") + sigil_name('%', name);
    return text;
  }

  std::string op(const OpTerm& term) const {
    std::string attributes, through;
    for (const AttributeTerm& a : term.attributes)
      attributes += (attributes.empty() ? "" : ", ") + attribute(a);
    for (const std::string& name : term.through) through += (through.empty() ? "" : ", ") + word(name);
    std::string text = call(term);
    if (!attributes.empty()) text += " {" + attributes + "}";
    if (term.once) text += " once";
    if (!through.empty()) text += " through(" + through + ")";
    return text;
  }

  const Rule& rule_;
};

}  // namespace

std::string print(const Rule& rule) { return Printer(rule).whole(); }
std::string print(const Rule& rule, const Expression& expression) {
  return Printer(rule).expression(expression, else_level);
}
std::string print(const Rule& rule, const OpTerm& term) { return Printer(rule).call(term); }
std::string print(const Rule& rule, const Operand& operand) { return Printer(rule).operand(operand); }
std::string print(const Rule& rule, const Choice& choice) { return Printer(rule).alternatives(choice); }
std::string print_over(const Rule& rule, const Region& region) { return Printer(rule).over(region); }
std::string print(const Rule& rule, const AttributeTerm& attribute) {
  return Printer(rule).attribute(attribute);
}

}  // namespace ferrite::core::rewrite
