// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Launch graphs: a context records its second run on the device. Later runs replay the recording with their
// own inputs and outputs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace ferrite::core::runtime {

/// How to record an executable's runs. Ports are numbered: first the inputs, then the outputs.
struct RecordingPlan {
  bool is_possible = false;
  uint32_t device = 0;  ///< the device of all launches
  std::string subject, category,
      reason;  ///< what prevents it: the nodes of the launch, one word, a text.
               ///< Empty where no device records
  /// A port that is an argument of a launch by the runtime (launches counted in order). A replay passes the
  /// pointer of the current run.
  struct Use {
    uint32_t launch, argument;
    size_t port;
  };
  std::vector<Use> uses;
  /// Ports that other steps use, without duplicates. A recording is valid only for one address of each.
  std::vector<size_t> fixed;
  /// A copy between the host's and the device's memory, staged in pinned host memory.
  struct Staged {
    size_t step;
    int64_t offset;
  };
  std::vector<Staged> staged;
  bool checks = false;  ///< launches may find an index out of range: error words are copied to the host
  int64_t bytes = 0;    ///< size of the staging memory
};

/// Recordings per context. Callers often alternate between two or three buffers.
inline constexpr size_t most_recordings = 4;

/// The recordings of a context.
struct Recorded {
  struct Graph {
    void* graph = nullptr;
    const void* arena = nullptr;  ///< that its launches use
    std::vector<void*> bound;     ///< by port: the address it is bound to
  };
  std::vector<Graph> graphs;  ///< most recently used first; most_recordings at most
  /// Recent addresses of the fixed ports for which no graph was found.
  std::vector<std::vector<void*>> addresses;
  void* stream = nullptr;        ///< the stream that is recorded; null: the context's own
  std::byte* staging = nullptr;  ///< pinned host memory
  bool refused = false;          ///< the driver refused: record no more
  bool failed = false;           ///< the contents of the graphs are unknown: replay none
  bool replayed = false;         ///< the last run was a replay
};

}  // namespace ferrite::core::runtime
