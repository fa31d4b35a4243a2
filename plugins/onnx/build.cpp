// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "build.h"

#include <exception>
#include <queue>
#include <string_view>
#include <unordered_map>

#include "context.h"
#include "expansion.h"
#include "readers.h"
#include "unsupported_ops.h"

namespace ferrite::from_onnx {
namespace {

using Nodes = google::protobuf::RepeatedPtrField<onnx::NodeProto>;

/// A function call, with the calls around it.
struct Call {
  const Function* function;
  const Call* outer;
};

/// The place of nodes: the model's graph, or a called function.
struct Scope {
  const Opsets& opsets;
  const Bindings& bindings;  ///< values of the attributes that nodes may refer to
  const Call* call;          ///< null in the model's own graph
  std::string within;        ///< suffix of the nodes' places: " in function custom.Twice, called by node …"
  std::string prefix;        ///< prefix of the nodes' names
};

class Builder : public Subgraphs {
 public:
  Builder(Graph& graph, const Source& source, ReaderTable& readers, Expansion& expansion, Scope scope,
          Builder* outer)
      : graph_(graph),
        source_(source),
        readers_(readers),
        expansion_(expansion),
        scope_(std::move(scope)),
        outer_(outer),
        declared_(source.file.path, source.warn) {}

  /// Defines a value; an absent one stands for an argument that a call omits.
  void define(const std::string& name, Value value) {
    if (!values_.emplace(name, value).second)
      fail("FE-I25", "'", name, "' is defined twice", scope_.within,
           "; the model is damaged, export it again");
  }

  std::vector<Value> run(const onnx::GraphProto& proto, std::span<const RawRange> raw) {
    if (proto.sparse_initializer_size() > 0)
      throw Failure(FE_EUNSUPPORTED, "FE-I24",
                    "sparse initializers are not supported; export them as ordinary ones" + scope_.within);
    for (int k = 0; k < proto.initializer_size(); ++k)
      initializers_.emplace(
          proto.initializer(k).name(),
          Initializer{&proto.initializer(k),
                      static_cast<size_t>(k) < raw.size() ? &raw[static_cast<size_t>(k)] : nullptr});
    declared_.add(proto);
    // Calls inside a function were counted with the function.
    if (!scope_.call) expansion_.add_calls(proto.node(), scope_.opsets, scope_.within);
    refuse_unsupported(proto.node(), scope_.opsets, readers_);
    for (int k : order(proto.node())) import(proto.node(k), k);
    std::vector<Value> outputs;
    for (const auto& output : proto.output()) outputs.push_back(output_of(output.name()));
    declared_.finish();
    return outputs;
  }

  std::vector<Value> run(const onnx::FunctionProto& proto, size_t outputs) {
    for (int k : order(proto.node())) import(proto.node(k), k);
    std::vector<Value> results;
    for (size_t k = 0; k < outputs; ++k) results.push_back(output_of(proto.output(static_cast<int>(k))));
    return results;
  }

  std::vector<Value> inline_graph(const onnx::AttributeProto& attribute, std::string_view place) override {
    Scope inside = scope_;
    inside.within = " in '" + attribute.name() + "' of " + std::string(place);
    Builder inner(graph_, source_, readers_, expansion_, std::move(inside), this);
    return inner.run(attribute.g(), {});
  }

 private:
  struct Initializer {
    const onnx::TensorProto* tensor;
    const RawRange* raw;
  };

  /// The nodes in an order in which each follows its operands; the model's own order if possible.
  std::vector<int> order(const Nodes& nodes) const {
    std::unordered_map<std::string_view, int> maker;
    for (int k = 0; k < nodes.size(); ++k)
      for (const auto& name : nodes[k].output())
        if (!name.empty()) maker.emplace(name, k);
    std::vector<std::vector<int>> readers(static_cast<size_t>(nodes.size()));
    std::vector<int> missing(readers.size());
    for (int k = 0; k < nodes.size(); ++k)
      for_each_read(nodes[k], [&](const std::string& name) {
        auto found = maker.find(name);
        if (found == maker.end()) return;
        readers[static_cast<size_t>(found->second)].push_back(k);
        ++missing[static_cast<size_t>(k)];
      });
    std::priority_queue<int, std::vector<int>, std::greater<>> ready;
    for (int k = 0; k < nodes.size(); ++k)
      if (missing[static_cast<size_t>(k)] == 0) ready.push(k);
    std::vector<int> result;
    while (!ready.empty()) {
      int k = ready.top();
      ready.pop();
      result.push_back(k);
      for (int reader : readers[static_cast<size_t>(k)])
        if (--missing[static_cast<size_t>(reader)] == 0) ready.push(reader);
    }
    if (result.size() != readers.size())
      fail("FE-I25", "nodes form a cycle, node ",
           std::ranges::find_if(missing, [](int count) { return count > 0; }) - missing.begin(),
           " among them", scope_.within, "; the model is damaged, export it again");
    return result;
  }
  /// The names that a node reads, including those of its subgraphs.
  template <class Body>
  static void for_each_read(const onnx::NodeProto& node, const Body& body) {
    for (const auto& name : node.input())
      if (!name.empty()) body(name);
    for (const auto& attribute : node.attribute())
      if (attribute.has_g()) for_each_read_in(attribute.g(), body);
  }
  template <class Body>
  static void for_each_read_in(const onnx::GraphProto& proto, const Body& body) {
    for (const auto& node : proto.node()) for_each_read(node, body);
    for (const auto& output : proto.output()) body(output.name());
  }

  /// nullopt if the name is not defined.
  std::optional<Value> find(const std::string& name) {
    if (auto found = values_.find(name); found != values_.end()) return found->second;
    if (auto found = initializers_.find(name); found != initializers_.end()) {
      Value value = constant_of(graph_, source_.file, *found->second.tensor, found->second.raw);
      declared_.check(name, value, "initializer");
      values_.emplace(name, value);
      return value;
    }
    return outer_ ? outer_->find(name) : std::nullopt;
  }

  Value output_of(const std::string& name) {
    const auto value = find(name);
    if (!value || !*value)
      fail("FE-I25", "no node makes the output '", name, "'", scope_.within,
           "; the model is damaged, export it again");
    declared_.check(name, *value, "the graph");
    return *value;
  }

  void import(const onnx::NodeProto& given, int index) {
    const NodeOp op = op_of(given, scope_.opsets);
    const std::string where = place_of(given, index, op) + scope_.within;
    const auto bound = bound_node(given, scope_.bindings, where);
    const auto& node = bound ? *bound : given;
    std::vector<Value> operands;
    for (const auto& input : node.input()) {
      const auto operand = input.empty() ? Value() : find(input);
      if (!operand)
        fail("FE-I25", where, ": nothing defines its input '", input,
             "'; the model is damaged, export it again");
      operands.push_back(*operand);
    }
    const std::string name =
        scope_.prefix + (node.name().empty() ? node.op_type() + "_" + std::to_string(index) : node.name());
    graph_.set_origin(name);
    const auto results = results_of(node, op, std::move(operands), name, where);
    for (size_t k = 0; k < results.size(); ++k) {
      const auto& output = node.output(static_cast<int>(k));
      if (output.empty()) continue;
      declared_.check(output, results[k], where);
      define(output, results[k]);
    }
  }

  /// The results of a node, from the first reader that does not decline.
  std::vector<Value> results_of(const onnx::NodeProto& node, const NodeOp& op, std::vector<Value> operands,
                                const std::string& name, const std::string& where) {
    const Readers who = readers_.find(op);
    std::exception_ptr declined;
    if (who.plugin && who.plugin->kind != FE_READER_NONE) try {
        return import_by_plugin(graph_, source_.file, readers_.plugins(), node, op, operands, name, where);
      } catch (const Failure& failure) {
        if (failure.code() != "FE-I41") throw;
        declined = std::current_exception();
      }
    if (who.function) {
      if (declined) {
        expansion_.add_call(*who.function, where);
        refuse_unsupported(who.function->proto->node(), who.function->opsets, readers_);
      }
      return call(*who.function, node, operands, name, where);
    }
    // refuse_unsupported() accepted the node, so a plugin can read it; that plugin has declined.
    if (!reads(who.entry, op.version)) std::rethrow_exception(declined);
    Context context(graph_, source_.file, node, *who.entry, op.version, std::move(operands), *this, where);
    if (context.signature) check_node(node, *context.signature, where);
    run_handler(context);
    for (size_t k = 0; k < context.results().size(); ++k)
      if (context.wants(k) && !context.results()[k])
        context.unsupported(context.result_text(k),
                            " is not supported; export the model so that nothing needs it");
    return context.results();
  }

  /// The results of the function for these operands.
  std::vector<Value> call(const Function& function, const onnx::NodeProto& node,
                          const std::vector<Value>& operands, const std::string& name,
                          const std::string& where) {
    const Call call{&function, scope_.call};
    for (const Call* outer = scope_.call; outer; outer = outer->outer)
      if (outer->function == &function) {
        std::string chain = function.text;
        for (const Call* step = scope_.call; step != outer->outer; step = step->outer)
          chain = step->function->text + " -> " + chain;
        fail("FE-I40", where, ": the function calls itself: ", chain, "; export the model without recursion");
      }
    const Bindings bindings = function.bind(node, where);
    Scope inside{function.opsets, bindings, &call, " in function " + function.text + ", called by " + where,
                 name + "/"};
    Builder inner(graph_, source_, readers_, expansion_, std::move(inside), nullptr);
    for (int k = 0; k < function.proto->input_size(); ++k) {
      const auto operand = static_cast<size_t>(k);
      inner.define(function.proto->input(k), operand < operands.size() ? operands[operand] : Value());
    }
    return inner.run(*function.proto, static_cast<size_t>(node.output_size()));
  }

  /// Runs the handler. Adds the place to the host's errors; an unsupported dtype of an operator becomes
  /// "unsupported".
  static void run_handler(Context& context) {
    try {
      context.entry.handler(context);
    } catch (const Failure& failure) {
      if (failure.code().starts_with("FE-I")) throw;
      int32_t status = failure.code() == "FE-G70" ? FE_EUNSUPPORTED : failure.status();
      throw Failure(status, failure.code(), context.where() + ": " + failure.what());
    }
  }

  Graph& graph_;
  const Source& source_;
  ReaderTable& readers_;
  Expansion& expansion_;
  const Scope scope_;
  Builder* const outer_;
  DeclaredTypes declared_;
  std::unordered_map<std::string, Value> values_;
  std::unordered_map<std::string, Initializer> initializers_;
};

}  // namespace

std::vector<Value> build_graph(Graph& graph, const Source& source,
                               std::span<const std::pair<std::string, Value>> inputs) {
  ReaderTable readers(source.functions, source.plugins);
  const Bindings none;
  Expansion expansion(readers);
  Builder builder(graph, source, readers, expansion, {source.opsets, none, nullptr, {}, {}}, nullptr);
  for (const auto& [name, value] : inputs) builder.define(name, value);
  return builder.run(source.graph, source.raw);
}

}  // namespace ferrite::from_onnx
