// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/schedule/fusion/unconsidered_pairs.h"

#include <algorithm>
#include <optional>
#include <tuple>

#include <fmt/format.h>

#include "ferrite/counted.hpp"

namespace ferrite::core::schedule {
namespace {

bool has(std::span<const uint32_t> list, uint32_t one) { return std::ranges::find(list, one) != list.end(); }

/// A storage as messages show it: its name in the model, or the nodes that write it.
std::string text_of(const LoopProgram& program, const Dependencies& deps, BufferId b) {
  if (auto name = model_name(program.buffers[b]); !name.empty()) return name;
  const auto& writers = deps.writers[b];
  if (writers.empty()) return fmt::format("@{}", b);
  // The last origin of each part of a concatenation is the concatenation; those before it compute the part.
  const auto last_of = [&](uint32_t w) {
    const auto& origins = program.statements[w].origins;
    if (origins.empty()) return std::string("?");
    return origins.back().names.empty() ? origins.back().op : origins.back().names;
  };
  const auto maker = last_of(writers[0]);
  if (std::ranges::all_of(writers, [&](uint32_t w) { return last_of(w) == maker; }))
    return "the result of " + maker;
  return fmt::format("the results of {} and {}", maker, counted(writers.size() - 1, "other"));
}

/// The relation of two statements, one of each node, through one storage. The first value is the closest to
/// being considered.
enum class Nearness : uint8_t { tried, readers, writers, off, order, parts };

struct Found {
  Nearness nearness = Nearness::parts;
  BufferId buffer = none;
  uint64_t bytes = 0;
  size_t between = 0;       ///< number of readers between the two
  bool first_is_a = false;  ///< the earlier statement belongs to node a

  bool operator<(const Found& other) const {
    return std::tuple(nearness, other.bytes, between) < std::tuple(other.nearness, bytes, other.between);
  }
};

/// The relation through storage `b`, for statements x < y; nothing where they do not both access it.
std::optional<Found> through(const Dependencies& deps, Features without, uint32_t x, uint32_t y, BufferId b) {
  const auto &readers = deps.readers[b], &writers = deps.writers[b];
  const bool x_reads = has(readers, x), x_writes = has(writers, x);
  const bool y_reads = has(readers, y), y_writes = has(writers, y);
  Found found;
  found.buffer = b;
  if (x_writes && y_reads) {
    found.nearness = has(tried_writers(deps, y, b), x) ? Nearness::tried : Nearness::writers;
    if (found.nearness == Nearness::tried || !x_reads) return found;
  }
  if (x_reads && y_reads) {
    found.between = static_cast<size_t>(std::ranges::find(readers, y) - std::ranges::find(readers, x)) - 1;
    found.nearness = without.has(Feature::horizontal_fusion) ? Nearness::off
                     : found.between < most_neighbours       ? Nearness::tried
                                                             : Nearness::readers;
    return found;
  }
  if (x_reads && y_writes) {
    found.nearness = Nearness::order;
    return found;
  }
  if (x_writes && y_writes) return found;
  return std::nullopt;
}

}  // namespace

std::span<const uint32_t> tried_writers(const Dependencies& deps, uint32_t reader, BufferId b) {
  const std::span<const uint32_t> writers = deps.writers[b];
  const auto& readers = deps.readers[b];
  // Both lists are cut in proportion, so that the number of pairs stays linear in reads and writes.
  const size_t count = std::max<size_t>(most_neighbours, most_neighbours * writers.size() / readers.size());
  if (count >= writers.size()) return writers;
  const auto place = static_cast<size_t>(std::ranges::lower_bound(readers, reader) - readers.begin());
  const size_t middle = place * writers.size() / readers.size();
  return writers.subspan(std::min(middle - std::min(middle, count / 2), writers.size() - count), count);
}

UnconsideredPairs why_untried(const LoopProgram& program, Features without, const NodeStatements& a,
                              const NodeStatements& b) {
  using namespace untried_category;
  if (without.has(Feature::fuse)) return {off, "fusion is off"};
  for (const auto* node : {&a, &b})
    if (node->statements.empty())
      return {nothing, fmt::format("no statement of {} is left when fusion begins", node->name)};
  const auto deps = Dependencies::of(program);
  std::optional<Found> best;
  for (const uint32_t s : a.statements)
    for (const uint32_t t : b.statements) {
      if (s == t) continue;
      const auto [x, y] = std::minmax(s, t);
      auto touched = deps.reads[x];
      touched.insert(touched.end(), deps.writes[x].begin(), deps.writes[x].end());
      for (const BufferId buffer : touched)
        if (auto found = through(deps, without, x, y, buffer)) {
          found->bytes = static_cast<uint64_t>(program.buffers[buffer].bytes());
          found->first_is_a = x == s;
          if (!best || *found < *best) best = found;
        }
    }
  if (!best) return {nothing, "neither reads what the other writes, and they read nothing in common"};
  const auto value = text_of(program, deps, best->buffer);
  const auto &first = best->first_is_a ? a.name : b.name, &second = best->first_is_a ? b.name : a.name;
  const uint64_t bytes = best->bytes;
  switch (best->nearness) {
    case Nearness::tried:
      return {together,
              fmt::format("when their pair came up, for {}, both were in one group already; a step after "
                          "fusion separates them",
                          value),
              bytes};
    case Nearness::readers:
      return {readers,
              fmt::format("both read {}, but {} between them, and a reader is paired with the {} before it",
                          value, counted(best->between, "other reader lies", "other readers lie"),
                          most_neighbours),
              bytes};
    case Nearness::writers:
      return {
          writers,
          fmt::format("{} reads {}, but is paired with {} of the {} writers, those at about its own position "
                      "among the {}, and {} is not one of them",
                      second, value, tried_writers(deps, deps.readers[best->buffer][0], best->buffer).size(),
                      deps.writers[best->buffer].size(), counted(deps.readers[best->buffer].size(), "reader"),
                      first),
          bytes};
    case Nearness::off:
      return {off, fmt::format("both only read {}, and 'horizontal_fusion' is off", value), bytes};
    case Nearness::order:
      return {order, fmt::format("{} reads {} before {} changes it", first, value, second), bytes};
    case Nearness::parts: break;
  }
  return {parts, fmt::format("both write {}, and neither reads it", value), bytes};
}

}  // namespace ferrite::core::schedule
