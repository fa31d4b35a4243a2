// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The embedding API in C++: ferrite.h with owning objects, exceptions and typed tensors. Header only; link
// Ferrite::ferrite, or Ferrite::runtime to run packages only.
//
//   ferrite::Session session;
//   ferrite::Model model(session, "model.onnx");
//   auto x = ferrite::Tensor::of<float>({1, 3, 224, 224}, pixels);
//   std::vector<ferrite::Tensor> results = model.run({x});
//   std::span<const float> scores = results[0].elements<float>();
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <functional>
#include <initializer_list>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "ferrite/ferrite.h"

namespace ferrite::inline v0 {

/// Thrown by a call that fails: what() is "FE-X04 model.onnx: text".
class Error : public std::exception {
 public:
  Error(int32_t status, std::string code, std::string text, std::string where)
      : status_(status), code_(std::move(code)), text_(std::move(text)), where_(std::move(where)) {
    message_ = code_ + (where_.empty() ? "" : " " + where_ + ":") + " " + text_;
  }
  const char* what() const noexcept override { return message_.c_str(); }
  int32_t status() const { return status_; }  ///< FERRITE_E*
  const std::string& code() const { return code_; }
  const std::string& text() const { return text_; }
  const std::string& where() const { return where_; }

 private:
  int32_t status_;
  std::string code_, text_, where_, message_;
};

namespace detail {

template <class T>
T embedding_struct() {
  T value{};
  value.size = sizeof(T);
  return value;
}
/// Receives a text of the C API in the std::string that `context` is.
inline void append_text(void* context, const char* data, uint64_t bytes) {
  static_cast<std::string*>(context)->append(data, bytes);
}
inline std::vector<const char*> c_strings(const std::vector<std::string>& texts) {
  std::vector<const char*> result;
  for (const auto& text : texts) result.push_back(text.c_str());
  return result;
}
inline void check_call(int32_t status) {
  if (status == FERRITE_OK) return;
  auto error = embedding_struct<ferrite_error>();
  ferrite_last_error(&error);
  throw Error(status, error.code ? error.code : "", error.text ? error.text : "",
              error.where ? error.where : "");
}
/// DLPack's type of T.
template <class T>
constexpr DLDataType data_type() {
  static_assert(std::is_arithmetic_v<T>, "an element is bool, an integer or a float");
  constexpr auto bits = static_cast<uint8_t>(sizeof(T) * 8);
  if (std::is_same_v<T, bool>) return {kDLBool, bits, 1};
  if (std::is_floating_point_v<T>) return {kDLFloat, bits, 1};
  return {static_cast<uint8_t>(std::is_signed_v<T> ? kDLInt : kDLUInt), bits, 1};
}

}  // namespace detail

/// A tensor in host or device memory: it owns its elements, or is a view of memory that outlives it. Copies
/// share the elements.
class Tensor {
 public:
  /// Takes ownership of a tensor from a DLPack producer or from the library; its deleter runs with the last
  /// copy.
  static Tensor adopt(DLManagedTensorVersioned* managed) {
    Tensor tensor;
    tensor.tensor_ = managed->dl_tensor;
    tensor.owner_ = std::shared_ptr<void>(managed, [](void* pointer) {
      auto* owned = static_cast<DLManagedTensorVersioned*>(pointer);
      if (owned->deleter) owned->deleter(owned);
    });
    tensor.shape_.assign(managed->dl_tensor.shape, managed->dl_tensor.shape + managed->dl_tensor.ndim);
    return tensor;
  }
  /// A view of `elements`. Their number must match `shape`, and they must outlive the tensor and its copies.
  template <class T>
  static Tensor view(std::vector<int64_t> shape, std::span<T> elements) {
    using Element = std::remove_const_t<T>;
    Tensor tensor(std::move(shape), detail::data_type<Element>(), const_cast<Element*>(elements.data()));
    tensor.check_count(elements.size());
    return tensor;
  }
  /// A view of contiguous elements in device or host memory.
  template <class T>
  static Tensor view(std::vector<int64_t> shape, T* elements, DLDevice device) {
    using Element = std::remove_const_t<T>;
    Tensor tensor(std::move(shape), detail::data_type<Element>(), const_cast<Element*>(elements));
    tensor.tensor_.device = device;
    return tensor;
  }
  /// A tensor with a copy of `elements`.
  template <class T>
  static Tensor of(std::vector<int64_t> shape, std::span<const T> elements) {
    // A std::vector<bool> has no addressable elements.
    std::shared_ptr<T[]> copy(new T[elements.size() + 1]);
    if (!elements.empty()) std::memcpy(copy.get(), elements.data(), elements.size_bytes());
    Tensor tensor(std::move(shape), detail::data_type<T>(), copy.get());
    tensor.check_count(elements.size());
    tensor.owner_ = copy;
    return tensor;
  }

  const std::vector<int64_t>& shape() const { return shape_; }
  DLDataType dtype() const { return tensor_.dtype; }
  /// The device whose memory it is in; kDLCPU: the host's.
  DLDevice device() const { return tensor_.device; }
  void* data() const { return static_cast<char*>(tensor_.data) + tensor_.byte_offset; }
  int64_t count() const {
    return std::accumulate(shape_.begin(), shape_.end(), int64_t{1}, std::multiplies<>());
  }
  /// The contiguous elements. FE-X31 if their type is not T, FE-X33 if they are not in host memory.
  template <class T>
  std::span<const T> elements() const {
    constexpr DLDataType wanted = detail::data_type<T>();
    if (tensor_.dtype.code != wanted.code || tensor_.dtype.bits != wanted.bits || tensor_.dtype.lanes != 1)
      throw Error(FERRITE_EINVALID, "FE-X31", "the elements are of another type than asked for",
                  "Tensor::elements");
    if (tensor_.device.device_type != kDLCPU)
      throw Error(FERRITE_EUNSUPPORTED, "FE-X33",
                  "the elements are in a device's memory; copy them to the host's", "Tensor::elements");
    return {static_cast<const T*>(data()), static_cast<size_t>(count())};
  }
  /// The tensor as DLPack struct; valid as long as this object.
  DLTensor dlpack() const {
    DLTensor result = tensor_;
    result.shape = const_cast<int64_t*>(shape_.data());
    return result;
  }

 private:
  Tensor() = default;
  Tensor(std::vector<int64_t> shape, DLDataType dtype, void* data) : shape_(std::move(shape)) {
    tensor_.data = data;
    tensor_.device = {kDLCPU, 0};
    tensor_.ndim = static_cast<int32_t>(shape_.size());
    tensor_.dtype = dtype;
  }
  void check_count(size_t given) const {
    if (static_cast<size_t>(count()) != given)
      throw Error(FERRITE_EINVALID, "FE-X32", "the shape holds another number of elements than were given",
                  "Tensor");
  }

  DLTensor tensor_{};
  std::vector<int64_t> shape_;
  std::shared_ptr<void> owner_;
};

struct SessionOptions {
  std::string manifest;              ///< a pipeline manifest; empty: the default pipeline
  std::vector<std::string> plugins;  ///< more libraries, descriptors or folders of plugins to enable
  std::string device;                ///< empty: as in the manifest
  int64_t threads = 0;               ///< number of workers; 0: as in the manifest, else one per processor
  std::string log;                   ///< log channels; process-wide
  std::string profile{};   ///< the manifest's [profile.NAME], which overrides its other settings; empty: none
  bool safe_mode = false;  ///< only the built-in plugins, without manifest, profile and plugins
  bool tf32 = false;       ///< products and convolutions of f32 may round to tf32; false: as in the manifest
  std::string tune{};      ///< "off", "cached" or seconds, as in [pipeline]; empty: as in the manifest
  const ferrite_allocator* allocator =
      nullptr;  ///< for device memory; its functions must outlive all results that use it
};

struct RunOptions {
  void* stream = nullptr;            ///< as in ferrite_run_options; null: the run waits for its work
  bool outputs_on_device = false;    ///< results are in the memory of Session::device()
  bool defer_checks = false;         ///< as in ferrite_run_options
  std::span<std::byte> workspace{};  ///< as in ferrite_run_options; of Model::workspace() bytes
};

/// The loaded plugins of a pipeline. Models keep their session alive.
class Session {
 public:
  explicit Session(const SessionOptions& options = {}) {
    const auto plugins = detail::c_strings(options.plugins);
    auto given = detail::embedding_struct<ferrite_session_options>();
    given.manifest = options.manifest.empty() ? nullptr : options.manifest.c_str();
    given.plugins = plugins.data();
    given.plugin_count = plugins.size();
    given.device = options.device.empty() ? nullptr : options.device.c_str();
    given.threads = options.threads;
    given.log = options.log.empty() ? nullptr : options.log.c_str();
    given.profile = options.profile.empty() ? nullptr : options.profile.c_str();
    given.safe_mode = options.safe_mode;
    given.tf32 = options.tf32;
    given.tune = options.tune.empty() ? nullptr : options.tune.c_str();
    given.allocator = options.allocator;
    ferrite_session* session = nullptr;
    detail::check_call(ferrite_session_open(&given, &session));
    handle_ = std::shared_ptr<ferrite_session>(session, ferrite_session_close);
  }
  ferrite_session* get() const { return handle_.get(); }
  /// The device whose memory tensors of runs may use, besides the host's; kDLCPU: none.
  DLDevice device() const {
    DLDevice device{};
    detail::check_call(ferrite_session_device(handle_.get(), &device));
    return device;
  }
  /// The enabled passes of a phase ("pre_grad", ...): a line for each, its name and its plugin's id,
  /// separated by a tab.
  std::string passes(const std::string& phase) const {
    std::string text;
    detail::check_call(ferrite_session_passes(handle_.get(), phase.c_str(), &text, detail::append_text));
    return text;
  }
  /// A text that only sessions share which compile alike; as ferrite_session_identity().
  std::string identity() const {
    std::string text;
    detail::check_call(ferrite_session_identity(handle_.get(), &text, detail::append_text));
    return text;
  }

 private:
  friend class Model;
  std::shared_ptr<ferrite_session> handle_;
};

struct Port {
  std::string name, dtype_name;
  DLDataType dtype{};
  bool ranked = true;
  std::vector<int64_t> dims;  ///< -1: not fixed
  std::vector<std::string> dim_names;
};

using Stats = ferrite_stats;

/// The order in which the dims of values that the forward part keeps lie in memory.
struct SavedOrder {
  std::vector<int64_t> dims;   ///< [rank]: of the values
  std::vector<int64_t> order;  ///< [rank]: by position, the dim that is stored there; the last is contiguous
};
/// How Model::partition() divides a joint model; as ferrite_partition_options.
struct PartitionOptions {
  uint64_t forward_outputs = 0;           ///< the first outputs, which are the forward part's
  std::vector<uint8_t> input_kinds;       ///< by input: FERRITE_INPUT_*
  double memory_budget = 1;               ///< from 0, the fewest kept bytes, to 1, the least computed again
  std::vector<std::string> saved;         ///< nodes whose results are not computed again
  std::vector<std::string> recomputed{};  ///< nodes whose results are never kept
  std::vector<SavedOrder> orders{};       ///< of kept values; without one, they are kept row by row
  std::string reorder_op{};               ///< for `orders`: has one operand, and its dims as "perm"
  bool donate_saved = false;              ///< the backward part may overwrite values kept only for it
  std::string first_stage = "decompose_early";  ///< from which passes run
};

class Model {
 public:
  Model(const Session& session, const std::string& path) : session_(session.handle_) {
    ferrite_model* model = nullptr;
    detail::check_call(ferrite_model_load(session.get(), path.c_str(), &model));
    handle_.reset(model);
  }
  /// The model that a file of this path would hold, from memory; as ferrite_model_load_bytes().
  Model(const Session& session, const std::string& path, std::span<const std::byte> contents)
      : session_(session.handle_) {
    ferrite_model* model = nullptr;
    detail::check_call(
        ferrite_model_load_bytes(session.get(), path.c_str(), contents.data(), contents.size(), &model));
    handle_.reset(model);
  }

  std::vector<Port> inputs() const { return ports(ferrite_model_input_count, ferrite_model_input); }
  std::vector<Port> outputs() const { return ports(ferrite_model_output_count, ferrite_model_output); }

  /// Runs on tensors in the order of inputs(); returns results in the order of outputs(). Compiles for new
  /// shapes.
  std::vector<Tensor> run(std::span<const Tensor> inputs, const RunOptions& options = {}) {
    Arguments given(inputs);
    auto wanted = detail::embedding_struct<ferrite_run_options>();
    wanted.stream = options.stream;
    wanted.outputs_on_device = options.outputs_on_device;
    wanted.defer_checks = options.defer_checks;
    wanted.workspace = options.workspace.data();
    wanted.workspace_bytes = options.workspace.size();
    std::vector<DLManagedTensorVersioned*> made(ferrite_model_output_count(handle_.get()));
    detail::check_call(ferrite_run_alloc_with(handle_.get(), &wanted, given.pointers.data(),
                                              given.pointers.size(), made.data(), made.size()));
    std::vector<Tensor> results;
    results.reserve(made.size());
    for (auto* tensor : made) results.push_back(Tensor::adopt(tensor));
    return results;
  }
  std::vector<Tensor> run(std::initializer_list<Tensor> inputs, const RunOptions& options = {}) {
    return run(std::span<const Tensor>(inputs.begin(), inputs.size()), options);
  }
  /// Compiles for the shapes of these tensors; their elements are not read.
  void compile(std::span<const Tensor> inputs) {
    Arguments given(inputs);
    detail::check_call(ferrite_model_compile(handle_.get(), given.pointers.data(), given.pointers.size()));
  }
  /// The size of RunOptions::workspace for tensors of these shapes in this memory; their elements are not
  /// read.
  uint64_t workspace(std::span<const Tensor> inputs) {
    Arguments given(inputs);
    uint64_t bytes = 0;
    detail::check_call(
        ferrite_model_workspace(handle_.get(), given.pointers.data(), given.pointers.size(), &bytes));
    return bytes;
  }
  /// Compiles for these shapes and each of the targets, none: those of this machine, and writes a package.
  void save(const std::string& path, std::span<const Tensor> inputs,
            const std::vector<std::string>& targets = {}) {
    Arguments given(inputs);
    const auto names = detail::c_strings(targets);
    detail::check_call(ferrite_model_save(handle_.get(), given.pointers.data(), given.pointers.size(),
                                          names.data(), names.size(), path.c_str()));
  }
  /// Compiles for the shapes of these tensors, and gives the package of the program; as
  /// ferrite_model_package().
  std::string package(std::span<const Tensor> inputs) {
    Arguments given(inputs);
    std::string bytes;
    detail::check_call(ferrite_model_package(handle_.get(), given.pointers.data(), given.pointers.size(),
                                             &bytes, [](void* context, const void* data, uint64_t size) {
                                               static_cast<std::string*>(context)->assign(
                                                   static_cast<const char*>(data), size);
                                             }));
    return bytes;
  }
  /// The nodes that cannot be imported, as ferrite_model_unsupported() tells them.
  std::string unsupported() const {
    std::string text;
    detail::check_call(ferrite_model_unsupported(handle_.get(), &text, detail::append_text));
    return text;
  }
  /// The changes of a phase's passes, as JSON; as ferrite_model_changed_regions().
  std::string changed_regions(const std::string& phase, std::span<const uint64_t> outputs) const {
    std::string text;
    detail::check_call(ferrite_model_changed_regions(handle_.get(), phase.c_str(), outputs.data(),
                                                     outputs.size(), &text, detail::append_text));
    return text;
  }
  /// The forward and the backward part of a joint model; as ferrite_model_partition(). FE-G58 also where the
  /// kinds are not as many as the inputs.
  std::pair<Model, Model> partition(const PartitionOptions& options) const {
    if (options.input_kinds.size() != ferrite_model_input_count(handle_.get()))
      throw Error(FERRITE_EINVALID, "FE-G58", "there is not one kind for each input", "Model::partition");
    const auto saved = detail::c_strings(options.saved), recomputed = detail::c_strings(options.recomputed);
    auto given = detail::embedding_struct<ferrite_partition_options>();
    given.forward_outputs = options.forward_outputs;
    given.input_kinds = options.input_kinds.data();
    given.memory_budget = options.memory_budget;
    given.saved = saved.data();
    given.saved_count = saved.size();
    given.recomputed = recomputed.data();
    given.recomputed_count = recomputed.size();
    std::vector<ferrite_saved_order> orders;
    for (const auto& [dims, order] : options.orders) {
      if (dims.size() != order.size())
        throw Error(FERRITE_EINVALID, "FE-G58", "an order has not each dim once", "Model::partition");
      orders.push_back({dims.data(), order.data(), dims.size()});
    }
    given.orders = orders.data();
    given.order_count = orders.size();
    given.reorder_op = options.reorder_op.c_str();
    given.donate_saved = options.donate_saved ? 1 : 0;
    given.first_stage = options.first_stage.c_str();
    ferrite_model *forward = nullptr, *backward = nullptr;
    detail::check_call(ferrite_model_partition(handle_.get(), &given, &forward, &backward));
    return {Model(session_, forward), Model(session_, backward)};
  }
  /// The model as a joint model that is not divided; as ferrite_model_joint().
  Model joint(uint64_t forward_outputs, const std::string& first_stage = "decompose_early") const {
    ferrite_model* made = nullptr;
    detail::check_call(ferrite_model_joint(handle_.get(), forward_outputs, first_stage.c_str(), &made));
    return {session_, made};
  }

  Stats stats() const {
    auto stats = detail::embedding_struct<ferrite_stats>();
    detail::check_call(ferrite_model_stats(handle_.get(), &stats));
    return stats;
  }
  /// The decision ledger as JSON.
  std::string ledger() const {
    std::string text;
    detail::check_call(ferrite_model_ledger(handle_.get(), &text, detail::append_text));
    return text;
  }

 private:
  Model(std::shared_ptr<ferrite_session> session, ferrite_model* model)
      : session_(std::move(session)), handle_(model) {}
  struct Arguments {
    explicit Arguments(std::span<const Tensor> given) {
      for (const auto& tensor : given) tensors.push_back(tensor.dlpack());
      for (const auto& tensor : tensors) pointers.push_back(&tensor);
    }
    std::vector<DLTensor> tensors;
    std::vector<const DLTensor*> pointers;
  };
  std::vector<Port> ports(uint64_t (*count)(const ferrite_model*),
                          int32_t (*describe)(const ferrite_model*, uint64_t, ferrite_port*)) const {
    std::vector<Port> result;
    for (uint64_t k = 0; k < count(handle_.get()); ++k) {
      auto port = detail::embedding_struct<ferrite_port>();
      detail::check_call(describe(handle_.get(), k, &port));
      Port& made = result.emplace_back(Port{port.name, port.dtype_name, port.dtype, port.rank >= 0, {}, {}});
      for (int32_t d = 0; d < port.rank; ++d) {
        made.dims.push_back(port.dims[d]);
        made.dim_names.emplace_back(port.dim_names[d]);
      }
    }
    return result;
  }

  struct Free {
    void operator()(ferrite_model* model) const { ferrite_model_free(model); }
  };
  std::shared_ptr<ferrite_session> session_;  // before handle_, so that it is destroyed after it
  std::unique_ptr<ferrite_model, Free> handle_;
};

}  // namespace ferrite::inline v0
