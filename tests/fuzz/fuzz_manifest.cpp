// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// No text, however hostile, crashes the readers of manifests, descriptors and lock files, and each fault has
// a code.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "driver/config/descriptor.h"
#include "driver/config/lock.h"
#include "driver/config/manifest.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string_view text(reinterpret_cast<const char*>(data), size);
  auto pipeline = ferrite::core::config::read_pipeline_text(text, "fuzz.toml", {});
  if (!pipeline && !pipeline.error().code.starts_with("FE-M")) std::abort();
  auto descriptor = ferrite::core::config::Descriptor::parse(text, "fuzz.plugin.toml");
  if (!descriptor && !descriptor.error().code.starts_with("FE-M")) std::abort();
  auto lock = ferrite::core::config::Lock::parse(text, "fuzz.lock");
  if (!lock && !lock.error().code.starts_with("FE-M")) std::abort();
  return 0;
}
