// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/ir/text/parse_graph.h"

#include <algorithm>
#include <unordered_map>

#include "core/ir/graph/infer.h"
#include "core/ir/graph/literal.h"
#include "core/ir/lexer/expression.h"
#include "ferrite/counted.hpp"

namespace ferrite::core::graph {
namespace {

using text::Cursor;
using text::Position;
using text::Token;
using text::TokenKind;

bool is_value(const Token& token) {
  return token.kind == TokenKind::value || token.kind == TokenKind::weight;
}
/// A value whose name is unquoted digits is numbered: it has no name in the graph.
bool is_number(const Token& token) {
  return !token.quoted && token.text.find_first_not_of("0123456789") == std::string_view::npos;
}
std::string key_of(const Token& token) {
  std::string key(1, token.kind == TokenKind::weight ? '#' : '%');
  if (is_number(token)) key += ' ';
  return key += token.text;
}

class Parser {
 public:
  Parser(const text::TokenList& list, const ParseOptions& options)
      : cursor_(list),
        registry_(options.registry),
        sizes_(options.sizes),
        graph_("main", options.weight_folder) {}

  Result<Graph> read() {
    FE_CHECK(read_all());
    return std::move(graph_);
  }

  Result<OpenGraph> read_open() {
    open_outputs_.emplace();
    FE_CHECK(read_all());
    return OpenGraph{std::move(graph_), std::move(*open_outputs_)};
  }

 private:
  Result<void> read_all() {
    FE_CHECK(cursor_.expect("ferrite"));
    FE_CHECK(cursor_.expect("graph"));
    const Error version = cursor_.unexpected("version 0, the only one that this build reads");
    FE_TRY(const int64_t number, cursor_.expect_integer("the version of the text form"));
    if (number != 0) return version;
    FE_CHECK(cursor_.expect("graph"));
    FE_TRY(const Token name, cursor_.expect(TokenKind::buffer, "the graph's name, as @main"));
    graph_.set_name(std::string(name.text));
    FE_CHECK(declare_symbols());
    FE_CHECK(inputs());
    FE_CHECK(cursor_.expect("->"));
    const size_t outputs_at = cursor_.offset();
    FE_CHECK(skip_outputs());
    if (cursor_.accept("joint")) {
      FE_CHECK(cursor_.expect("("));
      FE_CHECK(cursor_.expect("forward_outputs"));
      FE_CHECK(cursor_.expect("="));
      const Error wrong = cursor_.unexpected("a number of outputs");
      FE_TRY(const int64_t count, cursor_.expect_integer("the number of forward outputs"));
      if (count < 0 || count > UINT32_MAX) return wrong;
      graph_.set_forward_outputs(static_cast<uint32_t>(count));
      FE_CHECK(cursor_.expect(")"));
    }
    FE_CHECK(cursor_.expect("{"));
    while (!cursor_.accept("}")) FE_CHECK(statement());
    FE_CHECK(cursor_.expect_end());
    cursor_.seek(outputs_at);
    FE_CHECK(outputs());
    for (const auto& [input, token] : mutations_) {
      FE_TRY(const ValueId value, use(token));
      if (value) FE_CHECK(graph_.set_mutated_by(input, value));
    }
    graph_.commit();
    return {};
  }

  template <class T>
  Result<T> here(Position position, Result<T> result) const {
    if (result) return result;
    // If the error already names the op and its origin, put the position in the text before them.
    std::string& where = result.error().where;
    where = cursor_.where(position) + (where.empty() ? "" : ": " + where);
    return result;
  }

  /// Reads the declarations of symbols first: they are in the body, but the header uses them.
  Result<void> declare_symbols() {
    const size_t begin = cursor_.offset();
    for (; !cursor_.at_end(); cursor_.next()) {
      if (!cursor_.is("symbol") || cursor_.peek(1).kind != TokenKind::symbol || !cursor_.is("in", 2))
        continue;
      cursor_.next();
      const Token name = cursor_.next();
      index::Range range{};
      int64_t divisor = 1, hint = -1;
      cursor_.next();
      FE_CHECK(cursor_.expect("["));
      FE_TRY(range.lo, cursor_.expect_integer("the least size"));
      FE_CHECK(cursor_.expect(","));
      FE_TRY(range.hi, cursor_.expect_integer("the largest size"));
      FE_CHECK(cursor_.expect("]"));
      if (cursor_.accept("divisible")) {
        FE_TRY(divisor, cursor_.expect_integer("a number that divides all sizes"));
      }
      if (cursor_.accept("hint")) {
        FE_TRY(hint, cursor_.expect_integer("a usual size"));
      }
      const auto given = std::ranges::find(sizes_, name.text, &std::pair<std::string, int64_t>::first);
      if (given != sizes_.end() && divisor > 0) {
        FE_CHECK(here(name.position, check_size(name.text, range, divisor, given->second)));
        range = {given->second, given->second};
      }
      FE_CHECK(here(name.position, graph_.symbols().declare(std::string(name.text), range, divisor, hint)));
      symbols_[name.position.line * uint64_t{1} << 32 | name.position.column] = cursor_.offset();
      cursor_.seek(cursor_.offset() - 1);
    }
    cursor_.seek(begin);
    return {};
  }

  Result<void> inputs() {
    FE_CHECK(cursor_.expect("("));
    if (cursor_.accept(")")) return {};
    do {
      FE_TRY(const Token name, cursor_.expect(TokenKind::value, "an input, as %x: f32[2]"));
      FE_CHECK(cursor_.expect(":"));
      FE_TRY(TensorType type, parse_type(cursor_, graph_.symbols()));
      FE_CHECK(undefined(name));
      FE_TRY(const ValueId id, here(name.position, graph_.add_input(name_of(name), std::move(type))));
      define(name, id);
      const auto input = static_cast<uint32_t>(graph_.inputs().size() - 1);
      if (cursor_.accept("mutated_by")) {
        if (!is_value(cursor_.peek())) return cursor_.unexpected("a value");
        mutations_.emplace_back(input, cursor_.next());
      }
      if (cursor_.accept("donated")) FE_CHECK(graph_.set_donated(input, true));
    } while (cursor_.accept(","));
    return cursor_.expect(")");
  }

  /// Skips the outputs. They are read after the body, which defines their values.
  Result<void> skip_outputs() {
    FE_CHECK(cursor_.expect("("));
    while (!cursor_.is(")")) {
      if (cursor_.at_end() || cursor_.is("{")) return cursor_.unexpected("')'");
      cursor_.next();
    }
    return cursor_.expect(")");
  }

  Result<void> outputs() {
    FE_CHECK(cursor_.expect("("));
    if (cursor_.accept(")")) return {};
    do {
      const Position position = cursor_.peek().position;
      FE_TRY(const ValueId value, operand());
      FE_TRY(std::string name, cursor_.expect_string("the output's name in quotes"));
      if (open_outputs_)
        open_outputs_->push_back({name, value ? std::optional(graph_.type(value)) : std::nullopt});
      // A value that is left out is no output of the graph, but its text is read to the end.
      uint32_t output = 0;
      if (value) {
        FE_TRY(output, here(position, graph_.add_output(std::move(name), value)));
      }
      ValueId alias;
      std::vector<int64_t> strides;
      if (cursor_.accept("alias_of")) {
        FE_TRY(alias, operand());
      }
      if (cursor_.accept("strides")) {
        FE_TRY(AttributeValue list, parse_attribute_value(cursor_));
        if (!std::holds_alternative<std::vector<int64_t>>(list))
          return cursor_.unexpected("a list of strides before this");
        strides = std::get<std::vector<int64_t>>(std::move(list));
      }
      if (value && (alias || !strides.empty())) {
        FE_CHECK(here(position, graph_.set_output_place(output, alias, std::move(strides))));
      }
    } while (cursor_.accept(","));
    return cursor_.expect(")");
  }

  Result<void> statement() {
    if (cursor_.is("symbol") && cursor_.peek(1).kind == TokenKind::symbol) {
      const Position name = cursor_.peek(1).position;
      const auto read = symbols_.find(name.line * uint64_t{1} << 32 | name.column);
      // declare_symbols() skips a declaration without 'in': expect() then makes the error.
      if (read == symbols_.end()) {
        cursor_.seek(cursor_.offset() + 2);
        return cursor_.expect("in");
      }
      cursor_.seek(read->second);
      return {};
    }
    // An op may have the name guard, and then '(' follows.
    if (cursor_.is("guard") && !cursor_.is("(", 1)) return guard();
    std::vector<Token> results;
    if (is_value(cursor_.peek())) {
      do {
        if (!is_value(cursor_.peek())) return cursor_.unexpected("a value");
        results.push_back(cursor_.next());
      } while (cursor_.accept(","));
      FE_CHECK(cursor_.expect("="));
    }
    // A type follows the keyword; an op of this name has '(' there.
    const bool literal = cursor_.is("literal") && cursor_.peek(1).kind == TokenKind::identifier;
    if (results.size() == 1 && (literal || results[0].kind == TokenKind::weight)) return constant(results[0]);
    return node(results);
  }

  Result<void> guard() {
    cursor_.next();
    Guard guard;
    const auto side = [&](index::Expr& expression) -> Result<void> {
      FE_TRY(expression,
             text::parse_expression(
                 cursor_, graph_.symbols().pool(), [&](const Token& token) -> Result<index::Expr> {
                   const auto found =
                       token.kind == TokenKind::symbol ? graph_.symbols().find(token.text) : std::nullopt;
                   if (found) return graph_.symbols().pool().symbol(*found);
                   return at(cursor_.where(token.position),
                             error(FE_EINVALID, "FE-G17", "'{}' is no symbol of this graph", token.text));
                 }));
      return {};
    };
    FE_CHECK(side(guard.lhs));
    if (cursor_.accept("==")) {
      guard.relation = Relation::equal;
    } else if (cursor_.accept("!=")) {
      guard.relation = Relation::not_equal;
    } else if (cursor_.accept("<=")) {
      guard.relation = Relation::less_equal;
    } else {
      if (!cursor_.accept("<")) return cursor_.unexpected("'==', '!=', '<' or '<='");
      guard.relation = Relation::less;
    }
    FE_CHECK(side(guard.rhs));
    if (cursor_.accept("by")) {
      FE_TRY(guard.by, cursor_.expect_string("who added the guard"));
    }
    graph_.add_guard(std::move(guard));
    return {};
  }

  Result<void> constant(const Token& name) {
    FE_CHECK(undefined(name));
    Constant constant;
    if (name.kind == TokenKind::weight) {
      constant.kind = cursor_.accept("parameter") ? FE_CONSTANT_PARAMETER : FE_CONSTANT_WEIGHT;
    }
    TensorType type;
    if (cursor_.is("literal") || cursor_.is("data")) {
      if (cursor_.is("literal") != (name.kind == TokenKind::value)) {
        return cursor_.unexpected("'weight', 'data' or 'memory' for a weight");
      }
      cursor_.next();
      FE_TRY(type, parse_type(cursor_, graph_.symbols()));
      const auto count = type.elements();
      if (!count || !find_dtype(type.dtype))
        return cursor_.unexpected("a static type with a known element type before this");
      FE_TRY(const auto bytes, parse_elements(cursor_, type.dtype, *count));
      std::shared_ptr<std::byte[]> memory(new std::byte[bytes.size() + 1]);
      std::copy(bytes.begin(), bytes.end(), memory.get());
      constant.memory = std::shared_ptr<const std::byte>(memory, memory.get());
      constant.bytes = bytes.size();
    } else {
      bool sized = false;
      if (cursor_.accept("weight")) {
        FE_CHECK(cursor_.expect("("));
        FE_TRY(constant.file, cursor_.expect_string("the weight file"));
        FE_CHECK(cursor_.expect(","));
        FE_TRY(const Token offset, cursor_.expect(TokenKind::integer, "the offset in bytes"));
        FE_CHECK(cursor_.expect(","));
        FE_TRY(const Token bytes, cursor_.expect(TokenKind::integer, "the number of bytes"));
        FE_CHECK(cursor_.expect(")"));
        if (constant.file.empty())
          return at(cursor_.where(offset.position),
                    error(FE_EINVALID, "FE-G02", "the weight file has no name"));
        constant.offset = offset.integer;
        constant.bytes = bytes.integer;
        sized = true;
      } else if (!cursor_.accept("memory")) {
        return cursor_.unexpected("'weight', 'data', 'memory' or 'parameter'");
      }
      FE_CHECK(cursor_.expect(":"));
      FE_TRY(type, parse_type(cursor_, graph_.symbols()));
      // `memory` has no contents in the text, only the size that follows from the type.
      if (!sized) constant.bytes = static_cast<uint64_t>(type.bytes().value_or(0));
    }
    FE_TRY(const ValueId id,
           here(name.position, graph_.add_constant(std::move(type), std::move(constant), name_of(name))));
    define(name, id);
    return {};
  }

  Result<void> node(const std::vector<Token>& results) {
    for (const Token& result : results) {
      if (result.kind == TokenKind::weight) {
        return at(cursor_.where(result.position),
                  error(FE_EINVALID, "FE-G02", "'#' names weights only; results are %name"));
      }
      FE_CHECK(undefined(result));
    }
    const Position position = cursor_.peek().position;
    NodeSpec spec;
    FE_TRY(spec.op, parse_word(cursor_, results.empty() ? "a statement or '}'" : "the name of an op"));
    FE_CHECK(cursor_.expect("("));
    bool left_out = false;
    while (!cursor_.is(")")) {
      if (!spec.operands.empty()) FE_CHECK(cursor_.expect(","));
      if (cursor_.accept("_")) {
        spec.operands.emplace_back();
      } else {
        // A null value is one that is left out: only `_` is an absent operand.
        FE_TRY(spec.operands.emplace_back(), operand());
        left_out = left_out || !spec.operands.back();
      }
    }
    FE_CHECK(cursor_.expect(")"));
    FE_TRY(spec.attributes, parse_attributes(cursor_));
    const Position types_at = cursor_.peek().position;
    const bool typed = cursor_.accept(":");
    std::vector<TensorType> types;
    if (typed) FE_CHECK(result_types(types));
    if (cursor_.accept("from")) {
      FE_TRY(spec.origin, cursor_.expect_string("the model's node names"));
    }
    if (cursor_.accept("by")) {
      FE_TRY(spec.made_by, cursor_.expect_string("the pass or rule that made the node"));
    }
    if (typed && types.size() != results.size()) {
      return at(cursor_.where(types_at),
                error(FE_EINVALID, "FE-G19", "{} for {}", counted(types.size(), "type"),
                      counted(results.size(), "result")));
    }
    if (!registry_ && !typed) {
      return at(cursor_.where(types_at),
                error(FE_EINVALID, "FE-G19", "ops are not known here: the result types must be given"));
    }
    if (!registry_) spec.types = types;
    std::optional<Result<NodeId>> node;
    if (!left_out) {
      node.emplace(here(position, registry_ ? make_inferred(graph_, *registry_, std::move(spec))
                                            : graph_.make(std::move(spec))));
      left_out = open_outputs_ && !*node && node->error().code == needs_sizes;
    }
    if (left_out) {
      // The names are defined as null values, so that all users of these results are left out, too.
      for (const Token& result : results) define(result, {});
      return {};
    }
    FE_TRY(const NodeId id, std::move(*node));
    const std::vector<ValueId> made = graph_.node(id).results;
    if (made.size() != results.size()) {
      return at(cursor_.where(position), error(FE_EINVALID, "FE-G19", "{} gives {} results, not {}",
                                               graph_.describe(id), made.size(), results.size()));
    }
    for (size_t k = 0; k < made.size(); ++k) {
      if (typed) {
        if (!types[k].same_shape(graph_.type(made[k]))) {
          return at(cursor_.where(types_at),
                    error(FE_EINVALID, "FE-G19", "result {} of {} is {}, not {}", k, graph_.describe(id),
                          print_short(graph_.type(made[k])), print_short(types[k])));
        }
        // The text may add a layout and a device, which a shape rule does not decide.
        FE_CHECK(graph_.set_type(made[k], std::move(types[k])));
      }
      if (!is_number(results[k])) {
        FE_CHECK(here(results[k].position, graph_.set_value_name(made[k], std::string(results[k].text))));
      }
      define(results[k], made[k]);
    }
    return {};
  }

  Result<void> result_types(std::vector<TensorType>& types) {
    if (!cursor_.is("(")) {
      FE_TRY(types.emplace_back(), parse_type(cursor_, graph_.symbols()));
      return {};
    }
    cursor_.next();
    while (!cursor_.is(")")) {
      if (!types.empty()) FE_CHECK(cursor_.expect(","));
      FE_TRY(types.emplace_back(), parse_type(cursor_, graph_.symbols()));
    }
    return cursor_.expect(")");
  }

  std::string print_short(const TensorType& type) const {
    std::string text(name_of(type.dtype));
    for (size_t k = 0; k < type.rank(); ++k)
      text += (k == 0 ? "[" : ",") + graph_.symbols().print(type.dims[k]);
    return text + (type.rank() == 0 ? "[]" : "]");
  }

  static std::string name_of(const Token& token) {
    return is_number(token) ? std::string() : std::string(token.text);
  }
  static std::string_view name_of(DType dtype) { return ferrite::name_of(dtype); }

  Result<void> undefined(const Token& name) const {
    // Values and weights have keys of their own, but share the names of the graph.
    const bool taken = values_.contains(key_of(name)) || (!is_number(name) && graph_.find_value(name.text));
    if (!taken) return {};
    return at(cursor_.where(name.position), error(FE_EINVALID, "FE-G17", "'{}' is defined twice", name.text));
  }
  /// Defines a name. `id` is null if the node that makes the value is left out.
  void define(const Token& name, ValueId id) { values_.insert_or_assign(key_of(name), id); }

  Result<ValueId> use(const Token& name) const {
    const auto found = values_.find(key_of(name));
    if (found != values_.end()) return found->second;
    return at(cursor_.where(name.position),
              error(FE_EINVALID, "FE-G17", "'{}{}' is not defined before its use",
                    name.kind == TokenKind::weight ? '#' : '%', name.text));
  }
  Result<ValueId> operand() {
    if (!is_value(cursor_.peek())) return cursor_.unexpected("a value, as %x or #w");
    return use(cursor_.next());
  }

  Cursor cursor_;
  const OpRegistry* registry_;
  std::span<const std::pair<std::string, int64_t>> sizes_;
  Graph graph_;
  std::optional<std::vector<OpenGraph::Output>> open_outputs_;  // set if sizes may be open
  std::unordered_map<std::string, ValueId> values_;
  std::unordered_map<uint64_t, size_t>
      symbols_;  // position of a declared symbol's name -> the token after the declaration
  std::vector<std::pair<uint32_t, Token>> mutations_;
};

}  // namespace

Result<Graph> parse(std::string_view text, const ParseOptions& options) {
  FE_TRY(const text::TokenList list, text::TokenList::read(text, options.file));
  return Parser(list, options).read();
}

Result<OpenGraph> parse_open(std::string_view text, const ParseOptions& options) {
  FE_TRY(const text::TokenList list, text::TokenList::read(text, options.file));
  return Parser(list, options).read_open();
}

}  // namespace ferrite::core::graph
