// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The provider: kernels in, ELF objects out, for this CPU or another.
#pragma once

#include <memory>

#include "ferrite/provider.hpp"

namespace ferrite::cpu {

/// What the manifest says (ferrite.cpu.plugin.toml).
struct Settings {
  uint32_t row_alignment = 0, row_padding_percent = 0;  ///< no alignment is no wish
  int64_t row_padding_from = 0;
  bool winograd = true;  ///< convolutions may be computed by tiles
};

Settings settings_of(const AttrView& config);

/// Provider "cpu". Any-thread.
std::unique_ptr<Provider> make_compiler(const Settings& settings = {});

}  // namespace ferrite::cpu
