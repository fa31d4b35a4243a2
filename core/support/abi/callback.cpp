// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/support/abi/callback.h"

#include <algorithm>
#include <array>
#include <mutex>

#include "core/support/log.h"

namespace ferrite::core::callback {
namespace {

/// Appends to a buffer of fixed size, using only async-signal-safe operations.
class Text {
 public:
  Text(char* data, size_t capacity) : data_(data), capacity_(capacity) {}
  ~Text() { data_[length_] = '\0'; }
  void add(std::string_view text) {
    for (const char c : text)
      if (length_ + 1 < capacity_) data_[length_++] = c;
  }
  size_t length() const { return length_; }

 private:
  char* data_;
  size_t capacity_, length_ = 0;
};

struct Owner {
  std::atomic<const void*> table{nullptr};
  std::array<char, 128> plugin{};
  Owner* next = nullptr;
};
// Both lists grow only at the head and nodes are never freed, so readers need no lock.
std::atomic<Owner*> owners{nullptr};
std::atomic<Thread*> all_threads{nullptr};
std::atomic<Ended> on_end{nullptr};
std::mutex growing;

thread_local Scope* innermost_scope = nullptr;
constinit thread_local Thread* own_thread = nullptr;

/// Returns the thread's record when the thread ends.
struct Holder {
  ~Holder() {
    // The thread ends inside a callback, because the plugin called exit(), for example.
    if (const Frame* frame = own_thread->innermost())
      if (const Ended ended = on_end.load()) ended(*frame);
    own_thread->depth.store(0);
    own_thread->in_use.store(false);
    own_thread = nullptr;
  }
};

Thread& enter_thread() {
  if (own_thread) return *own_thread;
  {
    std::lock_guard lock(growing);
    // Reuse the record of a thread that has ended.
    for (Thread* spare = all_threads.load(); spare && !own_thread; spare = spare->next)
      if (!spare->in_use.exchange(true)) own_thread = spare;
    if (!own_thread) {
      own_thread = new Thread();
      own_thread->next = all_threads.load();
      all_threads.store(own_thread);
    }
  }
  // Constructed on the thread's first callback; its destructor runs when the thread ends.
  static thread_local Holder holder;
  static_cast<void>(holder);
  return *own_thread;
}

}  // namespace

void own(const void* table, std::string_view plugin) {
  std::lock_guard lock(growing);
  Owner* owner = owners.load();
  while (owner && owner->table.load() != table) owner = owner->next;
  if (!owner) {
    owner = new Owner();
    owner->next = owners.load();
    owners.store(owner);
  }
  // An address can be reused by another plugin's table, so always store the name. Store the table last: that
  // makes a new record visible to describe().
  const size_t length = std::min(plugin.size(), owner->plugin.size() - 1);
  std::copy_n(plugin.begin(), length, owner->plugin.begin());
  owner->plugin[length] = '\0';
  owner->table.store(table);
}

size_t describe(const Frame& frame, char* text, size_t capacity) {
  Text to(text, capacity);
  std::string_view plugin = frame.plugin;
  for (const Owner* owner = owners.load(); owner && plugin.empty() && frame.table; owner = owner->next)
    if (owner->table.load() == frame.table) plugin = owner->plugin.data();
  if (!plugin.empty()) {
    to.add("plugin '");
    to.add(plugin);
    to.add("', ");
  }
  to.add(frame.what);
  if (!frame.name.empty()) {
    to.add(" '");
    to.add(frame.name);
    to.add("'");
  }
  return to.length();
}

std::string describe(const Frame& frame) {
  std::array<char, 512> text;
  const size_t length = describe(frame, text.data(), text.size());
  return {text.data(), length};
}

const Frame* Thread::innermost() const {
  const uint32_t count = std::min(depth.load(), deepest);
  return count == 0 ? nullptr : entries[count - 1].frame.load();
}

Thread* threads() { return all_threads.load(); }
Thread* this_thread() { return own_thread; }
void when_ended(Ended ended) { on_end.store(ended); }

void misuse(std::string_view code, std::string_view text) {
  Scope* scope = innermost_scope;
  const std::string who = scope ? describe(scope->frame_) : std::string("a thread that a plugin started");
  log::write("plugins", fmt::format("{} {}: {}", code, who, text));
  // Keep the first misuse: later ones usually follow from it.
  if (!scope || !scope->misuse_code_.empty()) return;
  scope->misuse_code_ = code;
  scope->misuse_text_ = text;
}

Scope::Scope(const Frame& frame) : frame_(frame), outer_(innermost_scope), thread_(enter_thread()) {
  // Store the entry before the depth: the watchdog and signal handlers read only entries below the depth.
  // Calls nested deeper than `deepest` are counted but not recorded.
  const uint32_t depth = thread_.depth.load(std::memory_order_relaxed);
  if (depth < Thread::deepest) {
    thread_.entries[depth].frame.store(&frame_, std::memory_order_release);
    thread_.entries[depth].serial.store(++thread_.last_serial, std::memory_order_release);
  }
  thread_.depth.store(depth + 1, std::memory_order_release);
  innermost_scope = this;
}

Scope::~Scope() {
  thread_.depth.store(thread_.depth.load(std::memory_order_relaxed) - 1, std::memory_order_release);
  innermost_scope = outer_;
}

int32_t Scope::leave(abi::Call& call, int32_t status) {
  // A misuse overrides the function's own status, even FE_OK.
  if (misuse_code_.empty()) return status;
  call.set_error(misuse_code_, misuse_text_);
  return FE_EINVALID;
}

int32_t Scope::thrown(abi::Call& call, std::string_view text) const {
  call.set_error("FE-P61", fmt::format("an exception left it: {}", text));
  return FE_EINTERNAL;
}

}  // namespace ferrite::core::callback
