// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/schedule/fusion/prologue.h"

#include <algorithm>

#include <fmt/format.h>

#include "core/schedule/body.h"

namespace ferrite::core::schedule {
namespace {

/// The number of tasks that use the same elements of an operand, each of which reads and computes them again.
constexpr int64_t packings = 2;
/// Limits for an operand that depends on constants only and would be computed in each run instead of once at
/// load. Each element may take part in at most this many products, and the stored operand must be this many
/// times larger than its inputs.
constexpr int64_t few_products = 1, much_narrower = 2;
/// Rows, or columns, of a thread block's tile.
constexpr int64_t products_of_block = 128;
constexpr size_t most_operations = 256;  // of a contraction together with its prologues

/// The only load of the storage; none where there are several.
OpId only_load(const LoopProgram& program, const Statement& statement, BufferId storage) {
  OpId found = none;
  for (OpId id = 0; id < statement.ops.size(); ++id) {
    const auto& op = statement.ops[id];
    if (op.code != FE_OP_LOAD || program.storage(op.buffer) != storage) continue;
    if (found != none) return none;
    found = id;
  }
  return found;
}

/// Updates the dependencies when `reader` computes the contents of `storage` itself. `producer` was the only
/// writer and `reader` the only reader.
void take_over(Dependencies& deps, uint32_t reader, uint32_t producer, BufferId storage) {
  std::erase(deps.reads[reader], storage);
  std::erase(deps.before[reader], producer);
  deps.readers[storage].clear();
  deps.writers[storage].clear();
  for (BufferId b : deps.reads[producer]) {
    add_once(deps.reads[reader], b);
    std::erase(deps.readers[b], producer);
    add_once(deps.readers[b], reader);
  }
  for (uint32_t earlier : deps.before[producer]) {
    std::erase(deps.after[earlier], producer);
    add_once(deps.before[reader], earlier);
    add_once(deps.after[earlier], reader);
  }
  for (auto* list : {&deps.reads, &deps.writes, &deps.before, &deps.after}) (*list)[producer].clear();
}

}  // namespace

bool makes_operand(const LoopProgram& program, const Dependencies& deps, uint32_t map, uint32_t contract,
                   BufferId storage) {
  const auto& producer = program.statements[map];
  const auto& reader = program.statements[contract];
  if (producer.kind != FE_STATEMENT_MAP || reader.kind != FE_STATEMENT_CONTRACT ||
      producer.stores.size() != 1)
    return false;
  const auto& store = producer.stores[0];
  const OpId load = only_load(program, reader, storage);
  return load != none && (load == reader.contract_a || load == reader.contract_b) &&
         program.storage(store.buffer) == storage && reader.ops[load].buffer == store.buffer &&
         store.mask == none && store.mode == FE_STORE_SET && producer.ops[store.value].is_prim() &&
         deps.writers[storage].size() == 1 && stores_identity(program, producer);
}

Refusal prologue_refusal(LoopProgram& program, const Dependencies& deps, const TargetNumbers& target,
                         uint32_t map, uint32_t contract, BufferId storage, bool at_load) {
  const auto& producer = program.statements[map];
  const auto& reader = program.statements[contract];
  if (deps.readers[storage].size() > 1) return {category::cost, "others read the operand too"};
  for (BufferId b : deps.reads[map])
    for (uint32_t writer : deps.writers[b])
      if (writer > map)
        return {category::no_dependency,
                "an input of the operand is overwritten before the contraction reads it"};
  if (std::ranges::any_of(producer.ops, [](const BodyOp& op) { return op.code == FE_OP_INDIRECT; }))
    return {category::no_dependency, "the operand is gathered by computed indices"};
  if (producer.ops.size() + reader.ops.size() > most_operations)
    return {category::size_limit, fmt::format("more than {} operations", most_operations)};
  if (index_grows_too_large(program, reader, producer))
    return {category::size_limit, "the indices of both together are too large"};

  const int64_t products = products_of(program, reader, reader.ops[only_load(program, reader, storage)]);
  if (target.products != Products::any && products > products_of_block)
    return {category::cost,
            fmt::format(
                "an element takes part in {} products; each block has {} of them and would compute it again",
                products, products_of_block)};
  const auto expensive = std::ranges::find_if(
      producer.ops, [](const BodyOp& op) { return op.is_prim() && !is_cheap(op.prim()); });
  if (expensive != producer.ops.end() && products > 1)
    return {category::cost, fmt::format("tasks may have to recompute {}", info_of(expensive->prim()).name)};
  const int64_t reads = loaded_bytes(program, producer), stored = program.buffers[storage].bytes();
  if (at_load && (products > few_products || reads * much_narrower > stored))
    return {category::cost, "the operand is made once, at load"};
  if (!at_load && packings * reads >= reads + 2 * stored)
    return {category::cost,
            fmt::format("{} bytes together, {} bytes apart; bytes that tasks read again count {} times",
                        packings * reads, reads + 2 * stored, packings)};
  return {};
}

void take_prologue(LoopProgram& program, Dependencies& deps, uint32_t map, uint32_t number,
                   BufferId storage) {
  auto& contract = program.statements[number];
  splice_into(program, contract, program.statements[map]);
  take_over(deps, number, map, storage);
  take_narrow_operands(contract);
}

}  // namespace ferrite::core::schedule
