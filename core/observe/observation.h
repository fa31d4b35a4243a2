// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What is seen of a compilation and of runs, where somebody asks for it: spans of time, sizes by stage, kernels, the memory plan.
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

#include "core/observe/facts.h"
#include "core/observe/graph_view.h"
#include "core/tune/decisions.h"

namespace ferrite::core::observe {

using Clock = std::chrono::steady_clock;

/// A stretch of time on one thread. Spans of a thread nest or are apart.
struct Span {
  std::string category;  ///< session, stage, pass, compile, run, kernel
  std::string name;
  Clock::time_point start, end;
  uint32_t thread = 0;  ///< 0: who compiles and runs; others: the workers of the pool
  std::vector<std::pair<std::string, std::variant<int64_t, std::string>>> arguments;
};

/// How large a program is; 0 for a form that it does not have yet, or no longer.
struct Sizes {
  size_t nodes = 0, statements = 0, groups = 0;
  std::map<std::string, size_t> ops;  ///< nodes by op
};

struct Stage {
  std::string name;
  double milliseconds = 0;
  Sizes before, after;
  std::string text;  ///< of what it left; empty where that is what the stage before left, or is not wanted
};

/// A kernel of the program: several launches may share one.
struct Kernel {
  std::string entry, provenance, candidate;
  Facts facts;
  std::string text;     ///< what it computes
  std::string listing;  ///< the code, where the provider shows it; empty where it is not wanted
  int64_t registers = -1, spills = -1, shared_bytes = -1;
};

/// A statement before fusion, as a kernel of its own.
struct Statement {
  std::string provenance;
  Facts facts;
  uint32_t device = 0;  ///< of the program's, where it would run
};

/// A buffer of the memory plan, or a workspace: it lives from launch group `first` to `last`, both inclusive.
struct PlannedBuffer {
  uint32_t buffer = 0;
  int64_t offset = 0, bytes = 0;
  size_t first = 0, last = 0;
  int64_t workers = 0;  ///< of a workspace: how many share it; 0: it is a buffer
};

/// Filled by one compilation, then by runs. Spans are any-thread.
class Observation {
 public:
  bool texts = false;       ///< keep the text of each stage
  bool statements = false;  ///< keep what fusion begins with
  bool graphs = false;  ///< keep what a picture shows: the graph at import, after the passes, the schedule
  std::vector<Stage> stages;
  std::vector<GraphView> views;         ///< where they are wanted
  std::vector<Statement> unfused;       ///< where they are wanted
  std::vector<Kernel> kernels;          ///< by their number in the executable, packing kernels included
  std::vector<tune::Taken> selections;  ///< which candidate each distinct kernel got
  std::vector<PlannedBuffer> memory;
  size_t groups = 0;                      ///< steps of the memory plan
  int64_t arena_bytes = 0;                ///< with reuse, workspaces included
  int64_t buffer_bytes = 0;               ///< without
  int64_t workspace_bytes = 0;            ///< the most that one kernel has for all workers
  std::optional<int64_t> op_by_op_bytes;  ///< what a kernel for each op would need, where that is known

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
