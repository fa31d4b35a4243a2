// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The file that shows what a rule or a pass does wrong, and the command that shows it.
#pragma once

#include <string>

#include "core/ir/graph/graph.h"
#include "core/support/error.h"

namespace ferrite::core::validate {

struct Reproducer {
  std::string folder;   ///< made where it is not there
  std::string options;  ///< what loads the plugins, as a shell reads it
  std::string phase, pass;
  std::string rule;  ///< the one of the pass that is to be applied; empty: all of it
  std::string what;  ///< the finding, as a comment
};

/// Writes `<pass>-<hash>.fe` into the folder: the finding and the command as comments, then the graph. Gives what to add to
/// the message: ". It has 1 nodes; ferrite opt FILE ... shows it". FE-R33 where the file cannot be written.
Result<std::string> write_reproducer(const graph::Graph& graph, const Reproducer& reproducer);

}  // namespace ferrite::core::validate
