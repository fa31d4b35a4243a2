// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/ir/text/print_loops.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <unordered_map>

#include "core/ir/lexer/expression.h"
#include "core/ir/lexer/lexer.h"
#include "core/ir/loop/scalar.h"
#include "core/ir/text/loop_keywords.h"
#include "ferrite/loop_check.hpp"

namespace ferrite::core::loop {
namespace {

template <size_t N>
std::string_view word(const std::string_view (&table)[N], uint32_t number) {
  return number < N ? table[number] : "?";
}

bool is_identifier(std::string_view text) {
  auto tokens = text::TokenList::read(text, "");
  return tokens && tokens->tokens().size() == 2 && tokens->tokens()[0].kind == text::TokenKind::identifier &&
         tokens->tokens()[0].text == text;
}

/// Prints through a pool of its own, whose symbols have the numbers that the parser will give them. Terms of
/// sums are sorted by symbol number, so this gives the order that reading back produces.
class Printer {
 public:
  explicit Printer(const StatementList& list) : list_(list) {}

  std::string out;

  void buffer(BufferId id, const ProgramBuffer* extra, const LoopProgram* program) {
    const Buffer& b = *list_.buffers[id];
    out += fmt::format("{} {}", keyword::buffer, name(id));
    if (extra && extra->base != none) {
      out += "\n";
      return;
    }
    out += fmt::format(" : {}[{}]", name_of(b.dtype), fmt::join(b.dims, ", "));
    if (extra)
      out += fmt::format(" {}", word(keyword::roles, static_cast<uint32_t>(extra->role)));
    else
      out += fmt::format(" {}", word(keyword::kinds, b.kind));
    if (extra && extra->role != Role::temporary) out += fmt::format(" {}", extra->number);
    if (extra && extra->role == Role::temporary && extra->channels_last)
      out += fmt::format(" {}", keyword::channels_last);
    if (b.packing)
      packing(*b.packing);
    else if (b.strides != ferrite::loop::contiguous_strides(b.dims))
      out += fmt::format(" {}[{}]", keyword::strides, fmt::join(b.strides, ", "));
    if (b.offset != 0) out += fmt::format(" {} {}", keyword::offset, b.offset);
    if (b.alignment != Buffer().alignment) out += fmt::format(" {} {}", keyword::align, b.alignment);
    if (!b.name.empty()) out += " " + text::quote(b.name);
    if (extra && extra->role == Role::constant) contents(b.dtype, program->constants[extra->number]);
    out += "\n";
  }

  void statement(size_t number) {
    const Statement& s = *list_.statements[number];
    const auto* provenance = list_.provenance[number];
    out += ferrite::loop::statement_name(s.kind);
    if (s.kind == FE_STATEMENT_CALL) {
      const CallInfo info = provenance ? provenance->call : CallInfo();
      out += fmt::format(" {} {}({}) {}({})", text::quote(info.name), keyword::reads, names(info.reads),
                         keyword::writes, names(info.writes));
      origins(provenance);
      out += "\n";
      return;
    }
    if (s.contract_a != none) out += fmt::format(" {}", word(keyword::contracts, s.contract_kind));
    symbols_.clear();
    header(s);
    if (s.contract_a != none) out += fmt::format(" {} %{}, %{}", keyword::of, s.contract_a, s.contract_b);
    origins(provenance);
    out += " {\n";
    std::vector<bool> printed(s.reductions.size());
    for (OpId id = 0; id < s.ops.size(); ++id) {
      const auto& op = s.ops[id];
      // Print a reduction before the first use of its result.
      if (op.code == FE_OP_REDUCED && op.bits < printed.size() && !printed[op.bits]) {
        reduction(s, op.bits);
        printed[op.bits] = true;
      }
      operation(id, op);
    }
    for (size_t k = 0; k < printed.size(); ++k)
      if (!printed[k]) reduction(s, k);
    for (size_t k = 0; k < s.carries.size(); ++k) {
      const auto& carry = s.carries[k];
      out += fmt::format("  {} {} = {} {} {} {} : {}\n", keyword::carry, k, keyword::init,
                         format_bits(carry.dtype, carry.init_bits), keyword::next, value(carry.next),
                         name_of(carry.dtype));
    }
    for (const auto& store : s.stores) {
      out += fmt::format("  {} {} ", keyword::store, access(store.buffer, store.index));
      if (store.mode != FE_STORE_SET) out += word(keyword::store_modes, store.mode);
      out += "= " + value(store.value);
      if (store.mask != none) out += fmt::format(" {} {}", keyword::where, value(store.mask));
      out += "\n";
    }
    out += "}\n";
  }

  std::string name(BufferId id) const {
    if (id >= list_.buffers.size()) return fmt::format("@unknown{}", id);
    const BufferId base = list_.storage[id];
    if (base == id) return fmt::format("@{}", id);
    return fmt::format("@{}.{}", base, static_cast<const ProgramBuffer*>(list_.buffers[id])->version);
  }
  std::string names(std::span<const BufferId> ids) const {
    std::string text;
    for (BufferId id : ids) text += (text.empty() ? "" : ", ") + name(id);
    return text;
  }

 private:
  index::Expr declare(index::Symbol symbol, int64_t extent, std::string text) {
    // A computed symbol is not simplified any further: the text shows the expression exactly as the program's
    // pool has it.
    const auto fresh = pool_.new_computed_symbol({0, extent - 1});
    text_of_.push_back(std::move(text));
    return symbols_[symbol] = pool_.symbol(fresh);
  }

  void packing(const ferrite::loop::Packing& packing) {
    symbols_.clear();
    for (size_t k = 0; k < packing.dims.size(); ++k)
      declare(packing.symbols[k], packing.dims[k], fmt::format("p{}", k));
    out += fmt::format(" {}[{}]", keyword::packed, fmt::join(packing.dims, ", "));
    if (packing.terms > 0) {
      declare(packing.symbols.back(), packing.terms, std::string(keyword::term));
      out += fmt::format(" {} {}", keyword::terms, packing.terms);
    }
    out += "(";
    for (size_t k = 0; k < packing.logical.size(); ++k)
      out += (k ? ", " : "") + expression(packing.logical[k]);
    out += ")";
  }

  void contents(DType dtype, const Constant& constant) {
    if ((!constant.data && constant.bytes > 0) || (!constant.id.empty() && constant.bytes > 1024)) {
      out += fmt::format(" {} {} {}", keyword::weight, text::quote(constant.id), constant.bytes);
      return;
    }
    const auto size = static_cast<size_t>(bits_of(dtype) / 8);
    if (!ferrite::loop::is_computable(dtype) || constant.bytes % size != 0) {
      out += fmt::format(" = {} \"", keyword::bytes);
      for (uint64_t k = 0; k < constant.bytes; ++k)
        out += fmt::format("{:02x}", static_cast<unsigned>(constant.data[k]));
      out += "\"";
      return;
    }
    out += " =";
    for (uint64_t k = 0; k < constant.bytes; k += size) {
      uint64_t bits = 0;
      std::memcpy(&bits, constant.data + k, size);
      out += (k ? ", " : " ") + format_bits(dtype, bits);
    }
  }

  void header(const Statement& s) {
    static constexpr char letters[] = {'i', 'r', 't'};
    size_t count[3] = {};
    out += " (";
    for (size_t k = 0; k < s.vars.size(); ++k) {
      const auto kind = std::min(static_cast<uint32_t>(s.vars[k].kind), 2u);
      std::string text = fmt::format("{}{}", letters[kind], count[kind]++);
      if (k) out += ", ";
      if (kind) out += fmt::format("{} ", keyword::variables[kind]);
      out += fmt::format("{} < {}", text, s.vars[k].extent);
      declare(s.vars[k].symbol, s.vars[k].extent, std::move(text));
    }
    out += ")";
  }

  void origins(const ProgramStatement* provenance) {
    if (!provenance) return;
    const char* separator = " ";
    for (const auto& origin : provenance->origins) {
      if (*separator == ' ') out += fmt::format(" {}", keyword::from);
      out += fmt::format("{}{} ({} %{})", *separator == ' ' ? " " : ", ", text::quote(origin.names),
                         is_identifier(origin.op) ? origin.op : text::quote(origin.op), origin.index());
      separator = ",";
    }
  }

  void reduction(const Statement& s, size_t number) {
    const auto& reduction = s.reductions[number];
    out += fmt::format("  {} {} = {} {}", keyword::reduction, number,
                       ferrite::loop::reduction_name(reduction.kind), value(reduction.element));
    if (reduction.index != none) out += fmt::format(" {} {}", keyword::at, value(reduction.index));
    out += fmt::format(" : {}\n", name_of(reduction.accumulator));
  }

  void operation(OpId id, const BodyOp& op) {
    if (op.code == FE_OP_INDIRECT) {
      // Name the symbol after the operation's number, which does not depend on the pool.
      declare(
          op.symbol,
          static_cast<int64_t>(std::min<uint64_t>(op.bits, static_cast<uint64_t>(ferrite::loop::max_extent))),
          fmt::format("${}", id));
      out += fmt::format("  ${} = {} {} < {} {}\n", id, keyword::indirect, value(op.a), op.bits,
                         word(keyword::indirect_modes, op.flags));
      return;
    }
    out += fmt::format("  %{} = ", id);
    bool typed = true;
    switch (op.code) {
      case FE_OP_LOAD:
        out += fmt::format("{} {}", keyword::load, access(op.buffer, op.index));
        if (op.a != none)
          out += fmt::format(" {} {} {} {}", keyword::where, value(op.a), keyword::otherwise, value(op.b));
        break;
      case FE_OP_CONSTANT:
        out += fmt::format("{} {}", keyword::constant, format_bits(op.dtype, op.bits));
        break;
      case FE_OP_INDEX:
        out += fmt::format("{} {}", keyword::index, op.index.size() == 1 ? expression(op.index[0]) : "?");
        break;
      case FE_OP_REDUCED: out += fmt::format("{} {}", keyword::reduced, op.bits); break;
      case FE_OP_CARRIED: out += fmt::format("{} {}", keyword::carried, op.bits); break;
      default: {
        const auto* info = find_prim(op.code);
        out += fmt::format("{} {}", info ? info->name : "?", value(op.a));
        if (op.b != none) out += ", " + value(op.b);
        if (op.c != none) out += ", " + value(op.c);
        typed = op.prim() == Prim::cast_ || op.prim() == Prim::bitcast_;
      }
    }
    if (typed) out += fmt::format(" : {}", name_of(op.dtype));
    out += "\n";
  }

  std::string value(OpId id) const { return id == none ? "%unknown" : fmt::format("%{}", id); }

  std::string access(BufferId buffer, std::span<const index::Expr> index) {
    std::string text = name(buffer) + "[";
    for (size_t d = 0; d < index.size(); ++d) text += (d ? ", " : "") + expression(index[d]);
    return text + "]";
  }

  std::string expression(index::Expr expr) {
    if (!expr) return "?";
    const auto here = pool_.import(list_.pool, expr, [&](index::Symbol symbol) {
      const auto found = symbols_.find(symbol);
      return found != symbols_.end() ? found->second : declare(symbol, ferrite::loop::max_extent, "unknown");
    });
    return text::print_expression(pool_, here, [&](index::Symbol symbol) { return text_of_[symbol]; });
  }

  const StatementList& list_;
  index::Pool pool_;
  std::vector<std::string> text_of_;                        // by symbol of pool_
  std::unordered_map<index::Symbol, index::Expr> symbols_;  // of the statement: from the list's pool to pool_
};

}  // namespace

std::string format_bits(DType dtype, uint64_t bits) {
  if (!ferrite::loop::is_computable(dtype)) return fmt::format("{}(0x{:x})", keyword::bits, bits);
  if (!is_float(dtype)) {
    const int64_t value = scalar::int_value(dtype, bits);
    return dtype == DType::u64_ ? fmt::format("{}", static_cast<uint64_t>(value)) : fmt::format("{}", value);
  }
  const double value = scalar::float_value(dtype, bits);
  if (std::isnan(value)) {
    const auto quiet = scalar::float_bits(dtype, std::numeric_limits<double>::quiet_NaN());
    return bits == quiet ? "nan" : fmt::format("{}(0x{:x})", keyword::bits, bits);
  }
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  if (bits_of(dtype) > 32) return text::format_number(value);
  // The parser reads an f32 through a double. Its shortest decimal survives that almost always; check, and
  // use the double's decimal otherwise.
  std::string text = fmt::format("{}", static_cast<float>(value));
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return static_cast<float>(std::strtod(text.c_str(), nullptr)) == static_cast<float>(value)
             ? text
             : text::format_number(value);
}

std::string print_tables(const LoopProgram& program) {
  const StatementList list = list_of(program);
  Printer printer(list);
  for (BufferId id = 0; id < program.buffers.size(); ++id) printer.buffer(id, &program.buffers[id], &program);
  printer.out += fmt::format("{} {}\n", keyword::outputs, printer.names(program.outputs));
  return std::move(printer.out);
}

std::string print(const LoopProgram& program) {
  const StatementList list = list_of(program);
  Printer printer(list);
  printer.out =
      fmt::format("{} {} {}\n{}", keyword::ferrite, keyword::loops, keyword::version, print_tables(program));
  for (size_t k = 0; k < program.statements.size(); ++k) printer.statement(k);
  return std::move(printer.out);
}

std::string print(const Kernel& kernel) {
  const StatementList list = list_of(kernel);
  Printer printer(list);
  printer.out = fmt::format("{} {} {}\n{} {} {} {}\n", keyword::ferrite, keyword::kernel, keyword::version,
                            keyword::shared, kernel.shared, keyword::numerics, kernel.numerics);
  for (BufferId id = 0; id < kernel.buffers.size(); ++id) printer.buffer(id, nullptr, nullptr);
  for (size_t k = 0; k < kernel.statements.size(); ++k) printer.statement(k);
  return std::move(printer.out);
}

std::string indented(std::string_view text) {
  std::string result;
  for (size_t start = 0; start < text.size();) {
    const size_t end = std::min(text.find('\n', start), text.size() - 1) + 1;
    result.append("  ").append(text.substr(start, end - start));
    start = end;
  }
  return result;
}

std::string print_statement(const StatementList& list, size_t statement) {
  Printer printer(list);
  printer.statement(statement);
  return std::move(printer.out);
}

}  // namespace ferrite::core::loop
