// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/support/abi/abi.h"

#include <atomic>
#include <thread>

#include "core/support/abi/callback.h"
#include "core/support/abi/recycled.h"

namespace ferrite::core::abi {

struct Call::Record {
  fe_call call{};
  std::string code, text;
  std::function<bool()> cancelled;
  std::atomic<bool> live{false};
  std::atomic<std::thread::id> thread;

  static void set_error(void* host, fe_string code, fe_string text) {
    auto& record = *static_cast<Record*>(host);
    if (!record.live.load()) return callback::misuse("FE-P62", "a call was used after it had returned");
    if (record.thread.load() != std::this_thread::get_id())
      return callback::misuse("FE-P63", "a call was used from another thread than its own");
    constexpr size_t longest = 1 << 16;
    record.code = view(code).substr(0, longest);
    record.text = view(text).substr(0, longest);
  }
};

Call::Call() : record_(Recycled<Record>::take()) {
  record_->call.size = sizeof(fe_call);
  record_->call.host = record_;
  record_->call.set_error = Record::set_error;
  record_->call.cancelled = [](void* host) {
    const auto& record = *static_cast<const Record*>(host);
    return int32_t{record.live.load() && record.cancelled && record.cancelled()};
  };
  record_->code.clear();
  record_->text.clear();
  record_->thread.store(std::this_thread::get_id());
  record_->live.store(true);
}

Call::~Call() {
  record_->live.store(false);
  record_->cancelled = nullptr;
  Recycled<Record>::give(record_);
}

fe_call* Call::get() { return &record_->call; }

void Call::cancel_when(std::function<bool()> holds) { record_->cancelled = std::move(holds); }

void Call::set_error(std::string_view code, std::string_view text) {
  record_->code = code;
  record_->text = text;
}

Error Call::error(int32_t status, std::string_view code, std::string_view text) const {
  return {status,
          record_->code.empty() ? std::string(code) : record_->code,
          record_->text.empty() ? std::string(text) : record_->text,
          {}};
}

}  // namespace ferrite::core::abi
