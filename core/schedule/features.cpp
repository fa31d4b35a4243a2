// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/schedule/features.h"

#include <algorithm>

namespace ferrite::core::schedule {
namespace {

constexpr std::string_view docs[] = {
    "puts what makes a value into the statements that read it",
    "cuts the loops of maps as those of the contraction that they follow",
    "stores results in the place of operands that nobody reads later, and changed inputs in theirs",
    "stores what convolutions touch in the order that the target wants, and what a product sums over last",
    "makes statements that share buffers one kernel; off, mixed_order_reductions and split are off too",
    "fuses statements that only read the same",
    "gives a map the order of loops of what it shares a buffer with",
    "makes scores, their softmax and its product with the values one kernel, as attention has them",
    "computes operands of contractions where they are read",
    "reduces over rows in the kernel that works along them",
    "divides reductions, running sums and scatters that leave workers idle",
    "puts the rows of large buffers as far apart as the target wants",
    "runs kernels in an order in which less has to live at a time",
    "replays the second run of a context on a device that records launches",
};
static_assert(std::size(docs) == feature_count);
static_assert(static_cast<size_t>(Feature::record) + 1 == feature_count);

}  // namespace

std::string_view name_of(Feature feature) { return feature_names[static_cast<size_t>(feature)]; }

std::string_view doc_of(Feature feature) { return docs[static_cast<size_t>(feature)]; }

std::optional<Feature> feature_named(std::string_view name) {
  const auto* found = std::ranges::find(feature_names, name);
  if (found == std::end(feature_names)) return {};
  return static_cast<Feature>(found - feature_names);
}

std::string Features::text() const {
  std::string result;
  for (size_t k = 0; k < feature_count; ++k)
    if (has(static_cast<Feature>(k))) result += (result.empty() ? "" : ",") + std::string(feature_names[k]);
  return result;
}

}  // namespace ferrite::core::schedule
