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

/// An open target of a provider. Any-thread once opened.
class Target {
 public:
  virtual ~Target() = default;
  std::string name;
  uint32_t vector_bytes = 16;
  uint32_t buffer_alignment = 64;
  int64_t local_bytes = 256 << 10;
  uint64_t statement_kinds = 0;  ///< bits 1 << FE_STATEMENT_* of the kinds that compile() accepts; 0: all
  std::vector<fe_capability> capabilities;  ///< kernels outside of them are not offered; empty: all are
  /// A request: rows of large buffers that are internal to the program should be a multiple of this many
  /// bytes apart, a power of two; 0: no request.
  uint32_t row_alignment = 0;
  uint32_t row_padding_percent = 0;                        ///< limit on the padding of a row
  int64_t row_padding_from = 0;                            ///< bytes: smaller buffers are not padded
  fe_target_numbers numbers = sized<fe_target_numbers>();  ///< for the host's decisions; 0: not stated
};

struct OperandLayout {
  uint32_t buffer = 0;
  Dims packed_dims;
  std::vector<fe_flat_expr> exprs;
  std::vector<uint32_t> unpack;
  uint32_t terms = 0;       ///< number of terms per sum; 0: stored elements are elements of the constant
  uint32_t factor_dim = 0;  ///< the packed dim whose coordinate selects the factors
  std::vector<double> factors = {};  ///< [packed_dims[factor_dim]][terms]
};
struct Candidate {
  uint64_t id = 0;
  std::string name;
  double cost = 0;
  int64_t workspace_bytes = 0;
  std::vector<OperandLayout> operand_layouts;
  uint32_t covered = FE_NONE32;  ///< FE_NONE32: all statements
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

/// The launch requirements that code states itself. The host compares them with the kernel's launch data.
struct LaunchNeeds {
  int64_t tasks = -1;  ///< negative: not stated
  int64_t grain = 0, workspace_bytes = 0;
  std::span<const fe_argument_needs> arguments;  ///< they must live as long as the code; empty: not stated
};

/// Resources of loaded code; -1: unknown.
struct CodeNumbers {
  int64_t registers = -1;     ///< per thread
  int64_t spills = -1;        ///< bytes per thread for spilled registers
  int64_t shared_bytes = -1;  ///< per block
};

/// A request to prepare code for launches.
struct ExecRequest {
  Bytes blob;
  std::string_view entry;
  uint32_t device = 0;             ///< the device of the launches
  void* native_context = nullptr;  ///< of its driver; null: it has none
};

/// Compiles kernels to blobs. compile() is called from several threads in parallel.
class Provider {
 public:
  virtual ~Provider() = default;
  virtual std::string id() const = 0;
  virtual std::string device_kind() const = 0;
  /// FE_FLAT_PROLOGUES etc.: kernels with these features arrive unchanged; other features are rewritten.
  virtual uint64_t features() const { return 0; }
  virtual std::unique_ptr<Target> open_target(Bytes description) = 0;
  virtual std::vector<Candidate> propose(Target& target, Bytes kernel) = 0;
  virtual CompileResult compile(Target& target, const CompileRequest& request) = 0;
  virtual std::string fingerprint() = 0;
};

/// A provider that launches its own code on the device's memory: a library of hand-written kernels. Its
/// candidates may cover only the leading statements of a kernel. exec_launch() is called from one thread at a
/// time for each context.
class LibraryProvider : public Provider {
 public:
  virtual void* exec_create(Target& target, const ExecRequest& request) = 0;
  /// The requirements of the exec's launches.
  virtual LaunchNeeds exec_needs(const void*) { return {}; }
  /// Whether launches of the exec only queue work on args.native_stream and never wait, so that they can be
  /// recorded and replayed.
  virtual bool exec_recordable(const void*) { return false; }
  virtual void exec_launch(const fe_launch_args& args) = 0;  ///< args.function: the exec from exec_create
  virtual void exec_destroy(void* exec) = 0;
};

/// A region of a graph that a provider claims as a whole, by the numbers of its flat form.
struct Claim {
  struct Layout {
    uint32_t value = 0;
    std::string layout;  ///< the provider's own name of the layout
    int64_t bytes = 0;
  };
  uint64_t id = 0;
  std::string name;
  std::vector<uint32_t> nodes;
  double cost = 0;
  std::vector<Layout> layouts;
};

/// A provider that claims regions of a graph and compiles no loops; compile() receives the region's flat
/// graph.
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
  std::string text;  ///< the driver's message about a fault or a loss
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
  /// The requirements of the function's launches. Fails if the pointer does not come from function().
  virtual LaunchNeeds needs(void*, std::string_view) { return {}; }
  /// The resources of the function's loaded code.
  virtual CodeNumbers numbers(void*, std::string_view) { return {}; }
  virtual void launch(const fe_launch_args& args) = 0;
  /// Waits for all work given to the device. Not needed if each call returns only when its work is finished.
  virtual void synchronise(uint32_t) {}
  /// Whether the device still works. Called after a failure.
  virtual DeviceStatus status(uint32_t) { return {}; }
  /// Why code compiled for this target, as open_target received it, does not run on the device; empty if it
  /// does.
  virtual std::string refusal(uint32_t device, std::string_view target) {
    return target == describe(device).description ? "" : "it was compiled for another device";
  }
};

/// The second interface of a runtime class whose devices work asynchronously: streams, which are queues of
/// work in order, and recordings of a stream's work for replay. A null stream is the device's default stream.
/// The host then calls these functions instead of Runtime's alloc(), free() and synchronise(). If the driver
/// lacks a feature, decline, as the functions that are not pure do. Any-thread; one thread at a time gives
/// work to a stream.
class Streams {
 public:
  virtual ~Streams() = default;
  /// `native`: null: open a new stream; else a stream of the driver, which the caller owns and keeps open
  /// until stream_close().
  virtual void* stream_open(uint32_t device, void* native) = 0;
  /// Waits for the stream's work.
  virtual void stream_close(uint32_t device, void* stream) = 0;
  /// The driver's own handle of a kind FE_NATIVE_*.
  virtual void* native_handle(uint32_t device, void* stream, uint32_t kind) = 0;
  /// Memory that the stream's work may use immediately; null: that all later work of the device may use.
  virtual void* stream_alloc(uint32_t device, uint64_t bytes, void* stream) = 0;
  /// Frees the memory after the stream's work.
  virtual void stream_free(uint32_t device, void* data, void* stream) = 0;
  /// Waits for the stream's work.
  virtual void stream_synchronise(uint32_t device, void* stream) = 0;

  /// Until record_end(), called by the same thread, the stream records work instead of doing it.
  virtual void record_begin(uint32_t, void* /*stream*/) { decline("the driver records nothing"); }
  /// Always called after record_begin(). Throws if something cannot be recorded; the stream is then in its
  /// state before record_begin().
  virtual void* record_end(uint32_t, void* /*stream*/) { decline("the driver records nothing"); }
  /// Gives the recorded work to the stream. The rebindings also hold for later replays.
  virtual void replay(void* /*graph*/, void* /*stream*/, std::span<const fe_rebinding>) {
    decline("the driver records nothing");
  }
  virtual void graph_free(void* /*graph*/) {}

  /// An event marks a point in the work of a stream. Streams of all devices of the runtime can wait for it
  /// without the host.
  virtual void* event_open(uint32_t) { decline("the driver has no events"); }
  /// The event now marks the work given to the stream so far, whatever it marked before.
  virtual void event_record(uint32_t, void* /*stream*/, void* /*event*/) {
    decline("the driver has no events");
  }
  /// Later work of the stream waits for the work that the event marks now. The device is the stream's.
  virtual void event_wait(uint32_t, void* /*stream*/, void* /*event*/) {
    decline("the driver has no events");
  }
  virtual void event_close(uint32_t, void* /*event*/) {}

  /// Pinned host memory, which the device can access for asynchronous copies.
  virtual void* host_alloc(uint32_t, uint64_t /*bytes*/) { decline("the driver has no memory of the host"); }
  virtual void host_free(uint32_t, void* /*data*/) {}
};

struct Port {
  std::string name;
  DType dtype = DType::none;
  bool ranked = true;
  Dims dims;                       ///< -1 for a dim that is not fixed
  std::vector<std::string> names;  ///< of the dims; "" = anonymous or fixed
};

/// An open model file. The host serialises calls.
class Model {
 public:
  virtual ~Model() = default;
  virtual std::vector<Port> inputs() = 0;
  virtual std::vector<Port> outputs() = 0;
  /// Adds inputs (in signature order, with the given types), nodes and outputs to an empty graph.
  virtual void build(Graph& graph, std::span<const TensorType> input_types) = 0;
  /// As build(), with access to the ops that other plugins read. This is the function that the host calls.
  virtual void build_with(Graph& graph, std::span<const TensorType> input_types, const PluginOps&) {
    build(graph, input_types);
  }
  /// Tries each node by itself: a line "<index of the node>\t<source op>\t<code>\t<reason>" for each that
  /// cannot be imported, whose results become inputs of the graph. The graph is discarded. By default the
  /// importer cannot tell.
  virtual std::string unsupported(Graph&, std::span<const TensorType>, const PluginOps&) {
    throw Failure(FE_EUNSUPPORTED, "FE-I06", "the importer cannot tell node by node what is not supported");
  }
};
class Importer {
 public:
  virtual ~Importer() = default;
  virtual std::string id() const = 0;
  virtual std::string extensions() const = 0;
  /// The prefix of source ops in its models: "onnx" in "onnx:com.acme::FusedRope"; empty if other plugins
  /// cannot read ops of this format.
  virtual std::string format() const { return {}; }
  /// `bytes` stay mapped until the model is closed. Relative names in it are resolved against the folder of
  /// `path`.
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
  /// Runs on at most `workers` threads (0 = all).
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

/// The arguments of create(): the host and the manifest's settings for this plugin.
struct PluginContext {
  Host host;
  AttrView config;
};

}  // namespace ferrite::inline v0
