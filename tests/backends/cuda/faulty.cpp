// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Compiles kernels with a sine for CUDA devices to faulty code that writes to an invalid address.
#include <algorithm>

#include "ferrite/gpu_runtime/device_code.h"
#include "ferrite/kernel.hpp"
#include "ferrite/plugin.hpp"

namespace {

using namespace ferrite;

class FaultyProvider final : public Provider {
 public:
  std::string id() const override { return "test.faulty"; }
  std::string device_kind() const override { return "cuda"; }
  std::unique_ptr<Target> open_target(Bytes) override {
    auto target = std::make_unique<Target>();
    target->name = "faulty";
    return target;
  }
  std::vector<Candidate> propose(Target&, Bytes bytes) override {
    const auto kernel = read_kernel(bytes);
    const bool has_sine =
        kernel && std::ranges::any_of(kernel->statements, [](const loop::Statement& statement) {
          return std::ranges::any_of(
              statement.ops, [](const auto& op) { return op.code == static_cast<uint32_t>(Prim::sin_); });
        });
    if (!has_sine) decline("it has no sine");
    Candidate candidate;
    candidate.name = "faulty";
    return {candidate};
  }
  CompileResult compile(Target&, const CompileRequest& request) override {
    const auto kernel = read_kernel(request.kernel);
    emitter::DeviceCode made;
    made.format = "cuda";
    made.entry = request.entry;
    made.blocks = 1;
    for (const auto& buffer : kernel->buffers)
      if (buffer.kind != FE_BUFFER_LOCAL) made.arguments.push_back({});
    std::string parameters;
    for (size_t k = 0; k <= made.arguments.size(); ++k)
      parameters += (k ? ", " : "") + std::string(".param .u64 p") + std::to_string(k);
    made.code =
        ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry " + made.entry + "(" + parameters +
        ")\n{\n  .reg .b64 %a<2>;\n  mov.u64 %a1, 16;\n  st.global.u64 [%a1], %a1;  // a fault\n  ret;\n}\n";
    CompileResult result;
    result.blob = write_device_code(made);
    result.tasks = made.blocks;
    return result;
  }
  std::string fingerprint() override { return "1"; }
};

}  // namespace

FERRITE_PLUGIN("test.faulty_cuda", "1.0.0", std::make_unique<FaultyProvider>())
