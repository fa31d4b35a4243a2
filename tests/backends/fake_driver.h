// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The common part of drivers without a device. Memory is host memory, work is done when a stream receives it,
// and a launch reads the first f32 of its first buffer, adds one, and stores the result as the first element
// of its last buffer. Every important call is written as a line to the file in FAKE_DRIVER_LOG, with the
// prefix "kept" if a stream records it. FAKE_DRIVER_FAIL=FUNCTION:N,... makes the N-th call of a function
// fail, FAKE_DRIVER_LOSE=FUNCTION:N loses the device after it, and FAKE_DRIVER_WAITS=0 disables waiting for
// events; other variables with this prefix set the device's properties. FAKE_DRIVER_MODULES names a folder
// that receives each module's code.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace fake {

using Result = int;
constexpr Result success = 0, invalid_value = 1, out_of_memory = 2, no_device = 100, invalid_image = 200,
                 not_found = 500, not_ready = 600, illegal_address = 700, not_kept = 900, unknown = 999;

inline std::mutex mutex;
inline std::map<std::string, int> calls;
inline bool lost = false;  // the device is lost
inline std::map<const char*, size_t> host_memory;

inline std::string setting(const char* name, const char* fallback) {
  const char* text = std::getenv(name);
  return text ? text : fallback;
}
inline long number(const char* name, long fallback) {
  return std::strtol(setting(name, std::to_string(fallback).c_str()).c_str(), nullptr, 10);
}

/// Writes the line and returns the error that the call must have.
template <class... Parts>
Result noted(const char* before, const char* function, Result failure, const char* format, Parts... parts) {
  const std::lock_guard lock(mutex);
  const auto call = std::string(function) + ":" + std::to_string(++calls[function]);
  if (const char* path = std::getenv("FAKE_DRIVER_LOG")) {
    if (FILE* file = std::fopen(path, "a")) {
      std::fprintf(file, "%s%s", before, function);
      std::fprintf(file, format, parts...);
      std::fprintf(file, "\n");
      std::fclose(file);
    }
  }
  if (lost) return illegal_address;
  lost = setting("FAKE_DRIVER_LOSE", "") == call;
  const bool fails =
      ("," + setting("FAKE_DRIVER_FAIL", "") + ",").find("," + call + ",") != std::string::npos;
  return fails ? failure : success;
}
template <class... Parts>
Result called(const char* function, Result failure, const char* format, Parts... parts) {
  return noted("", function, failure, format, parts...);
}

/// The text of an error's name without the vendor's prefix.
inline const char* text_of(Result error) {
  return error == out_of_memory     ? "out of memory"
         : error == illegal_address ? "an illegal memory access"
                                    : "a failure";
}

inline Result device_count(int* count) {
  *count = static_cast<int>(number("FAKE_DRIVER_DEVICES", 1));
  return *count == 0 ? no_device : success;
}
inline Result device_name(char* name, int length) {
  std::snprintf(name, static_cast<size_t>(length), "A Fake Device");
  return success;
}
inline Result attribute(int* value, int which, const std::map<int, int>& values) {
  const auto found = values.find(which);
  if (found == values.end()) return invalid_value;
  *value = found->second;
  return success;
}
inline Result device_memory(size_t* bytes) {
  *bytes = static_cast<size_t>(number("FAKE_DRIVER_MEMORY", 1L << 30));
  return success;
}

inline Result alloc(const char* function, void** data, size_t bytes) {
  if (const auto failed = called(function, out_of_memory, " %zu", bytes)) return failed;
  constexpr size_t page = 4096;
  *data = std::aligned_alloc(page, (bytes + page - 1) / page * page);
  return *data ? success : out_of_memory;
}
inline Result free(const char* function, void* data) {
  std::free(data);
  return called(function, illegal_address, "");
}

// Streams, their recordings, and their pending work.

struct Node {
  std::function<void()> work;
  std::vector<void*> arguments;  // arguments of a launch
};
struct Graph {
  std::vector<std::shared_ptr<Node>> nodes;
};
struct Instance {
  std::map<void*, size_t> places;  // by node of the graph
  std::vector<Node> nodes;
};
struct Stream {
  int number = 0;
  std::unique_ptr<Graph> kept;
  void* last = nullptr;  // node
  bool broken = false;   // the stream received work that it cannot record
  std::deque<Node> waiting;
};
inline Stream& stream_of(void* stream) { return *static_cast<Stream*>(stream); }
/// Does pending work, until `done` if it is given. Other streams whose work waits for this one may call it
/// again for a part of the work.
inline void finish(Stream& stream, const bool* done = nullptr) {
  while (!stream.waiting.empty() && !(done && *done)) {
    const auto node = std::move(stream.waiting.front());
    stream.waiting.pop_front();
    node.work();
  }
}

inline Result stream_create(const char* function, void** stream, unsigned flags) {
  static int count = 0;
  if (const auto failed = called(function, unknown, " %u", flags)) return failed;
  const std::lock_guard lock(mutex);
  auto made = std::make_unique<Stream>();
  made->number = ++count;
  *stream = made.release();
  return success;
}
inline Result stream_destroy(const char* function, void* stream) {
  const auto result = called(function, unknown, " %d", stream_of(stream).number);
  finish(stream_of(stream));
  delete &stream_of(stream);
  return result;
}
/// Whether a stream receives work that it cannot record, which breaks the recording.
inline bool breaks(void* stream) {
  auto& on = stream_of(stream);
  on.broken = on.broken || on.kept;
  return on.kept != nullptr;
}
inline Result stream_wait(const char* function, void* stream) {
  if (breaks(stream)) return not_kept;
  finish(stream_of(stream));
  return called(function, illegal_address, " %d", stream_of(stream).number);
}
inline Result stream_query(const char* function, void* stream) {
  return breaks(stream) ? not_kept : called(function, unknown, " %d", stream_of(stream).number);
}
/// Allocates memory in stream order, which cannot be recorded.
inline Result alloc_on(const char* function, void** data, size_t bytes, void* stream) {
  return breaks(stream) ? not_kept : alloc(function, data, bytes);
}
inline Result free_on(const char* function, void* data, void* stream) {
  if (breaks(stream)) return not_kept;
  finish(stream_of(stream));
  return free(function, data);
}
/// Does the work, or records it; with `later`, defers it and all following work until the stream is
/// synchronised.
template <class... Parts>
Result give(void* stream, Node node, bool later, const char* function, const char* format, Parts... parts) {
  auto& on = stream_of(stream);
  if (const auto failed = noted(on.kept ? "kept " : "", function, illegal_address, format, parts...))
    return failed;
  if (on.kept) {
    on.kept->nodes.push_back(std::make_shared<Node>(std::move(node)));
    on.last = on.kept->nodes.back().get();
  } else if (later || !on.waiting.empty()) {
    on.waiting.push_back(std::move(node));
  } else {
    node.work();
  }
  return success;
}

/// The work that the stream had when the event was recorded; null before that.
struct Event {
  int number = 0;
  Stream* stream = nullptr;
  std::shared_ptr<bool> done;
};
inline Event& event_of(void* event) { return *static_cast<Event*>(event); }
inline Result event_create(const char* function, void** event, unsigned flags) {
  static int count = 0;
  if (const auto failed = called(function, unknown, " %u", flags)) return failed;
  const std::lock_guard lock(mutex);
  *event = new Event{++count, nullptr, nullptr};
  return success;
}
inline Result event_destroy(const char* function, void* event) {
  const auto result = called(function, unknown, " %d", event_of(event).number);
  delete &event_of(event);
  return result;
}
inline Result event_record(const char* function, void* event, void* stream) {
  if (breaks(stream)) return not_kept;
  auto done = std::make_shared<bool>(false);
  const auto given = give(stream, {[=] { *done = true; }, {}}, false, function, " %d stream %d",
                          event_of(event).number, stream_of(stream).number);
  if (given == success) event_of(event) = {event_of(event).number, &stream_of(stream), done};
  return given;
}
/// Work after this wait is deferred as long as possible.
inline Result stream_wait_event(const char* function, void* stream, void* event) {
  if (breaks(stream)) return not_kept;
  if (number("FAKE_DRIVER_WAITS", 1) == 0) return success;
  const auto wait = [on = event_of(event).stream, done = event_of(event).done] {
    if (done && !*done) finish(*on, done.get());
  };
  return give(stream, {wait, {}}, true, function, " %d event %d", stream_of(stream).number,
              event_of(event).number);
}

inline Result keep(const char* function, void* stream, int mode) {
  if (const auto failed = called(function, unknown, " %d mode %d", stream_of(stream).number, mode))
    return failed;
  stream_of(stream).kept = std::make_unique<Graph>();
  stream_of(stream).broken = false;
  return success;
}
inline Result end_keeping(const char* function, void* stream, void** graph) {
  auto& on = stream_of(stream);
  const auto failed = called(function, unknown, " %d", on.number);
  const auto kept = std::move(on.kept);
  if (failed || on.broken || !kept) return failed ? failed : not_kept;
  *graph = new Graph(*kept);
  return success;
}
inline Result kept(void* stream, int* state, void** graph, void* const** last, size_t* count) {
  auto& on = stream_of(stream);
  *state = on.kept ? 1 : 0;
  *graph = on.kept.get();
  *last = &on.last;
  *count = on.kept && !on.kept->nodes.empty() ? 1 : 0;
  const std::lock_guard lock(mutex);
  return lost ? illegal_address : success;
}
inline Result instantiate(const char* function, void** instance, void* graph) {
  const auto& nodes = static_cast<Graph*>(graph)->nodes;
  if (const auto failed = called(function, unknown, " nodes %zu", nodes.size())) return failed;
  auto* const made = new Instance();
  for (const auto& node : nodes) {
    made->places[node.get()] = made->nodes.size();
    made->nodes.push_back(*node);
  }
  *instance = made;
  return success;
}
inline Result replay(const char* function, void* instance, void* stream) {
  if (const auto failed = called(function, illegal_address, " stream %d", stream_of(stream).number))
    return failed;
  finish(stream_of(stream));
  for (auto& node : static_cast<Instance*>(instance)->nodes) node.work();
  return success;
}
template <class Made>
Result destroy(const char* function, void* made) {
  delete static_cast<Made*>(made);
  return called(function, unknown, "");
}

inline Result host_alloc(const char* function, void** data, size_t bytes) {
  const auto result = alloc(function, data, bytes);
  const std::lock_guard lock(mutex);
  if (result == success) host_memory[static_cast<const char*>(*data)] = bytes;
  return result;
}
inline Result host_free(const char* function, void* data) {
  {
    const std::lock_guard lock(mutex);
    host_memory.erase(static_cast<const char*>(data));
  }
  return free(function, data);
}
inline bool is_host_memory(const void* data) {
  const auto* const place = static_cast<const char*>(data);
  const std::lock_guard lock(mutex);
  const auto above = host_memory.upper_bound(place);
  if (above == host_memory.begin()) return false;
  const auto& [data_of_block, bytes] = *std::prev(above);
  return place < data_of_block + bytes;
}

/// `on_host`: the side in host memory, which a stream can record only if the device can access it. A copy
/// from such memory is deferred as long as possible; a copy from other host memory has read it when the call
/// returns.
inline Result copy(const char* function, void* to, const void* from, size_t bytes, void* stream,
                   const void* on_host = nullptr) {
  if (stream_of(stream).kept && on_host && !is_host_memory(on_host)) return not_kept;
  const bool later = on_host == from && is_host_memory(from);
  std::function<void()> work = [=] { std::memmove(to, from, bytes); };
  if (on_host == from && !later)
    work = [to, taken = std::string(static_cast<const char*>(from), bytes)] {
      std::memcpy(to, taken.data(), taken.size());
    };
  return give(stream, {work, {}}, later, function, " %zu", bytes);
}

struct Pool {};
inline Result pool_create(const char* function, void** pool) {
  if (number("FAKE_DRIVER_POOLS", 1) == 0) return invalid_value;
  if (const auto failed = called(function, unknown, "")) return failed;
  *pool = new Pool;
  return success;
}
inline Result pool_destroy(const char* function, void* pool) {
  delete static_cast<Pool*>(pool);
  return called(function, unknown, "");
}

/// A module with one kernel.
struct Module {
  std::string code, kernel;
  size_t arguments = 0;  // the last one is not a buffer
};
inline Result load(const char* function, void** module, Module made, const char* extension) {
  if (const char* folder = std::getenv("FAKE_DRIVER_MODULES")) {
    const auto path = std::string(folder) + "/" + made.kernel + extension;
    if (FILE* file = std::fopen(path.c_str(), "w")) {
      std::fwrite(made.code.data(), 1, made.code.size(), file);
      std::fclose(file);
    }
  }
  if (const auto failed = called(function, invalid_image, "")) return failed;
  *module = new Module(std::move(made));
  return success;
}
inline Result unload(const char* function, void* module) {
  delete static_cast<Module*>(module);
  return called(function, unknown, "");
}
inline Result function_of(void** function, void* module, const char* name) {
  if (static_cast<Module*>(module)->kernel != name) return not_found;
  *function = module;
  return success;
}

/// The effect of a launch with these arguments.
inline std::function<void()> effect_of(const std::vector<void*>& arguments) {
  if (arguments.size() < 3) return [] {};
  const auto* const from = static_cast<const float*>(arguments.front());
  auto* const to = static_cast<float*>(arguments[arguments.size() - 2]);
  return [=] {
    if (from && to) *to = *from + 1;
  };
}
inline std::vector<void*> arguments_of(const void* function, void** places) {
  std::vector<void*> arguments(static_cast<const Module*>(function)->arguments);
  for (size_t k = 0; k < arguments.size(); ++k) std::memcpy(&arguments[k], places[k], sizeof(void*));
  return arguments;
}
inline Result launch(const char* name, void* function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                     unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared, void* stream,
                     void** places, bool overlaps = false) {
  if (!places || grid_x == 0 || grid_y != 1 || grid_z != 1 || block_y != 1 || block_z != 1)
    return invalid_value;
  const auto arguments = arguments_of(function, places);
  auto effect = effect_of(arguments);
  if (static_cast<Module*>(function)->code.find("// a fault") != std::string::npos)
    effect = [] {
      const std::lock_guard lock(mutex);
      lost = true;
    };
  return give(stream, {effect, arguments}, false, name, " %s grid %u block %u shared %u%s stream %d",
              static_cast<Module*>(function)->kernel.c_str(), grid_x, block_x, shared,
              overlaps ? " overlaps" : "", stream_of(stream).number);
}
inline Result set_launch(const char* name, void* instance, void* node, void* function, unsigned grid_x,
                         unsigned block_x, unsigned shared, void** places) {
  auto& made = *static_cast<Instance*>(instance);
  const auto found = made.places.find(node);
  if (found == made.places.end()) return invalid_value;
  const auto arguments = arguments_of(function, places);
  auto& changed = made.nodes[found->second];
  int differ = 0;
  for (size_t k = 0; k < arguments.size(); ++k) differ += arguments[k] != changed.arguments[k];
  changed = {effect_of(arguments), arguments};
  return called(name, unknown, " %s grid %u block %u shared %u differ %d",
                static_cast<Module*>(function)->kernel.c_str(), grid_x, block_x, shared, differ);
}
inline Result function_attribute(int* value, int which) {
  // Bytes of shared memory, bytes of local memory, number of registers.
  return attribute(value, which, {{1, 1024}, {3, 0}, {4, 42}});
}

}  // namespace fake
