// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/ir/text/parse_loops.h"

#include <charconv>

#include "core/ir/loop/verify.h"
#include "core/ir/text/loop_keywords.h"
#include "core/ir/text/parse_statement.h"
#include "core/ir/text/print_loops.h"

namespace ferrite::core::loop {
namespace {

using text::Cursor;
using text::TokenKind;

/// The kind of statement at the cursor; 0 if there is none.
uint32_t statement_kind(Cursor& cursor) {
  for (uint32_t kind = FE_STATEMENT_MAP; kind <= FE_STATEMENT_CALL; ++kind)
    if (cursor.accept(ferrite::loop::statement_name(kind))) return kind;
  return 0;
}

Result<void> parse_contents(StatementParser& parser, const Buffer& buffer, Constant& constant) {
  Cursor& cursor = parser.cursor();
  if (cursor.accept(keyword::weight)) {
    FE_TRY(constant.id, cursor.expect_string("the weight's identity"));
    const std::string where = cursor.where();
    FE_TRY(const int64_t bytes, cursor.expect_integer("the weight's bytes"));
    if (bytes < 0) return at(where, error(FE_EINVALID, "FE-G02", "a weight has no negative size"));
    constant.bytes = static_cast<uint64_t>(bytes);
    return {};
  }
  FE_CHECK(cursor.expect("="));
  std::vector<std::byte> data;
  if (cursor.accept(keyword::bytes)) {
    const std::string where = cursor.where();
    FE_TRY(const std::string digits, cursor.expect_string("hex digits"));
    for (size_t k = 0; k < digits.size(); k += 2) {
      unsigned byte = 0;
      const char* end = digits.data() + std::min(k + 2, digits.size());
      const auto read = std::from_chars(digits.data() + k, end, byte, 16);
      if (digits.size() % 2 != 0 || read.ec != std::errc() || read.ptr != end)
        return at(where, error(FE_EINVALID, "FE-G02", "bytes are pairs of hex digits"));
      data.push_back(static_cast<std::byte>(byte));
    }
  } else {
    const auto kind = cursor.peek().kind;
    const bool any = cursor.is("-") || cursor.is(keyword::bits) || cursor.is("inf") || cursor.is("nan") ||
                     kind == TokenKind::integer || kind == TokenKind::number;
    while (any) {
      FE_TRY(const uint64_t bits, parser.bits(buffer.dtype));
      const auto* first = reinterpret_cast<const std::byte*>(&bits);
      data.insert(data.end(), first, first + bits_of(buffer.dtype) / 8);
      if (!cursor.accept(",")) break;
    }
  }
  auto owned = std::make_shared<const std::vector<std::byte>>(std::move(data));
  constant.data = owned->data();
  constant.bytes = owned->size();
  constant.owned = std::move(owned);
  return {};
}

Result<void> parse_buffer(StatementParser& parser, LoopProgram& program) {
  ProgramBuffer buffer;
  const std::string where = parser.cursor().where();
  FE_TRY([[maybe_unused]] const BufferId id, parser.declare_buffer(program.buffers, buffer));
  if (buffer.base == none) {
    FE_CHECK(parser.type(buffer));
    const auto role = parser.word(keyword::roles);
    if (!role) return parser.cursor().unexpected("input, output, constant or temporary");
    buffer.role = static_cast<Role>(*role);
    constexpr uint32_t kinds[] = {FE_BUFFER_INPUT, FE_BUFFER_OUTPUT, FE_BUFFER_CONSTANT, FE_BUFFER_LOCAL};
    buffer.kind = kinds[*role];
    if (buffer.role != Role::temporary) {
      const std::string number_at = parser.cursor().where();
      FE_TRY(const int64_t number, parser.cursor().expect_integer("its number"));
      auto expected =
          static_cast<int64_t>(buffer.role == Role::input ? program.inputs.size() : program.constants.size());
      if (buffer.role != Role::output && number != expected)
        return at(number_at, error(FE_EINVALID, "FE-G02",
                                   "inputs and constants are numbered in their order; this is {}", expected));
      if (number < 0 || number >= static_cast<int64_t>(none))
        return at(number_at, error(FE_EINVALID, "FE-G02", "there is no output {}", number));
      buffer.number = static_cast<uint32_t>(number);
    } else {
      buffer.channels_last = parser.cursor().accept(keyword::channels_last);
    }
    FE_CHECK(parser.attributes(buffer));
    FE_CHECK(parser.check(buffer, where));
    if (buffer.role == Role::input) program.inputs.push_back(id);
    if (buffer.role == Role::constant)
      FE_CHECK(parse_contents(parser, buffer, program.constants.emplace_back()));
  }
  program.buffers.push_back(std::move(buffer));
  return {};
}

template <class Buffers>
std::vector<const Buffer*> pointers(const Buffers& buffers) {
  std::vector<const Buffer*> result;
  for (const auto& buffer : buffers) result.push_back(&buffer);
  return result;
}

}  // namespace

struct ProgramReader::State {
  explicit State(const text::TokenList& tokens) : name(tokens.name()), parser(tokens, program.pool) {}
  std::string name;  // of the file
  LoopProgram program;
  std::vector<const Buffer*> buffers;  // of the program, filled by begin()
  StatementParser parser;
};

ProgramReader::ProgramReader(const text::TokenList& tokens) : state_(std::make_unique<State>(tokens)) {}
ProgramReader::~ProgramReader() = default;

Cursor& ProgramReader::cursor() { return state_->parser.cursor(); }

Result<void> ProgramReader::begin(std::string_view stage) {
  auto& program = state_->program;
  auto& parser = state_->parser;
  FE_CHECK(parser.header(stage));
  while (cursor().accept(keyword::buffer)) FE_CHECK(parse_buffer(parser, program));
  FE_CHECK(cursor().expect(keyword::outputs));
  FE_TRY(program.outputs, parser.buffers_until(""));
  state_->buffers = pointers(program.buffers);
  return {};
}

Result<void> ProgramReader::statement() {
  auto& program = state_->program;
  auto& parser = state_->parser;
  const std::string where = cursor().where();
  ProgramStatement statement;
  const uint32_t kind = statement_kind(cursor());
  if (kind == 0) return cursor().unexpected("a statement");
  statement.kind = kind;
  if (kind == FE_STATEMENT_CALL) {
    FE_CHECK(parser.call(statement.call));
    FE_CHECK(parser.provenance(statement.origins));
  } else {
    FE_CHECK(parser.statement(kind, statement, &statement.origins, 0));
  }
  if (auto fault = ferrite::loop::find_fault(program.pool, state_->buffers, statement))
    return at(where, error(FE_EINVALID, "FE-K06", "{}", *fault));
  program.statements.push_back(std::move(statement));
  return {};
}

Error ProgramReader::in_text(Error error) const {
  error.status = FE_EINVALID;
  error.where = error.where.empty() ? state_->name : state_->name + ": " + error.where;
  return error;
}

Result<LoopProgram> ProgramReader::finish() {
  if (auto verified = verify(state_->program); !verified) return in_text(std::move(verified.error()));
  return std::move(state_->program);
}

Result<LoopProgram> parse_program(std::string_view source, std::string name) {
  FE_TRY(const auto tokens, text::TokenList::read(source, std::move(name)));
  ProgramReader reader(tokens);
  FE_CHECK(reader.begin(keyword::loops));
  while (!reader.cursor().at_end()) FE_CHECK(reader.statement());
  return reader.finish();
}

Result<Kernel> parse_kernel(std::string_view source, std::string name) {
  FE_TRY(const auto tokens, text::TokenList::read(source, std::move(name)));
  Kernel kernel;
  StatementParser parser(tokens, kernel.pool);
  Cursor& cursor = parser.cursor();
  FE_CHECK(parser.header(keyword::kernel));
  for (auto [what, to] :
       {std::pair{keyword::shared, &kernel.shared}, std::pair{keyword::numerics, &kernel.numerics}}) {
    FE_CHECK(cursor.expect(what));
    const std::string where = cursor.where();
    FE_TRY(const int64_t value, cursor.expect_integer(what));
    if (value < 0 || value > static_cast<int64_t>(ferrite::loop::max_vars))
      return at(where, error(FE_EINVALID, "FE-G02", "{} is out of range", value));
    *to = static_cast<uint32_t>(value);
  }
  std::vector<ProgramBuffer> declared;
  while (cursor.accept(keyword::buffer)) {
    ProgramBuffer buffer;
    const std::string where = cursor.where();
    FE_TRY([[maybe_unused]] const BufferId id, parser.declare_buffer(declared, buffer));
    if (buffer.base != none)
      return at(where, error(FE_EINVALID, "FE-G02", "a kernel's buffers have no versions"));
    FE_CHECK(parser.type(buffer));
    const auto kind = parser.word(keyword::kinds);
    if (!kind) return cursor.unexpected("input, output, constant or local");
    buffer.kind = *kind;
    FE_CHECK(parser.attributes(buffer));
    FE_CHECK(parser.check(buffer, where));
    declared.push_back(buffer);
    kernel.buffers.push_back(buffer);
  }
  const auto buffers = pointers(kernel.buffers);
  while (!cursor.at_end()) {
    const std::string where = cursor.where();
    Statement statement;
    const uint32_t kind = statement_kind(cursor);
    if (kind == 0 || kind == FE_STATEMENT_CALL)
      return at(where, error(FE_EINVALID, "FE-G02", "expected a statement other than a call"));
    FE_CHECK(parser.statement(kind, statement, nullptr, kernel.shared));
    if (auto fault = ferrite::loop::find_fault(kernel.pool, buffers, statement))
      return at(where, error(FE_EINVALID, "FE-K06", "{}", *fault));
    kernel.statements.push_back(std::move(statement));
  }
  if (auto verified = verify(kernel); !verified) {
    verified.error().status = FE_EINVALID;
    return verified.error();
  }
  return kernel;
}

}  // namespace ferrite::core::loop
