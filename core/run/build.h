// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// From schedule to executable: select candidates, plan memory, compile kernels, link.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/plugin/registry.h"
#include "core/run/executable.h"
#include "core/schedule/schedule.h"
#include "core/support/ledger.h"

namespace ferrite::core::run {

/// A device with the runtime that owns it, the provider that compiles for it, and its target, open while this lives.
class Device {
 public:
  /// "cpu" or "cpu:0": a runtime's id and a number. FE-D01 where there is none, with what there is.
  static Result<std::shared_ptr<Device>> open(const std::string& name, const plugin::Registry& registry);
  ~Device();
  Device(const Device&) = delete;

  const fe_runtime* runtime = nullptr;
  const fe_provider* provider = nullptr;
  fe_open_target_out target{};
  uint32_t number = 0;
  std::string kind;         ///< the runtime's id
  std::string description;  ///< bytes
  std::string name;

 private:
  Device() = default;
};

struct BuildOptions {
  int64_t threads = 0;
  bool listings = false;
};

/// One kernel on its way from the group to code; equal groups share one.
struct Unit {
  schedule::GroupKernel group;   ///< of the first group that has it
  std::vector<std::byte> bytes;  ///< flat, operand layouts in place
  std::string entry;
  std::string provenance;
  fe_candidate candidate{};
  std::string candidate_name;
  struct Packed {
    uint32_t argument;  ///< which of group.arguments
    loop::BufferId buffer;
  };
  std::vector<Packed> packed;
};

/// The steps select, plan, emit and link. `listing` gets each kernel's text where options.listings.
Result<std::shared_ptr<Executable>> build(const schedule::Schedule& schedule, const Device& device,
                                          const BuildOptions& options, Ledger& ledger);

}  // namespace ferrite::core::run
