// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The library's descriptors of a convolution and its epilogue, and the library's plans.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "convolution.h"
#include "dnn.h"

namespace ferrite::cudnn {

struct Destroy {
  int (*function)(dnn::Handle) = nullptr;
  void operator()(dnn::Handle handle) const { function(handle); }
};
using Owned = std::unique_ptr<void, Destroy>;

/// The library on one device. The handle's stream is that of a launch while the launch is issued.
struct Device {
  dnn::Handle handle = nullptr;
  std::mutex mutex;
};

/// One of the library's plans for a convolution, ready to be launched. Callable from any thread.
struct Plan {
  Owned descriptor;
  int64_t workspace = 0;
};

/// The library's plans, and a summary of its rejected engines.
struct Plans {
  std::vector<Plan> list;
  std::string others;  ///< "3 that compile their code, 1 that have no code", for listings
};

class Operation {
 public:
  /// Describes the convolution; the device's context must be the calling thread's. Throws
  /// ferrite.cudnn/failed.
  Operation(std::shared_ptr<const Library> library, Device& device, const Convolution& convolution);

  const Convolution& convolution() const { return convolution_; }
  /// At most `most` plans with acceptable results, in the library's order of preference, with workspaces of
  /// at most this size.
  Plans plans(int most, int64_t most_workspace) const;
  void run(const Plan& plan, void* const* buffers, void* workspace, void* stream) const;

 private:
  void check(int status, const char* what) const;
  Owned make(int kind, const char* what) const;
  void finish(const Owned& descriptor, const char* what) const;
  template <class Value>
  void set(const Owned& descriptor, int attribute, int type, std::span<const Value> values,
           const char* what) const;
  template <class Value>
  void set(const Owned& descriptor, int attribute, int type, const Value& value, const char* what) const {
    set(descriptor, attribute, type, std::span(&value, 1), what);
  }
  Owned tensor(const Tensor& tensor, DType type, int64_t id, bool is_virtual) const;
  /// Adds a step after the last one, with its result.
  void add_step(int mode, const Owned* operand);
  std::vector<Owned> choices(int mode) const;
  /// nullopt if the library does not tell.
  std::optional<std::vector<int>> notes(dnn::Handle engine, int attribute, int type) const;
  /// The reason why an engine is rejected; empty if it is accepted.
  std::string_view unwanted(const Owned& choice) const;

  std::shared_ptr<const Library> library_;
  Device& device_;
  const Convolution convolution_;
  int64_t last_id_;
  std::vector<Owned> tensors_, steps_;  // the last tensor is the result of the last step
  std::vector<Owned> others_;
  size_t left_ = 0;  // number of steps still to be added
  Owned graph_;
};

}  // namespace ferrite::cudnn
