// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/trust/sample.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <set>

#include "core/graph/infer.h"
#include "core/rewrite/attribute.h"
#include "core/rewrite/condition.h"
#include "core/rewrite/region.h"
#include "core/rewrite/splat.h"
#include "core/rewrite/structure.h"

namespace ferrite::core::trust {

using graph::AttributeValue;
using graph::Graph;
using graph::NodeId;
using graph::TensorType;
using graph::ValueId;
using rewrite::Expression;
using rewrite::Operand;
using rewrite::OpTerm;

namespace {

constexpr size_t tries_of_a_term = 60, most_of_a_region = 3;

/// The captures whose number the yield asks for.
std::vector<bool> captures_read_as_numbers(const rewrite::Rule& rule) {
  std::vector<bool> read(rule.captures.size());
  for (const OpTerm& term : rule.yields)
    for (const auto& attribute : term.attributes)
      if (attribute.computed)
        for_each_part(*attribute.computed, [&](const Expression& e) {
          if (e.kind == Expression::Kind::value_of && e.value.kind == Operand::Kind::capture)
            read[e.value.index] = true;
        });
  return read;
}

/// One graph in the making.
class Draft final : public rewrite::Bindings {
 public:
  struct Pools {
    const std::vector<DType>& dtypes;
    const std::vector<int64_t>&sizes, &ranks;
    const std::vector<rewrite::Number>& numbers;
    const std::vector<std::string>& strings;
    const std::vector<const graph::OpInfo*>& pointwise;
    const SizeHints& hints;
    double constants;
    bool empty;  ///< one of the sizes is 0
  };

  Draft(const rewrite::Rule& rule, const graph::OpRegistry& registry, const Pools& pools, Random& random)
      : rule_(rule),
        registry_(registry),
        pools_(pools),
        random_(random),
        graph_("sample"),
        numbers_(captures_read_as_numbers(rule)),
        bound_(rule) {
    for (const rewrite::Choice& choice : rule.choices)
      ways_.push_back(static_cast<uint32_t>(random_.below(choice.ways.size())));
    bound_ = rewrite::bound_by(rule, [&](uint32_t choice) { return ways_[choice]; });
    captures_.resize(rule.captures.size());
    attributes_.resize(rule.attributes.size());
    nodes_.resize(rule.terms.size());
    decided_.resize(rule.conditions.size());
    regions_.resize(rule.regions.size());
    sizes_.resize(rule.dims.size());
    dtype_ = random_.pick(pools_.dtypes);
    const int64_t rank = random_.pick(pools_.ranks);
    const bool square = random_.chance(0.25);
    const int64_t side = random_.pick(pools_.sizes);
    dims_.resize(static_cast<size_t>(rank), side);
    if (!square) draw_sizes(dims_);
    if (random_.chance(0.7)) follow_hints(dims_);
    if (pools_.empty && rank > 0) dims_[random_.below(dims_.size())] = 0;
  }

  std::optional<Graph> run() {
    for (uint32_t k = 0; k < rule_.terms.size(); ++k) {
      if (!bound_.terms[k]) continue;
      bool made = false;
      for (size_t attempt = 0; attempt < tries_of_a_term && !made; ++attempt) made = try_term(k);
      if (!made) return std::nullopt;
    }
    if (!add_outputs()) return std::nullopt;
    graph_.commit();
    return std::move(graph_);
  }

  /// The operand behind the alternatives that were drawn.
  const Operand& resolve(const Operand& operand) const {
    const Operand* last = &operand;
    while (last->kind == Operand::Kind::choice) last = &rule_.choices[last->index].ways[ways_[last->index]];
    return *last;
  }
  ValueId value(const Operand& read) const override {
    const Operand& operand = resolve(read);
    if (operand.kind == Operand::Kind::capture) return captures_[operand.index];
    if (operand.kind != Operand::Kind::matched || !nodes_[operand.index]) return {};
    const auto& results = graph_.node(nodes_[operand.index]).results;
    return operand.result < results.size() ? results[operand.result] : ValueId();
  }
  const AttributeValue* attribute(uint32_t index) const override {
    return attributes_[index] ? &*attributes_[index] : nullptr;
  }
  std::optional<graph::Dim> dimension(uint32_t index) const override { return sizes_[index]; }
  const rewrite::RegionMatch* region(uint32_t index) const override {
    return regions_[index].nodes.empty() ? nullptr : &regions_[index];
  }
  Result<bool> predicate(uint32_t) override {
    return false;
  }  // conditions with predicates are not decided here

 private:
  bool try_term(uint32_t index) {
    const graph::Mark mark = graph_.mark();
    const auto captures = captures_;
    const auto attributes = attributes_;
    const auto decided = decided_;
    const auto regions = regions_;
    const auto sizes = sizes_;
    if ((rule_.terms[index].region ? make_region(index) : make_term(index)) && conditions_hold()) return true;
    regions_ = regions;
    sizes_ = sizes;
    captures_ = captures;
    attributes_ = attributes;
    decided_ = decided;
    nodes_[index] = {};
    return !graph_.rollback(mark);
  }

  bool make_term(uint32_t index) {
    const OpTerm& term = rule_.terms[index];
    const graph::OpInfo& info = *registry_.find(term.op);
    graph::NodeSpec spec;
    spec.op = term.op;
    spec.operands.resize(term.operands.size());
    std::optional<TensorType> like;
    for (size_t k = 0; k < term.operands.size(); ++k) {
      const Operand& operand = resolve(term.operands[k]);
      if (operand.kind == Operand::Kind::number || operand.kind == Operand::Kind::none) continue;
      spec.operands[k] = operand_value(operand);
      if (!spec.operands[k]) return false;
      if (!like || like->dtype == DType::bool_) like = graph_.type(spec.operands[k]);
    }
    if (!like) like = TensorType{dtype_, dims_, {}, 0};
    for (size_t k = 0; k < term.operands.size(); ++k) {
      const Operand& operand = resolve(term.operands[k]);
      if (operand.kind != Operand::Kind::number) continue;
      spec.operands[k] = splat(like->dtype, number_dims(*like), operand.number);
      if (!spec.operands[k]) return false;
    }
    for (const auto& def : info.attributes) {
      if (auto value = attribute_for(term, def))
        spec.attributes.push_back({def.value.name, std::move(*value)});
    }
    auto made = graph::make_inferred(graph_, registry_, std::move(spec));
    if (!made || graph_.node(*made).results.size() < term.results.size()) return false;
    nodes_[index] = *made;
    return true;
  }

  bool make_region(uint32_t index) {
    const OpTerm& term = rule_.terms[index];
    const rewrite::Region& region = rule_.regions[*term.region];
    rewrite::RegionMatch made{operand_value(term.operands[0]), {}};
    if (!made.operand || pools_.pointwise.empty()) return false;
    ValueId result = made.operand;
    for (size_t left = 1 + random_.below(most_of_a_region); left > 0; --left) {
      const NodeId node = make_pointwise(result);
      if (!node) return false;
      made.nodes.push_back(node);
      result = graph_.node(node).results[0];
    }
    nodes_[index] = made.nodes.back();
    regions_[*term.region] = made;
    return rewrite::bind_dims(region, graph_.type(result), sizes_) &&
           rewrite::bind_dims(region, graph_.type(made.operand), sizes_);
  }

  /// A drawn op that reads the value, and others; none where none of a few takes it.
  NodeId make_pointwise(ValueId read) {
    for (size_t attempt = 0; attempt < tries_of_a_term; ++attempt) {
      const graph::OpInfo& info = *random_.pick(pools_.pointwise);
      const size_t count = info.variadic() ? info.least_operands() + 1 : info.operands.size();
      if (count == 0) continue;
      const graph::Mark mark = graph_.mark();
      graph::NodeSpec spec;
      spec.op = info.name;
      for (size_t k = 0; k < count; ++k) spec.operands.push_back(draw_side(read, info));
      spec.operands[random_.below(count)] = read;
      for (const auto& def : info.attributes) {
        if (auto value = draw_attribute(def)) spec.attributes.push_back({def.value.name, std::move(*value)});
      }
      const auto made = graph::make_inferred(graph_, registry_, std::move(spec));
      if (made && graph_.node(*made).results.size() == 1) return *made;
      if (!graph_.rollback(mark)) return {};
    }
    return {};
  }

  /// What an op of a region reads beside the operand: the same value, a number, or what a capture can be.
  ValueId draw_side(ValueId read, const graph::OpInfo& info) {
    const double kind = random_.real();
    if (kind < 0.15) return read;
    if (kind < 0.5) return splat(graph_.type(read).dtype, {}, random_.pick(pools_.numbers));
    return draw_value(info.name);
  }

  ValueId operand_value(const Operand& operand) {
    if (operand.kind == Operand::Kind::any) return draw_value("other");
    if (operand.kind == Operand::Kind::capture) {
      ValueId& bound = captures_[operand.index];
      if (!bound && numbers_[operand.index]) bound = splat(dtype_, {}, random_.pick(pools_.numbers));
      if (!bound) bound = draw_value(rule_.captures[operand.index]);
      return bound;
    }
    const ValueId made = value(operand);
    const auto& through = rule_.terms[operand.index].through;
    if (!made || through.empty() || random_.chance(0.5)) return made;
    graph::NodeSpec spec;
    spec.op = random_.pick(through);
    spec.operands = {made};
    for (const auto& def : registry_.find(spec.op)->attributes) {
      auto drawn = draw_attribute(def);
      if (drawn) spec.attributes.push_back({def.value.name, std::move(*drawn)});
    }
    auto node = graph::make_inferred(graph_, registry_, std::move(spec));
    return node && !graph_.node(*node).results.empty() ? graph_.node(*node).results[0] : made;
  }

  /// The sizes of a capture, mostly ones that go with the others.
  std::vector<graph::Dim> draw_dims() {
    std::vector<graph::Dim> dims = dims_;
    const double kind = random_.real();
    if (kind < 0.5 || dims.empty()) return dims;
    if (kind < 0.62) {  // broadcast along some dims
      for (auto& dim : dims)
        if (random_.chance(0.5)) dim = 1;
    } else if (kind < 0.72) {  // the last dims
      dims.erase(dims.begin(), dims.begin() + static_cast<std::ptrdiff_t>(random_.below(dims.size() + 1)));
    } else if (kind < 0.78) {
      dims.clear();
    } else if (kind < 0.86 && dims.size() >= 2) {
      std::swap(dims[dims.size() - 1], dims[dims.size() - 2]);
    } else {
      draw_sizes(dims);
      if (random_.chance(0.5)) follow_hints(dims);
    }
    return dims;
  }

  void draw_sizes(std::vector<graph::Dim>& dims) {
    for (auto& dim : dims) dim = random_.pick(pools_.sizes);
  }

  /// What the conditions ask for, as far as the whole stays below most_elements: what was drawn gives way.
  void follow_hints(std::vector<graph::Dim>& dims) {
    const SizeHints& hints = pools_.hints;
    if (!hints.shapes.empty() && random_.chance(0.7)) {
      dims = random_.pick(hints.shapes);
      return;
    }
    std::vector<bool> asked(dims.size());
    for (size_t d = 0; d < dims.size(); ++d) {
      std::vector<int64_t> fitting;
      for (const auto& hint : hints.sizes)
        if (hint.fits(d, dims.size())) fitting.push_back(hint.size);
      if (fitting.empty() || !random_.chance(0.8)) continue;
      dims[d] = random_.pick(fitting);
      asked[d] = true;
    }
    if (!hints.elements.empty() && !dims.empty() && random_.chance(0.8)) {
      const size_t filled = random_.below(dims.size());
      const bool flat = random_.chance(0.5);
      for (size_t d = 0; d < dims.size(); ++d)
        if (flat && !asked[d]) dims[d] = 1;
      dims[filled] = 1;
      const int64_t others = std::max<int64_t>(1, TensorType{dtype_, dims, {}, 0}.elements().value_or(0));
      const int64_t wanted = random_.pick(hints.elements);
      dims[filled] = (wanted + others - 1) / others;
    }
    for (const bool given : {false, true})
      for (size_t d = 0; d < dims.size(); ++d)
        if (asked[d] == given && too_large(dims)) dims[d] = 1;
  }

  bool too_large(const std::vector<graph::Dim>& dims) const {
    const auto elements = TensorType{dtype_, dims, {}, 0}.elements();
    return !elements || *elements > most_elements;
  }

  ValueId draw_value(const std::string& name) {
    TensorType type;
    type.dtype = random_.chance(0.8) ? dtype_ : random_.pick(pools_.dtypes);
    type.dims = draw_dims();
    if (!random_.chance(pools_.constants)) {
      auto input = graph_.add_input(free_name(name), type);
      return input ? *input : ValueId();
    }
    if (random_.chance(0.5)) return splat(type.dtype, type.dims, random_.pick(pools_.numbers));
    const Contents contents = random_.chance(0.5) ? Contents::normal : Contents::whole;
    const Tensor bytes = random_tensor(type, contents, random_);
    auto literal = graph_.add_literal(std::move(type), bytes, free_name(name));
    return literal ? *literal : ValueId();
  }

  std::string free_name(std::string name) const {
    while (graph_.find_value(name)) name += "_";
    return name;
  }

  std::vector<graph::Dim> number_dims(const TensorType& like) {
    const double kind = random_.real();
    if (kind < 0.6) return {};
    return kind < 0.8 ? std::vector<graph::Dim>{1} : like.dims;
  }

  ValueId splat(DType dtype, std::vector<graph::Dim> dims, const rewrite::Number& number) {
    const auto element = rewrite::element_bytes(dtype, number);
    TensorType type;
    type.dtype = dtype;
    type.dims = std::move(dims);
    if (!element || bits_of(dtype) < 8 || too_large(type.dims)) return {};
    Tensor bytes;
    for (int64_t k = 0; k < type.elements().value_or(0); ++k)
      bytes.insert(bytes.end(), element->begin(), element->end());
    auto literal = graph_.add_literal(std::move(type), bytes);
    return literal ? *literal : ValueId();
  }

  std::optional<AttributeValue> attribute_for(const OpTerm& term, const graph::OpInfo::AttributeDef& def) {
    for (const rewrite::AttributeTerm& given : term.attributes) {
      if (given.name != def.value.name) continue;
      if (given.computed) return computed(*given.computed, def);
      if (!given.capture) return given.literal;
      auto& bound = attributes_[*given.capture];
      if (!bound) bound = draw_attribute(def);
      if (!bound) bound = def.value.value;
      return bound;
    }
    return draw_attribute(def);
  }

  /// What the expression is once names that it binds are drawn; a drawn one where it is not defined.
  std::optional<AttributeValue> computed(const Expression& e, const graph::OpInfo::AttributeDef& def) {
    for_each_part(e, [&](const Expression& part) {
      if (part.kind != Expression::Kind::attribute || attributes_[part.index]) return;
      attributes_[part.index] = static_cast<int64_t>(random_.below(std::max<size_t>(1, dims_.size())));
    });
    auto value = rewrite::evaluate(graph_, splats_, e, *this);
    if (value && *value) {
      if (auto converted = rewrite::converted(std::move(**value), def.value.kind())) return converted;
    }
    return draw_attribute(def);
  }

  /// None: the default.
  std::optional<AttributeValue> draw_attribute(const graph::OpInfo::AttributeDef& def) {
    if (!def.required && random_.chance(0.5)) return std::nullopt;
    const auto rank = static_cast<int64_t>(dims_.size());
    const auto integer = [&] {
      return static_cast<int64_t>(random_.below(static_cast<uint64_t>(rank) + 3)) - 1;
    };
    switch (def.value.kind()) {
      case FE_ATTR_INT: return AttributeValue(integer());
      case FE_ATTR_FLOAT: return AttributeValue(random_.pick(pools_.numbers).value);
      case FE_ATTR_DTYPE: return AttributeValue(random_.pick(pools_.dtypes));
      case FE_ATTR_BOOL: return AttributeValue(random_.chance(0.5));
      case FE_ATTR_INTS: return AttributeValue(draw_integers(integer));
      case FE_ATTR_STRING:
        if (pools_.strings.empty()) return std::nullopt;
        return AttributeValue(random_.pick(pools_.strings));
      default: return std::nullopt;
    }
  }

  /// A list that may be axes, a permutation or a shape.
  std::vector<int64_t> draw_integers(const auto& integer) {
    std::vector<int64_t> list(dims_.size());
    switch (random_.below(5)) {
      case 0: return {integer()};
      case 1: return {-1};
      case 2:
        std::iota(list.begin(), list.end(), int64_t{0});
        for (size_t k = list.size(); k > 1; --k) std::swap(list[k - 1], list[random_.below(k)]);
        return list;
      case 3: return {dims_.rbegin(), dims_.rend()};
      default:
        for (auto& item : list) item = random_.chance(0.5) ? 1 : integer();
        return list;
    }
  }

  /// Those over what is bound by now; each is asked once.
  bool conditions_hold() {
    for (size_t k = 0; k < rule_.conditions.size(); ++k) {
      const Expression& condition = rule_.conditions[k].expression;
      if (decided_[k] || !decidable(condition)) continue;
      decided_[k] = true;
      const auto holding = rewrite::holds(graph_, splats_, condition, *this);
      if (!holding || !*holding) return false;
    }
    return true;
  }

  bool decidable(const Expression& condition) const {
    bool known = true;
    for_each_part(condition, [&](const Expression& e) {
      if (e.kind == Expression::Kind::predicate || e.kind == Expression::Kind::uses_of) known = false;
      if (rewrite::reads_value(e.kind) && !value(e.value)) known = false;
      if (e.kind == Expression::Kind::dimension && !sizes_[e.index]) known = false;
      if (e.kind == Expression::Kind::side_rank_of && !region(e.index)) known = false;
      if (e.kind == Expression::Kind::attribute && !attributes_[e.index]) known = false;
    });
    return known;
  }

  bool add_outputs() {
    std::set<ValueId> added;
    const auto add = [&](ValueId id) {
      if (!id || !added.insert(id).second) return true;
      return bool(graph_.add_output(fmt::format("out{}", added.size() - 1), id));
    };
    for (const auto& replacement : rule_.replacements)
      if (!add(value(replacement.from))) return false;
    for (const auto& root : rule_.roots)
      for (const ValueId result : graph_.node(nodes_[resolve(root.value).index]).results)
        if (!add(result)) return false;
    for (size_t k = 0; k < rule_.terms.size(); ++k)
      if (nodes_[k] && !rule_.terms[k].once && random_.chance(0.2) && !add(graph_.node(nodes_[k]).results[0]))
        return false;
    return true;
  }

  const rewrite::Rule& rule_;
  const graph::OpRegistry& registry_;
  const Pools pools_;
  Random& random_;
  Graph graph_;
  DType dtype_ = DType::none;
  std::vector<graph::Dim> dims_;
  std::vector<ValueId> captures_;
  std::vector<std::optional<AttributeValue>> attributes_;
  std::vector<NodeId> nodes_;
  std::vector<rewrite::RegionMatch> regions_;
  std::vector<std::optional<graph::Dim>> sizes_;
  std::vector<bool> decided_;
  rewrite::SplatCache splats_;
  std::vector<uint32_t> ways_;  // as Rule::choices
  const std::vector<bool> numbers_;
  rewrite::Bound bound_;  // by the alternatives drawn
};

}  // namespace

RuleSampler::RuleSampler(const rewrite::Rule& rule, const graph::OpRegistry& registry, uint64_t seed)
    : rule_(rule),
      registry_(registry),
      random_(seed),
      sizes_{1, 2, 3, 4},
      ranks_{0, 1, 2, 2, 3, 4},
      hints_(size_hints(rule)) {
  dtypes_ = {f32, f32, f32, f32, f32, f32, f64, f16, bf16, i64, i32, i8, u8, boolean};
  for (const double number : {0.0, 1.0, 2.0, -1.0, 0.5}) numbers_.push_back({number, std::nullopt});
  const auto mention = [&](const AttributeValue& value) {
    if (const auto* dtype = std::get_if<DType>(&value)) {
      if (comparable(*dtype)) dtypes_.insert(dtypes_.end(), 6, *dtype);
    } else if (const auto* text = std::get_if<std::string>(&value)) {
      strings_.push_back(*text);
    } else if (const auto* number = std::get_if<double>(&value)) {
      numbers_.push_back({*number, std::nullopt});
    } else if (const auto* integer = std::get_if<int64_t>(&value)) {
      numbers_.push_back({static_cast<double>(*integer), *integer});
      if (*integer >= 0 && *integer <= 8) ranks_.insert(ranks_.end(), 3, *integer);
      if (*integer >= 1 && *integer <= 16) sizes_.push_back(*integer);
    }
  };
  ranks_.insert(ranks_.end(), hints_.ranks.begin(), hints_.ranks.end());
  for (const auto& condition : rule.conditions)
    for_each_part(condition.expression, [&](const Expression& e) {
      if (e.kind <= Expression::Kind::list) mention(e.literal);
      if (e.kind == Expression::Kind::constant_of || e.kind == Expression::Kind::value_of ||
          e.kind == Expression::Kind::predicate)
        constants_ = 0.5;
    });
  for (const auto* terms : {&rule.terms, &rule.yields})
    for (const OpTerm& term : *terms)
      for (const auto& attribute : term.attributes)
        if (const auto* text = std::get_if<std::string>(&attribute.literal); text && !attribute.capture)
          strings_.push_back(*text);
  read_regions();
}

/// What regions are over are ranks and sizes that their samples need.
void RuleSampler::read_regions() {
  if (rule_.regions.empty()) return;
  for (const graph::OpInfo* info : registry_.all()) {
    if (rewrite::pointwise(*info)) pointwise_.push_back(info);
  }
  for (const rewrite::Region& region : rule_.regions) {
    if (!region.over) continue;
    ranks_.assign(1, static_cast<int64_t>(region.over->size()));
    for (const rewrite::RegionDim& dim : *region.over) {
      if (dim.kind == rewrite::RegionDim::Kind::size && dim.size <= 64) sizes_.push_back(dim.size);
    }
  }
}

std::optional<Graph> RuleSampler::draw() {
  const bool empty = drawn_++ % 6 == 5;
  return Draft(rule_, registry_,
               {dtypes_, sizes_, ranks_, numbers_, strings_, pointwise_, hints_, constants_, empty}, random_)
      .run();
}

}  // namespace ferrite::core::trust
