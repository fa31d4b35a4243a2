// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// L2 of type rules, decompositions and lowerings.
#include <limits>
#include <optional>

#include "core/ir/graph/api.h"
#include "core/ir/graph/infer.h"
#include "core/ir/graph/print.h"
#include "core/ir/loop/record.h"
#include "core/ir/text/print_loops.h"
#include "ferrite/counted.hpp"
#include "tools/plugin_check/hostile.h"
#include "tools/plugin_check/subject.h"

namespace ferrite::core::plugin_check {
namespace {

constexpr size_t most_refused_by_op = 48;  // calls of one callback
constexpr size_t thread_rounds = 3;

/// A node of an op's samples, and the plugin's callbacks for it.
struct Trial {
  const graph::OpInfo* op;
  const graph::Graph* graph;
  graph::NodeId node;
  bool own_op;                            ///< the plugin defines the op
  const fe_lowering* lowering;            ///< of another plugin's op; null: the op's own
  const fe_decomposition* decomposition;  ///< likewise
  std::string name() const { return fmt::format("{} of {}", op->name, graph->describe(node)); }
};

/// An instance whose structs are those of a later version.
class EnlargedInstance {
 public:
  explicit EnlargedInstance(const fe_instance& given)
      : operands_(given.operands), results_(given.results), attributes_(given.attrs), instance_(given) {
    instance_.get()->operands = operands_.get();
    instance_.get()->results = results_.get();
    instance_.get()->attrs = attributes_.get();
  }
  EnlargedInstance(const EnlargedInstance&) = delete;
  const fe_instance* get() { return instance_.get(); }

 private:
  EnlargedArray<fe_value_view> operands_, results_;
  EnlargedArray<fe_attr> attributes_;
  Enlarged<fe_instance> instance_;
};

/// The types that a type rule returns, as text.
Result<std::string> infer(const graph::OpInfo& op, const fe_instance& instance, Treatment& treatment) {
  struct Collected {
    Treatment& treatment;
    std::string text;
  } collected{treatment, {}};
  EnlargedInstance larger_instance(instance);
  auto args = abi::sized<fe_infer_args>();
  args.op = treatment.larger ? larger_instance.get() : &instance;
  auto out = abi::sized<fe_infer_out>();
  out.host = &collected;
  out.add = [](void* host, const fe_tensor_type* type) -> int32_t {
    auto& to = *static_cast<Collected*>(host);
    if (++to.treatment.calls == to.treatment.refused || !type) return FE_EINVALID;
    to.text += fmt::format("{} {}", type->dtype, type->rank);
    for (uint32_t k = 0; type->dims && k < type->rank && k < 64; ++k)
      to.text += fmt::format(" {}", type->dims[k]);
    to.text += "\n";
    return FE_OK;
  };
  Enlarged<fe_infer_args> larger_args(args);
  Enlarged<fe_infer_out> larger_out(out);
  abi::Call call;
  const int32_t status = op.def.infer(op.def.self, call.get(), treatment.larger ? larger_args.get() : &args,
                                      treatment.larger ? larger_out.get() : &out);
  treatment.intact = larger_args.intact() && larger_out.intact();
  if (status != FE_OK) return call.error(status, "FE-G16", "the type rule failed");
  return collected.text;
}

/// The loop program that a lowering records, as text.
Result<std::string> lower(const Trial& trial, Treatment& treatment) {
  const auto& graph = *trial.graph;
  const auto& node = graph.node(trial.node);
  loop::LoopProgram program;
  auto add_buffer = [&](graph::ValueId value, loop::Role role) {
    auto& buffer = program.buffers.emplace_back();
    buffer.dtype = graph.type(value).dtype;
    buffer.dims = graph.type(value).dims;
    buffer.strides = ferrite::loop::contiguous_strides(buffer.dims);
    buffer.kind = role == loop::Role::input ? FE_BUFFER_INPUT : FE_BUFFER_OUTPUT;
    buffer.role = role;
    return static_cast<loop::BufferId>(program.buffers.size() - 1);
  };
  std::vector<loop::BufferId> operands, results;
  for (const auto operand : node.operands) {
    operands.push_back(operand ? add_buffer(operand, loop::Role::input) : loop::none);
    if (!operand) continue;
    program.buffers[operands.back()].number = static_cast<uint32_t>(program.inputs.size());
    program.inputs.push_back(operands.back());
  }
  for (const auto result : node.results) results.push_back(add_buffer(result, loop::Role::temporary));
  loop::Recorder recorder(program);
  recorder.bind(operands, results, {trial.node.bits, trial.op->name, node.origin});
  Refusing<fe_lower_api> refusing(*recorder.api(), treatment.refused);
  wrap_all(refusing);
  Enlarged<fe_lower_api> table(*refusing.get());
  const graph::InstanceView view(graph, trial.node,
                                 trial.lowering ? abi::view(trial.lowering->device) : std::string_view());
  EnlargedInstance larger_instance(*view.get());
  auto args = abi::sized<fe_lowering_args>();
  args.lower = treatment.larger ? table.get() : refusing.get();
  args.op = treatment.larger ? larger_instance.get() : view.get();
  auto out = abi::sized<fe_none>();
  Enlarged<fe_lowering_args> larger_args(args);
  Enlarged<fe_none> larger_out(out);
  abi::Call call;
  const auto slot = trial.lowering ? trial.lowering->lower : trial.op->def.lower;
  const int32_t status =
      slot(trial.lowering ? trial.lowering->self : trial.op->def.self, call.get(),
           treatment.larger ? larger_args.get() : &args, treatment.larger ? larger_out.get() : &out);
  treatment.calls = refusing.calls();
  treatment.intact = larger_args.intact() && larger_out.intact() && table.intact();
  if (status != FE_OK) {
    const auto recorded = recorder.error();
    recorder.cancel();
    return recorded ? *recorded : call.error(status, "FE-K10", "its lowering failed");
  }
  FE_TRY(program.outputs, recorder.finish());
  return loop::print(program);
}

/// The graph in which a decomposition replaces the node, as text.
Result<std::string> decompose(const Trial& trial, Treatment& treatment) {
  graph::Graph graph(*trial.graph);
  const graph::InstanceView view(graph, trial.node);
  graph::GraphApi api(graph, *treatment.ops);
  Refusing<fe_graph_api> refusing(*api.api(), treatment.refused);
  wrap_all(refusing);
  Enlarged<fe_graph_api> table(*refusing.get());
  EnlargedInstance larger_instance(*view.get());
  std::vector<fe_value> replacements(graph.node(trial.node).results.size());
  auto args = abi::sized<fe_decompose_args>();
  args.graph = treatment.larger ? table.get() : refusing.get();
  args.op = treatment.larger ? larger_instance.get() : view.get();
  args.node = trial.node.bits;
  auto out = abi::sized<fe_decompose_out>();
  out.results = replacements.data();
  out.capacity = replacements.size();
  Enlarged<fe_decompose_args> larger_args(args);
  Enlarged<fe_decompose_out> larger_out(out);
  abi::Call call;
  const auto slot = trial.decomposition ? trial.decomposition->decompose : trial.op->def.decompose;
  const int32_t status =
      slot(trial.decomposition ? trial.decomposition->self : trial.op->def.self, call.get(),
           treatment.larger ? larger_args.get() : &args, treatment.larger ? larger_out.get() : &out);
  treatment.calls = refusing.calls();
  treatment.intact = larger_args.intact() && larger_out.intact() && table.intact();
  if (status != FE_OK) return call.error(status, "FE-G25", "its decomposition failed");
  for (const auto value : replacements)
    if (!graph.find(graph::ValueId{value}))
      return error(FE_EINTERNAL, "FE-P11", "its decomposition gives no value");
  return graph::print(graph);
}

using Callback = Result<std::string> (*)(const Trial&, Treatment&);

Result<std::string> infer_node(const Trial& trial, Treatment& treatment) {
  const auto& node = trial.graph->node(trial.node);
  const graph::InstanceView view(*trial.graph, trial.op->name, node.operands, node.attributes);
  return infer(*trial.op, *view.get(), treatment);
}

/// The callbacks of a trial that belong to the plugin.
std::vector<Callback> callbacks_of(const Trial& trial) {
  std::vector<Callback> result;
  if (trial.own_op) result.push_back(infer_node);
  if (trial.decomposition || (trial.own_op && trial.op->def.decompose)) result.push_back(decompose);
  if (trial.lowering || (trial.own_op && trial.op->def.lower)) result.push_back(lower);
  return result;
}

std::string outcome_of(const Result<std::string>& result) {
  return result ? *result : "error: " + result.error().message();
}

std::string run(Callback callback, const Trial& trial, Treatment& treatment, const graph::OpRegistry& ops) {
  treatment.ops = &ops;
  return outcome_of(callback(trial, treatment));
}

Verdict larger_structs(const std::vector<Trial>& trials, const graph::OpRegistry& ops) {
  size_t calls = 0;
  for (const auto& trial : trials)
    for (const auto callback : callbacks_of(trial)) {
      Treatment plain, larger;
      larger.larger = true;
      const auto expected = run(callback, trial, plain, ops);
      const auto given = run(callback, trial, larger, ops);
      ++calls;
      if (!larger.intact)
        return error(FE_EINVALID, "FE-P46",
                     "{}: it writes past the end of the structs that it is given: use their 'size', and that "
                     "of this version",
                     trial.name());
      if (given != expected)
        return error(
            FE_EINVALID, "FE-P46",
            "{}: with structs and arrays of a later version it gives another result: step through arrays "
            "by their stride",
            trial.name());
    }
  return Verdict::passed(counted(calls, "call"));
}

Verdict refused(const std::vector<Trial>& trials, const graph::OpRegistry& ops) {
  size_t tried = 0;
  for (const auto& trial : trials)
    for (const auto callback : callbacks_of(trial)) {
      Treatment plain;
      const auto expected = run(callback, trial, plain, ops);
      for (size_t k : refused_calls(plain.calls, most_refused_by_op)) {
        Treatment treatment;
        treatment.refused = k;
        const auto given = run(callback, trial, treatment, ops);
        ++tried;
        if (callback == infer_node && !given.starts_with("error: "))
          return error(FE_EINVALID, "FE-P47",
                       "{}: when type {} is refused, its type rule says that all is well", trial.name(), k);
      }
      Treatment after;
      if (run(callback, trial, after, ops) != expected)
        return error(FE_EINVALID, "FE-P47",
                     "{}: after calls of the host were refused it gives another result", trial.name());
    }
  return Verdict::passed(counted(tried, "call"));
}

Verdict two_threads(const std::vector<Trial>& trials, const graph::OpRegistry& ops) {
  std::vector<std::string> expected;
  for (const auto& trial : trials)
    for (const auto callback : callbacks_of(trial)) {
      Treatment plain;
      expected.push_back(run(callback, trial, plain, ops));
    }
  FE_CHECK(in_two_threads([&] {
    std::string fault;
    for (size_t round = 0; round < thread_rounds; ++round) {
      size_t next = 0;
      for (const auto& trial : trials)
        for (const auto callback : callbacks_of(trial)) {
          Treatment plain;
          if (run(callback, trial, plain, ops) != expected[next++] && fault.empty())
            fault = trial.name() + " gives another result";
        }
    }
    return fault;
  }));
  return Verdict::passed(counted(expected.size() * 2 * thread_rounds, "call"));
}

/// Operands and attributes that no model should have: the type rule must return types or an error.
class OddInstances {
 public:
  explicit OddInstances(const Trial& trial)
      : trial_(trial),
        view_(*trial.graph, trial.op->name, trial.graph->node(trial.node).operands,
              trial.graph->node(trial.node).attributes) {}

  size_t run() {
    const auto& given = *view_.get();
    for (size_t k = 0; k < given.operands.count; ++k) {
      const auto operand = abi::element<fe_value_view>(given.operands, k);
      if (!operand.handle) continue;
      for (const auto dtype :
           {boolean, i8, i64, u64, f16, f64, DType::c128_, DType::i4_, static_cast<DType>(999)})
        with_operand(k, [&](fe_value_view& view) { view.type.dtype = static_cast<fe_dtype>(dtype); });
      constexpr int64_t large = int64_t{1} << 55;
      for (const auto& dims : {std::vector<int64_t>{},
                               {0},
                               {1, 1, 1, 1, 1, 1, 1, 1},
                               {3, 0, 5},
                               {large, large},
                               {2, large, 2},
                               {-1, -2}}) {
        with_operand(k, [&](fe_value_view& view) {
          view.type.dims = dims.data();
          view.type.rank = static_cast<uint32_t>(dims.size());
        });
      }
    }
    for (size_t k = 0; k < given.attrs.count; ++k) {
      constexpr int64_t least = std::numeric_limits<int64_t>::min(),
                        most = std::numeric_limits<int64_t>::max();
      for (int64_t value : {int64_t{-1}, int64_t{0}, int64_t{1}, int64_t{64}, least, most})
        with_attribute(k, value);
    }
    return calls_;
  }

 private:
  template <class Change>
  void with_operand(size_t k, Change change) {
    std::vector<fe_value_view> operands;
    for (size_t j = 0; j < view_.get()->operands.count; ++j)
      operands.push_back(abi::element<fe_value_view>(view_.get()->operands, j));
    // The contents would not be those of the other type.
    operands[k].constant = FE_CONSTANT_NONE;
    operands[k].data = nullptr;
    operands[k].data_bytes = 0;
    change(operands[k]);
    fe_instance instance = *view_.get();
    instance.operands = abi::array(operands);
    call(instance);
  }

  void with_attribute(size_t k, int64_t value) {
    std::vector<fe_attr> attributes;
    for (size_t j = 0; j < view_.get()->attrs.count; ++j)
      attributes.push_back(abi::element<fe_attr>(view_.get()->attrs, j));
    auto& changed = attributes[k];
    std::vector<int64_t> integers(changed.list.count, value);
    std::vector<double> numbers(changed.list.count, static_cast<double>(value));
    if (changed.kind == FE_ATTR_INTS) changed.list = abi::array(integers);
    if (changed.kind == FE_ATTR_FLOATS) changed.list = abi::array(numbers);
    if (changed.kind == FE_ATTR_INT) changed.i = value;
    if (changed.kind == FE_ATTR_FLOAT) changed.f = static_cast<double>(value);
    if (changed.kind == FE_ATTR_DTYPE) changed.i = value & 0xffff;
    fe_instance instance = *view_.get();
    instance.attrs = abi::array(attributes);
    call(instance);
    // One element more, and no elements.
    if (changed.kind != FE_ATTR_INTS) return;
    integers.push_back(value);
    changed.list = abi::array(integers);
    instance.attrs = abi::array(attributes);
    call(instance);
    changed.list = {};
    call(instance);
  }

  void call(const fe_instance& instance) {
    Treatment plain;
    static_cast<void>(infer(*trial_.op, instance, plain));
    ++calls_;
  }

  const Trial& trial_;
  graph::InstanceView view_;
  size_t calls_ = 0;
};

}  // namespace

void wrap_all(Refusing<fe_lower_api>& table) {
  table.wrap<&fe_lower_api::temp>();
  table.wrap<&fe_lower_api::begin>();
  table.wrap<&fe_lower_api::end>();
  table.wrap<&fe_lower_api::index>();
  table.wrap<&fe_lower_api::load>();
  table.wrap<&fe_lower_api::constant>();
  table.wrap<&fe_lower_api::prim>();
  table.wrap<&fe_lower_api::index_value>();
  table.wrap<&fe_lower_api::indirect>();
  table.wrap<&fe_lower_api::reduce>();
  table.wrap<&fe_lower_api::contract>();
  table.wrap<&fe_lower_api::carry>();
  table.wrap<&fe_lower_api::set_carry>();
  table.wrap<&fe_lower_api::store>();
  table.wrap<&fe_lower_api::call>();
}

void check_hostile_ops(const CheckOptions&, const Subject& subject, Runner& runner) {
  const auto& registry = subject.registry();
  struct Wanted {
    const graph::OpInfo* op;
    const fe_lowering* lowering = nullptr;
    const fe_decomposition* decomposition = nullptr;
  };
  std::vector<Wanted> wanted;
  for (const auto* op : subject.ops()) wanted.push_back({op});
  for (const auto* op : registry.ops().all())
    for (const auto& entry : registry.decompositions(op->name))
      if (entry.plugin == &subject.plugin()) wanted.push_back({op, nullptr, entry.table});
  for (const auto* lowering : subject.lowerings())
    if (const auto* op = registry.ops().find(abi::view(lowering->op))) wanted.push_back({op, lowering});
  if (wanted.empty()) return;

  std::vector<std::unique_ptr<graph::Graph>> graphs;
  std::vector<Trial> trials;
  auto with_trials = [&](std::string_view name, const std::function<Verdict()>& check) {
    runner.run(name, [&]() -> Verdict {
      for (const auto& [op, lowering, decomposition] : trials.empty() ? wanted : decltype(wanted)()) {
        auto samples = samples_of(*op, registry.ops());
        if (!samples) continue;  // L3 reports it
        for (auto& sample : *samples) {
          const auto& graph = *graphs.emplace_back(std::make_unique<graph::Graph>(std::move(sample)));
          for (const auto node : graph.nodes())
            if (graph.op(node) == op->name)
              trials.push_back({op, &graph, node,
                                op->plugin == subject.plugin().id && !lowering && !decomposition, lowering,
                                decomposition});
        }
      }
      if (trials.empty()) return Verdict::skipped("no op has samples");
      return check();
    });
  };
  with_trials("ops: larger structs", [&] { return larger_structs(trials, registry.ops()); });
  with_trials("ops: refused host calls", [&] { return refused(trials, registry.ops()); });
  with_trials("ops: odd operands and attributes", [&] {
    size_t calls = 0;
    for (const auto& trial : trials)
      if (trial.own_op) calls += OddInstances(trial).run();
    return Verdict::passed(counted(calls, "call"));
  });
  with_trials("ops: two threads", [&] { return two_threads(trials, registry.ops()); });
}

}  // namespace ferrite::core::plugin_check
