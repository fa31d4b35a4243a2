// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The host's side of fe_graph_api, through which passes, rules, decompositions and importers read and edit a
// graph.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/ir/graph/graph.h"
#include "core/ir/graph/op_registry.h"
#include "core/support/abi/loan.h"
#include "core/support/deadline.h"
#include "ferrite/abi/graph.h"

namespace ferrite::core::graph {

/// One graph as a plugin sees it. Each edit infers types; an edit that fails leaves the graph unchanged.
/// Views live until the next edit. The slots serve only the thread that created this object, and only while
/// it lives; other calls are refused (FE-P62, FE-P63). Graph and registry must outlive it.
class GraphApi {
 public:
  using Evaluate = std::function<Result<ValueId>(Graph&, ValueId)>;

  GraphApi(Graph& graph, const OpRegistry& registry);
  GraphApi(const GraphApi&) = delete;
  GraphApi& operator=(const GraphApi&) = delete;

  const fe_graph_api* api() const { return loan_->table(); }
  /// Lends a new table for the next callback. The previous table is refused from now on.
  void renew();
  /// FE-P63 if a callback passed its table to another thread.
  Result<void> check() const { return loan_->check(); }
  /// The object that lent this table. Every table in this process comes from some GraphApi, which must still
  /// be alive.
  static GraphApi& of(const fe_graph_api& api);
  Graph& graph() { return graph_; }
  /// Unique among all objects of this process. Together with the graph's revision it identifies the graph's
  /// contents.
  uint64_t serial() const { return serial_; }
  /// Sets the `made_by` of new nodes: the name of a pass or rule.
  void set_made_by(std::string made_by) { made_by_ = std::move(made_by); }
  /// Sets the function for slot `evaluate`; without it the slot returns FE_EUNSUPPORTED.
  void set_evaluate(Evaluate evaluate) { evaluate_ = std::move(evaluate); }
  /// After this deadline every slot fails (FE-M21).
  void set_deadline(const Deadline& deadline) { deadline_ = deadline; }
  const Deadline& deadline() const { return deadline_; }

 private:
  struct NodeScratch {
    std::vector<fe_attr> attributes;              // only the first ones belong to the node, as many as it has
    std::vector<std::vector<fe_string>> strings;  // the strings of each attribute
  };
  /// Where to find the attributes of a viewed node: an index into `node_views`, valid while the revision is
  /// unchanged.
  struct Viewed {
    uint64_t revision = UINT64_MAX;  // none yet
    size_t view = 0;
  };
  /// The memory that views point into. The first read after an edit reuses it, so a pass that alternates
  /// reads and edits allocates only once.
  struct Scratch {
    uint64_t revision = 0;
    bool has_view = false;
    std::vector<NodeId> nodes;
    std::vector<ValueId> inputs, outputs;
    std::vector<Viewed> viewed;          // by node index
    std::deque<NodeScratch> node_views;  // the first `used` belong to this revision
    size_t used = 0;
    std::unordered_map<uint64_t, std::vector<NodeId>> users;
  };

  Scratch& scratch();
  const NodeScratch& attributes_of(NodeId id, const Node& node);
  uint32_t flags_of(uint32_t op);
  int32_t view(const fe_none& args, fe_graph_view& out, fe_call* call);
  int32_t node(const fe_node_args& args, fe_node_view& out, fe_call* call);
  int32_t value(const fe_value_args& args, fe_value_view& out, fe_call* call);
  Result<void> make(const fe_make_args& args, fe_make_out& out);
  Result<void> literal(const fe_literal_args& args, fe_handle_out& out);
  Result<void> weight(const fe_weight_args& args, fe_handle_out& out);
  Result<void> input(const fe_input_args& args, fe_handle_out& out);
  Result<void> output(const fe_output_args& args, fe_none& out);
  Result<void> replace_uses(const fe_replace_args& args, fe_none& out);
  Result<void> erase(const fe_node_args& args, fe_none& out);
  Result<void> set_operand(const fe_operand_args& args, fe_none& out);
  Result<void> set_attr(const fe_attr_args& args, fe_none& out);
  Result<void> evaluate(const fe_value_args& args, fe_handle_out& out);
  Result<void> users(const fe_value_args& args, fe_users_out& out);
  Result<void> set_input_memory(const fe_input_memory_args& args, fe_none& out);

  static const fe_graph_api& functions();
  template <class Args>
  static GraphApi* entered(void* self, fe_call* call, const Args* args, int32_t& status);
  template <auto Fill, class Args, class Out>
  static int32_t view_slot(void* self, fe_call* call, const Args* args, Out* out);
  template <auto Method, class Args, class Out>
  static int32_t slot(void* self, fe_call* call, const Args* args, Out* out);

  Graph& graph_;
  const OpRegistry& registry_;
  const uint64_t serial_;
  std::string made_by_;
  Evaluate evaluate_;
  Deadline deadline_;
  Scratch scratch_;
  std::vector<std::optional<uint32_t>> flags_;  // flags of ops, by the graph's op number
  std::optional<Loan<fe_graph_api, GraphApi>> loan_;
};

}  // namespace ferrite::core::graph
