// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "build.h"

#include <queue>
#include <string_view>
#include <unordered_map>

#include "context.h"
#include "registry.h"
#include "schemas.h"

namespace ferrite::from_onnx {
namespace {

using Opsets = std::map<std::string, int64_t>;

class Builder : public Subgraphs {
 public:
  Builder(Graph& graph, const ModelFile& file, const Opsets& opsets, const Warn& warn, Builder* outer)
      : graph_(graph), file_(file), opsets_(opsets), warn_(warn), outer_(outer), declared_(file.path, warn) {}

  void define(const std::string& name, Value value) {
    if (!values_.emplace(name, value).second)
      fail("FE-I25", "'", name, "' is defined twice; the model is damaged, export it again");
  }

  std::vector<Value> run(const onnx::GraphProto& proto, std::span<const RawRange> raw) {
    if (proto.sparse_initializer_size() > 0)
      throw Failure(FE_EUNSUPPORTED, "FE-I24", "sparse initializers are not supported");
    for (int k = 0; k < proto.initializer_size(); ++k)
      initializers_.emplace(
          proto.initializer(k).name(),
          Initializer{&proto.initializer(k),
                      static_cast<size_t>(k) < raw.size() ? &raw[static_cast<size_t>(k)] : nullptr});
    declared_.add(proto);
    for (int k : order(proto)) import(proto.node(k), k);
    std::vector<Value> outputs;
    for (const auto& output : proto.output()) {
      Value value = find(output.name());
      if (!value)
        fail("FE-I25", "no node makes the output '", output.name(),
             "'; the model is damaged, export it again");
      declared_.check(output.name(), value, "the graph");
      outputs.push_back(value);
    }
    declared_.finish();
    return outputs;
  }

  std::vector<Value> inline_graph(const onnx::GraphProto& proto) override {
    Builder inner(graph_, file_, opsets_, warn_, this);
    return inner.run(proto, {});
  }

 private:
  struct Initializer {
    const onnx::TensorProto* tensor;
    const RawRange* raw;
  };

  /// The nodes so that each comes after those that it reads; as the model has them where that holds.
  std::vector<int> order(const onnx::GraphProto& proto) const {
    std::unordered_map<std::string_view, int> maker;
    for (int k = 0; k < proto.node_size(); ++k)
      for (const auto& name : proto.node(k).output())
        if (!name.empty()) maker.emplace(name, k);
    std::vector<std::vector<int>> readers(static_cast<size_t>(proto.node_size()));
    std::vector<int> missing(readers.size());
    for (int k = 0; k < proto.node_size(); ++k)
      for_each_read(proto.node(k), [&](const std::string& name) {
        auto found = maker.find(name);
        if (found == maker.end()) return;
        readers[static_cast<size_t>(found->second)].push_back(k);
        ++missing[static_cast<size_t>(k)];
      });
    std::priority_queue<int, std::vector<int>, std::greater<>> ready;
    for (int k = 0; k < proto.node_size(); ++k)
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
      fail("FE-I25", "the nodes of the graph form a cycle; the model is damaged, export it again");
    return result;
  }
  /// The names that a node reads, those of its subgraphs included.
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

  Value find(const std::string& name) {
    if (auto found = values_.find(name); found != values_.end()) return found->second;
    if (auto found = initializers_.find(name); found != initializers_.end()) {
      Value value = constant_of(graph_, file_, *found->second.tensor, found->second.raw);
      values_.emplace(name, value);
      return value;
    }
    return outer_ ? outer_->find(name) : Value();
  }

  void import(const onnx::NodeProto& node, int index) {
    const std::string domain = node.domain() == "ai.onnx" ? std::string() : node.domain();
    auto opset = opsets_.find(domain);
    const std::string op = (domain.empty() ? "" : domain + ".") + node.op_type();
    const std::string name = node.name().empty() ? node.op_type() + "_" + std::to_string(index) : node.name();
    const int64_t version = opset == opsets_.end() ? 1 : opset->second;
    std::string where = "node '" + name + "' (" + op + ", opset " + std::to_string(version) + ")";
    const OpEntry* entry = find_op(domain, node.op_type());
    if (!entry)
      throw Failure(FE_EUNSUPPORTED, "FE-I20",
                    where + ": the op is not supported; `ferrite ops` lists those that are");
    if (version < entry->first || version > entry->last)
      throw Failure(
          FE_EUNSUPPORTED, "FE-I21",
          detail::concatenate(where, ": the op is supported in opsets ", entry->first, " to ", entry->last,
                              ", not in ", version, "; convert or export the model with one of these"));
    if (const auto* signature = signature_of(domain, node.op_type(), version))
      check_node(node, *signature, where);
    std::vector<Value> operands;
    for (const auto& input : node.input()) {
      operands.push_back(input.empty() ? Value() : find(input));
      if (!input.empty() && !operands.back())
        fail("FE-I25", where, ": nothing defines its input '", input,
             "'; the model is damaged, export it again");
    }
    graph_.set_origin(name);
    Context context(graph_, file_, node, *entry, version, std::move(operands), *this, std::move(where));
    call(context);
    for (size_t k = 0; k < context.results().size(); ++k) {
      if (!context.wants(k)) continue;
      if (!context.results()[k]) context.unsupported("output ", k, " is not supported");
      declared_.check(node.output(static_cast<int>(k)), context.results()[k], context.where());
      define(node.output(static_cast<int>(k)), context.results()[k]);
    }
  }

  /// Runs the handler; what the host refuses gets the place, and a dtype that its operator lacks is unsupported.
  static void call(Context& context) {
    try {
      context.entry.handler(context);
    } catch (const Failure& failure) {
      if (failure.code().starts_with("FE-I")) throw;
      int32_t status = failure.code() == "FE-G70" ? FE_EUNSUPPORTED : failure.status();
      throw Failure(status, failure.code(), context.where() + ": " + failure.what());
    }
  }

  Graph& graph_;
  const ModelFile& file_;
  const Opsets& opsets_;
  const Warn& warn_;
  Builder* outer_;
  DeclaredTypes declared_;
  std::unordered_map<std::string, Value> values_;
  std::unordered_map<std::string, Initializer> initializers_;
};

}  // namespace

std::vector<Value> build_graph(Graph& graph, const ModelFile& file, const onnx::GraphProto& proto,
                               std::span<const RawRange> raw, const std::map<std::string, int64_t>& opsets,
                               std::span<const std::pair<std::string, Value>> inputs, const Warn& warn) {
  Builder builder(graph, file, opsets, warn, nullptr);
  for (const auto& [name, value] : inputs) builder.define(name, value);
  return builder.run(proto, raw);
}

}  // namespace ferrite::from_onnx
