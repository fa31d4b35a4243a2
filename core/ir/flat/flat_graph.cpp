// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/ir/flat/flat_graph.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <unordered_map>
#include <unordered_set>

#include "core/support/abi/flat_container.h"
#include "ferrite/flat_graph.hpp"

namespace ferrite::core::graph {
namespace {

constexpr uint32_t max_depth = 256;        // nesting limit of an expression; readers enforce the same
constexpr std::string_view kept = "kept";  // replaces the file name of kept weights

/// Collects the sections. `whole`: write the graph's own signature, else that of the given nodes.
class Writer {
 public:
  Writer(const Graph& graph, const FlatOptions& options, std::vector<NodeId> nodes, bool whole)
      : graph_(graph), options_(options), whole_(whole) {
    result_.nodes = std::move(nodes);
  }

  Result<FlatBytes> run() {
    number_values();
    FE_CHECK(write_values());
    for (const NodeId id : result_.nodes) FE_CHECK(node(id));
    write_signature();
    FE_CHECK(write_symbols());
    constexpr uint64_t most = UINT32_MAX - 1;
    for (const size_t size : {strings_.size(), ints_.size(), references_.size(), attributes_.size(),
                              texts_.size(), values_.size(), nodes_.size()})
      if (size > most) return too_large();
    const uint32_t forward = whole_ && graph_.forward_outputs() ? *graph_.forward_outputs() : FE_NONE32;
    FlatContainer container;
    container.add(FE_SECTION_GRAPH, true, std::vector<fe_flat_graph>{{name_, forward, 0}});
    container.add(FE_SECTION_STRINGS, true, strings_);
    container.add(FE_SECTION_SIZES, true, sizes_);
    container.add(FE_SECTION_EXPRS, true, exprs_);
    container.add(FE_SECTION_GUARDS, true, guards_);
    container.add(FE_SECTION_INTS, true, ints_);
    container.add(FE_SECTION_VALUES, true, values_);
    container.add(FE_SECTION_INPUTS, true, inputs_);
    container.add(FE_SECTION_OUTPUTS, true, outputs_);
    container.add(FE_SECTION_CONSTANTS, true, constants_);
    container.add(FE_SECTION_NODES, true, nodes_);
    container.add(FE_SECTION_REFERENCES, true, references_);
    container.add(FE_SECTION_ATTRIBUTES, true, attributes_);
    container.add(FE_SECTION_TEXTS, true, texts_);
    container.add(FE_SECTION_DATA, true, data_);
    result_.bytes = container.bytes(FE_FLAT_GRAPH);
    return std::move(result_);
  }

 private:
  static Error too_large() {
    return error(FE_EUNSUPPORTED, "FE-P33", "the graph is too large, or its dims are nested too deeply");
  }

  fe_flat_range string(std::string_view text) {
    const fe_flat_range range{static_cast<uint32_t>(strings_.size()), static_cast<uint32_t>(text.size())};
    strings_.insert(strings_.end(), text.begin(), text.end());
    return range;
  }
  template <class List>
  fe_flat_range integers(const List& list) {
    const fe_flat_range range{static_cast<uint32_t>(ints_.size()), static_cast<uint32_t>(list.size())};
    for (const auto item : list) ints_.push_back(std::bit_cast<int64_t>(item));
    return range;
  }
  uint32_t number_of(ValueId id) const {
    const auto found = numbers_.find(id.bits);
    return found == numbers_.end() ? FE_NONE32 : found->second;
  }
  void add(ValueId id) {
    if (!numbers_.emplace(id.bits, static_cast<uint32_t>(result_.values.size())).second) return;
    result_.values.push_back(id);
  }

  /// Numbers the values in the order inputs, constants, results.
  void number_values() {
    std::unordered_set<uint64_t> made;
    std::vector<ValueId> constants;
    if (whole_) {
      for (const Input& input : graph_.inputs()) add(input.value);
      constants.assign(graph_.constants().begin(), graph_.constants().end());
    } else {
      for (const NodeId id : result_.nodes) {
        for (const ValueId operand : graph_.node(id).operands) {
          if (!operand || made.contains(operand.bits)) continue;
          if (graph_.value(operand).constant) {
            constants.push_back(operand);
          } else {
            add(operand);
          }
        }
        for (const ValueId result : graph_.node(id).results) made.insert(result.bits);
      }
    }
    input_count_ = result_.values.size();
    for (const ValueId constant : constants) add(constant);
    constant_count_ = result_.values.size() - input_count_;
    next_result_ = static_cast<uint32_t>(result_.values.size());
    for (const NodeId id : result_.nodes)
      for (const ValueId result : graph_.node(id).results) add(result);
  }

  Result<void> write_values() {
    for (size_t k = 0; k < result_.values.size(); ++k) {
      const Value& value = graph_.value(result_.values[k]);
      const Layout& layout = value.type.layout;
      fe_flat_value flat{};
      flat.name = string(value.name);
      flat.dtype = static_cast<fe_dtype>(value.type.dtype);
      flat.layout = layout.kind;
      flat.device = value.type.device;
      flat.dims = integers(value.type.dims);
      // Symbolic dims still hold ids of the pool. write_symbols() renumbers them once the records of the
      // expressions have their positions.
      for (size_t d = 0; d < value.type.rank(); ++d)
        if (!is_static(value.type.dims[d])) symbolic_.push_back(flat.dims.first + d);
      if (layout.kind == FE_LAYOUT_STRIDED) {
        flat.places = integers(layout.strides);
        flat.offset = layout.offset;
        flat.alignment = layout.alignment;
      } else if (layout.kind == FE_LAYOUT_BLOCKED) {
        std::vector<int64_t> blocks;
        for (const Block& block : layout.blocks) blocks.insert(blocks.end(), {block.dim, block.size});
        flat.places = integers(blocks);
      } else if (layout.kind == FE_LAYOUT_OPAQUE) {
        flat.tag = string(layout.tag);
      }
      values_.push_back(flat);
      if (k < input_count_ || k >= input_count_ + constant_count_) continue;
      FE_CHECK(constant(result_.values[k], *value.constant));
    }
    return {};
  }

  Result<void> constant(ValueId id, const Constant& constant) {
    fe_flat_constant flat{};
    flat.kind = constant.kind;
    flat.bytes = constant.bytes;
    if (options_.keep && constant.kind != FE_CONSTANT_LITERAL) {
      FE_TRY(const auto bytes, graph_.constant_bytes(id));
      flat.file = string(kept);
      flat.file_offset = options_.keep(bytes);
      constants_.push_back(flat);
      return {};
    }
    flat.file = string(constant.file);
    if (!constant.file.empty()) {
      flat.file_offset = constant.offset;
    } else if (constant.kind == FE_CONSTANT_LITERAL ||
               (constant.memory && constant.bytes <= options_.max_data)) {
      FE_TRY(const auto bytes, graph_.constant_bytes(id));
      flat.has_data = 1;
      flat.data = data_.size();
      data_.insert(data_.end(), bytes.begin(), bytes.end());
      data_.resize((data_.size() + 7) / 8 * 8);
    }
    constants_.push_back(flat);
    return {};
  }

  Result<void> node(NodeId id) {
    const Node& node = graph_.node(id);
    fe_flat_node flat{};
    flat.op = string(graph_.op_name(node.op));
    flat.origin = string(node.origin);
    flat.made_by = string(node.made_by);
    flat.results = static_cast<uint32_t>(node.results.size());
    flat.operands = {static_cast<uint32_t>(references_.size()), static_cast<uint32_t>(node.operands.size())};
    for (const ValueId operand : node.operands) {
      const uint32_t number = number_of(operand);
      if (operand && number >= next_result_)
        return error(FE_EINVALID, "FE-P33", "{} reads a value that no node before it makes",
                     graph_.describe(id));
      references_.push_back(number);
    }
    next_result_ += flat.results;
    flat.attributes = {static_cast<uint32_t>(attributes_.size()),
                       static_cast<uint32_t>(node.attributes.size())};
    for (const Attribute& attribute : node.attributes) this->attribute(attribute);
    nodes_.push_back(flat);
    return {};
  }

  void attribute(const Attribute& attribute) {
    fe_flat_attribute flat{};
    flat.name = string(attribute.name);
    flat.kind = attribute.kind();
    struct Visitor {
      Writer& writer;
      fe_flat_attribute& flat;
      void operator()(int64_t v) const { flat.bits = static_cast<uint64_t>(v); }
      void operator()(double v) const { flat.bits = std::bit_cast<uint64_t>(v); }
      void operator()(DType v) const { flat.bits = static_cast<uint64_t>(v); }
      void operator()(bool v) const { flat.bits = v; }
      void operator()(const std::string& v) const { flat.list = writer.string(v); }
      void operator()(const std::vector<int64_t>& v) const { flat.list = writer.integers(v); }
      void operator()(const std::vector<double>& v) const { flat.list = writer.integers(v); }
      void operator()(const std::vector<std::string>& v) const {
        flat.list = {static_cast<uint32_t>(writer.texts_.size()), static_cast<uint32_t>(v.size())};
        for (const std::string& text : v) writer.texts_.push_back(writer.string(text));
      }
    };
    std::visit(Visitor{*this, flat}, attribute.value);
    attributes_.push_back(flat);
  }

  void write_signature() {
    name_ = string(graph_.name());
    if (whole_) {
      for (const Input& input : graph_.inputs())
        inputs_.push_back({number_of(input.mutated_by), input.donated ? FE_INPUT_DONATED : 0u});
      for (const Output& output : graph_.outputs())
        outputs_.push_back({string(output.name), integers(output.strides), number_of(output.value),
                            number_of(output.alias_of)});
      return;
    }
    inputs_.assign(input_count_, {FE_NONE32, 0});
    std::unordered_set<uint64_t> inside;
    std::unordered_set<std::string> taken;
    for (const NodeId id : result_.nodes) inside.insert(id.bits);
    for (size_t k = input_count_ + constant_count_; k < result_.values.size(); ++k) {
      const Value& value = graph_.value(result_.values[k]);
      // A use without a user is a graph output.
      if (std::all_of(value.uses.begin(), value.uses.end(),
                      [&](const Use& use) { return inside.contains(use.user.bits); }))
        continue;
      std::string name = value.name.empty() ? fmt::format("{}.{}", graph_.op(value.producer), k) : value.name;
      while (!taken.insert(name).second) name += "'";
      outputs_.push_back({string(name), {}, static_cast<uint32_t>(k), FE_NONE32});
    }
  }

  /// Writes the expressions of dims and guards, then the guards.
  Result<void> write_symbols() {
    const SymbolTable& symbols = graph_.symbols();
    for (index::Symbol k = 0; k < symbols.size(); ++k) {
      const index::Range range = symbols.range(k);
      sizes_.push_back({range.lo, range.hi, symbols.divisor(k), symbols.hint(k), string(symbols.name(k))});
    }
    std::vector<index::Expr> roots;
    for (const size_t place : symbolic_) roots.push_back(expression_of(ints_[place]));
    for (const Guard& guard : symbols.guards()) roots.insert(roots.end(), {guard.lhs, guard.rhs});
    std::vector<index::Record> records;
    const auto positions = symbols.pool().write_records(roots, records);
    for (size_t k = 0; k < symbolic_.size(); ++k) ints_[symbolic_[k]] = -1 - int64_t{positions[k]};
    for (size_t k = 0; k < symbols.guards().size(); ++k) {
      const Guard& guard = symbols.guards()[k];
      const size_t at = symbolic_.size() + 2 * k;
      guards_.push_back(
          {positions[at], positions[at + 1], static_cast<uint32_t>(guard.relation), 0, string(guard.by)});
    }
    std::vector<uint32_t> depth(records.size(), 1);
    for (size_t k = 0; k < records.size(); ++k) {
      exprs_.push_back({records[k].op, 0, records[k].value, records[k].lhs, records[k].rhs});
      if (records[k].op < FE_INDEX_ADD) continue;
      depth[k] = 1 + std::max(depth[records[k].lhs], depth[records[k].rhs]);
      if (depth[k] > max_depth) return too_large();
    }
    if (records.size() > index::Pool::max_records) return too_large();
    return {};
  }

  const Graph& graph_;
  const FlatOptions& options_;
  const bool whole_;
  FlatBytes result_;
  std::unordered_map<uint64_t, uint32_t> numbers_;
  size_t input_count_ = 0, constant_count_ = 0;
  uint32_t next_result_ = 0;
  std::vector<size_t> symbolic_;  // positions in ints_ of symbolic dims, to be renumbered
  fe_flat_range name_{};
  std::vector<char> strings_;
  std::vector<int64_t> ints_;
  std::vector<uint32_t> references_;
  std::vector<fe_flat_size> sizes_;
  std::vector<fe_flat_expr> exprs_;
  std::vector<fe_flat_guard> guards_;
  std::vector<fe_flat_value> values_;
  std::vector<fe_flat_input> inputs_;
  std::vector<fe_flat_output> outputs_;
  std::vector<fe_flat_constant> constants_;
  std::vector<fe_flat_node> nodes_;
  std::vector<fe_flat_attribute> attributes_;
  std::vector<fe_flat_range> texts_;
  std::vector<std::byte> data_;
};

/// Builds the graph from plain data that were already checked.
class Builder {
 public:
  Builder(const FlatGraph& flat, const std::string& weight_folder, const KeptWeights* weights = nullptr)
      : flat_(flat), weights_(weights), result_{Graph(std::string(flat.name()), weight_folder), {}, {}} {}

  Result<FlatRead> run() {
    FE_CHECK(symbols());
    const size_t inputs = flat_.inputs().size(), constants = flat_.constants().size();
    result_.values.reserve(flat_.values().size());
    for (size_t k = 0; k < inputs + constants; ++k) {
      const FlatGraph::Value& value = flat_.values()[k];
      FE_TRY(TensorType type, this->type(value));
      if (k < inputs) {
        FE_TRY(const ValueId id, graph().add_input(std::string(value.name), std::move(type)));
        result_.values.push_back(id);
      } else {
        FE_TRY(const ValueId id, constant(value, std::move(type), flat_.constants()[k - inputs]));
        result_.values.push_back(id);
      }
    }
    result_.nodes.reserve(flat_.nodes().size());
    for (const FlatGraph::Node& node : flat_.nodes()) FE_CHECK(this->node(node));
    FE_CHECK(signature());
    graph().commit();
    return std::move(result_);
  }

 private:
  Graph& graph() { return result_.graph; }

  Result<void> symbols() {
    SymbolTable& symbols = graph().symbols();
    for (const FlatGraph::Size& size : flat_.sizes()) {
      FE_TRY(const index::Symbol symbol,
             symbols.declare(std::string(size.name), {size.lo, size.hi}, size.divisor, size.hint));
      static_cast<void>(symbol);
    }
    std::vector<index::Record> records;
    for (const fe_flat_expr& expr : flat_.expressions()) {
      index::Record& record = records.emplace_back();
      record.op = static_cast<uint8_t>(expr.op);
      record.value = expr.value;
      record.lhs = expr.lhs;
      record.rhs = expr.rhs;
    }
    if (const auto status = symbols.pool().read_records(records, exprs_); !status)
      return error(FE_EINVALID, "FE-P34", "expression {}: {}", status.position,
                   index::describe(status.fault));
    for (const FlatGraph::Guard& guard : flat_.guards())
      graph().add_guard({exprs_[guard.lhs], exprs_[guard.rhs], static_cast<Relation>(guard.relation),
                         std::string(guard.by)});
    return {};
  }

  Result<TensorType> type(const FlatGraph::Value& value) {
    TensorType type;
    type.dtype = value.dtype;
    type.device = value.device;
    type.dims.reserve(value.dims.size());
    for (const int64_t dim : value.dims) {
      if (dim >= 0) {
        type.dims.push_back(dim);
      } else {
        FE_TRY(type.dims.emplace_back(), graph().symbols().dim(exprs_[static_cast<size_t>(-1 - dim)]));
      }
    }
    type.layout.kind = value.layout;
    type.layout.offset = value.offset;
    type.layout.alignment = value.alignment;
    type.layout.tag = value.tag;
    if (value.layout == FE_LAYOUT_STRIDED)
      type.layout.strides.assign(value.places.begin(), value.places.end());
    if (value.layout == FE_LAYOUT_BLOCKED)
      for (size_t k = 0; k < value.places.size(); k += 2)
        type.layout.blocks.push_back({static_cast<uint32_t>(value.places[k]), value.places[k + 1]});
    return type;
  }

  Result<ValueId> constant(const FlatGraph::Value& value, TensorType type, const FlatGraph::Constant& flat) {
    Constant constant;
    constant.kind = flat.kind;
    constant.bytes = flat.bytes;
    if (!weights_) {
      constant.file = flat.file;
      constant.offset = flat.file_offset;
    } else if (!flat.has_data) {
      const uint64_t size = weights_->bytes.size();
      if (flat.file != kept || flat.file_offset > size || flat.bytes > size - flat.file_offset)
        return error(FE_EINVALID, "FE-P34", "weight '{}' is not among those that are kept", value.name);
      constant.memory =
          std::shared_ptr<const std::byte>(weights_->owner, weights_->bytes.data() + flat.file_offset);
    }
    if (flat.has_data) {
      std::shared_ptr<std::byte[]> memory(new std::byte[flat.data.size() + 1]);
      std::copy(flat.data.begin(), flat.data.end(), memory.get());
      constant.memory = std::shared_ptr<const std::byte>(memory, memory.get());
    }
    // add_constant() would rename the constant silently if the name is taken.
    if (graph().find_value(value.name))
      return error(FE_EINVALID, "FE-G05", "the name '{}' is taken in the graph", value.name);
    return graph().add_constant(std::move(type), std::move(constant), std::string(value.name));
  }

  static AttributeValue value_of(const FlatGraph::Attribute& attribute) {
    switch (attribute.kind) {
      case FE_ATTR_INT: return attribute.integer();
      case FE_ATTR_FLOAT: return attribute.number();
      case FE_ATTR_STRING: return std::string(attribute.text);
      case FE_ATTR_DTYPE: return static_cast<DType>(attribute.bits);
      case FE_ATTR_BOOL: return attribute.bits != 0;
      case FE_ATTR_INTS: return std::vector<int64_t>(attribute.list.begin(), attribute.list.end());
      case FE_ATTR_FLOATS: {
        std::vector<double> numbers;
        for (const int64_t bits : attribute.list) numbers.push_back(std::bit_cast<double>(bits));
        return numbers;
      }
      default: return std::vector<std::string>(attribute.texts.begin(), attribute.texts.end());
    }
  }

  Result<void> node(const FlatGraph::Node& node) {
    NodeSpec spec;
    spec.op = node.op;
    spec.origin = node.origin;
    spec.made_by = node.made_by;
    for (const uint32_t operand : node.operands)
      spec.operands.push_back(operand == FE_NONE32 ? ValueId() : result_.values[operand]);
    for (const FlatGraph::Attribute& attribute : node.attributes)
      spec.attributes.push_back({std::string(attribute.name), value_of(attribute)});
    const auto results = flat_.values().subspan(node.first_result, node.results);
    for (const FlatGraph::Value& value : results) {
      FE_TRY(spec.types.emplace_back(), type(value));
    }
    FE_TRY(const NodeId id, graph().make(std::move(spec)));
    result_.nodes.push_back(id);
    for (size_t k = 0; k < results.size(); ++k) {
      const ValueId result = graph().node(id).results[k];
      result_.values.push_back(result);
      if (!results[k].name.empty()) FE_CHECK(graph().set_value_name(result, std::string(results[k].name)));
    }
    return {};
  }

  Result<void> signature() {
    if (const auto count = flat_.forward_outputs()) graph().set_forward_outputs(*count);
    for (uint32_t k = 0; k < flat_.inputs().size(); ++k) {
      const FlatGraph::Input& input = flat_.inputs()[k];
      if (input.mutated_by != FE_NONE32)
        FE_CHECK(graph().set_mutated_by(k, result_.values[input.mutated_by]));
      if (input.donated) FE_CHECK(graph().set_donated(k, true));
    }
    for (const FlatGraph::Output& output : flat_.outputs()) {
      FE_TRY(const uint32_t number,
             graph().add_output(std::string(output.name), result_.values[output.value]));
      if (output.alias_of == FE_NONE32 && output.strides.empty()) continue;
      const ValueId alias = output.alias_of == FE_NONE32 ? ValueId() : result_.values[output.alias_of];
      FE_CHECK(graph().set_output_place(number, alias, {output.strides.begin(), output.strides.end()}));
    }
    return {};
  }

  const FlatGraph& flat_;
  const KeptWeights* weights_ = nullptr;
  FlatRead result_;
  std::vector<index::Expr> exprs_;
};

}  // namespace

Result<FlatBytes> write_flat(const Graph& graph, const FlatOptions& options) {
  return Writer(graph, options, graph.nodes(), true).run();
}

Result<FlatBytes> write_flat(const Graph& graph, std::span<const NodeId> nodes, const FlatOptions& options) {
  std::vector<NodeId> sorted(nodes.begin(), nodes.end());
  for (const NodeId id : sorted)
    if (!graph.find(id))
      return error(FE_ESTALE, "FE-G03", "the handle names no node of graph '{}'", graph.name());
  std::sort(sorted.begin(), sorted.end(), [&](NodeId a, NodeId b) { return graph.comes_before(a, b); });
  sorted.erase(std::unique(sorted.begin(), sorted.end()), sorted.end());
  return Writer(graph, options, std::move(sorted), false).run();
}

namespace {

Result<FlatRead> read_flat(std::span<const std::byte> bytes, const std::string& weight_folder,
                           const KeptWeights* weights) {
  std::string fault;
  const auto flat = read_graph(bytes, &fault);
  if (!flat) return error(FE_EINVALID, "FE-P34", "{}", fault);
  return Builder(*flat, weight_folder, weights).run();
}

}  // namespace

Result<FlatRead> read_flat(std::span<const std::byte> bytes, const std::string& weight_folder) {
  return read_flat(bytes, weight_folder, nullptr);
}

Result<FlatRead> read_flat(std::span<const std::byte> bytes, const KeptWeights& weights) {
  return read_flat(bytes, {}, &weights);
}

}  // namespace ferrite::core::graph
