// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "driver/validate/samples/sample.h"

#include <algorithm>
#include <set>

#include "core/ir/graph/infer.h"
#include "core/ir/graph/print.h"
#include "core/passes/rewrite/language/attribute.h"
#include "core/passes/rewrite/language/condition.h"
#include "core/passes/rewrite/language/region.h"
#include "core/passes/rewrite/language/splat.h"
#include "core/passes/rewrite/language/structure.h"
#include "driver/validate/samples/wanted_sizes.h"

namespace ferrite::core::validate {

using graph::AttributeValue;
using graph::Graph;
using graph::NodeId;
using graph::TensorType;
using graph::ValueId;
using rewrite::Expression;
using rewrite::Operand;
using rewrite::OpTerm;

namespace {

constexpr size_t tries_of_a_term = 60, choosy_tries = 8, most_of_a_region = 3;

/// The captures that the yield reads as numbers.
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

/// The captured attributes that conditions may restrict to one value, by an equality or by bounds on both
/// sides; `$k >= 0` alone leaves many values.
std::vector<bool> asked_of(const rewrite::Rule& rule) {
  std::vector<bool> asked(rule.attributes.size()), bounded(rule.attributes.size());
  for (const auto& condition : rule.conditions)
    for_each_part(condition.expression, [&](const Expression& e) {
      if (e.kind < Expression::Kind::equal || e.kind > Expression::Kind::greater_equal) return;
      for_each_part(e, [&](const Expression& part) {
        if (part.kind != Expression::Kind::attribute) return;
        if (e.kind == Expression::Kind::equal || bounded[part.index]) asked[part.index] = true;
        bounded[part.index] = true;
      });
    });
  return asked;
}

bool is_permutation(const std::vector<int64_t>& list) {
  for (size_t k = 0; k < list.size(); ++k)
    if (std::ranges::find(list, static_cast<int64_t>(k)) == list.end()) return false;
  return true;
}

/// One graph under construction.
class Draft final : public rewrite::Bindings {
 public:
  /// The sources of the draws.
  struct Source {
    const Pools& pools;
    const std::vector<const graph::OpInfo*>& pointwise;
    const std::vector<double>& constants;  ///< how often each capture is a constant
    bool conditions;                       ///< whether they must hold
  };

  Draft(const rewrite::Rule& rule, const graph::OpRegistry& registry, const Source& source, const Plan& plan,
        Random& random)
      : rule_(rule),
        registry_(registry),
        source_(source),
        random_(random),
        drawer_(source.pools, plan, random),
        graph_("sample"),
        dtype_(plan.dtype),
        ways_(plan.ways),
        numbers_(captures_read_as_numbers(rule)),
        bound_(rewrite::bound_by(rule, [&](uint32_t choice) { return plan.ways[choice]; })) {
    captures_.resize(rule.captures.size());
    attributes_.resize(rule.attributes.size());
    nodes_.resize(rule.terms.size());
    decided_.resize(rule.conditions.size(), !source.conditions);
    regions_.resize(rule.regions.size());
    sizes_.resize(rule.dims.size());
  }

  std::optional<Sample> run() {
    for (uint32_t k = 0; k < rule_.terms.size(); ++k) {
      if (!bound_.terms[k]) continue;
      bool made = false;
      for (attempt_ = 0; attempt_ < tries_of_a_term && !made; ++attempt_) made = try_term(k);
      if (!made) return std::nullopt;
    }
    if (!add_outputs()) return std::nullopt;
    auto seen = what_is_seen();
    graph_.commit();
    return Sample{std::move(graph_), std::move(seen)};
  }

  /// As Rule::choices: those whose operand is part of the sample.
  const boost::dynamic_bitset<>& reached() const { return bound_.choices; }

  /// The operand after the drawn alternatives are applied.
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
    if (!like) like = TensorType{dtype_, drawer_.base(), {}, 0};
    for (size_t k = 0; k < term.operands.size(); ++k) {
      const Operand& operand = resolve(term.operands[k]);
      if (operand.kind != Operand::Kind::number) continue;
      // Numbers usually have the operand's type, but a selector is a boolean, and an index an integer.
      const double kind = random_.real();
      const DType dtype = kind < 0.2 ? DType::bool_ : kind < 0.3 ? DType::i64_ : like->dtype;
      spec.operands[k] = splat(dtype, drawer_.number_dims(like->dims), operand.number);
      if (!spec.operands[k]) return false;
    }
    const auto first =
        spec.operands.empty() || !spec.operands[0] ? like->dims : graph_.type(spec.operands[0]).dims;
    for (const auto& def : info.attributes) {
      if (auto value = attribute_for(index, def, first))
        spec.attributes.push_back({def.value.name, std::move(*value)});
    }
    auto made = graph::make_inferred(graph_, registry_, std::move(spec));
    if (!made || graph_.node(*made).results.size() < term.results.size()) return false;
    // An empty result cannot be compared.
    const auto& results = graph_.node(*made).results;
    const auto empty = [&](ValueId id) { return graph_.type(id).elements() == 0; };
    if (std::ranges::any_of(results, empty) && std::ranges::none_of(graph_.node(*made).operands, empty) &&
        random_.chance(0.95))
      return false;
    // Lists without effect, such as a slice of everything, show little of the rule; they are accepted for ops
    // that reject most drawn lists.
    if (attempt_ < choosy_tries && opens_list(term, info) && is_whole(*made) && random_.chance(0.5))
      return false;
    nodes_[index] = *made;
    return true;
  }

  /// Whether the match does not fix the attribute, and it is a list of integers that are no axes.
  static bool is_open_list(const OpTerm& term, const graph::OpInfo::AttributeDef& def) {
    if (def.value.kind() != FE_ATTR_INTS ||
        (def.flags & (FE_ATTRIBUTE_AXIS | FE_ATTRIBUTE_AXIS_OF_RESULT)) != 0)
      return false;
    const auto given = std::ranges::find(term.attributes, def.value.name, &rewrite::AttributeTerm::name);
    return given == term.attributes.end() || given->capture || given->computed;
  }
  static bool opens_list(const OpTerm& term, const graph::OpInfo& info) {
    return std::ranges::any_of(info.attributes, [&](const auto& def) { return is_open_list(term, def); });
  }

  /// Whether the result has the sizes of the first operand; not where a permutation may have moved them.
  bool is_whole(NodeId id) const {
    const graph::Node& node = graph_.node(id);
    if (node.operands.empty() || !node.operands[0]) return false;
    for (const auto& attribute : node.attributes)
      if (const auto* list = std::get_if<std::vector<int64_t>>(&attribute.value);
          list && list->size() > 1 && is_permutation(*list))
        return false;
    return graph_.type(node.results[0]).dims == graph_.type(node.operands[0]).dims;
  }

  bool make_region(uint32_t index) {
    const OpTerm& term = rule_.terms[index];
    const rewrite::Region& region = rule_.regions[*term.region];
    rewrite::RegionMatch made{operand_value(term.operands[0]), {}};
    if (!made.operand || source_.pointwise.empty()) return false;
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

  /// A random pointwise op that reads the value and others; none where several random ops reject it.
  NodeId make_pointwise(ValueId read) {
    for (size_t attempt = 0; attempt < tries_of_a_term; ++attempt) {
      const graph::OpInfo& info = *random_.pick(source_.pointwise);
      const size_t count = info.variadic() ? info.least_operands() + 1 : info.operands.size();
      if (count == 0) continue;
      const graph::Mark mark = graph_.mark();
      graph::NodeSpec spec;
      spec.op = info.name;
      for (size_t k = 0; k < count; ++k) spec.operands.push_back(draw_side(read, info));
      spec.operands[random_.below(count)] = read;
      for (const auto& def : info.attributes) {
        if (auto value = drawer_.attribute(def, graph_.type(read).dims))
          spec.attributes.push_back({def.value.name, std::move(*value)});
      }
      const auto made = graph::make_inferred(graph_, registry_, std::move(spec));
      if (made && graph_.node(*made).results.size() == 1) return *made;
      if (!graph_.rollback(mark)) return {};
    }
    return {};
  }

  /// The other operand of an op in a region: the same value, a number, or a value that a capture can have.
  ValueId draw_side(ValueId read, const graph::OpInfo& info) {
    const double kind = random_.real();
    if (kind < 0.15) return read;
    if (kind < 0.5) return splat(graph_.type(read).dtype, {}, random_.pick(source_.pools.numbers));
    return draw_value(info.name, rare_constants);
  }

  ValueId operand_value(const Operand& operand) {
    if (operand.kind == Operand::Kind::any) return draw_value("other", rare_constants);
    if (operand.kind == Operand::Kind::capture) {
      ValueId& bound = captures_[operand.index];
      if (!bound && numbers_[operand.index]) {
        // Separate statements: the order in which a call's arguments are evaluated depends on the C++
        // compiler, and samples must not.
        auto dims = drawer_.number_dims({});
        bound = splat(dtype_, std::move(dims), random_.pick(source_.pools.numbers));
      }
      if (!bound) bound = draw_value(rule_.captures[operand.index], source_.constants[operand.index]);
      return bound;
    }
    const ValueId made = value(operand);
    const auto& through = rule_.terms[operand.index].through;
    if (!made || through.empty() || random_.chance(0.5)) return made;
    graph::NodeSpec spec;
    spec.op = random_.pick(through);
    spec.operands = {made};
    for (const auto& def : registry_.find(spec.op)->attributes) {
      auto drawn = drawer_.attribute(def, graph_.type(made).dims);
      if (drawn) spec.attributes.push_back({def.value.name, std::move(*drawn)});
    }
    auto node = graph::make_inferred(graph_, registry_, std::move(spec));
    return node && !graph_.node(*node).results.empty() ? graph_.node(*node).results[0] : made;
  }

  /// The sizes of all tensors in the graph.
  std::vector<std::vector<graph::Dim>> sizes_there() const {
    std::vector<std::vector<graph::Dim>> sizes;
    for (const auto& input : graph_.inputs()) sizes.push_back(graph_.type(input.value).dims);
    for (const NodeId node : nodes_)
      if (node) sizes.push_back(graph_.type(graph_.node(node).results[0]).dims);
    return sizes;
  }

  ValueId draw_value(const std::string& name, double constant) {
    TensorType type;
    type.dtype = random_.chance(0.85) ? dtype_ : random_.pick(source_.pools.dtypes);
    type.dims = drawer_.dims(sizes_there());
    if (!fits_sample(type.dims)) return {};
    if (!random_.chance(constant)) {
      auto input = graph_.add_input(free_name(name), type);
      return input ? *input : ValueId();
    }
    if (random_.chance(0.5)) return splat(type.dtype, type.dims, random_.pick(source_.pools.numbers));
    const Contents contents = random_.chance(0.5) ? Contents::normal : Contents::whole;
    const Tensor bytes = random_tensor(type, contents, random_);
    auto literal = graph_.add_literal(std::move(type), bytes, free_name(name));
    return literal ? *literal : ValueId();
  }

  std::string free_name(std::string name) const {
    while (graph_.find_value(name)) name += "_";
    return name;
  }

  ValueId splat(DType dtype, std::vector<graph::Dim> dims, const rewrite::Number& number) {
    const auto element = rewrite::element_bytes(dtype, number);
    TensorType type;
    type.dtype = dtype;
    type.dims = std::move(dims);
    if (!element || bits_of(dtype) < 8 || !fits_sample(type.dims)) return {};
    Tensor bytes;
    for (int64_t k = 0; k < type.elements().value_or(0); ++k)
      bytes.insert(bytes.end(), element->begin(), element->end());
    auto literal = graph_.add_literal(std::move(type), bytes);
    return literal ? *literal : ValueId();
  }

  std::optional<AttributeValue> attribute_for(uint32_t index, const graph::OpInfo::AttributeDef& def,
                                              const std::vector<graph::Dim>& operand) {
    const OpTerm& term = rule_.terms[index];
    const auto drawn = [&]() -> std::optional<AttributeValue> {
      const auto open = std::ranges::count_if(registry_.find(term.op)->attributes,
                                              [&](const auto& other) { return is_open_list(term, other); });
      const auto elements = TensorType{dtype_, operand, {}, 0}.elements();
      if (open == 1 && is_open_list(term, def) && elements && random_.chance(0.85)) {
        Operand result;
        result.kind = Operand::Kind::matched;
        result.index = index;
        const auto evaluate = [&](const Expression& e) -> std::optional<AttributeValue> {
          if (!decidable(e)) return std::nullopt;
          auto value = rewrite::evaluate(graph_, splats_, e, *this);
          return value ? std::move(*value) : std::nullopt;
        };
        const auto as_drawn = [&](const Operand& operand) { return resolve(operand); };
        if (auto sizes = wanted_sizes(rule_, result, *elements, {as_drawn, evaluate}))
          return AttributeValue(std::move(*sizes));
      }
      return drawer_.attribute(def, operand);
    };
    for (const rewrite::AttributeTerm& given : term.attributes) {
      if (given.name != def.value.name) continue;
      if (given.computed) return computed(*given.computed, def, operand);
      if (!given.capture) return given.literal;
      auto& bound = attributes_[*given.capture];
      if (!bound) bound = drawn();
      if (!bound) bound = def.value.value;
      return bound;
    }
    return drawn();
  }

  /// The value of the expression after the names that it binds are drawn; a random value where it is
  /// undefined.
  std::optional<AttributeValue> computed(const Expression& e, const graph::OpInfo::AttributeDef& def,
                                         const std::vector<graph::Dim>& operand) {
    // An axis is below the rank; other integers that are named one by one, such as pad sizes, are small.
    const bool is_axis = (def.flags & (FE_ATTRIBUTE_AXIS | FE_ATTRIBUTE_AXIS_OF_RESULT)) != 0;
    const size_t values = std::max<size_t>(is_axis ? 1 : 3, operand.size());
    for_each_part(e, [&](const Expression& part) {
      if (part.kind != Expression::Kind::attribute || attributes_[part.index]) return;
      attributes_[part.index] = static_cast<int64_t>(random_.below(values));
    });
    auto value = rewrite::evaluate(graph_, splats_, e, *this);
    if (value && *value) {
      if (auto converted = rewrite::converted(std::move(**value), def.value.kind())) return converted;
    }
    return drawer_.attribute(def, operand);
  }

  /// Whether the conditions hold whose operands are all bound by now; each is evaluated once.
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

  std::vector<Seen> what_is_seen() const {
    std::vector<Seen> seen;
    const auto& result = graph_.type(graph_.outputs()[0].value);
    for (uint32_t k = 0; k < captures_.size(); ++k) {
      if (!captures_[k]) continue;
      const auto& type = graph_.type(captures_[k]);
      const std::string of = " of %" + rule_.captures[k];
      seen.push_back({Seen::What::rank, k, "rank" + of, std::to_string(type.dims.size())});
      seen.push_back({Seen::What::dtype, k, "dtype" + of, std::string(ferrite::name_of(type.dtype))});
      seen.push_back({Seen::What::sizes, k, "sizes" + of, kind_of(type.dims)});
      const bool constant = graph_.value(captures_[k]).kind == graph::ValueKind::constant;
      seen.push_back({Seen::What::operand, k, "%" + rule_.captures[k],
                      std::string(constant ? "constant" : "input") +
                          (type.dims == result.dims ? " of the result's sizes" : " of other sizes")});
    }
    for (uint32_t k = 0; k < rule_.choices.size(); ++k) {
      if (!bound_.choices[k]) continue;
      const rewrite::Choice& choice = rule_.choices[k];
      const std::string name = choice.name.empty()
                                   ? fmt::format("the choice at {}", rule_.where(choice.position))
                                   : "%" + choice.name;
      seen.push_back({Seen::What::alternative, k, name,
                      fmt::format("alternative {}, {}", ways_[k] + 1, name_of_way(choice.ways[ways_[k]]))});
    }
    uint32_t number = 0;
    for (uint32_t t = 0; t < rule_.terms.size(); ++t) {
      if (rule_.terms[t].region) continue;
      for (const auto& def : registry_.find(rule_.terms[t].op)->attributes) {
        if (nodes_[t]) see_attribute(t, number, def, seen);
        ++number;
      }
      see_use(t, seen);
      const OpTerm& term = rule_.terms[t];
      if (nodes_[t] && opens_list(term, *registry_.find(term.op)))
        seen.push_back({Seen::What::part, t, "result of " + name_of_term(term),
                        is_whole(nodes_[t]) ? as_large : of_other_sizes});
    }
    for (uint32_t k = 0; k < sizes_.size(); ++k)
      if (sizes_[k])
        seen.push_back(
            {Seen::What::dim, k, fmt::format("size {}", rule_.dims[k]), fmt::format("{}", *sizes_[k])});
    return seen;
  }

  /// Notes an attribute that the match does not fix.
  void see_attribute(uint32_t t, uint32_t number, const graph::OpInfo::AttributeDef& def,
                     std::vector<Seen>& seen) const {
    const OpTerm& term = rule_.terms[t];
    const auto given = std::ranges::find(term.attributes, def.value.name, &rewrite::AttributeTerm::name);
    bool open = given == term.attributes.end(), asked = false;
    const auto capture = [&](uint32_t index) {
      open = true;
      asked = asked || asked_[index];
    };
    if (!open && given->capture) capture(*given->capture);
    if (!open && given->computed)
      for_each_part(*given->computed, [&](const Expression& e) {
        if (e.kind == Expression::Kind::attribute) capture(e.index);
      });
    if (!open) return;
    const auto& attributes = graph_.node(nodes_[t]).attributes;
    const auto value = std::ranges::find(attributes, def.value.name, &graph::Attribute::name);
    seen.push_back(
        {asked ? Seen::What::asked : Seen::What::attribute, number,
         fmt::format("{} of {}", def.value.name, name_of_term(term)),
         graph::print_attribute_value(value == attributes.end() ? def.value.value : value->value)});
  }

  void see_use(uint32_t t, std::vector<Seen>& seen) const {
    const bool root = std::ranges::any_of(rule_.roots, [&](const auto& root) {
      return nodes_[t] && nodes_[resolve(root.value).index] == nodes_[t];
    });
    if (!nodes_[t] || rule_.terms[t].once || root) return;
    seen.push_back({Seen::What::use, t, "result of " + name_of_term(rule_.terms[t]),
                    is_output(graph_.node(nodes_[t]).results[0]) ? "read elsewhere" : "read here only"});
  }

  std::string name_of_way(const Operand& way) const {
    switch (way.kind) {
      case Operand::Kind::matched: return rule_.terms[way.index].op;
      case Operand::Kind::capture: return "%" + rule_.captures[way.index];
      case Operand::Kind::number: return fmt::format("{}", way.number.value);
      default: return "others";
    }
  }
  static std::string name_of_term(const OpTerm& term) {
    return term.results.empty() || term.results[0].empty()
               ? term.op
               : fmt::format("%{} = {}", term.results[0], term.op);
  }
  static std::string kind_of(const std::vector<graph::Dim>& dims) {
    const auto has = [&](graph::Dim size) { return std::ranges::find(dims, size) != dims.end(); };
    if (dims.empty()) return "scalar";
    if (has(0)) return "empty";
    if (std::ranges::count(dims, 1) == std::ssize(dims)) return one_element;
    if (has(1)) return "with ones";
    if (dims.size() == 1) return "one dim";
    return std::ranges::adjacent_find(dims, std::ranges::not_equal_to()) == dims.end() ? "equal" : "unequal";
  }
  bool is_output(ValueId id) const {
    return std::ranges::any_of(graph_.outputs(), [&](const auto& output) { return output.value == id; });
  }

  const rewrite::Rule& rule_;
  const graph::OpRegistry& registry_;
  const Source source_;
  Random& random_;
  Drawer drawer_;
  Graph graph_;
  const DType dtype_;
  std::vector<ValueId> captures_;
  std::vector<std::optional<AttributeValue>> attributes_;
  std::vector<NodeId> nodes_;
  std::vector<rewrite::RegionMatch> regions_;
  std::vector<std::optional<graph::Dim>> sizes_;
  std::vector<bool> decided_;
  const std::vector<bool> asked_ = asked_of(rule_);  // as Rule::attributes
  rewrite::SplatCache splats_;
  const std::vector<uint32_t> ways_;  // as Rule::choices
  const std::vector<bool> numbers_;
  const rewrite::Bound bound_;  // with the drawn alternatives
  size_t attempt_ = 0;          // at the current term
};

}  // namespace

std::optional<Sample> RuleSampler::draw() {
  Plan plan{dtypes_.next(random_), ranks_.next(random_), sizes_.next(random_), {}};
  for (auto& ways : ways_) plan.ways.push_back(ways.next(random_));
  Draft draft(rule_, registry_, {pools_, pointwise_, constants_, conditions_}, plan, random_);
  // A choice within an alternative that was not taken was not used.
  reached_ = draft.reached();
  for (size_t k = 0; k < ways_.size(); ++k)
    if (!reached_[k]) ways_[k].unused();
  return draft.run();
}

void RuleSampler::declined() {
  // A rule whose yield changes types is not applied. Such a sample shows it only where types agree by chance,
  // which equal sizes make likely.
  constexpr double least = 0.1, most = 6;
  if (equal_weight_ >= most) return;
  equal_weight_ += least;
  sizes_.add(Plan::Sizes::equal, least);
}

void RuleSampler::matched() {
  dtypes_.worked();
  ranks_.worked();
  sizes_.worked();
  for (size_t k = 0; k < ways_.size(); ++k)
    if (reached_[k]) ways_[k].worked();
}

}  // namespace ferrite::core::validate
