// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ledger records of the devices on which a program runs.
#pragma once

#include <span>
#include <string>

#include "core/link/transfers.h"
#include "core/schedule/schedule.h"

namespace ferrite::core::link {

using namespace ferrite::core::runtime;

/// A group of the schedule with its final placement.
struct PlacedGroup {
  std::string provenance;
  uint32_t device = 0;
  bool init = false;  ///< it runs once, at load
  std::string text;   ///< its compiler, its kernel, and the reason for its device
};

/// Records the device of each group under `placement`, with the kernel's number in the order of execution,
/// from 1 on, as score, and the copies between memories under `transfer`. `groups`: one for each group of the
/// schedule.
void record_placement(const schedule::Schedule& schedule, std::span<const PlacedGroup> groups,
                      std::span<const Transfers::Transfer> transfers, const Devices& devices, Ledger& ledger);

}  // namespace ferrite::core::link
