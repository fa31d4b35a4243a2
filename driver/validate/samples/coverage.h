// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The properties of the samples of a rule, and the properties of the rule that they did not test.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/passes/rewrite/language/rule.h"

namespace ferrite::core::validate {

/// One property of a sample.
struct Seen {
  enum class What : uint8_t {
    rank,         ///< of capture `of`
    dtype,        ///< likewise
    sizes,        ///< likewise: equal ones, ones, …
    operand,      ///< likewise: whether it is an input, a constant, broadcast
    attribute,    ///< `of` counts the attributes of the terms that the match does not fix
    asked,        ///< likewise for those that a condition may restrict to one value
    alternative,  ///< of choice `of`
    use,          ///< whether the result of term `of` has other readers too
    /// whether term `of`, which has lists that the match does not fix, changes the sizes of its operand
    part,
    dim,  ///< size `of` that a region names
  };
  What what = What::rank;
  uint32_t of = 0;
  std::string heading, value;  ///< "rank of %x", "2"
};

/// The value of Seen::What::sizes for tensors of one element.
inline constexpr const char* one_element = "one element";
/// Values of Seen::What::part.
inline constexpr const char *as_large = "as large as its operand", *of_other_sizes = "of other sizes";

class Coverage {
 public:
  /// `telling`: whether an error of the rule could have shown on the sample.
  void add(const std::vector<Seen>& sample, bool telling = true);
  size_t telling() const { return telling_; }
  /// The number of different values under all headings.
  size_t distinct() const;

  /// "rank of %x: 1 (5), 2 (9); …", of all headings.
  std::string text() const;
  /// The values in `offered` that are missing here, in the same form without counts; empty where there are
  /// none.
  std::string lacks(const Coverage& offered) const;
  /// The reasons why the samples are thin evidence; empty where they are not. Fewer than `least_samples` are
  /// telling; or one of several alternatives was in none; or a rank, dtype, attribute or size that no
  /// condition tests was the same in all of them, though `offered`, from samples drawn without regard for
  /// conditions, has others; or all sizes of a value were equal or 1, or lists never changed a size.
  /// `declined`: the coverage of samples that meet the conditions but to which the rule was not applied
  /// because of a predicate or of types; values that are frequent there count as tested.
  std::vector<std::string> thin(const rewrite::Rule& rule, const Coverage& offered,
                                const Coverage& declined) const;

  static constexpr size_t least_samples = 8;

 private:
  struct Entry {
    std::string heading;
    std::map<std::string, size_t> values;
    size_t count(const std::string& value) const {
      const auto found = values.find(value);
      return found == values.end() ? 0 : found->second;
    }
  };
  bool was_tried(const std::pair<Seen::What, uint32_t>& key, const Entry& offered, bool by_predicate) const;
  std::map<std::pair<Seen::What, uint32_t>, Entry> entries_;
  size_t telling_ = 0;
};

}  // namespace ferrite::core::validate
