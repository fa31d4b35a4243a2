// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The importer of PyTorch programs as a plugin.
#include "ferrite/plugin.hpp"

#include "importer.h"

namespace {

void add_importer(ferrite::PluginBuilder& builder, const ferrite::PluginContext&) {
  builder.add(std::make_unique<ferrite::from_torch::TorchImporter>());
}

}  // namespace

FERRITE_PLUGIN("ferrite.torch", "0.1.0", add_importer)
