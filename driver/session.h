// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The objects of a program that embeds Ferrite: a session (plugins, pipeline) and models (programs by shape).
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "core/passes/joint/partition.h"
#include "core/support/abi/abi.h"
#include "core/support/error.h"
#include "core/support/files/weights.h"
#include "driver/compile.h"
#include "driver/config/manifest.h"
#include "driver/observe/metrics.h"
#include "ferrite/abi/importer.h"
#include "runtime/model_port.h"

namespace ferrite::core {

/// Plugins, loaded as a pipeline specifies. Any-thread after open.
class Session {
 public:
  /// Rules that are not built in are validated when they are first loaded (driver/validate/verdicts.h).
  /// FE-C09 where FERRITE_METRICS names an unknown table.
  static Result<std::unique_ptr<Session>> open(const config::Pipeline& pipeline);
  const plugin::Registry& registry() const { return *registry_; }
  const config::Pipeline& pipeline() const { return pipeline_; }
  const observe::Metrics& metrics() const { return metrics_; }
  /// A hash of the files that decide how models are compiled: this library, the manifests, and the libraries,
  /// descriptors and rules of the plugins, with their settings. FE-M14 for a file that cannot be read.
  Result<std::string> identity() const;

 private:
  Session() = default;
  config::Pipeline pipeline_;
  observe::Metrics metrics_;
  std::unique_ptr<fe_host> host_;
  std::unique_ptr<plugin::Registry> registry_;
};

/// A program for one set of input shapes.
struct Program {
  Compilation compilation;
  Ledger ledger;
  double import_ms = 0;

  /// Ports of the program: all dtypes and dims are known.
  std::vector<runtime::PortInfo> inputs() const;
  std::vector<runtime::PortInfo> outputs() const;
  /// Contiguous elements in port order. `context` may be null for the interpreter.
  Result<void> run(runtime::Executable::Context* context, std::span<const void* const> inputs,
                   std::span<void* const> outputs) const;
};

/// The name or description of a target, and where it was given.
struct TargetName {
  std::string text, where;
};

/// A package that was written.
struct Saved {
  struct Program {
    std::string devices;  ///< "npu (v2), cpu (x86-64-v4)": the devices on which it runs
    CompileStats stats;
  };
  std::vector<Program> programs;  ///< the best first
  uint64_t bytes = 0;
};

/// A model file, or a package. Programs are kept per shape. Any-thread: concurrent calls for the same program
/// wait for its one compilation; each concurrent run() of a program needs a Context of its own.
class Model {
 public:
  /// Opens a file by its extension: an importer's, .fe for the graph's text form, or .fepkg. FE-I codes;
  /// FE-K50 to FE-K52 for packages.
  static Result<std::unique_ptr<Model>> open(const Session& session, const std::string& path);
  /// The same for the contents of a file in memory, which are copied. `path` need not exist: its extension
  /// selects the importer, relative names in the model are resolved against its folder, and errors name it.
  static Result<std::unique_ptr<Model>> open(const Session& session, const std::string& path,
                                             std::span<const std::byte> contents);
  ~Model();

  const std::vector<ModelPort>& inputs() const { return inputs_; }
  const std::vector<ModelPort>& outputs() const { return outputs_; }

  /// The imported graph for these input dims, before any pass. FE-X01.. where the dims do not fit the
  /// signature.
  Result<graph::Graph> graph(std::span<const std::vector<int64_t>> input_dims) const;
  /// A line "<index of the node>\t<source op>\t<code>\t<reason>" for each node that cannot be imported, tried
  /// one by one, for these input dims. FE-I06 if the model's importer cannot tell.
  Result<std::string> unsupported(std::span<const std::vector<int64_t>> input_dims) const;
  /// The program for these input dims, compiled on the first call; for a package its own program, unless the
  /// options say otherwise. FE-K53 where that was compiled for other devices.
  Result<std::shared_ptr<Program>> program(std::span<const std::vector<int64_t>> input_dims,
                                           const CompileOptions& options) {
    return program(input_dims, options, nullptr);
  }
  /// The program as a package for this machine; it is compiled, unless an earlier call has left its code, and
  /// loaded as program() does. FE-X41 for a package; FE-K54 and the errors of compiling.
  Result<std::vector<std::byte>> package(std::span<const std::vector<int64_t>> input_dims,
                                         const CompileOptions& options);
  struct Parts {
    std::unique_ptr<Model> forward, backward;
  };
  /// Divides the model's joint graph, whose first `forward_outputs` outputs are those of the forward part:
  /// imports it, runs its passes of the stages `first_stage` to joint_post, and divides it as
  /// core/passes/joint/partition.h says. The parts are models that the stages from post_grad_pre on compile;
  /// the ledger of the forward part's programs begins with the records of the joint graph. The sizes of the
  /// inputs must be fixed (FE-X04). FE-G58 and the errors of importing and of the passes.
  Result<Parts> partition(uint32_t forward_outputs, std::string_view first_stage,
                          const joint::PartitionOptions& partition_options,
                          const CompileOptions& options) const;
  /// A joint model that is not divided: of the imported graph, whose first `forward_outputs` outputs are
  /// those of a forward pass. The stages from `first_stage` on compile it. The sizes of the inputs must be
  /// fixed (FE-X04). FE-C04 for a stage that no graph enters, and the errors of importing.
  Result<std::unique_ptr<Model>> joint(uint32_t forward_outputs, std::string_view first_stage) const;
  /// The changes that the passes of a graph phase make, as core/passes/joint/changed_regions.h says. The
  /// model's outputs are all values that it has names for, and its real outputs those whose numbers are in
  /// `outputs`. The sizes of the inputs must be fixed (FE-X04). FE-C04 for a phase that works on no graph,
  /// FE-G59, and the errors of importing and of the passes.
  Result<std::string> changed_regions(std::string_view phase, std::span<const uint64_t> outputs,
                                      const CompileOptions& options) const;
  /// Compiles for these input dims and each of the targets, or for this machine where none is named, and
  /// writes a package; nothing is loaded. A target whose devices cannot access the host's memory needs a
  /// fallback device that can. It gets the one for which the package's estimate is slowest, because that one
  /// runs on most machines. FE-K54, FE-K55, FE-D24 and the errors of compiling.
  Result<Saved> save(std::span<const std::vector<int64_t>> input_dims, const CompileOptions& options,
                     std::span<const TargetName> targets, const std::string& path) const;

 private:
  explicit Model(const Session& session);
  /// `package`: if not null, receives the program's package.
  Result<std::shared_ptr<Program>> program(std::span<const std::vector<int64_t>> input_dims,
                                           const CompileOptions& options, std::vector<std::byte>* package);
  Result<void> open(std::shared_ptr<const graph::MappedFile> file);
  Result<void> open_text();
  /// A model of a graph that has passed the stages before `from`.
  static std::unique_ptr<Model> of_graph(const Session& session, const std::string& path, graph::Graph graph,
                                         std::string_view from, std::span<const LedgerRecord> before);
  Result<void> open_imported();
  Result<graph::Graph> joint_graph(uint32_t forward_outputs) const;
  graph::Graph empty_graph() const;
  /// Calls `build`, a function of the importer, which adds to the graph.
  Result<void> import(graph::Graph& graph, std::span<const std::vector<int64_t>> input_dims,
                      const std::function<int32_t(abi::Call&, const fe_build_args&)>& build) const;
  std::vector<std::vector<int64_t>> declared_dims() const;
  Result<void> check_dims(std::span<const std::vector<int64_t>> input_dims) const;
  const Session& session_;
  std::string path_;
  std::vector<ModelPort> inputs_, outputs_;
  struct State;
  std::unique_ptr<State> state_;
  std::mutex mutex_;
  struct Entry {
    std::mutex mutex;
    std::shared_ptr<Program> program;  ///< null until it is compiled
  };
  std::map<std::string, std::shared_ptr<Entry>> programs_;
};

}  // namespace ferrite::core
