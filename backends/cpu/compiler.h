// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The provider: compiles kernels to ELF objects, for this CPU or another.
#pragma once

#include <memory>

#include "ferrite/provider.hpp"

namespace ferrite::cpu {

/// Settings from the manifest (ferrite.cpu.plugin.toml).
struct Settings {
  uint32_t row_alignment = 0, row_padding_percent = 0;  ///< 0: no alignment requested
  int64_t row_padding_from = 0;
  bool winograd = true;  ///< Winograd convolution is a candidate
};

Settings settings_of(const AttrView& config);

/// Provider "cpu". Callable from any thread.
std::unique_ptr<Provider> make_compiler(const Settings& settings = {});

}  // namespace ferrite::cpu
