// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A runtime on top of a vendor's driver, which is opened at run time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ferrite/gpu_runtime/driver.h"
#include "ferrite/gpu_runtime/gpu_description.h"
#include "ferrite/gpu_runtime/gpu_runtime.h"

namespace ferrite::emitter {

/// A runtime for a driver with these functions. Memory comes from a pool per device, which keeps a part of
/// the freed memory.
class DriverRuntime : public GpuRuntime, public Streams {
 public:
  explicit DriverRuntime(Host host);
  ~DriverRuntime() override;
  uint32_t device_count() final;
  DeviceDescription describe(uint32_t number) final;
  void* alloc(uint32_t number, uint64_t bytes) final { return stream_alloc(number, bytes, nullptr); }
  void free(uint32_t number, void* data) final { stream_free(number, data, nullptr); }
  void synchronise(uint32_t number) final { stream_synchronise(number, nullptr); }
  void copy(const fe_copy_args& args) final;

  void* stream_open(uint32_t number, void* native) final;
  void stream_close(uint32_t number, void* stream) final;
  void* native_handle(uint32_t number, void* stream, uint32_t kind) final;
  void* stream_alloc(uint32_t number, uint64_t bytes, void* stream) final;
  void stream_free(uint32_t number, void* data, void* stream) final;
  void stream_synchronise(uint32_t number, void* stream) final;
  void record_begin(uint32_t number, void* stream) final;
  void* record_end(uint32_t number, void* stream) final;
  void replay(void* graph, void* stream, std::span<const fe_rebinding> rebindings) final;
  void graph_free(void* graph) final;
  void* event_open(uint32_t number) final;
  void event_record(uint32_t number, void* stream, void* event) final;
  void event_wait(uint32_t number, void* stream, void* event) final;
  void event_close(uint32_t number, void* event) final;
  void* host_alloc(uint32_t number, uint64_t bytes) final;
  void host_free(uint32_t number, void* data) final;
  DeviceStatus status(uint32_t number) final;

 protected:
  using Result = Driver::Result;
  using Handle = Driver::Handle;

  /// A driver's device and its context, which is null if the driver has none. They last as long as the
  /// process.
  struct Place {
    int device = 0;
    Handle context = nullptr;
  };
  /// One launch, with a pointer to each argument.
  struct Launch {
    Handle function;
    unsigned blocks, threads, shared_bytes;
    void** arguments;
  };

  /// Opens and starts the driver, even if there is no device. Throws Failure if there is no working driver.
  /// Called once.
  virtual Driver open() = 0;
  /// "THE_NAME (2): what it means".
  virtual std::string text_of(Result result) const = 0;
  /// The architecture's name in target descriptions.
  virtual std::string architecture_of(int device) = 0;
  /// Bits per pin and clock cycle of the device's memory.
  virtual int64_t transfers_a_clock(std::string_view architecture) const = 0;
  /// The device type in DLPack's enumeration.
  virtual int32_t dlpack_device() const = 0;
  /// Makes the device the thread's current one. `context` is null at first and is kept with the device.
  virtual void enter(int device, Handle& context) = 0;
  /// Enables access of the thread's current device to the peer's memory.
  virtual Result reach_peer(const Place& peer) = 0;
  virtual Result copy_peer(void* to, const Place& place, const void* from, const Place& peer, size_t bytes,
                           Handle stream) = 0;
  /// `overlaps`: the launch may begin before its predecessor on the stream is finished; the kernel itself
  /// waits for it.
  virtual Result launch(const Launch& launch, bool overlaps, Handle stream) = 0;
  /// Replaces the arguments of a recorded launch.
  virtual Result set_launch(Handle instance, Handle node, const Launch& launch) = 0;

  /// Throws Failure with the driver's text if the result is an error; `what` names the failed action.
  void check(Result result, const char* what) const;
  /// An attribute of an opened driver's device.
  int attribute(int device, int which);
  const Driver& driver();

  LoadedCode load(uint32_t number, const DeviceCode& code) final;
  void unload(uint32_t number, std::span<const LoadedCode> codes) final;
  void start(uint32_t number, void* stream, void* function, const DeviceCode& code, bool follows,
             std::span<const void* const> arguments) final;

 private:
  struct Recording;
  struct Stream {
    Handle native = nullptr;
    bool owned = false;                    ///< opened by this runtime
    std::unique_ptr<Recording> recording;  ///< while the stream is recorded
    std::vector<void*> freed;              ///< memory that was freed on the stream during the recording
    Stream();
    ~Stream();
  };
  /// The access that a device has to another device's memory.
  struct Peer {
    bool reached = false, has_pool = false;
  };
  /// Per-device state, for the lifetime of the runtime.
  struct OpenDevice {
    Place place;
    Stream stream;  ///< the device's default stream
    /// A stream that is never recorded. It serves allocations of no particular stream, and queries of the
    /// device's status.
    Handle aside = nullptr;
    bool pool_was_tried = false;
    Handle pool = nullptr;           ///< null: memory comes straight from the driver
    std::map<uint32_t, Peer> peers;  ///< by device number
    std::string fault;               ///< first error since the last status()
  };

  GpuDescription device_of(int device);
  std::string compiled(const DeviceCode& made);
  [[noreturn]] void not_taken(const DeviceCode& made, Result result, const char* log) const;
  OpenDevice& enter(uint32_t number);
  void open_pool(OpenDevice& device);
  static Stream& stream_of(OpenDevice& device, void* stream);
  void wait(OpenDevice& device, Handle stream);
  bool is_recorded(const Stream& stream);
  Stream& stream_for_events(uint32_t number, void* stream);
  void finish(uint32_t number, OpenDevice& device);
  void give_back(OpenDevice& device, void* data, Handle stream);
  void keep_launch(Stream& stream, Handle function, const DeviceCode& code, std::vector<const void*> values);
  bool is_pinned(const void* data);
  void copy_from_peer(OpenDevice& device, const fe_copy_args& args);

  /// Held from a test whether a stream is recorded until the action that depends on it. Lock it before
  /// mutex_.
  std::mutex streams_mutex_;
  std::set<std::pair<uint32_t, Stream*>> streams_;  ///< opened streams, by device
  std::mutex mutex_;
  std::optional<Driver> driver_;
  std::map<uint32_t, OpenDevice> devices_;  ///< addresses must stay valid
  std::map<const char*, uint64_t> pinned_;  ///< blocks of host_alloc() with their sizes
};

}  // namespace ferrite::emitter
