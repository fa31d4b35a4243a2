// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "host_runtime.h"

#include <llvm/TargetParser/Host.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <new>

#include "jit.h"
#include "launch_needs.h"
#include "target.h"

namespace ferrite::cpu {

namespace {

constexpr uint64_t alignment = 64;
constexpr uint64_t huge_page = 2 << 20, least_huge = 2 * huge_page;
constexpr int32_t dlpack_cpu = 1;

using Entry = void (*)(void* const* buffers, int64_t begin, int64_t end, int64_t worker, char* workspace,
                       int64_t* error);

struct Launch {
  const fe_launch_args* args;

  void run(int64_t begin, int64_t end, int64_t worker) const {
    auto entry = reinterpret_cast<Entry>(args->function);
    auto* workspace = static_cast<char*>(args->workspace);
    if (workspace) workspace += worker * args->workspace_bytes;
    entry(args->buffers, begin, end, worker, workspace, args->error);
  }
};

class HostRuntime final : public Runtime {
 public:
  /// The code may have been compiled elsewhere and use AMX, so this process must request it, too.
  explicit HostRuntime(Host host) : host_(host) { allow_amx(); }

  std::string id() const override { return "cpu"; }
  uint32_t device_count() override { return 1; }

  DeviceDescription describe(uint32_t) override {
    DeviceDescription result;
    result.description = describe_host();
    result.name = llvm::sys::getHostCPUName().str();
    result.dlpack_device = dlpack_cpu;
    result.alignment = alignment;
    result.capacity =
        static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
    return result;
  }

  std::string refusal(uint32_t, std::string_view target) override { return missing_here(target); }

  void* alloc(uint32_t, uint64_t bytes) override {
    if (bytes > UINT64_MAX - 2 * huge_page) throw std::bad_alloc();
    const uint64_t unit = bytes < least_huge ? alignment : huge_page;
    const uint64_t size = (bytes / unit + 1) * unit;
    void* data = std::aligned_alloc(unit, size);
    if (!data) throw std::bad_alloc();
    // Weights and arenas are read from end to end; with small pages, every few kilobytes would cost a
    // page-table walk. If the system ignores the advice, nothing changes.
    if (unit == huge_page) madvise(data, size, MADV_HUGEPAGE);
    return data;
  }
  void free(uint32_t, void* data) override { std::free(data); }
  void copy(const fe_copy_args& args) override {
    if (args.bytes != 0) std::memmove(args.to, args.from, args.bytes);
  }

  void* module_load(uint32_t, std::span<const Bytes> blobs, std::string_view name) override {
    return jit_.load(blobs, name);
  }
  void module_unload(void* module) override { jit_.unload(static_cast<llvm::orc::JITDylib*>(module)); }
  void* function(void* module, std::string_view entry) override {
    return jit_.find(static_cast<llvm::orc::JITDylib*>(module), entry);
  }

  LaunchNeeds needs(void* module, std::string_view entry) override {
    // Code of another provider need not have the symbol.
    const void* data = jit_.find_if_there(static_cast<llvm::orc::JITDylib*>(module), needs_symbol(entry));
    return data ? read_needs(data) : LaunchNeeds();
  }

  void launch(const fe_launch_args& args) override {
    if (args.tasks <= 0) return;
    Launch launch{&args};
    // A launch of one range runs on the caller's thread, without waking workers.
    if (args.tasks <= args.grain || args.workers == 1) return launch.run(0, args.tasks, 0);
    host_.parallel_for(args.tasks, args.grain, args.workers, &launch,
                       [](void* self, int64_t begin, int64_t end, int64_t worker) {
                         static_cast<const Launch*>(self)->run(begin, end, worker);
                       });
  }

 private:
  Host host_;
  Jit jit_;
};

}  // namespace

std::unique_ptr<Runtime> make_runtime(Host host) { return std::make_unique<HostRuntime>(host); }

}  // namespace ferrite::cpu
