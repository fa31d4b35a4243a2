// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/ir/text/parse_statement.h"

#include <charconv>
#include <cstring>

#include "core/ir/lexer/expression.h"
#include "core/ir/loop/scalar.h"
#include "core/ir/loop/verify.h"
#include "core/ir/text/loop_keywords.h"
#include "core/ir/text/print_loops.h"

namespace ferrite::core::loop {

using text::Token;
using text::TokenKind;

Result<void> StatementParser::header(std::string_view stage) {
  FE_CHECK(cursor_.expect(keyword::ferrite));
  FE_CHECK(cursor_.expect(stage));
  const std::string where = cursor_.where();
  FE_TRY(const int64_t version, cursor_.expect_integer("the version"));
  if (version != 0)
    return at(where, error(FE_EUNSUPPORTED, "FE-G02",
                           "version {} of the text is not known; this build reads 0", version));
  return {};
}

Result<BufferId> StatementParser::declare_buffer(const std::vector<ProgramBuffer>& table,
                                                 ProgramBuffer& buffer) {
  const std::string where = cursor_.where();
  FE_TRY(const Token token, cursor_.expect(TokenKind::buffer, "a buffer"));
  const auto id = static_cast<BufferId>(table.size());
  // A name with a dot is a version: the same memory after another statement has written it.
  const auto dot = token.text.find('.');
  if (dot == std::string_view::npos) {
    if (token.text != std::to_string(id))
      return at(where,
                error(FE_EINVALID, "FE-G02", "buffers are numbered by their position; this is @{}", id));
  } else {
    const auto base = buffers_.find(std::string(token.text.substr(0, dot)));
    uint32_t version = 0;
    const char* end = token.text.data() + token.text.size();
    const auto read = std::from_chars(token.text.data() + dot + 1, end, version);
    if (base == buffers_.end() || read.ec != std::errc() || read.ptr != end || version == 0)
      return at(where, error(FE_EINVALID, "FE-G02", "@{} is not a version of a buffer above", token.text));
    buffer = table[base->second];
    buffer.base = base->second;
    // this statement writes the buffer; an earlier one may have declared it with another kind
    buffer.kind = FE_BUFFER_OUTPUT;
    buffer.version = version;
  }
  if (!buffers_.emplace(std::string(token.text), id).second)
    return at(where, error(FE_EINVALID, "FE-G02", "@{} is declared twice", token.text));
  return id;
}

Result<BufferId> StatementParser::buffer() {
  const std::string where = cursor_.where();
  FE_TRY(const Token token, cursor_.expect(TokenKind::buffer, "a buffer"));
  const auto found = buffers_.find(std::string(token.text));
  if (found == buffers_.end())
    return at(where, error(FE_EINVALID, "FE-G02", "there is no buffer @{}", token.text));
  return found->second;
}

Result<std::vector<BufferId>> StatementParser::buffers_until(std::string_view close) {
  std::vector<BufferId> ids;
  while (cursor_.peek().kind == TokenKind::buffer) {
    FE_TRY(const BufferId id, buffer());
    ids.push_back(id);
    if (!cursor_.accept(",")) break;
  }
  if (!close.empty()) FE_CHECK(cursor_.expect(close));
  return ids;
}

Result<std::vector<int64_t>> StatementParser::integers() {
  FE_CHECK(cursor_.expect("["));
  std::vector<int64_t> list;
  while (!cursor_.is("]")) {
    FE_TRY(const int64_t value, cursor_.expect_integer("an integer"));
    list.push_back(value);
    if (!cursor_.accept(",")) break;
  }
  FE_CHECK(cursor_.expect("]"));
  return list;
}

Result<DType> StatementParser::dtype() {
  const auto* info = cursor_.peek().kind == TokenKind::identifier ? find_dtype(cursor_.peek().text) : nullptr;
  if (!info) return cursor_.unexpected("an element type");
  cursor_.next();
  return info->dtype;
}

Result<void> StatementParser::type(Buffer& buffer) {
  FE_CHECK(cursor_.expect(":"));
  FE_TRY(buffer.dtype, dtype());
  FE_TRY(buffer.dims, integers());
  // The default, which `attributes` may replace.
  buffer.strides = ferrite::loop::contiguous_strides(buffer.dims);
  return {};
}

Result<void> StatementParser::attributes(Buffer& buffer) {
  if (cursor_.accept(keyword::packed))
    FE_CHECK(packing(buffer));
  else if (cursor_.accept(keyword::strides)) {
    FE_TRY(buffer.strides, integers());
  }
  if (cursor_.accept(keyword::offset)) {
    FE_TRY(buffer.offset, cursor_.expect_integer("the offset"));
  }
  if (cursor_.accept(keyword::align)) {
    const std::string where = cursor_.where();
    FE_TRY(const int64_t alignment, cursor_.expect_integer("the alignment"));
    if (alignment < 1 || alignment > (1 << 30))
      return at(where, error(FE_EINVALID, "FE-G02", "the alignment is not one"));
    buffer.alignment = static_cast<uint32_t>(alignment);
  }
  if (cursor_.peek().kind == TokenKind::string) buffer.name = std::string(cursor_.next().text);
  return {};
}

Result<void> StatementParser::check(const Buffer& buffer, const std::string& where) const {
  if (auto fault = ferrite::loop::find_fault(buffer))
    return at(where, error(FE_EINVALID, "FE-K06", "{}", *fault));
  return {};
}

Result<uint64_t> StatementParser::bits(DType dtype) {
  const std::string where = cursor_.where();
  // Hexadecimal bits keep what a decimal number cannot say, such as the payload of a NaN.
  if (cursor_.accept(keyword::bits)) {
    FE_CHECK(cursor_.expect("("));
    FE_TRY(const Token token, cursor_.expect(TokenKind::integer, "the bits"));
    FE_CHECK(cursor_.expect(")"));
    return token.integer;
  }
  if (is_float(dtype)) {
    FE_TRY(const double value, cursor_.expect_number("a number"));
    return scalar::float_bits(dtype, value);
  }
  // Above the range of expect_integer(), which is signed.
  if (dtype == DType::u64_) {
    FE_TRY(const Token token, cursor_.expect(TokenKind::integer, "an integer"));
    return token.integer;
  }
  FE_TRY(const int64_t value, cursor_.expect_integer("an integer"));
  if (!is_integer(dtype) && dtype != DType::bool_)
    return at(where, error(FE_EINVALID, "FE-G02", "a constant of {} is written as bits(…)", name_of(dtype)));
  const auto result = scalar::int_bits(dtype, value);
  // int_bits() drops the upper bits; a value that does not return as it was has lost some.
  if (scalar::int_value(dtype, result) != value)
    return at(where, error(FE_EINVALID, "FE-G02", "{} does not fit {}", value, name_of(dtype)));
  return result;
}

Result<void> StatementParser::statement(uint32_t kind, Statement& s, std::vector<Origin>* origins,
                                        uint32_t shared) {
  s.kind = kind;
  // Variables and values are numbered anew in each statement.
  names_.clear();
  values_ = 0;
  if (kind == FE_STATEMENT_CONTRACT) {
    const auto contract = word(keyword::contracts);
    if (!contract) return cursor_.unexpected("the kind of contract");
    s.contract_kind = *contract;
  }
  FE_CHECK(variables(s, shared));
  if (kind == FE_STATEMENT_CONTRACT) {
    // The loads come later in the text, so these numbers cannot be checked yet; the verifier checks them.
    FE_CHECK(cursor_.expect(keyword::of));
    FE_TRY(s.contract_a, number());
    FE_CHECK(cursor_.expect(","));
    FE_TRY(s.contract_b, number());
  }
  if (origins) FE_CHECK(provenance(*origins));
  FE_CHECK(cursor_.expect("{"));
  while (!cursor_.accept("}")) FE_CHECK(line(s));
  return {};
}

Result<void> StatementParser::provenance(std::vector<Origin>& origins) {
  if (!cursor_.accept(keyword::from)) return {};
  do {
    Origin origin;
    FE_TRY(origin.names, cursor_.expect_string("the names of nodes"));
    FE_CHECK(cursor_.expect("("));
    if (cursor_.peek().kind != TokenKind::identifier && cursor_.peek().kind != TokenKind::string)
      return cursor_.unexpected("an operator's name");
    origin.op = std::string(cursor_.next().text);
    FE_TRY(origin.node, number64());
    FE_CHECK(cursor_.expect(")"));
    origins.push_back(std::move(origin));
  } while (cursor_.accept(","));
  return {};
}

Result<void> StatementParser::call(CallInfo& info) {
  FE_TRY(info.name, cursor_.expect_string("the call's name"));
  FE_CHECK(cursor_.expect(keyword::reads));
  FE_CHECK(cursor_.expect("("));
  FE_TRY(info.reads, buffers_until(")"));
  FE_CHECK(cursor_.expect(keyword::writes));
  FE_CHECK(cursor_.expect("("));
  FE_TRY(info.writes, buffers_until(")"));
  return {};
}

Result<index::Expr> StatementParser::symbol(const Token& token) {
  // Computed symbols keep their sigil in the table, so that `$1` is never a loop variable.
  const std::string text = (token.kind == TokenKind::symbol ? "$" : "") + std::string(token.text);
  const auto found = names_.find(text);
  if (found == names_.end() || token.kind == TokenKind::value || token.kind == TokenKind::buffer)
    return at(cursor_.where(token.position),
              error(FE_EINVALID, "FE-G02", "there is no variable '{}' here", text));
  return found->second;
}

Result<index::Expr> StatementParser::expression() {
  const std::string where = cursor_.where();
  FE_TRY(const auto expr,
         text::parse_expression(cursor_, pool_, [this](const Token& token) { return symbol(token); }));
  if (!expr) return at(where, error(FE_EINVALID, "FE-G02", "the index expression has no value"));
  return expr;
}

Result<std::vector<index::Expr>> StatementParser::expressions(std::string_view close) {
  std::vector<index::Expr> list;
  while (!cursor_.is(close)) {
    FE_TRY(const auto expr, expression());
    list.push_back(expr);
    if (!cursor_.accept(",")) break;
  }
  FE_CHECK(cursor_.expect(close));
  return list;
}

Result<void> StatementParser::declare(const std::string& name, index::Symbol symbol) {
  if (names_.emplace(name, pool_.symbol(symbol)).second) return {};
  return at(cursor_.where(), error(FE_EINVALID, "FE-G02", "'{}' is declared twice", name));
}

Result<void> StatementParser::packing(Buffer& buffer) {
  ferrite::loop::Packing packing;
  names_.clear();
  FE_TRY(packing.dims, integers());
  for (size_t k = 0; k < packing.dims.size(); ++k) {
    packing.symbols.push_back(pool_.new_symbol({0, packing.dims[k] - 1}));
    FE_CHECK(declare(fmt::format("p{}", k), packing.symbols.back()));
  }
  if (cursor_.accept(keyword::terms)) {
    FE_TRY(packing.terms, cursor_.expect_integer("the number of terms"));
    packing.symbols.push_back(pool_.new_symbol({0, packing.terms - 1}));
    FE_CHECK(declare(std::string(keyword::term), packing.symbols.back()));
  }
  FE_CHECK(cursor_.expect("("));
  FE_TRY(packing.logical, expressions(")"));
  buffer.strides.clear();
  buffer.packing = std::move(packing);
  return {};
}

Result<void> StatementParser::variables(Statement& s, uint32_t shared) {
  FE_CHECK(cursor_.expect("("));
  while (!cursor_.is(")")) {
    Var var;
    if (cursor_.accept(keyword::variables[1]))
      var.kind = VarKind::reduction;
    else if (cursor_.accept(keyword::variables[2]))
      var.kind = VarKind::serial;
    FE_TRY(const Token name, cursor_.expect(TokenKind::identifier, "a variable"));
    FE_CHECK(cursor_.expect("<"));
    const std::string where = cursor_.where();
    FE_TRY(var.extent, cursor_.expect_integer("an extent"));
    if (var.extent < 0 || var.extent > ferrite::loop::max_extent)
      return at(where, error(FE_EINVALID, "FE-G02", "{} is not the extent of a loop", var.extent));
    const size_t k = s.vars.size();
    // The outer loops of a group are one: its statements share the symbols of the first statement.
    if (k < shared && k < shared_.size()) {
      var.symbol = shared_[k];
    } else {
      var.symbol = pool_.new_symbol({0, var.extent - 1});
      if (k < shared) shared_.push_back(var.symbol);
    }
    FE_CHECK(declare(std::string(name.text), var.symbol));
    s.vars.push_back(var);
    if (!cursor_.accept(",")) break;
  }
  return cursor_.expect(")");
}

Result<uint64_t> StatementParser::number64() {
  const std::string where = cursor_.where();
  FE_TRY(const Token token, cursor_.expect(TokenKind::value, "a value"));
  uint64_t result = 0;
  const char *const begin = token.text.data(), *const end = begin + token.text.size();
  const auto read = std::from_chars(begin, end, result);
  if (read.ec != std::errc() || read.ptr != end)
    return at(where, error(FE_EINVALID, "FE-G02", "values are numbered here, %{} is not", token.text));
  return result;
}

Result<OpId> StatementParser::number() {
  const std::string where = cursor_.where();
  FE_TRY(const uint64_t result, number64());
  // `none` marks an operand that is not there.
  if (result >= none) return at(where, error(FE_EINVALID, "FE-G02", "%{} is too large", result));
  return static_cast<OpId>(result);
}

Result<OpId> StatementParser::value() {
  const std::string where = cursor_.where();
  FE_TRY(const OpId id, number());
  // Operands come first, so that the body is in the order of its computation.
  if (id >= values_) return at(where, error(FE_EINVALID, "FE-G02", "%{} is not above", id));
  return id;
}

Result<uint32_t> StatementParser::small(std::string_view what) {
  const std::string where = cursor_.where();
  FE_TRY(const int64_t value, cursor_.expect_integer(what));
  if (value < 0 || value >= static_cast<int64_t>(none))
    return at(where, error(FE_EINVALID, "FE-G02", "{} is no number for {}", value, what));
  return static_cast<uint32_t>(value);
}

Result<void> StatementParser::in_order(std::string_view what, size_t expected) {
  const std::string where = cursor_.where();
  FE_TRY(const uint32_t number, small(what));
  if (number != expected) return at(where, error(FE_EINVALID, "FE-G02", "this is {} {}", what, expected));
  return cursor_.expect("=");
}

Result<void> StatementParser::access(BufferId& id, std::vector<index::Expr>& index) {
  FE_TRY(id, buffer());
  FE_CHECK(cursor_.expect("["));
  FE_TRY(index, expressions("]"));
  return {};
}

Result<void> StatementParser::line(Statement& s) {
  if (cursor_.accept(keyword::reduction)) return reduction(s);
  if (cursor_.accept(keyword::carry)) return carry(s);
  if (cursor_.accept(keyword::store)) return store(s);
  if (cursor_.peek().kind == TokenKind::symbol) return indirect(s);
  return operation(s);
}

Result<void> StatementParser::reduction(Statement& s) {
  Reduction result;
  const std::string where = cursor_.where();
  FE_TRY(const uint32_t number, small("the reduction"));
  // Reductions may come in any order: the text has each one after the value that it reduces.
  if (number >= s.reductions.size()) {
    if (number > ferrite::loop::max_vars)
      return at(where, error(FE_EINVALID, "FE-G02", "reductions are numbered 0, 1, ..."));
    s.reductions.resize(number + 1);
  }
  FE_CHECK(cursor_.expect("="));
  // FE_REDUCE_SUM is 1; 0 is no reduction.
  result.kind = 0;
  for (uint32_t kind = FE_REDUCE_SUM; kind <= FE_REDUCE_ARGMIN && result.kind == 0; ++kind)
    if (cursor_.accept(ferrite::loop::reduction_name(kind))) result.kind = kind;
  if (result.kind == 0) return cursor_.unexpected("a reduction");
  FE_TRY(result.element, value());
  if (cursor_.accept(keyword::at)) {
    FE_TRY(result.index, value());
  }
  FE_CHECK(cursor_.expect(":"));
  FE_TRY(result.accumulator, dtype());
  s.reductions[number] = result;
  return {};
}

Result<void> StatementParser::carry(Statement& s) {
  Carry result;
  FE_CHECK(in_order(keyword::carry, s.carries.size()));
  FE_CHECK(cursor_.expect(keyword::init));
  // The type follows the bits: remember the position and read them once the type is known.
  const size_t bits_at = cursor_.offset();
  while (!cursor_.is(keyword::next) && !cursor_.at_end()) cursor_.next();
  FE_CHECK(cursor_.expect(keyword::next));
  FE_TRY(result.next, value());
  FE_CHECK(cursor_.expect(":"));
  FE_TRY(result.dtype, dtype());
  const size_t end = cursor_.offset();
  cursor_.seek(bits_at);
  FE_TRY(result.init_bits, bits(result.dtype));
  if (!cursor_.is(keyword::next)) return cursor_.unexpected("'next'");
  cursor_.seek(end);
  s.carries.push_back(result);
  return {};
}

Result<void> StatementParser::store(Statement& s) {
  Store result;
  FE_CHECK(access(result.buffer, result.index));
  const auto mode = word(keyword::store_modes);
  result.mode = mode.value_or(FE_STORE_SET);
  FE_CHECK(cursor_.expect("="));
  FE_TRY(result.value, value());
  if (cursor_.accept(keyword::where)) {
    FE_TRY(result.mask, value());
  }
  s.stores.push_back(std::move(result));
  return {};
}

Result<void> StatementParser::indirect(Statement& s) {
  BodyOp op;
  op.code = FE_OP_INDIRECT;
  const std::string where = cursor_.where();
  const Token name = cursor_.next();
  if (name.text != std::to_string(s.ops.size()))
    return at(where, error(FE_EINVALID, "FE-G02", "this is ${}", s.ops.size()));
  FE_CHECK(cursor_.expect("="));
  FE_CHECK(cursor_.expect(keyword::indirect));
  FE_TRY(op.a, value());
  FE_CHECK(cursor_.expect("<"));
  FE_TRY(const int64_t extent, cursor_.expect_integer("the extent"));
  if (extent < 0 || extent > ferrite::loop::max_extent)
    return at(where, error(FE_EINVALID, "FE-G02", "{} is not the size of a dim", extent));
  op.bits = static_cast<uint64_t>(extent);
  const auto mode = word(keyword::indirect_modes);
  if (!mode) return cursor_.unexpected("the handling of an index out of range");
  op.flags = *mode;
  // Index expressions cannot read values. A symbol with the range of the dim stands for this one.
  op.symbol = pool_.new_computed_symbol({0, extent - 1});
  FE_CHECK(declare("$" + std::string(name.text), op.symbol));
  s.ops.push_back(std::move(op));
  ++values_;
  return {};
}

Result<void> StatementParser::operation(Statement& s) {
  BodyOp op;
  const std::string where = cursor_.where();
  FE_TRY(const OpId id, number());
  if (id != s.ops.size())
    return at(where,
              error(FE_EINVALID, "FE-G02", "values are numbered by their line; this is %{}", s.ops.size()));
  FE_CHECK(cursor_.expect("="));
  if (cursor_.accept(keyword::load)) {
    op.code = FE_OP_LOAD;
    FE_CHECK(access(op.buffer, op.index));
    if (cursor_.accept(keyword::where)) {
      FE_TRY(op.a, value());
      FE_CHECK(cursor_.expect(keyword::otherwise));
      FE_TRY(op.b, value());
    }
  } else if (cursor_.accept(keyword::constant)) {
    op.code = FE_OP_CONSTANT;
    // The type follows the number here, too.
    const size_t bits_at = cursor_.offset();
    while (!cursor_.is(":") && !cursor_.at_end()) cursor_.next();
    FE_CHECK(cursor_.expect(":"));
    FE_TRY(op.dtype, dtype());
    const size_t end = cursor_.offset();
    cursor_.seek(bits_at);
    FE_TRY(op.bits, bits(op.dtype));
    if (!cursor_.is(":")) return cursor_.unexpected("':'");
    cursor_.seek(end);
    return append(s, std::move(op));
  } else if (cursor_.accept(keyword::index)) {
    op.code = FE_OP_INDEX;
    FE_TRY(const auto expr, expression());
    op.index = {expr};
  } else if (cursor_.accept(keyword::reduced)) {
    op.code = FE_OP_REDUCED;
    FE_TRY(op.bits, small("the reduction"));
  } else if (cursor_.accept(keyword::carried)) {
    op.code = FE_OP_CARRIED;
    FE_TRY(op.bits, small("the state"));
  } else {
    FE_CHECK(prim(s, op));
    return append(s, std::move(op));
  }
  FE_CHECK(cursor_.expect(":"));
  FE_TRY(op.dtype, dtype());
  return append(s, std::move(op));
}

Result<void> StatementParser::prim(const Statement& s, BodyOp& op) {
  const std::string where = cursor_.where();
  const auto* info = cursor_.peek().kind == TokenKind::identifier ? find_prim(cursor_.peek().text) : nullptr;
  if (!info) return cursor_.unexpected("an operation");
  cursor_.next();
  op.code = static_cast<uint16_t>(info->prim);
  OpId* operands[] = {&op.a, &op.b, &op.c};
  DType types[3] = {DType::none, DType::none, DType::none};
  for (int k = 0; k < info->operands; ++k) {
    if (k > 0) FE_CHECK(cursor_.expect(","));
    FE_TRY(*operands[k], value());
    types[k] = s.ops[*operands[k]].dtype;
  }
  DType requested = DType::none;
  if (info->prim == Prim::cast_ || info->prim == Prim::bitcast_) {
    FE_CHECK(cursor_.expect(":"));
    FE_TRY(requested, dtype());
  }
  op.dtype = ferrite::loop::result_type(info->prim, types[0], types[1], types[2], requested);
  if (op.dtype == DType::none)
    return at(where, error(FE_EINVALID, "FE-K06", "{} does not take operands of these types", info->name));
  return {};
}

Result<void> StatementParser::append(Statement& s, BodyOp op) {
  s.ops.push_back(std::move(op));
  ++values_;
  return {};
}

}  // namespace ferrite::core::loop
