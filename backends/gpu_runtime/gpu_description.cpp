// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ferrite/gpu_runtime/gpu_description.h"

#include "ferrite/error.hpp"
#include "ferrite/target_description.hpp"

namespace ferrite::emitter {

std::string describe(const GpuDescription& device) {
  std::string text = device.architecture;
  const auto add = [&](const char* key, int64_t value) {
    if (value > 0) text += std::string(" ") + key + "=" + std::to_string(value);
  };
  add("multiprocessors", device.multiprocessors);
  add("clock", device.clock_khz);
  add("bandwidth", device.gigabytes_a_second);
  add("l2", device.l2_bytes);
  return text;
}

GpuDescription parse_gpu_description(std::string_view description, const GpuDescription& usual,
                                     std::string_view code) {
  auto device = usual;
  device.architecture.clear();
  const TargetDescription words(description, code);
  for (const auto& word : words.words()) {
    if (word.key.empty())
      device.architecture = word.value;
    else if (word.key == "multiprocessors")
      device.multiprocessors = words.positive(word);
    else if (word.key == "clock")
      device.clock_khz = words.positive(word);
    else if (word.key == "bandwidth")
      device.gigabytes_a_second = words.positive(word);
    else if (word.key == "l2")
      device.l2_bytes = words.positive(word);
    else
      words.refuse(word, "multiprocessors, clock, bandwidth, l2, and an architecture's name alone");
  }
  if (device.architecture.empty())
    fail(code, "the target description names no architecture; write one, as in '", usual.architecture, "'");
  return device;
}

}  // namespace ferrite::emitter
