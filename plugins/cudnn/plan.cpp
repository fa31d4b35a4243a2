// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "plan.h"

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "ferrite/error.hpp"

namespace ferrite::cudnn {
namespace {

using contraction::Activation;

// Ids of the tensors: the operands, followed by the intermediate results between steps.
constexpr int64_t id_x = 1, id_w = 2, id_y = 3, id_bias = 4, id_r = 5, id_between = 6;

int type_of(DType type) {
  return type == f16 ? dnn::real_16f : type == bf16 ? dnn::real_16bf : dnn::real_32f;
}

int mode_of(Activation activation) {
  switch (activation) {
    case Activation::tanh: return dnn::mode_tanh;
    case Activation::sigmoid: return dnn::mode_sigmoid;
    case Activation::silu: return dnn::mode_swish;
    case Activation::gelu: return dnn::mode_gelu;
    case Activation::gelu_tanh: return dnn::mode_gelu_tanh;
    default: return dnn::mode_relu;
  }
}

}  // namespace

void Operation::check(int status, const char* what) const {
  if (status == dnn::success) return;
  const char* text = library_->error_text(status);
  throw Failure(FE_EDEVICE, "ferrite.cudnn/failed",
                "cuDNN: " + std::string(what) + " gives " + (text ? text : "an unknown status") + " (" +
                    std::to_string(status) + ") for a " + convolution_.text());
}

Owned Operation::make(int kind, const char* what) const {
  dnn::Handle made = nullptr;
  check(library_->descriptor_create(kind, &made), what);
  return {made, {library_->descriptor_destroy}};
}

void Operation::finish(const Owned& descriptor, const char* what) const {
  check(library_->descriptor_finish(descriptor.get()), what);
}

template <class Value>
void Operation::set(const Owned& descriptor, int attribute, int type, std::span<const Value> values,
                    const char* what) const {
  check(library_->set(descriptor.get(), attribute, type, static_cast<int64_t>(values.size()), values.data()),
        what);
}

Owned Operation::tensor(const Tensor& tensor, DType type, int64_t id, bool is_virtual) const {
  constexpr auto what = "describing a tensor";
  auto result = make(dnn::tensor, what);
  set(result, dnn::tensor_type, dnn::of_type, type_of(type), what);
  set(result, dnn::tensor_dims, dnn::of_int64, std::span<const int64_t>(tensor.dims), what);
  set(result, dnn::tensor_strides, dnn::of_int64, std::span<const int64_t>(tensor.strides), what);
  set(result, dnn::tensor_id, dnn::of_int64, id, what);
  const int64_t alignment = is_virtual ? 16 : convolution_.alignment(tensor, type);
  set(result, dnn::tensor_alignment, dnn::of_int64, alignment, what);
  set(result, dnn::tensor_virtual, dnn::of_boolean, is_virtual, what);
  finish(result, what);
  return result;
}

void Operation::add_step(int mode, const Owned* operand) {
  constexpr auto what = "describing the epilogue";
  const bool last = --left_ == 0;
  const auto from = tensors_.back().get();
  tensors_.push_back(last ? tensor(convolution_.y, convolution_.result, id_y, false)
                          : tensor(convolution_.y, f32, last_id_++, true));
  auto form = make(dnn::pointwise, what);
  set(form, dnn::pointwise_mode, dnn::of_pointwise_mode, mode, what);
  set(form, dnn::pointwise_precision, dnn::of_type, dnn::real_32f, what);
  finish(form, what);
  auto step = make(dnn::pointwise_step, what);
  set(step, dnn::step_pointwise, dnn::of_descriptor, form.get(), what);
  set(step, dnn::step_x, dnn::of_descriptor, from, what);
  if (operand) set(step, dnn::step_b, dnn::of_descriptor, operand->get(), what);
  set(step, dnn::step_y, dnn::of_descriptor, tensors_.back().get(), what);
  finish(step, what);
  others_.push_back(std::move(form));
  steps_.push_back(std::move(step));
}

Operation::Operation(std::shared_ptr<const Library> library, Device& device, const Convolution& convolution)
    : library_(std::move(library)), device_(device), convolution_(convolution), last_id_(id_between) {
  const auto& c = convolution_;
  constexpr auto what = "describing a convolution";
  auto form = make(dnn::convolution, what);
  const int64_t rank = 2;
  set(form, dnn::convolution_rank, dnn::of_int64, rank, what);
  set(form, dnn::convolution_precision, dnn::of_type, dnn::real_32f, what);
  set(form, dnn::convolution_mode, dnn::of_convolution_mode, dnn::cross_correlation, what);
  set(form, dnn::convolution_strides, dnn::of_int64, std::span<const int64_t>(c.steps), what);
  set(form, dnn::convolution_dilations, dnn::of_int64, std::span<const int64_t>(c.dilations), what);
  set(form, dnn::convolution_low, dnn::of_int64, std::span<const int64_t>(c.low), what);
  set(form, dnn::convolution_high, dnn::of_int64, std::span<const int64_t>(c.high), what);
  finish(form, what);

  left_ = static_cast<size_t>(c.has_bias) + static_cast<size_t>(c.has_r) +
          static_cast<size_t>(c.activation != Activation::none);
  auto x = tensor(c.x, c.type, id_x, false), w = tensor(c.w, c.type, id_w, false);
  tensors_.push_back(left_ == 0 ? tensor(c.y, c.result, id_y, false) : tensor(c.y, f32, last_id_++, true));
  auto forward = make(dnn::convolution_forward, what);
  set(forward, dnn::forward_convolution, dnn::of_descriptor, form.get(), what);
  set(forward, dnn::forward_x, dnn::of_descriptor, x.get(), what);
  set(forward, dnn::forward_w, dnn::of_descriptor, w.get(), what);
  set(forward, dnn::forward_y, dnn::of_descriptor, tensors_.back().get(), what);
  set(forward, dnn::forward_alpha, dnn::of_float, 1.0F, what);
  set(forward, dnn::forward_beta, dnn::of_float, 0.0F, what);
  finish(forward, what);
  steps_.push_back(std::move(forward));
  // The order matches the graph patterns for which the library has precompiled code.
  if (c.has_r) {
    others_.push_back(tensor(c.r, c.result, id_r, false));
    add_step(dnn::mode_add, &others_.back());
  }
  if (c.has_bias) {
    others_.push_back(tensor(c.bias, c.result, id_bias, false));
    add_step(dnn::mode_add, &others_.back());
  }
  if (c.activation != Activation::none) add_step(mode_of(c.activation), nullptr);
  for (auto* descriptor : {&form, &x, &w}) others_.push_back(std::move(*descriptor));

  constexpr auto of_graph = "describing a graph";
  graph_ = make(dnn::graph, of_graph);
  std::vector<dnn::Handle> steps;
  for (const auto& step : steps_) steps.push_back(step.get());
  set(graph_, dnn::graph_handle, dnn::of_handle, device_.handle, of_graph);
  set(graph_, dnn::graph_steps, dnn::of_descriptor, std::span<const dnn::Handle>(steps), of_graph);
  finish(graph_, of_graph);
}

std::optional<std::vector<int>> Operation::notes(dnn::Handle engine, int attribute, int type) const {
  constexpr int64_t most = 32;
  std::array<int, most> list{};
  int64_t count = 0;
  if (library_->get(engine, attribute, type, most, &count, list.data()) != dnn::success || count > most)
    return std::nullopt;
  return std::vector<int>(list.begin(), list.begin() + count);
}

/// Rejects engines that round more than the kernel allows, that are not deterministic, or that have no ready
/// code.
std::string_view Operation::unwanted(const Owned& choice) const {
  constexpr std::string_view silent = "do not say what they are like", rounds = "round or order otherwise";
  const auto engine = make(dnn::engine, "asking an engine");
  dnn::Handle handle = engine.get();
  int64_t count = 0;
  if (library_->get(choice.get(), dnn::choice_engine, dnn::of_descriptor, 1, &count, &handle) != dnn::success)
    return silent;
  // Compiling at run time takes half a second per convolution, which is too slow.
  const auto ways = notes(handle, dnn::engine_ways, dnn::of_way);
  const auto numerical = notes(handle, dnn::engine_notes, dnn::of_note);
  if (!ways || !numerical) return silent;
  if (std::ranges::find(*ways, dnn::way_compiles) != ways->end()) return "compile their code";
  const bool single = convolution_.type == f32 && !convolution_.tf32;
  for (const int note : *numerical) {
    if (note == dnn::note_narrow_sums || note == dnn::note_fft || note == dnn::note_differing ||
        (note >= dnn::note_winograd && note < dnn::note_winograd + 4))
      return rounds;
    if (single && (note == dnn::note_tensor_cores || note == dnn::note_narrow_inputs)) return rounds;
  }
  return {};
}

std::vector<Owned> Operation::choices(int mode) const {
  constexpr auto what = "searching for engines";
  const auto search = make(dnn::engine_search, what);
  set(search, dnn::search_graph, dnn::of_descriptor, graph_.get(), what);
  set(search, dnn::search_mode, dnn::of_search_mode, mode, what);
  std::vector<Owned> result;
  int64_t count = 0;
  // If there is no engine, the library reports that in several ways.
  if (library_->descriptor_finish(search.get()) != dnn::success ||
      library_->get(search.get(), dnn::search_results, dnn::of_descriptor, 0, &count, nullptr) !=
          dnn::success)
    return result;
  std::vector<dnn::Handle> handles;
  for (int64_t k = 0; k < count; ++k) {
    result.push_back(make(dnn::engine_choice, what));
    handles.push_back(result.back().get());
  }
  if (library_->get(search.get(), dnn::search_results, dnn::of_descriptor, count, &count, handles.data()) !=
      dnn::success)
    count = 0;
  result.resize(static_cast<size_t>(count));
  return result;
}

Plans Operation::plans(int most, int64_t most_workspace) const {
  constexpr auto what = "planning a convolution";
  Plans result;
  std::map<std::string_view, int> others;
  for (const int mode : {dnn::search_best, dnn::search_fallback}) {
    for (const auto& choice : choices(mode)) {
      if (result.list.size() == static_cast<size_t>(most)) return result;
      if (const auto why = unwanted(choice); !why.empty()) {
        ++others[why];
        continue;
      }
      Plan plan{make(dnn::execution_plan, what)};
      set(plan.descriptor, dnn::plan_handle, dnn::of_handle, device_.handle, what);
      set(plan.descriptor, dnn::plan_choice, dnn::of_descriptor, choice.get(), what);
      // An engine may find out only now that it has no code.
      int64_t count = 0;
      if (library_->descriptor_finish(plan.descriptor.get()) != dnn::success ||
          library_->get(plan.descriptor.get(), dnn::plan_workspace, dnn::of_int64, 1, &count,
                        &plan.workspace) != dnn::success ||
          plan.workspace < 0)
        ++others["have no code"];
      else if (plan.workspace > most_workspace)
        ++others["want more workspace"];
      else
        result.list.push_back(std::move(plan));
    }
    if (!result.list.empty()) break;
  }
  for (const auto& [why, count] : others)
    result.others +=
        (result.others.empty() ? "" : ", ") + std::to_string(count) + " that " + std::string(why);
  return result;
}

void Operation::run(const Plan& plan, void* const* buffers, void* workspace, void* stream) const {
  const auto& c = convolution_;
  std::vector<int64_t> ids;
  std::vector<void*> pointers;
  const auto add = [&](int64_t id, const Tensor& tensor, DType type) {
    ids.push_back(id);
    pointers.push_back(static_cast<char*>(buffers[tensor.place.argument]) +
                       tensor.place.offset * (bits_of(type) / 8));
  };
  add(id_x, c.x, c.type);
  add(id_w, c.w, c.type);
  add(id_y, c.y, c.result);
  if (c.has_bias) add(id_bias, c.bias, c.result);
  if (c.has_r) add(id_r, c.r, c.result);
  constexpr auto what = "naming buffers";
  const auto arguments = make(dnn::arguments, what);
  set(arguments, dnn::arguments_ids, dnn::of_int64, std::span<const int64_t>(ids), what);
  set(arguments, dnn::arguments_pointers, dnn::of_pointer, std::span<void* const>(pointers), what);
  set(arguments, dnn::arguments_workspace, dnn::of_pointer, workspace, what);
  finish(arguments, what);
  const std::lock_guard lock(device_.mutex);
  check(library_->set_stream(device_.handle, stream), "choosing a stream");
  check(library_->execute(device_.handle, plan.descriptor.get(), arguments.get()), "the convolution");
}

}  // namespace ferrite::cudnn
