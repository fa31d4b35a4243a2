// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Launch graphs: the second run of a context is recorded on its device, and later runs replay that, with other inputs and outputs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace ferrite::core::runtime {

/// What is recorded of an executable's runs. Ports are numbered: the inputs, then the outputs.
struct RecordingPlan {
  bool is_possible = false;
  uint32_t device = 0;  ///< by which all launches are done
  std::string subject, category,
      reason;  ///< what prevents it: the nodes of the launch, one word, a text.
               ///< Empty where no device records
  /// An argument of a launch of the runtime's, by their order, that is a port: given the pointer of each run.
  struct Use {
    uint32_t launch, argument;
    size_t port;
  };
  std::vector<Use> uses;
  /// Ports that something else reaches, each once: a recording is of one place of theirs.
  std::vector<size_t> fixed;
  /// Copies between the host's memory and the device's go through memory that the device reaches by itself.
  struct Staged {
    size_t step;
    int64_t offset;
  };
  std::vector<Staged> staged;
  int64_t zeros = -1, words = -1;  ///< where words of errors come from and go
                                   ///< to; negative: there are none
  int64_t bytes = 0;               ///< of that memory
};

/// Of one context: callers take turns with two or three buffers.
inline constexpr size_t most_recordings = 4;

/// What a context has recorded.
struct Recorded {
  struct Graph {
    void* graph = nullptr;
    std::vector<void*> bound;  ///< by port: where it finds it
  };
  std::vector<Graph> graphs;  ///< the one that was used last comes first; most_recordings at most
  std::vector<std::vector<void*>> places;  ///< of the fixed ports in runs that found no graph, the last ones
  void* stream = nullptr;                  ///< that is recorded; null: the context's own
  std::byte* staging = nullptr;            ///< memory of the host
  bool refused = false;                    ///< by the driver: no more is recorded
  bool failed = false;                     ///< what the graphs have is not known: none is replayed
  bool replayed = false;                   ///< the last run
};

}  // namespace ferrite::core::runtime
