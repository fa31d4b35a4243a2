// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Opening, compiling and running a model: common to run, bench, opt, explain and onnx-test.
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

/// A model with its session.
struct OpenModel {
  std::unique_ptr<core::Session> session;
  std::unique_ptr<core::validate::PassCheck> check;  ///< watches the compilation where requested
  core::CompileOptions compile;
  std::unique_ptr<core::Model> model;
};
/// `observation`: may be null; filled by compilations, and must outlive the model. `not_here`: appended to
/// the error about a named device of a known kind that is absent.
Result<OpenModel> open_model(const PipelineOptions& pipeline, const DeviceOptions& device,
                             const std::string& path, const CheckPassesOptions& check = {},
                             core::observe::Observation* observation = nullptr,
                             std::string_view not_here = {});

/// The options, extended so that the built-in plugins for the devices of a package's own programs are
/// enabled; unchanged where the file is no package, or its graph is compiled again.
PipelineOptions pipeline_for(PipelineOptions pipeline, const std::string& path, bool recompile);

/// Prints a line to standard error where a package's own program runs, but better ones before it cannot: it
/// names their devices. Nothing where the user chose the device, or where --log plugins has reported it with
/// the reasons.
void note_passed_over(const OpenModel& opened, const core::CompileStats& stats);

/// A program with the resources of one run: a context and memory for the outputs.
class Runner {
 public:
  /// Compiles for the inputs' shapes.
  static Result<Runner> make(OpenModel& opened, std::span<const Tensor> inputs);
  /// `observation`: if not null, receives spans of the run and of its launches.
  Result<void> run(std::span<const Tensor> inputs, core::observe::Observation* observation = nullptr);
  /// Runs, and returns the begin and end of each launch; valid until the next run.
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

  /// Copies of inputs and outputs in the memory of a device, for programs whose ports are there.
  class DeviceMemory {
   public:
    explicit DeviceMemory(std::shared_ptr<const core::runtime::Executable> executable)
        : executable_(std::move(executable)) {}
    ~DeviceMemory();
    DeviceMemory(const DeviceMemory&) = delete;
    /// Adds the next input, with its contents, or output.
    Result<void> add(const Tensor& tensor, bool input);
    std::vector<const void*> in;
    std::vector<void*> out;

   private:
    std::shared_ptr<const core::runtime::Executable> executable_;
    std::vector<void*> all_;
  };
  std::unique_ptr<DeviceMemory> memory_;
  std::unique_ptr<core::runtime::Executable::Context>
      context_;  ///< destroyed first, which ends all work on that memory
};

/// --recompile, for the commands that run packages.
void add_recompile(CLI::App& command, bool& recompile);

/// The text after the number of kernels of a run: "kernels and 4 at load, 6 different". Zero counts and
/// redundant ones are left out.
std::string kernels_text(const core::CompileStats& stats);

/// "12 nodes, 9 statements, 3 kernels, 2 from the cache, compiled in 35.1 ms", or that they came from a
/// package.
std::string stats_text(const core::CompileStats& stats);

}  // namespace ferrite::cli
