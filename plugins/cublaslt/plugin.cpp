// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ferrite/plugin.hpp"

#include "library.h"

FERRITE_PLUGIN("ferrite.cublaslt", "0.1.0",
               [](ferrite::PluginBuilder& builder, const ferrite::PluginContext& context) {
                 const auto& config = context.config;
                 ferrite::cublaslt::Settings settings;
                 settings.library = config.string("library");
                 settings.driver = config.string("driver");
                 settings.price = config.number("price");
                 settings.choices = static_cast<int>(config.integer("choices"));
                 settings.tf32 = config.boolean("tf32");
                 builder.add(ferrite::cublaslt::make_library(context.host, std::move(settings)));
               })
