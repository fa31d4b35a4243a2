// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The one table of the stages and hooks from model to machine code, in their order.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>

namespace ferrite::core {

/// The representation that a stage works on.
enum class Form : uint8_t { graph, loops, schedule, code };

/// A hook only runs plugins' passes; its name is the phase of these passes.
enum class Hook : bool { no, yes };

struct StageInfo {
  std::string_view name;
  Form form = Form::graph;  ///< at the start of the stage
  Hook hook = Hook::no;
};

// Each hook has the reason for its place. The other stages have theirs in `steps` of core/compile.cpp, which
// takes hooks of the graph from here.
// clang-format off: the columns are read as a table
inline constexpr StageInfo stage_table[] = {
    {"import", Form::graph},
    {"pre_grad", Form::graph, Hook::yes},        // the graph as the model has it, before differentiation
    {"decompose_early", Form::graph},
    {"joint_pre", Form::graph, Hook::yes},       // the graph holds both directions, forward and backward
    {"joint_post", Form::graph, Hook::yes},      // the same graph, after the passes of joint_pre
    {"post_grad_pre", Form::graph, Hook::yes},   // composite ops are whole: a pattern matches layer_norm
    {"post_grad", Form::graph, Hook::yes},       // the standard passes: fold, simplify, share
    {"post_grad_post", Form::graph, Hook::yes},  // patterns over simplified graphs
    {"claim", Form::graph},
    {"decompose_late", Form::graph},
    {"pre_lower", Form::graph, Hook::yes},       // decompositions made constants and common subexpressions
    {"lower", Form::graph},
    {"inline", Form::loops},
    {"layout", Form::loops},
    {"pre_fusion", Form::loops, Hook::yes},      // passes request and forbid fusions
    {"fuse", Form::loops},
    {"post_fusion", Form::schedule, Hook::yes},  // passes see the groups and may split them
    {"schedule", Form::schedule},
    {"emit", Form::schedule},
    {"code", Form::code},
};
// clang-format on

namespace detail {

/// The names of the stages for which `wanted` returns true.
template <auto wanted>
consteval auto names_where() {
  constexpr auto count = static_cast<size_t>(std::ranges::count_if(stage_table, wanted));
  std::array<std::string_view, count> names;
  size_t next = 0;
  for (const auto& stage : stage_table)
    if (wanted(stage)) names[next++] = stage.name;
  return names;
}

}  // namespace detail

inline constexpr auto stage_names = detail::names_where<[](const StageInfo&) { return true; }>();
/// The phases in which passes of plugins run.
inline constexpr auto phase_names =
    detail::names_where<[](const StageInfo& s) { return s.hook == Hook::yes; }>();
/// The phases whose passes work on the graph; rules run in these.
inline constexpr auto graph_phase_names =
    detail::names_where<[](const StageInfo& s) { return s.hook == Hook::yes && s.form == Form::graph; }>();

}  // namespace ferrite::core
