// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/select/device_requests.h"

namespace ferrite::core::select {

bool takes_prologues(const runtime::Devices& devices, Ledger& ledger) {
  bool all = true;
  for (const auto& device : devices)
    for (const auto& generator : device->generators()) {
      // Fusion comes before placement, so one generator that lacks prologues rules them out for all devices.
      if (generator.slots.features & FE_FLAT_PROLOGUES) continue;
      all = false;
      ledger.add({"fusion",
                  "prologues",
                  generator.id,
                  "switched off",
                  {},
                  "the code generator does not support computed operands of contractions",
                  0});
    }
  return all;
}

schedule::RowPadding row_padding(const runtime::Devices& devices) {
  for (const auto& device : devices) {
    for (const auto& generator : device->generators())
      if (const auto& target = generator.target; target.row_alignment != 0)
        return {target.row_alignment, target.row_padding_percent, target.row_padding_from};
    // Only the preferred device that compiles loops is asked: a buffer has one layout on all devices.
    if (!device->generators().empty()) break;
  }
  return {};
}

}  // namespace ferrite::core::select
