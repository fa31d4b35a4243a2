// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Devices: a runtime's, with everything that compiles for it.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/place/coverage.h"
#include "core/plugin/registry.h"
#include "core/run/numbers.h"

namespace ferrite::core::run {

/// The device that no runtime has: the loop programs are evaluated as they stand.
inline constexpr std::string_view interpreter_name = "interpreter";

/// A provider with its target open.
struct Compiler {
  const fe_provider* table = nullptr;  ///< the plugin's own, whose lock its slots take
  fe_provider slots{};                 ///< the same at this side's size
  fe_open_target_out target{};
  std::string id;
  const plugin::LoadedPlugin* plugin = nullptr;  ///< whose it is
  std::string target_key;                        ///< place::target_key(); empty: it has no fingerprint
  place::Coverage coverage;                      ///< declared and measured

  bool takes_kernels() const { return slots.propose && slots.compile; }
  /// What it compiles it launches itself.
  bool is_library() const { return slots.exec_create && slots.exec_launch; }
};

/// A hash of all that a provider's code depends on beside the kernel: its target and fingerprint, its plugin's settings, the
/// contents of the library, Ferrite's version.
std::string maker_key(const Compiler& compiler);

/// A device with the runtime that owns it and the providers that compile for it, their targets open while this lives.
class Device {
 public:
  /// "cpu" or "cpu:0": a runtime's id and a number. FE-D01 where there is none, with what there is, FE-D05 where its
  /// devices cannot be counted, described or compiled for, FE-S20 and FE-P54 for what is said of what its providers take.
  /// A target, where not empty, is what is compiled for instead of what the device is.
  static Result<std::shared_ptr<Device>> open(const std::string& name, const plugin::Registry& registry,
                                              const std::string& target = {});
  ~Device();
  Device(const Device&) = delete;

  const fe_runtime* runtime = nullptr;
  std::vector<Compiler>
      compilers;  ///< code generators first, the one that was enabled last before the others
  uint32_t number = 0;
  uint64_t alignment = 1;   ///< of allocations, a power of two
  uint64_t capacity = 0;    ///< bytes of memory; 0: not known
  bool host_memory = true;  ///< it reads and writes host pointers
  std::string kind;         ///< the runtime's id
  std::string description;  ///< bytes: what is compiled for
  std::string name;
  SourcedNumbers
      numbers;  ///< what the code generators state, over that what was measured; of the first that states it

  /// Why code that was compiled for this target does not run on the device, as the runtime says; empty where it does.
  std::string refusal(const std::string& target) const;
  /// The code generators, the one that was enabled last first; none where only whole regions are taken. The first that takes a
  /// kernel for least compiles it, so one that knows little stands beside one that knows all.
  std::span<const Compiler> generators() const;
  /// What this provider opened, or null.
  const Compiler* compiler(const fe_provider& provider) const;

 private:
  Device() = default;
  Result<void> open_targets(const plugin::Registry& registry);
  Result<void> find_numbers();
};

/// The devices of a program, the preferred one first. Work goes to the first one that takes it; the last one takes the rest.
using Devices = std::vector<std::shared_ptr<Device>>;

/// "cpu", or several with commas between: "npu,cpu". As Device::open. Where the last one compiles no loops or cannot reach the host's
/// memory, the first device that does both comes behind it; FE-D20 where there is none. `target`: of the last one that is named.
Result<Devices> open_devices(const std::string& names, const plugin::Registry& registry,
                             const std::string& target = {});

/// The numbers by which decisions about a whole program are made: those of the first device that compiles loops. The least budget
/// for local buffers of all holds, because statements are placed behind fusion, and the first wish for an order of activations.
TargetNumbers numbers_of(const Devices& devices);

/// Whether these are names of devices or the interpreter's: the errors of open_devices() without opening anything.
Result<void> check_devices(const std::string& names, const plugin::Registry& registry);

/// The kind of the last device, for which ops are lowered.
std::string last_kind(const std::string& names);

}  // namespace ferrite::core::run
