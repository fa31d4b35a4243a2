// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The accelerator's runtime. Its memory is its own: the addresses that it gives are none of the host's.
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <map>
#include <new>

#include "accelerator.h"
#include "ferrite/plugin.hpp"

namespace acme {
namespace {

using namespace ferrite;

char* on_host(const void* device) {
  const auto address = reinterpret_cast<uintptr_t>(device);
  if (!(address & device_bit))
    fail("acme.npu.runtime/memory", "an address of the host is given for one of the device");
  return reinterpret_cast<char*>(address ^ device_bit);
}

struct Program {
  std::vector<Tensor> tensors;
  std::vector<Step> steps;
  size_t arguments = 0;
};
using Module = std::map<std::string, Program, std::less<>>;

/// The program of a blob and its name. The bytes may come from anywhere.
std::pair<std::string, Program> read(Bytes blob) {
  Head head{};
  auto take = [&](void* to, size_t size) {
    if (blob.size() < size) fail("acme.npu.runtime/blob", "the program is cut short");
    std::memcpy(to, blob.data(), size);
    blob = blob.subspan(size);
  };
  take(&head, sizeof head);
  constexpr int64_t most = 1 << 16;
  for (int64_t count : {head.arguments, head.temporaries, head.steps})
    if (head.magic != magic || count < 0 || count > most) fail("acme.npu.runtime/blob", "this is no program");
  Program program;
  program.arguments = static_cast<size_t>(head.arguments);
  program.tensors.resize(static_cast<size_t>(head.arguments + head.temporaries));
  take(program.tensors.data(), program.tensors.size() * sizeof(Tensor));
  program.steps.resize(static_cast<size_t>(head.steps));
  take(program.steps.data(), program.steps.size() * sizeof(Step));
  for (const auto& step : program.steps)
    for (int64_t slot : {step.a, step.b, step.to})
      if (slot < 0 || static_cast<size_t>(slot) >= program.tensors.size())
        fail("acme.npu.runtime/blob", "a step names a tensor that is not there");
  return {std::string(reinterpret_cast<const char*>(blob.data()), blob.size()), std::move(program)};
}

float compute(Operation operation, float a, float b) {
  switch (operation) {
    case Operation::relu: return a > 0 || std::isnan(a) ? a : 0;
    case Operation::sigmoid: return 1 / (1 + std::exp(-a));
    case Operation::add: return a + b;
    case Operation::sub: return a - b;
    case Operation::mul: return a * b;
  }
  return 0;
}

class AcceleratorRuntime final : public Runtime {
 public:
  std::string id() const override { return "npu"; }
  uint32_t device_count() override { return 1; }
  DeviceDescription describe(uint32_t) override {
    DeviceDescription description;
    description.name = "an accelerator with memory of its own";
    description.host_memory = false;
    description.dlpack_device = dlpack_device;
    return description;
  }
  void* alloc(uint32_t, uint64_t bytes) override {
    void* data = std::aligned_alloc(64, (bytes / 64 + 1) * 64);
    if (!data) throw std::bad_alloc();
    return reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(data) | device_bit);
  }
  void free(uint32_t, void* data) override { std::free(on_host(data)); }
  void copy(const fe_copy_args& args) override {
    std::memcpy(args.kind == FE_COPY_TO_HOST ? args.to : on_host(args.to),
                args.kind == FE_COPY_TO_DEVICE ? args.from : on_host(args.from), args.bytes);
  }
  void* module_load(uint32_t, std::span<const Bytes> blobs, std::string_view) override {
    auto module = std::make_unique<Module>();
    for (auto blob : blobs) module->insert(read(blob));
    return module.release();
  }
  void module_unload(void* module) override { delete static_cast<Module*>(module); }
  void* function(void* module, std::string_view entry) override {
    auto& programs = *static_cast<Module*>(module);
    const auto found = programs.find(entry);
    if (found == programs.end()) fail("acme.npu.runtime/blob", "no program is named '", entry, "'");
    return &found->second;
  }
  void launch(const fe_launch_args& args) override {
    const auto& program = *static_cast<const Program*>(args.function);
    if (args.buffer_count != program.arguments)
      fail("acme.npu.runtime/launch", "the program has ", program.arguments, " arguments");
    std::vector<float*> data;
    std::vector<std::vector<float>> temporaries;
    for (size_t k = 0; k < program.tensors.size(); ++k)
      data.push_back(
          k < program.arguments
              ? reinterpret_cast<float*>(on_host(args.buffers[k]))
              : temporaries.emplace_back(static_cast<size_t>(tiled_elements(program.tensors[k].elements)))
                    .data());
    for (const auto& step : program.steps) {
      auto at = [&](int64_t slot, int64_t k) -> float& {
        const auto s = static_cast<size_t>(slot);
        return data[s][program.tensors[s].is_tiled ? tiled_index(k) : k];
      };
      for (int64_t k = 0; k < program.tensors[static_cast<size_t>(step.to)].elements; ++k)
        at(step.to, k) = compute(step.operation, at(step.a, k), at(step.b, k));
    }
  }
};

}  // namespace
}  // namespace acme

FERRITE_PLUGIN("acme.npu.runtime", "1.0.0",
               [](ferrite::PluginBuilder& builder, const ferrite::PluginContext&) {
                 builder.add(std::make_unique<acme::AcceleratorRuntime>());
               })
