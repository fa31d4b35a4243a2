// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/source.h"

#include <algorithm>
#include <array>
#include <iterator>

#include "core/ir/lexer/lexer.h"
#include "core/ir/stages.h"
#include "core/ir/text/loop_keywords.h"
#include "core/ir/text/parse_graph.h"
#include "core/ir/text/print_loops.h"

namespace ferrite::core {
namespace {

/// A kind of source: its name in messages, and the stages at which it enters.
struct Entrance {
  std::string_view source, first, last;
};
constexpr std::array<Entrance, 4> entrances = {
    Entrance{"a graph", "import", "lower"}, Entrance{"a loop program", "inline", "fuse"},
    Entrance{"a schedule", "post_fusion", "emit"}, Entrance{"a kernel", "emit", "emit"}};  // by Source

Error enters_nothing(std::string_view what) {
  return error(FE_EINVALID, "FE-C04",
               "{} enters no stage; give what an earlier stage prints, --to fuse or before", what);
}

}  // namespace

ptrdiff_t position_of(std::string_view stage) {
  return std::ranges::find(stage_names, stage) - stage_names.begin();
}

Result<StageSpan> stages_of(const Source& source, const CompileOptions& options) {
  for (const auto& name : {options.from, options.to})
    if (!name.empty() && position_of(name) == std::ssize(stage_names))
      return error(FE_EINVALID, "FE-C04", "there is no stage '{}'; the stages are {}", name,
                   fmt::join(stage_names, ", "));
  const auto& entrance = entrances[source.index()];
  const std::string_view from = options.from.empty() ? entrance.first : options.from;
  const std::string_view to = options.to.empty() ? stage_names.back() : options.to;
  const StageSpan span{position_of(from), position_of(to)};
  if (span.first < position_of(entrance.first) || span.first > position_of(entrance.last))
    return error(FE_EINVALID, "FE-C04", "{} enters at {}, not at '{}'", entrance.source,
                 entrance.first == entrance.last
                     ? fmt::format("'{}'", entrance.first)
                     : fmt::format("a stage from '{}' to '{}'", entrance.first, entrance.last),
                 from);
  if (span.last < span.first)
    return options.from.empty()
               ? error(FE_EINVALID, "FE-C04", "{} enters at '{}', after stage '{}'", entrance.source, from,
                       to)
               : error(FE_EINVALID, "FE-C04", "stage '{}' is after '{}', the last to run", from, to);
  if (options.device == runtime::interpreter_name && (!options.to.empty() || source.index() != 0) &&
      span.last > position_of("lower"))
    return error(FE_EINVALID, "FE-C04", "device '{}' has no stage after 'lower'", options.device);
  return span;
}

Result<Source> parse_source(std::string_view text, const graph::ParseOptions& options) {
  size_t form = 0;
  // Check the header before tokenising: a backend's code does not follow the lexer's rules.
  if (text.starts_with("ferrite code ")) return at(options.file + ":1:1", enters_nothing("compiled code"));
  {
    FE_TRY(const auto tokens, text::TokenList::read(text, options.file));
    const text::Cursor cursor(tokens);
    if (cursor.is(loop::keyword::ferrite) && cursor.is(loop::keyword::listing, 1))
      return at(cursor.where(), enters_nothing("a listing"));
    if (cursor.is(loop::keyword::ferrite))
      form = cursor.is(loop::keyword::loops, 1)      ? 1
             : cursor.is(loop::keyword::schedule, 1) ? 2
             : cursor.is(loop::keyword::kernel, 1)   ? 3
                                                     : 0;
  }
  if (form == 1) {
    FE_TRY(auto program, loop::parse_program(text, options.file));
    return Source(std::move(program));
  }
  if (form == 2) {
    FE_TRY(auto schedule, schedule::parse(text, options.file));
    return Source(std::move(schedule));
  }
  if (form == 3) {
    FE_TRY(auto kernel, loop::parse_kernel(text, options.file));
    return Source(std::move(kernel));
  }
  FE_TRY(auto graph, graph::parse(text, options));
  return Source(std::move(graph));
}

}  // namespace ferrite::core
