// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The scheduler's optimisations by name, so that each can be switched off. Without all of them, each
// statement is a kernel.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>

namespace ferrite::core::schedule {

/// In the order in which they run.
enum class Feature : uint8_t {
  inline_producers,
  cut_loops,
  in_place,
  layout,
  fuse,
  horizontal_fusion,
  reorder,
  gemm_chains,
  prologues,
  mixed_order_reductions,
  split,
  padding,
  memory_order,
  recompute,
  record,
};

/// The features' names on the command line and in manifests, by number.
inline constexpr std::string_view feature_names[] = {"inline",       "cut_loops",
                                                     "in_place",     "layout",
                                                     "fuse",         "horizontal_fusion",
                                                     "reorder",      "gemm_chains",
                                                     "prologues",    "mixed_order_reductions",
                                                     "split",        "padding",
                                                     "memory_order", "recompute",
                                                     "record"};
inline constexpr size_t feature_count = std::size(feature_names);

std::string_view name_of(Feature feature);
/// One line on the feature's effect.
std::string_view doc_of(Feature feature);
std::optional<Feature> feature_named(std::string_view name);

/// A set of features.
class Features {
 public:
  bool has(Feature feature) const { return (bits_ & bit(feature)) != 0; }
  void add(Feature feature) { bits_ |= bit(feature); }
  void add(Features others) { bits_ |= others.bits_; }
  void remove(Feature feature) { bits_ &= ~bit(feature); }
  /// The names, separated by commas, as --without takes them.
  std::string text() const;
  friend bool operator==(Features, Features) = default;

 private:
  static uint32_t bit(Feature feature) { return uint32_t{1} << static_cast<uint32_t>(feature); }
  uint32_t bits_ = 0;
};

}  // namespace ferrite::core::schedule
