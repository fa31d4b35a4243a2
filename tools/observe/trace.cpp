// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "tools/observe/trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

namespace ferrite::core::observe {

void add_launches(Observation& observation, const runtime::Executable& executable,
                  const runtime::Executable::Context& context) {
  const auto times = context.times();
  for (size_t k = 0; k < times.size(); ++k) {
    const auto& step = executable.steps[k];
    int64_t bytes = 0;
    for (const auto& place : step.arguments) bytes += place.bytes;
    Span span{
        "kernel", step.provenance, times[k].start, times[k].end, 0, {{"step", static_cast<int64_t>(k)}}};
    if (step.copy != runtime::no_copy) {
      span.category = "copy";
      span.name = "copy";
    } else if (step.call.function) {
      span.arguments.emplace_back("kernel", step.call.name);
    } else {
      const auto& kernel = executable.kernels[step.kernel];
      span.arguments.emplace_back("kernel", kernel.entry);
      span.arguments.emplace_back("candidate", kernel.candidate);
      span.arguments.emplace_back("tasks", kernel.tasks);
    }
    span.arguments.emplace_back("provenance", step.provenance);
    span.arguments.emplace_back("bytes", bytes);
    span.arguments.emplace_back("thread", int64_t{0});
    observation.add(std::move(span));
  }
}

std::string trace_json(const Observation& observation) {
  using Json = nlohmann::ordered_json;
  const auto spans = observation.spans();
  Clock::time_point origin = Clock::time_point::max();
  std::set<uint32_t> threads;
  for (const auto& span : spans) {
    origin = std::min(origin, span.start);
    threads.insert(span.thread);
  }
  const auto microseconds = [](Clock::duration time) {
    return static_cast<double>(std::chrono::duration_cast<std::chrono::nanoseconds>(time).count()) / 1000;
  };
  auto events = Json::array();
  events.push_back(
      {{"ph", "M"}, {"pid", 1}, {"tid", 0}, {"name", "process_name"}, {"args", {{"name", "ferrite"}}}});
  for (const uint32_t thread : threads)
    events.push_back({{"ph", "M"},
                      {"pid", 1},
                      {"tid", thread},
                      {"name", "thread_name"},
                      {"args", {{"name", thread == 0 ? "main" : fmt::format("worker {}", thread)}}}});
  for (const auto& span : spans) {
    auto arguments = Json::object();
    for (const auto& [name, value] : span.arguments)
      std::visit([&](const auto& given) { arguments[name] = given; }, value);
    events.push_back({{"ph", "X"},
                      {"pid", 1},
                      {"tid", span.thread},
                      {"cat", span.category},
                      {"name", span.name},
                      {"ts", microseconds(span.start - origin)},
                      {"dur", microseconds(span.end - span.start)},
                      {"args", std::move(arguments)}});
  }
  const Json file{{"displayTimeUnit", "ms"}, {"traceEvents", std::move(events)}};
  return file.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace ferrite::core::observe
