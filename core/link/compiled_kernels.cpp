// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/link/compiled_kernels.h"

#include <algorithm>
#include <atomic>
#include <numeric>

#include "core/observe/observation.h"
#include "core/support/abi/abi.h"
#include "core/support/digest.h"
#include "runtime/launch_bounds.h"
#include "runtime/plugin/serialised_calls.h"
#include "runtime/pool.h"

namespace ferrite::core::link {
namespace {

/// Reports to an observation how long a kernel took to compile, or to be found in the cache. Does nothing
/// without an observation.
class CompileSpan {
 public:
  CompileSpan(observe::Observation* observation, const KernelInstance& instance, int64_t worker)
      : observation_(observation), instance_(instance), worker_(worker) {
    if (observation_) start_ = observe::Clock::now();
  }
  ~CompileSpan() {
    if (observation_)
      observation_->add({"compile",
                         instance_.provenance,
                         start_,
                         observe::Clock::now(),
                         static_cast<uint32_t>(worker_),
                         {{"kernel", instance_.entry}, {"candidate", instance_.candidate_name}}});
  }
  CompileSpan(const CompileSpan&) = delete;

 private:
  observe::Observation* observation_;
  const KernelInstance& instance_;
  int64_t worker_;
  observe::Clock::time_point start_;
};

}  // namespace

CompiledKernels::CompiledKernels(const Devices& devices, const BuildOptions& options)
    : devices_(devices), options_(options) {
  // without a cache, the libraries need not be hashed
  if (!options_.cache || !options_.cache->is_open()) return;
  for (const auto& device : devices)
    for (const auto& compiler : device->compilers) makers_[&compiler] = maker_key(compiler);
}

std::vector<Code> CompiledKernels::make(const KernelInstances& instances) const {
  struct Context {
    const CompiledKernels& compiler;
    const KernelInstances& instances;
    std::vector<size_t> order;
    std::vector<Code> made;
    std::atomic<size_t> next{0};
  } context{*this, instances, std::vector<size_t>(instances.size()), std::vector<Code>(instances.size())};
  // Largest kernels first, so that the last ones to finish are small.
  std::iota(context.order.begin(), context.order.end(), size_t{0});
  std::stable_sort(context.order.begin(), context.order.end(),
                   [&](size_t a, size_t b) { return instances[a].bytes.size() > instances[b].bytes.size(); });
  // Each worker takes the next kernel of the order, whatever its range: adjacent ranges would give one worker
  // all large kernels.
  auto make = [](void* opaque, int64_t begin, int64_t end, int64_t worker) {
    auto& c = *static_cast<Context*>(opaque);
    for (int64_t k = begin; k < end; ++k) {
      const size_t u = c.order[c.next.fetch_add(1)];
      const CompileSpan span(c.compiler.options_.observation, c.instances[u], worker);
      c.made[u] = c.compiler.find_or_compile(c.instances[u]);
    }
  };
  Pool::process().parallel_for(static_cast<int64_t>(instances.size()), 1, options_.jobs, &context, make);
  return std::move(context.made);
}

void CompiledKernels::keep(const KernelInstance& instance, const Code& code) const {
  if (!options_.cache || code.found) return;
  options_.cache->keep(code.key, code.kernel,
                       {devices_[instance.device]->kind, instance.candidate_name, instance.provenance});
}

Result<Code> CompiledKernels::make_anew(const KernelInstance& instance, const std::string& key,
                                        const std::string& reason) const {
  options_.cache->drop(key, reason);
  Code code;
  code.key = key;
  FE_TRY(code.kernel, compile(instance));
  keep(instance, code);
  return code;
}

Code CompiledKernels::find_or_compile(const KernelInstance& instance) const {
  Code code;
  if (options_.cache) {
    code.key = key_of(instance);
    if (auto kept = options_.cache->find(code.key, options_.listings)) {
      const auto why =
          runtime::unfit(kept->tasks, kept->grain, kept->workspace_bytes, &instance.group.kernel);
      if (why.empty()) {
        code.kernel = std::move(*kept);
        code.found = true;
        return code;
      }
      options_.cache->drop(code.key, why);
    }
  }
  if (auto made = compile(instance))
    code.kernel = std::move(*made);
  else
    code.failed = std::move(made.error());
  return code;
}

/// Compiles the instance with its provider. Any-thread. FE-K22, FE-P67.
Result<cache::CompiledKernel> CompiledKernels::compile(const KernelInstance& instance) const {
  const auto& compiler = *instance.compiler;
  abi::Collector<> blob, listing;
  abi::Call call;
  auto args = abi::sized<fe_compile_args>();
  args.target = compiler.target.target;
  args.kernel = {instance.bytes.data(), instance.bytes.size(), 1};
  args.candidate = instance.candidate;
  args.entry = abi::string(instance.entry);
  args.provenance = abi::string(instance.provenance);
  auto out = abi::sized<fe_compile_out>();
  out.blob = blob.sink();
  if (options_.listings) out.listing = listing.sink();
  // On a CPU this is Compiler::compile of backends/cpu/compiler.cpp.
  const int32_t status = plugin::invoke(*compiler.table, compiler.slots.compile, call, &args, &out);
  if (status != FE_OK)
    return core::at(instance.provenance, call.error(status, "FE-K22", "the kernel could not be compiled"));
  if (auto why = runtime::unfit(out.tasks, out.grain, out.workspace_bytes, &instance.group.kernel);
      !why.empty())
    return core::at(instance.provenance,
                    error(FE_EINTERNAL, "FE-P67", "provider '{}': {}", compiler.id, why));
  return cache::CompiledKernel{std::move(blob.bytes()),
                               std::move(listing.bytes()),
                               options_.listings,
                               out.tasks,
                               out.grain,
                               out.workspace_bytes,
                               out.registers,
                               out.spills,
                               out.shared_bytes};
}

/// A key of everything on which the code depends; empty where the cache is closed or the provider has no
/// fingerprint.
std::string CompiledKernels::key_of(const KernelInstance& instance) const {
  if (makers_.empty() || instance.compiler->target_key.empty()) return {};
  const std::string_view kernel(reinterpret_cast<const char*>(instance.bytes.data()), instance.bytes.size());
  return sha256({makers_.at(instance.compiler), instance.entry, fmt::format("{}", instance.candidate),
                 instance.candidate_name, kernel});
}

}  // namespace ferrite::core::link
