// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/plugin/import_ops.h"

#include <algorithm>
#include <set>

#include "core/ir/graph/api.h"
#include "core/ir/graph/infer.h"
#include "core/ir/graph/print.h"
#include "core/support/abi/abi.h"
#include "core/support/abi/callback.h"
#include "core/support/suggest.h"
#include "ferrite/counted.hpp"

namespace ferrite::core::plugin {
namespace {

/// The code with which a handler declines. Any other failure of a handler is an error.
constexpr std::string_view declines = "FE-P20";

/// "com.acme.FusedRope" for "onnx:com.acme::FusedRope"; empty if the op has no domain.
std::string op_name_of(std::string_view source) {
  std::string_view rest = source.substr(source.find(':') + 1);
  std::string name;
  for (size_t end = rest.find("::"); end != std::string_view::npos; end = rest.find("::")) {
    name.append(rest.substr(0, end)).append(".");
    rest.remove_prefix(end + 2);
  }
  return name.empty() ? name : name.append(rest);
}

/// Makes errors about one node.
class Place {
 public:
  explicit Place(std::string_view text) : text_(text) {}
  template <class... Args>
  Error wrong(std::string_view code, fmt::format_string<Args...> format, Args&&... args) const {
    return error(FE_EINVALID, code, "{}: {}", text_, fmt::format(format, std::forward<Args>(args)...));
  }
  /// An error from an import handler; its text may already begin with the place.
  Error by_handler(Error fault, std::string_view plugin) const {
    std::string_view rest = fault.text;
    if (const auto begun = fmt::format("{}: ", text_); rest.starts_with(begun))
      rest.remove_prefix(begun.size());
    fault.text = fmt::format("{}: the import handler of plugin '{}': {}", text_, plugin, rest);
    return fault;
  }
  Error named(Error fault) const {
    fault.text = fmt::format("{}: {}", text_, fault.text);
    return fault;
  }

 private:
  std::string_view text_;
};

/// Converts a model's attribute to the kind that the op expects: integers also serve as floats, booleans and
/// element types.
Result<graph::Attribute> converted(graph::Attribute attribute, const graph::OpInfo& op,
                                   const fe_import_node& node, const Place& place) {
  const auto* def = op.find(attribute.name);
  if (!def) {
    std::vector<std::string_view> known;
    for (const auto& other : op.attributes) known.push_back(other.value.name);
    return place.wrong("FE-I23", "op '{}' has no attribute '{}'{}; it has {}", op.name, attribute.name,
                       did_you_mean(attribute.name, known),
                       known.empty() ? "none" : fmt::format("{}", fmt::join(known, ", ")));
  }
  const uint32_t wanted = def->value.kind(), given = attribute.kind();
  if (given == wanted) return attribute;
  if (given == FE_ATTR_INT && wanted == FE_ATTR_FLOAT) {
    attribute.value = static_cast<double>(std::get<int64_t>(attribute.value));
    return attribute;
  }
  if (given == FE_ATTR_INT && wanted == FE_ATTR_BOOL) {
    const auto value = std::get<int64_t>(attribute.value);
    if (value != 0 && value != 1)
      return place.wrong("FE-I23", "attribute '{}' is {}, and op '{}' takes 0 or 1", attribute.name, value,
                         op.name);
    attribute.value = value == 1;
    return attribute;
  }
  if (given == FE_ATTR_INT && wanted == FE_ATTR_DTYPE) {
    const auto value = std::get<int64_t>(attribute.value);
    const bool known = value >= 0 && static_cast<uint64_t>(value) < node.element_types.count;
    const auto dtype =
        known ? static_cast<DType>(abi::element<fe_dtype>(node.element_types, static_cast<uint64_t>(value)))
              : DType::none;
    if (dtype == DType::none)
      return place.wrong("FE-I23",
                         "attribute '{}' is {}, which is the number of no element type that is supported",
                         attribute.name, value);
    attribute.value = dtype;
    return attribute;
  }
  return place.wrong("FE-I23", "attribute '{}' is {}, and op '{}' takes {}", attribute.name,
                     graph::attribute_kind_name(given), op.name, graph::attribute_kind_name(wanted));
}

Result<std::vector<graph::Attribute>> attributes_for(const graph::OpInfo& op, const fe_import_node& node,
                                                     const Place& place) {
  std::vector<graph::Attribute> attributes;
  std::set<std::string, std::less<>> names;
  for (uint64_t k = 0; k < node.tensors.count; ++k) {
    const auto name = abi::string(abi::element<fe_named_value>(node.tensors, k).name);
    return place.wrong(
        "FE-I23",
        "attribute '{}' is a tensor, and ops have none; pass it as an operand, or read the node "
        "with an import handler",
        name);
  }
  for (uint64_t k = 0; k < node.attrs.count; ++k) {
    auto attribute = graph::read_attribute(abi::element<fe_attr>(node.attrs, k));
    if (!attribute) return place.named(std::move(attribute.error()));
    if (!names.insert(attribute->name).second)
      return place.wrong("FE-I23", "attribute '{}' is there twice", attribute->name);
    FE_TRY(attributes.emplace_back(), converted(std::move(*attribute), op, node, place));
  }
  for (const auto& def : op.attributes)
    if (def.required && !names.contains(def.value.name))
      return place.wrong("FE-I23", "op '{}' needs attribute '{}', which the node does not have", op.name,
                         def.value.name);
  return attributes;
}

/// The node's operands, as many as the op takes. Absent trailing operands are none.
Result<std::vector<fe_value>> operands_for(const graph::OpInfo& op, const fe_import_node& node,
                                           const Place& place) {
  std::vector<fe_value> operands;
  for (uint64_t k = 0; k < node.operands.count; ++k)
    operands.push_back(abi::element<fe_value>(node.operands, k));
  // Models often list absent trailing inputs.
  while (!operands.empty() && operands.back() == 0) operands.pop_back();
  std::vector<std::string> names;
  for (const auto& operand : op.operands)
    names.push_back(operand.name + (operand.variadic ? "..." : operand.optional ? "?" : ""));
  const auto taken = [&] {
    return fmt::format("op '{}' takes {}{}", op.name, op.operands_text(),
                       names.empty() ? "" : fmt::format(" ({})", fmt::join(names, ", ")));
  };
  if (operands.size() > op.operands.size() && !op.variadic())
    return place.wrong("FE-I23", "the node has {}, and {}", counted(operands.size(), "input"), taken());
  for (size_t k = 0; k < std::max(operands.size(), op.operands.size()); ++k) {
    const auto& operand = op.operands[std::min(k, op.operands.size() - 1)];
    const bool absent = k >= operands.size() || operands[k] == 0;
    const bool may_be_absent = operand.optional || (operand.variadic && k >= operands.size());
    if (absent && !may_be_absent)
      return place.wrong("FE-I23", "input {} ('{}') is missing: {}", k, operand.name, taken());
  }
  return operands;
}

/// Makes the node as an instance of the op.
Result<void> make_op(const graph::OpInfo& op, const fe_import_args& args, const fe_import_node& node,
                     const fe_import_out& out) {
  const Place place(abi::view(node.place));
  if (op.def.results > 0 && node.results.count > op.def.results)
    return place.wrong("FE-I23", "the node has {}, and op '{}' gives {}",
                       counted(node.results.count, "output"), op.name, op.def.results);
  FE_TRY(const auto operands, operands_for(op, node, place));
  FE_TRY(const auto attributes, attributes_for(op, node, place));
  std::vector<std::vector<fe_string>> strings(attributes.size());
  std::vector<fe_attr> views;
  for (size_t k = 0; k < attributes.size(); ++k) views.push_back(graph::view_of(attributes[k], strings[k]));
  auto making = abi::sized<fe_make_args>();
  making.op = abi::string(std::string_view(op.name));
  making.operands = abi::array(operands);
  making.attrs = abi::array(views);
  making.origin = node.name;
  auto made = abi::sized<fe_make_out>();
  made.results = out.results;
  made.capacity = out.capacity;
  abi::Call call;
  const int32_t status = args.graph->make(args.graph->self, call.get(), &making, &made);
  if (status != FE_OK)
    return place.named(call.error(status, "FE-I42", fmt::format("op '{}' could not be made", op.name)));
  if (node.results.count > made.count)
    return place.wrong("FE-I23", "the node has {}, and op '{}' gives {} here",
                       counted(node.results.count, "output"), op.name, made.count);
  return {};
}

/// Checks what a handler returned: values of the graph, one for each result that is used. Only the importer
/// may add inputs and outputs.
Result<void> check_handled(const graph::Graph& graph, size_t inputs, size_t outputs,
                           const fe_import_node& node, const fe_import_out& out, std::string_view plugin) {
  const Place place(abi::view(node.place));
  for (uint64_t k = 0; k < node.results.count; ++k) {
    const bool wanted = abi::element<fe_string>(node.results, k).length != 0;
    if (out.results[k] == 0 && !wanted) continue;
    if (!graph.find(graph::ValueId{out.results[k]}))
      return place.wrong("FE-I42", "the import handler of plugin '{}' gave {} for result {}", plugin,
                         out.results[k] == 0 ? "nothing" : "no value of this graph", k);
  }
  if (graph.inputs().size() != inputs || graph.outputs().size() != outputs)
    return place.wrong("FE-I42", "the import handler of plugin '{}' added an input or output to the model",
                       plugin);
  return {};
}

}  // namespace

bool valid_source(std::string_view text) {
  const auto word = [](std::string_view part) {
    return !part.empty() && std::ranges::all_of(part, [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
             c == '-' || c == '.';
    });
  };
  const auto colon = text.find(':');
  if (colon == std::string_view::npos || !word(text.substr(0, colon))) return false;
  text.remove_prefix(colon + 1);
  for (size_t end = text.find("::"); end != std::string_view::npos; end = text.find("::")) {
    if (!word(text.substr(0, end))) return false;
    text.remove_prefix(end + 2);
  }
  return word(text);
}

std::string versions_text(int64_t first, int64_t last) {
  if (last == INT64_MAX) return first <= 1 ? "any" : fmt::format("{} and later", first);
  return first == last ? fmt::format("{}", first) : fmt::format("{} to {}", first, last);
}

std::vector<std::pair<std::string, SourceReader>> readers_of(const Registry& registry,
                                                             std::string_view format) {
  std::vector<std::pair<std::string, SourceReader>> result;
  const auto of_format = [&](std::string_view source) {
    return source.size() > format.size() && source.starts_with(format) && source[format.size()] == ':';
  };
  for (const auto& [table, plugin] : registry.import_handlers())
    if (const auto source = abi::string(table->source); of_format(source))
      result.push_back({source, {FE_READER_HANDLER, plugin->id, {}, table->first, table->last}});
  for (const auto& [source, entry] : registry.aliases())
    if (of_format(source)) result.push_back({source, {FE_READER_ALIAS, entry.plugin->id, entry.alias.op}});
  for (const auto* op : registry.ops().all()) {
    const auto point = op->name.rfind('.');
    // Only ops with a domain are found by name. The core's own ops belong to no model format.
    if (point == std::string::npos || op->plugin == Registry::core_id) continue;
    result.push_back({fmt::format("{}:{}::{}", format, op->name.substr(0, point), op->name.substr(point + 1)),
                      {FE_READER_OP, op->plugin, op->name}});
  }
  std::ranges::stable_sort(result, {}, [](const auto& entry) { return entry.first; });
  return result;
}

/// The slots that the importer calls.
struct ImportOps::Slots {
  template <auto Method, class Args, class Out>
  static int32_t call(void* self, fe_call* call, const Args* args, Out* out) noexcept {
    try {
      int32_t refused = FE_OK;
      auto* owner = Loan<fe_import_api, ImportOps>::owner_of(self, call, refused);
      if (!owner) return refused;
      const auto result = (owner->*Method)(abi::read(args), *out);
      return result ? FE_OK : abi::report(call, result.error());
    } catch (const std::bad_alloc&) {
      return abi::report(call, error(FE_ENOMEM, "FE-P22", "out of memory"));
    }
  }
};

ImportOps::ImportOps(const Registry& registry, graph::GraphApi& graph) : registry_(registry), graph_(graph) {
  auto table = abi::sized<fe_import_api>();
  table.rev = 1;
  table.find = Slots::call<&ImportOps::find, fe_reader_args, fe_reader_out>;
  table.import_node = Slots::call<&ImportOps::import_node, fe_import_args, fe_import_out>;
  loan_.emplace(this, table);
}

std::vector<Contributed<fe_import_handler>> ImportOps::handlers(std::string_view source,
                                                                int64_t version) const {
  std::vector<Contributed<fe_import_handler>> result;
  for (const auto& entry : registry_.import_handlers())
    if (abi::view(entry.table->source) == source && entry.table->first <= version &&
        version <= entry.table->last)
      result.push_back(entry);
  return result;
}

const graph::OpInfo* ImportOps::op_of(std::string_view source) const {
  if (const auto alias = registry_.aliases().find(source); alias != registry_.aliases().end())
    return registry_.ops().find(alias->second.alias.op);
  const auto name = op_name_of(source);
  const auto* op = name.empty() ? nullptr : registry_.ops().find(name);
  return op && op->plugin != Registry::core_id ? op : nullptr;
}

Result<void> ImportOps::find(const fe_reader_args& args, fe_reader_out& out) {
  const auto source = abi::view(args.source);
  plugin_.clear(), versions_.clear(), suggestion_.clear();
  auto answer = abi::sized<fe_reader_out>();
  const auto alias = registry_.aliases().find(source);
  if (const auto given = handlers(source, args.version); !given.empty()) {
    answer.kind = FE_READER_HANDLER;
    plugin_ = given.front().plugin->id;
  } else if (alias != registry_.aliases().end()) {
    answer.kind = FE_READER_ALIAS;
    plugin_ = alias->second.plugin->id;
  } else if (const auto* op = op_of(source)) {
    answer.kind = FE_READER_OP;
    plugin_ = op->plugin;
  } else {
    std::vector<std::string> versions, names;
    for (const auto& [table, plugin] : registry_.import_handlers())
      if (abi::view(table->source) == source) versions.push_back(versions_text(table->first, table->last));
    versions_ = fmt::format("{}", fmt::join(versions, ", "));
    for (auto& [other, reader] : readers_of(registry_, source.substr(0, source.find(':'))))
      names.push_back(std::move(other));
    if (!abi::readable<fe_string>(args.known))
      return error(FE_EINVALID, "FE-I42", "the list of source ops that the importer knows cannot be read");
    for (uint64_t k = 0; k < args.known.count; ++k)
      names.push_back(abi::string(abi::element<fe_string>(args.known, k)));
    suggestion_ = suggest(source, std::vector<std::string_view>(names.begin(), names.end()));
  }
  answer.plugin = abi::string(std::string_view(plugin_));
  answer.versions = abi::string(std::string_view(versions_));
  answer.suggestion = abi::string(std::string_view(suggestion_));
  abi::write(&out, answer);
  return {};
}

Result<void> ImportOps::import_node(const fe_import_args& args, const fe_import_out& out) {
  const auto node = abi::read(args.node);
  if (!args.graph || !args.node ||
      (node.results.count > 0 && (!out.results || out.capacity < node.results.count)) ||
      !abi::readable<fe_string>(node.results) || !abi::readable<fe_value>(node.operands) ||
      !abi::readable<fe_attr>(node.attrs, offsetof(fe_attr, reserved)) ||
      !abi::readable<fe_named_value>(node.tensors) || !abi::readable<fe_dtype>(node.element_types))
    return error(FE_EINVALID, "FE-I42", "the importer asks for a node that cannot be read");
  const auto source = abi::view(node.source);
  const Place place(abi::view(node.place));
  auto& graph = graph_.graph();
  std::string declined;
  for (const auto& [table, plugin] : handlers(source, node.version)) {
    const auto mark = graph.mark();
    const size_t inputs = graph.inputs().size(), outputs = graph.outputs().size();
    // Clear what a previous handler may have stored before it declined.
    std::fill(out.results, out.results + node.results.count, fe_value{0});
    auto given = abi::sized<fe_import_args>();
    given.graph = args.graph;
    given.node = &node;
    auto results = abi::sized<fe_import_out>();
    results.results = out.results;
    results.capacity = node.results.count;
    abi::Call call;
    const int32_t status = callback::call({plugin->id, "import handler of op", source}, table->import_node,
                                          table->self, call, &given, &results);
    if (status == FE_OK) return check_handled(graph, inputs, outputs, node, out, plugin->id);
    auto fault = call.error(status, "FE-I42", "it failed without a reason");
    // FE_EUNSUPPORTED with another code means that something inside the handler is unsupported: an error and
    // no decline.
    if (status != FE_EUNSUPPORTED || fault.code != declines)
      return place.by_handler(std::move(fault), plugin->id);
    FE_CHECK(graph.rollback(mark));
    declined += fmt::format("; the import handler of plugin '{}' declines it: {}", plugin->id, fault.text);
  }
  if (const auto* op = op_of(source)) return make_op(*op, args, node, out);
  return place.named(error(FE_EUNSUPPORTED, "FE-I41", "no plugin reads the node{}", declined));
}

}  // namespace ferrite::core::plugin
