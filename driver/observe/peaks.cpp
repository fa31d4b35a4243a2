// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "driver/observe/peaks.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "core/support/hash.h"
#include "runtime/target/measured_file.h"

namespace ferrite::core::observe {
namespace {

constexpr int version = 0;  // of the files

/// Peaks belong to a machine, not to a device's number among others of its kind.
runtime::MeasuredFile file_of(const runtime::Device& device, int64_t workers) {
  return {"peaks",
          hash128({device.kind, device.description, fmt::format("{} {}", version, workers)}) + ".json"};
}

bool is_rate(double value) { return std::isfinite(value) && value > 0; }

double memory_seconds(const Facts& facts, const Peaks& peaks) {
  if (facts.moved_bytes == 0) return 0;
  return static_cast<double>(facts.moved_bytes) / peaks.bandwidth_of(facts.moved_bytes);
}

}  // namespace

double Peaks::bandwidth_of(int64_t bytes) const {
  const auto found = std::ranges::lower_bound(bandwidth, bytes, {}, &Bandwidth::bytes);
  return found == bandwidth.end() ? bandwidth.back().per_second : found->per_second;
}

std::optional<Peaks> load_peaks(const runtime::Device& device, int64_t workers) {
  return file_of(device, workers).load([](const nlohmann::json& json) -> std::optional<Peaks> {
    const auto operations = json.find("operations_per_second");
    const auto bandwidth = json.find("bandwidth");
    if (operations == json.end() || !operations->is_number() || bandwidth == json.end() ||
        !bandwidth->is_array())
      return std::nullopt;
    Peaks peaks;
    peaks.operations = operations->get<double>();
    for (const auto& entry : *bandwidth) {
      if (!entry.is_array() || entry.size() != 2 || !entry[0].is_number_integer() || !entry[1].is_number())
        return std::nullopt;
      peaks.bandwidth.push_back({entry[0].get<int64_t>(), entry[1].get<double>()});
      if (!is_rate(peaks.bandwidth.back().per_second)) return std::nullopt;
    }
    std::ranges::sort(peaks.bandwidth, {}, &Bandwidth::bytes);
    if (!is_rate(peaks.operations) || peaks.bandwidth.empty()) return std::nullopt;
    return peaks;
  });
}

Result<std::string> save_peaks(const runtime::Device& device, int64_t workers, const Peaks& peaks) {
  auto bandwidth = nlohmann::ordered_json::array();
  for (const auto& [bytes, per_second] : peaks.bandwidth) bandwidth.push_back({bytes, per_second});
  return file_of(device, workers)
      .save({{"device", device.name},
             {"workers", workers},
             {"operations_per_second", peaks.operations},
             {"bandwidth", std::move(bandwidth)}});
}

std::optional<double> estimate(const Facts& facts, const std::optional<Peaks>& peaks) {
  if (facts.operations == 0 && facts.moved_bytes == 0) return 0.0;
  if (!peaks) return std::nullopt;
  return std::max(facts.operations / peaks->operations, memory_seconds(facts, *peaks));
}

bool bound_by_memory(const Facts& facts, const Peaks& peaks) {
  return memory_seconds(facts, peaks) >= facts.operations / peaks.operations;
}

}  // namespace ferrite::core::observe
