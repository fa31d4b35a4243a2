// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ferrite/plugin.hpp"

#include "compiler.h"
#include "runtime.h"

FERRITE_PLUGIN("ferrite.hip", "0.1.0",
               [](ferrite::PluginBuilder& builder, const ferrite::PluginContext& context) {
                 const auto& config = context.config;
                 std::vector<std::string> libraries = {"libamdhip64.so.7", "libamdhip64.so.6",
                                                       "libamdhip64.so.5"};
                 if (config.has("library") && !config.string("library").empty())
                   libraries = {std::string(config.string("library"))};
                 builder.add(ferrite::hip::make_compiler());
                 builder.add(ferrite::hip::make_runtime(context.host, std::move(libraries)));
               })
