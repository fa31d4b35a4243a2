// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/ir/graph/infer.h"

#include <algorithm>
#include <map>

#include "core/ir/lexer/lexer.h"
#include "core/support/abi/abi.h"
#include "core/support/abi/callback.h"
#include "core/support/suggest.h"
#include "ferrite/counted.hpp"

namespace ferrite::core::graph {

namespace {

void fill_view(fe_tensor_type& view, const TensorType& type) {
  view.size = sizeof view;
  view.dtype = static_cast<fe_dtype>(type.dtype);
  view.layout = type.layout.kind;
  view.rank = static_cast<uint32_t>(type.rank());
  view.dims = type.dims.data();
  view.strides = type.layout.kind == FE_LAYOUT_STRIDED ? type.layout.strides.data() : nullptr;
  view.offset = type.layout.offset;
  view.alignment = type.layout.alignment;
  view.device = type.device;
}

}  // namespace

fe_tensor_type view_of(const TensorType& type) {
  fe_tensor_type view;
  fill_view(view, type);
  return view;
}

fe_attr view_of(const Attribute& attribute, std::vector<fe_string>& strings) {
  fe_attr view;
  fill_view(view, attribute, strings);
  return view;
}

void fill_view(fe_attr& view, const Attribute& attribute, std::vector<fe_string>& strings) {
  view.size = sizeof view;
  view.name = abi::string(std::string_view(attribute.name));
  view.kind = attribute.kind();
  view.reserved = 0;
  view.i = 0;
  view.f = 0;
  view.s = {};
  view.list = {};
  struct Visitor {
    fe_attr& view;
    std::vector<fe_string>& strings;
    void operator()(int64_t v) const { view.i = v; }
    void operator()(double v) const { view.f = v; }
    void operator()(const std::string& v) const { view.s = abi::string(std::string_view(v)); }
    void operator()(DType v) const { view.i = static_cast<int64_t>(v); }
    void operator()(bool v) const { view.i = v; }
    void operator()(const std::vector<int64_t>& v) const { view.list = abi::array(v.data(), v.size()); }
    void operator()(const std::vector<double>& v) const { view.list = abi::array(v.data(), v.size()); }
    void operator()(const std::vector<std::string>& v) const {
      strings.clear();
      for (const std::string& s : v) strings.push_back(abi::string(std::string_view(s)));
      view.list = abi::array(strings.data(), strings.size());
    }
  };
  std::visit(Visitor{view, strings}, attribute.value);
}

fe_value_view view_of(const Graph& graph, ValueId id) {
  auto view = abi::sized<fe_value_view>();
  view.type = abi::sized<fe_tensor_type>();
  if (const Value* value = graph.find(id)) fill_view(view, graph, id, *value);
  return view;
}

void fill_view(fe_value_view& view, const Graph& graph, ValueId id, const Value& value) {
  view.size = sizeof view;
  view.handle = id.bits;
  view.producer = value.producer.bits;
  view.result = value.kind == ValueKind::result ? value.result : 0;
  view.use_count = static_cast<uint32_t>(value.uses.size());
  view.is_output = graph.is_output(id, value);
  view.is_input = value.kind == ValueKind::input;
  view.constant = FE_CONSTANT_NONE;
  view.reserved = 0;
  view.name = abi::string(std::string_view(value.name));
  fill_view(view.type, value.type);
  view.data = nullptr;
  view.data_bytes = 0;
  if (!value.constant) return;
  view.constant = value.constant->kind;
  // An unmappable file is no error here: the consumer that needs the bytes reports it.
  if (const auto bytes = graph.constant_bytes(id); bytes && view.constant != FE_CONSTANT_PARAMETER) {
    view.data = bytes->data();
    view.data_bytes = bytes->size();
  }
}

Result<TensorType> read_type(const fe_tensor_type& given) {
  const fe_tensor_type view = abi::read(&given);
  constexpr uint32_t max_rank = 64;
  if (view.rank > max_rank || (view.rank != 0 && !view.dims)) {
    return error(FE_EINVALID, "FE-G06", "a tensor type of rank {} {}", view.rank,
                 view.rank > max_rank ? "(at most 64 is allowed)" : "without its dimensions");
  }
  TensorType type;
  type.dtype = static_cast<DType>(view.dtype);
  type.dims.assign(view.dims, view.dims + view.rank);
  type.device = view.device;
  type.layout.kind = view.layout;
  if (view.layout == FE_LAYOUT_STRIDED) {
    if (view.rank != 0 && !view.strides)
      return error(FE_EINVALID, "FE-G06", "a strided layout without its strides");
    if (view.rank != 0) type.layout.strides.assign(view.strides, view.strides + view.rank);
    type.layout.offset = view.offset;
    type.layout.alignment = view.alignment;
  } else if (view.layout != FE_LAYOUT_ANY) {
    return error(FE_EINVALID, "FE-G06", "layout {} cannot be given in a tensor type", view.layout);
  }
  return type;
}

InstanceView::InstanceView(const Graph& graph, NodeId node, std::string_view device) : device_(device) {
  const Node& n = graph.node(node);
  for (const ValueId result : n.results) results_.push_back(view_of(graph, result));
  fill(graph, graph.find(node) ? graph.op(node) : "", n.operands, n.attributes);
}

InstanceView::InstanceView(const Graph& graph, std::string_view op, std::span<const ValueId> operands,
                           std::span<const Attribute> attributes) {
  fill(graph, op, operands, attributes);
}

void InstanceView::fill(const Graph& graph, std::string_view op, std::span<const ValueId> operands,
                        std::span<const Attribute> attributes) {
  op_ = op;
  operands_.reserve(operands.size());
  for (const ValueId operand : operands) operands_.push_back(view_of(graph, operand));
  attributes_.reserve(attributes.size());
  strings_.resize(attributes.size());
  for (size_t k = 0; k < attributes.size(); ++k) attributes_.push_back(view_of(attributes[k], strings_[k]));
  instance_ = abi::sized<fe_instance>();
  instance_.op = abi::string(std::string_view(op_));
  instance_.operands = abi::array(operands_.data(), operands_.size());
  instance_.results = abi::array(results_.data(), results_.size());
  instance_.attrs = abi::array(attributes_.data(), attributes_.size());
  instance_.device = abi::string(std::string_view(device_));
}

Result<const OpInfo*> complete(const OpRegistry& registry, std::string_view op,
                               std::vector<ValueId>& operands, std::vector<Attribute>& attributes) {
  const OpInfo* info = registry.find(op);
  if (!info) {
    std::vector<std::string_view> names;
    for (const OpInfo* known : registry.all()) names.push_back(known->name);
    return error(FE_EUNSUPPORTED, "FE-G13",
                 "no enabled plugin defines op '{}'{}; `ferrite ops` lists those that are there", op,
                 did_you_mean(op, names));
  }
  // Equal nodes must have equal operand lists, so drop absent trailing operands.
  while (!operands.empty() && !operands.back() && operands.size() > info->least_operands() &&
         !info->variadic()) {
    operands.pop_back();
  }
  const size_t most = info->operands.size();
  if (operands.size() < info->least_operands() || (operands.size() > most && !info->variadic())) {
    return error(FE_EINVALID, "FE-G14", "op '{}' takes {}, not {}", op, info->operands_text(),
                 operands.size());
  }
  for (size_t k = 0; k < operands.size(); ++k) {
    const OpInfo::Operand& operand = info->operands[std::min(k, most - 1)];
    if (!operands[k] && !operand.optional) {
      return error(FE_EINVALID, "FE-G14", "op '{}' needs its operand {} ('{}')", op, k, operand.name);
    }
  }
  for (Attribute& attribute : attributes) {
    const auto* def = info->find(attribute.name);
    if (!def) {
      std::vector<std::string_view> names;
      for (const auto& known : info->attributes) names.push_back(known.value.name);
      return error(FE_EINVALID, "FE-G15", "op '{}' has no attribute '{}'{}", op, attribute.name,
                   did_you_mean(attribute.name, names));
    }
    const uint32_t wanted = def->value.kind();
    if (wanted == FE_ATTR_FLOAT && attribute.kind() == FE_ATTR_INT) {
      attribute.value = static_cast<double>(std::get<int64_t>(attribute.value));
    } else if (attribute.kind() != wanted) {
      return error(FE_EINVALID, "FE-G15", "attribute '{}' of op '{}' is {}, not {}", attribute.name, op,
                   attribute_kind_name(wanted), attribute_kind_name(attribute.kind()));
    }
  }
  // Search only the attributes that were given: those appended below are distinct.
  const size_t given = attributes.size();
  for (const auto& def : info->attributes) {
    const auto end = attributes.begin() + static_cast<std::ptrdiff_t>(given);
    if (std::any_of(attributes.begin(), end, [&](const Attribute& a) { return a.name == def.value.name; }))
      continue;
    if (def.required) return error(FE_EINVALID, "FE-G15", "op '{}' needs attribute '{}'", op, def.value.name);
    attributes.push_back(def.value);
  }
  std::sort(attributes.begin(), attributes.end(),
            [](const auto& a, const auto& b) { return a.name < b.name; });
  return info;
}

namespace {

Result<std::vector<TensorType>> ask_rule(const Graph& graph, const OpInfo& op, const fe_instance& instance) {
  struct Collected {
    const Graph& graph;
    std::vector<TensorType> types;
    std::optional<Error> fault;
  } collected{graph, {}, {}};
  auto out = abi::sized<fe_infer_out>();
  out.host = &collected;
  out.add = [](void* host, const fe_tensor_type* given) -> int32_t {
    auto& to = *static_cast<Collected*>(host);
    constexpr size_t max_results = 4096;
    if (!given || to.types.size() == max_results) {
      to.fault = given ? error(FE_EINVALID, "FE-G90", "more than {} results", max_results)
                       : error(FE_EINTERNAL, "FE-G16", "a null type");
      return FE_EINVALID;
    }
    auto type = read_type(*given);
    const bool negative = type && std::any_of(type->dims.begin(), type->dims.end(),
                                              [&](Dim dim) { return !to.graph.symbols().valid(dim); });
    if (!type || negative || type->dtype == DType::none) {
      to.fault = type ? error(FE_EINTERNAL, "FE-G16",
                              "a result with a negative dimension or without an element type")
                      : std::move(type.error());
      return FE_EINVALID;
    }
    to.types.push_back(std::move(*type));
    return FE_OK;
  };

  auto args = abi::sized<fe_infer_args>();
  args.op = &instance;
  abi::Call call;
  const int32_t status =
      callback::call({op.plugin, "shape rule of op", op.name}, op.def.infer, op.def.self, call, &args, &out);
  // Prefer the host's reason: the plugin only knows that its type was refused.
  if (collected.fault) {
    collected.fault->text = fmt::format("the shape rule of '{}' (plugin '{}') gave {}", op.name, op.plugin,
                                        collected.fault->text);
    return std::move(*collected.fault);
  }
  FE_CHECK(
      call.check(status, "FE-G16", fmt::format("the shape rule of '{}' failed without saying why", op.name)));
  if (op.def.results != 0 && collected.types.size() != op.def.results) {
    return error(FE_EINTERNAL, "FE-G16", "the shape rule of '{}' (plugin '{}') gave {} instead of {}",
                 op.name, op.plugin, counted(collected.types.size(), "result"), op.def.results);
  }
  return std::move(collected.types);
}

/// An unusual size, different for each open dim, so that a rule rarely treats it as a special case.
Dim stand_in(Dim dim) { return is_static(dim) ? dim : 1009 - 2 * dim; }

/// Whether the rule gave the same answer for open dims as for the substituted sizes.
bool says_the_same(const Result<std::vector<TensorType>>& open,
                   const Result<std::vector<TensorType>>& sized) {
  if (open.has_value() != sized.has_value()) return false;
  if (!open) return open.error().code == sized.error().code && open.error().text == sized.error().text;
  return std::ranges::equal(*open, *sized, [](const TensorType& a, const TensorType& b) {
    return a.dtype == b.dtype && std::ranges::equal(a.dims, b.dims, {}, stand_in);
  });
}

}  // namespace

Result<std::vector<TensorType>> infer_types(const Graph& graph, const OpInfo& op,
                                            std::span<const ValueId> operands,
                                            std::span<const Attribute> attributes) {
  const InstanceView view(graph, op.name, operands, attributes);
  auto types = ask_rule(graph, op, *view.get());
  std::string open;
  for (const ValueId operand : operands) {
    const Value* value = graph.find(operand);
    if (!value) continue;
    const auto dim = std::ranges::find_if_not(value->type.dims, is_static);
    if (dim == value->type.dims.end()) continue;
    open = graph.symbols().print(*dim);
    break;
  }
  if (open.empty()) return types;
  // A rule may mistake the code of an open dim for a size. Ask again with real sizes: a different answer
  // means that the rule does not support symbolic dims.
  std::vector<fe_value_view> values;
  std::vector<std::vector<Dim>> sizes;
  for (const ValueId operand : operands) {
    auto& value = values.emplace_back(view_of(graph, operand));
    auto& dims = sizes.emplace_back(value.type.dims, value.type.dims + value.type.rank);
    std::ranges::transform(dims, dims.begin(), stand_in);
    value.type.dims = dims.data();
  }
  fe_instance sized = *view.get();
  sized.operands = abi::array(values.data(), values.size());
  if (says_the_same(types, ask_rule(graph, op, sized))) return types;
  return error(FE_EINVALID, needs_sizes, "the size of dim {} decides what its result is", open);
}

namespace {

Error with_place(Error fault, std::string_view op, std::string_view origin) {
  // The error's place already names the op, so remove a leading op name from the rule's text.
  for (const auto& prefix : {fmt::format("{}: ", op), fmt::format("op '{}' ", op)})
    if (fault.text.starts_with(prefix)) fault.text.erase(0, prefix.size());
  return at(
      origin.empty() ? fmt::format("op '{}'", op) : fmt::format("op '{}' from {}", op, text::quote(origin)),
      std::move(fault));
}

}  // namespace

Result<NodeId> make_inferred(Graph& graph, const OpRegistry& registry, NodeSpec spec) {
  for (const ValueId operand : spec.operands) {
    if (operand && !graph.find(operand)) {
      return error(FE_ESTALE, "FE-G03", "an operand of '{}' was erased, or is of another graph", spec.op);
    }
  }
  auto info = complete(registry, spec.op, spec.operands, spec.attributes);
  if (!info) return with_place(std::move(info.error()), spec.op, spec.origin);
  auto types = infer_types(graph, **info, spec.operands, spec.attributes);
  if (!types) return with_place(std::move(types.error()), spec.op, spec.origin);
  spec.types = std::move(*types);
  return graph.make(std::move(spec));
}

Result<void> reinfer(Graph& graph, const OpRegistry& registry, NodeId first) {
  const Mark before = graph.mark();
  // Visit producers before users, so that each node is inferred after all nodes it depends on.
  const auto earlier = [&graph](NodeId a, NodeId b) { return graph.comes_before(a, b); };
  std::map<NodeId, bool, decltype(earlier)> pending(earlier);
  pending.emplace(first, true);
  while (!pending.empty()) {
    const NodeId id = pending.begin()->first;
    pending.erase(pending.begin());
    const Node* node = graph.find(id);
    if (!node) return error(FE_ESTALE, "FE-G03", "the node was erased, or is of another graph");
    const std::string op(graph.op(id)), origin = node->origin;
    const auto fail = [&](Error fault) -> Result<void> {
      FE_CHECK(graph.rollback(before));
      return with_place(std::move(fault), op, origin);
    };
    auto operands = node->operands;
    auto attributes = node->attributes;
    auto info = complete(registry, op, operands, attributes);
    if (!info) return fail(std::move(info.error()));
    auto types = infer_types(graph, **info, operands, attributes);
    if (!types) return fail(std::move(types.error()));
    const std::vector<ValueId> results = graph.node(id).results;
    if (types->size() != results.size()) {
      return fail(error(FE_EINVALID, "FE-G16",
                        "the edit changes the number of results from {} to {}; make a new node instead",
                        results.size(), types->size()));
    }
    for (size_t k = 0; k < results.size(); ++k) {
      if (graph.type(results[k]).same_shape((*types)[k])) continue;
      // The shape rule does not decide the device, so keep it.
      (*types)[k].device = graph.type(results[k]).device;
      auto set = graph.set_type(results[k], std::move((*types)[k]));
      if (!set) return fail(std::move(set.error()));
      for (const NodeId user : graph.users(results[k])) {
        // An invalid graph may have a user before its producer; skipping it guarantees termination.
        if (graph.comes_before(id, user)) pending.emplace(user, true);
      }
    }
  }
  return {};
}

}  // namespace ferrite::core::graph
