// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "runtime/executable.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "core/support/abi/abi.h"
#include "core/support/elapsed.h"
#include "ferrite/counted.hpp"
#include "runtime/memory_plan.h"
#include "runtime/plugin/serialised_calls.h"

namespace ferrite::core::runtime {

namespace {

/// Compares the launch data of a kernel with those in fe_function_out or fe_exec_out. FE-P67 if the loaded
/// code needs other launches. On success `kernel` records what the code reads and writes through its
/// arguments.
template <class Out>
Result<void> take_needs(CompiledKernel& kernel, const Out& needs) {
  kernel.arguments.clear();
  // The code states nothing: the kernel's own launch data stand.
  if (needs.tasks < 0) return {};
  if (!abi::readable<fe_argument_needs>(needs.arguments))
    return at(kernel.provenance,
              error(FE_EINTERNAL, "FE-P67", "the argument requirements of its code cannot be read"));
  if (needs.tasks != kernel.tasks || needs.grain != kernel.grain ||
      needs.workspace_bytes != kernel.workspace_bytes)
    return at(kernel.provenance, error(FE_EINVALID, "FE-P67",
                                       "the kernel is said to have {}, a grain of {} and {} bytes of "
                                       "workspace; its code has {}, {} and {}",
                                       counted(kernel.tasks, "task"), kernel.grain, kernel.workspace_bytes,
                                       needs.tasks, needs.grain, needs.workspace_bytes));
  for (uint64_t k = 0; k < needs.arguments.count; ++k)
    kernel.arguments.push_back(abi::element<fe_argument_needs>(needs.arguments, k));
  return {};
}

}  // namespace

uint32_t Executable::add_persistent(uint32_t device, int64_t bytes) {
  persistent_.push_back({device, bytes, nullptr});
  return static_cast<uint32_t>(persistent_.size() - 1);
}

void Executable::plan_init() {
  constexpr size_t nowhere = SIZE_MAX;
  const auto each_slot = [](std::vector<Launch>& launches, auto&& look) {
    for (size_t number = 0; number < launches.size(); ++number)
      for (auto& slot : launches[number].arguments)
        if (slot.kind == BufferSlot::Kind::persistent) look(slot, number);
  };
  // Keep the blocks that runs read, and renumber them.
  std::vector<size_t> kept(persistent_.size(), nowhere);
  each_slot(steps, [&](const BufferSlot& slot, size_t) { kept[slot.number] = 0; });
  for (const auto& slot : output_slots)
    if (slot.kind == BufferSlot::Kind::persistent) kept[slot.number] = 0;
  std::vector<Persistent> blocks;
  for (size_t k = 0; k < kept.size(); ++k) {
    if (kept[k] == nowhere) continue;
    kept[k] = blocks.size();
    blocks.push_back(persistent_[k]);
  }
  // Blocks used only by init live from the first to the last launch of init that touches them.
  std::vector<std::vector<runtime::Lifetime>> lifetimes(devices.size());
  std::vector<size_t> life_of(persistent_.size(), nowhere);
  each_slot(init, [&](const BufferSlot& slot, size_t number) {
    if (kept[slot.number] != nowhere) return;
    auto& lives = lifetimes[slot.device];
    if (life_of[slot.number] == nowhere) {
      life_of[slot.number] = lives.size();
      lives.push_back({persistent_[slot.number].bytes, number, number});
    }
    lives[life_of[slot.number]].last = number;
  });
  std::vector<runtime::MemoryPlan> plans;
  for (size_t d = 0; d < devices.size(); ++d) {
    plans.push_back(runtime::plan_memory(lifetimes[d], static_cast<int64_t>(devices[d]->alignment)));
    init_arena_bytes.push_back(plans[d].bytes);
  }
  const auto move = [&](BufferSlot& slot, size_t) {
    if (kept[slot.number] != nowhere) {
      slot.number = static_cast<uint32_t>(kept[slot.number]);
      return;
    }
    slot.offset = plans[slot.device].offsets[life_of[slot.number]];
    slot.kind = BufferSlot::Kind::arena;
    slot.number = 0;
  };
  each_slot(init, move);
  each_slot(steps, move);
  for (auto& slot : output_slots)
    if (slot.kind == BufferSlot::Kind::persistent) move(slot, 0);
  persistent_ = std::move(blocks);
}

Executable::~Executable() {
  for (const auto& block : persistent_) free(block.device, block.data);
  unload_code();
}

void Executable::unload_code() {
  auto out = abi::sized<fe_none>();
  for (auto& kernel : kernels) {
    void* function = std::exchange(kernel.function, nullptr);
    if (!kernel.library || !function || !kernel.library->slots.exec_destroy) continue;
    abi::Call call;
    auto args = abi::sized<fe_exec_out>();
    args.exec = function;
    plugin::invoke(*kernel.library->table, kernel.library->slots.exec_destroy, call, &args, &out);
  }
  for (size_t d = 0; d < modules_.size(); ++d) {
    const auto& runtime = *devices[d]->runtime;
    if (!modules_[d] || !runtime.module_unload) continue;
    abi::Call call;
    auto args = abi::sized<fe_module_out>();
    args.module = modules_[d];
    plugin::invoke(runtime, runtime.module_unload, call, &args, &out);
  }
  modules_.clear();
}

/// Loads the kernels that runtimes launch: one module per device.
Result<void> Executable::load_modules(std::span<const std::string> blobs) {
  modules_.resize(devices.size());
  for (uint32_t d = 0; d < devices.size(); ++d) {
    const auto& runtime = *devices[d]->runtime;
    std::vector<fe_array> arrays;
    for (size_t k = 0; k < kernels.size(); ++k)
      if (kernels[k].device == d && !kernels[k].library)
        arrays.push_back({blobs[k].data(), blobs[k].size(), 1});
    if (arrays.empty()) continue;
    abi::Call call;
    auto args = abi::sized<fe_module_args>();
    args.device = devices[d]->number;
    args.blobs = abi::array(arrays);
    auto out = abi::sized<fe_module_out>();
    int32_t status = plugin::invoke(runtime, runtime.module_load, call, &args, &out);
    if (status != FE_OK)
      return devices[d]->failed(call.error(status, "FE-D02", "the kernels could not be loaded"));
    modules_[d] = out.module;
  }
  for (auto& kernel : kernels) {
    if (kernel.library) continue;
    const auto& runtime = *devices[kernel.device]->runtime;
    abi::Call call;
    auto args = abi::sized<fe_function_args>();
    args.module = modules_[kernel.device];
    args.entry = abi::string(kernel.entry);
    auto out = abi::sized<fe_function_out>();
    out.tasks = out.registers = out.spills = out.shared_bytes = -1;
    int32_t status = plugin::invoke(runtime, runtime.function, call, &args, &out);
    if (status != FE_OK)
      return at(kernel.provenance, call.error(status, "FE-D02", "a kernel is not in the loaded module"));
    kernel.function = out.function;
    FE_CHECK(take_needs(kernel, out));
    // Only the driver knows these after loading; the compiler's values take precedence.
    for (auto [known, said] : {std::pair{&kernel.registers, out.registers},
                               {&kernel.spills, out.spills},
                               {&kernel.shared_bytes, out.shared_bytes}})
      if (*known < 0) *known = said;
  }
  return {};
}

/// Loads the kernels that library providers launch themselves.
Result<void> Executable::load_libraries(std::span<const std::string> blobs) {
  for (size_t k = 0; k < kernels.size(); ++k) {
    auto& kernel = kernels[k];
    if (!kernel.library) continue;
    abi::Call call;
    auto args = abi::sized<fe_exec_args>();
    args.target = kernel.library->target.target;
    args.blob = {blobs[k].data(), blobs[k].size(), 1};
    args.entry = abi::string(kernel.entry);
    args.device = devices[kernel.device]->number;
    args.native_context = devices[kernel.device]->native(FE_NATIVE_CONTEXT, nullptr);
    auto out = abi::sized<fe_exec_out>();
    out.tasks = -1;
    int32_t status =
        plugin::invoke(*kernel.library->table, kernel.library->slots.exec_create, call, &args, &out);
    if (status != FE_OK)
      return at(kernel.provenance,
                call.error(status, "FE-D02", "the library could not load what it compiled"));
    kernel.function = out.exec;
    kernel.recordable = (out.flags & FE_EXEC_RECORDABLE) != 0;
    FE_CHECK(take_needs(kernel, out));
  }
  return {};
}

Result<void> Executable::load(std::span<const std::string> blobs) {
  FE_CHECK(load_code(blobs));
  return prepare();
}

Result<void> Executable::load_code(std::span<const std::string> blobs) {
  const auto begin = std::chrono::steady_clock::now();
  auto loaded = load_modules(blobs);
  if (loaded) loaded = load_libraries(blobs);
  // The caller may retry with other blobs, so leave nothing half loaded.
  if (!loaded) unload_code();
  load_ms = milliseconds_since(begin);
  return loaded;
}

uint32_t Executable::memory_of(const BufferSlot& slot) const {
  switch (slot.kind) {
    case BufferSlot::Kind::constant: return host;
    case BufferSlot::Kind::input:
    case BufferSlot::Kind::output: return memory_of_ports();
    default: return memory_of(slot.device);
  }
}

bool Executable::host_reaches(const BufferSlot& slot) const { return memory_of(slot) == host; }

bool Executable::device_reaches(uint32_t device, const BufferSlot& slot) const {
  return memory_of(slot) == memory_of(device);
}

Result<void> Executable::check(const Launch& launch) const {
  const auto refuse = [&](std::string what) {
    return at(launch.provenance, Error{FE_EINVALID, "FE-P67", std::move(what), {}});
  };
  const auto& given = launch.arguments;
  // A package is untrusted: check alignment, reachability and size of every argument before any launch.
  for (const BufferSlot& slot : given)
    if (slot.kind == BufferSlot::Kind::arena &&
        static_cast<uint64_t>(slot.offset) %
                std::min<uint64_t>(least_alignment, devices[slot.device]->alignment) !=
            0)
      return refuse(fmt::format("an argument lies at {}, where no buffer can begin", slot.offset));
  if (launch.copy != no_copy) {
    const bool from_host = launch.copy == FE_COPY_TO_DEVICE, to_host = launch.copy == FE_COPY_TO_HOST;
    const bool of_peers = launch.copy == FE_COPY_PEER;
    const uint32_t source = memory_of(given[0]);
    if (of_peers && (source == host || devices[source]->runtime != devices[launch.device]->runtime ||
                     !devices[source]->has_streams()))
      return refuse("a copy is from the memory of a device that is no peer");
    if ((from_host  ? host_reaches(given[0])
         : of_peers ? source != host
                    : device_reaches(launch.device, given[0])) &&
        (to_host ? host_reaches(given[1]) : device_reaches(launch.device, given[1])) &&
        given[1].kind != BufferSlot::Kind::constant)
      return {};
    return refuse("a copy is from or to memory that its device does not reach");
  }
  if (launch.call.function) return {};
  const auto& kernel = kernels[launch.kernel];
  for (const BufferSlot& slot : given)
    if (!device_reaches(kernel.device, slot))
      return refuse("an argument of the kernel lies in memory that its device does not reach");
  const auto& wanted = kernel.arguments;
  if (wanted.empty()) return {};
  if (given.size() != wanted.size())
    return refuse(fmt::format("the kernel is given {}, and its code takes {}",
                              counted(given.size(), "argument"), wanted.size()));
  for (size_t k = 0; k < given.size(); ++k) {
    if (given[k].bytes < wanted[k].bytes)
      return refuse(fmt::format("argument {} of the kernel has {} bytes, and its code reaches {}", k,
                                given[k].bytes, wanted[k].bytes));
    if (wanted[k].written != 0 && given[k].kind == BufferSlot::Kind::constant)
      return refuse(fmt::format("argument {} of the kernel is a constant, and its code writes there", k));
  }
  return {};
}

Result<void> Executable::check_launches() const {
  for (const auto* list : {&init, &steps})
    for (const auto& launch : *list) FE_CHECK(check(launch));
  for (size_t k = 0; k < output_slots.size(); ++k) {
    const auto& slot = output_slots[k];
    if ((!host_reaches(slot) && memory_of(slot) != memory_of_ports()) || slot.bytes != outputs[k].bytes)
      return at(outputs[k].name, error(FE_EINVALID, "FE-P67", "{} bytes are to go into an output of {}",
                                       slot.bytes, outputs[k].bytes));
  }
  return {};
}

Result<void> Executable::prepare(bool keep_sources) {
  arena_bytes.resize(devices.size());
  init_arena_bytes.resize(devices.size());
  FE_CHECK(check_launches());
  const auto loaded = std::chrono::steady_clock::now();
  // Kernels may rely on a buffer's alignment, but a weight in a mapped file can be anywhere: copy misaligned
  // ones.
  constexpr uintptr_t alignment = least_alignment;
  aligned_constants_.resize(constants.size());
  for (size_t k = 0; k < constants.size(); ++k) {
    auto& constant = constants[k];
    if (reinterpret_cast<uintptr_t>(constant.data) % alignment == 0) continue;
    auto& copy = aligned_constants_[k];
    copy.resize(constant.bytes + alignment);
    auto start = (reinterpret_cast<uintptr_t>(copy.data()) + alignment - 1) / alignment * alignment;
    std::memcpy(reinterpret_cast<void*>(start), constant.data, constant.bytes);
    constant.data = reinterpret_cast<const std::byte*>(start);
  }
  for (auto& block : persistent_) {
    // At least one byte, so that an empty block has an address of its own.
    FE_TRY(block.data, alloc(block.device, std::max<int64_t>(block.bytes, 1)));
  }
  {
    Context context(*this, init, init_arena_bytes, nullptr);
    FE_CHECK(context.opened_);
    FE_CHECK(launch_all(init, {}, context));
  }
  if (!keep_sources) release_sources();
  // Plan last: whether a kernel can be recorded is known only after loading.
  if (record_runs) recording_ = plan_recording();
  released_ = plan_released();
  init_ms = milliseconds_since(loaded);
  return {};
}

void Executable::release_sources() {
  code.clear();
  std::vector<bool> used(constants.size());
  for (const auto& step : steps)
    for (const auto& slot : step.arguments)
      if (slot.kind == BufferSlot::Kind::constant) used[slot.number] = true;
  for (const auto& slot : output_slots)
    if (slot.kind == BufferSlot::Kind::constant) used[slot.number] = true;
  for (size_t k = 0; k < constants.size(); ++k)
    if (!used[k]) {
      std::vector<std::byte>().swap(aligned_constants_[k]);
      constants[k].owned.reset();
      constants[k].data = nullptr;
    }
}

}  // namespace ferrite::core::runtime
