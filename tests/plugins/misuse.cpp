// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// One mistake of a plugin's author at a time, by the setting mode: passes that read what is not there, ops that lack a part,
// rules that name what they do not have, an importer and a creation that fail without a reason.
#include <new>

#include "ferrite/plugin.hpp"

namespace {

using namespace ferrite;

[[noreturn]] void fail_silently() { throw Failure(FE_EINVALID, "", ""); }

class SilentModel final : public Model {
 public:
  std::vector<Port> inputs() override { return {}; }
  std::vector<Port> outputs() override { return {}; }
  void build(Graph&, std::span<const TensorType>) override { fail_silently(); }
};

/// Reads .silent files that say "open"; fails at everything else.
class SilentImporter final : public Importer {
 public:
  std::string id() const override { return "silent"; }
  std::string extensions() const override { return ".silent"; }
  std::unique_ptr<Model> open(std::string_view, Bytes bytes) override {
    if (bytes.empty() || bytes[0] != std::byte{'o'}) fail_silently();
    return std::make_unique<SilentModel>();
  }
  std::string coverage() override { fail_silently(); }
};

using PassFunction = bool (*)(Graph&);
struct Mistake {
  std::string_view mode;
  PassFunction run;
};
constexpr Mistake mistakes[] = {
    {"attribute", [](Graph& graph) { return graph.nodes()[0].attrs().integer("nothing") == 0; }},
    {"kind",
     [](Graph& graph) {
       Value sum = graph.make("reduce_sum", {graph.inputs()[0]}, {attr("axes", std::vector<int64_t>{0})});
       return sum.producer().attrs().string("axes").empty();
     }},
    {"contents", [](Graph& graph) { return graph.inputs()[0].elements<float>().empty(); }},
    {"absent", [](Graph&) { return Value().rank() == 0; }},
    {"memory", [](Graph&) -> bool { throw std::bad_alloc(); }},
    {"decline", [](Graph&) -> bool { decline("not in the mood"); }},
    {"evaluate",
     [](Graph& graph) -> bool {
       auto args = sized<fe_value_args>();
       args.value = graph.inputs()[0].handle();
       auto out = sized<fe_handle_out>();
       call_host(graph.api(), graph.api().evaluate, args, out);
       return false;
     }},
};

std::vector<TensorType> same(const Instance& op) { return {op.operand(0)}; }

void contribute(PluginBuilder& builder, const PluginContext& context) {
  const std::string mode(context.config.string("mode"));
  for (const auto& mistake : mistakes)
    if (mistake.mode == mode) builder.add(pass("pre_grad", "test.misuse." + mode, mistake.run));
  if (mode == "create") fail_silently();
  if (mode == "phase") builder.add(pass("pre_gard", "test.misuse.phase", [](Graph&) { return false; }));
  if (mode == "view") {
    auto wrong = loop_pass("test.misuse.view", [](const fe_loop_api&) { return false; });
    wrong.phase = "pre_grad";
    builder.add(wrong);
  }
  if (mode == "capture")
    builder.add(rules("pre_grad", rule("test.misuse.capture")
                                      .match(op("relu")(any("x")))
                                      .where([](const Match& match) { return match["y"].rank() == 1; })
                                      .yield(any("x"))));
  if (mode == "roots")
    builder.add(rules(
        "pre_grad",
        rule("test.misuse.roots").match(op("relu")(any("x"))).match(op("exp")(any("x"))).yield(any("x"))));

  builder.add(op_def("test.untyped").operands("x"));
  builder.add(op_def("test.greedy").operands("x").infer([](const Instance& op) {
    return std::vector<TensorType>{op.operand(7)};
  }));
  builder.add(op_def("test.unlowered").operands("x").infer(same));
  builder.add(
      op_def("test.miscounted").operands("x").infer(same).decompose([](Graph&, const Instance&, const auto&) {
        return std::vector<Value>();
      }));
  builder.add(op_def("test.silent").operands("x").infer(same).lower([](Lowering&) { fail_silently(); }));
  builder.add(op_def("test.shrinks")
                  .operands("x")
                  .infer([](const Instance& op) {
                    auto type = op.operand(0);
                    type.dims = {};
                    return std::vector<TensorType>{type};
                  })
                  .lower([](Lowering& l) { l.pointwise([](const std::vector<Val>& x) { return x[0]; }); }));
  builder.add(std::unique_ptr<Importer>(std::make_unique<SilentImporter>()));
}

}  // namespace

FERRITE_PLUGIN("test.misuse", "1.0.0", contribute)
