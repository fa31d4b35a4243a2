// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A lock a table: what keeps calls of a plugin apart that does not promise to take them from several threads at once.
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

/// The lock that belongs to a table for as long as the process lives; tables of one plugin have one each, and sessions that
/// use the same plugin share them.
std::mutex& lock_of(const void* table);

/// Held around a call of one of the table's slots; empty where the table says FE_THREADS_ANY, or FE_THREADS_STREAM, which a
/// context's own thread keeps. A slot does not call another slot of its own table through the host.
template <class Table>
std::unique_lock<std::mutex> serialised(const Table& table) {
  if (table.thread_model != FE_THREADS_SERIALISED) return {};
  return std::unique_lock(lock_of(&table));
}

/// What a slot of a table is called: "compile of provider".
const char* slot_name(const fe_provider& table, const void* slot);
const char* slot_name(const fe_runtime& table, const void* slot);
const char* slot_name(const fe_importer& table, const void* slot);
const char* slot_name(const fe_fusion_policy& table, const void* slot);
const char* slot_name(const fe_cost_model& table, const void* slot);
const char* slot_name(const fe_metric_sink& table, const void* slot);

/// Calls one of the table's slots, alone where the table asks for that.
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
