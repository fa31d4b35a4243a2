// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The backend that prints C, through its plugin's tables alone, passes what every backend must.
// FERRITE_SAMPLE=N takes one kernel in N.
#include <dlfcn.h>

#include <algorithm>
#include <thread>

#include "core/ir/kernel/flatten.h"
#include "core/ir/kernel/legalise.h"
#include "ferrite/plugin.hpp"
#include "tests/backends/kernel_conformance.h"

namespace ferrite::kernel_test {
namespace {

/// A host with two workers, the second one's share first.
int32_t in_two(void*, fe_call*, const fe_parallel_args* args, fe_none*) {
  const int64_t middle = args->count / 3;
  args->fn(args->context, middle, args->count, 1);
  if (middle > 0) args->fn(args->context, 0, middle, 0);
  return FE_OK;
}

/// The plugin's tables, open as long as the process lives.
class Plugin {
 public:
  static Plugin& get() {
    static Plugin plugin;
    return plugin;
  }
  const fe_provider* provider = nullptr;
  const fe_runtime* runtime = nullptr;
  fe_open_target_out target = sized<fe_open_target_out>();

  template <class Table, class Args, class Out>
  void call(const Table& table, int32_t (*slot)(void*, fe_call*, const Args*, Out*), const Args& args,
            Out& out) {
    auto call = sized<fe_call>();
    call.host = this;
    call.set_error = [](void* self, fe_string code, fe_string text) {
      static_cast<Plugin*>(self)->said_ = detail::concatenate(from_abi(code), ": ", from_abi(text));
    };
    call.cancelled = [](void*) -> int32_t { return 0; };
    if (slot(table.self, &call, &args, &out) != FE_OK) throw std::runtime_error(said_);
  }

 private:
  Plugin() {
    auto* library = dlopen(FERRITE_STUBS "/acme_c.so", RTLD_NOW | RTLD_LOCAL);
    if (!library) throw std::runtime_error(dlerror());
    plugin_ = reinterpret_cast<fe_plugin_entry_v0_fn>(dlsym(library, FE_PLUGIN_ENTRY))(FE_ABI_MINOR);
    host_.parallel_for = in_two;
    auto create = sized<fe_create_args>();
    create.host = &host_;
    auto created = sized<fe_create_out>();
    call(*plugin_, plugin_->create, create, created);
    instance_ = created.instance;
    for (size_t k = 0; k < created.contributions.count; ++k) {
      const auto given = element<fe_contribution>(created.contributions, k);
      if (given.kind == FE_CONTRIBUTION_PROVIDER) provider = static_cast<const fe_provider*>(given.table);
      if (given.kind == FE_CONTRIBUTION_RUNTIME) runtime = static_cast<const fe_runtime*>(given.table);
    }
    call(*provider, provider->open_target, sized<fe_open_target_args>(), target);
  }
  ~Plugin() {
    auto none = sized<fe_none>();
    if (provider->close_target) call(*provider, provider->close_target, target, none);
    auto destroy = sized<fe_destroy_args>();
    destroy.instance = instance_;
    call(*plugin_, plugin_->destroy, destroy, none);
  }
  const fe_plugin_v0* plugin_ = nullptr;
  void* instance_ = nullptr;
  fe_host host_ = sized<fe_host>();
  std::string said_;
};

fe_sink into(std::string& text) {
  auto sink = sized<fe_sink>();
  sink.self = &text;
  sink.write = [](void* self, const void* data, uint64_t bytes) -> int32_t {
    static_cast<std::string*>(self)->append(static_cast<const char*>(data), bytes);
    return FE_OK;
  };
  return sink;
}

}  // namespace

inline std::vector<std::string> targets_of(const Options&) {
  static const char* sample = std::getenv("FERRITE_SAMPLE");
  static int every = sample ? std::max(1, static_cast<int>(std::strtol(sample, nullptr, 10))) : 1, number = 0;
  return ++number % every == 0 ? std::vector<std::string>{""} : std::vector<std::string>();
}

inline Compiled compile(const loop::Kernel& kernel, const std::string&) {
  Compiled compiled;
  compiled.is_declined = std::ranges::any_of(kernel.buffers, is_f8, &loop::Buffer::dtype);
  if (compiled.is_declined) return compiled;
  auto& plugin = Plugin::get();
  auto legal = kernel;
  if (auto done = core::kernel::legalise(legal, plugin.target.statement_kinds, 0); !done)
    throw std::runtime_error(done.error().message());
  auto flat = core::kernel::flatten(legal);
  if (!flat) throw std::runtime_error(flat.error().message());
  // The container's buffers have its own order.
  std::vector<uint32_t> position(kernel.buffers.size());
  uint32_t arguments = 0;
  for (size_t b = 0; b < kernel.buffers.size(); ++b)
    if (kernel.buffers[b].kind != FE_BUFFER_LOCAL) position[b] = arguments++;
  std::vector<uint32_t> order;
  for (auto b : flat->buffers)
    if (kernel.buffers[b].kind != FE_BUFFER_LOCAL) order.push_back(position[b]);

  std::string blob, listing;
  auto args = sized<fe_compile_args>();
  args.target = plugin.target.target;
  args.kernel = {flat->bytes.data(), flat->bytes.size(), 1};
  args.entry = to_abi(std::string_view(flat->entry));
  auto out = sized<fe_compile_out>();
  out.blob = into(blob);
  out.listing = into(listing);
  plugin.call(*plugin.provider, plugin.provider->compile, args, out);

  const fe_array blobs[] = {{blob.data(), blob.size(), 1}};
  auto load = sized<fe_module_args>();
  load.blobs = to_array(blobs, 1);
  auto module = sized<fe_module_out>();
  plugin.call(*plugin.runtime, plugin.runtime->module_load, load, module);
  auto find = sized<fe_function_args>();
  find.module = module.module;
  find.entry = args.entry;
  auto found = sized<fe_function_out>();
  plugin.call(*plugin.runtime, plugin.runtime->function, find, found);
  std::shared_ptr<void> loaded(module.module, [](void* opened) {
    auto unload = sized<fe_module_out>();
    unload.module = opened;
    auto nothing = sized<fe_none>();
    Plugin::get().call(*Plugin::get().runtime, Plugin::get().runtime->module_unload, unload, nothing);
  });

  compiled.tasks = out.tasks;
  compiled.text = listing;
  compiled.run = [loaded, order, out, function = found.function](void* const* pointers, int64_t* error,
                                                                 bool low) {
    std::vector<void*> buffers;
    for (auto k : order) buffers.push_back(pointers[k]);
    const int64_t stride = (out.workspace_bytes + 63) / 64 * 64;
    Guarded workspace(static_cast<size_t>(2 * stride), low);
    auto launch = sized<fe_launch_args>();
    launch.function = function;
    launch.buffers = buffers.data();
    launch.buffer_count = buffers.size();
    launch.tasks = out.tasks;
    launch.grain = 1;
    launch.workspace = workspace.data;
    launch.workspace_bytes = stride;
    launch.error = error;
    auto nothing = sized<fe_none>();
    Plugin::get().call(*Plugin::get().runtime, Plugin::get().runtime->launch, launch, nothing);
  };
  return compiled;
}

}  // namespace ferrite::kernel_test
