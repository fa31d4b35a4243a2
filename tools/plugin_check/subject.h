// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The plugin that is checked, loaded among those that it needs.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/ir/graph/graph.h"
#include "driver/session.h"
#include "tools/plugin_check/levels.h"

namespace ferrite::core::plugin_check {

/// A session in which the plugin is loaded; gone, the plugin is destroyed.
class Subject {
 public:
  /// The codes of reading the pipeline and of loading.
  static Result<std::unique_ptr<Subject>> open(const CheckOptions& options);

  const Session& session() const { return *session_; }
  const plugin::Registry& registry() const { return session_->registry(); }
  const plugin::LoadedPlugin& plugin() const { return *plugin_; }

  std::vector<const graph::OpInfo*> ops() const;
  std::vector<const plugin::PassEntry*> passes() const;  ///< and rules, a phase each
  /// For devices of runtimes that are loaded, for the interpreter, and for any.
  std::vector<const fe_lowering*> lowerings() const;
  /// Whether the plugin has an import handler or an alias for ops of the importer's format.
  bool reads_ops_of(const fe_importer& importer) const;
  /// "pass acme.drop at pre_grad": every contribution, sorted.
  std::vector<std::string> contributions() const;

  /// The graph of a model, sizes that it leaves open being 1. The model stays open with the subject: constants of the graph may
  /// be the importer's memory. FE-P49 where the rank of an input is open; else the codes of reading it.
  Result<graph::Graph> import_model(const std::string& path) const;

 private:
  std::unique_ptr<Session> session_;
  mutable std::vector<std::unique_ptr<Model>> models_;
  const plugin::LoadedPlugin* plugin_ = nullptr;
};

/// The pipeline in which the plugin is enabled.
Result<plugin::Pipeline> pipeline_of(const CheckOptions& options);
/// Whether a plugin that is to be loaded is the one that is checked.
bool is_target(const Target& target, const plugin::PluginRequest& request);

/// Of an op, its sample graphs; FE-P51 where one cannot be read.
Result<std::vector<graph::Graph>> samples_of(const graph::OpInfo& op, const graph::OpRegistry& ops);

/// "folder/model.onnx": a sample model as checks are named by it.
std::string name_of_sample(const std::string& path);
/// Each of the models that are given can be imported: L3 tries on them what it tries on graphs of its own.
void check_samples(const CheckOptions& options, const Subject& subject, Runner& runner);

}  // namespace ferrite::core::plugin_check
