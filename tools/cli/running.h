// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Opening, compiling and running a model: what run, bench, opt, explain and onnx-test do alike.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tools/cli/common.h"
#include "tools/cli/tensor.h"
#include "tools/observe/trace.h"

namespace ferrite::cli {

/// A model with the session that it needs.
struct OpenModel {
  std::unique_ptr<core::Session> session;
  std::unique_ptr<core::validate::PassCheck> check;  ///< watches the compilation where it is asked for
  core::CompileOptions compile;
  std::unique_ptr<core::Model> model;
};
/// `observation`: where not null, filled by what is compiled; outlives the model. `not_here`: what the error says at its end where a
/// device is named of a kind that is known, and is not here.
Result<OpenModel> open_model(const PipelineOptions& pipeline, const DeviceOptions& device,
                             const std::string& path, const CheckPassesOptions& check = {},
                             core::observe::Observation* observation = nullptr,
                             std::string_view not_here = {});

/// Options by which the built-in plugins are enabled, too, that have the devices which a package's own programs need; those that they are
/// where the model is none, or its graph is compiled anew.
PipelineOptions pipeline_for(PipelineOptions pipeline, const std::string& path, bool recompile);

/// A line on standard error where a package's own program runs and others of it, which stand before it, do not: what those are for.
/// Nothing where somebody chose the device, and where --log plugins has told it with its reasons.
void note_passed_over(const OpenModel& opened, const core::CompileStats& stats);

/// A program with what one run of it needs: a context and memory for the outputs.
class Runner {
 public:
  /// Compiles for the inputs' shapes.
  static Result<Runner> make(OpenModel& opened, std::span<const Tensor> inputs);
  /// Where `observation` is not null it gets spans of the run and of its launches.
  Result<void> run(std::span<const Tensor> inputs, core::observe::Observation* observation = nullptr);
  /// Runs, and gives when each launch began and was done; good until the next run.
  Result<std::span<const core::runtime::LaunchTime>> time(std::span<const Tensor> inputs);

  const core::Program& program() const { return *program_; }
  const std::vector<core::runtime::PortInfo>& ports() const { return ports_; }
  const std::vector<Tensor>& outputs() const { return outputs_; }
  int64_t threads() const;

 private:
  std::shared_ptr<core::Program> program_;
  std::vector<core::runtime::PortInfo> ports_;
  std::vector<Tensor> outputs_;
  std::string device_;

  /// Copies of inputs and outputs in the memory of a device, for programs whose ports lie there.
  class DeviceMemory {
   public:
    explicit DeviceMemory(std::shared_ptr<const core::runtime::Executable> executable)
        : executable_(std::move(executable)) {}
    ~DeviceMemory();
    DeviceMemory(const DeviceMemory&) = delete;
    /// Of the next input, with its contents, or output.
    Result<void> add(const Tensor& tensor, bool input);
    std::vector<const void*> in;
    std::vector<void*> out;

   private:
    std::shared_ptr<const core::runtime::Executable> executable_;
    std::vector<void*> all_;
  };
  std::unique_ptr<DeviceMemory> memory_;
  std::unique_ptr<core::runtime::Executable::Context>
      context_;  ///< ends first, and with it the work on that memory
};

/// --recompile, for the commands that run packages.
void add_recompile(CLI::App& command, bool& recompile);

/// What follows the number of kernels of a run: "kernels and 4 at load, 6 different". What is nothing, or says nothing new, is left
/// out.
std::string kernels_text(const core::CompileStats& stats);

/// "12 nodes, 9 statements, 3 kernels, 2 from the cache, compiled in 35.1 ms", or that they came from a package
std::string stats_text(const core::CompileStats& stats);

}  // namespace ferrite::cli
