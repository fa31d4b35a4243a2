// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/schedule/rewrites/padding.h"

#include <algorithm>
#include <optional>
#include <span>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "ferrite/loop_check.hpp"

namespace ferrite::core::schedule {
namespace {

/// The reason why a buffer keeps its strides.
struct Refusal {
  const char* category;
  const char* text;
};

class RowPadder {
 public:
  RowPadder(Schedule& schedule, const RowPadding& padding, const MemoryLimit& memory, Ledger& ledger)
      : schedule_(schedule),
        program_(schedule.program),
        padding_(padding),
        memory_(memory),
        ledger_(ledger),
        live_(live_bytes(schedule)) {
    find_users();
  }

  void run() {
    for (BufferId b = 0; b < program_.buffers.size(); ++b) {
      const auto& buffer = program_.buffers[b];
      if (buffer.base != none || users_[b].count == 0 || buffer.elements() == 0) continue;
      const auto row = row_of(buffer);
      if (!row || (is_small(buffer) && !is_hidden(b))) continue;
      auto strides = with_rows_of(buffer, *row);
      const int64_t old_bytes = buffer.bytes();
      const std::string old = fmt::format("strides [{}]", fmt::join(buffer.strides, ", "));
      if (const auto refusal = refusal_of(b, *row, strides)) {
        record(b, "not padded", refusal->category, fmt::format("{}: {}", old, refusal->text), 0);
        continue;
      }
      auto padded = static_cast<const Buffer&>(buffer);
      padded.strides = strides;
      const int64_t more = padded.bytes() - old_bytes;
      const auto life = std::span(live_).subspan(users_[b].first, users_[b].group - users_[b].first + 1);
      if (more > memory_.room(*std::ranges::max_element(life))) {
        record(b, "not padded", "memory", fmt::format("{}: no room for {} bytes more", old, more), 0);
        continue;
      }
      // Padding is charged to all groups of the buffer's lifetime, so that later buffers see the memory that
      // is left.
      for (int64_t& bytes : life) bytes += more;
      program_.buffers[b].strides = std::move(strides);
      record(b, "padded", {},
             fmt::format("{} -> [{}]: rows are multiples of {} bytes apart", old,
                         fmt::join(buffer.strides, ", "), padding_.alignment),
             static_cast<double>(buffer.bytes() - old_bytes));
    }
    for (auto& version : program_.buffers)
      if (version.base != none) version.strides = program_.buffers[version.base].strides;
  }

 private:
  /// The accesses to a storage.
  struct Users {
    size_t count = 0;             ///< number of groups; exact only while it is 0 or 1
    size_t first = 0, group = 0;  ///< the first and the last group
    const ProgramStatement* writer = nullptr;
    bool opaque = false;  ///< an opaque kernel or a region accesses it
    bool viewed = false;  ///< its index is more than sums of loop variables
  };

  /// The length of a row and its padded length, in elements.
  struct Row {
    int64_t length = 0, padded = 0;
  };

  void find_users() {
    users_.resize(program_.buffers.size());
    for (size_t g = 0; g < schedule_.groups.size(); ++g)
      for (uint32_t s : schedule_.groups[g].statements) {
        const auto& statement = program_.statements[s];
        const auto touch = [&](BufferId buffer, std::span<const index::Expr> index) {
          auto& users = users_[program_.storage(buffer)];
          if (users.count == 0) users.first = g;
          if (users.count == 0 || users.group != g) ++users.count;
          users.group = g;
          for (index::Expr expr : index)
            users.viewed = users.viewed || !program_.pool.affine(expr).rest.empty();
          return &users;
        };
        for (const auto& op : statement.ops)
          if (op.code == FE_OP_LOAD) touch(op.buffer, op.index);
        for (const auto& store : statement.stores) {
          auto* users = touch(store.buffer, store.index);
          if (!users->writer) users->writer = &statement;
        }
        for (BufferId b : statement.call.reads) touch(b, {})->opaque = true;
        for (BufferId b : statement.call.writes) touch(b, {})->opaque = true;
      }
    is_output_.resize(program_.buffers.size());
    for (BufferId b : program_.outputs) is_output_[program_.storage(b)] = true;
    for (BufferId b : init_buffers(schedule_, init_groups(schedule_))) is_constant_.insert(b);
  }

  /// The row of a contiguous buffer of several rows whose starts are not aligned yet.
  std::optional<Row> row_of(const ProgramBuffer& buffer) const {
    const auto more = [](int64_t dim) { return dim > 1; };
    const auto inner = std::find_if(buffer.dims.rbegin(), buffer.dims.rend(), more);
    const int64_t unit = padding_.alignment * 8 / bits_of(buffer.dtype);
    if (buffer.packing || buffer.offset != 0 ||
        buffer.strides != ferrite::loop::contiguous_strides(buffer.dims) || inner == buffer.dims.rend() ||
        std::none_of(inner + 1, buffer.dims.rend(), more) || unit < 1 || *inner % unit == 0)
      return std::nullopt;
    return Row{*inner, (*inner + unit - 1) / unit * unit};
  }

  /// The strides of the buffer with padded rows.
  static std::vector<int64_t> with_rows_of(const ProgramBuffer& buffer, const Row& row) {
    auto dims = buffer.dims;
    const auto inner = std::find_if(dims.rbegin(), dims.rend(), [](int64_t dim) { return dim > 1; });
    *inner = row.padded;
    return ferrite::loop::contiguous_strides(dims);
  }

  bool is_small(const ProgramBuffer& buffer) const { return buffer.bytes() < padding_.least_bytes; }

  /// Whether the buffer lives only between kernels.
  bool is_hidden(BufferId b) const {
    return program_.buffers[b].role == Role::temporary && !is_output_[b] && !is_constant_.contains(b) &&
           users_[b].count > 1;
  }

  std::optional<Refusal> refusal_of(BufferId b, const Row& row, const std::vector<int64_t>& strides) const {
    const auto& buffer = program_.buffers[b];
    const auto& users = users_[b];
    if (is_small(buffer)) return Refusal{"small", "it is smaller than the least size that is padded"};
    if (buffer.role == Role::input) return Refusal{"input", "an input has the layout of its caller"};
    if (buffer.role == Role::output || is_output_[b])
      return Refusal{"output", "an output has the layout of its caller"};
    if (buffer.role == Role::constant || is_constant_.contains(b))
      return Refusal{"constant", "a constant is packed once, as its kernels request"};
    if (users.count == 1) return Refusal{"local", "it does not leave its kernel"};
    if (buffer.channels_last) return Refusal{"channels last", "convolutions walk several rows as one"};
    if (users.opaque) return Refusal{"opaque", "an opaque kernel needs contiguous elements"};
    if (users.viewed) return Refusal{"view", "it is addressed by more than sums of loop variables"};
    auto padded = static_cast<const Buffer&>(buffer);
    padded.strides = strides;
    if (static_cast<double>(row.padded - row.length) * 100 >
            static_cast<double>(row.length) * static_cast<double>(padding_.most_percent) ||
        ferrite::loop::find_fault(padded))
      return Refusal{"waste", "padding would add too much"};
    return std::nullopt;
  }

  void record(BufferId b, const char* outcome, std::string category, std::string text, double bytes) const {
    const auto& buffer = program_.buffers[b];
    const auto* writer = users_[b].writer;
    ledger_.add({"layout", writer ? origin_names(*writer) : buffer.name,
                 fmt::format("{}x{}", name_of(buffer.dtype), fmt::join(buffer.dims, "x")), outcome,
                 std::move(category), std::move(text), bytes});
  }

  Schedule& schedule_;
  LoopProgram& program_;
  const RowPadding& padding_;
  const MemoryLimit memory_;
  Ledger& ledger_;
  std::vector<int64_t> live_;    ///< by group, in bytes
  std::vector<Users> users_;     ///< by storage
  std::vector<bool> is_output_;  ///< by storage
  std::set<BufferId> is_constant_;
};

}  // namespace

void pad_rows(Schedule& schedule, const RowPadding& padding, const MemoryLimit& memory, Ledger& ledger) {
  if (padding.is_wanted()) RowPadder(schedule, padding, memory, ledger).run();
}

}  // namespace ferrite::core::schedule
