// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ferrite/plugin.hpp"

#include "compiler.h"
#include "driver.h"
#include "runtime.h"

FERRITE_PLUGIN("ferrite.level_zero", "0.1.0",
               [](ferrite::PluginBuilder& builder, const ferrite::PluginContext& context) {
                 const auto& config = context.config;
                 const std::string library(config.has("library") ? config.string("library")
                                                                 : ferrite::level_zero::loader_library);
                 builder.add(ferrite::level_zero::make_compiler());
                 builder.add(ferrite::level_zero::make_runtime(context.host, library));
               })
