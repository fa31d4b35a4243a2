// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The provider: kernels in, ELF objects out, for this CPU or another.
#pragma once

#include <memory>

#include "ferrite/provider.hpp"

namespace ferrite::cpu {

/// What the manifest's settings say of rows; no alignment is no wish.
struct RowPadding {
  uint32_t alignment = 0, percent = 0;
  int64_t from = 0;
};

RowPadding rows_of(const AttrView& config);

/// Provider "cpu". Any-thread.
std::unique_ptr<Provider> make_compiler(const RowPadding& rows = {});

}  // namespace ferrite::cpu
