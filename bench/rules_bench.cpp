// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The cost of rules and passes by the size of the graph.
//
//   rules_bench [--rounds N] [--json FILE [--commit ID]]
//   rules_bench --limit RATIO [--rounds N]
//
// The second form runs the passes alone and exits with 1 if the C interface costs more than RATIO times the
// same work in the core.
//
// rules: 200 rules over graphs of 1,000 to 100,000 nodes are applied until none applies, and the touched
// nodes are verified, as the pass gate does. In "dense" one node in eight is rewritten. In "bare" no rule
// applies, and rules whose ops match get as far as their conditions. "choice" is "bare" with four nested
// alternatives in each term.
//
// passes: a pass reads every node of 10,000 and replaces one in ten, once through the C interface of the SDK
// and once in a loop in the core.
//
// Each figure is the fastest of N rounds (9), in processor time of this thread.
#include <ctime>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "core/ir/graph/api.h"
#include "core/ir/graph/infer.h"
#include "core/ir/graph/verify.h"
#include "core/passes/rewrite/apply.h"
#include "ferrite/graph.hpp"
#include "tests/core/passes/rewrite_ops.h"

namespace ferrite::bench {
namespace {

using namespace ferrite::core;

[[noreturn]] void stop(const core::Error& error) {
  fmt::print(stderr, "{}\n", error.message());
  std::exit(1);
}
template <class T>
T must(Result<T> result) {
  if (!result) stop(result.error());
  return std::move(*result);
}
void must(Result<void> result) {
  if (!result) stop(result.error());
}

double milliseconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) * 1e3 + static_cast<double>(time.tv_nsec) * 1e-6;
}

/// The ops of the graphs, in turns: two operands, or one.
constexpr std::string_view binary[] = {"add", "mul", "sub"},
                           unary[] = {"neg", "relu", "scale", "cast", "log"};
constexpr size_t period = std::size(binary) + std::size(unary);

/// A chain with second operands from a few nodes before, as in models; `size` nodes of f32[2,3].
graph::Graph make_graph(const graph::OpRegistry& registry, size_t size) {
  graph::Graph graph;
  graph::TensorType type;
  type.dtype = DType::f32_;
  type.dims = {2, 3};
  std::vector<graph::ValueId> values{must(graph.add_input("x", type))};
  for (size_t k = 0; k < size; ++k) {
    graph::NodeSpec spec;
    const size_t turn = k * 5 % period;
    const bool two = turn < std::size(binary);
    spec.op = two ? binary[turn] : unary[turn - std::size(binary)];
    spec.operands = {values.back()};
    if (two) spec.operands.push_back(values[values.size() > 8 ? values.size() - 1 - k % 7 : 0]);
    if (spec.op == "scale") spec.attributes.push_back({"axis", static_cast<int64_t>(k % 10)});
    if (spec.op == "cast") spec.attributes.push_back({"dtype", DType::f32_});
    spec.origin = fmt::format("Node_{}", k);
    values.push_back(graph.node(must(graph::make_inferred(graph, registry, std::move(spec)))).results[0]);
  }
  must(graph.add_output("y", values.back()));
  graph.commit();
  return graph;
}

/// Dense: the rules for scale apply. Bare: none does. Choice: none does, and each term has four alternatives.
enum class Kind : uint8_t { dense, bare, choice };
constexpr std::string_view kind_names[] = {"dense", "bare", "choice"};

/// 200 rules, each for an op over another, 25 for each op.
std::string make_rules(Kind kind) {
  std::string text;
  for (size_t k = 0; k < 200; ++k) {
    const size_t root = k % period, inner = k / period % period;
    const auto term = [](size_t op, std::string_view first, std::string_view second) {
      return op < std::size(binary) ? fmt::format("{}({}, {})", binary[op], first, second)
                                    : fmt::format("{}({})", unary[op - std::size(binary)], first);
    };
    const std::string_view name = root < std::size(binary) ? binary[root] : unary[root - std::size(binary)];
    const auto terms = [&](size_t op, std::string_view first, std::string_view second) {
      std::string alternatives = term(op, first, second);
      for (size_t more = 1; kind == Kind::choice && more < 4; ++more)
        alternatives += " | " + term((op + 2 * more) % period, first, second);
      return alternatives;
    };
    const bool takes = kind == Kind::dense && name == "scale";
    text += fmt::format(
        "rule bench.rule_{} at post_grad_pre {{\n"
        "  match {{ %a = {}\n %r = {} }}\n"
        "  where {{ dtype(%x) == f32, rank(%x) == 2, dim(%x, 0) == {} }}\n"
        "  yield {{ %r = {} }}\n}}\n",
        k, terms(inner, "%x", "%y"), terms(root, "%a", "%z"), takes ? 2 : 3 + k,
        name == "neg" ? "relu(%a)" : "neg(%a)");
  }
  return text;
}

struct RulesRow {
  std::string kind;
  size_t nodes = 0, applications = 0;
  double ms = 0;
};

RulesRow measure_rules(const graph::OpRegistry& registry, Kind kind, size_t nodes, int rounds) {
  const auto rules = must(rewrite::compile_rules(make_rules(kind), "bench.rules", {}, registry));
  const graph::Graph original = make_graph(registry, nodes);
  RulesRow row{std::string(kind_names[static_cast<size_t>(kind)]), nodes, 0, 1e30};
  for (int round = 0; round < rounds; ++round) {
    graph::Graph graph = original;
    Ledger ledger;
    const double start = milliseconds();
    const auto mark = graph.mark();
    row.applications =
        must(rewrite::apply_rules(rules, "post_grad_pre", graph, registry, ledger, "bench", {}));
    must(graph::verify(graph, registry, graph.touched(mark)));
    row.ms = std::min(row.ms, milliseconds() - start);
  }
  return row;
}

/// What both loops read of a node: its op and its attributes, and type, readers and producer of each operand.
/// Kept, so that neither can leave it out.
struct Seen {
  size_t ops = 0, attributes = 0, operands = 0, dims = 0, floats = 0, readers = 0, constants = 0, inputs = 0;
  friend bool operator==(const Seen&, const Seen&) = default;
};
constexpr size_t one_in = 10;

/// Replaces each tenth node by a relu of its operand.
Seen pass_of_sdk(ferrite::Graph& graph) {
  Seen seen;
  size_t number = 0;
  for (ferrite::Node node : graph.nodes()) {
    const fe_node_view view = node.view();
    seen.ops += ferrite::from_abi(view.op).size();
    if (ferrite::AttrView(view.attrs).find("axis")) ++seen.attributes;
    for (size_t k = 0; k < view.operands.count; ++k) {
      const ferrite::Value operand(&graph, ferrite::element<fe_value>(view.operands, k));
      const fe_value_view value = operand.view();
      for (uint32_t d = 0; d < value.type.rank; ++d) seen.dims += static_cast<size_t>(value.type.dims[d]);
      seen.floats += value.type.dtype == static_cast<fe_dtype>(DType::f32_);
      seen.readers += value.use_count;
      seen.constants += value.constant != 0;
      seen.inputs += value.producer == 0;
      ++seen.operands;
    }
    if (++number % one_in != 0) continue;
    const ferrite::Value first(&graph, ferrite::element<fe_value>(view.operands, 0)),
        old(&graph, ferrite::element<fe_value>(view.results, 0));
    graph.set_insertion(node);
    graph.replace_uses(old, graph.make("relu", {first}));
    graph.erase(node);
  }
  return seen;
}

Seen loop_in_core(graph::Graph& graph, const graph::OpRegistry& registry) {
  Seen seen;
  size_t number = 0;
  for (const graph::NodeId id : graph.nodes()) {
    const graph::Node& node = graph.node(id);
    seen.ops += graph.op_name(node.op).size();
    if (node.find("axis")) ++seen.attributes;
    for (const graph::ValueId operand : node.operands) {
      const graph::Value& value = graph.value(operand);
      for (const graph::Dim dim : value.type.dims) seen.dims += static_cast<size_t>(dim);
      seen.floats += value.type.dtype == DType::f32_;
      seen.readers += value.uses.size();
      seen.constants += value.constant != nullptr;
      seen.inputs += !value.producer;
      ++seen.operands;
    }
    if (++number % one_in != 0) continue;
    graph::NodeSpec spec;
    spec.op = "relu";
    spec.operands = {node.operands[0]};
    spec.before = id;
    spec.origin = node.origin;
    const graph::ValueId old = node.results[0];
    const auto made = must(graph::make_inferred(graph, registry, std::move(spec)));
    must(graph.replace_uses(old, graph.node(made).results[0]));
    must(graph.erase(id));
  }
  return seen;
}

struct PassRow {
  size_t nodes = 0;
  double core_ms = 1e30, abi_ms = 1e30;
  double ratio() const { return abi_ms / core_ms; }
};

PassRow measure_passes(const graph::OpRegistry& registry, size_t nodes, int rounds) {
  const graph::Graph original = make_graph(registry, nodes);
  PassRow row{nodes};
  for (int round = 0; round < rounds; ++round) {
    graph::Graph first = original, second = original;
    Seen by_core, by_abi;
    const auto in_core = [&] {
      const double start = milliseconds();
      by_core = loop_in_core(first, registry);
      row.core_ms = std::min(row.core_ms, milliseconds() - start);
    };
    const auto through_abi = [&] {
      graph::GraphApi api(second, registry);
      const double start = milliseconds();
      ferrite::Graph view(api.api());
      by_abi = pass_of_sdk(view);
      row.abi_ms = std::min(row.abi_ms, milliseconds() - start);
    };
    // Neither always finds the caches and the heap as the other left them.
    if (round % 2 == 0) {
      in_core();
      through_abi();
    } else {
      through_abi();
      in_core();
    }
    if (by_core == by_abi && graph::equal(first, second)) continue;
    fmt::print(stderr, "the two loops did not do the same\n");
    std::exit(1);
  }
  return row;
}

std::string processor() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  return "unknown";
}

/// Whether reading each node of 10,000 and editing one in ten costs at most `limit` times what it costs in
/// the core.
int check_passes(int rounds, double limit) {
  const rewrite::test::Ops ops;
  const PassRow row = measure_passes(ops.registry(), 10'000, rounds);
  fmt::print("{} nodes: {:.3f} ms in the core, {:.3f} ms through the interface: {:.2f} times, at most {}\n",
             row.nodes, row.core_ms, row.abi_ms, row.ratio(), limit);
  return row.ratio() <= limit ? 0 : 1;
}

int run(int rounds, const std::string& json_file, const std::string& commit) {
  const rewrite::test::Ops ops;
  nlohmann::ordered_json rules = nlohmann::ordered_json::array(), passes = rules;
  fmt::print("{:<7} {:>9} {:>13} {:>10} {:>9}\n", "rules", "nodes", "applications", "ms", "us/node");
  for (const Kind kind : {Kind::dense, Kind::bare, Kind::choice})
    for (const size_t nodes : {1'000, 10'000, 100'000}) {
      const RulesRow row = measure_rules(ops.registry(), kind, nodes, rounds);
      const double each = row.ms * 1e3 / static_cast<double>(row.nodes);
      fmt::print("{:<7} {:>9} {:>13} {:>10.3f} {:>9.3f}\n", row.kind, row.nodes, row.applications, row.ms,
                 each);
      rules.push_back({{"kind", row.kind},
                       {"rules", 200},
                       {"nodes", row.nodes},
                       {"applications", row.applications},
                       {"ms", row.ms},
                       {"us_per_node", each}});
    }
  fmt::print("{:<7} {:>9} {:>13} {:>10} {:>9}\n", "passes", "nodes", "core ms", "ABI ms", "ratio");
  for (const size_t nodes : {1'000, 10'000, 100'000}) {
    const PassRow row = measure_passes(ops.registry(), nodes, rounds);
    fmt::print("{:<7} {:>9} {:>13.3f} {:>10.3f} {:>9.2f}\n", "", row.nodes, row.core_ms, row.abi_ms,
               row.ratio());
    passes.push_back(
        {{"nodes", row.nodes}, {"core_ms", row.core_ms}, {"abi_ms", row.abi_ms}, {"ratio", row.ratio()}});
  }
  if (json_file.empty()) return 0;
  const nlohmann::ordered_json all = {{"command", fmt::format("rules_bench --rounds {}", rounds)},
                                      {"commit", commit},
                                      {"cpu", processor()},
                                      {"rules", rules},
                                      {"passes", passes}};
  std::ofstream(json_file) << all.dump(2) << "\n";
  return 0;
}

}  // namespace
}  // namespace ferrite::bench

int main(int count, char** arguments) {
  int rounds = 9;
  double limit = 0;
  std::string json, commit;
  for (int k = 1; k + 1 < count; k += 2) {
    const std::string_view option = arguments[k];
    if (option == "--rounds") rounds = std::atoi(arguments[k + 1]);
    if (option == "--limit") limit = std::atof(arguments[k + 1]);
    if (option == "--json") json = arguments[k + 1];
    if (option == "--commit") commit = arguments[k + 1];
  }
  rounds = std::max(rounds, 1);
  return limit > 0 ? ferrite::bench::check_passes(rounds, limit) : ferrite::bench::run(rounds, json, commit);
}
