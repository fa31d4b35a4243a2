// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What a target takes: which kinds of statement and which primitives, with which element types.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "core/support/error.h"
#include "ferrite/abi/provider.h"
#include "ferrite/loop.hpp"
#include "runtime/target/capability.h"

namespace ferrite::core::runtime {

/// Sets of element types (1 << code) by statement kind and by primitive. A target takes everything until something is said of it:
/// it is asked, and may decline.
class Coverage {
 public:
  /// What a provider declares (fe_open_target_out.capabilities); all, where it declares nothing. FE-S20 where an entry names
  /// nothing that there is.
  static Result<Coverage> declared(const fe_array& capabilities);

  /// Takes away the cells in which the target failed or declined when it was measured. A cell that was not measured stays.
  void exclude(const CapabilityTable& measured);

  /// What of a kernel's first `count` statements the target does not take and why, for people: "reduce of i64 is not declared", "erf of
  /// f64 failed when the target was measured"; empty: all is taken.
  std::string missing(const ferrite::loop::Kernel& kernel, size_t count) const;

 private:
  static constexpr size_t kinds = 8, primitives = 128;
  struct Cells {
    uint64_t taken = ~uint64_t{0}, failed = 0, declined = 0;  ///< the last two: when it was measured
  };
  std::array<Cells, kinds> statements_;
  std::array<Cells, primitives> primitives_;
};

}  // namespace ferrite::core::runtime
