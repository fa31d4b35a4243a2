// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The table of a device's numbers for loop decisions. Measured values take precedence over those that its
// provider states.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>

#include "core/support/error.h"
#include "ferrite/abi/target.h"
#include "runtime/target/target_numbers.h"

namespace ferrite::core::runtime {

/// A number as it appears in the ABI, the store, locks and listings.
struct Number {
  std::string_view name, doc;
  int64_t TargetNumbers::* value;
  int64_t fe_target_numbers::* stated;
  int64_t most;
  bool is_measured;   ///< whether `ferrite targets --measure` measures it
  int64_t least = 1;  ///< smallest value in a lock; 0 from a provider means "not stated"
};

inline constexpr std::array<Number, 12> number_table = {
    Number{"workers", "worker count that splits assume", &TargetNumbers::workers, &fe_target_numbers::workers,
           1 << 20, true},
    Number{"local_bytes", "budget of buffers inside one iteration of shared loops",
           &TargetNumbers::local_bytes, &fe_target_numbers::local_bytes, int64_t{1} << 40, false, 0},
    Number{"near_bytes", "cache budget of a block of rows", &TargetNumbers::near_bytes,
           &fe_target_numbers::near_bytes, int64_t{1} << 40, false},
    Number{"line_bytes", "cache line size", &TargetNumbers::line_bytes, &fe_target_numbers::line_bytes,
           1 << 20, false},
    Number{"page_bytes", "page size", &TargetNumbers::page_bytes, &fe_target_numbers::page_bytes,
           int64_t{1} << 40, false},
    Number{"pages", "TLB entries", &TargetNumbers::pages, &fe_target_numbers::pages, 1 << 30, false},
    Number{"uncoalesced", "cost factor of an uncoalesced access", &TargetNumbers::uncoalesced,
           &fe_target_numbers::uncoalesced, 1 << 12, true},
    Number{"launch_ns", "cost of one more launch", &TargetNumbers::launch_ns, &fe_target_numbers::launch_ns,
           1'000'000'000, true},
    Number{"join_ns", "time until other workers have joined a launch", &TargetNumbers::join_ns,
           &fe_target_numbers::join_ns, 1'000'000'000, true},
    Number{"ordered_ns", "time per point of an ordered scatter; 0: all scatters are ordered",
           &TargetNumbers::ordered_ns, &fe_target_numbers::ordered_ns, 1'000'000'000, false, 0},
    Number{"bandwidth", "memory bandwidth of one worker", &TargetNumbers::bandwidth,
           &fe_target_numbers::bandwidth, int64_t{1} << 50, true},
    Number{"operations", "arithmetic throughput of one worker", &TargetNumbers::operations,
           &fe_target_numbers::operations, int64_t{1} << 50, true},
};

/// A named choice among a few values, handled alongside the numbers. Its first value is FE_*_ANY of the ABI:
/// from a provider it means "not stated", while a lock fixes even that value.
struct Choice {
  std::string_view name, doc;
  std::span<const std::string_view> names;  ///< of its values
  std::variant<Activations TargetNumbers::*, Products TargetNumbers::*> value;
  uint32_t fe_target_numbers::* stated;

  uint32_t get(const TargetNumbers& numbers) const {
    return std::visit([&](auto member) { return static_cast<uint32_t>(numbers.*member); }, value);
  }
  void set(TargetNumbers& numbers, uint32_t chosen) const {
    std::visit(
        [&](auto member) {
          numbers.*member = static_cast<std::remove_reference_t<decltype(numbers.*member)>>(chosen);
        },
        value);
  }
  std::string_view name_in(const TargetNumbers& numbers) const { return names[get(numbers)]; }
};

inline constexpr std::string_view activation_names[] = {"any", "channels_last"};  ///< by Activations
inline constexpr std::string_view product_names[] = {"any", "apart", "softmax"};  ///< by Products

inline constexpr std::array<Choice, 2> choice_table = {
    Choice{"activations", "dim order for convolutions' inputs and outputs", activation_names,
           &TargetNumbers::activations, &fe_target_numbers::activations},
    Choice{"products", "statements that fuse with a product, besides maps", product_names,
           &TargetNumbers::products, &fe_target_numbers::products},
};

/// The origin of a number or a choice.
enum class Source : uint8_t { assumed, stated, measured, locked };
/// "default", "stated", "measured", "locked".
std::string_view name_of(Source source);

/// Numbers and choices with the origin of each, indexed as in their tables.
struct SourcedNumbers {
  TargetNumbers values;
  std::array<Source, number_table.size()> sources{};
  std::array<Source, choice_table.size()> choice_sources{};

  void set(size_t number, int64_t value, Source source) {
    values.*number_table[number].value = value;
    sources[number] = source;
  }
  void choose(size_t choice, uint32_t value, Source source) {
    choice_table[choice].set(values, value);
    choice_sources[choice] = source;
  }
};

/// Applies the numbers that a provider states; 0 leaves a number unchanged. Returns the text of FE-P69, and
/// changes nothing, if a number is out of range or a choice has no such value.
Result<void> state(SourcedNumbers& numbers, const fe_target_numbers& stated);

/// The measured numbers for devices of this kind and description; 0 means not measured. None if the store has
/// no such file or, with a warning (FE-T46), its contents are invalid. The store has one file for all thread
/// counts, so that decisions do not depend on them.
std::optional<fe_target_numbers> load_measured(const std::string& kind, const std::string& description);
/// Stores the numbers in the user's cache folder; returns the file's path. FE-C10 if that fails.
Result<std::string> save_measured(const std::string& kind, const std::string& description,
                                  const fe_target_numbers& measured);

/// The numbers in the form that cost models receive.
fe_target_numbers abi_numbers(const TargetNumbers& numbers);

}  // namespace ferrite::core::runtime
