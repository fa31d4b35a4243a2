// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The shapes and attributes of samples: those of a plan, and values that are compatible with them.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/ir/graph/op_registry.h"
#include "core/passes/rewrite/language/rule.h"
#include "driver/validate/samples/size_hints.h"
#include "driver/validate/samples/tensors.h"

namespace ferrite::core::validate {

/// The plan of a sample.
struct Plan {
  enum class Sizes : uint8_t {
    unequal,  ///< no two equal, none 1
    equal,    ///< all equal, not 1
    ones,     ///< 1 beside others
    mixed,    ///< arbitrary, including those that the rule mentions
    hinted,   ///< sizes with which the conditions compare (size_hints.h)
    large,    ///< one of 1000
    empty,    ///< one of 0
  };
  DType dtype = DType::none;
  size_t rank = 0;
  Sizes sizes = Sizes::unequal;
  std::vector<uint32_t> ways;  ///< the alternative for each of Rule::choices
};

/// Values that the rule's text mentions, and values that are always tried.
struct Pools {
  std::vector<DType> dtypes;
  std::vector<int64_t> sizes;
  std::vector<rewrite::Number> numbers;
  std::vector<std::string> strings;
  SizeHints hints;
};

/// Draws for one sample. Keeps references.
class Drawer {
 public:
  Drawer(const Pools& pools, const Plan& plan, Random& random);

  const std::vector<graph::Dim>& base() const { return base_; }
  /// The sizes of a value: the plan's, or sizes compatible with those or with one of `others`: the same,
  /// broadcast along some dims, the last ones, one per channel, transposed, none; sometimes new ones.
  std::vector<graph::Dim> dims(std::span<const std::vector<graph::Dim>> others);
  /// The sizes of a single-number constant that is combined with a value of these sizes.
  std::vector<graph::Dim> number_dims(const std::vector<graph::Dim>& beside);
  /// A value for the attribute of an op whose first operand has these sizes. None: the default.
  std::optional<graph::AttributeValue> attribute(const graph::OpInfo::AttributeDef& def,
                                                 const std::vector<graph::Dim>& operand);

 private:
  void draw_sizes(std::vector<graph::Dim>& dims);
  void follow_hints(std::vector<graph::Dim>& dims);
  std::vector<int64_t> integers(const std::vector<graph::Dim>& operand);

  const Pools& pools_;
  const Plan& plan_;
  Random& random_;
  std::vector<graph::Dim> base_;
};

/// Whether a tensor of a sample may have these sizes.
bool fits_sample(const std::vector<graph::Dim>& dims);

}  // namespace ferrite::core::validate
