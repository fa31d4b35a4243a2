// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "functional.h"

#include <algorithm>
#include <memory>
#include <set>

#include "aliasing.h"
#include "ferrite/error.hpp"
#include "helpers.h"
#include "registry.h"

namespace ferrite::from_torch {
namespace {

bool writes_somewhere(const ProgramNode& node) {
  return writes_argument(node.target) || updates_statistics(node);
}

constexpr size_t no_tensor = static_cast<size_t>(-1);
/// Views of views: more are no model's.
constexpr size_t most_views = 256;

class Functionalizer {
 public:
  explicit Functionalizer(Program program) : old_(std::move(program)) {
    for (const auto& input : old_.inputs) add_root(input.type);
    for (size_t k = 0; k < old_.constants.size(); ++k) {
      add_root(old_.constants[k].type);
      // Tied weights and buffers are one tensor under several names.
      for (size_t earlier = 0; earlier < k; ++earlier)
        if (same_memory(old_.constants[earlier], old_.constants[k])) {
          ids_.back() = ids_[old_.inputs.size() + earlier];
          break;
        }
    }
    made_.file = old_.file;
    made_.draws = old_.draws;
    made_.inputs = old_.inputs;
    made_.constants = old_.constants;
    made_.outputs = old_.outputs;
  }

  Program run() {
    for (const auto& node : old_.nodes) take(node);
    for (size_t k = 0; k < made_.inputs.size(); ++k) {
      auto& input = made_.inputs[k];
      if (input.mutated_by)
        input.mutated_by = current(ids_[*input.mutated_by]);
      else if (versions_[k] > 0)
        input.mutated_by = current(k);
    }
    for (auto& output : made_.outputs) {
      output.type = tensors_[ids_[output.value]].type;
      output.value = current(ids_[output.value]);
    }
    return std::move(made_);
  }

 private:
  /// A tensor of the model. Several values of the program may be one tensor: in-place calls give their
  /// argument.
  struct Tensor {
    TensorType type;
    Layout layout;
    size_t root = 0;            ///< the tensor whose memory it is
    size_t parent = no_tensor;  ///< the tensor that it is a view of
    size_t depth = 0;           ///< of the views
    const ProgramNode* view = nullptr;
    size_t result = 0;   ///< of the view's results, its own
    size_t content = 0;  ///< the value with its elements ...
    size_t version = 0;  ///< ... as they were at this version of the root
  };

  static bool same_memory(const ProgramConstant& a, const ProgramConstant& b) {
    return a.offset == b.offset && a.type == b.type && a.order == b.order;
  }
  void check_writable(const ProgramNode& node, size_t id) const {
    const auto& tensor = tensors_[id];
    const size_t root = tensor.root;
    if (may_overlap(tensor.type.dims, tensor.layout.strides))
      refuse(node, "it writes to a tensor whose elements overlap in memory");
    if (shared_.contains(root)) refuse(node, "it writes to a tensor that may share memory with others");
    // Of a constant, another one of other dims or strides may have elements.
    if (root < old_.inputs.size() || root >= old_.inputs.size() + old_.constants.size()) return;
    const auto end = [](const ProgramConstant& one) {
      return one.offset + static_cast<uint64_t>(bytes_of(one.type.dtype, one.type.elements()));
    };
    const auto& written = old_.constants[root - old_.inputs.size()];
    for (const auto& other : old_.constants)
      if (other.offset < end(written) && written.offset < end(other) && !same_memory(written, other))
        refuse(node, "it writes to '" + written.name + "', which shares memory with '" + other.name + "'");
  }

  void add_root(const TensorType& type) {
    Tensor made{type, old_.layouts[ids_.size()], tensors_.size()};
    made.content = values_++;
    ids_.push_back(tensors_.size());
    tensors_.push_back(std::move(made));
    versions_.push_back(0);
  }

  [[noreturn]] static void refuse(const ProgramNode& node, std::string_view why) {
    throw Failure(FE_EUNSUPPORTED, "FE-I53",
                  detail::concatenate(where(node), ": ", why,
                                      "; write to a tensor of its own (clone() before), or export with "
                                      "run_decompositions()"));
  }

  /// The new program's value with the tensor's elements as they are now.
  size_t current(size_t id) {
    std::vector<size_t> stale;
    for (; tensors_[id].version != versions_[tensors_[id].root]; id = tensors_[id].parent)
      stale.push_back(id);
    size_t value = tensors_[id].content;
    for (; !stale.empty(); stale.pop_back()) {
      auto& tensor = tensors_[stale.back()];
      ProgramNode again = *tensor.view;
      // Only the dims of other tensors count for a view: they need not be as they are now.
      for (auto& [name, argument] : again.kwargs)
        if (auto* other = std::get_if<ValueRef>(&argument.value))
          other->number = tensors_[ids_[other->number]].content;
      again.kwargs[0].second.value = ValueRef{value};
      value = tensor.content = add(std::move(again)) + tensor.result;
      tensor.version = versions_[tensor.root];
    }
    return value;
  }

  void read(Argument& argument) {
    if (auto* tensor = std::get_if<ValueRef>(&argument.value)) tensor->number = current(ids_[tensor->number]);
    if (auto* list = std::get_if<Argument::List>(&argument.value))
      for (auto& element : *list) read(element);
  }
  /// Gives the arguments the new program's values.
  void read_arguments(ProgramNode& node) {
    for (auto& [name, argument] : node.kwargs) read(argument);
  }

  /// Returns the number of the node's first result.
  size_t add(ProgramNode node) {
    const size_t first = values_;
    values_ += node.results.size();
    made_.nodes.push_back(std::move(node));
    if (values_ > most_values || made_.nodes.size() > most_values)
      fail("FE-I51",
           "the program's writes to views need too many values; export it with run_decompositions()");
    return first;
  }
  size_t add(const ProgramNode& source, std::string target,
             std::vector<std::pair<std::string, Argument>> kwargs, const TensorType& type) {
    ProgramNode node{std::move(target), source.name, source.place, {}, std::move(kwargs), {type}};
    return add(std::move(node));
  }

  void take(const ProgramNode& node) {
    if (node.results.empty() && is_check(node.target)) return;
    if (updates_statistics(node)) return normalise(node);
    if (writes_argument(node.target) && first_tensor(node)) {
      const auto functional = functional_of(node.target);
      const size_t id = ids_[first_tensor(node)->number];
      const bool reshapes = reshapes_argument(node.target) && !functional.empty();
      if (reshapes && node.results.size() == 1 && node.results[0])
        return reshape_in_place(node, functional, id);
      if (!functional.empty() && !reshapes && node.results.size() < 2) {
        // A detached tensor is the tensor itself where there are no gradients.
        if (parts_of(functional).name != "detach") write(node, functional, id);
        ids_.insert(ids_.end(), node.results.size(), id);
        return;
      }
    }
    if (parts_of(node.target).space == "prims")
      refuse(node, "it may give a view, and the program writes to tensors");
    ProgramNode made = node;
    read_arguments(made);
    const size_t first = add(std::move(made));
    const bool view = gives_view(node);
    for (size_t k = 0; k < node.results.size(); ++k) define(node, k, first + k, view);
    if (may_share(node)) share(node);
  }

  /// Results of a call with a list of tensors, and the tensors: a write to one of them may be one to others.
  void share(const ProgramNode& node) {
    const size_t defined = ids_.size() - node.results.size();
    for (size_t k = defined; k < ids_.size(); ++k) shared_.insert(tensors_[ids_[k]].root);
    const auto add_argument = [&](const Argument& argument) {
      if (argument.tensor()) shared_.insert(tensors_[ids_[argument.tensor()->number]].root);
    };
    for (const auto& [name, argument] : node.kwargs) {
      add_argument(argument);
      if (argument.list()) std::ranges::for_each(*argument.list(), add_argument);
    }
  }

  /// A batch norm in training, whose functional form gives the new statistics.
  void normalise(const ProgramNode& node) {
    ProgramNode call = node;
    call.target = "aten._native_batch_norm_legit_functional.default";
    constexpr std::string_view kept[] = {"input",       "weight",   "bias",     "running_mean",
                                         "running_var", "training", "momentum", "eps"};
    std::erase_if(call.kwargs,
                  [&](const auto& one) { return !std::ranges::count(kept, std::string_view(one.first)); });
    read_arguments(call);
    const auto id = [&](std::string_view name) { return ids_[find_argument(node, name)->tensor()->number]; };
    const size_t mean = id("running_mean"), variance = id("running_var");
    call.results = {node.results[0], {}, {}, tensors_[mean].type, tensors_[variance].type};
    const size_t first = add(std::move(call));
    define(node, 0, first, false);
    for (const auto& [statistic, k] : {std::pair(mean, 3), std::pair(variance, 4)}) {
      check_writable(node, statistic);
      store(node, statistic, first + static_cast<size_t>(k));
    }
  }

  /// Numbers result k of a node, which is a view of the first argument or a tensor of its own.
  void define(const ProgramNode& node, size_t k, size_t value, bool view) {
    Tensor made{node.results[k].value_or(TensorType()), old_.layouts[ids_.size()], tensors_.size()};
    made.content = value;
    if (view) {
      const auto parent = ids_[first_tensor(node)->number];
      made.root = tensors_[parent].root;
      made.parent = parent;
      made.depth = tensors_[parent].depth + 1;
      if (made.depth > most_views) refuse(node, "it is a view of too many views");
      made.view = &node;
      made.result = k;
      made.version = versions_[made.root];
    }
    ids_.push_back(tensors_.size());
    tensors_.push_back(std::move(made));
    versions_.push_back(0);
  }

  /// Whether the results share the memory of the first argument, as PyTorch decides it.
  bool gives_view(const ProgramNode& node) const {
    if (!view_kind(node.target) || node.results.empty() || !node.results[0]) return false;
    if (!first_tensor(node)) refuse(node, "the tensor that it views is not its first argument");
    const auto& of = tensors_[ids_[first_tensor(node)->number]];
    const auto& type = *node.results[0];
    const auto& layout = old_.layouts[ids_.size()];
    const auto name = parts_of(node.target).name;
    const bool itself = of.type == type && of.layout.device == layout.device &&
                        same_strides(type.dims, of.layout.strides, layout.strides);
    if (name == "contiguous") return itself;
    if (name == "to" || name == "type_as") return itself && !flag_argument(node, "copy");
    if (name.ends_with("dropout"))
      return !flag_argument(node, "train") || !find_argument(node, "p") || is_zero(*find_argument(node, "p"));
    // A copy is stored row by row. A view that is so comes from a tensor that is so.
    if (name == "reshape" || name == "reshape_as" || name == "flatten" || name == "ravel")
      return by_rows(of.type.dims, of.layout.strides) || !by_rows(type.dims, layout.strides);
    return true;
  }
  static bool is_zero(const Argument& argument) {
    const auto* number = std::get_if<double>(&argument.value);
    const auto* integer = std::get_if<int64_t>(&argument.value);
    return (number && *number == 0) || (integer && *integer == 0);
  }

  void reshape_in_place(const ProgramNode& node, const std::string& functional, size_t id) {
    ProgramNode view = node;
    view.target = functional;
    views_.push_back(std::make_unique<ProgramNode>(view));
    read_arguments(view);
    // The argument's number is kept for replays, and stands for the tensor as it was before the call.
    const size_t before = ids_.size();
    const size_t value = add(std::move(view));
    define(*views_.back(), 0, value, true);
    for (size_t k = 0; k < before; ++k)
      if (ids_[k] == id) ids_[k] = ids_.back();
  }

  /// The dtype in which an in-place call computes before it converts to that of its first argument.
  DType computed(const ProgramNode& node, const TensorType& written) const {
    DType wide = written.dtype;
    for (const auto& [name, argument] : node.kwargs) {
      if (!argument.tensor()) continue;
      const auto& type = tensors_[ids_[argument.tensor()->number]].type;
      if (category(type.dtype) == category(written.dtype) && (type.rank() > 0 || written.rank() == 0))
        wide = promote(wide, type.dtype);
    }
    return wide;
  }

  void write(const ProgramNode& node, const std::string& functional, size_t id) {
    const TensorType type = tensors_[id].type;
    check_writable(node, id);
    for (const auto& result : node.results)
      if (result && *result != type) refuse(node, "it gives its argument another size or dtype");
    ProgramNode call = node;
    call.target = functional;
    // "self" of dropout_ is "input" of dropout.
    std::string_view parameter = find_op(functional)->parameters;
    parameter = parameter.substr(0, parameter.find(' '));
    if (parameter.starts_with('~')) parameter.remove_prefix(1);
    call.kwargs[0].first = parameter;
    read_arguments(call);
    call.results = {TensorType{computed(node, type), type.dims}};
    call.converts = true;
    const DType dtype = call.results[0]->dtype;
    size_t value = add(std::move(call));
    if (dtype != type.dtype)
      value =
          add(node, "aten._to_copy.default", {{"self", {ValueRef{value}}}, {"dtype", {type.dtype}}}, type);
    store(node, id, value);
  }

  /// Gives a tensor new elements, and each tensor that it is a view of.
  void store(const ProgramNode& node, size_t id, size_t value) {
    const size_t root = tensors_[id].root;
    struct Step {
      size_t id, value;
    };
    std::vector<Step> steps{{id, value}};
    for (; tensors_[id].parent != no_tensor; id = tensors_[id].parent)
      steps.push_back({tensors_[id].parent, written_back(node, tensors_[id], steps.back().value)});
    ++versions_[root];
    for (const auto& step : steps) {
      tensors_[step.id].content = step.value;
      tensors_[step.id].version = versions_[root];
    }
  }

  /// The elements of a view's parent after those of the view have become `value`.
  size_t written_back(const ProgramNode& node, const Tensor& tensor, size_t value) {
    const auto& parent = tensors_[tensor.parent];
    const ProgramNode& view = *tensor.view;
    const auto& type = parent.type;
    const auto rank = static_cast<int64_t>(type.rank());
    const Argument source{ValueRef{value}};
    const auto integers = [](const Dims& dims) {
      Argument::List list;
      for (const auto dim : dims) list.push_back({dim});
      return Argument{std::move(list)};
    };
    const auto before = [&] { return Argument{ValueRef{current(tensor.parent)}}; };
    const size_t dim = static_cast<size_t>(dim_of(view, type.rank()));
    switch (*view_kind(view.target)) {
      case ViewKind::order:
        if (tensor.type == type) return value;
        if (tensor.type.dtype != type.dtype)
          return add(node, "aten.view.dtype", {{"self", source}, {"dtype", {type.dtype}}}, type);
        return add(node, "aten.reshape.default", {{"self", source}, {"shape", integers(type.dims)}}, type);
      case ViewKind::transpose: {
        auto kwargs = view.kwargs;
        kwargs[0].second = source;
        return add(node, view.target, std::move(kwargs), type);
      }
      case ViewKind::permute: {
        Dims perm;
        const auto* dims = find_argument(view, "dims");
        for (const auto& element : dims && dims->list() ? *dims->list() : Argument::List())
          if (const auto* dim = std::get_if<int64_t>(&element.value))
            perm.push_back(*dim < 0 ? *dim + rank : *dim);
        if (!std::ranges::is_permutation(perm, dim_range(0, type.rank())))
          refuse(view, "its dims are damaged");
        return add(node, "aten.permute.default", {{"self", source}, {"dims", integers(inverse(perm))}}, type);
      }
      case ViewKind::scatter: {
        auto kwargs = view.kwargs;
        kwargs[0].second = before();
        kwargs.emplace_back("src", source);
        const auto name = std::string(parts_of(view.target).name);
        return add(node, "aten." + name + "_scatter.default", std::move(kwargs), type);
      }
      case ViewKind::parts: {
        // The place of narrow is an argument, that of the others follows from the results before.
        int64_t start = integer_argument(view, "start", 0);
        if (start < 0 && rank > 0) start += type.dims[dim];
        for (size_t k = 0; k <= tensor.result; ++k) {
          if (!view.results[k] || view.results[k]->rank() != type.rank() || rank == 0)
            refuse(view, "its results are damaged");
          if (k < tensor.result) start += view.results[k]->dims[dim];
        }
        return add(node, "aten.slice_scatter.default",
                   {{"self", before()},
                    {"src", source},
                    {"dim", {static_cast<int64_t>(dim)}},
                    {"start", {start}},
                    {"end", {start + tensor.type.dims[dim]}}},
                   type);
      }
      case ViewKind::unbind:
        return add(node, "aten.select_scatter.default",
                   {{"self", before()},
                    {"src", source},
                    {"dim", {static_cast<int64_t>(dim)}},
                    {"index", {static_cast<int64_t>(tensor.result)}}},
                   type);
      case ViewKind::strided: break;
    }
    if (may_overlap(tensor.type.dims, tensor.layout.strides))
      refuse(node, "it writes to a tensor whose elements overlap in memory");
    if (!by_rows(type.dims, parent.layout.strides) || tensor.type.dtype != type.dtype)
      refuse(node, "it writes through a view of a tensor that is not stored row by row");
    return add(node, "aten.as_strided_scatter.default",
               {{"self", before()},
                {"src", source},
                {"size", integers(tensor.type.dims)},
                {"stride", integers(tensor.layout.strides)},
                {"storage_offset", {tensor.layout.offset - parent.layout.offset}}},
               type);
  }

  static int64_t dim_of(const ProgramNode& view, size_t rank) {
    const int64_t dim = integer_argument(view, "dim", 0),
                  count = static_cast<int64_t>(std::max<size_t>(rank, 1));
    return std::clamp<int64_t>(dim < 0 ? dim + count : dim, 0, count - 1);
  }

  const Program old_;
  Program made_;
  std::vector<size_t> ids_;  ///< of the old program's values: their tensors
  std::vector<Tensor> tensors_;
  std::set<size_t> shared_;                          ///< roots that may share memory with others
  std::vector<size_t> versions_;                     ///< by tensor: how often a root was written
  std::vector<std::unique_ptr<ProgramNode>> views_;  ///< the functional forms of calls that reshape in place
  size_t values_ = 0;                                ///< of the new program
};

}  // namespace

Program without_writes(Program program) {
  if (std::ranges::none_of(program.nodes, writes_somewhere)) {
    std::erase_if(program.nodes,
                  [](const auto& node) { return node.results.empty() && is_check(node.target); });
    return program;
  }
  return Functionalizer(std::move(program)).run();
}

}  // namespace ferrite::from_torch
