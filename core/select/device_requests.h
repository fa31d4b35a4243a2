// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Requests of a program's devices that decisions about the whole program follow.
#pragma once

#include "core/schedule/rewrites/padding.h"
#include "core/support/ledger.h"
#include "runtime/device.h"

namespace ferrite::core::select {

/// Whether all code generators take contractions that compute operands; the ledger has those that do not.
bool takes_prologues(const runtime::Devices& devices, Ledger& ledger);

/// The padding of rows that the first device asks for which compiles loops, as its numbers count for fusion: the others take the
/// strides that they get. It is that of the first of its code generators that asks for any.
schedule::RowPadding row_padding(const runtime::Devices& devices);

}  // namespace ferrite::core::select
