// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <cmath>

#include "dnnl.h"
#include "ferrite/plugin.hpp"
#include "library.h"

// If the library is missing or has another version, the plugin offers nothing, and compilation continues
// without it.
FERRITE_PLUGIN(
    "ferrite.onednn", "0.1.0", [](ferrite::PluginBuilder& builder, const ferrite::PluginContext& context) {
      const auto& config = context.config;
      const std::string name(config.has("library") ? config.string("library") : "libdnnl.so.2");
      const double price = config.has("price") ? config.number("price") : 1.0;
      if (!(price >= 0 && std::isfinite(price)))
        ferrite::fail("ferrite.onednn/config", "the setting 'price' is ", price,
                      "; write a number that is 0 or more");
      if (name.empty())
        ferrite::fail("ferrite.onednn/config",
                      "the setting 'library' is empty; write the library's name, or leave it out");
      try {
        builder.add(ferrite::onednn::make_library(context.host, ferrite::onednn::open(name), price));
      } catch (const ferrite::onednn::Unavailable& reason) {
        context.host.log(FE_LOG_WARNING, "plugins", reason.code + " ferrite.onednn: " + reason.text);
      }
    })
