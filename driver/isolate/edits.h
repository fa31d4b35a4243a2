// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Edits of a graph as a log. A plugin's edits are recorded on a copy in the child and replayed on the graph
// itself, where they are checked like those of any plugin.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "core/ir/graph/api.h"
#include "driver/isolate/messages.h"

namespace ferrite::core::isolate {

/// The handles to which the numbers in a log refer: the nodes and values of the flat graph by their numbers
/// there, followed by those that the edits made, in order.
struct Names {
  std::vector<graph::NodeId> nodes;
  std::vector<graph::ValueId> values;
};

/// The table through which a plugin edits a graph; each successful edit is recorded. An evaluated value
/// becomes a constant of the graph, and the evaluation is recorded, so that the parent evaluates it itself;
/// not so where the callback may not edit. One thread.
class Recorder {
 public:
  /// `names`: those of the graph as it is now. All arguments must outlive the recorder.
  Recorder(graph::GraphApi& api, const Names& names);
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  const fe_graph_api* api() const { return &api_; }
  /// Starts a new log, after the graph was restored to its first state.
  void begin(bool may_only_look);
  const Bytes& log() const { return log_.bytes(); }
  /// Whether every edit is in the log; memory may have run out.
  bool complete() const { return complete_; }

 private:
  static int32_t make(void* self, fe_call* call, const fe_make_args* args, fe_make_out* out);
  static int32_t literal(void* self, fe_call* call, const fe_literal_args* args, fe_handle_out* out);
  static int32_t weight(void* self, fe_call* call, const fe_weight_args* args, fe_handle_out* out);
  static int32_t input(void* self, fe_call* call, const fe_input_args* args, fe_handle_out* out);
  static int32_t output(void* self, fe_call* call, const fe_output_args* args, fe_none* out);
  static int32_t replace_uses(void* self, fe_call* call, const fe_replace_args* args, fe_none* out);
  static int32_t erase(void* self, fe_call* call, const fe_node_args* args, fe_none* out);
  static int32_t set_operand(void* self, fe_call* call, const fe_operand_args* args, fe_none* out);
  static int32_t set_attr(void* self, fe_call* call, const fe_attr_args* args, fe_none* out);
  static int32_t set_input_memory(void* self, fe_call* call, const fe_input_memory_args* args, fe_none* out);
  static int32_t evaluate(void* self, fe_call* call, const fe_value_args* args, fe_handle_out* out);

  template <class Args, class Out, class Write>
  int32_t edit(int32_t (*slot)(void*, fe_call*, const Args*, Out*), fe_call* call, const Args* args, Out* out,
               Write write) noexcept;
  void put_node(uint64_t handle);
  void put_value(uint64_t handle);
  void add_node(uint64_t handle);
  void add_value(uint64_t handle);

  graph::GraphApi& inner_;
  fe_graph_api api_{};
  Encoder log_;
  bool may_only_look_ = false, complete_ = true;
  std::unordered_map<uint64_t, uint32_t> nodes_, values_;
  std::vector<uint64_t> new_nodes_,
      new_values_;  // handles that begin() forgets; original ones come before them
};

/// Replays a log through a graph's table; `names` grows by the handles of new nodes and values. FE-P29 where
/// the log is malformed or an edit fails. The edits before it stay made, and the caller undoes them.
Result<void> replay(std::span<const std::byte> log, const fe_graph_api& api, Names names);

}  // namespace ferrite::core::isolate
