// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reads the flat form of a graph (abi/flat_graph.h). Safe for untrusted bytes: everything is checked, and
// memory use is at most a constant times their number.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ferrite/abi/flat_graph.h"
#include "ferrite/abi/graph.h"
#include "ferrite/dtype.hpp"
#include "ferrite/flat.hpp"

namespace ferrite::inline v0 {
namespace detail {
class GraphReader;
}

/// A graph as plain data, read by read_graph(). Values and nodes are numbered from 0 as in the container;
/// FE_NONE32 is none. Strings and data point into the container's bytes, lists into the graph itself: both
/// must stay alive. Immutable, so any thread may read it.
class FlatGraph {
 public:
  struct Size {
    std::string_view name;
    int64_t lo = 0, hi = 0, divisor = 1, hint = -1;
  };
  struct Guard {
    uint32_t lhs = 0, rhs = 0, relation = 0;  ///< expression numbers, FE_RELATION_*
    std::string_view by;
  };
  struct Value {
    std::string_view name;
    DType dtype = DType::none;
    uint16_t layout = FE_LAYOUT_ANY;
    uint32_t device = 0;
    std::span<const int64_t> dims;    ///< >= 0: a size; < 0: expression -(1 + dim)
    std::span<const int64_t> places;  ///< by layout: strides, or pairs of dim and size
    std::string_view tag;
    int64_t offset = 0;
    uint32_t alignment = 0;
    uint32_t producer = FE_NONE32;  ///< node number; FE_NONE32 for inputs and constants
    uint32_t result = 0;            ///< its number among the producer's results

    bool is_static() const {
      return std::all_of(dims.begin(), dims.end(), [](int64_t dim) { return dim >= 0; });
    }
  };
  struct Input {
    uint32_t mutated_by = FE_NONE32;
    bool donated = false;
  };
  struct Output {
    std::string_view name;
    uint32_t value = 0;
    uint32_t alias_of = FE_NONE32;
    std::span<const int64_t> strides;
  };
  struct Constant {
    uint32_t kind = FE_CONSTANT_LITERAL;
    bool has_data = false;
    std::string_view file;  ///< empty: not in a file
    uint64_t file_offset = 0, bytes = 0;
    std::span<const std::byte> data;  ///< of any alignment
  };
  struct Attribute {
    std::string_view name;
    uint32_t kind = FE_ATTR_INT;
    uint64_t bits = 0;
    std::string_view text;
    std::span<const int64_t> list;            ///< integers, or floats as their bits
    std::span<const std::string_view> texts;  ///< strings

    int64_t integer() const { return static_cast<int64_t>(bits); }
    double number() const { return std::bit_cast<double>(bits); }
  };
  struct Node {
    std::string_view op, origin, made_by;
    std::span<const uint32_t> operands;     ///< value numbers; FE_NONE32 for an absent optional operand
    std::span<const Attribute> attributes;  ///< sorted by name
    uint32_t first_result = 0, results = 0;

    const Attribute* find(std::string_view name) const {
      for (const Attribute& attribute : attributes)
        if (attribute.name == name) return &attribute;
      return nullptr;
    }
  };

  FlatGraph(FlatGraph&&) = default;
  FlatGraph& operator=(FlatGraph&&) = default;

  std::string_view name() const { return name_; }
  std::optional<uint32_t> forward_outputs() const { return forward_outputs_; }
  std::span<const Size> sizes() const { return sizes_; }
  std::span<const fe_flat_expr> expressions() const { return exprs_; }
  std::span<const Guard> guards() const { return guards_; }
  std::span<const Value> values() const { return values_; }
  std::span<const Node> nodes() const { return nodes_; }
  /// Input k is value k.
  std::span<const Input> inputs() const { return inputs_; }
  std::span<const Output> outputs() const { return outputs_; }
  /// Constant k is value inputs().size() + k.
  std::span<const Constant> constants() const { return constants_; }
  /// The contents of a value; null if it is no constant.
  const Constant* constant(uint32_t value) const {
    const size_t first = inputs_.size();
    return value >= first && value - first < constants_.size() ? &constants_[value - first] : nullptr;
  }

 private:
  friend class detail::GraphReader;
  FlatGraph() = default;

  std::string_view name_;
  std::optional<uint32_t> forward_outputs_;
  std::vector<Size> sizes_;
  std::vector<fe_flat_expr> exprs_;
  std::vector<Guard> guards_;
  std::vector<Value> values_;
  std::vector<Input> inputs_;
  std::vector<Output> outputs_;
  std::vector<Constant> constants_;
  std::vector<Node> nodes_;
  std::vector<Attribute> attributes_;
  std::vector<int64_t> ints_;
  std::vector<uint32_t> references_;
  std::vector<std::string_view> texts_;
};

namespace detail {

class GraphReader : FlatContainer {
 public:
  explicit GraphReader(std::span<const std::byte> bytes) : FlatContainer(bytes, "graph") {}

  std::optional<FlatGraph> run(std::string* error) {
    if (open(FE_FLAT_GRAPH, understood, 0) && pools() && head() && symbols() && values() && attributes() &&
        nodes() && signature())
      return std::move(graph_);
    if (error) *error = fault();
    return std::nullopt;
  }

 private:
  static constexpr uint64_t understood = (uint64_t{2} << FE_SECTION_DATA) -
                                         (uint64_t{1} << FE_SECTION_GRAPH) + (1u << FE_SECTION_EXPRS) +
                                         (1u << FE_SECTION_INTS);
  // Nesting limit of an expression, so that walking one may recurse.
  static constexpr uint32_t max_depth = 256;

  /// Takes a range of a pool. The range must be within the pool, and all ranges together must not exceed its
  /// size.
  template <class T>
  bool take(std::span<const T> pool, fe_flat_range range, size_t& left, std::span<const T>& out) {
    if (range.first > pool.size() || range.count > pool.size() - range.first)
      return fail("a range lies outside of its section");
    if (range.count > left) return fail("ranges of a section overlap");
    left -= range.count;
    out = pool.subspan(range.first, range.count);
    return true;
  }
  bool text(fe_flat_range range, std::string_view& out) {
    std::span<const std::byte> bytes;
    if (!take(strings_, range, strings_left_, bytes)) return false;
    out = {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
    return true;
  }
  bool integers(fe_flat_range range, std::span<const int64_t>& out) {
    return take(std::span<const int64_t>(graph_.ints_), range, ints_left_, out);
  }

  bool pools() {
    std::vector<fe_flat_range> texts;
    if (!bytes(FE_SECTION_STRINGS, strings_) || !bytes(FE_SECTION_DATA, data_) ||
        !table(FE_SECTION_INTS, graph_.ints_) || !table(FE_SECTION_REFERENCES, graph_.references_) ||
        !table(FE_SECTION_TEXTS, texts))
      return false;
    strings_left_ = strings_.size();
    ints_left_ = graph_.ints_.size();
    data_left_ = data_.size();
    for (const auto range : texts)
      if (!text(range, graph_.texts_.emplace_back())) return false;
    return true;
  }

  bool head() {
    std::vector<fe_flat_graph> head;
    if (!table(FE_SECTION_GRAPH, head)) return false;
    if (head.size() != 1 || head[0].reserved != 0) return fail("the graph has no head of a known form");
    if (head[0].forward_outputs != FE_NONE32) graph_.forward_outputs_ = head[0].forward_outputs;
    return text(head[0].name, graph_.name_);
  }

  bool symbols() {
    std::vector<fe_flat_size> sizes;
    std::vector<fe_flat_guard> guards;
    if (!table(FE_SECTION_SIZES, sizes) || !table(FE_SECTION_EXPRS, graph_.exprs_) ||
        !table(FE_SECTION_GUARDS, guards))
      return false;
    for (const auto& size : sizes) {
      auto& to = graph_.sizes_.emplace_back(FlatGraph::Size{{}, size.lo, size.hi, size.divisor, size.hint});
      if (size.lo < 0 || size.hi < size.lo || size.divisor < 1) return fail("a symbol's range is not one");
      if (!text(size.name, to.name)) return false;
    }
    std::vector<uint32_t> depth(graph_.exprs_.size(), 1);
    for (size_t k = 0; k < graph_.exprs_.size(); ++k) {
      const auto& expr = graph_.exprs_[k];
      if (expr.op > FE_INDEX_MAX || expr.reserved != 0) return fail("an expression's operation is not known");
      if (expr.op == 1 && (expr.value < 0 || static_cast<uint64_t>(expr.value) >= sizes.size()))
        return fail("an expression names a symbol that is not there");
      if (expr.op < FE_INDEX_ADD) continue;
      if (expr.lhs >= k || expr.rhs >= k) return fail("an expression's operand does not lie before it");
      depth[k] = 1 + std::max(depth[expr.lhs], depth[expr.rhs]);
      if (depth[k] > max_depth) return fail("an expression is nested too deeply");
    }
    for (const auto& guard : guards) {
      auto& to = graph_.guards_.emplace_back(FlatGraph::Guard{guard.lhs, guard.rhs, guard.relation, {}});
      if (guard.relation > FE_RELATION_LESS_EQUAL || guard.lhs >= graph_.exprs_.size() ||
          guard.rhs >= graph_.exprs_.size())
        return fail("a guard's relation or expression is not there");
      if (!text(guard.by, to.by)) return false;
    }
    return true;
  }

  bool values() {
    std::vector<fe_flat_value> values;
    std::vector<fe_flat_constant> constants;
    if (!table(FE_SECTION_VALUES, values) || !table(FE_SECTION_CONSTANTS, constants)) return false;
    for (const auto& flat : values) {
      auto& to = graph_.values_.emplace_back();
      to.dtype = static_cast<DType>(flat.dtype);
      to.layout = flat.layout;
      to.device = flat.device;
      to.offset = flat.offset;
      to.alignment = flat.alignment;
      if (!text(flat.name, to.name) || !integers(flat.dims, to.dims) || !integers(flat.places, to.places) ||
          !text(flat.tag, to.tag))
        return false;
      if (flat.reserved != 0 || !placed(to)) return fail("a value's layout is not possible");
      for (const int64_t dim : to.dims)
        if (dim < 0 && static_cast<uint64_t>(-(dim + 1)) >= graph_.exprs_.size())
          return fail("a dim names an expression that is not there");
    }
    for (const auto& flat : constants) {
      auto& to = graph_.constants_.emplace_back();
      to.kind = flat.kind;
      to.has_data = flat.has_data == 1;
      to.file_offset = flat.file_offset;
      to.bytes = flat.bytes;
      if (!text(flat.file, to.file)) return false;
      const bool literal = flat.kind == FE_CONSTANT_LITERAL;
      if (flat.kind < FE_CONSTANT_LITERAL || flat.kind > FE_CONSTANT_PARAMETER || flat.has_data > 1 ||
          (literal && !to.has_data) || (to.has_data && !to.file.empty()) ||
          (to.file.empty() && to.file_offset != 0))
        return fail("a constant is of no known kind, or not in one place");
      if (!to.has_data) continue;
      if (flat.data % 8 != 0 || flat.data > data_.size() || flat.bytes > data_.size() - flat.data)
        return fail("a constant's data lie outside of their section");
      if (flat.bytes > data_left_) return fail("the data of constants overlap");
      data_left_ -= static_cast<size_t>(flat.bytes);
      to.data = data_.subspan(static_cast<size_t>(flat.data), static_cast<size_t>(flat.bytes));
    }
    return true;
  }

  static bool placed(const FlatGraph::Value& value) {
    if (value.layout > FE_LAYOUT_OPAQUE || (value.layout != FE_LAYOUT_OPAQUE && !value.tag.empty()) ||
        (value.layout != FE_LAYOUT_STRIDED && (value.offset != 0 || value.alignment != 0)))
      return false;
    if (value.layout == FE_LAYOUT_STRIDED) return value.places.size() == value.dims.size();
    if (value.layout != FE_LAYOUT_BLOCKED) return value.places.empty();
    for (size_t k = 0; k < value.places.size(); k += 2) {
      const int64_t dim = value.places[k];
      if (k + 1 == value.places.size() || dim < 0 || static_cast<uint64_t>(dim) >= value.dims.size() ||
          value.places[k + 1] < 0)
        return false;
    }
    return true;
  }

  bool attributes() {
    std::vector<fe_flat_attribute> attributes;
    if (!table(FE_SECTION_ATTRIBUTES, attributes)) return false;
    size_t texts_left = graph_.texts_.size();
    for (const auto& flat : attributes) {
      auto& to = graph_.attributes_.emplace_back();
      to.kind = flat.kind;
      to.bits = flat.bits;
      if (!text(flat.name, to.name)) return false;
      bool read = true;
      switch (flat.kind) {
        case FE_ATTR_INT:
        case FE_ATTR_FLOAT: break;
        case FE_ATTR_BOOL: read = flat.bits <= 1 || fail("a boolean is neither 0 nor 1"); break;
        case FE_ATTR_DTYPE: read = flat.bits <= UINT16_MAX || fail("an element type is unknown"); break;
        case FE_ATTR_STRING: read = text(flat.list, to.text); break;
        case FE_ATTR_INTS:
        case FE_ATTR_FLOATS: read = integers(flat.list, to.list); break;
        case FE_ATTR_STRINGS:
          read = take(std::span<const std::string_view>(graph_.texts_), flat.list, texts_left, to.texts);
          break;
        default: read = fail("an attribute's kind is not known");
      }
      if (!read) return false;
    }
    return true;
  }

  bool nodes() {
    std::vector<fe_flat_node> nodes;
    std::vector<fe_flat_input> inputs;
    if (!table(FE_SECTION_NODES, nodes) || !table(FE_SECTION_INPUTS, inputs)) return false;
    size_t next = inputs.size() + graph_.constants_.size();
    if (next > graph_.values_.size()) return fail("there are more inputs and constants than values");
    for (const auto& input : inputs) {
      if ((input.mutated_by != FE_NONE32 && input.mutated_by >= graph_.values_.size()) ||
          input.flags > FE_INPUT_DONATED)
        return fail("an input has an unknown flag, or is mutated by a value that is not there");
      graph_.inputs_.push_back({input.mutated_by, input.flags == FE_INPUT_DONATED});
    }
    size_t references_left = graph_.references_.size(), attributes_left = graph_.attributes_.size();
    for (const auto& flat : nodes) {
      auto& to = graph_.nodes_.emplace_back();
      to.first_result = static_cast<uint32_t>(next);
      to.results = flat.results;
      if (!text(flat.op, to.op) || !text(flat.origin, to.origin) || !text(flat.made_by, to.made_by) ||
          !take(std::span<const uint32_t>(graph_.references_), flat.operands, references_left, to.operands) ||
          !take(std::span<const FlatGraph::Attribute>(graph_.attributes_), flat.attributes, attributes_left,
                to.attributes))
        return false;
      for (const uint32_t operand : to.operands)
        if (operand != FE_NONE32 && operand >= next)
          return fail("a node reads a value that no node before it makes");
      if (flat.results > graph_.values_.size() - next) return fail("there are more results than values");
      for (uint32_t k = 0; k < flat.results; ++k) {
        graph_.values_[next].producer = static_cast<uint32_t>(graph_.nodes_.size() - 1);
        graph_.values_[next++].result = k;
      }
    }
    return next == graph_.values_.size() || fail("a value is no input, constant or result");
  }

  bool signature() {
    std::vector<fe_flat_output> outputs;
    if (!table(FE_SECTION_OUTPUTS, outputs)) return false;
    for (const auto& flat : outputs) {
      auto& to = graph_.outputs_.emplace_back(FlatGraph::Output{{}, flat.value, flat.alias_of, {}});
      if (flat.value >= graph_.values_.size() ||
          (flat.alias_of != FE_NONE32 && flat.alias_of >= graph_.inputs_.size()))
        return fail("an output is a value that is not there, or aliases one that is no input");
      if (!text(flat.name, to.name) || !integers(flat.strides, to.strides)) return false;
    }
    return true;
  }

  FlatGraph graph_;
  std::span<const std::byte> strings_, data_;
  size_t strings_left_ = 0, ints_left_ = 0, data_left_ = 0;
};

}  // namespace detail

/// Reads the graph in a flat container of any alignment. On a fault returns none and sets `error` (unless
/// null). The bytes must outlive the result. Only checks that every number refers to an existing item; types
/// and ops are not checked. Thread-safe.
inline std::optional<FlatGraph> read_graph(std::span<const std::byte> bytes, std::string* error = nullptr) {
  return detail::GraphReader(bytes).run(error);
}

}  // namespace ferrite::inline v0
