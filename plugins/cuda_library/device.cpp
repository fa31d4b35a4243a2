// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "cuda_library/device.h"

#include <algorithm>
#include <array>
#include <charconv>

namespace ferrite::cuda_library {
namespace {

/// Operations of a multiprocessor per clock cycle, dense, from NVIDIA's descriptions of the architectures.
struct Rates {
  int generation;
  double half, tf32, single, dual;  // f16 and bf16 with f32 sums, tf32, f32, f64
};
constexpr std::array rates{
    Rates{80, 2048, 1024, 128, 128}, Rates{86, 512, 256, 256, 4},      Rates{89, 1024, 512, 256, 4},
    Rates{90, 4096, 2048, 256, 256}, Rates{100, 8192, 4096, 256, 256}, Rates{120, 1024, 512, 256, 4},
};

int64_t number(std::string_view text) {
  int64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

}  // namespace

double Device::operations(DType type, bool tf32) const {
  auto rate = rates.front();
  for (const auto& each : rates)
    if (each.generation <= generation) rate = each;
  const double a_clock = type == f64 ? rate.dual : type != f32 ? rate.half : tf32 ? rate.tf32 : rate.single;
  return a_clock * multiprocessors * clock;
}

Device parse_device(std::string_view description) {
  Device device;
  while (!description.empty()) {
    const auto word = description.substr(0, description.find(' '));
    description.remove_prefix(std::min(description.size(), word.size() + 1));
    const auto equal = word.find('=');
    if (equal == std::string_view::npos) {
      if (!word.empty()) device.architecture = word;
      continue;
    }
    const auto key = word.substr(0, equal);
    const auto value = static_cast<double>(number(word.substr(equal + 1)));
    if (value <= 0) continue;
    if (key == "multiprocessors") device.multiprocessors = value;
    if (key == "clock") device.clock = value * 1e3;
    if (key == "bandwidth") device.bandwidth = value * 1e9;
  }
  const auto digits = device.architecture.find('_');
  if (digits != std::string::npos)
    device.generation = static_cast<int>(number(std::string_view(device.architecture).substr(digits + 1)));
  return device;
}

}  // namespace ferrite::cuda_library
