// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Checks one random graph in a child process, which tells its parent how far it is.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "compile_options.h"
#include "graph_generator.h"

namespace ferrite::random_graphs {

using Bytes = std::vector<std::byte>;

std::vector<Bytes> inputs_of(const GeneratedGraph& graph, uint64_t seed);

/// The marks by which a child process tells its parent how far it is: a letter at the start of each variant,
/// `whole_schedule` for the schedule with all features, a letter for each schedule that lacks one feature,
/// followed by `another_schedule` if it differs from the whole one, and the verdict at the end.
constexpr char first_variant = 'a', whole_schedule = '=', first_feature = 'A', another_schedule = '*',
               verdict_right = '+', verdict_wrong = '-';
static_assert(feature_count <= 26);

bool tell(int progress, char mark);

struct Fault {
  std::string what;  ///< empty: there is none
  Features without;  ///< of the variant
};

inline constexpr std::string_view whole_name = "schedule";
std::string schedule_name(Feature without);

/// Writes the letter of each variant to `progress`, then the letters of the features without which a schedule
/// is made, and the marks.
Fault check(const core::Session& session, const Here& here, const GeneratedGraph& graph, uint64_t seed,
            int progress, const Options& options);

}  // namespace ferrite::random_graphs
