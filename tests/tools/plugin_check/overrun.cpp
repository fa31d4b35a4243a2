// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A backend whose device has memory of its own. It negates; kernels of other primitives write one element
// beside what is theirs.
#include <cstdlib>
#include <cstring>
#include <map>
#include <new>

#include "ferrite/kernel.hpp"
#include "ferrite/plugin.hpp"

namespace {

using namespace ferrite;

struct Program {
  Prim prim;
  int64_t elements;
};
constexpr int64_t workspace_bytes = 100;

/// Of a kernel that applies one primitive to each element of a row.
Program program_of(Bytes bytes) {
  const auto kernel = read_kernel(bytes);
  if (!kernel) fail("FE-K06", "the kernel cannot be read");
  if (kernel->statements.size() != 1 || kernel->buffers.size() != 2 || kernel->statements[0].ops.size() != 2)
    decline("it is no single operation");
  for (const auto& buffer : kernel->buffers)
    if (buffer.dtype != f32 || buffer.dims != kernel->buffers[0].dims || buffer.dims.size() != 1 ||
        buffer.strides[0] != 1)
      decline("it has other buffers than two equal rows");
  const auto& op = kernel->statements[0].ops[1];
  for (const Prim prim : {Prim::neg_, Prim::abs_, Prim::exp_, Prim::sqrt_})
    if (op.is_prim() && op.prim() == prim) return {prim, kernel->buffers[0].elements()};
  decline("it has another primitive");
}

class OverrunProvider : public Provider {
 public:
  std::string id() const override { return "overrun"; }
  std::string device_kind() const override { return "overrun"; }
  std::unique_ptr<Target> open_target(Bytes) override { return std::make_unique<Target>(); }
  std::vector<Candidate> propose(Target&, Bytes kernel) override {
    program_of(kernel);
    Candidate candidate;
    candidate.name = "overrun";
    return {candidate};
  }
  CompileResult compile(Target&, const CompileRequest& request) override {
    const auto program = program_of(request.kernel);
    CompileResult result;
    result.blob.assign(reinterpret_cast<const char*>(&program), sizeof program);
    result.blob += request.entry;
    if (program.prim == Prim::sqrt_) result.workspace_bytes = workspace_bytes;
    return result;
  }
  std::string fingerprint() override { return "1"; }
};

class OverrunRuntime : public Runtime {
 public:
  std::string id() const override { return "overrun"; }
  uint32_t device_count() override { return 1; }
  DeviceDescription describe(uint32_t) override {
    DeviceDescription description;
    description.name = "a device that writes beside its buffers";
    description.host_memory = false;
    return description;
  }
  void* alloc(uint32_t, uint64_t bytes) override {
    void* data = bytes > UINT64_MAX - 128 ? nullptr : std::aligned_alloc(64, (bytes / 64 + 1) * 64);
    if (!data) throw std::bad_alloc();
    return data;
  }
  void free(uint32_t, void* data) override { std::free(data); }
  void copy(const fe_copy_args& args) override { std::memmove(args.to, args.from, args.bytes); }
  void* module_load(uint32_t, std::span<const Bytes> blobs, std::string_view) override {
    auto module = std::make_unique<Module>();
    for (const auto blob : blobs) {
      Program program{};
      std::memcpy(&program, blob.data(), sizeof program);
      const auto entry = blob.subspan(sizeof program);
      module->emplace(std::string(reinterpret_cast<const char*>(entry.data()), entry.size()), program);
    }
    return module.release();
  }
  void module_unload(void* module) override { delete static_cast<Module*>(module); }
  void* function(void* module, std::string_view entry) override {
    return &static_cast<Module*>(module)->at(std::string(entry));
  }
  void launch(const fe_launch_args& args) override {
    const auto& program = *static_cast<const Program*>(args.function);
    const auto* const from = static_cast<const float*>(args.buffers[0]);
    auto* const to = static_cast<float*>(args.buffers[1]);
    for (int64_t k = 0; k < program.elements; ++k) to[k] = -from[k];
    if (program.prim == Prim::abs_) to[program.elements] = 0;
    if (program.prim == Prim::exp_) to[-1] = 0;
    if (program.prim == Prim::sqrt_) static_cast<char*>(args.workspace)[workspace_bytes] = 0;
  }

 private:
  using Module = std::map<std::string, Program>;
};

}  // namespace

FERRITE_PLUGIN("check.overrun", "1.0.0", std::make_unique<OverrunProvider>(),
               std::make_unique<OverrunRuntime>())
