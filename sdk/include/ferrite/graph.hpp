// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The graph for C++ plugins: types, attributes, op instances, reading and editing.
#pragma once

#include <algorithm>
#include <cstring>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "ferrite/abi/contrib.h"
#include "ferrite/dtype.hpp"
#include "ferrite/error.hpp"

namespace ferrite::inline v0 {

using Dims = std::vector<int64_t>;

/// A dtype and dims. Dims are encoded as fe_dim: negative ones are symbolic.
struct TensorType {
  DType dtype = DType::none;
  Dims dims;

  size_t rank() const { return dims.size(); }
  int64_t elements() const {
    int64_t count = 1;
    for (int64_t dim : dims) count *= dim;
    return count;
  }
  bool operator==(const TensorType&) const = default;

  static TensorType from(const fe_tensor_type& type) {
    return {static_cast<DType>(type.dtype), Dims(type.dims, type.dims + type.rank)};
  }
  /// The result borrows `dims`.
  fe_tensor_type abi() const {
    auto type = sized<fe_tensor_type>();
    type.dtype = static_cast<fe_dtype>(dtype);
    type.layout = FE_LAYOUT_ANY;
    type.rank = static_cast<uint32_t>(dims.size());
    type.dims = dims.data();
    return type;
  }
};

inline std::string to_string(const TensorType& type) {
  std::string text(name_of(type.dtype));
  text += '[';
  for (size_t k = 0; k < type.dims.size(); ++k) text += (k ? "," : "") + std::to_string(type.dims[k]);
  return text + ']';
}

/// An attribute for a new node: attr("axis", 1), attr("perm", Dims{1, 0}), attr("mode", "linear").
class Attr {
 public:
  using Value = std::variant<int64_t, double, std::string, DType, bool, std::vector<int64_t>,
                             std::vector<double>, std::vector<std::string>>;
  Attr(std::string name, Value value) : name_(std::move(name)), value_(std::move(value)) {}
  const std::string& name() const { return name_; }
  const Value& value() const { return value_; }

  /// The result borrows this object and `strings`.
  fe_attr abi(std::vector<fe_string>& strings) const {
    auto out = sized<fe_attr>();
    out.name = to_abi(name_);
    std::visit(
        [&](const auto& v) {
          using T = std::decay_t<decltype(v)>;
          if constexpr (std::is_same_v<T, bool>)
            out.kind = FE_ATTR_BOOL, out.i = v;
          else if constexpr (std::is_same_v<T, int64_t>)
            out.kind = FE_ATTR_INT, out.i = v;
          else if constexpr (std::is_same_v<T, double>)
            out.kind = FE_ATTR_FLOAT, out.f = v;
          else if constexpr (std::is_same_v<T, std::string>)
            out.kind = FE_ATTR_STRING, out.s = to_abi(v);
          else if constexpr (std::is_same_v<T, DType>)
            out.kind = FE_ATTR_DTYPE, out.i = static_cast<int64_t>(v);
          else if constexpr (std::is_same_v<T, std::vector<int64_t>>)
            out.kind = FE_ATTR_INTS, out.list = to_array(v.data(), v.size());
          else if constexpr (std::is_same_v<T, std::vector<double>>)
            out.kind = FE_ATTR_FLOATS, out.list = to_array(v.data(), v.size());
          else {
            strings.clear();
            for (const auto& s : v) strings.push_back(to_abi(s));
            out.kind = FE_ATTR_STRINGS;
            out.list = to_array(strings.data(), strings.size());
          }
        },
        value_);
    return out;
  }

 private:
  std::string name_;
  Value value_;
};

inline Attr attr(std::string name, int64_t value) { return {std::move(name), value}; }
inline Attr attr(std::string name, int value) { return {std::move(name), int64_t{value}}; }
inline Attr attr(std::string name, double value) { return {std::move(name), value}; }
inline Attr attr(std::string name, bool value) { return {std::move(name), value}; }
inline Attr attr(std::string name, DType value) { return {std::move(name), value}; }
inline Attr attr(std::string name, const char* value) { return {std::move(name), std::string(value)}; }
inline Attr attr(std::string name, std::string value) { return {std::move(name), std::move(value)}; }
inline Attr attr(std::string name, std::vector<int64_t> value) { return {std::move(name), std::move(value)}; }
inline Attr attr(std::string name, std::vector<double> value) { return {std::move(name), std::move(value)}; }
inline Attr attr(std::string name, std::vector<std::string> value) {
  return {std::move(name), std::move(value)};
}

/// Reads attributes by name and type. Throws if an attribute is missing or of another type.
class AttrView {
 public:
  AttrView() = default;
  explicit AttrView(fe_array attrs) : attrs_(attrs) {}
  const fe_attr* find(std::string_view name) const {
    for (size_t k = 0; k < attrs_.count; ++k)
      if (const auto& a = element<fe_attr>(attrs_, k); from_abi(a.name) == name) return &a;
    return nullptr;
  }
  bool has(std::string_view name) const { return find(name) != nullptr; }
  int64_t integer(std::string_view name) const { return get(name, FE_ATTR_INT).i; }
  int64_t integer(std::string_view name, int64_t otherwise) const {
    return has(name) ? integer(name) : otherwise;
  }
  bool boolean(std::string_view name) const { return get(name, FE_ATTR_BOOL).i != 0; }
  double number(std::string_view name) const { return get(name, FE_ATTR_FLOAT).f; }
  double number(std::string_view name, double otherwise) const {
    return has(name) ? number(name) : otherwise;
  }
  std::string_view string(std::string_view name) const { return from_abi(get(name, FE_ATTR_STRING).s); }
  std::string_view string(std::string_view name, std::string_view otherwise) const {
    return has(name) ? string(name) : otherwise;
  }
  DType dtype(std::string_view name) const { return static_cast<DType>(get(name, FE_ATTR_DTYPE).i); }
  std::span<const int64_t> integers(std::string_view name) const {
    const auto& list = get(name, FE_ATTR_INTS).list;
    return {static_cast<const int64_t*>(list.data), list.count};
  }
  std::span<const double> numbers(std::string_view name) const {
    const auto& list = get(name, FE_ATTR_FLOATS).list;
    return {static_cast<const double*>(list.data), list.count};
  }
  /// All attributes, for another node.
  std::vector<Attr> copy() const {
    std::vector<Attr> result;
    for (size_t k = 0; k < attrs_.count; ++k) {
      const auto& a = element<fe_attr>(attrs_, k);
      std::string name(from_abi(a.name));
      switch (a.kind) {
        case FE_ATTR_INT: result.push_back(attr(name, a.i)); break;
        case FE_ATTR_BOOL: result.push_back(attr(name, a.i != 0)); break;
        case FE_ATTR_FLOAT: result.push_back(attr(name, a.f)); break;
        case FE_ATTR_STRING: result.push_back(attr(name, std::string(from_abi(a.s)))); break;
        case FE_ATTR_DTYPE: result.push_back(attr(name, static_cast<DType>(a.i))); break;
        case FE_ATTR_INTS: {
          auto v = integers(name);
          result.push_back(attr(name, std::vector<int64_t>(v.begin(), v.end())));
          break;
        }
        case FE_ATTR_FLOATS: {
          auto v = numbers(name);
          result.push_back(attr(name, std::vector<double>(v.begin(), v.end())));
          break;
        }
        default: {
          std::vector<std::string> v;
          for (size_t j = 0; j < a.list.count; ++j) v.emplace_back(from_abi(element<fe_string>(a.list, j)));
          result.push_back(attr(name, std::move(v)));
        }
      }
    }
    return result;
  }

 private:
  const fe_attr& get(std::string_view name, uint32_t kind) const {
    const auto* found = find(name);
    if (!found) fail("FE-G30", "no attribute '", name, "'");
    if (found->kind != kind) fail("FE-G31", "attribute '", name, "' has another type");
    return *found;
  }
  fe_array attrs_{};
};

/// An op with its operand types, as infer, decompose and lower receive it.
class Instance {
 public:
  explicit Instance(const fe_instance& view) : view_(&view), attrs(view.attrs) {}
  std::string_view op() const { return from_abi(view_->op); }
  std::string_view device() const { return from_abi(view_->device); }
  size_t operand_count() const { return view_->operands.count; }
  size_t result_count() const { return view_->results.count; }
  const fe_value_view& operand_view(size_t k) const {
    if (k >= operand_count()) fail("FE-G32", op(), " has no operand ", k);
    return element<fe_value_view>(view_->operands, k);
  }
  bool has_operand(size_t k) const { return k < operand_count() && operand_view(k).handle != 0; }
  TensorType operand(size_t k) const {
    if (!has_operand(k)) fail("FE-G32", op(), " needs operand ", k);
    return TensorType::from(operand_view(k).type);
  }
  TensorType result(size_t k) const {
    if (k >= result_count()) fail("FE-G32", op(), " has no result ", k);
    return TensorType::from(element<fe_value_view>(view_->results, k).type);
  }

 private:
  const fe_instance* view_;

 public:
  const AttrView attrs;
};

class Graph;

namespace detail {
/// sized<T>() for the views, which are read for every node and value. Compilers clear larger structs by a
/// string instruction, which takes longer than the host call itself. Clear the struct in small chunks
/// instead.
template <class T>
T sized_view() {
  constexpr size_t chunk = 64;
  T view;
  char* const bytes = reinterpret_cast<char*>(&view);
  if constexpr (sizeof(T) > chunk) {
    static_assert(sizeof(T) <= 2 * chunk);
    std::memset(bytes, 0, chunk);
    std::memset(bytes + chunk, 0, sizeof(T) - chunk);
  } else {
    std::memset(bytes, 0, sizeof(T));
  }
  view.size = sizeof(T);
  return view;
}
}  // namespace detail

/// A value of a graph. Cheap to copy; reads go to the graph.
class Value {
 public:
  Value() = default;
  Value(Graph* graph, fe_value handle) : graph_(graph), handle_(handle) {}
  fe_value handle() const { return handle_; }
  explicit operator bool() const { return handle_ != 0; }
  bool operator==(const Value& other) const { return handle_ == other.handle_; }
  inline fe_value_view view() const;
  TensorType type() const { return TensorType::from(view().type); }
  DType dtype() const { return static_cast<DType>(view().type.dtype); }
  Dims dims() const { return type().dims; }
  size_t rank() const { return view().type.rank; }
  uint32_t use_count() const { return view().use_count; }
  bool is_constant() const {
    auto kind = view().constant;
    return kind == FE_CONSTANT_LITERAL || kind == FE_CONSTANT_WEIGHT;
  }
  inline class Node producer() const;
  /// The elements of a constant of type T; throws if the value is no such constant.
  template <class T>
  std::vector<T> elements() const {
    auto v = view();
    if (!v.data) fail("FE-G33", "the value is no constant");
    std::vector<T> result(v.data_bytes / sizeof(T));
    std::memcpy(result.data(), v.data, result.size() * sizeof(T));
    return result;
  }
  /// The number that all elements of the constant equal. None if the value is no constant, is empty, has
  /// different elements, or has elements other than integers and floats of 8 bits or more.
  std::optional<double> number() const {
    auto v = view();
    const auto dtype = static_cast<DType>(v.type.dtype);
    if (!v.data || bits_of(dtype) < 8 || !(is_computable_float(dtype) || is_integer(dtype)))
      return std::nullopt;
    const size_t size = static_cast<size_t>(bits_of(dtype)) / 8;
    const auto* bytes = static_cast<const std::byte*>(v.data);
    if (v.data_bytes < size || std::memcmp(bytes, bytes + size, v.data_bytes - size) != 0)
      return std::nullopt;
    uint64_t bits = 0;
    std::memcpy(&bits, bytes, size);
    if (is_computable_float(dtype)) return float_value(dtype, bits);
    if (class_of(dtype) != FE_CLASS_INT) return static_cast<double>(bits);
    const int shift = 64 - bits_of(dtype);
    return static_cast<double>(static_cast<int64_t>(bits << shift) >> shift);
  }

 private:
  friend class Graph;
  Graph* graph_ = nullptr;
  fe_value handle_ = 0;
};

/// A node of a graph. Stale after it was erased: every access then throws FE_ESTALE.
class Node {
 public:
  Node() = default;
  Node(Graph* graph, fe_node handle) : graph_(graph), handle_(handle) {}
  fe_node handle() const { return handle_; }
  explicit operator bool() const { return handle_ != 0; }
  inline fe_node_view view() const;
  std::string op() const { return std::string(from_abi(view().op)); }
  size_t operand_count() const { return view().operands.count; }
  Value operand(size_t k) const {
    auto v = view();
    return k < v.operands.count ? Value(graph_, element<fe_value>(v.operands, k)) : Value();
  }
  size_t result_count() const { return view().results.count; }
  Value result(size_t k = 0) const {
    auto v = view();
    return k < v.results.count ? Value(graph_, element<fe_value>(v.results, k)) : Value();
  }
  AttrView attrs() const { return AttrView(view().attrs); }

 private:
  Graph* graph_ = nullptr;
  fe_node handle_ = 0;
};

/// The graph to rewrite, decompose into or import into. New nodes go before `insertion` (by default, to the
/// end).
class Graph {
 public:
  explicit Graph(const fe_graph_api* api) : api_(api) {}
  Graph(const Graph&) = delete;

  const fe_graph_api& api() const { return *api_; }

  std::vector<Node> nodes() {
    auto view = this->view();
    std::vector<Node> result;
    result.reserve(view.nodes.count);
    for (size_t k = 0; k < view.nodes.count; ++k) result.emplace_back(this, element<fe_node>(view.nodes, k));
    return result;
  }
  std::vector<Value> inputs() { return values(view().inputs); }
  std::vector<Value> outputs() { return values(view().outputs); }
  fe_graph_view view() {
    auto args = sized<fe_none>();
    auto out = sized<fe_graph_view>();
    call_host(*api_, api_->view, args, out);
    return out;
  }

  /// Sets the insertion point of new nodes and the nodes whose provenance they inherit: `replaced` if given,
  /// else `before`. Clears an origin that was set earlier.
  void set_insertion(Node before, std::span<const Node> replaced = {}) {
    before_ = like_ = before.handle();
    origin_.clear();
    for (const Node& node : replaced) add_origin(from_abi(node.view().origin));
  }
  void set_origin(std::string origin) { origin_ = std::move(origin); }

  std::vector<Value> make_all(std::string_view op, std::span<const Value> operands,
                              std::span<const Attr> attrs = {}) {
    fe_value results[most_results];
    std::vector<Value> made;
    const size_t count = make_results(op, operands, attrs, results);
    for (size_t k = 0; k < count; ++k) made.emplace_back(this, results[k]);
    return made;
  }
  /// Makes a node and returns its first result.
  Value make(std::string_view op, std::span<const Value> operands, std::span<const Attr> attrs = {}) {
    fe_value results[most_results];
    if (make_results(op, operands, attrs, results) == 0) fail("FE-G32", op, " has no result");
    return {this, results[0]};
  }
  Value make(std::string_view op, std::initializer_list<Value> operands,
             std::initializer_list<Attr> attrs = {}) {
    return make(op, std::span(operands.begin(), operands.size()), std::span(attrs.begin(), attrs.size()));
  }
  Value make(std::string_view op, const std::vector<Value>& operands, const std::vector<Attr>& attrs = {}) {
    return make(op, std::span(operands), std::span(attrs));
  }

  /// Makes a constant by value. The host stores one of more than 1 KiB as a weight in memory.
  Value literal(const TensorType& type, const void* data) {
    auto args = sized<fe_literal_args>();
    args.type = type.abi();
    args.data = data;
    args.bytes = static_cast<uint64_t>(bytes_of(type.dtype, type.elements()));
    auto out = sized<fe_handle_out>();
    call_host(*api_, api_->literal, args, out);
    return {this, out.handle};
  }
  /// Makes a constant whose elements stay in a file, which the host maps: contiguous, from byte `offset` on.
  Value weight(std::string_view name, const TensorType& type, std::string_view file, uint64_t offset) {
    auto args = sized<fe_weight_args>();
    args.name = to_abi(name);
    args.type = type.abi();
    args.file = to_abi(file);
    args.offset = offset;
    args.bytes = static_cast<uint64_t>(bytes_of(type.dtype, type.elements()));
    auto out = sized<fe_handle_out>();
    call_host(*api_, api_->weight, args, out);
    return {this, out.handle};
  }
  Value scalar(DType dtype, double value) {
    uint64_t bits = scalar_bits(dtype, value);
    return literal({dtype, {}}, &bits);
  }
  Value integers(const std::vector<int64_t>& values) {
    return literal({DType::i64_, {static_cast<int64_t>(values.size())}}, values.data());
  }
  Value input(std::string_view name, const TensorType& type) {
    auto args = sized<fe_input_args>();
    args.name = to_abi(name);
    args.type = type.abi();
    auto out = sized<fe_handle_out>();
    call_host(*api_, api_->input, args, out);
    return {this, out.handle};
  }
  void output(std::string_view name, Value value) {
    auto args = sized<fe_output_args>();
    args.name = to_abi(name);
    args.value = value.handle();
    auto out = sized<fe_none>();
    call_host(*api_, api_->output, args, out);
  }
  /// After the run, the memory of an input holds `mutated_by`, a value of the input's type; none: it is
  /// unchanged. The program may overwrite the memory of a `donated` input.
  void set_input_memory(Value input, Value mutated_by, bool donated) {
    auto args = sized<fe_input_memory_args>();
    args.input = input.handle();
    args.mutated_by = mutated_by.handle();
    args.flags = donated ? FE_INPUT_DONATED : 0u;
    auto out = sized<fe_none>();
    call_host(*api_, api_->set_input_memory, args, out);
  }
  void replace_uses(Value from, Value to) {
    auto args = sized<fe_replace_args>();
    args.from = from.handle();
    args.to = to.handle();
    auto out = sized<fe_none>();
    call_host(*api_, api_->replace_uses, args, out);
  }
  void erase(Node node) {
    auto args = sized<fe_node_args>();
    args.node = node.handle();
    auto out = sized<fe_none>();
    call_host(*api_, api_->erase, args, out);
  }
  void set_operand(Node node, uint32_t index, Value value) {
    auto args = sized<fe_operand_args>();
    args.node = node.handle();
    args.index = index;
    args.value = value.handle();
    auto out = sized<fe_none>();
    call_host(*api_, api_->set_operand, args, out);
  }
  /// The value as a constant, if it depends on constants only and is small enough; else none.
  std::optional<Value> evaluate(Value value) {
    auto args = sized<fe_value_args>();
    args.value = value.handle();
    auto out = sized<fe_handle_out>();
    detail::HostCall call;
    int32_t status = api_->evaluate ? api_->evaluate(api_->self, &call.call, &args, &out) : FE_EUNSUPPORTED;
    if (status == FE_EUNSUPPORTED) return std::nullopt;
    call.check(status);
    return Value(this, out.handle);
  }
  std::vector<Node> users(Value value) {
    auto args = sized<fe_value_args>();
    args.value = value.handle();
    auto out = sized<fe_users_out>();
    call_host(*api_, api_->users, args, out);
    std::vector<Node> result;
    for (size_t k = 0; k < out.nodes.count; ++k) result.emplace_back(this, element<fe_node>(out.nodes, k));
    return result;
  }

  /// The bits of one element, in the low end. Floats are rounded to the dtype, integers truncated.
  static uint64_t scalar_bits(DType dtype, double value) {
    if (is_computable_float(dtype)) return float_bits(dtype, value);
    switch (dtype) {
      case DType::bool_: return value != 0;
      case DType::u64_: return static_cast<uint64_t>(value);
      default:
        return static_cast<uint64_t>(static_cast<int64_t>(value)) &
               (bits_of(dtype) >= 64 ? ~uint64_t{0} : (uint64_t{1} << bits_of(dtype)) - 1);
    }
  }

 private:
  static constexpr size_t most_results = 64;
  /// Appends those of the comma-separated names that are new.
  void add_origin(std::string_view names) {
    while (!names.empty()) {
      const std::string_view name = names.substr(0, names.find(','));
      names.remove_prefix(std::min(names.size(), name.size() + 1));
      const std::string all = ',' + origin_ + ',', one = ',' + std::string(name) + ',';
      if (name.empty() || all.find(one) != std::string::npos) continue;
      if (!origin_.empty()) origin_ += ',';
      origin_ += name;
    }
  }
  /// Makes a node and returns its number of results. `results` receives their handles.
  size_t make_results(std::string_view op, std::span<const Value> operands, std::span<const Attr> attrs,
                      std::span<fe_value, most_results> results) {
    std::vector<std::vector<fe_string>> strings(attrs.size());
    std::vector<fe_attr> abi_attrs;
    abi_attrs.reserve(attrs.size());
    for (size_t k = 0; k < attrs.size(); ++k) abi_attrs.push_back(attrs[k].abi(strings[k]));
    auto args = sized<fe_make_args>();
    args.op = to_abi(op);
    // Pass the handles in place: the stride skips the other fields of Value.
    if (!operands.empty()) args.operands = {&operands.front().handle_, operands.size(), sizeof(Value)};
    args.attrs = to_array(abi_attrs.data(), abi_attrs.size());
    args.before = before_;
    args.like = like_;
    args.origin = to_abi(origin_);
    auto out = sized<fe_make_out>();
    out.results = results.data();
    out.capacity = results.size();
    call_host(*api_, api_->make, args, out);
    return std::min<size_t>(out.count, results.size());
  }
  std::vector<Value> values(const fe_array& array) {
    std::vector<Value> result;
    for (size_t k = 0; k < array.count; ++k) result.emplace_back(this, element<fe_value>(array, k));
    return result;
  }
  const fe_graph_api* api_;
  fe_node before_ = 0, like_ = 0;
  std::string origin_;
};

inline fe_value_view Value::view() const {
  if (!graph_) fail("FE-G34", "an absent value was read");
  auto args = sized<fe_value_args>();
  args.value = handle_;
  auto out = detail::sized_view<fe_value_view>();
  call_host(graph_->api(), graph_->api().value, args, out);
  return out;
}
inline Node Value::producer() const { return {graph_, view().producer}; }
inline fe_node_view Node::view() const {
  if (!graph_) fail("FE-G34", "an absent node was read");
  auto args = sized<fe_node_args>();
  args.node = handle_;
  auto out = detail::sized_view<fe_node_view>();
  call_host(graph_->api(), graph_->api().node, args, out);
  return out;
}

}  // namespace ferrite::inline v0
