// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ferrite/plugin.hpp"

#include "library.h"

FERRITE_PLUGIN("ferrite.cublaslt", "0.1.0",
               [](ferrite::PluginBuilder& builder, const ferrite::PluginContext& context) {
                 builder.add(ferrite::cublaslt::make_library(
                     context.host, ferrite::cuda_library::read_settings(context.config)));
               })
