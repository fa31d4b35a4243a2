// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "runtime/recording.h"

#include <algorithm>
#include <cstring>

#include "core/support/warning.h"
#include "ferrite/abi/error_words.h"
#include "runtime/executable.h"

namespace ferrite::core::runtime {

namespace {

constexpr int64_t staging_alignment = 256;
constexpr int64_t most_staged = int64_t{64} << 20;  // for larger copies the driver's own staging is as fast
constexpr int64_t word_bytes = FE_ERROR_WORDS * int64_t{8};  // error words of one launch

int64_t take(RecordingPlan& plan, int64_t bytes) {
  const int64_t offset = plan.bytes;
  plan.bytes += (bytes + staging_alignment - 1) / staging_alignment * staging_alignment;
  return offset;
}

bool is_port(const BufferSlot& slot) {
  return slot.kind == BufferSlot::Kind::input || slot.kind == BufferSlot::Kind::output;
}

}  // namespace

RecordingPlan Executable::plan_recording() const {
  RecordingPlan plan;
  const auto records = std::ranges::find_if(steps, [&](const Launch& step) {
    const auto d = device_of(step);
    return d && !devices[*d]->host_memory && devices[*d]->records();
  });
  if (records == steps.end()) return plan;
  plan.device = *device_of(*records);
  const auto& device = *devices[plan.device];
  const auto prevented = [&](std::string subject, std::string category, std::string reason) {
    RecordingPlan result;
    result.device = plan.device;
    result.subject = std::move(subject);
    result.category = std::move(category);
    result.reason = std::move(reason);
    return result;
  };
  const auto port_of = [&](const BufferSlot& slot) {
    return slot.kind == BufferSlot::Kind::input ? size_t{slot.number} : inputs.size() + slot.number;
  };
  uint32_t launched = 0;
  for (size_t k = 0; k < steps.size(); ++k) {
    const auto& step = steps[k];
    const auto d = device_of(step);
    if (!d) return prevented(step.call.name, "call", "the host calls the kernel that its lowering gave");
    if (*d != plan.device || step.copy == FE_COPY_PEER)
      return prevented(
          step.provenance, "devices",
          fmt::format("it is done by {}, other launches by {}", devices[*d]->place(), device.place()));
    const bool is_copy = step.copy != no_copy;
    const bool is_library = !is_copy && kernels[step.kernel].library;
    plan.checks = plan.checks || may_fail(step);
    if (is_copy && step.copy != FE_COPY_ON_DEVICE) {
      const auto& from = step.arguments[0];
      // A replay copies from staging memory that the host fills beforehand, so the source must not depend on
      // the replay itself.
      if (step.copy == FE_COPY_TO_DEVICE && from.kind != BufferSlot::Kind::input &&
          from.kind != BufferSlot::Kind::constant)
        return prevented(step.provenance, "host", "the device gets back what it gave to the host");
      plan.staged.push_back({k, take(plan, from.bytes)});
      continue;
    }
    if (is_library && !kernels[step.kernel].recordable)
      return prevented(step.provenance, "library",
                       fmt::format("provider '{}' does not say that its launches can be recorded",
                                   kernels[step.kernel].library->id));
    for (uint32_t argument = 0; argument < step.arguments.size(); ++argument) {
      const auto& slot = step.arguments[argument];
      if (!is_port(slot)) continue;
      // Only launches by the runtime can be rebound to other addresses; copies and libraries keep the
      // recorded ones.
      if (is_copy || is_library) {
        if (std::ranges::find(plan.fixed, port_of(slot)) == plan.fixed.end())
          plan.fixed.push_back(port_of(slot));
      } else
        plan.uses.push_back({launched, argument, port_of(slot)});
    }
    if (!is_copy && !is_library) ++launched;
  }
  if (plan.bytes > most_staged)
    return prevented(
        {}, "size",
        fmt::format(
            "{} bytes of inputs and outputs are in the host's memory, and copies of at most {} are recorded",
            plan.bytes, most_staged));
  if ((plan.bytes > 0 || plan.checks) && !(device.slots.host_alloc && device.slots.host_free))
    return prevented({}, "host", "the device does not copy from and to memory of the host by itself");
  plan.is_possible = true;
  return plan;
}

Result<bool> Executable::replay(Context& context, const Buffers& buffers) const {
  const auto& plan = recording_;
  auto& recorded = context.recorded_;
  if (!plan.is_possible || recorded.failed || context.times_ || log::enabled(launch_channel)) return false;
  const auto port = [&](size_t k) {
    return k < inputs.size() ? const_cast<void*>(buffers.inputs[k]) : buffers.outputs[k - inputs.size()];
  };
  const auto found = std::ranges::find_if(recorded.graphs, [&](const Recorded::Graph& graph) {
    return graph.arena == context.work_[plan.device].arena &&
           std::ranges::all_of(plan.fixed, [&](size_t k) { return graph.bound[k] == port(k); });
  });
  if (found != recorded.graphs.end()) {
    std::rotate(recorded.graphs.begin(), found, found + 1);
  } else {
    if (recorded.refused) return false;
    std::vector<void*> addresses;
    for (const size_t k : plan.fixed) addresses.push_back(port(k));
    addresses.push_back(context.work_[plan.device].arena);
    // Record only if recent runs used the same addresses: the first run also does one-time preparation, and a
    // port whose address changes in every run would need a recording per run.
    if (std::ranges::find(recorded.addresses, addresses) == recorded.addresses.end()) {
      recorded.addresses.insert(recorded.addresses.begin(), std::move(addresses));
      recorded.addresses.resize(std::min(recorded.addresses.size(), most_recordings));
      return false;
    }
    std::erase(recorded.addresses, addresses);
    if (auto done = record(context, buffers); !done) {
      recorded.refused = true;
      log::warn(launch_channel, done.error().message());
      return false;
    }
  }
  auto& graph = recorded.graphs.front();
  const auto& device = *devices[plan.device];
  auto& work = context.work_[plan.device];
  std::vector<fe_rebinding> rebindings;
  for (const auto& use : plan.uses)
    if (graph.bound[use.port] != port(use.port))
      rebindings.push_back({use.launch, use.argument, port(use.port)});
  // Rebindings stay in the graph, so record which pointers it has now.
  for (size_t k = 0; k < graph.bound.size(); ++k) graph.bound[k] = port(k);
  for (const auto& staged : plan.staged) {
    const auto& from = steps[staged.step].arguments[0];
    if (steps[staged.step].copy == FE_COPY_TO_DEVICE && from.bytes > 0)
      std::memcpy(recorded.staging + staged.offset, address(from, buffers, context),
                  static_cast<size_t>(from.bytes));
  }
  // Every launch of the replay counts as pending until the next wait.
  work.waited = 0;
  if (auto given = device.replay(graph.graph, work.stream, rebindings); !given) {
    recorded.failed = true;  // the pointers in the graph are unknown now
    return of_pending(std::move(given.error()), steps, steps.size(), plan.device, context);
  }
  // With staged copies the host must wait, to copy the results out of the staging memory; with checks, to
  // read the error words.
  if (context.early_ && plan.bytes == 0 && (!plan.checks || context.defers_checks_)) return true;
  FE_CHECK(wait(steps, steps.size(), context));
  for (const auto& staged : plan.staged) {
    const auto& to = steps[staged.step].arguments[1];
    if (steps[staged.step].copy == FE_COPY_TO_HOST && to.bytes > 0)
      std::memcpy(address(to, buffers, context), recorded.staging + staged.offset,
                  static_cast<size_t>(to.bytes));
  }
  if (plan.checks) FE_CHECK(check_words(steps, plan.device, work.said, context));
  return true;
}

Result<void> Executable::record(Context& context, const Buffers& buffers) const {
  const auto& device = *devices[recording_.device];
  const auto& work = context.work_[recording_.device];
  auto& recorded = context.recorded_;
  const auto no_memory = [&](int64_t bytes) {
    return at("device " + device.place(),
              error(FE_ENOMEM, "FE-D23", "{} bytes of the host's memory for copies cannot be had", bytes));
  };
  if (recording_.checks && !work.said) return no_memory(static_cast<int64_t>(steps.size()) * word_bytes);
  if (recording_.bytes > 0 && !recorded.staging) {
    recorded.staging = static_cast<std::byte*>(device.host_alloc(recording_.bytes));
    if (!recorded.staging) return no_memory(recording_.bytes);
    std::memset(recorded.staging, 0, static_cast<size_t>(recording_.bytes));
  }
  // Record on a separate stream, because work that the caller gives to its own stream must not be recorded.
  if (work.borrowed && !recorded.stream) {
    FE_TRY(recorded.stream, device.open_stream(nullptr));
  }
  void* const stream = recorded.stream ? recorded.stream : work.stream;
  Recorded::Graph made;
  made.arena = work.arena;
  for (const void* input : buffers.inputs) made.bound.push_back(const_cast<void*>(input));
  made.bound.insert(made.bound.end(), buffers.outputs.begin(), buffers.outputs.end());
  FE_TRY(made.graph, device.record(stream, [&] { return record_steps(context, buffers, stream); }));
  recorded.graphs.insert(recorded.graphs.begin(), std::move(made));
  if (recorded.graphs.size() > most_recordings) {
    FE_CHECK(device.synchronise(work.stream));  // it may still be running the graph
    device.free_graph(recorded.graphs.back().graph);
    recorded.graphs.pop_back();
  }
  return {};
}

Result<void> Executable::record_steps(Context& context, const Buffers& buffers, void* stream) const {
  const auto& plan = recording_;
  const auto& device = *devices[plan.device];
  const auto& work = context.work_[plan.device];
  void* const native = device.native(FE_NATIVE_STREAM, stream);
  std::byte* const staging = context.recorded_.staging;
  auto staged = plan.staged.begin();
  for (size_t k = 0; k < steps.size(); ++k) {
    const auto& step = steps[k];
    std::vector<void*> pointers(step.arguments.size());
    for (size_t a = 0; a < pointers.size(); ++a) pointers[a] = address(step.arguments[a], buffers, context);
    if (step.copy == no_copy) {
      FE_CHECK(launch_kernel(steps, k, pointers, context, stream, native));
      continue;
    }
    if (staged != plan.staged.end() && staged->step == k) {
      pointers[step.copy == FE_COPY_TO_DEVICE ? 0 : 1] = staging + staged->offset;
      ++staged;
    }
    FE_CHECK(device.copy(step.copy, pointers[1], pointers[0], step.arguments[0].bytes, stream));
  }
  if (!plan.checks) return {};
  return device.copy(FE_COPY_TO_HOST, work.said, work.errors, static_cast<int64_t>(steps.size()) * word_bytes,
                     stream);
}

}  // namespace ferrite::core::runtime
