// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ferrite/plugin.hpp"

#include "compiler.h"
#include "runtime.h"

FERRITE_PLUGIN("ferrite.cuda", "0.1.0",
               [](ferrite::PluginBuilder& builder, const ferrite::PluginContext& context) {
                 const auto& config = context.config;
                 const std::string library(config.has("library") ? config.string("library")
                                                                 : ferrite::cuda::driver_library);
                 builder.add(ferrite::cuda::make_compiler());
                 builder.add(ferrite::cuda::make_runtime(context.host, library));
               })
