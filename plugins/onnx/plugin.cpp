// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The ONNX importer as a plugin.
#include "ferrite/plugin.hpp"

#include "model.h"

namespace {

void add_importer(ferrite::PluginBuilder& builder, const ferrite::PluginContext& context) {
  builder.add(std::make_unique<ferrite::from_onnx::OnnxImporter>(
      [host = context.host](const std::string& text) { host.log(FE_LOG_WARNING, "graph", text); }));
}

}  // namespace

FERRITE_PLUGIN("ferrite.onnx", "0.1.0", add_importer)
