// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ferrite/plugin.hpp"

#include "compiler.h"
#include "host_runtime.h"

FERRITE_PLUGIN("ferrite.cpu", "0.1.0",
               [](ferrite::PluginBuilder& builder, const ferrite::PluginContext& context) {
                 const auto& config = context.config;
                 ferrite::cpu::RowPadding rows;
                 rows.alignment = static_cast<uint32_t>(config.integer("row_alignment", 0));
                 rows.percent = static_cast<uint32_t>(config.integer("row_padding_percent", 0));
                 rows.from = config.integer("row_padding_from", 0);
                 builder.add(ferrite::cpu::make_compiler(rows));
                 builder.add(ferrite::cpu::make_runtime(context.host));
               })
