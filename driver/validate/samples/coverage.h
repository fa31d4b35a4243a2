// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the samples of a rule were like, and what of the rule they leave open.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/passes/rewrite/language/rule.h"

namespace ferrite::core::validate {

/// One thing that a sample shows.
struct Seen {
  enum class What : uint8_t {
    rank,         ///< of capture `of`
    dtype,        ///< likewise
    sizes,        ///< likewise: equal ones, ones, …
    operand,      ///< likewise: whether it is an input, a constant, broadcast
    attribute,    ///< `of` counts the attributes of the terms that the match leaves open
    asked,        ///< likewise of those that a condition may keep at one value
    alternative,  ///< of choice `of`
    use,          ///< whether the result of term `of` is read elsewhere too
    part,  ///< whether term `of`, which has lists that the match leaves open, changes the sizes of its operand
    dim,   ///< size `of` that a region names
  };
  What what = What::rank;
  uint32_t of = 0;
  std::string heading, value;  ///< "rank of %x", "2"
};

/// Of Seen::What::sizes.
inline constexpr const char* one_element = "one element";
/// Values of Seen::What::part.
inline constexpr const char *as_large = "as large as its operand", *of_other_sizes = "of other sizes";

class Coverage {
 public:
  /// `telling`: whether a wrong rule could have shown on it.
  void add(const std::vector<Seen>& sample, bool telling = true);
  size_t telling() const { return telling_; }
  /// How many different values were seen under all headings.
  size_t distinct() const;

  /// "rank of %x: 1 (5), 2 (9); …", of all headings.
  std::string text() const;
  /// What `offered` has and this has not, likewise and without numbers; empty where there is none.
  std::string lacks(const Coverage& offered) const;
  /// Why the samples are thin evidence; empty where they are not. Fewer than `least_samples` are telling; or one of several
  /// alternatives was in none; or a rank, dtype, attribute or size was the same in all that no condition asks about, though
  /// `offered`, seen in samples drawn without regard for conditions, has others; or all sizes of a value were equal or 1, or lists
  /// never changed a size. `declined`: of samples that meet the conditions and to which the rule was not applied, by a
  /// predicate or by types: what is there often enough was tried.
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
