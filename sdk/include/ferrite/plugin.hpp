// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// FERRITE_PLUGIN lists a plugin's contributions in one line:
//   FERRITE_PLUGIN("acme.fuse", "1.2.0", op_def(...)..., rules("post_grad_pre", mul_add), pass("pre_grad",
//   "acme.x", fn))
// A plugin with many parts, or with providers, passes a function `void(PluginBuilder&, const PluginContext&)`
// instead.
#pragma once

#include <memory>
#include <string_view>
#include <type_traits>
#include <utility>

#include "ferrite/detail/plugin_builder.hpp"
#include "ferrite/detail/plugin_device.hpp"
#include "ferrite/detail/plugin_graph.hpp"

namespace ferrite::inline v0 {

namespace detail {

template <class Item>
void contribute(PluginBuilder& builder, const PluginContext& context, Item&& item) {
  if constexpr (std::is_invocable_v<Item, PluginBuilder&, const PluginContext&>)
    item(builder, context);
  else
    builder.add(std::forward<Item>(item));
}

/// The static description of a plugin; `make` fills a builder.
template <class Make>
const fe_plugin_v0* describe_plugin(const char* id, const char* version, Make) {
  static fe_plugin_v0 plugin = [&] {
    auto p = sized<fe_plugin_v0>();
    p.major = FE_ABI_MAJOR;
    p.minor = FE_ABI_MINOR;
    p.id = to_abi(std::string_view(id));
    p.version = to_abi(std::string_view(version));
    p.create = [](void*, fe_call* call, const fe_create_args* args, fe_create_out* out) -> int32_t {
      return guarded(call, [&] {
        auto builder = std::make_unique<PluginBuilder>();
        PluginContext context{Host(args->host), AttrView(args->config)};
        Make()(*builder, context);
        out->contributions = to_array(builder->contributions().data(), builder->contributions().size());
        out->instance = builder.release();
      });
    };
    p.destroy = [](void*, fe_call* call, const fe_destroy_args* args, fe_none*) -> int32_t {
      return guarded(call, [&] { delete static_cast<PluginBuilder*>(args->instance); });
    };
    return p;
  }();
  return &plugin;
}

}  // namespace detail
}  // namespace ferrite::inline v0

#define FERRITE_PLUGIN(id, version, ...)                                                                  \
  extern "C" __attribute__((visibility("default"))) const fe_plugin_v0* fe_plugin_entry_v0(uint32_t) {    \
    return ::ferrite::detail::describe_plugin(                                                            \
        id, version, [](::ferrite::PluginBuilder& builder, const ::ferrite::PluginContext& context) {     \
          auto all = [&](auto&&... items) {                                                               \
            (::ferrite::detail::contribute(builder, context, std::forward<decltype(items)>(items)), ...); \
          };                                                                                              \
          all(__VA_ARGS__);                                                                               \
        });                                                                                               \
  }
