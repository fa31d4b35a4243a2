// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the ledger is told of where a program runs.
#pragma once

#include <span>
#include <string>

#include "core/link/transfers.h"
#include "core/schedule/schedule.h"

namespace ferrite::core::runtime {

/// A group of the schedule, as it was placed in the end.
struct PlacedGroup {
  std::string provenance;
  uint32_t device = 0;
  bool init = false;  ///< it runs once, at load
  std::string text;   ///< by whom it was made, which kernel it is, and why it is there
};

/// What runs where, as records of `placement`, each with its kernel's number in the order of execution, from 1 on, as score; and what is
/// copied for that, of `transfer`. `groups`: one a group of the schedule.
void record_placement(const schedule::Schedule& schedule, std::span<const PlacedGroup> groups,
                      std::span<const Transfers::Transfer> transfers, const Devices& devices, Ledger& ledger);

}  // namespace ferrite::core::runtime
