// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The checked plugin, loaded together with the plugins that it needs.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/ir/graph/graph.h"
#include "driver/session.h"
#include "tools/plugin_check/levels.h"

namespace ferrite::core::plugin_check {

/// A session in which the plugin is loaded; its destructor destroys the plugin.
class Subject {
 public:
  /// The codes of reading the pipeline and of loading.
  static Result<std::unique_ptr<Subject>> open(const CheckOptions& options);

  const Session& session() const { return *session_; }
  const plugin::Registry& registry() const { return session_->registry(); }
  const plugin::LoadedPlugin& plugin() const { return *plugin_; }

  std::vector<const graph::OpInfo*> ops() const;
  std::vector<const plugin::PassEntry*> passes() const;  ///< and rules, one entry for each phase
  /// For devices of loaded runtimes, for the interpreter, and for any device.
  std::vector<const fe_lowering*> lowerings() const;
  /// Whether the plugin has an import handler or an alias for ops of the importer's format.
  bool reads_ops_of(const fe_importer& importer) const;
  /// "pass acme.drop at pre_grad": every contribution, sorted.
  std::vector<std::string> contributions() const;

  /// The graph of a model, with open sizes set to 1. The model stays open with the subject, because constants
  /// of the graph may be in the importer's memory. FE-P49 where the rank of an input is open; else the codes
  /// of reading it.
  Result<graph::Graph> import_model(const std::string& path) const;

 private:
  std::unique_ptr<Session> session_;
  mutable std::vector<std::unique_ptr<Model>> models_;
  const plugin::LoadedPlugin* plugin_ = nullptr;
};

/// The pipeline in which the plugin is enabled.
Result<config::Pipeline> pipeline_of(const CheckOptions& options);
/// Whether a plugin to be loaded is the checked one.
bool is_target(const Target& target, const plugin::PluginRequest& request);

/// The sample graphs of an op; FE-P51 where one cannot be read.
Result<std::vector<graph::Graph>> samples_of(const graph::OpInfo& op, const graph::OpRegistry& ops);

/// "folder/model.onnx": the name of a sample model in the names of checks.
std::string name_of_sample(const std::string& path);
/// Checks that each given model can be imported; L3 uses them like its own graphs.
void check_samples(const CheckOptions& options, const Subject& subject, Runner& runner);

}  // namespace ferrite::core::plugin_check
