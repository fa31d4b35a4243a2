// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The CPU's provider and runtime through their plugin ABI tables, as a host uses them.
#include <thread>

#include "compiler.h"
#include "core/ir/kernel/flatten.h"
#include "emitter_support.h"
#include "ferrite/abi/error_words.h"
#include "ferrite/plugin.hpp"
#include "host_runtime.h"

namespace ferrite::kernel_test {
namespace {

/// A host with three workers, each of which gets a part of the range.
fe_host make_host() {
  auto host = sized<fe_host>();
  host.parallel_for = [](void*, fe_call*, const fe_parallel_args* args, fe_none*) -> int32_t {
    std::vector<std::thread> threads;
    for (int64_t worker = 0; worker < 3; ++worker)
      threads.emplace_back(
          [=] { args->fn(args->context, args->count * worker / 3, args->count * (worker + 1) / 3, worker); });
    for (auto& thread : threads) thread.join();
    return FE_OK;
  };
  return host;
}

struct Plugin {
  fe_host host = make_host();
  PluginBuilder builder;
  const fe_provider* provider = nullptr;
  const fe_runtime* runtime = nullptr;
  std::string code, text;
  fe_call call{};

  Plugin() {
    builder.add(cpu::make_compiler());
    builder.add(cpu::make_runtime(Host(&host)));
    for (const auto& contribution : builder.contributions()) {
      if (contribution.kind == FE_CONTRIBUTION_PROVIDER)
        provider = static_cast<const fe_provider*>(contribution.table);
      if (contribution.kind == FE_CONTRIBUTION_RUNTIME)
        runtime = static_cast<const fe_runtime*>(contribution.table);
    }
    call.size = sizeof call;
    call.host = this;
    call.set_error = [](void* self, fe_string code_, fe_string text_) {
      static_cast<Plugin*>(self)->code = from_abi(code_);
      static_cast<Plugin*>(self)->text = from_abi(text_);
    };
    call.cancelled = [](void*) -> int32_t { return 0; };
  }
  static fe_sink into(std::string& text_) {
    auto sink = sized<fe_sink>();
    sink.self = &text_;
    sink.write = [](void* self, const void* data, uint64_t bytes) -> int32_t {
      static_cast<std::string*>(self)->append(static_cast<const char*>(data), bytes);
      return FE_OK;
    };
    return sink;
  }
  std::string description() {
    std::string text_, name;
    auto args = sized<fe_device_args>();
    auto out = sized<fe_describe_out>();
    out.description = into(text_), out.name = into(name);
    EXPECT_EQ(runtime->describe(runtime->self, &call, &args, &out), FE_OK);
    EXPECT_EQ(out.dlpack_device, 1);
    EXPECT_FALSE(name.empty());
    return text_;
  }
  int32_t open(std::string_view text_, fe_open_target_out& out) {
    auto args = sized<fe_open_target_args>();
    args.description = {text_.data(), text_.size(), 1};
    out = sized<fe_open_target_out>();
    return provider->open_target(provider->self, &call, &args, &out);
  }
  struct Code {
    std::string blob, listing, entry;
    fe_compile_out out{};
  };
  Code compile(void* target, const core::kernel::FlatKernel& kernel, bool listing) {
    Code code_;
    code_.entry = kernel.entry;
    auto args = sized<fe_compile_args>();
    args.target = target;
    args.kernel = {kernel.bytes.data(), kernel.bytes.size(), 1};
    args.entry = to_abi(kernel.entry);
    args.provenance = to_abi(std::string_view("softmax\nnode 7"));
    code_.out = sized<fe_compile_out>();
    code_.out.blob = into(code_.blob);
    if (listing) code_.out.listing = into(code_.listing);
    EXPECT_EQ(provider->compile(provider->self, &call, &args, &code_.out), FE_OK) << text;
    return code_;
  }
};

core::kernel::FlatKernel scaled(int64_t n, double factor) {
  Builder b;
  auto x = b.input(f32, {n, 40}), out = b.output(f32, {n, 40});
  auto row = b.buffer(f32, FE_BUFFER_LOCAL, {n, 40}, {0, 1});
  b.kernel.shared = 1;
  auto i = b.begin(FE_STATEMENT_MAP, {n, 40});
  b.store(row, {i[0], i[1]}, b.prim(Prim::mul_, b.load(x, {i[0], i[1]}), b.constant(f32, factor)));
  auto j = b.begin(FE_STATEMENT_MAP, {n, 40});
  b.store(out, {j[0], j[1]}, b.load(row, {j[0], b.add(b.mul(j[1], -1), 39)}));
  auto flat = core::kernel::flatten(b.kernel);
  EXPECT_TRUE(flat) << flat.error().message();
  return std::move(*flat);
}

TEST(CpuPlugin, CompilesOnThreadsAndRuns) {
  Plugin plugin;
  fe_open_target_out target{};
  ASSERT_EQ(plugin.open(plugin.description(), target), FE_OK) << plugin.text;
  EXPECT_GE(target.vector_bytes, 16u);

  constexpr int64_t n = 500;
  std::vector<Plugin::Code> codes(4);
  std::vector<std::thread> threads;
  for (size_t k = 0; k < codes.size(); ++k)
    threads.emplace_back(
        [&, k] { codes[k] = plugin.compile(target.target, scaled(n, static_cast<double>(k) + 2), k == 0); });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(codes[0].listing.substr(0, 10), "; softmax\n");
  EXPECT_NE(codes[0].listing.find("vector.body"), std::string::npos);
  EXPECT_NE(codes[0].listing.find(".globl"), std::string::npos);
  EXPECT_TRUE(codes[1].listing.empty());
  EXPECT_GE(codes[0].out.workspace_bytes, 160);

  std::vector<fe_array> blobs;
  for (const auto& code : codes) blobs.push_back({code.blob.data(), code.blob.size(), 1});
  auto load = sized<fe_module_args>();
  load.blobs = to_array(blobs.data(), blobs.size());
  load.name = to_abi(std::string_view("program"));
  auto module = sized<fe_module_out>();
  ASSERT_EQ(plugin.runtime->module_load(plugin.runtime->self, &plugin.call, &load, &module), FE_OK)
      << plugin.text;

  std::vector<float> x(n * 40), out(n * 40);
  for (size_t k = 0; k < x.size(); ++k) x[k] = static_cast<float>(k);
  auto allocate = sized<fe_alloc_args>();
  allocate.bytes = static_cast<uint64_t>(codes[0].out.workspace_bytes) * 3;
  auto workspace = sized<fe_alloc_out>();
  ASSERT_EQ(plugin.runtime->alloc(plugin.runtime->self, &plugin.call, &allocate, &workspace), FE_OK);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(workspace.data) % 64, 0u);
  for (size_t k = 0; k < codes.size(); ++k) {
    auto find = sized<fe_function_args>();
    find.module = module.module;
    find.entry = to_abi(codes[k].entry);
    auto function = sized<fe_function_out>();
    ASSERT_EQ(plugin.runtime->function(plugin.runtime->self, &plugin.call, &find, &function), FE_OK)
        << plugin.text;
    void* buffers[] = {x.data(), out.data()};
    fe_error_words error = {};
    auto launch = sized<fe_launch_args>();
    launch.function = function.function;
    launch.buffers = buffers;
    launch.buffer_count = 2;
    launch.tasks = codes[k].out.tasks;
    launch.grain = codes[k].out.grain;
    launch.workspace = workspace.data;
    launch.workspace_bytes = codes[k].out.workspace_bytes;
    launch.error = error;
    auto none_ = sized<fe_none>();
    ASSERT_EQ(plugin.runtime->launch(plugin.runtime->self, &plugin.call, &launch, &none_), FE_OK);
    for (int64_t row = 0; row < n; ++row)
      for (int64_t column = 0; column < 40; ++column)
        ASSERT_EQ(out[static_cast<size_t>(row * 40 + column)],
                  x[static_cast<size_t>(row * 40 + 39 - column)] * static_cast<float>(k + 2));
  }
  auto find = sized<fe_function_args>();
  find.module = module.module;
  find.entry = to_abi(std::string_view("absent"));
  auto function = sized<fe_function_out>();
  EXPECT_NE(plugin.runtime->function(plugin.runtime->self, &plugin.call, &find, &function), FE_OK);
  EXPECT_EQ(plugin.code, "ferrite.cpu/link");
  auto none_ = sized<fe_none>();
  EXPECT_EQ(plugin.runtime->module_unload(plugin.runtime->self, &plugin.call, &module, &none_), FE_OK);
  auto release = sized<fe_free_args>();
  release.data = workspace.data;
  EXPECT_EQ(plugin.runtime->free(plugin.runtime->self, &plugin.call, &release, &none_), FE_OK);
  EXPECT_EQ(plugin.provider->close_target(plugin.provider->self, &plugin.call, &target, &none_), FE_OK);
}

TEST(CpuPlugin, BadInput) {
  Plugin plugin;
  fe_open_target_out target{};
  EXPECT_NE(plugin.open("cpu=nonsense", target), FE_OK);
  EXPECT_EQ(plugin.code, "ferrite.cpu/target");
  ASSERT_EQ(plugin.open("cpu=x86-64-v3", target), FE_OK);
  auto propose = sized<fe_propose_args>();
  propose.target = target.target;
  propose.kernel = {"nonsense", 8, 1};
  auto proposals = sized<fe_propose_out>();
  EXPECT_NE(plugin.provider->propose(plugin.provider->self, &plugin.call, &propose, &proposals), FE_OK);
  EXPECT_EQ(plugin.code, "ferrite.cpu/kernel");
  auto load = sized<fe_module_args>();
  const fe_array blobs[] = {{"no object", 9, 1}};
  load.blobs = to_array(blobs, 1);
  auto module = sized<fe_module_out>();
  EXPECT_NE(plugin.runtime->module_load(plugin.runtime->self, &plugin.call, &load, &module), FE_OK);
  EXPECT_EQ(plugin.code, "ferrite.cpu/link");
  auto none_ = sized<fe_none>();
  plugin.provider->close_target(plugin.provider->self, &plugin.call, &target, &none_);
}

TEST(CpuPlugin, Proposes) {
  Plugin plugin;
  fe_open_target_out target{};
  ASSERT_EQ(plugin.open("cpu=x86-64-v4", target), FE_OK);
  auto kernel = scaled(8, 2);
  auto args = sized<fe_propose_args>();
  args.target = target.target;
  args.kernel = {kernel.bytes.data(), kernel.bytes.size(), 1};
  std::vector<std::string> names;
  auto out = sized<fe_propose_out>();
  out.host = &names;
  out.add = [](void* host, const fe_candidate* candidate) -> int32_t {
    static_cast<std::vector<std::string>*>(host)->emplace_back(from_abi(candidate->name));
    EXPECT_GT(candidate->cost, 0);
    return FE_OK;
  };
  EXPECT_EQ(plugin.provider->propose(plugin.provider->self, &plugin.call, &args, &out), FE_OK) << plugin.text;
  EXPECT_EQ(names, (std::vector<std::string>{"llvm", "llvm.unroll1", "llvm.unroll4", "llvm.half_vectors",
                                             "llvm.rematerialised"}));
  auto none_ = sized<fe_none>();
  plugin.provider->close_target(plugin.provider->self, &plugin.call, &target, &none_);
}

}  // namespace
}  // namespace ferrite::kernel_test
