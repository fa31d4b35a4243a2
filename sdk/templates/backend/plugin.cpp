// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// @ID@: a backend: a provider that compiles kernels to blobs, and a runtime that executes them. Here the blob
// is the kernel itself and the device is the host: replace compile() by your code generator and the runtime
// by your driver.
#include <cstdlib>
#include <cstring>
#include <map>

#include "machine.h"

namespace {

loop::Kernel read(Bytes bytes) {
  std::string error;
  auto kernel = read_kernel(bytes, &error);
  if (!kernel) fail("@ID@/kernel", "the kernel cannot be read: ", error);
  return std::move(*kernel);
}

class ToyProvider final : public Provider {
 public:
  std::string id() const override { return "@ID@"; }
  std::string device_kind() const override { return "@TARGET@"; }

  std::unique_ptr<Target> open_target(Bytes) override {
    auto target = std::make_unique<Target>();
    target->name = "@TARGET@";
    // The host rewrites other statements to these kinds where it can: a contraction becomes a reduction.
    target->statement_kinds = (1u << FE_STATEMENT_MAP) | (1u << FE_STATEMENT_REDUCE);
    return target;
  }
  std::vector<Candidate> propose(Target&, Bytes bytes) override {
    if (auto reason = Machine::unsupported_reason(read(bytes)); !reason.empty()) decline(reason);
    Candidate candidate;
    candidate.name = "@ID@";
    candidate.cost = 1;  // seconds, from a model of the machine
    return {candidate};
  }
  /// The blob is the entry's name, a zero byte and the kernel. Called from several threads in parallel.
  CompileResult compile(Target&, const CompileRequest& request) override {
    CompileResult result;
    result.blob = std::string(request.entry) + '\0';
    result.blob.append(reinterpret_cast<const char*>(request.kernel.data()), request.kernel.size());
    result.tasks = Machine::tasks(read(request.kernel));
    return result;
  }
  /// Changes whenever the same kernel would be compiled to different code.
  std::string fingerprint() override { return "@ID@ 0.1.0"; }
};

class ToyRuntime final : public Runtime {
 public:
  explicit ToyRuntime(Host host) : host_(host) {}

  std::string id() const override { return "@TARGET@"; }
  uint32_t device_count() override { return 1; }
  DeviceDescription describe(uint32_t) override {
    DeviceDescription result;  // open_target receives `description`
    result.name = "a toy that runs on the host";
    return result;
  }

  void* alloc(uint32_t, uint64_t bytes) override {
    void* data = bytes < UINT64_MAX / 2 ? std::aligned_alloc(64, (bytes / 64 + 1) * 64) : nullptr;
    if (!data) throw std::bad_alloc();
    return data;
  }
  void free(uint32_t, void* data) override { std::free(data); }
  void copy(const fe_copy_args& args) override {
    if (args.bytes > 0) std::memmove(args.to, args.from, args.bytes);
  }

  using Module = std::map<std::string, loop::Kernel, std::less<>>;  // by entry
  void* module_load(uint32_t, std::span<const Bytes> blobs, std::string_view) override {
    auto module = std::make_unique<Module>();
    for (Bytes blob : blobs) {
      const std::string_view text(reinterpret_cast<const char*>(blob.data()), blob.size());
      const size_t end = text.find('\0');
      if (end == text.npos) fail("@ID@/blob", "the blob has no entry");
      module->emplace(text.substr(0, end), read(blob.subspan(end + 1)));
    }
    return module.release();
  }
  void module_unload(void* module) override { delete static_cast<Module*>(module); }
  void* function(void* module, std::string_view entry) override {
    auto& kernels = *static_cast<Module*>(module);
    auto found = kernels.find(entry);
    if (found == kernels.end()) fail("@ID@/entry", "there is no entry '", entry, "'");
    return &found->second;
  }
  void launch(const fe_launch_args& args) override {
    host_.parallel_for(
        args.tasks, args.grain, args.workers, const_cast<fe_launch_args*>(&args),
        [](void* context, int64_t begin, int64_t end, int64_t) {
          const auto& launch = *static_cast<const fe_launch_args*>(context);
          Machine(*static_cast<const loop::Kernel*>(launch.function), launch.buffers).run(begin, end);
        });
  }

 private:
  Host host_;
};

}  // namespace

FERRITE_PLUGIN("@ID@", "0.1.0", [](PluginBuilder& builder, const PluginContext& context) {
  builder.add(std::make_unique<ToyProvider>());
  builder.add(std::make_unique<ToyRuntime>(context.host));
})
