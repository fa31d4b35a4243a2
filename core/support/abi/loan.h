// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tables of host functions that a callback receives: valid during one callback and on one thread.
#pragma once

#include <atomic>

#include "core/support/abi/callback.h"
#include "core/support/abi/recycled.h"
#include "core/support/error.h"
#include "ferrite/abi/base.h"

namespace ferrite::core {

/// Lends a table: `self` leads to an owner while this object lives. The memory of the table is never freed: a
/// plugin that keeps it, or calls it from its own thread, gets an error (FE-P62, FE-P63) instead of undefined
/// behaviour.
template <class Table, class Owner>
class Loan {
 public:
  /// Copies the functions of `table` and sets `self`. Only the calling thread may use the copy.
  Loan(Owner* owner, const Table& table) : record_(Recycled<Record>::take()) {
    record_->table = table;
    record_->table.self = record_;
    record_->thread.store(thread_mark());
    record_->elsewhere.store(false);
    record_->owner.store(owner);
  }
  ~Loan() {
    record_->owner.store(nullptr);
    Recycled<Record>::give(record_);
  }
  Loan(const Loan&) = delete;
  Loan& operator=(const Loan&) = delete;

  const Table* table() const { return &record_->table; }

  /// The owner, for a slot called with this `self`. Null, with `status` set, if the call is refused.
  static Owner* owner_of(void* self, fe_call* call, int32_t& status) {
    auto* record = static_cast<Record*>(self);
    Owner* owner = record ? record->owner.load() : nullptr;
    if (!owner) {
      const Error late =
          error(FE_ESTALE, "FE-P62",
                "a table of the host was used after the callback that it was lent to returned");
      callback::misuse(late.code, late.text);
      status = abi::report(call, late);
      return nullptr;
    }
    if (record->thread.load() == thread_mark()) return owner;
    record->elsewhere.store(true);
    status = abi::report(call, other_thread());
    return nullptr;
  }
  /// As owner_of(), for an owner whose callback has a time limit: also refused after its deadline() (FE-M21).
  static Owner* owner_in_time(void* self, fe_call* call, int32_t& status) {
    Owner* owner = owner_of(self, call, status);
    if (!owner || !owner->deadline().passed()) return owner;
    status = abi::report(call, owner->deadline().check().error());
    return nullptr;
  }
  /// The owner of a table that is currently lent.
  static Owner& owner_of(const Table& table) { return *static_cast<Record*>(table.self)->owner.load(); }
  /// FE-P63 if another thread called a function of the table.
  Result<void> check() const {
    if (record_->elsewhere.load()) return other_thread();
    return {};
  }

 private:
  struct Record {
    Table table;
    std::atomic<Owner*> owner{nullptr};
    std::atomic<const void*> thread{nullptr};
    std::atomic<bool> elsewhere{false};
  };

  static const void* thread_mark() {
    static thread_local char mark;
    return &mark;
  }
  static Error other_thread() {
    return error(FE_EINVALID, "FE-P63",
                 "a table of the host was used from another thread than the callback's own");
  }

  Record* const record_;
};

}  // namespace ferrite::core
