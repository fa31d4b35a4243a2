// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "driver/observe/sinks.h"

#include <algorithm>

#include <fmt/format.h>

#include "core/support/abi/abi.h"
#include "core/support/warning.h"
#include "runtime/plugin/serialised_calls.h"

namespace ferrite::core::observe {
namespace {

std::vector<std::string> tables_of(const fe_metric_sink& sink) {
  std::vector<std::string> names;
  for (uint64_t k = 0; k < sink.tables.count; ++k)
    names.push_back(abi::string(abi::element<fe_string>(sink.tables, k)));
  return names;
}

Result<void> give(const fe_metric_sink& sink, const MetricTable& table) {
  std::vector<fe_string> columns, values;
  for (const auto& name : table.columns) columns.push_back(abi::string(std::string_view(name)));
  for (const auto& row : table.rows)
    for (const auto& value : row) values.push_back(abi::string(std::string_view(value)));
  auto args = abi::sized<fe_metric_args>();
  args.table = abi::string(std::string_view(table.name));
  args.columns = abi::array(columns);
  args.values = abi::array(values);
  auto none = abi::sized<fe_none>();
  abi::Call call;
  const int32_t status = plugin::invoke(sink, sink.write, call, &args, &none);
  if (status == FE_EUNSUPPORTED) return {};  // it does not want this table
  return call.check(status, "FE-P84", "it gave no reason");
}

}  // namespace

Result<void> check_sinks(const Sinks& sinks) {
  for (const auto& [sink, plugin] : sinks)
    for (const auto& name : tables_of(*sink))
      if (auto known = check_metric_table(name); !known)
        return at(fmt::format("metric sink '{}' of plugin '{}'", abi::view(sink->id), plugin->id),
                  std::move(known.error()));
  return {};
}

Result<void> give_to_sinks(const Sinks& sinks, const MetricSource& source) {
  for (const auto& [sink, plugin] : sinks) {
    const auto names = tables_of(*sink);
    const auto wanted = [&](std::string_view name) {
      return names.empty() || std::ranges::find(names, name) != names.end();
    };
    for (const auto& table : metric_tables(wanted, source)) {
      const auto given = give(*sink, table);
      if (given) continue;
      auto failure =
          error(given.error().status, "FE-P84", "metric sink '{}' of plugin '{}' failed at table {}: {}",
                abi::view(sink->id), plugin->id, table.name, given.error().message());
      if (plugin->on_error != plugin::OnError::skip) return at(std::string(source.model), std::move(failure));
      log::warn("plugins", fmt::format("{}; it gets no more of this compilation", failure.text));
      break;
    }
  }
  return {};
}

}  // namespace ferrite::core::observe
