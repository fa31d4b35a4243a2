// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/ir/graph/api.h"

#include <algorithm>
#include <atomic>
#include <new>

#include "core/ir/graph/infer.h"
#include "core/support/abi/abi.h"

namespace ferrite::core::graph {

namespace {

int32_t out_of_memory(fe_call* call) {
  return abi::report(call, error(FE_ENOMEM, "FE-G24", "out of memory in a slot of the graph"));
}
int32_t failed(fe_call* call, const std::exception& exception) {
  return abi::report(call, error(FE_EINTERNAL, "FE-G24", "a slot of the graph failed: {}", exception.what()));
}

}  // namespace

/// The object for which a slot was called. Null, with `status` set, if the call is refused.
template <class Args>
GraphApi* GraphApi::entered(void* self, fe_call* call, const Args* args, int32_t& status) {
  if (!self || !args || args->size < sizeof(uint64_t)) {
    status = abi::report(
        call, error(FE_EINVALID, "FE-G23", "a slot of the graph was called without its arguments"));
    return nullptr;
  }
  return Loan<fe_graph_api, GraphApi>::owner_in_time(self, call, status);
}

/// Wraps the editing slots: reads the arguments at this side's size, writes the answer at the peer's, and
/// turns an error into a status and the call's text. No exception leaves.
template <auto Method, class Args, class Out>
int32_t GraphApi::slot(void* self, fe_call* call, const Args* args, Out* out) {
  try {
    int32_t refused = FE_OK;
    GraphApi* api = entered(self, call, args, refused);
    if (!api) return refused;
    const Args given = abi::read(args);
    // Only `make` reads its answer struct: the caller provides room for the results there.
    Out answer{};
    if constexpr (std::is_same_v<Out, fe_make_out>) answer = abi::read(out);
    const auto result = (api->*Method)(given, answer);
    if (!result) return abi::report(call, result.error());
    abi::write(out, answer);
    return FE_OK;
  } catch (const std::bad_alloc&) {
    return out_of_memory(call);
  } catch (const std::exception& exception) {
    return failed(call, exception);
  }
}

/// Wraps the read-only slots. They run for every node and value, so if the peer has the same struct size (the
/// usual case), fill its struct in place.
template <auto Fill, class Args, class Out>
int32_t GraphApi::view_slot(void* self, fe_call* call, const Args* args, Out* out) {
  try {
    int32_t refused = FE_OK;
    GraphApi* api = entered(self, call, args, refused);
    if (!api) return refused;
    const Args given = abi::read(args);
    if (out && out->size >= sizeof(Out)) {
      const uint64_t size = out->size;
      refused = (api->*Fill)(given, *out, call);
      out->size = size;
      return refused;
    }
    Out answer{};
    refused = (api->*Fill)(given, answer, call);
    if (refused == FE_OK) abi::write(out, answer);
    return refused;
  } catch (const std::bad_alloc&) {
    return out_of_memory(call);
  } catch (const std::exception& exception) {
    return failed(call, exception);
  }
}

namespace {

uint64_t next_serial() {
  static std::atomic<uint64_t> last{0};
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

}  // namespace

const fe_graph_api& GraphApi::functions() {
  static const fe_graph_api table = [] {
    auto api = abi::sized<fe_graph_api>();
    api.rev = 2;
    api.view = view_slot<&GraphApi::view, fe_none, fe_graph_view>;
    api.node = view_slot<&GraphApi::node, fe_node_args, fe_node_view>;
    api.value = view_slot<&GraphApi::value, fe_value_args, fe_value_view>;
    api.make = slot<&GraphApi::make, fe_make_args, fe_make_out>;
    api.literal = slot<&GraphApi::literal, fe_literal_args, fe_handle_out>;
    api.weight = slot<&GraphApi::weight, fe_weight_args, fe_handle_out>;
    api.input = slot<&GraphApi::input, fe_input_args, fe_handle_out>;
    api.output = slot<&GraphApi::output, fe_output_args, fe_none>;
    api.replace_uses = slot<&GraphApi::replace_uses, fe_replace_args, fe_none>;
    api.erase = slot<&GraphApi::erase, fe_node_args, fe_none>;
    api.set_operand = slot<&GraphApi::set_operand, fe_operand_args, fe_none>;
    api.set_attr = slot<&GraphApi::set_attr, fe_attr_args, fe_none>;
    api.evaluate = slot<&GraphApi::evaluate, fe_value_args, fe_handle_out>;
    api.users = slot<&GraphApi::users, fe_value_args, fe_users_out>;
    api.set_input_memory = slot<&GraphApi::set_input_memory, fe_input_memory_args, fe_none>;
    return api;
  }();
  return table;
}

GraphApi::GraphApi(Graph& graph, const OpRegistry& registry)
    : graph_(graph), registry_(registry), serial_(next_serial()) {
  renew();
}

void GraphApi::renew() { loan_.emplace(this, functions()); }

GraphApi& GraphApi::of(const fe_graph_api& api) { return Loan<fe_graph_api, GraphApi>::owner_of(api); }

GraphApi::Scratch& GraphApi::scratch() {
  if (scratch_.revision == graph_.revision()) return scratch_;
  scratch_.revision = graph_.revision();
  scratch_.has_view = false;
  scratch_.used = 0;
  if (!scratch_.users.empty()) scratch_.users.clear();
  return scratch_;
}

const GraphApi::NodeScratch& GraphApi::attributes_of(NodeId id, const Node& node) {
  Scratch& scratch = this->scratch();
  if (id.index() >= scratch.viewed.size()) scratch.viewed.resize(id.index() + size_t{1});
  Viewed& viewed = scratch.viewed[id.index()];
  if (viewed.revision == scratch.revision && viewed.view < scratch.used)
    return scratch.node_views[viewed.view];
  viewed = {scratch.revision, scratch.used};
  if (scratch.used == scratch.node_views.size()) scratch.node_views.emplace_back();
  NodeScratch& view = scratch.node_views[scratch.used++];
  if (view.attributes.size() < node.attributes.size()) {
    view.attributes.resize(node.attributes.size());
    view.strings.resize(node.attributes.size());
  }
  for (size_t k = 0; k < node.attributes.size(); ++k)
    fill_view(view.attributes[k], node.attributes[k], view.strings[k]);
  return view;
}

uint32_t GraphApi::flags_of(uint32_t op) {
  if (op >= flags_.size()) flags_.resize(op + size_t{1});
  if (!flags_[op]) {
    const OpInfo* info = registry_.find(graph_.op_name(op));
    flags_[op] = info ? info->def.flags : 0;
  }
  return *flags_[op];
}

int32_t GraphApi::view(const fe_none&, fe_graph_view& out, fe_call*) {
  Scratch& scratch = this->scratch();
  if (!scratch.has_view) {
    scratch.has_view = true;
    scratch.nodes = graph_.nodes();
    scratch.inputs.clear();
    scratch.outputs.clear();
    for (const Input& input : graph_.inputs()) scratch.inputs.push_back(input.value);
    for (const Output& output : graph_.outputs()) scratch.outputs.push_back(output.value);
  }
  out.name = abi::string(std::string_view(graph_.name()));
  out.nodes = abi::array(scratch.nodes.data(), scratch.nodes.size());
  out.inputs = abi::array(scratch.inputs.data(), scratch.inputs.size());
  out.outputs = abi::array(scratch.outputs.data(), scratch.outputs.size());
  out.revision = graph_.revision();
  return FE_OK;
}

namespace {

Error stale(std::string_view what) {
  return error(FE_ESTALE, "FE-G03",
               "the handle names no {} of this graph: it was erased, or is of another graph", what);
}

Result<std::vector<ValueId>> read_values(const fe_array& array, std::string_view op) {
  constexpr uint64_t most = 1u << 20;
  if (!abi::readable<fe_value>(array) || array.count > most) {
    return error(FE_EINVALID, "FE-G22", "the operand array of '{}' cannot be read", op);
  }
  std::vector<ValueId> values;
  for (uint64_t k = 0; k < array.count; ++k) values.push_back({abi::element<fe_value>(array, k)});
  return values;
}

}  // namespace

int32_t GraphApi::node(const fe_node_args& args, fe_node_view& out, fe_call* call) {
  const Node* node = graph_.find(NodeId{args.node});
  if (!node) return abi::report(call, stale("node"));
  out.handle = args.node;
  out.op = abi::string(graph_.op_name(node->op));
  out.operands = abi::array(node->operands.data(), node->operands.size());
  out.results = abi::array(node->results.data(), node->results.size());
  out.attrs = {};
  if (!node->attributes.empty()) {
    const NodeScratch& scratch = attributes_of(NodeId{args.node}, *node);
    out.attrs = abi::array(scratch.attributes.data(), node->attributes.size());
  }
  out.origin = abi::string(std::string_view(node->origin));
  out.flags = flags_of(node->op);
  out.reserved = 0;
  return FE_OK;
}

int32_t GraphApi::value(const fe_value_args& args, fe_value_view& out, fe_call* call) {
  const Value* value = graph_.find(ValueId{args.value});
  if (!value) return abi::report(call, stale("value"));
  fill_view(out, graph_, ValueId{args.value}, *value);
  return FE_OK;
}

Result<void> GraphApi::make(const fe_make_args& args, fe_make_out& out) {
  NodeSpec spec;
  spec.op = abi::string(args.op);
  FE_TRY(spec.operands, read_values(args.operands, spec.op));
  if (!abi::readable<fe_attr>(args.attrs, offsetof(fe_attr, reserved))) {
    return error(FE_EINVALID, "FE-G22", "the attribute array of '{}' cannot be read", spec.op);
  }
  for (uint64_t k = 0; k < args.attrs.count; ++k) {
    FE_TRY(spec.attributes.emplace_back(), read_attribute(abi::element<fe_attr>(args.attrs, k)));
  }
  spec.before = NodeId{args.before};
  spec.origin = abi::string(args.origin);
  spec.made_by = made_by_;
  if (args.like) {
    const Node* like = graph_.find(NodeId{args.like});
    if (!like) return stale("node");
    if (spec.origin.empty()) spec.origin = like->origin;
  }
  FE_TRY(const NodeId id, make_inferred(graph_, registry_, std::move(spec)));
  const auto& results = graph_.node(id).results;
  out.node = id.bits;
  out.count = results.size();
  for (size_t k = 0; k < results.size() && k < out.capacity && out.results; ++k)
    out.results[k] = results[k].bits;
  return {};
}

Result<void> GraphApi::literal(const fe_literal_args& args, fe_handle_out& out) {
  FE_TRY(TensorType type, read_type(args.type));
  if (args.bytes != 0 && !args.data) return error(FE_EINVALID, "FE-G06", "a literal without its bytes");
  const std::span bytes(static_cast<const std::byte*>(args.data), args.bytes);
  FE_TRY(const ValueId id, graph_.add_literal(std::move(type), bytes));
  out.handle = id.bits;
  return {};
}

Result<void> GraphApi::weight(const fe_weight_args& args, fe_handle_out& out) {
  FE_TRY(TensorType type, read_type(args.type));
  Constant constant;
  constant.kind = FE_CONSTANT_WEIGHT;
  constant.file = abi::string(args.file);
  constant.offset = args.offset;
  constant.bytes = args.bytes;
  if (args.data) {
    constant.memory =
        std::shared_ptr<const std::byte>(std::shared_ptr<void>(), static_cast<const std::byte*>(args.data));
  } else if (constant.file.empty()) {
    return error(FE_EINVALID, "FE-G06", "a weight needs a file or its memory");
  }
  FE_TRY(const ValueId id, graph_.add_constant(std::move(type), std::move(constant), abi::string(args.name)));
  out.handle = id.bits;
  return {};
}

Result<void> GraphApi::input(const fe_input_args& args, fe_handle_out& out) {
  FE_TRY(TensorType type, read_type(args.type));
  FE_TRY(const ValueId id, graph_.add_input(abi::string(args.name), std::move(type)));
  out.handle = id.bits;
  return {};
}

Result<void> GraphApi::output(const fe_output_args& args, fe_none&) {
  FE_TRY(const uint32_t index, graph_.add_output(abi::string(args.name), ValueId{args.value}));
  static_cast<void>(index);
  return {};
}

Result<void> GraphApi::replace_uses(const fe_replace_args& args, fe_none&) {
  const ValueId from{args.from}, to{args.to};
  if (!graph_.find(from) || !graph_.find(to)) return stale("value");
  const bool retyped = !graph_.type(from).same_shape(graph_.type(to));
  const std::vector<NodeId> users = retyped ? graph_.users(from) : std::vector<NodeId>();
  const Mark before = graph_.mark();
  FE_CHECK(graph_.replace_uses(from, to));
  for (const NodeId user : users) {
    auto result = reinfer(graph_, registry_, user);
    if (result) continue;
    FE_CHECK(graph_.rollback(before));
    return std::move(result.error());
  }
  return {};
}

Result<void> GraphApi::erase(const fe_node_args& args, fe_none&) { return graph_.erase(NodeId{args.node}); }

Result<void> GraphApi::set_operand(const fe_operand_args& args, fe_none&) {
  const Mark before = graph_.mark();
  FE_CHECK(graph_.set_operand(NodeId{args.node}, args.index, ValueId{args.value}));
  auto result = reinfer(graph_, registry_, NodeId{args.node});
  if (!result) FE_CHECK(graph_.rollback(before));
  return result;
}

Result<void> GraphApi::set_attr(const fe_attr_args& args, fe_none&) {
  const NodeId id{args.node};
  const Node* node = graph_.find(id);
  if (!node) return stale("node");
  FE_TRY(Attribute attribute, read_attribute(abi::read(&args.attr)));
  std::vector<Attribute> attributes = node->attributes;
  std::erase_if(attributes, [&](const Attribute& a) { return a.name == attribute.name; });
  const std::string name = attribute.name;
  attributes.push_back(std::move(attribute));
  std::vector<ValueId> operands = node->operands;
  FE_TRY(const OpInfo* const op, complete(registry_, graph_.op(id), operands, attributes));
  static_cast<void>(op);
  const auto changed =
      std::find_if(attributes.begin(), attributes.end(), [&](const Attribute& a) { return a.name == name; });
  const Mark before = graph_.mark();
  FE_CHECK(graph_.set_attribute(id, std::move(*changed)));
  auto result = reinfer(graph_, registry_, id);
  if (!result) FE_CHECK(graph_.rollback(before));
  return result;
}

Result<void> GraphApi::evaluate(const fe_value_args& args, fe_handle_out& out) {
  if (!graph_.find(ValueId{args.value})) return stale("value");
  if (!evaluate_) return error(FE_EUNSUPPORTED, "FE-G26", "values cannot be evaluated here");
  FE_TRY(const ValueId id, evaluate_(graph_, ValueId{args.value}));
  out.handle = id.bits;
  return {};
}

Result<void> GraphApi::users(const fe_value_args& args, fe_users_out& out) {
  if (!graph_.find(ValueId{args.value})) return stale("value");
  const auto [found, added] = scratch().users.try_emplace(args.value);
  if (added) found->second = graph_.users(ValueId{args.value});
  out.nodes = abi::array(found->second.data(), found->second.size());
  return {};
}

Result<void> GraphApi::set_input_memory(const fe_input_memory_args& args, fe_none&) {
  const Value* input = graph_.find(ValueId{args.input});
  if (!input || input->kind != ValueKind::input) return stale("input");
  const ValueId by{args.mutated_by};
  if (by && !graph_.find(by)) return stale("value");
  if ((args.flags & ~FE_INPUT_DONATED) != 0)
    return error(FE_EINVALID, "FE-G22", "an input of the graph has no flags {:#x}", args.flags);
  FE_CHECK(graph_.set_mutated_by(input->result, by));
  return graph_.set_donated(input->result, (args.flags & FE_INPUT_DONATED) != 0);
}

}  // namespace ferrite::core::graph
