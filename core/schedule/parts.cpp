// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Divides groups for providers that take only a part of them, and finds the buffers whose contents are
// computed once, at load.
#include <algorithm>

#include "core/schedule/body.h"
#include "core/schedule/schedule.h"

namespace ferrite::core::schedule {
namespace {

/// The first operation with two operands one of which is the result of `product`, loaded without change; none
/// where there is none.
OpId first_step(const LoopProgram& program, const ProgramStatement& product, const ProgramStatement& map) {
  auto is_product = [&](OpId id) {
    if (id == none) return false;
    const auto& load = map.ops[id];
    return load.code == FE_OP_LOAD && load.a == none && product.stores.size() == 1 &&
           program.storage(load.buffer) == program.storage(product.stores[0].buffer);
  };
  for (OpId id = 0; id < map.ops.size(); ++id) {
    const auto& op = map.ops[id];
    if (!op.is_prim() || op.c != none || op.b == none || is_product(op.a) == is_product(op.b)) continue;
    // A product that other operations read again cannot be replaced by the result of this operation.
    const OpId load = is_product(op.a) ? op.a : op.b;
    return std::ranges::count_if(
               map.ops,
               [&](const auto& other) { return other.a == load || other.b == load || other.c == load; }) == 1
               ? id
               : none;
  }
  return none;
}

/// Turn this: %0 = load @p[i]; %1 = load @b[i]; %2 = add %0, %1; store @o[i] = f(%2)
/// into this: %0 = load @p[i]; %1 = load @b[i]; %2 = add %0, %1; store @t[i] = %2
/// followed by: %0 = load @t[i]; store @o[i] = f(%0)
ProgramStatement split_off(LoopProgram& program, ProgramStatement& map, OpId step, BufferId product) {
  const auto& op = map.ops[step];
  const auto& load =
      map.ops[map.ops[op.a].code == FE_OP_LOAD && program.storage(map.ops[op.a].buffer) == product ? op.a
                                                                                                   : op.b];
  ProgramBuffer buffer = program.buffers[product];
  buffer.role = Role::temporary;
  buffer.kind = FE_BUFFER_OUTPUT;
  buffer.dtype = op.dtype;
  buffer.name.clear();
  const auto between = static_cast<BufferId>(program.buffers.size());
  program.buffers.push_back(std::move(buffer));

  ProgramStatement head;
  head.kind = FE_STATEMENT_MAP;
  head.origins = map.origins;
  Substitution symbols;
  for (const auto& var : map.vars) {
    head.vars.push_back({program.pool.new_symbol({0, var.extent - 1}), var.extent, var.kind});
    symbols.emplace_back(var.symbol, program.pool.symbol(head.vars.back().symbol));
  }
  BodyWriter body(program.pool);
  const auto numbers = body.splice(map.ops, symbols, none, nullptr);
  Store store{between, load.index, numbers[step], none, FE_STORE_SET};
  for (auto& expr : store.index) expr = program.pool.substitute(expr, symbols);
  head.ops = std::move(body.ops);
  head.stores.push_back(std::move(store));
  remove_dead(program.pool, head);

  BodyOp again;
  again.code = FE_OP_LOAD;
  again.dtype = op.dtype;
  again.buffer = between;
  again.index = load.index;
  map.ops[step] = std::move(again);
  remove_dead(program.pool, map);
  return head;
}

}  // namespace

void expose_epilogues(Schedule& schedule) {
  auto& program = schedule.program;
  for (auto& group : schedule.groups) {
    const auto members = group.statements;
    if (members.size() < 2 || program.statements[members[0]].kind != FE_STATEMENT_CONTRACT) continue;
    for (size_t k = 1; k < members.size(); ++k) {
      auto& map = program.statements[members[k]];
      const auto& product = program.statements[members[0]];
      if (map.kind != FE_STATEMENT_MAP || map.vars.size() != product.parallel_count()) continue;
      const OpId step = first_step(program, product, map);
      const auto steps = std::ranges::count_if(map.ops, [](const BodyOp& op) { return op.is_prim(); });
      // A single operation is a complete epilogue already; splitting would leave an empty map.
      if (step == none || steps < 2) continue;
      auto head = split_off(program, map, step, program.storage(product.stores[0].buffer));
      const auto number = static_cast<uint32_t>(program.statements.size());
      program.statements.push_back(std::move(head));
      group.statements.insert(std::ranges::find(group.statements, members[k]), number);
    }
  }
  number_by_group(schedule);
}

namespace {

uint32_t loops_in_common(const LoopProgram& program, std::span<const uint32_t> statements) {
  auto shared = static_cast<uint32_t>(program.statements[statements[0]].parallel_count());
  for (size_t k = 1; k < statements.size(); ++k)
    for (size_t j = 0; j < k; ++j) shared = common_loops(program, statements[j], statements[k], shared);
  return shared;
}

}  // namespace

void split_group(Schedule& schedule, size_t number, size_t head) {
  Group rest = schedule.groups[number];
  rest.statements.erase(rest.statements.begin(), rest.statements.begin() + static_cast<ptrdiff_t>(head));
  schedule.groups[number].statements.resize(head);
  // A group with a reduction to one value shared no loops; its parts may share some.
  for (auto* group : {&schedule.groups[number], &rest})
    if (group->shared == 0) group->shared = loops_in_common(schedule.program, group->statements);
  schedule.groups.insert(schedule.groups.begin() + static_cast<ptrdiff_t>(number) + 1, std::move(rest));
}

std::set<BufferId> init_buffers(const Schedule& schedule, const std::vector<bool>& init) {
  std::set<BufferId> result;
  for (size_t g = 0; g < schedule.groups.size(); ++g)
    for (uint32_t s : schedule.groups[g].statements)
      for (const auto& store : schedule.program.statements[s].stores)
        if (init[g]) result.insert(schedule.program.storage(store.buffer));
  return result;
}

void mark_constants(GroupKernel& group, const std::set<BufferId>& storages) {
  size_t argument = 0;
  for (auto& buffer : group.kernel.buffers) {
    if (buffer.kind == FE_BUFFER_LOCAL) continue;
    if (storages.count(group.arguments[argument++]) && buffer.kind == FE_BUFFER_INPUT)
      buffer.kind = FE_BUFFER_CONSTANT;
  }
}

}  // namespace ferrite::core::schedule
