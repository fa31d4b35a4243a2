// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "runtime/target/number_table.h"

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>

#include "core/support/abi/abi.h"
#include "core/support/hash.h"
#include "runtime/target/measured_file.h"

namespace ferrite::core::runtime {
namespace {

// The choices have the same numeric values in the ABI.
static_assert(static_cast<uint32_t>(Activations::channels_last) == FE_ACTIVATIONS_CHANNELS_LAST);
static_assert(static_cast<uint32_t>(Products::apart) == FE_PRODUCTS_APART);
static_assert(static_cast<uint32_t>(Products::softmax) == FE_PRODUCTS_SOFTMAX);
static_assert(std::size(activation_names) == FE_ACTIVATIONS_CHANNELS_LAST + 1);
static_assert(std::size(product_names) == FE_PRODUCTS_SOFTMAX + 1);

constexpr std::string_view source_names[] = {"default", "stated", "measured", "locked"};

MeasuredFile file_of(const std::string& kind, const std::string& description) {
  constexpr std::string_view version = "numbers 0";
  return {"targets", hash128({kind, description, version}) + ".json"};
}

}  // namespace

std::string_view name_of(Source source) { return source_names[static_cast<size_t>(source)]; }

Result<void> state(SourcedNumbers& numbers, const fe_target_numbers& stated) {
  SourcedNumbers result = numbers;
  for (size_t k = 0; k < number_table.size(); ++k) {
    const auto& number = number_table[k];
    const int64_t value = stated.*number.stated;
    if (value == 0) continue;
    if (value < 0 || value > number.most)
      return error(FE_EINTERNAL, "FE-P69", "{} is {}, where a number from 1 to {} can be", number.name, value,
                   number.most);
    result.set(k, value, Source::stated);
  }
  for (size_t k = 0; k < choice_table.size(); ++k) {
    const auto& choice = choice_table[k];
    const uint32_t value = stated.*choice.stated;
    if (value == 0) continue;
    if (value >= choice.names.size())
      return error(FE_EINTERNAL, "FE-P69", "{} is {}, where a number from 1 to {} can be", choice.name, value,
                   choice.names.size() - 1);
    result.choose(k, value, Source::stated);
  }
  // A strided access (one that no inner loop walks) moves a whole line per element, so its cost follows from
  // the line size.
  if (stated.line_bytes != 0 && stated.uncoalesced == 0)
    result.values.uncoalesced = std::clamp<int64_t>(stated.line_bytes / 4, 1, 1 << 12);
  numbers = result;
  return {};
}

std::optional<fe_target_numbers> load_measured(const std::string& kind, const std::string& description) {
  return file_of(kind, description).load([](const nlohmann::json& json) -> std::optional<fe_target_numbers> {
    auto measured = abi::sized<fe_target_numbers>();
    for (const auto& number : number_table) {
      const auto found = json.find(std::string(number.name));
      if (!number.is_measured || found == json.end()) continue;
      if (!found->is_number_integer()) return std::nullopt;
      const auto value = found->get<int64_t>();
      if (value < 1 || value > number.most) return std::nullopt;
      measured.*number.stated = value;
    }
    return measured;
  });
}

Result<std::string> save_measured(const std::string& kind, const std::string& description,
                                  const fe_target_numbers& measured) {
  nlohmann::ordered_json json{{"device", kind}};
  for (const auto& number : number_table)
    if (number.is_measured && measured.*number.stated != 0)
      json[std::string(number.name)] = measured.*number.stated;
  return file_of(kind, description).save(json);
}

fe_target_numbers abi_numbers(const TargetNumbers& numbers) {
  auto result = abi::sized<fe_target_numbers>();
  for (const auto& number : number_table) result.*number.stated = numbers.*number.value;
  for (const auto& choice : choice_table) result.*choice.stated = choice.get(numbers);
  return result;
}

}  // namespace ferrite::core::runtime
