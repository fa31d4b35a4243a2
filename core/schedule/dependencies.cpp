// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <algorithm>

#include <fmt/format.h>

#include "core/schedule/names.h"
#include "core/schedule/schedule.h"
#include "core/support/split.h"

namespace ferrite::core::schedule {

void add_once(std::vector<uint32_t>& list, uint32_t item) {
  if (std::find(list.begin(), list.end(), item) == list.end()) list.push_back(item);
}

Dependencies Dependencies::of(const LoopProgram& program) {
  Dependencies d;
  size_t statements = program.statements.size(), buffers = program.buffers.size();
  d.reads.resize(statements);
  d.writes.resize(statements);
  d.before.resize(statements);
  d.after.resize(statements);
  d.readers.resize(buffers);
  d.writers.resize(buffers);
  for (uint32_t s = 0; s < statements; ++s) {
    const auto& statement = program.statements[s];
    for (const auto& op : statement.ops)
      if (op.code == FE_OP_LOAD) add_once(d.reads[s], program.storage(op.buffer));
    for (BufferId b : statement.call.reads) add_once(d.reads[s], program.storage(b));
    for (const auto& store : statement.stores) {
      add_once(d.writes[s], program.storage(store.buffer));
      // An accumulating store also reads the buffer.
      if (store.mode != FE_STORE_SET) add_once(d.reads[s], program.storage(store.buffer));
    }
    for (BufferId b : statement.call.writes) add_once(d.writes[s], program.storage(b));

    auto order = [&](uint32_t earlier) {
      auto& after = d.after[earlier];
      if (earlier == s || (!after.empty() && after.back() == s)) return;
      d.before[s].push_back(earlier);
      after.push_back(s);
    };
    // The writers of a buffer are ordered among themselves. An edge from the last writer therefore implies
    // edges from all writers before it, and from the statements that read before it. This keeps the number of
    // edges linear.
    for (BufferId b : d.reads[s])
      if (!d.writers[b].empty()) order(d.writers[b].back());
    for (BufferId b : d.writes[s]) {
      const auto &writers = d.writers[b], &readers = d.readers[b];
      if (!writers.empty()) order(writers.back());
      for (auto reader = readers.rbegin();
           reader != readers.rend() && (writers.empty() || *reader > writers.back()); ++reader)
        order(*reader);
    }
    for (BufferId b : d.reads[s]) d.readers[b].push_back(s);
    for (BufferId b : d.writes[s]) d.writers[b].push_back(s);
  }
  return d;
}

std::string model_name(const ProgramBuffer& buffer) {
  const auto name = buffer.name.empty() ? std::to_string(buffer.number) : fmt::format("'{}'", buffer.name);
  switch (buffer.role) {
    case Role::input: return "input " + name;
    case Role::output: return "output " + name;
    case Role::constant: return "constant " + name;
    case Role::temporary: break;
  }
  return {};
}

std::vector<std::string> node_names(const ProgramStatement& statement) {
  std::vector<std::string> names;
  // A node that stands for several has their names with bare commas between them.
  for (const auto& origin : statement.origins)
    for (auto name : split(origin.names.empty() ? origin.op : origin.names, ',')) {
      while (name.starts_with(' ')) name.remove_prefix(1);
      names.emplace_back(name);
    }
  return names;
}

std::set<BufferId> storages_of_caller(const LoopProgram& program) {
  std::set<BufferId> result(program.inputs.begin(), program.inputs.end());
  for (const BufferId b : program.outputs) result.insert(program.storage(b));
  return result;
}

bool is_convex(const Dependencies& deps, std::span<const uint32_t> statements) {
  const auto inside = [&](uint32_t s) { return std::ranges::binary_search(statements, s); };
  std::set<uint32_t> found;
  std::vector<uint32_t> open;
  const auto visit_after = [&](uint32_t s) {
    for (const uint32_t next : deps.after[s])
      if (!inside(next) && next < statements.back() && found.insert(next).second) open.push_back(next);
  };
  for (const uint32_t s : statements) visit_after(s);
  while (!open.empty()) {
    const uint32_t s = open.back();
    open.pop_back();
    if (std::ranges::any_of(deps.after[s], inside)) return false;
    visit_after(s);
  }
  return true;
}

std::string origin_names(const ProgramStatement& statement) {
  const auto names = node_names(statement);
  return names.empty() ? "?" : fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace ferrite::core::schedule
