// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/lower/lower.h"

#include "core/ir/graph/infer.h"
#include "core/ir/loop/record.h"
#include "core/select/claims.h"
#include "core/support/abi/abi.h"
#include "core/support/abi/callback.h"

namespace ferrite::core::lower {
namespace {

class Lowerer {
 public:
  Lowerer(const graph::Graph& graph, const plugin::Registry& registry, std::string_view device,
          Ledger& ledger)
      : graph_(graph), registry_(registry), device_(device), ledger_(ledger), recorder_(program_) {}

  Result<loop::LoopProgram> run() {
    for (const auto& input : graph_.inputs()) {
      FE_TRY(loop::BufferId id, add_buffer(input.value, loop::Role::input));
      program_.buffers[id].number = static_cast<uint32_t>(program_.inputs.size());
      program_.inputs.push_back(id);
    }
    for (graph::NodeId id = graph_.first(); id; id = graph_.next(id)) {
      std::string declined;
      FE_TRY(const bool done, lower_node(id, declined));
      if (!done)
        return at(graph_.describe(id), error(FE_EUNSUPPORTED, "FE-K10", "no lowering for device '{}'{}{}",
                                             device_, declined.empty() ? "" : ": ", declined));
    }
    FE_CHECK(store_mutations());
    for (const auto& output : graph_.outputs()) {
      FE_TRY(loop::BufferId id, buffer_of(output.value));
      // A value that is returned several times: its first output owns the memory, and the run copies it to
      // the others.
      auto& storage = program_.buffers[program_.storage(id)];
      if (storage.role == loop::Role::temporary) {
        storage.role = loop::Role::output;
        storage.number = static_cast<uint32_t>(program_.outputs.size());
      }
      program_.outputs.push_back(id);
    }
    return std::move(program_);
  }

  /// Whether a lowering that another plugin provides for this op takes the node in its current form. Use this
  /// object for nothing else afterwards.
  Result<bool> accepts(graph::NodeId id) {
    for (auto operand : graph_.node(id).operands)
      if (operand && !graph_.value(operand).constant) FE_CHECK(add_buffer(operand, loop::Role::input));
    std::string declined;
    return lower_node(id, declined, false);
  }

 private:
  Result<loop::BufferId> add_buffer(graph::ValueId value, loop::Role role) {
    const auto& v = graph_.value(value);
    loop::ProgramBuffer buffer;
    buffer.dtype = v.type.dtype;
    for (auto dim : v.type.dims) {
      if (!graph::is_static(dim))
        return error(FE_EINVALID, "FE-G27", "a dimension of '{}' is not known; give it with --dim", v.name);
      buffer.dims.push_back(dim);
    }
    buffer.strides = ferrite::loop::contiguous_strides(buffer.dims);
    buffer.kind = role == loop::Role::constant ? FE_BUFFER_CONSTANT
                  : role == loop::Role::input  ? FE_BUFFER_INPUT
                                               : FE_BUFFER_OUTPUT;
    buffer.role = role;
    buffer.name = v.name;
    program_.buffers.push_back(std::move(buffer));
    auto id = static_cast<loop::BufferId>(program_.buffers.size() - 1);
    buffers_[value] = id;
    return id;
  }

  Result<loop::BufferId> buffer_of(graph::ValueId value) {
    if (auto found = buffers_.find(value); found != buffers_.end()) return found->second;
    const auto& v = graph_.value(value);
    FE_TRY(auto bytes, graph_.constant_bytes(value));
    FE_TRY(loop::BufferId id, add_buffer(value, loop::Role::constant));
    program_.buffers[id].number = static_cast<uint32_t>(program_.constants.size());
    loop::Constant constant;
    constant.data = bytes.data();
    constant.bytes = bytes.size();
    if (v.constant->memory) {
      // This reference keeps the memory alive after the graph is gone.
      constant.owned = std::shared_ptr<const std::vector<std::byte>>(v.constant->memory, nullptr);
    }
    if (v.constant->kind != FE_CONSTANT_LITERAL && !v.constant->file.empty()) {
      FE_TRY(auto identity, graph_.weight_identity(value));
      constant.id = fmt::format("{}:{}:{}:{}:{}+{}", identity.device, identity.inode, identity.file_bytes,
                                identity.modified_ns, identity.offset, identity.bytes);
    }
    program_.constants.push_back(std::move(constant));
    return id;
  }

  /// Stores the new contents of mutated inputs after all other statements have read the old ones. Old
  /// contents that are still needed, as an output or for another input, are copied first.
  Result<void> store_mutations() {
    std::map<loop::BufferId, graph::ValueId> changed;
    for (const auto& input : graph_.inputs())
      if (input.mutated_by && input.mutated_by != input.value)
        changed.emplace(buffers_.at(input.value), input.mutated_by);
    const auto keep = [&](graph::ValueId value) -> Result<void> {
      FE_TRY(const loop::BufferId id, buffer_of(value));
      if (!changed.contains(id)) return {};
      FE_TRY(const loop::BufferId kept, add_buffer(value, loop::Role::temporary));
      copy(id, kept);
      return {};
    };
    if (changed.empty()) return {};
    // Save old contents that are still needed before the first store overwrites any.
    for (const auto& output : graph_.outputs()) FE_CHECK(keep(output.value));
    for (const auto& [id, value] : changed) FE_CHECK(keep(value));
    for (const auto& [id, value] : changed) {
      FE_TRY(const loop::BufferId from, buffer_of(value));
      const auto version = program_.add_version(id);
      program_.buffers[version].kind = FE_BUFFER_OUTPUT;
      copy(from, version);
    }
    return {};
  }

  void copy(loop::BufferId from, loop::BufferId to) {
    auto statement = loop::copy_statement(program_, from, to);
    statement.origins = {{0, "mutation", program_.buffers[program_.storage(to)].name}};
    program_.statements.push_back(std::move(statement));
  }

  /// A region that a provider claimed becomes a call of the provider's code.
  void add_region(graph::NodeId id, std::vector<loop::BufferId> operands,
                  std::vector<loop::BufferId> results) {
    const auto& node = graph_.node(id);
    loop::ProgramStatement statement;
    statement.kind = FE_STATEMENT_CALL;
    statement.origins = {{id.bits, std::string(select::region_op), node.origin}};
    statement.call.name = node.made_by;
    statement.call.reads = std::move(operands);
    statement.call.writes = std::move(results);
    statement.call.region = static_cast<uint32_t>(std::get<int64_t>(node.find(select::region_number)->value));
    program_.statements.push_back(std::move(statement));
  }

  /// False if there is no lowering or every one declined; `declined` gives the reasons. `own`: try the op's
  /// own lowering as well.
  Result<bool> lower_node(graph::NodeId id, std::string& declined, bool own = true) {
    const auto& node = graph_.node(id);
    std::vector<loop::BufferId> operands, results;
    for (auto operand : node.operands) {
      if (!operand) {
        operands.push_back(loop::none);
        continue;
      }
      FE_TRY(loop::BufferId buffer, buffer_of(operand));
      operands.push_back(buffer);
    }
    for (auto result : node.results) {
      FE_TRY(loop::BufferId buffer, add_buffer(result, loop::Role::temporary));
      results.push_back(buffer);
    }

    std::string op_name(graph_.op(id));
    if (op_name == select::region_op) {
      add_region(id, operands, results);
      return true;
    }
    graph::InstanceView instance(graph_, id, device_);
    auto args = abi::sized<fe_lowering_args>();
    args.op = instance.get();
    auto out = abi::sized<fe_none>();
    auto attempt = [&](auto slot, void* self, const std::string& owner) -> Result<bool> {
      recorder_.bind(operands, results, {id.bits, op_name, node.origin});
      args.lower = recorder_.api();
      abi::Call call;
      int32_t status = callback::call({owner, "lowering of op", op_name}, slot, self, call, &args, &out);
      if (status == FE_EUNSUPPORTED) {
        recorder_.cancel();
        auto reason = call.error(status, "FE-K10", "declined");
        ledger_.add({"lowering", graph_.describe(id), owner, "declined", {}, reason.text, 0});
        declined += fmt::format("{}{}: {}", declined.empty() ? "" : "; ", owner, reason.text);
        return false;
      }
      if (status != FE_OK) {
        // The recorder's first error is the cause; the lowering's own error usually only follows from it.
        auto recorded = recorder_.error();
        recorder_.cancel();
        return at(graph_.describe(id),
                  recorded ? *recorded : call.error(status, "FE-K10", "its lowering failed"));
      }
      if (auto kept = recorder_.check(); !kept) {
        recorder_.cancel();
        return at(graph_.describe(id), std::move(kept.error()));
      }
      auto versions = recorder_.finish();
      if (!versions) return at(graph_.describe(id), std::move(versions.error()));
      for (size_t k = 0; k < node.results.size(); ++k) buffers_[node.results[k]] = (*versions)[k];
      return true;
    };
    for (const auto& lowering : registry_.lowerings(op_name, device_)) {
      FE_TRY(bool done, attempt(lowering.table->lower, lowering.table->self, lowering.plugin->id));
      if (!done) continue;
      ledger_.add({"lowering", graph_.describe(id), lowering.plugin->id, "overridden", {}, {}, 0});
      return true;
    }
    const auto* op = registry_.ops().find(op_name);
    if (!own || !op || !op->def.lower) return false;
    return attempt(op->def.lower, op->def.self, op->plugin);
  }

  const graph::Graph& graph_;
  const plugin::Registry& registry_;
  std::string device_;
  Ledger& ledger_;
  loop::LoopProgram program_;
  loop::Recorder recorder_;
  std::map<graph::ValueId, loop::BufferId> buffers_;
};

}  // namespace

Result<loop::LoopProgram> lower(const graph::Graph& graph, const plugin::Registry& registry,
                                std::string_view device, Ledger& ledger) {
  return Lowerer(graph, registry, device, ledger).run();
}

Result<bool> accepts(const graph::Graph& graph, const plugin::Registry& registry, std::string_view device,
                     graph::NodeId node, Ledger& ledger) {
  Ledger trial;
  FE_TRY(const bool taken, Lowerer(graph, registry, device, trial).accepts(node));
  // If a lowering took the node, lower() records it later; otherwise nothing else would record the reasons.
  if (!taken)
    for (const auto& record : trial.records()) ledger.add(record);
  return taken;
}

}  // namespace ferrite::core::lower
