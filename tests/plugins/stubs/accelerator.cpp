// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The compiler of an accelerator that takes whole regions of a graph and no loops: element by element, static
// shapes, f32. Between its regions tensors stay in its own layout. It needs no device, so that it can run in
// a process of its own.
#include "accelerator.h"

#include <algorithm>
#include <map>
#include <optional>

#include "ferrite/flat_graph.hpp"
#include "ferrite/plugin.hpp"

namespace acme {
namespace {

using namespace ferrite;

FlatGraph read(Bytes bytes) {
  std::string error;
  auto graph = read_graph(bytes, &error);
  if (!graph) fail("acme.npu/graph", "the graph cannot be read: ", error);
  return std::move(*graph);
}

int64_t elements_of(const FlatGraph::Value& value) {
  int64_t count = 1;
  for (int64_t dim : value.dims) count *= dim;
  return count;
}

std::optional<Operation> operation_of(const FlatGraph& graph, const FlatGraph::Node& node) {
  static const std::map<std::string_view, Operation> known = {{"relu", Operation::relu},
                                                              {"sigmoid", Operation::sigmoid},
                                                              {"add", Operation::add},
                                                              {"sub", Operation::sub},
                                                              {"mul", Operation::mul}};
  const auto found = known.find(node.op);
  if (found == known.end() || node.results != 1 || !node.attributes.empty()) return {};
  const auto& result = graph.values()[node.first_result];
  for (uint32_t operand : node.operands) {
    if (operand == FE_NONE32) return {};
    const auto& value = graph.values()[operand];
    // No broadcast: every operand is of the result's shape.
    if (value.dtype != f32 || !value.is_static() || !std::ranges::equal(value.dims, result.dims)) return {};
  }
  return found->second;
}

class Compiler final : public RegionProvider {
 public:
  Compiler(int64_t most, bool greedy, std::string refused)
      : most_(static_cast<size_t>(most)), greedy_(greedy), refused_(std::move(refused)) {}
  std::string id() const override { return "acme.npu"; }
  std::string device_kind() const override { return "npu"; }
  std::unique_ptr<Target> open_target(Bytes) override {
    auto target = std::make_unique<Target>();
    target->name = "element by element";
    return target;
  }
  std::string fingerprint() override { return "acme.npu 1"; }

  /// Connected nodes between which nothing else lies: a node's level counts how often a path to it goes into
  /// or out of what is taken, so that nodes of one level make regions that no path leaves and enters again.
  std::vector<Claim> claim(Target&, Bytes bytes) override {
    const auto graph = read(bytes);
    const size_t count = graph.nodes().size();
    std::vector<int64_t> level(count), region(count, -1);
    std::vector<bool> taken(count);
    std::vector<Claim> claims;
    for (size_t k = 0; k < count; ++k) {
      const auto& node = graph.nodes()[k];
      taken[k] = operation_of(graph, node).has_value();
      for (uint32_t operand : node.operands) {
        const uint32_t from = operand == FE_NONE32 ? FE_NONE32 : graph.values()[operand].producer;
        if (from != FE_NONE32) level[k] = std::max(level[k], level[from] + (taken[from] != taken[k]));
      }
      if (!taken[k]) continue;
      for (uint32_t operand : node.operands) {
        const uint32_t from = graph.values()[operand].producer;
        if (from == FE_NONE32 || !taken[from] || level[from] != level[k] || region[k] >= 0) continue;
        if (claims[static_cast<size_t>(region[from])].nodes.size() < most_ &&
            is_last(claims, region[from], from))
          region[k] = region[from];
      }
      if (region[k] < 0) {
        region[k] = static_cast<int64_t>(claims.size());
        auto& made = claims.emplace_back();
        made.name = "elementwise";
      }
      claims[static_cast<size_t>(region[k])].nodes.push_back(static_cast<uint32_t>(k));
    }
    if (greedy_) claims.insert(claims.begin(), everything(claims));
    for (auto& made : claims) {
      for (uint32_t k : made.nodes) {
        const auto& node = graph.nodes()[k];
        const int64_t elements = elements_of(graph.values()[node.first_result]);
        made.cost += (made.name == "everything" ? 1e-12 : 1e-9) * static_cast<double>(elements);
        auto tiled = [&](uint32_t value) {
          made.layouts.push_back({value, std::string(tiles), tiled_elements(elements) * 4});
        };
        tiled(node.first_result);
        for (uint32_t operand : node.operands) tiled(operand);
      }
    }
    return claims;
  }

  CompileResult compile(Target&, const CompileRequest& request) override {
    const auto graph = read(request.kernel);
    std::map<uint32_t, int64_t> slots;
    std::vector<Tensor> tensors;
    auto add = [&](uint32_t value) {
      const auto& v = graph.values()[value];
      if (v.layout == FE_LAYOUT_OPAQUE && v.tag != tiles)
        fail("acme.npu/layout", "the layout '", v.tag, "' is not known");
      slots[value] = static_cast<int64_t>(tensors.size());
      tensors.push_back({elements_of(v), v.layout == FE_LAYOUT_OPAQUE});
    };
    for (size_t k = 0; k < graph.inputs().size() + graph.constants().size(); ++k)
      add(static_cast<uint32_t>(k));
    for (const auto& output : graph.outputs()) add(output.value);
    const auto arguments = static_cast<int64_t>(tensors.size());
    std::vector<Step> steps;
    for (const auto& node : graph.nodes()) {
      const auto operation = operation_of(graph, node);
      if (!operation) fail("acme.npu/graph", "'", node.op, "' was not claimed");
      if (node.op == refused_)
        fail("acme.npu/refused", "'", node.op, "' is not compiled, as the manifest says");
      if (!slots.count(node.first_result)) add(node.first_result);
      steps.push_back({*operation, slots.at(node.operands.front()), slots.at(node.operands.back()),
                       slots.at(node.first_result)});
    }
    const Head head{magic, arguments, static_cast<int64_t>(tensors.size()) - arguments,
                    static_cast<int64_t>(steps.size())};
    CompileResult result;
    auto put = [&](const void* data, size_t size) {
      result.blob.append(static_cast<const char*>(data), size);
    };
    put(&head, sizeof head);
    put(tensors.data(), tensors.size() * sizeof(Tensor));
    put(steps.data(), steps.size() * sizeof(Step));
    // Which program is meant, the runtime finds by its name.
    result.blob.append(request.entry);
    return result;
  }

 private:
  /// A region grows at its end only, so that it stays a chain and what leaves it does not come back.
  static bool is_last(const std::vector<Claim>& claims, int64_t region, uint32_t node) {
    return claims[static_cast<size_t>(region)].nodes.back() == node;
  }

  /// All regions as one, for a song: the host takes it only where nothing lies between them.
  static Claim everything(const std::vector<Claim>& claims) {
    Claim all;
    all.name = "everything";
    for (const auto& claim : claims)
      all.nodes.insert(all.nodes.end(), claim.nodes.begin(), claim.nodes.end());
    std::ranges::sort(all.nodes);
    return all;
  }

  size_t most_;
  bool greedy_;
  std::string refused_;
};

}  // namespace
}  // namespace acme

FERRITE_PLUGIN("acme.npu", "1.0.0",
               [](ferrite::PluginBuilder& builder, const ferrite::PluginContext& context) {
                 const auto& config = context.config;
                 const bool greedy = config.has("greedy") && config.boolean("greedy");
                 std::string refused(config.has("refuses") ? config.string("refuses") : "");
                 builder.add(
                     std::make_unique<acme::Compiler>(config.integer("most", 8), greedy, std::move(refused)));
               })
