// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Providers, runtimes and importers in C++: abstract classes whose tables PluginBuilder fills.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ferrite/abi/plugin.h"
#include "ferrite/graph.hpp"
#include "ferrite/import.hpp"

namespace ferrite::inline v0 {

using Bytes = std::span<const std::byte>;
inline Bytes bytes_from(const fe_array& array) {
  return {static_cast<const std::byte*>(array.data), array.count};
}
inline fe_array bytes_to(Bytes bytes) { return {bytes.data(), bytes.size(), 1}; }
inline void write(const fe_sink& sink, std::string_view text) {
  if (sink.write && sink.write(sink.self, text.data(), text.size()) != FE_OK)
    fail("FE-P21", "the host refused output");
}

/// A target that a provider has opened. Any-thread after it is opened.
class Target {
 public:
  virtual ~Target() = default;
  std::string name;
  uint32_t vector_bytes = 16;
  uint32_t buffer_alignment = 64;
  int64_t local_bytes = 256 << 10;
  uint64_t statement_kinds = 0;             ///< 1 << FE_STATEMENT_*, those that compile takes; 0: all
  std::vector<fe_capability> capabilities;  ///< what is asked of it; empty: everything
  /// A wish: rows of large buffers that nobody outside of the program sees lie multiples of so many bytes apart, a power of two;
  /// 0: none.
  uint32_t row_alignment = 0;
  uint32_t row_padding_percent = 0;                        ///< the most that this may add to a row
  int64_t row_padding_from = 0;                            ///< bytes: a buffer that is smaller stays as it is
  fe_target_numbers numbers = sized<fe_target_numbers>();  ///< by which the host decides; 0: not stated
};

struct OperandLayout {
  uint32_t buffer = 0;
  Dims packed_dims;
  std::vector<fe_flat_expr> exprs;
  std::vector<uint32_t> unpack;
  uint32_t terms = 0;                ///< of each sum; 0: what is stored are elements of the constant
  uint32_t factor_dim = 0;           ///< the packed dim by whose coordinate factors are
  std::vector<double> factors = {};  ///< [packed_dims[factor_dim]][terms]
};
struct Candidate {
  uint64_t id = 0;
  std::string name;
  double cost = 0;
  int64_t workspace_bytes = 0;
  std::vector<OperandLayout> operand_layouts;
  uint32_t covered = FE_NONE32;  ///< all statements
};
struct CompileRequest {
  Bytes kernel;
  uint64_t candidate;
  std::string_view entry;
  Bytes config;
  std::string_view provenance;
  bool want_listing;
};
struct CompileResult {
  std::string blob;
  std::string listing;
  int64_t tasks = 1, grain = 1, workspace_bytes = 0;
  int64_t registers = -1, spills = -1, shared_bytes = -1;
};

/// What launches of code need, as the code itself says: the host holds what it was told of the kernel against it.
struct LaunchNeeds {
  int64_t tasks = -1;  ///< negative: nothing is said
  int64_t grain = 0, workspace_bytes = 0;
  std::span<const fe_argument_needs>
      arguments;  ///< they live as long as the code; empty: nothing is said of them
};

/// What loaded code takes; -1: unknown.
struct CodeNumbers {
  int64_t registers = -1;     ///< of a thread
  int64_t spills = -1;        ///< bytes of a thread's, for what has no register
  int64_t shared_bytes = -1;  ///< of a block
};

/// What is to be made ready for launches.
struct ExecRequest {
  Bytes blob;
  std::string_view entry;
  uint32_t device = 0;             ///< where launches are
  void* native_context = nullptr;  ///< its driver's; null: it has none
};

/// Turns kernels into blobs. compile() is called from several threads at once.
class Provider {
 public:
  virtual ~Provider() = default;
  virtual std::string id() const = 0;
  virtual std::string device_kind() const = 0;
  /// FE_FLAT_PROLOGUES and the like: kernels with these come as they are, to others in a simpler form.
  virtual uint64_t features() const { return 0; }
  virtual std::unique_ptr<Target> open_target(Bytes description) = 0;
  virtual std::vector<Candidate> propose(Target& target, Bytes kernel) = 0;
  virtual CompileResult compile(Target& target, const CompileRequest& request) = 0;
  virtual std::string fingerprint() = 0;
};

/// A provider that launches what it compiled itself, on the memory of the device: a library of hand-written kernels. Its
/// candidates may cover the leading statements of a kernel only. exec_launch() is called from one thread at a time for each
/// context.
class LibraryProvider : public Provider {
 public:
  virtual void* exec_create(Target& target, const ExecRequest& request) = 0;
  /// What launches of the exec need.
  virtual LaunchNeeds exec_needs(const void*) { return {}; }
  /// Whether launches of the exec only give work to args.native_stream and never wait, so that they can be recorded and replayed.
  virtual bool exec_recordable(const void*) { return false; }
  virtual void exec_launch(const fe_launch_args& args) = 0;  ///< args.function: what exec_create gave
  virtual void exec_destroy(void* exec) = 0;
};

/// A part of a graph that a provider takes as a whole, by the numbers of its flat form.
struct Claim {
  struct Layout {
    uint32_t value = 0;
    std::string layout;  ///< the provider's own name
    int64_t bytes = 0;
  };
  uint64_t id = 0;
  std::string name;
  std::vector<uint32_t> nodes;
  double cost = 0;
  std::vector<Layout> layouts;
};

/// A provider that claims whole regions of a graph, and no loops; compile() is then given the region's flat graph.
class RegionProvider : public Provider {
 public:
  virtual std::vector<Claim> claim(Target& target, Bytes graph) = 0;
  std::vector<Candidate> propose(Target&, Bytes) final { return {}; }
};

struct DeviceDescription {
  std::string description;
  std::string name;
  int32_t dlpack_device = 1;
  bool host_memory = true;
  uint64_t alignment = 64;
  uint64_t capacity = 0;
};

struct DeviceStatus {
  uint32_t status = FE_DEVICE_OK;
  std::string text;  ///< what the driver says of a fault or a loss
};

/// Owns devices. Any-thread.
class Runtime {
 public:
  virtual ~Runtime() = default;
  virtual std::string id() const = 0;
  virtual uint32_t device_count() = 0;
  virtual DeviceDescription describe(uint32_t device) = 0;
  virtual void* alloc(uint32_t device, uint64_t bytes) = 0;
  virtual void free(uint32_t device, void* data) = 0;
  virtual void copy(const fe_copy_args& args) = 0;
  virtual void* module_load(uint32_t device, std::span<const Bytes> blobs, std::string_view name) = 0;
  virtual void module_unload(void* module) = 0;
  virtual void* function(void* module, std::string_view entry) = 0;
  /// What launches of the function need; a failure where that is not what function() gave.
  virtual LaunchNeeds needs(void*, std::string_view) { return {}; }
  /// What the loaded code of the function takes.
  virtual CodeNumbers numbers(void*, std::string_view) { return {}; }
  virtual void launch(const fe_launch_args& args) = 0;
  /// Waits for all work that was given to the device. Not for runtimes whose work is done when its call returns.
  virtual void synchronise(uint32_t) {}
  /// Whether the device still does what it is given. Asked behind a failure.
  virtual DeviceStatus status(uint32_t) { return {}; }
  /// Why code that was compiled for this target, as open_target took it, does not run on the device; empty where it does.
  virtual std::string refusal(uint32_t device, std::string_view target) {
    return target == describe(device).description ? "" : "it was compiled for another device";
  }
};

/// What a runtime's class has beside Runtime where its devices work beside the host: streams, queues whose work is done in order, and
/// recordings of what a stream is given, in order to replay it. A null stream is the one that each device has of its own; Runtime's
/// alloc(), free() and synchronise() are not called then. What a driver does not have is declined, as the functions do that are not
/// pure. Any-thread; a stream is given work by one thread at a time.
class Streams {
 public:
  virtual ~Streams() = default;
  /// `native`: null: a new stream; else one of the driver's that the caller owns and keeps until the stream is closed.
  virtual void* stream_open(uint32_t device, void* native) = 0;
  /// Waits for the stream's work.
  virtual void stream_close(uint32_t device, void* stream) = 0;
  /// The driver's own handle of FE_NATIVE_*.
  virtual void* native_handle(uint32_t device, void* stream, uint32_t kind) = 0;
  /// Memory that the stream's work may use at once; null: whatever is given to the device from here on.
  virtual void* stream_alloc(uint32_t device, uint64_t bytes, void* stream) = 0;
  /// Behind the stream's work.
  virtual void stream_free(uint32_t device, void* data, void* stream) = 0;
  /// Waits for the stream's work.
  virtual void stream_synchronise(uint32_t device, void* stream) = 0;

  /// From here to record_end(), by the same thread, what the stream is given is kept instead of done.
  virtual void record_begin(uint32_t, void* /*stream*/) { decline("the driver records nothing"); }
  /// Called in any case; throws where something cannot be kept, and the stream is as it was before record_begin().
  virtual void* record_end(uint32_t, void* /*stream*/) { decline("the driver records nothing"); }
  /// Gives the stream all that was recorded, with these pointers from here on.
  virtual void replay(void* /*graph*/, void* /*stream*/, std::span<const fe_rebinding>) {
    decline("the driver records nothing");
  }
  virtual void graph_free(void* /*graph*/) {}

  /// A place in the work of a stream of the device's, for which streams of all devices of the runtime may wait, without the host.
  virtual void* event_open(uint32_t) { decline("the driver has no events"); }
  /// The event stands for what the stream was given until now, whatever it stood for before.
  virtual void event_record(uint32_t, void* /*stream*/, void* /*event*/) {
    decline("the driver has no events");
  }
  /// What the stream is given from here on is done behind what the event stands for now. The device is the stream's.
  virtual void event_wait(uint32_t, void* /*stream*/, void* /*event*/) {
    decline("the driver has no events");
  }
  virtual void event_close(uint32_t, void* /*event*/) {}

  /// Memory of the host that the device copies from and to by itself.
  virtual void* host_alloc(uint32_t, uint64_t /*bytes*/) { decline("the driver has no memory of the host"); }
  virtual void host_free(uint32_t, void* /*data*/) {}
};

struct Port {
  std::string name;
  DType dtype = DType::none;
  bool ranked = true;
  Dims dims;                       ///< -1 where the dim is not fixed
  std::vector<std::string> names;  ///< of the dims, "" = anonymous or fixed
};

/// One opened model file. Serialised by the host.
class Model {
 public:
  virtual ~Model() = default;
  virtual std::vector<Port> inputs() = 0;
  virtual std::vector<Port> outputs() = 0;
  /// Adds inputs (in signature order, of the given types), nodes and outputs to an empty graph.
  virtual void build(Graph& graph, std::span<const TensorType> input_types) = 0;
  /// The same, where the format's ops may be read by other plugins; what the host calls.
  virtual void build_with(Graph& graph, std::span<const TensorType> input_types, const PluginOps&) {
    build(graph, input_types);
  }
};
class Importer {
 public:
  virtual ~Importer() = default;
  virtual std::string id() const = 0;
  virtual std::string extensions() const = 0;
  /// What source ops of its models begin with, "onnx" in "onnx:com.acme::FusedRope"; empty where no other plugin reads ops of them.
  virtual std::string format() const { return {}; }
  /// `bytes` stay mapped until the model is closed; names beside it are resolved against the folder of `path`.
  virtual std::unique_ptr<Model> open(std::string_view path, Bytes bytes) = 0;
  /// Lines "<source op>\t<versions>\t<supported | reason>".
  virtual std::string coverage() = 0;
};

/// The host's services, valid from create to destroy.
class Host {
 public:
  explicit Host(const fe_host* host) : host_(host) {}
  void log(uint32_t level, std::string_view channel, std::string_view text) const {
    auto args = sized<fe_log_args>();
    args.level = level;
    args.channel = to_abi(channel);
    args.text = to_abi(text);
    auto out = sized<fe_none>();
    call_host(*host_, host_->log, args, out);
  }
  /// On at most `workers` threads (0 = all).
  void parallel_for(int64_t count, int64_t grain, int64_t workers, void* context,
                    void (*fn)(void*, int64_t begin, int64_t end, int64_t worker)) const {
    auto args = sized<fe_parallel_args>();
    args.count = count;
    args.grain = grain;
    args.workers = workers;
    args.context = context;
    args.fn = fn;
    auto out = sized<fe_none>();
    call_host(*host_, host_->parallel_for, args, out);
  }
  int64_t workers() const {
    auto args = sized<fe_none>();
    auto out = sized<fe_workers_out>();
    call_host(*host_, host_->workers, args, out);
    return out.workers;
  }

 private:
  const fe_host* host_;
};

/// What create() is given: the host and the manifest's settings for this plugin.
struct PluginContext {
  Host host;
  AttrView config;
};

}  // namespace ferrite::inline v0
