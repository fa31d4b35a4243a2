// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// As plugins were written for version 0.1 in C++: one of each thing that a plugin may contribute. This file
// is not changed: a later version of the SDK builds it as it stands, or says that it does not
// (tests/museum/README.md).
#include <cstring>

#include "ferrite/plugin.hpp"

namespace {

using namespace ferrite;

// An op with an attribute and a lowering.
void lower_scale(Lowering& l) {
  const double by = l.op.attrs.number("by");
  l.map(0, [&](const Indices& i) {
    Val x = l.load(0, i);
    return x * l.constant(x.dtype(), by);
  });
}

// An op that other ops make up.
std::vector<Value> decompose_shift(Graph& graph, const Instance&, std::span<const Value> operands) {
  return {graph.make("add", {operands[0], graph.scalar(operands[0].dtype(), 1)})};
}

// A lowering for another plugin's op.
void never(Lowering& l) {
  if (l.result().type.dims.size() < 64) decline("the museum only looks");
}

// A rule with a predicate and a condition in text.
Rule twice_absolute() {
  auto x = any("x");
  return rule("museum.twice_absolute")
      .match(op("abs")(op("abs")(x).used_once()))
      .where([](const Match& match) { return match["x"].rank() > 0; })
      .where("dtype(%x) != f64")
      .yield(op("abs")(x));
}

// Node surgery.
bool drop_double_negation(Graph& graph) {
  for (Node node : graph.nodes()) {
    if (node.op() != "neg") continue;
    Node inner = node.operand(0).producer();
    if (!inner || inner.op() != "neg") continue;
    graph.replace_uses(node.result(), inner.operand(0));
    graph.erase(node);
    return true;
  }
  return false;
}

bool look_at_loops(const fe_loop_api& api) {
  auto none = sized<fe_none>();
  auto program = sized<fe_program_view>();
  call_host(api, api.program, none, program);
  return false;
}
bool look_at_schedule(const fe_schedule_api& api) {
  auto none = sized<fe_none>();
  auto program = sized<fe_program_view>();
  call_host(api, api.program, none, program);
  return false;
}

// A file that holds one digit: so many elements are scaled.
class DigitModel final : public Model {
 public:
  explicit DigitModel(int64_t elements) : elements_(elements) {}
  std::vector<Port> inputs() override { return {{"x", f32, true, {elements_}, {""}}}; }
  std::vector<Port> outputs() override { return {{"y", f32, true, {elements_}, {""}}}; }
  void build(Graph& graph, std::span<const TensorType> types) override {
    Value x = graph.input("x", types[0]);
    graph.output("y", graph.make("museum.scale", {x}, {attr("by", 3.0)}));
  }

 private:
  int64_t elements_;
};
class DigitImporter final : public Importer {
 public:
  std::string id() const override { return "digit"; }
  std::string extensions() const override { return ".digit"; }
  std::unique_ptr<Model> open(std::string_view path, Bytes bytes) override {
    const char digit = bytes.empty() ? '?' : static_cast<char>(bytes[0]);
    if (digit < '1' || digit > '9') fail("museum.cpp/digit", path, " begins with no digit from 1 to 9");
    return std::make_unique<DigitModel>(digit - '0');
  }
  std::string coverage() override { return "digit\t1\tsupported\n"; }
};

// A device on which nothing runs.
class Cabinet final : public Runtime {
 public:
  std::string id() const override { return "cabinet"; }
  uint32_t device_count() override { return 1; }
  DeviceDescription describe(uint32_t) override { return {"cabinet", "a cabinet", 1, true, 64, 0}; }
  void* alloc(uint32_t, uint64_t bytes) override { return ::operator new(bytes, std::align_val_t(64)); }
  void free(uint32_t, void* data) override { ::operator delete(data, std::align_val_t(64)); }
  void copy(const fe_copy_args& args) override { std::memcpy(args.to, args.from, args.bytes); }
  void* module_load(uint32_t, std::span<const Bytes>, std::string_view) override { return this; }
  void module_unload(void*) override {}
  void* function(void* module, std::string_view) override { return module; }
  void launch(const fe_launch_args&) override { fail("museum.cpp/launch", "nothing runs in a cabinet"); }
};
class Joiner final : public Provider {
 public:
  std::string id() const override { return "joiner"; }
  std::string device_kind() const override { return "cabinet"; }
  std::unique_ptr<Target> open_target(Bytes) override { return std::make_unique<Target>(); }
  std::vector<Candidate> propose(Target&, Bytes) override {
    Candidate candidate;
    candidate.name = "drawer";
    candidate.cost = 1e-6;
    return {candidate};
  }
  CompileResult compile(Target&, const CompileRequest&) override {
    CompileResult result;
    result.blob = "wood";
    return result;
  }
  std::string fingerprint() override { return "joiner 1"; }
};

void contribute(PluginBuilder& builder, const PluginContext& context) {
  if (context.config.integer("devices", 1) == 0) return;
  builder.add(std::unique_ptr<Runtime>(std::make_unique<Cabinet>()));
  builder.add(std::unique_ptr<Provider>(std::make_unique<Joiner>()));
  builder.add(std::unique_ptr<Importer>(std::make_unique<DigitImporter>()));
}

}  // namespace

FERRITE_PLUGIN("museum.cpp", "0.1.0",
               op_def("museum.scale")
                   .doc("x * by")
                   .operands("x")
                   .attr(attr("by", 2.0))
                   .infer(same_as(0))
                   .lower(lower_scale),
               op_def("museum.shift").operands("x").infer(same_as(0)).decompose(decompose_shift),
               lowering("relu", on("cpu"), never), rules("post_grad_pre", twice_absolute),
               rule_text("museum.fe",
                         "rule museum.text at post_grad_pre {\n  match { %r = neg(%x) }\n"
                         "  where { rank(%x) == 63 }\n  yield { %r = sign(%x) }\n}\n"),
               pass("pre_grad", "museum.pass", drop_double_negation),
               loop_pass("museum.loops", look_at_loops), schedule_pass("museum.schedule", look_at_schedule),
               contribute)
