// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/ir/loop/verify.h"

#include <algorithm>
#include <map>

#include "core/ir/loop/index_size.h"

namespace ferrite::core::loop {
namespace {

Error malformed(std::string text) { return Error{FE_EINTERNAL, "FE-K06", std::move(text), {}}; }

void add_once(std::vector<BufferId>& list, BufferId id) {
  if (id != none && std::find(list.begin(), list.end(), id) == list.end()) list.push_back(id);
}

const CallInfo* call_of(const StatementList& list, size_t statement) {
  const auto* provenance = list.provenance[statement];
  return provenance && provenance->kind == FE_STATEMENT_CALL ? &provenance->call : nullptr;
}

Result<void> check_shared(const StatementList& list) {
  for (size_t k = 0; k < list.statements.size(); ++k) {
    const auto& vars = list.statements[k]->vars;
    if (vars.size() < list.shared)
      return at(describe_place(list, k), malformed("it lacks the kernel's shared variables"));
    for (size_t v = 0; v < list.shared; ++v)
      if (vars[v].kind != VarKind::parallel || vars[v].extent != list.statements[0]->vars[v].extent)
        return at(describe_place(list, k),
                  malformed(fmt::format("shared variable {} differs from the first statement's", v)));
  }
  return {};
}

/// A statement may read a buffer that it writes, in any version, only at the index that it writes.
Result<void> check_overlap(const StatementList& list, size_t number, BufferId written) {
  const auto& statement = *list.statements[number];
  for (const auto& store : statement.stores) {
    if (store.buffer != written) continue;
    for (const auto& op : statement.ops)
      if (op.code == FE_OP_LOAD && list.storage[op.buffer] == list.storage[written] &&
          op.index != store.index)
        return at(describe_place(list, number),
                  malformed(fmt::format("it reads {} at another index than it writes",
                                        buffer_name(list, op.buffer))));
  }
  return {};
}

/// Every read follows a write, and no version is read after a later one has overwritten it. A statement may
/// read the data it overwrites, at the same index.
Result<void> check_order(const StatementList& list) {
  std::vector<bool> written(list.buffers.size());
  std::vector<BufferId> current = list.storage;
  for (BufferId id = 0; id < list.buffers.size(); ++id)
    written[id] = list.buffers[id]->kind == FE_BUFFER_INPUT || list.buffers[id]->kind == FE_BUFFER_CONSTANT ||
                  list.buffers[id]->elements() == 0;
  for (size_t k = 0; k < list.statements.size(); ++k) {
    const auto* call = call_of(list, k);
    for (BufferId id : reads_of(*list.statements[k], call))
      if (!written[id] && list.buffers[id]->kind == FE_BUFFER_LOCAL)
        return at(describe_place(list, k),
                  malformed(fmt::format("{} is read before it is written", buffer_name(list, id))));
    for (BufferId id : reads_of(*list.statements[k], call))
      if (current[list.storage[id]] != id)
        return at(describe_place(list, k),
                  malformed(fmt::format("{} is read after {} has taken its place", buffer_name(list, id),
                                        buffer_name(list, current[list.storage[id]]))));
    for (BufferId id : writes_of(*list.statements[k], call)) {
      FE_CHECK(check_overlap(list, k, id));
      written[id] = true;
      current[list.storage[id]] = id;
    }
  }
  return {};
}

}  // namespace

std::string buffer_name(const StatementList& list, BufferId id) {
  if (id >= list.buffers.size()) return fmt::format("buffer {}", id);
  const BufferId base = list.storage[id];
  std::string text = fmt::format("@{}", base);
  if (base != id) text += fmt::format(".{}", static_cast<const ProgramBuffer*>(list.buffers[id])->version);
  if (!list.buffers[id]->name.empty()) text += fmt::format(" '{}'", list.buffers[id]->name);
  return text;
}

std::string describe_place(const StatementList& list, size_t statement) {
  std::string text = fmt::format("statement {} ({}", statement,
                                 ferrite::loop::statement_name(list.statements[statement]->kind));
  if (const auto* provenance = list.provenance[statement]) {
    const char* separator = " from ";
    for (const auto& origin : provenance->origins) {
      text += separator + origin.label();
      separator = ", ";
    }
  }
  return text + ")";
}

std::vector<BufferId> reads_of(const Statement& statement, const CallInfo* call) {
  std::vector<BufferId> result;
  for (const auto& op : statement.ops)
    if (op.code == FE_OP_LOAD) add_once(result, op.buffer);
  if (call)
    for (BufferId id : call->reads) add_once(result, id);
  return result;
}

std::vector<BufferId> writes_of(const Statement& statement, const CallInfo* call) {
  std::vector<BufferId> result;
  for (const auto& store : statement.stores) add_once(result, store.buffer);
  if (call)
    for (BufferId id : call->writes) add_once(result, id);
  return result;
}

Result<void> verify(const StatementList& list) {
  for (BufferId id = 0; id < list.buffers.size(); ++id)
    if (auto fault = ferrite::loop::find_fault(*list.buffers[id]))
      return at(buffer_name(list, id), malformed(*fault));
  for (size_t k = 0; k < list.statements.size(); ++k) {
    if (auto fault = ferrite::loop::find_fault(list.pool, list.buffers, *list.statements[k]))
      return at(describe_place(list, k), malformed(*fault));
    if (auto fault = find_deep_index(list.pool, *list.statements[k]))
      return at(describe_place(list, k), malformed(*fault));
    const auto* call = call_of(list, k);
    if (!call) continue;
    for (const auto* ids : {&call->reads, &call->writes})
      for (BufferId id : *ids)
        if (id >= list.buffers.size())
          return at(describe_place(list, k), malformed("the call names a buffer that is not there"));
    for (BufferId id : call->writes)
      if (list.buffers[id]->kind == FE_BUFFER_INPUT || list.buffers[id]->kind == FE_BUFFER_CONSTANT)
        return at(describe_place(list, k), malformed("the call writes a buffer that is read only"));
  }
  FE_CHECK(check_shared(list));
  return check_order(list);
}

Result<void> verify(const LoopProgram& program) {
  const StatementList list = list_of(program);
  std::map<BufferId, uint32_t> versions;
  size_t inputs = 0, constants = 0;
  for (BufferId id = 0; id < program.buffers.size(); ++id) {
    const auto& buffer = program.buffers[id];
    auto fault = [&](std::string text) {
      return at(fmt::format("buffer {}", id), malformed(std::move(text)));
    };
    if (buffer.base != none) {
      if (buffer.base >= id || program.buffers[buffer.base].base != none)
        return fault("a version's base is not an earlier buffer that is no version");
      if (buffer.version != ++versions[buffer.base])
        return fault("versions of a buffer are not numbered 1, 2, ...");
      const auto& base = program.buffers[buffer.base];
      if (buffer.dtype != base.dtype || buffer.dims != base.dims || buffer.strides != base.strides ||
          buffer.offset != base.offset)
        return fault("a version differs from its base");
      continue;
    }
    if (buffer.version != 0) return fault("it has a version and no base");
    if (buffer.role == Role::input) {
      ++inputs;
      if (buffer.number >= program.inputs.size() || program.inputs[buffer.number] != id)
        return fault("it is not the input that it says");
    }
    if (buffer.role == Role::constant) {
      ++constants;
      if (buffer.number >= program.constants.size()) return fault("there is no such constant");
      const auto& constant = program.constants[buffer.number];
      if (constant.data && static_cast<int64_t>(constant.bytes) < buffer.bytes())
        return fault("the constant has too few bytes");
    }
  }
  if (inputs != program.inputs.size()) return malformed("the inputs are not one buffer each");
  if (constants != program.constants.size()) return malformed("the constants are not one buffer each");
  for (BufferId id : program.outputs)
    if (id >= program.buffers.size()) return malformed("an output is not there");
  return verify(list);
}

}  // namespace ferrite::core::loop
