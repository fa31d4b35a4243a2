// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Observations of a compilation and of runs: time spans, sizes per stage, kernels, the memory plan. Collected
// on request.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "core/observe/graph_view.h"
#include "core/observe/kernel_facts.h"
#include "core/select/decisions.h"

namespace ferrite::core::observe {

using Clock = std::chrono::steady_clock;

/// A time interval on one thread. Spans of a thread nest or are disjoint.
struct Span {
  std::string category;  ///< session, stage, pass, compile, run, kernel
  std::string name;
  Clock::time_point start, end;
  uint32_t thread = 0;  ///< 0: the thread that compiles and runs; others: the workers of the pool
  std::vector<std::pair<std::string, std::variant<int64_t, std::string>>> arguments;
};

/// The size of a program; 0 for a form that it does not have yet or no longer has.
struct Sizes {
  size_t nodes = 0, statements = 0, groups = 0;
  std::map<std::string, size_t> ops;  ///< nodes by op
};

struct Stage {
  std::string name;
  double milliseconds = 0;
  Sizes before, after;
  std::string text;  ///< the program's text after the stage; empty if unchanged or not requested
};

/// A kernel of the program. Several launches may share it.
struct Kernel {
  std::string entry, provenance, candidate;
  Facts facts;
  std::string text;     ///< the kernel's text form
  std::string listing;  ///< the generated code, if the provider shows it; empty if not requested
  int64_t registers = -1, spills = -1, shared_bytes = -1;
};

/// A statement before fusion, as a kernel of its own.
struct Statement {
  std::string provenance;
  Facts facts;
  uint32_t device = 0;  ///< index of the program's device on which it would run
};

/// A buffer of the memory plan, a packed operand, or a workspace. It lives from launch group `first` to
/// `last`, both inclusive.
struct PlannedBuffer {
  uint32_t buffer = 0;
  int64_t offset = 0, bytes = 0;
  size_t first = 0, last = 0;
  int64_t workers = 0;  ///< for a workspace: the number of workers that share it; 0: it is a buffer
  bool packed = false;  ///< an operand of one launch, packed just before it
};

/// Filled by one compilation and then by runs. Adding spans is any-thread.
class Observation {
 public:
  bool texts = false;       ///< keep the text of each stage
  bool statements = false;  ///< keep the statements before fusion
  bool graphs = false;      ///< keep the views: the graph at import and after the passes, and the schedule
  std::vector<Stage> stages;
  std::vector<GraphView> views;           ///< if requested
  std::vector<Statement> unfused;         ///< if requested
  std::vector<Kernel> kernels;            ///< by their number in the executable, including packing kernels
  std::vector<select::Taken> selections;  ///< the candidate chosen for each distinct kernel
  std::vector<PlannedBuffer> memory;
  size_t groups = 0;                      ///< number of steps of the memory plan
  int64_t arena_bytes = 0;                ///< size with reuse, including workspaces
  int64_t buffer_bytes = 0;               ///< size without reuse
  int64_t workspace_bytes = 0;            ///< the largest workspace of one kernel, for all workers
  std::optional<int64_t> op_by_op_bytes;  ///< size with one kernel per op, if known

  void add(Span span) {
    std::lock_guard lock(mutex_);
    spans_.push_back(std::move(span));
  }
  std::vector<Span> spans() const {
    std::lock_guard lock(mutex_);
    return spans_;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<Span> spans_;
};

}  // namespace ferrite::core::observe
