// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/ir/graph/print.h"

#include <unordered_map>

#include "core/ir/graph/literal.h"
#include "core/ir/lexer/lexer.h"

namespace ferrite::core::graph {
namespace {

using text::quote;
using text::sigil_name;

template <class List, class Print>
std::string join(const List& list, Print print, const char* between = ", ") {
  std::string result;
  bool first = true;
  for (const auto& item : list) {
    if (!first) result += between;
    first = false;
    result += print(item);
  }
  return result;
}

std::string integers(const std::vector<int64_t>& list) {
  return "[" + join(list, [](int64_t v) { return std::to_string(v); }) + "]";
}

/// A name in a position that expects an identifier: quoted if it is none.
std::string word(const std::string& name) {
  const bool digit = !name.empty() && name[0] >= '0' && name[0] <= '9';
  return digit ? quote(name) : sigil_name('%', name).substr(1);
}

std::string print_dtype(DType dtype) {
  return find_dtype(dtype) ? std::string(name_of(dtype))
                           : fmt::format("dtype({})", static_cast<uint16_t>(dtype));
}

std::string print_layout(const Layout& layout, uint32_t device) {
  std::string text;
  if (layout.kind == FE_LAYOUT_STRIDED) {
    text = "strides " + integers(layout.strides);
    if (layout.offset != 0) text += fmt::format(" offset {}", layout.offset);
    if (layout.alignment != 0) text += fmt::format(" align {}", layout.alignment);
  } else if (layout.kind == FE_LAYOUT_BLOCKED) {
    text = "blocks [" +
           join(layout.blocks, [](const Block& b) { return fmt::format("{}:{}", b.dim, b.size); }) + "]";
  } else if (layout.kind == FE_LAYOUT_OPAQUE) {
    text = "opaque " + quote(layout.tag);
  }
  if (device != 0) text += fmt::format("{}device {}", text.empty() ? "" : " ", device);
  return text.empty() ? text : "<" + text + ">";
}

class Printer {
 public:
  explicit Printer(const Graph& graph) : graph_(graph) {
    for (const Input& input : graph.inputs()) number(input.value);
    for (const ValueId constant : graph.constants()) number(constant);
    for (NodeId node = graph.first(); node; node = graph.next(node)) {
      for (const ValueId result : graph.node(node).results) number(result);
    }
  }

  std::string whole() const {
    std::string text = "ferrite graph 0\ngraph " + sigil_name('@', graph_.name()) + "(";
    text += join(graph_.inputs(), [this](const Input& input) {
      std::string item = name(input.value) + ": " + type(input.value);
      if (input.mutated_by) item += " mutated_by " + name(input.mutated_by);
      return input.donated ? item + " donated" : item;
    });
    text += ") -> (" + join(graph_.outputs(), [this](const Output& output) {
              std::string item = name(output.value) + " " + quote(output.name);
              if (output.alias_of) item += " alias_of " + name(output.alias_of);
              return output.strides.empty() ? item : item + " strides " + integers(output.strides);
            });
    text += ")";
    if (const auto count = graph_.forward_outputs())
      text += fmt::format(" joint(forward_outputs = {})", *count);
    text += " {\n";
    for (index::Symbol k = 0; k < graph_.symbols().size(); ++k) text += "  " + symbol(k) + "\n";
    for (const Guard& guard : graph_.symbols().guards())
      text += "  " + print_guard(graph_.symbols(), guard) + "\n";
    for (const ValueId id : graph_.constants()) text += "  " + constant(id) + "\n";
    for (NodeId id = graph_.first(); id; id = graph_.next(id)) text += "  " + node(id) + "\n";
    return text + "}\n";
  }

  std::string node(NodeId id) const {
    const Node& node = graph_.node(id);
    std::string text = join(node.results, [this](ValueId result) { return name(result); });
    if (!text.empty()) text += " = ";
    text += word(std::string(graph_.op_name(node.op))) + "(";
    text += join(node.operands, [this](ValueId operand) { return operand ? name(operand) : "_"; }) + ")";
    if (!node.attributes.empty()) {
      text += " {" + join(node.attributes, [](const Attribute& a) {
                return word(a.name) + " = " + print_attribute_value(a.value);
              });
      text += "}";
    }
    const std::string types = join(node.results, [this](ValueId result) { return type(result); });
    text += node.results.size() == 1 ? " : " + types : " : (" + types + ")";
    if (!node.origin.empty()) text += " from " + quote(node.origin);
    if (!node.made_by.empty()) text += " by " + quote(node.made_by);
    return text;
  }

 private:
  void number(ValueId id) {
    const Value& value = graph_.value(id);
    const char sigil = value.constant && value.constant->kind != FE_CONSTANT_LITERAL ? '#' : '%';
    names_.emplace(id.bits,
                   value.name.empty() ? sigil + std::to_string(next_++) : sigil_name(sigil, value.name));
  }
  std::string name(ValueId id) const {
    const auto found = names_.find(id.bits);
    return found == names_.end() ? "%stale" : found->second;
  }
  std::string type(ValueId id) const { return print_type(graph_.symbols(), graph_.type(id)); }

  std::string symbol(index::Symbol k) const {
    const SymbolTable& symbols = graph_.symbols();
    const index::Range range = symbols.range(k);
    std::string text =
        fmt::format("symbol {} in [{}, {}]", sigil_name('$', symbols.name(k)), range.lo, range.hi);
    if (symbols.divisor(k) != 1) text += fmt::format(" divisible {}", symbols.divisor(k));
    if (symbols.hint(k) >= 0) text += fmt::format(" hint {}", symbols.hint(k));
    return text;
  }

  std::string constant(ValueId id) const {
    const Value& value = graph_.value(id);
    const Constant& constant = *value.constant;
    std::string text = name(id) + " = ";
    if (constant.kind == FE_CONSTANT_PARAMETER) text += "parameter ";
    if (!constant.file.empty()) {
      return text + fmt::format("weight({}, {}, {}) : {}", quote(constant.file), constant.offset,
                                constant.bytes, type(id));
    }
    if (constant.kind != FE_CONSTANT_LITERAL && (!constant.memory || constant.bytes > max_printed_data)) {
      return text + "memory : " + type(id);
    }
    text += constant.kind == FE_CONSTANT_LITERAL ? "literal " : "data ";
    const std::span<const std::byte> bytes(constant.memory.get(), constant.bytes);
    return text + type(id) + " {" +
           print_elements(value.type.dtype, bytes, value.type.elements().value_or(0)) + "}";
  }

  const Graph& graph_;
  std::unordered_map<uint64_t, std::string> names_;
  uint64_t next_ = 0;
};

}  // namespace

std::string print_attribute_value(const AttributeValue& value) {
  struct Visitor {
    std::string operator()(int64_t v) const { return std::to_string(v); }
    std::string operator()(double v) const { return text::format_number(v); }
    std::string operator()(const std::string& v) const { return quote(v); }
    std::string operator()(DType v) const { return print_dtype(v); }
    std::string operator()(bool v) const { return v ? "true" : "false"; }
    std::string operator()(const std::vector<int64_t>& v) const { return integers(v); }
    std::string operator()(const std::vector<double>& v) const {
      return v.empty() ? "floats []" : "[" + join(v, [](double d) { return text::format_number(d); }) + "]";
    }
    std::string operator()(const std::vector<std::string>& v) const {
      return v.empty() ? "strings []" : "[" + join(v, [](const std::string& s) { return quote(s); }) + "]";
    }
  };
  return std::visit(Visitor{}, value);
}

std::string print_type(const SymbolTable& symbols, const TensorType& type) {
  return print_dtype(type.dtype) + "[" +
         join(
             type.dims, [&](Dim dim) { return symbols.print(dim); }, ",") +
         "]" + print_layout(type.layout, type.device);
}

std::string print_guard(const SymbolTable& symbols, const Guard& guard) {
  constexpr const char* relations[] = {"==", "!=", "<", "<="};
  const auto side = [&](index::Expr e) {
    const auto value = symbols.pool().as_constant(e);
    return value ? std::to_string(*value) : symbols.print(dim_of(e));
  };
  std::string text = fmt::format("guard {} {} {}", side(guard.lhs),
                                 relations[static_cast<size_t>(guard.relation)], side(guard.rhs));
  return guard.by.empty() ? text : text + " by " + quote(guard.by);
}

std::string print(const Graph& graph) { return Printer(graph).whole(); }
std::string print_node(const Graph& graph, NodeId node) { return Printer(graph).node(node); }

}  // namespace ferrite::core::graph
