// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Fails in every way in which a device, a kernel or a fusion pass can, and gives no reason.
//
// --device faulty:K: the device cannot be described (0), compiled for (1), loaded onto (2), allocated on (3),
// launched on (4), copied to (5), given a stream (6) or recorded (7). Devices 5 to 7 have their own memory.
//
// config provider, for device 4: "declines", "layout", "silent", "worthless", "nothing" or "claims".
//
// config pass: "pair", "statement", "group" or "cut", a pass that names something that does not exist.
//
// test.fails(x) is an op whose kernel fails.
#include <array>
#include <cstring>
#include <new>

#include "ferrite/plugin.hpp"

namespace {

using namespace ferrite;

// All after no_memory describe themselves, compile and load; the last one launches, too, which does nothing.
constexpr uint32_t not_described = 0, not_compiled = 1, not_loaded = 2, no_memory = 3, far = 5, no_stream = 6,
                   not_recorded = 7, devices = 8;
constexpr uint32_t nowhere = 999;
constexpr std::align_val_t alignment{64};  // as DeviceDescription has it

[[noreturn]] void fail_silently() { throw Failure(FE_EDEVICE, "", ""); }

class FaultyRuntime final : public Runtime, public Streams {
 public:
  std::string id() const override { return "faulty"; }
  uint32_t device_count() override { return devices; }
  DeviceDescription describe(uint32_t device) override {
    if (device == not_described) fail_silently();
    DeviceDescription description;
    description.description = std::string(1, static_cast<char>('0' + device));
    description.name = "a faulty device";
    description.host_memory = device < far;
    return description;
  }
  void* alloc(uint32_t device, uint64_t bytes) override {
    return device == no_memory ? nullptr : ::operator new(bytes, alignment);
  }
  void free(uint32_t, void* data) override { ::operator delete(data, alignment); }
  void copy(const fe_copy_args& args) override {
    if (args.device != not_recorded) fail_silently();
    std::memmove(args.to, args.from, args.bytes);
  }
  void* module_load(uint32_t device, std::span<const Bytes>, std::string_view) override {
    if (device == not_loaded) fail_silently();
    return &modules_[device];
  }
  void module_unload(void*) override {}
  void* function(void* module, std::string_view) override { return module; }
  void launch(const fe_launch_args& args) override {
    if (args.function != &modules_[not_recorded]) fail_silently();
  }

  void* stream_open(uint32_t device, void*) override {
    if (device == no_stream) fail_silently();
    return this;
  }
  void stream_close(uint32_t, void*) override {}
  void* native_handle(uint32_t, void*, uint32_t) override { return this; }
  void* stream_alloc(uint32_t device, uint64_t bytes, void*) override { return alloc(device, bytes); }
  void stream_free(uint32_t device, void* data, void*) override { free(device, data); }
  void stream_synchronise(uint32_t, void*) override {}
  void record_begin(uint32_t, void*) override { fail_silently(); }
  void* host_alloc(uint32_t device, uint64_t bytes) override { return alloc(device, bytes); }
  void host_free(uint32_t device, void* data) override { free(device, data); }

 private:
  std::array<char, devices> modules_{};
};

class FaultyProvider final : public Provider {
 public:
  explicit FaultyProvider(std::string mode) : mode_(std::move(mode)) {}
  std::string id() const override { return "faulty"; }
  std::string device_kind() const override { return "faulty"; }
  std::unique_ptr<Target> open_target(Bytes description) override {
    if (description[0] == std::byte{'0' + not_compiled}) fail_silently();
    auto target = std::make_unique<Target>();
    if (mode_ == "nothing") target->capabilities.push_back({0, 0, 1});
    return target;
  }
  std::vector<Candidate> propose(Target&, Bytes) override {
    if (mode_ == "declines") return {};
    Candidate candidate;
    candidate.name = "nothing";
    if (mode_ == "worthless") candidate.cost = -1;
    if (mode_ == "layout") candidate.operand_layouts.push_back({nowhere, {}, {}, {}});
    return {candidate};
  }
  CompileResult compile(Target&, const CompileRequest&) override {
    if (mode_ == "silent") fail_silently();
    CompileResult result;
    result.blob = "nothing";
    return result;
  }
  std::string fingerprint() override { return "faulty"; }

 private:
  std::string mode_;
};

class FaultyRegions final : public RegionProvider {
 public:
  std::string id() const override { return "faulty.regions"; }
  std::string device_kind() const override { return "faulty"; }
  std::unique_ptr<Target> open_target(Bytes) override { return std::make_unique<Target>(); }
  std::vector<Claim> claim(Target&, Bytes) override { fail_silently(); }
  CompileResult compile(Target&, const CompileRequest&) override { fail_silently(); }
  std::string fingerprint() override { return "faulty"; }
};

int32_t failing_kernel(void*, fe_call*, const fe_kernel_call_args*, fe_none*) { return FE_EDEVICE; }

void fuse_nothing(const fe_loop_api& loops) {
  auto args = sized<fe_pair_args>();
  args.b = nowhere;
  auto out = sized<fe_none>();
  call_host(loops, loops.forbid_fusion, args, out);
}
void read_nothing(const fe_loop_api& loops) {
  auto args = sized<fe_statement_args>();
  args.statement = nowhere;
  auto out = sized<fe_statement_view>();
  call_host(loops, loops.statement, args, out);
}
void split(const fe_schedule_api& schedule, uint32_t group, uint32_t at) {
  auto args = sized<fe_group_args>();
  args.group = group;
  args.at = at;
  auto out = sized<fe_none>();
  call_host(schedule, schedule.split_group, args, out);
}

void contribute(PluginBuilder& builder, const PluginContext& context) {
  builder.add(std::unique_ptr<Runtime>(std::make_unique<FaultyRuntime>()));
  const std::string provider(context.config.has("provider") ? context.config.string("provider") : "");
  builder.add(std::unique_ptr<Provider>(std::make_unique<FaultyProvider>(provider)));
  if (provider == "claims") builder.add(std::unique_ptr<Provider>(std::make_unique<FaultyRegions>()));
  const std::string pass(context.config.has("pass") ? context.config.string("pass") : "");
  auto before = [&](void (*body)(const fe_loop_api&)) {
    builder.add(loop_pass("test.faulty." + pass, [body](const fe_loop_api& loops) {
      body(loops);
      return false;
    }));
  };
  auto after = [&](uint32_t group) {
    builder.add(schedule_pass("test.faulty." + pass, [group](const fe_schedule_api& schedule) {
      split(schedule, group, nowhere);
      return false;
    }));
  };
  if (pass == "pair") before(fuse_nothing);
  if (pass == "statement") before(read_nothing);
  if (pass == "group") after(nowhere);
  if (pass == "cut") after(0);
}

}  // namespace

FERRITE_PLUGIN("test.faulty", "1.0.0", contribute,
               op_def("test.fails")
                   .operands("x")
                   .infer([](const Instance& op) { return std::vector<TensorType>{op.operand(0)}; })
                   .lower([](Lowering& l) {
                     const BufferRef reads[] = {l.operand(0)}, writes[] = {l.result()};
                     l.call(failing_kernel, nullptr, reads, writes, "failing_kernel");
                   }))
