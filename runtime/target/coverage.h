// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The coverage of a target: which statement kinds and primitives it takes, with which element types.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "core/support/error.h"
#include "ferrite/abi/provider.h"
#include "ferrite/loop.hpp"
#include "runtime/target/capability.h"

namespace ferrite::core::runtime {

/// Sets of element types (1 << code) by statement kind and by primitive. Initially a target takes everything:
/// it is asked and may decline.
class Coverage {
 public:
  /// The coverage that a provider declares (fe_open_target_out.capabilities); everything if it declares
  /// nothing. FE-S20 if an entry has an unknown name.
  static Result<Coverage> declared(const fe_array& capabilities);

  /// Removes the cells in which the target failed or declined when it was measured. Cells without a
  /// measurement stay.
  void exclude(const CapabilityTable& measured);

  /// The reason why the target does not take the kernel's first `count` statements, for people: "reduce of
  /// i64 is not declared", "erf of f64 failed when the target was measured". Empty if it takes them.
  std::string missing(const ferrite::loop::Kernel& kernel, size_t count) const;

 private:
  static constexpr size_t kinds = 8, primitives = 128;
  struct Cells {
    uint64_t taken = ~uint64_t{0}, failed = 0, declined = 0;  ///< failed and declined: by the measurement
  };
  std::array<Cells, kinds> statements_;
  std::array<Cells, primitives> primitives_;
};

}  // namespace ferrite::core::runtime
