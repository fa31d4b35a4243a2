// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/schedule/features.h"

#include <algorithm>

namespace ferrite::core::schedule {
namespace {

constexpr std::string_view docs[] = {
    "inlines producers into the statements that read them",
    "divides the loops of maps like those of the contraction that they follow, and of reductions like dims",
    "stores results in place of operands without later readers, and changed inputs in place",
    "gives tensors of convolutions the target's layout, and operands of products the summed dims last",
    "makes statements that share buffers one kernel; mixed_order_reductions and split need it",
    "fuses statements that only read the same buffer",
    "gives a map the loop order of the statement with which it shares a buffer",
    "makes attention one kernel: scores, their softmax and its product with the values",
    "computes operands of contractions inside of the contraction",
    "reduces over rows in the kernel that works along the rows",
    "divides reductions, running sums and scatters that leave workers idle",
    "pads the rows of large buffers as the target asks",
    "runs kernels in an order that needs less memory at a time",
    "computes cheap values again where keeping them would raise the peak of memory",
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
