// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The file that demonstrates an error of a rule or a pass, and the command that runs it.
#pragma once

#include <string>

#include "core/ir/graph/graph.h"
#include "core/support/error.h"

namespace ferrite::core::validate {

struct Reproducer {
  std::string folder;   ///< created if it does not exist
  std::string options;  ///< options that load the plugins, quoted for a shell
  std::string phase, pass;
  std::string rule;  ///< the rule of the pass to apply; empty: all of it
  std::string what;  ///< the finding, as a comment
};

/// Writes `<pass>-<hash>.fe` into the folder: the finding and the command as comments, then the graph.
/// Returns a text to append to the message: ". It has 1 nodes; ferrite opt FILE ... shows it". FE-R33 where
/// the file cannot be written.
Result<std::string> write_reproducer(const graph::Graph& graph, const Reproducer& reproducer);

}  // namespace ferrite::core::validate
