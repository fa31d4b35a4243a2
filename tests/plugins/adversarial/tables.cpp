// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tables made by hand and wrong in one way each, and functions without the SDK's protection: setting mode.
#include <stdexcept>
#include <string>

#include "tests/plugins/fixtures/description.h"

namespace {

using namespace ferrite;

constexpr uint64_t garbage = 0xdeadbeefdeadbeef;

struct Tables {
  std::vector<fe_contribution> contributions;
  fe_pass pass = sized<fe_pass>(), second = sized<fe_pass>();
  fe_op_def op = sized<fe_op_def>();
  fe_lowering lowering = sized<fe_lowering>();
  fe_provider provider = sized<fe_provider>();
  fe_runtime runtime = sized<fe_runtime>();
  fe_importer importer = sized<fe_importer>();
  fe_import_handler handler = sized<fe_import_handler>();
  fe_rule_set rules = sized<fe_rule_set>();
  fe_string name = to_abi("test.adversarial.other");
  alignas(8) char bytes[sizeof(fe_pass) + 8] = {};
};

/// Lives as long as the process, as the plugin that kept it wants it to.
fe_call* kept_call = nullptr;

int32_t nothing(void*, fe_call*, const fe_pass_args*, fe_pass_out*) { return FE_OK; }
int32_t throw_number(void*, fe_call*, const fe_pass_args*, fe_pass_out*) { throw 42; }
int32_t throw_exception(void*, fe_call*, const fe_infer_args*, fe_infer_out*) {
  throw std::runtime_error("thrown on purpose");
}
int32_t keep_call(void*, fe_call* call, const fe_pass_args*, fe_pass_out*) {
  kept_call = call;
  return FE_OK;
}
int32_t use_kept_call(void*, fe_call*, const fe_pass_args*, fe_pass_out*) {
  kept_call->set_error(kept_call->host, to_abi("test.adversarial/late"), to_abi("much too late"));
  return FE_OK;
}
int32_t no_lowering(void*, fe_call*, const fe_lowering_args*, fe_none*) { return FE_EUNSUPPORTED; }
int32_t throw_from_lowering(void*, fe_call*, const fe_lowering_args*, fe_none*) { throw 42; }
int32_t no_import(void*, fe_call*, const fe_import_args*, fe_import_out*) { return FE_EUNSUPPORTED; }
int32_t same_type(void*, fe_call*, const fe_infer_args* args, fe_infer_out* out) {
  const auto x = element<fe_value_view>(args->op->operands, 0);
  return out->add(out->host, &x.type);
}

void fill(Tables& t, const std::string& mode) {
  const auto add = [&](uint32_t kind, const void* table) { t.contributions.push_back({kind, 0, table}); };
  for (auto* pass : {&t.pass, &t.second}) {
    pass->rev = 1;
    pass->name = to_abi(pass == &t.pass ? "test.adversarial.pass" : "test.adversarial.second");
    pass->phase = to_abi("pre_grad");
    pass->run = nothing;
  }
  t.second.after = to_array(&t.pass.name, 1);
  t.op.rev = 1;
  t.op.name = to_abi("test.adversarial.op");
  t.op.results = 1;
  t.op.infer = same_type;
  t.lowering.rev = 1;
  t.lowering.op = to_abi("relu");
  t.lowering.lower = no_lowering;
  t.provider.id = t.runtime.id = t.importer.id = t.provider.device_kind = to_abi("adversarial");
  t.importer.extensions = to_abi(".adversarial");
  t.handler.rev = 1;
  t.handler.source = to_abi("onnx:adversarial::Op");
  t.handler.first = 1;
  t.handler.last = 4;
  t.handler.import_node = no_import;
  t.rules.file = to_abi("adversarial.fe");

  if (mode == "zero_table") t.pass.size = 0;
  if (mode == "garbage_table") t.pass.size = garbage;
  if (mode == "null_run") t.pass.run = nullptr;
  if (mode == "nameless") t.pass.name = {nullptr, garbage};
  if (mode == "null_after") t.pass.after = {nullptr, 3, sizeof(fe_string)};
  if (mode == "endless_after") t.pass.after = {&t.name, garbage, sizeof(fe_string)};
  if (mode == "strideless_after") t.pass.after = {&t.name, 2, 0};
  if (mode == "throws_pass") t.pass.run = throw_number;
  if (mode == "keeps_call") {
    t.pass.run = keep_call;
    t.second.run = use_kept_call;
  }
  if (mode == "misaligned")
    add(FE_CONTRIBUTION_PASS, t.bytes + 4);
  else if (mode == "null_table")
    add(FE_CONTRIBUTION_PASS, nullptr);
  else
    add(FE_CONTRIBUTION_PASS, &t.pass);
  if (mode == "keeps_call") add(FE_CONTRIBUTION_PASS, &t.second);
  if (mode == "unknown_kind") add(77, &t.pass);

  if (mode == "null_infer") t.op.infer = nullptr;
  if (mode == "wild_operands") t.op.operands = {&t.name, garbage, 1};
  if (mode == "null_infer" || mode == "wild_operands" || mode == "op_twice") add(FE_CONTRIBUTION_OP, &t.op);
  if (mode == "op_twice") add(FE_CONTRIBUTION_OP, &t.op);
  if (mode == "throws_infer") {
    // Declared for what the pass puts in.
    static fe_operand_def operand = sized<fe_operand_def>();
    operand.name = to_abi("x");
    t.op.operands = to_array(&operand, 1);
    t.op.infer = throw_exception;
    add(FE_CONTRIBUTION_OP, &t.op);
    t.pass.run = [](void*, fe_call* call, const fe_pass_args* args, fe_pass_out* out) -> int32_t {
      return detail::guarded(call, [&] {
        Graph graph(args->graph);
        graph.make("test.adversarial.op", {graph.inputs()[0]});
        out->changed = 1;
      });
    };
  }
  if (mode == "null_lower") t.lowering.lower = nullptr;
  if (mode == "throws_lowering") t.lowering.lower = throw_from_lowering;
  if (mode == "null_lower" || mode == "two_lowerings" || mode == "throws_lowering")
    add(FE_CONTRIBUTION_LOWERING, &t.lowering);
  if (mode == "two_lowerings") add(FE_CONTRIBUTION_LOWERING, &t.lowering);
  if (mode == "null_open_target") add(FE_CONTRIBUTION_PROVIDER, &t.provider);
  if (mode == "null_launch") add(FE_CONTRIBUTION_RUNTIME, &t.runtime);
  if (mode == "null_build") add(FE_CONTRIBUTION_IMPORTER, &t.importer);
  if (mode == "null_import") t.handler.import_node = nullptr;
  if (mode == "wild_source") t.handler.source = to_abi("adversarial::Op");
  if (mode == "no_versions") t.handler.first = 5;
  if (mode == "null_import" || mode == "wild_source" || mode == "no_versions" || mode == "two_handlers")
    add(FE_CONTRIBUTION_IMPORT_HANDLER, &t.handler);
  if (mode == "two_handlers") add(FE_CONTRIBUTION_IMPORT_HANDLER, &t.handler);
  if (mode == "wild_predicates") {
    t.rules.predicates = {&t.name, garbage, sizeof(fe_predicate)};
    add(FE_CONTRIBUTION_RULES, &t.rules);
  }
}

int32_t create(void*, fe_call*, const fe_create_args* args, fe_create_out* out) {
  const std::string mode(AttrView(args->config).string("mode"));
  if (mode == "throws_create") throw std::runtime_error("thrown on purpose");
  auto* tables = new Tables();
  fill(*tables, mode);
  out->instance = tables;
  out->contributions = to_array(tables->contributions.data(), tables->contributions.size());
  if (mode == "endless_contributions") out->contributions.count = garbage;
  return FE_OK;
}

}  // namespace

FERRITE_TEST_ENTRY {
  static fe_plugin_v0 plugin = ferrite::test_plugins::description_of("test.adversarial");
  plugin.create = create;
  plugin.destroy = [](void*, fe_call*, const fe_destroy_args* args, fe_none*) -> int32_t {
    delete static_cast<Tables*>(args->instance);
    return FE_OK;
  };
  return &plugin;
}
