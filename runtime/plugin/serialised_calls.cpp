// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "runtime/plugin/serialised_calls.h"

#include <map>

namespace ferrite::core::plugin {
namespace {

template <class Slot>
bool is(Slot slot, const void* given) {
  return slot && reinterpret_cast<const void*>(slot) == given;
}

}  // namespace

std::mutex& lock_of(const void* table) {
  // Process-wide, as loaded libraries are. References into a std::map stay valid.
  static std::mutex guard;
  static std::map<const void*, std::mutex> locks;
  std::lock_guard hold(guard);
  return locks[table];
}

const char* slot_name(const fe_provider& table, const void* slot) {
  if (is(table.open_target, slot)) return "open_target of provider";
  if (is(table.close_target, slot)) return "close_target of provider";
  if (is(table.propose, slot)) return "propose of provider";
  if (is(table.compile, slot)) return "compile of provider";
  // read() pads tables of earlier revisions, which lack some slots.
  const auto slots = abi::read(&table);
  if (is(slots.exec_create, slot)) return "exec_create of provider";
  if (is(slots.exec_launch, slot)) return "exec_launch of provider";
  if (is(slots.exec_destroy, slot)) return "exec_destroy of provider";
  if (is(slots.claim, slot)) return "claim of provider";
  return "fingerprint of provider";
}

const char* slot_name(const fe_runtime& table, const void* slot) {
  if (is(table.launch, slot)) return "launch of runtime";
  if (is(table.alloc, slot)) return "alloc of runtime";
  if (is(table.free, slot)) return "free of runtime";
  if (is(table.copy, slot)) return "copy of runtime";
  if (is(table.describe, slot)) return "describe of runtime";
  if (is(table.device_count, slot)) return "device_count of runtime";
  if (is(table.module_load, slot)) return "module_load of runtime";
  if (is(table.module_unload, slot)) return "module_unload of runtime";
  if (is(table.function, slot)) return "function of runtime";
  // read() pads tables of earlier revisions, which lack some slots.
  const auto slots = abi::read(&table);
  if (is(slots.accept, slot)) return "accept of runtime";
  if (is(slots.synchronise, slot)) return "synchronise of runtime";
  if (is(slots.stream_open, slot)) return "stream_open of runtime";
  if (is(slots.stream_close, slot)) return "stream_close of runtime";
  if (is(slots.native_handle, slot)) return "native_handle of runtime";
  if (is(slots.record_begin, slot)) return "record_begin of runtime";
  if (is(slots.record_end, slot)) return "record_end of runtime";
  if (is(slots.replay, slot)) return "replay of runtime";
  if (is(slots.graph_free, slot)) return "graph_free of runtime";
  if (is(slots.host_alloc, slot)) return "host_alloc of runtime";
  if (is(slots.host_free, slot)) return "host_free of runtime";
  if (is(slots.event_open, slot)) return "event_open of runtime";
  if (is(slots.event_record, slot)) return "event_record of runtime";
  if (is(slots.event_wait, slot)) return "event_wait of runtime";
  if (is(slots.event_close, slot)) return "event_close of runtime";
  return "device_status of runtime";
}

const char* slot_name(const fe_importer& table, const void* slot) {
  if (is(table.model_open, slot)) return "model_open of importer";
  if (is(table.model_close, slot)) return "model_close of importer";
  if (is(table.signature, slot)) return "signature of importer";
  if (is(table.build, slot)) return "build of importer";
  // read() pads tables of earlier revisions, which lack some slots.
  if (is(abi::read(&table).unsupported, slot)) return "unsupported of importer";
  return "coverage of importer";
}

const char* slot_name(const fe_fusion_policy& table, const void* slot) {
  return is(table.rank, slot) ? "rank of fusion policy" : "decide of fusion policy";
}
const char* slot_name(const fe_cost_model&, const void*) { return "estimate of cost model"; }
const char* slot_name(const fe_metric_sink&, const void*) { return "write of metric sink"; }

}  // namespace ferrite::core::plugin
