// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The interface below the embedding API of ferrite.h. libferrite.so compiles models; libferrite_runtime.so
// only runs packages. Each defines its own open_engine().
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/support/error.h"
#include "ferrite/ferrite.h"
#include "runtime/allocator.h"
#include "runtime/device.h"
#include "runtime/executable.h"
#include "runtime/model_port.h"

namespace ferrite::core::capi {

/// The numbers of ferrite_stats, except the time of a run.
struct ProgramFigures {
  uint64_t nodes = 0, statements = 0, kernels = 0;
  double compile_ms = 0, init_ms = 0, load_ms = 0;
};

/// A model's program for one set of input shapes. Any-thread.
class RunnableProgram {
 public:
  virtual ~RunnableProgram() = default;
  virtual const std::vector<runtime::PortInfo>& inputs() const = 0;
  virtual const std::vector<runtime::PortInfo>& outputs() const = 0;
  virtual std::shared_ptr<const runtime::Executable> executable() const = 0;  ///< null if it is interpreted
  /// Inputs and outputs are contiguous, in port order. `context`: null for an interpreted program; each
  /// context allows one run at a time.
  virtual Result<void> run(runtime::Executable::Context* context, std::span<const void* const> inputs,
                           std::span<void* const> outputs) const = 0;
  virtual ProgramFigures figures() const = 0;
  virtual std::string ledger() const = 0;  ///< as JSON
};

/// The contents of ferrite_partition_options.
struct PartitionRequest {
  uint32_t forward_outputs = 0;
  std::span<const uint8_t> input_kinds;  ///< FERRITE_INPUT_*, by input
  double memory_budget = 1;
  std::vector<std::string> saved, recomputed;
  std::span<const ferrite_saved_order> orders{};
  std::string reorder_op{};
  bool donate_saved = false;
  std::string first_stage{};
};

/// A model file. Any-thread.
class LoadedModel {
 public:
  virtual ~LoadedModel() = default;
  virtual const std::vector<ModelPort>& inputs() const = 0;
  virtual const std::vector<ModelPort>& outputs() const = 0;
  /// A line for each node that cannot be imported for these input dims; FE-I06 if the model's format cannot
  /// tell.
  virtual Result<std::string> unsupported(std::span<const std::vector<int64_t>> input_dims) = 0;
  /// The program for these input dims. `ports_on_device`: inputs and outputs are in the first device's
  /// memory.
  virtual Result<std::shared_ptr<const RunnableProgram>> program(
      std::span<const std::vector<int64_t>> input_dims, bool ports_on_device) = 0;
  /// Compiles for these input dims and each of the targets, or for this machine where none is named, and
  /// writes a package. FE-X41 in an engine that compiles nothing.
  virtual Result<void> save(std::span<const std::vector<int64_t>> input_dims,
                            std::span<const std::string> targets, const std::string& path) = 0;
  /// The program for these input dims as a package. FE-K54; FE-X41 in an engine that compiles nothing.
  virtual Result<std::vector<std::byte>> package(std::span<const std::vector<int64_t>> input_dims) = 0;
  struct Parts {
    std::unique_ptr<LoadedModel> forward, backward;
  };
  /// See ferrite_model_changed_regions(). FE-X41 for a package.
  virtual Result<std::string> changed_regions(std::string_view phase, std::span<const uint64_t> outputs) = 0;
  /// The parts of a joint model. FE-G58; FE-X41 for a package.
  virtual Result<Parts> partition(const PartitionRequest& request) = 0;
  /// See ferrite_model_joint(). FE-X41 for a package.
  virtual Result<std::unique_ptr<LoadedModel>> joint(uint32_t forward_outputs,
                                                     std::string_view first_stage) = 0;
};

/// A session. Any-thread; it must outlive its models.
class Engine {
 public:
  virtual ~Engine() = default;
  /// The devices on which the session runs; none if it interprets. FE-D codes.
  virtual Result<runtime::Devices> devices() const = 0;
  virtual Result<std::unique_ptr<LoadedModel>> open_model(const std::string& path) = 0;
  /// See ferrite_session_passes().
  virtual std::string passes(std::string_view phase) const = 0;
  /// See ferrite_session_identity().
  virtual Result<std::string> identity() const = 0;
  /// The same for the contents of a file, which are copied; the extension of `path` names the format.
  virtual Result<std::unique_ptr<LoadedModel>> open_model(const std::string& path,
                                                          std::span<const std::byte> contents) = 0;
};

/// `allocator` may be null.
Result<std::shared_ptr<Engine>> open_engine(const ferrite_session_options& options,
                                            std::shared_ptr<runtime::Allocator> allocator);

}  // namespace ferrite::core::capi
