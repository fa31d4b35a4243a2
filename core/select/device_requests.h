// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Requests of a program's devices that affect decisions about the whole program.
#pragma once

#include "core/schedule/rewrites/padding.h"
#include "core/support/ledger.h"
#include "runtime/device.h"

namespace ferrite::core::select {

/// Whether all code generators support contractions with computed operands; the ledger names those that do
/// not.
bool takes_prologues(const runtime::Devices& devices, Ledger& ledger);

/// The row padding for the program: that of the first device that compiles loops, whose numbers also guide
/// fusion. Other devices accept any strides. Of its code generators, the first one with a request counts.
schedule::RowPadding row_padding(const runtime::Devices& devices);

}  // namespace ferrite::core::select
