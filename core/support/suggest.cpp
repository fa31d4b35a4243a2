// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/support/suggest.h"

#include <algorithm>
#include <vector>

namespace ferrite::core {
namespace {

// Nobody types longer names by hand, and the bound keeps hostile input cheap: the distance takes quadratic
// time.
constexpr size_t longest = 128;
// Shorter inputs are a prefix of too many names.
constexpr size_t shortest_beginning = 4;

// Optimal string alignment distance. Keeps only the last three rows of the usual dynamic-programming table.
size_t distance(std::string_view a, std::string_view b) {
  std::vector<size_t> before, previous(b.size() + 1), current(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) previous[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    current[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      current[j] =
          std::min({previous[j] + 1, current[j - 1] + 1, previous[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        current[j] = std::min(current[j], before[j - 2] + 1);
    }
    before = previous;
    previous = current;
  }
  return previous[b.size()];
}

size_t same_beginning(std::string_view a, std::string_view b) {
  return static_cast<size_t>(std::ranges::mismatch(a, b).in1 - a.begin());
}

}  // namespace

std::string suggest(std::string_view wrong, std::span<const std::string_view> known) {
  if (wrong.empty() || wrong.size() > longest) return {};
  std::string_view best;
  size_t least = std::max<size_t>(1, wrong.size() / 4) + 1;
  for (auto name : known) {
    if (name.size() > longest) continue;
    // A name in which every letter differs is no suggestion.
    const size_t d = distance(wrong, name);
    const bool nearer = d < least || (d == least && !best.empty() &&
                                      same_beginning(wrong, name) > same_beginning(wrong, best));
    if (nearer && d < wrong.size()) {
      least = d;
      best = name;
    }
  }
  const auto begun = [&](std::string_view name) { return name.starts_with(wrong); };
  if (best.empty() && wrong.size() >= shortest_beginning && std::ranges::count_if(known, begun) == 1)
    best = *std::ranges::find_if(known, begun);
  return std::string(best);
}

std::string did_you_mean(std::string_view wrong, std::span<const std::string_view> known) {
  auto name = suggest(wrong, known);
  return name.empty() ? std::string() : "; did you mean '" + name + "'?";
}

}  // namespace ferrite::core
