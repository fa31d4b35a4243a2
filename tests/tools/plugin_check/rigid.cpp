// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ops whose type rules ignore what L2 is about: the stride of arrays, what the host answers, other threads.
#include <atomic>
#include <thread>

#include "ferrite/plugin.hpp"

namespace {

using namespace ferrite;

/// Steps through its operands as if their structs could not grow, and does not look at what add() returns.
int32_t rigid_infer(void*, fe_call*, const fe_infer_args* args, fe_infer_out* out) {
  const auto* operands = static_cast<const fe_value_view*>(args->op->operands.data);
  auto type = operands[args->op->operands.count - 1].type;
  // What is behind the first operand of a longer struct is no type.
  if (type.size != sizeof(fe_tensor_type)) return FE_EINVALID;
  out->add(out->host, &type);
  return FE_OK;
}

/// Gives a type of its own where another thread is in it.
int32_t shared_infer(void*, fe_call*, const fe_infer_args* args, fe_infer_out* out) {
  static std::atomic<int> inside = 0;
  const bool alone = inside.fetch_add(1) == 0;
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  auto type = element<fe_value_view>(args->op->operands, 0).type;
  if (!alone || inside.load() != 1) type.rank = 0;
  inside.fetch_sub(1);
  return out->add(out->host, &type);
}

struct Op {
  fe_operand_def operands[2];
  fe_op_def table;
};

Op make(const char* name, const char* samples, uint32_t count,
        int32_t (*infer)(void*, fe_call*, const fe_infer_args*, fe_infer_out*)) {
  Op op{};
  for (uint32_t k = 0; k < 2; ++k) {
    op.operands[k] = sized<fe_operand_def>();
    op.operands[k].name = to_abi(k == 0 ? "x" : "y");
  }
  op.table = sized<fe_op_def>();
  op.table.rev = 1;
  op.table.self = const_cast<char*>(samples);
  op.table.name = to_abi(name);
  op.table.operands = {nullptr, count, sizeof(fe_operand_def)};
  op.table.results = 1;
  op.table.infer = infer;
  op.table.samples = [](void* self, fe_call*, const fe_none*, fe_sink* sink) -> int32_t {
    const std::string_view text(static_cast<const char*>(self));
    return sink->write(sink->self, text.data(), text.size());
  };
  return op;
}

Op rigid_op = make(
    "check.rigid",
    "ferrite graph 0\ngraph @sample(%x: f32[3], %y: f32[3]) -> (%0 \"z\") {\n  %0 = check.rigid(%x, %y)\n}\n",
    2, rigid_infer);
Op shared_op =
    make("check.shared",
         "ferrite graph 0\ngraph @sample(%x: f32[3]) -> (%0 \"z\") {\n  %0 = check.shared(%x)\n}\n", 1,
         shared_infer);
fe_contribution contributions[] = {{FE_CONTRIBUTION_OP, 0, &rigid_op.table},
                                   {FE_CONTRIBUTION_OP, 0, &shared_op.table}};

}  // namespace

extern "C" __attribute__((visibility("default"))) const fe_plugin_v0* fe_plugin_entry_v0(uint32_t) {
  static fe_plugin_v0 plugin = [] {
    auto p = sized<fe_plugin_v0>();
    p.major = FE_ABI_MAJOR;
    p.minor = FE_ABI_MINOR;
    p.id = to_abi("check.rigid");
    p.version = to_abi("1.0.0");
    p.create = [](void*, fe_call*, const fe_create_args*, fe_create_out* out) -> int32_t {
      rigid_op.table.operands.data = rigid_op.operands;
      shared_op.table.operands.data = shared_op.operands;
      out->contributions = to_array(contributions, 2);
      return FE_OK;
    };
    p.destroy = [](void*, fe_call*, const fe_destroy_args*, fe_none*) -> int32_t { return FE_OK; };
    return p;
  }();
  return &plugin;
}
