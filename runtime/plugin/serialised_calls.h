// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// One lock per table, for plugins that do not promise to accept calls from several threads in parallel.
#pragma once

#include <mutex>
#include <type_traits>

#include "core/support/abi/abi.h"
#include "core/support/abi/callback.h"
#include "ferrite/abi/advice.h"
#include "ferrite/abi/importer.h"
#include "ferrite/abi/provider.h"
#include "ferrite/abi/runtime.h"

namespace ferrite::core::plugin {

/// The lock of a table, which exists for the lifetime of the process. Each table of a plugin has its own;
/// sessions that use the same plugin share it.
std::mutex& lock_of(const void* table);

/// A lock to hold during a call of one of the table's slots. Empty if the table says FE_THREADS_ANY, or
/// FE_THREADS_STREAM (a context is used by one thread only). A slot must not call another slot of its own
/// table through the host: it would deadlock.
template <class Table>
std::unique_lock<std::mutex> serialised(const Table& table) {
  if (table.thread_model != FE_THREADS_SERIALISED) return {};
  return std::unique_lock(lock_of(&table));
}

/// The name of a slot in messages: "compile of provider".
const char* slot_name(const fe_provider& table, const void* slot);
const char* slot_name(const fe_runtime& table, const void* slot);
const char* slot_name(const fe_importer& table, const void* slot);
const char* slot_name(const fe_fusion_policy& table, const void* slot);
const char* slot_name(const fe_cost_model& table, const void* slot);
const char* slot_name(const fe_metric_sink& table, const void* slot);

/// Calls one of the table's slots, under its lock if the table requires that.
template <class Table, class Args, class Out>
int32_t invoke(const Table& table, int32_t (*slot)(void*, fe_call*, const Args*, Out*), abi::Call& call,
               const std::type_identity_t<Args>* args, std::type_identity_t<Out>* out) {
  const auto lock = serialised(table);
  callback::Frame frame;
  frame.what = slot_name(table, reinterpret_cast<const void*>(slot));
  frame.name = abi::view(table.id);
  frame.table = &table;
  return callback::call(frame, slot, table.self, call, args, out);
}

}  // namespace ferrite::core::plugin
