// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "compile_options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <numeric>

#include "core/support/abi/abi.h"
#include "random_source.h"
#include "runtime/target/number_table.h"

namespace ferrite::random_graphs {
namespace {

/// Seeds take turns in the feature that is off; in the last turns, none is. No number that divides other
/// choices by the seed divides this one, so that each choice meets each feature.
constexpr uint64_t feature_turns = 16;
static_assert(feature_turns >= feature_count);

}  // namespace

core::Result<Here> open_here(const core::Session& session, const Options& options) {
  Here here;
  if (options.device == core::runtime::interpreter_name) return here;
  FE_TRY(const auto devices, core::runtime::open_devices(options.device, session.registry()));
  here.devices = core::runtime::targets_of(devices);
  here.idle.add(Feature::record);
  // Without a wish of the target's, or buffers as large as it wants them, no row is padded.
  if (!options.pad) here.idle.add(Feature::padding);
  if (core::runtime::numbers_of(devices).products == core::schedule::Products::apart)
    here.idle.add(Feature::gemm_chains);
  return here;
}

namespace {

/// What a graph is compiled for instead of the device: nothing or, so that what memory has to bring is small,
/// a CPU like it whose second-level cache is.
std::vector<Target> targets_for(const Here& here, uint64_t seed, const Options& options) {
  constexpr uint64_t one_in = 11;
  static_assert(std::gcd(one_in, feature_turns) == 1, "each feature is off on either target");
  if (seed % one_in != 0 || options.device != "cpu") return {};
  return {{here.devices[0].kind, here.devices[0].description + " l2=16384"}};
}

}  // namespace

fe_target_numbers numbers_for(uint64_t seed) {
  constexpr uint64_t one_in = 3;
  static_assert(std::gcd(one_in, feature_turns) == 1, "each feature is off with either numbers");
  auto numbers = core::abi::sized<fe_target_numbers>();
  if (seed % one_in != 0) return numbers;
  static const std::vector<int64_t> nanoseconds = {1, 4, 16, 64}, workers = {2, 4, 8, 32};
  RandomSource random(~seed);  // another one than the graph's
  numbers.launch_ns = random.pick(nanoseconds);
  numbers.join_ns = random.pick(nanoseconds);
  numbers.workers = random.pick(workers);
  if (!random.chance(0.5)) return numbers;
  static const std::vector<int64_t> rates = {1'000'000, 1'000'000'000, 1'000'000'000'000},
                                    times = {1, 14, 4096};
  numbers.bandwidth = random.pick(rates);
  numbers.operations = random.pick(rates);
  numbers.uncoalesced = random.pick(times);
  return numbers;
}

namespace {

/// Whether what lies between kernels has red zones around it, and no memory that was something else's before.
bool has_red_zones(uint64_t seed) {
  constexpr uint64_t one_in = 5;
  static_assert(std::gcd(one_in, feature_turns) == 1, "each feature is off with them and without");
  return seed % one_in == 0;
}

}  // namespace

std::string text_of(const fe_target_numbers& numbers) {
  std::vector<std::string> parts;
  for (const auto& number : core::runtime::number_table)
    if (const int64_t value = numbers.*number.stated; value != 0)
      parts.push_back(fmt::format("{} {}", number.name, value));
  return fmt::format("{}", fmt::join(parts, ", "));
}

core::Result<core::CompileOptions> options_for(const Here& here, uint64_t seed, const Options& options) {
  core::CompileOptions compiled;
  compiled.device = options.device;
  compiled.targets = targets_for(here, seed, options);
  compiled.red_zones = has_red_zones(seed);
  for (const auto& targets : {here.devices, compiled.targets})
    for (const auto& target : targets)
      FE_CHECK(core::runtime::save_measured(target.kind, target.description, numbers_for(seed)));
  return compiled;
}

Features only(Feature feature) {
  Features features;
  features.add(feature);
  return features;
}

std::vector<Features> variants(uint64_t seed, const Options& options) {
  if (options.without != Features()) return {options.without};
  std::vector<Features> result(1);
  if (options.policy) return result;
  const auto turn = seed % feature_turns;
  for (const auto feature :
       {Feature::fuse, turn < feature_count ? static_cast<Feature>(turn) : Feature::fuse})
    if (const auto without = only(feature); without != result.back()) result.push_back(without);
  return result;
}

std::string name_of(const Features& variant, const Options& options) {
  const std::string fused = options.policy ? "fused at random" : "fused";
  return variant == Features()
             ? fused
             : fmt::format("{}without {}", options.policy ? fused + ", " : "", variant.text());
}

}  // namespace ferrite::random_graphs
