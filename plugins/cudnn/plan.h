// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The library's descriptors of a convolution and what follows it, and its plans for that.
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

/// The library for one device; a launch's stream is the handle's while the launch is given.
struct Device {
  dnn::Handle handle = nullptr;
  std::mutex mutex;
};

/// One way of the library to compute a convolution, ready to be launched. Any-thread.
struct Plan {
  Owned descriptor;
  int64_t workspace = 0;
};

/// The library's ways, and what of its others there is none of them.
struct Plans {
  std::vector<Plan> list;
  std::string others;  ///< "3 that compile their code, 1 that have no code", for listings
};

class Operation {
 public:
  /// Describes it; the device's context is the calling thread's. Throws ferrite.cudnn/failed.
  Operation(std::shared_ptr<const Library> library, Device& device, const Convolution& convolution);

  const Convolution& convolution() const { return convolution_; }
  /// In the order of the library's expectation, at most so many, of those whose results are as wanted; each wants no more workspace.
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
  /// One more step behind what the last one gives, and its result.
  void add_step(int mode, const Owned* operand);
  std::vector<Owned> choices(int mode) const;
  /// None where the library does not say.
  std::optional<std::vector<int>> notes(dnn::Handle engine, int attribute, int type) const;
  /// Why an engine is not taken; empty where it is.
  std::string_view unwanted(const Owned& choice) const;

  std::shared_ptr<const Library> library_;
  Device& device_;
  const Convolution convolution_;
  int64_t last_id_;
  std::vector<Owned> tensors_, steps_;  // what each step gives is the last tensor
  std::vector<Owned> others_;
  size_t left_ = 0;  // steps that are still to come
  Owned graph_;
};

}  // namespace ferrite::cudnn
