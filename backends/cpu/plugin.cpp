// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ferrite/plugin.hpp"

#include "compiler.h"
#include "host_runtime.h"

FERRITE_PLUGIN("ferrite.cpu", "0.1.0",
               [](ferrite::PluginBuilder& builder, const ferrite::PluginContext& context) {
                 builder.add(ferrite::cpu::make_compiler(ferrite::cpu::settings_of(context.config)));
                 builder.add(ferrite::cpu::make_runtime(context.host));
               })
