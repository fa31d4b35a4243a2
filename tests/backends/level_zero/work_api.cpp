// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The API's functions for work: lists, queues, and the events that order them.
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "implement.h"
#include "pocl.h"

namespace pocl_driver {
namespace {

struct Events {
  ze_event_handle_t signal;
  uint32_t wait_count;
  ze_event_handle_t* wait;
};
void append(ze_command_list_handle_t handle, const Events& events, Work work) {
  const auto list = find<List>(handle);
  refuse_if(list->closed, ZE_RESULT_ERROR_INVALID_ARGUMENT);
  if (events.wait_count > 0) need(events.wait);
  std::vector<std::shared_ptr<Event>> waits;
  for (uint32_t i = 0; i < events.wait_count; ++i) waits.push_back(find<Event>(events.wait[i]));
  const auto signal = events.signal ? find<Event>(events.signal) : nullptr;
  Work whole = [waits = std::move(waits), signal, work = std::move(work)] {
    // Work is done in order, so an event that is not signaled now never would be.
    for (const auto& event : waits)
      refuse_if(!event->signaled, ZE_RESULT_ERROR_INVALID_SYNCHRONIZATION_OBJECT);
    work();
    if (signal) signal->signaled = true;
  };
  if (!list->immediate)
    list->work.push_back(std::move(whole));
  else if (setting("POCL_DRIVER_LATE", 0) != 0)
    state().late.push_back(std::move(whole));
  else
    whole();
}

void make_list(bool immediate, ze_context_handle_t context, ze_device_handle_t device,
               const void* description, ze_command_list_handle_t* list) {
  find<Context>(context);
  check_device(device);
  need(description, list);
  auto made = std::make_shared<List>();
  made->immediate = immediate;
  hand_out(list, std::move(made));
}

/// Does not wait: an event that no work has signaled by now never will be.
void wait_for(ze_event_handle_t event) {
  const auto found = find<Event>(event);
  if (!found->signaled) settle();
  refuse_if(!found->signaled, ZE_RESULT_NOT_READY);
}

}  // namespace

FE_TABLE(zeGetCommandListProcAddrTable, ze_command_list_dditable_t) {
  implement<"zeCommandListCreate">(table.pfnCreate,
                                   [](Line&, auto context, auto device, auto* description, auto* list) {
                                     make_list(false, context, device, description, list);
                                   });
  implement<"zeCommandListCreateImmediate">(
      table.pfnCreateImmediate, [](Line&, auto context, auto device, auto* description, auto* list) {
        make_list(true, context, device, description, list);
      });
  implement<"zeCommandListDestroy">(table.pfnDestroy, [](Line&, auto list) { destroy<List>(list); });
  implement<"zeCommandListClose">(table.pfnClose, [](Line&, auto list) { find<List>(list)->closed = true; });
  implement<"zeCommandListReset">(table.pfnReset, [](Line&, auto list) {
    const auto found = find<List>(list);
    found->closed = false;
    found->work.clear();
  });
  implement<"zeCommandListAppendBarrier">(table.pfnAppendBarrier,
                                          [](Line&, auto list, auto signal, auto wait_count, auto* wait) {
                                            append(list, {signal, wait_count, wait}, [] {});
                                          });
  implement<"zeCommandListAppendMemoryCopy">(
      table.pfnAppendMemoryCopy,
      [](Line& line, auto list, auto* to, auto* from, auto bytes, auto signal, auto wait_count, auto* wait) {
        const char *from_kind = kind(from), *to_kind = kind(to);
        add(line, "%zu %s %s", bytes, from_kind, to_kind);
        check_range(from, bytes);
        check_range(to, bytes);
        append(list, {signal, wait_count, wait}, [=] {
          refuse_if(kind(from) != from_kind || kind(to) != to_kind,
                    ZE_RESULT_ERROR_INVALID_ARGUMENT);  // freed
          std::memmove(to, from, bytes);
        });
      });
  implement<"zeCommandListAppendMemoryFill">(
      table.pfnAppendMemoryFill, [](Line& line, auto list, auto* to, auto* pattern, auto pattern_bytes,
                                    auto bytes, auto signal, auto wait_count, auto* wait) {
        add(line, "%zu %zu", pattern_bytes, bytes);
        need(pattern);
        check_range(to, bytes);
        refuse_if(!std::has_single_bit(pattern_bytes) || pattern_bytes > 128 || bytes % pattern_bytes != 0,
                  ZE_RESULT_ERROR_INVALID_SIZE);
        const auto* start = static_cast<const std::byte*>(pattern);
        append(list, {signal, wait_count, wait},
               [=, kept = Bytes(start, start + pattern_bytes), to_kind = kind(to)] {
                 refuse_if(kind(to) != to_kind, ZE_RESULT_ERROR_INVALID_ARGUMENT);  // freed
                 for (size_t at = 0; at < bytes; at += kept.size())
                   std::memcpy(static_cast<std::byte*>(to) + at, kept.data(), kept.size());
               });
      });
  implement<"zeCommandListAppendLaunchKernel">(
      table.pfnAppendLaunchKernel,
      [](Line& line, auto list, auto kernel, auto* groups, auto signal, auto wait_count, auto* wait) {
        const auto found = find<Kernel>(kernel);
        need(groups);
        const Size3 size = found->group_size;
        add(line, "%s %u %u %u of %u %u %u", found->name.c_str(), groups->groupCountX, groups->groupCountY,
            groups->groupCountZ, size[0], size[1], size[2]);
        // Captures the current arguments and group size: they may change before the work is done.
        append(list, {signal, wait_count, wait}, [found, settings = found->settings, size, groups = *groups] {
          launch(*found, settings, size, groups);
        });
      });
}

FE_TABLE(zeGetCommandQueueProcAddrTable, ze_command_queue_dditable_t) {
  implement<"zeCommandQueueCreate">(table.pfnCreate,
                                    [](Line&, auto context, auto device, auto* description, auto* queue) {
                                      find<Context>(context);
                                      check_device(device);
                                      need(description, queue);
                                      hand_out(queue, std::make_shared<Queue>());
                                    });
  implement<"zeCommandQueueDestroy">(table.pfnDestroy, [](Line&, auto queue) { destroy<Queue>(queue); });
  implement<"zeCommandQueueExecuteCommandLists">(
      table.pfnExecuteCommandLists, [](Line& line, auto queue, auto count, auto* lists, auto fence) {
        add(line, "%u", count);
        find<Queue>(queue);
        need(lists);
        refuse_if(fence, ZE_RESULT_ERROR_UNSUPPORTED_FEATURE);
        settle();
        for (const auto handle : std::span(lists, count)) {
          const auto list = find<List>(handle);
          refuse_if(list->immediate || !list->closed, ZE_RESULT_ERROR_INVALID_COMMAND_LIST_TYPE);
          for (const auto& work : list->work) work();
        }
      });
  implement<"zeCommandQueueSynchronize">(table.pfnSynchronize, [](Line&, auto queue, uint64_t) {
    find<Queue>(queue);
    settle();
  });
}

FE_TABLE(zeGetEventPoolProcAddrTable, ze_event_pool_dditable_t) {
  implement<"zeEventPoolCreate">(table.pfnCreate, [](Line&, auto context, auto* description,
                                                     auto device_count, auto* devices, auto* pool) {
    find<Context>(context);
    need(description, pool);
    refuse_if(description->count == 0, ZE_RESULT_ERROR_INVALID_SIZE);
    if (device_count > 0) need(devices);
    for (uint32_t i = 0; i < device_count; ++i) check_device(devices[i]);
    auto made = std::make_shared<EventPool>();
    made->count = description->count;
    hand_out(pool, std::move(made));
  });
  implement<"zeEventPoolDestroy">(table.pfnDestroy, [](Line&, auto pool) { destroy<EventPool>(pool); });
}

FE_TABLE(zeGetEventProcAddrTable, ze_event_dditable_t) {
  implement<"zeEventCreate">(table.pfnCreate, [](Line&, auto pool, auto* description, auto* event) {
    const auto from = find<EventPool>(pool);
    need(description, event);
    refuse_if(description->index >= from->count, ZE_RESULT_ERROR_INVALID_ARGUMENT);
    hand_out(event, std::make_shared<Event>());
  });
  implement<"zeEventDestroy">(table.pfnDestroy, [](Line&, auto event) { destroy<Event>(event); });
  implement<"zeEventHostSignal">(table.pfnHostSignal,
                                 [](Line&, auto event) { find<Event>(event)->signaled = true; });
  implement<"zeEventHostSynchronize">(table.pfnHostSynchronize,
                                      [](Line&, auto event, uint64_t) { wait_for(event); });
  implement<"zeEventQueryStatus">(table.pfnQueryStatus, [](Line&, auto event) { wait_for(event); });
  implement<"zeEventHostReset">(table.pfnHostReset,
                                [](Line&, auto event) { find<Event>(event)->signaled = false; });
}

}  // namespace pocl_driver
