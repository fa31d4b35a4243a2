// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/select/claims.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <queue>
#include <set>

#include "core/ir/flat/flat_graph.h"
#include "core/ir/graph/infer.h"
#include "core/support/abi/abi.h"
#include "core/support/hash.h"
#include "ferrite/flat_graph.hpp"
#include "runtime/launch_bounds.h"
#include "runtime/plugin/serialised_calls.h"

namespace ferrite::core::select {
namespace {

using graph::Graph;
using graph::NodeId;
using graph::ValueId;
using runtime::Compiler;

struct Layout {
  std::string tag;
  int64_t bytes = 0;
  friend bool operator==(const Layout&, const Layout&) = default;
};

/// A provider's claim of a region.
struct Claim {
  uint32_t device = 0;
  size_t rank = 0;  ///< of the provider
  const Compiler* compiler = nullptr;
  uint64_t id = 0;
  std::string name;
  double cost = 0;
  std::vector<NodeId> nodes;  ///< in the graph's order
  std::string subject;        ///< the nodes, for messages
  std::map<ValueId, Layout> layouts;
  std::string fault;  ///< the reason why it cannot be taken; empty: none
};

/// Whether each set of nodes could be contracted to one node: no path leaves a set and returns to it, and
/// there is no cycle through several sets.
bool can_contract(const Graph& graph, std::span<const Claim* const> claims) {
  std::map<NodeId, size_t> item;
  size_t count = 0;
  for (const auto* claim : claims) {
    for (NodeId id : claim->nodes) item[id] = count;
    ++count;
  }
  for (NodeId id = graph.first(); id; id = graph.next(id))
    if (!item.count(id)) item[id] = count++;
  std::vector<std::set<size_t>> after(count);
  std::vector<size_t> waits(count);
  for (NodeId id = graph.first(); id; id = graph.next(id))
    for (ValueId operand : graph.node(id).operands) {
      if (!operand || !graph.value(operand).producer) continue;
      const size_t from = item.at(graph.value(operand).producer), to = item.at(id);
      if (from != to && after[from].insert(to).second) ++waits[to];
    }
  std::vector<size_t> ready;
  for (size_t k = 0; k < count; ++k)
    if (waits[k] == 0) ready.push_back(k);
  size_t done = 0;
  for (; !ready.empty(); ++done) {
    const size_t k = ready.back();
    ready.pop_back();
    for (size_t next : after[k])
      if (--waits[next] == 0) ready.push_back(next);
  }
  return done == count;
}

/// One provider's claims in the whole graph.
Result<std::vector<Claim>> ask(const Graph& graph, const graph::FlatBytes& flat, uint32_t device, size_t rank,
                               const Compiler& compiler) {
  struct Taken {
    const Graph& graph;
    const graph::FlatBytes& flat;
    std::vector<Claim> claims;
  } taken{graph, flat, {}};
  abi::Call call;
  auto args = abi::sized<fe_claim_args>();
  args.target = compiler.target.target;
  args.graph = {flat.bytes.data(), flat.bytes.size(), 1};
  auto out = abi::sized<fe_claim_out>();
  out.host = &taken;
  out.add = [](void* host, const fe_claim* given) -> int32_t {
    auto& to = *static_cast<Taken*>(host);
    if (!given) return FE_EINVALID;
    const auto read = abi::read(given);
    auto& claim = to.claims.emplace_back();
    claim.id = read.id;
    claim.name = abi::view(read.name);
    claim.cost = read.cost;
    if (!std::isfinite(read.cost) || read.cost < 0) claim.fault = "its cost is not a valid time";
    if (!abi::readable<uint32_t>(read.nodes) || !abi::readable<fe_claim_layout>(read.layouts)) {
      claim.fault = "its lists cannot be read";
      return FE_OK;
    }
    std::set<uint32_t> numbers;
    for (uint64_t k = 0; k < read.nodes.count; ++k) numbers.insert(abi::element<uint32_t>(read.nodes, k));
    if (numbers.empty() || *numbers.rbegin() >= to.flat.nodes.size())
      claim.fault = "it names a node that does not exist";
    for (uint32_t number : numbers)
      if (claim.fault.empty()) claim.nodes.push_back(to.flat.nodes[number]);
    for (uint64_t k = 0; k < read.layouts.count && claim.fault.empty(); ++k) {
      const auto layout = abi::element<fe_claim_layout>(read.layouts, k);
      if (layout.value >= to.flat.values.size() || layout.bytes <= 0 || abi::view(layout.layout).empty())
        claim.fault = "a layout is for a value that does not exist, or takes no bytes";
      else
        claim.layouts[to.flat.values[layout.value]] = {abi::string(layout.layout), layout.bytes};
    }
    return FE_OK;
  };
  const int32_t status = plugin::invoke(*compiler.table, compiler.slots.claim, call, &args, &out);
  if (status == FE_EUNSUPPORTED) return std::vector<Claim>();
  if (status != FE_OK)
    return at(compiler.id, call.error(status, "FE-S23", "the provider could not claim anything"));
  for (auto& claim : taken.claims) {
    claim.device = device;
    claim.rank = rank;
    claim.compiler = &compiler;
  }
  return std::move(taken.claims);
}

class Claims {
 public:
  Claims(Graph& graph, const runtime::Devices& devices, CandidateBlocklist& blocklist, Ledger& ledger)
      : graph_(graph), devices_(devices), blocklist_(blocklist), ledger_(ledger) {}

  Result<std::vector<Region>> run() {
    FE_CHECK(collect());
    choose();
    // Layouts depend on which regions are taken. Where one does not compile, the others are compiled again
    // without it.
    while (!taken_.empty()) {
      FE_TRY(const bool all, compile());
      if (all) break;
    }
    if (taken_.empty()) return std::vector<Region>();
    FE_CHECK(cut());
    return std::move(regions_);
  }

 private:
  /// The name of a region in messages; available while its nodes exist.
  std::string describe(const Claim& claim) const {
    if (claim.nodes.empty()) return claim.name;
    const auto first = graph_.describe(claim.nodes.front());
    return claim.nodes.size() == 1 ? first : fmt::format("{} and {} more", first, claim.nodes.size() - 1);
  }
  void record(const Claim& claim, std::string_view outcome, std::string_view category, std::string text) {
    ledger_.add({"claim", claim.subject, fmt::format("{} of {}", claim.name, claim.compiler->id),
                 std::string(outcome), std::string(category), std::move(text), claim.cost});
  }

  Result<void> collect() {
    FE_TRY(const auto flat, graph::write_flat(graph_));
    for (uint32_t d = 0; d < devices_.size(); ++d)
      for (size_t k = 0; k < devices_[d]->compilers.size(); ++k) {
        const auto& compiler = devices_[d]->compilers[k];
        if (!compiler.slots.claim) continue;
        auto claims = ask(graph_, flat, d, k, compiler);
        if (!claims && blocklist_.forgive(compiler, claims.error(), ledger_)) continue;
        if (!claims) return std::move(claims.error());
        for (auto& claim : *claims) {
          claim.subject = describe(claim);
          claims_.push_back(std::move(claim));
        }
      }
    return {};
  }

  void choose() {
    std::ranges::stable_sort(claims_, [](const Claim& a, const Claim& b) {
      return std::tuple(a.device, a.rank, a.cost) < std::tuple(b.device, b.rank, b.cost);
    });
    std::set<NodeId> owned;
    for (auto& claim : claims_) {
      if (claim.fault.empty()) claim.fault = unfit(claim);
      if (!claim.fault.empty()) {
        record(claim, "refused", "unfit", claim.fault);
        continue;
      }
      if (std::ranges::any_of(claim.nodes, [&](NodeId id) { return owned.count(id) != 0; })) {
        record(claim, "refused", "overlap", "another region has one of its nodes");
        continue;
      }
      taken_.push_back(&claim);
      if (!can_contract(graph_, taken_)) {
        taken_.pop_back();
        record(claim, "refused", "cycle", "its results come back to it through other nodes");
        continue;
      }
      owned.insert(claim.nodes.begin(), claim.nodes.end());
    }
  }

  /// The reason why the claimed nodes cannot become a region; empty where they can.
  std::string unfit(const Claim& claim) const {
    for (NodeId id : claim.nodes) {
      for (ValueId value : graph_.node(id).operands)
        if (value && !graph_.type(value).bytes()) return "a size of an operand is not known";
      for (ValueId value : graph_.node(id).results) {
        if (!graph_.type(value).bytes()) return "a size of a result is not known";
        for (const auto& use : graph_.value(value).uses)
          if (!use.user && use.index & graph::Use::mutation)
            return "it computes the new contents of an input";
      }
    }
    return {};
  }

  // ---- layouts and compilation

  /// The opaque layout of a value that only regions of one provider make and read; none otherwise.
  std::optional<Layout> layout_of(ValueId value, const std::map<NodeId, const Claim*>& owner) const {
    const auto& v = graph_.value(value);
    auto wanted = [&](NodeId node) -> std::pair<const Compiler*, const Layout*> {
      const auto claim = owner.find(node);
      if (claim == owner.end()) return {};
      const auto layout = claim->second->layouts.find(value);
      return {claim->second->compiler, layout == claim->second->layouts.end() ? nullptr : &layout->second};
    };
    if (!v.producer || graph_.is_output(value)) return {};
    const auto [maker, made] = wanted(v.producer);
    if (!made) return {};
    for (NodeId user : graph_.users(value)) {
      if (owner.count(user) && owner.at(user) == owner.at(v.producer)) continue;
      const auto [reader, read] = wanted(user);
      if (reader != maker || !read || *read != *made) return {};
    }
    return *made;
  }

  Result<bool> compile() {
    regions_.clear();
    flat_.clear();
    std::map<NodeId, const Claim*> owner;
    for (const auto* claim : taken_)
      for (NodeId id : claim->nodes) owner[id] = claim;
    opaque_.clear();
    // Types with opaque layouts exist only while regions are compiled; the graph is rolled back afterwards.
    const auto before = graph_.mark();
    for (const auto* claim : taken_)
      for (NodeId id : claim->nodes)
        for (ValueId value : graph_.node(id).results)
          if (auto layout = layout_of(value, owner)) {
            auto type = graph_.type(value);
            type.layout = {};
            type.layout.kind = FE_LAYOUT_OPAQUE;
            type.layout.tag = layout->tag;
            opaque_[value] = layout->bytes;
            FE_CHECK(graph_.set_type(value, std::move(type)));
          }
    std::vector<const Claim*> compiled;
    for (const auto* claim : taken_) {
      FE_TRY(auto flat, graph::write_flat(graph_, claim->nodes));
      if (compile(*claim, flat)) {
        compiled.push_back(claim);
        flat_.push_back(std::move(flat));
      }
    }
    FE_CHECK(graph_.rollback(before));
    const bool all = compiled.size() == taken_.size();
    taken_ = std::move(compiled);
    return all;
  }

  bool compile(const Claim& claim, const graph::FlatBytes& flat) {
    Region region{claim.device, claim.compiler, claim.name, "r_" + hash128(flat.bytes), {}};
    const auto& name = claim.subject;
    abi::Collector<> blob;
    abi::Call call;
    auto args = abi::sized<fe_compile_args>();
    args.target = claim.compiler->target.target;
    args.kernel = {flat.bytes.data(), flat.bytes.size(), 1};
    args.candidate = claim.id;
    args.entry = abi::string(std::string_view(region.entry));
    args.provenance = abi::string(std::string_view(name));
    auto out = abi::sized<fe_compile_out>();
    out.blob = blob.sink();
    const int32_t status =
        plugin::invoke(*claim.compiler->table, claim.compiler->slots.compile, call, &args, &out);
    if (status != FE_OK) {
      record(claim, "refused", "compile",
             call.error(status, "FE-K22", "the region could not be compiled").message());
      return false;
    }
    if (auto why = runtime::unfit(out.tasks, out.grain, out.workspace_bytes); !why.empty()) {
      record(claim, "refused", "compile", std::move(why));
      return false;
    }
    region.blob = std::move(blob.bytes());
    region.cost = claim.cost;
    region.tasks = out.tasks;
    region.grain = out.grain;
    region.workspace_bytes = out.workspace_bytes;
    regions_.push_back(std::move(region));
    return true;
  }

  // ---- the graph

  /// Inserts a node for each region into the graph, in an order in which each node comes after its operands.
  Result<void> cut() {
    std::map<NodeId, size_t> region_of;
    for (size_t r = 0; r < taken_.size(); ++r)
      for (NodeId id : taken_[r]->nodes) region_of[id] = r;
    NodeId last;
    for (const auto& [node, region] : ordered(region_of)) {
      if (node && (!last || graph_.comes_before(last, node))) {
        last = node;
        continue;
      }
      const NodeId before = last ? graph_.next(last) : graph_.first();
      if (node) {
        FE_TRY(last, make_again(node, before));
      } else {
        FE_TRY(last, make_region(region, before));
      }
    }
    // In reverse order, so that users are erased before their operands.
    for (const auto* claim : taken_)
      for (auto id = claim->nodes.rbegin(); id != claim->nodes.rend(); ++id) FE_CHECK(graph_.erase(*id));
    graph_.commit();
    for (size_t r = 0; r < taken_.size(); ++r)
      record(*taken_[r], "taken", {}, fmt::format("on {}", devices_[taken_[r]->device]->kind));
    return {};
  }

  /// The nodes of the graph in a topological order, the earliest that can run first. A region is an entry
  /// without a node, with the region's number.
  std::vector<std::pair<NodeId, size_t>> ordered(const std::map<NodeId, size_t>& region_of) const {
    std::map<NodeId, size_t> item;
    std::vector<std::pair<NodeId, size_t>> items;
    std::vector<size_t> item_of_region(taken_.size(), SIZE_MAX);
    for (NodeId id = graph_.first(); id; id = graph_.next(id)) {
      const auto region = region_of.find(id);
      if (region == region_of.end()) {
        item[id] = items.size();
        items.emplace_back(id, 0);
        continue;
      }
      auto& number = item_of_region[region->second];
      if (number == SIZE_MAX) {
        number = items.size();
        items.emplace_back(NodeId{}, region->second);
      }
      item[id] = number;
    }
    std::vector<std::set<size_t>> after(items.size());
    std::vector<size_t> waits(items.size());
    for (const auto& [id, number] : item)
      for (ValueId operand : graph_.node(id).operands) {
        if (!operand || !graph_.value(operand).producer) continue;
        const size_t from = item.at(graph_.value(operand).producer);
        if (from != number && after[from].insert(number).second) ++waits[number];
      }
    std::priority_queue<size_t, std::vector<size_t>, std::greater<>> ready;
    for (size_t k = 0; k < items.size(); ++k)
      if (waits[k] == 0) ready.push(k);
    std::vector<std::pair<NodeId, size_t>> result;
    while (!ready.empty()) {
      const size_t k = ready.top();
      ready.pop();
      result.push_back(items[k]);
      for (size_t next : after[k])
        if (--waits[next] == 0) ready.push(next);
    }
    return result;
  }

  /// Replaces a node that has to move to a later position by an equal one there.
  Result<NodeId> make_again(NodeId id, NodeId before) {
    const auto& node = graph_.node(id);
    graph::NodeSpec spec{
        std::string(graph_.op(id)), node.operands, node.attributes, {}, before, node.origin, node.made_by};
    const auto results = node.results;
    std::vector<std::string> names;
    for (ValueId result : results) {
      spec.types.push_back(graph_.type(result));
      names.push_back(graph_.value(result).name);
    }
    FE_TRY(const NodeId made, graph_.make(std::move(spec)));
    FE_CHECK(replace(results, made));
    FE_CHECK(graph_.erase(id));
    for (size_t k = 0; k < names.size(); ++k)
      if (!names[k].empty()) FE_CHECK(graph_.set_value_name(graph_.node(made).results[k], names[k]));
    return made;
  }

  Result<NodeId> make_region(size_t number, NodeId before) {
    const auto& flat = flat_[number];
    std::string fault;
    const auto read = read_graph(flat.bytes, &fault);
    if (!read) return error(FE_EINTERNAL, "FE-S23", "the region cannot be read again: {}", fault);
    graph::NodeSpec spec;
    spec.op = region_op;
    spec.before = before;
    spec.made_by = regions_[number].compiler->id;
    const size_t operands = read->inputs().size() + read->constants().size();
    for (size_t k = 0; k < operands; ++k) spec.operands.push_back(now(flat.values[k]));
    std::vector<ValueId> results;
    std::vector<int64_t> types;
    for (const auto& output : read->outputs()) {
      results.push_back(flat.values[output.value]);
      graph::TensorType type{graph_.type(results.back()).dtype, graph_.type(results.back()).dims, {}, 0};
      if (auto bytes = opaque_.find(results.back()); bytes != opaque_.end())
        type = {DType::u8_, {bytes->second}, {}, 0};
      types.push_back(static_cast<int64_t>(type.dtype));
      types.push_back(static_cast<int64_t>(type.dims.size()));
      types.insert(types.end(), type.dims.begin(), type.dims.end());
      spec.types.push_back(std::move(type));
    }
    spec.attributes = {{std::string(region_number), static_cast<int64_t>(number)},
                       {std::string(region_types), types}};
    std::string origins;
    for (NodeId id : taken_[number]->nodes)
      if (const auto& origin = graph_.node(id).origin; !origin.empty())
        origins += (origins.empty() ? "" : ",") + origin;
    spec.origin = std::move(origins);
    FE_TRY(const NodeId made, graph_.make(std::move(spec)));
    FE_CHECK(replace(results, made));
    return made;
  }

  Result<void> replace(const std::vector<ValueId>& results, NodeId made) {
    for (size_t k = 0; k < results.size(); ++k) {
      const ValueId to = graph_.node(made).results[k];
      now_[results[k]] = to;
      FE_CHECK(graph_.replace_uses(results[k], to));
    }
    return {};
  }
  /// The current value in place of one with which a flat graph was written.
  ValueId now(ValueId value) const {
    const auto found = now_.find(value);
    return found == now_.end() ? value : found->second;
  }

  Graph& graph_;
  const runtime::Devices& devices_;
  CandidateBlocklist& blocklist_;
  Ledger& ledger_;
  std::vector<Claim> claims_;
  std::vector<const Claim*> taken_;
  std::vector<graph::FlatBytes> flat_;  ///< parallel to taken_
  std::vector<Region> regions_;
  std::map<ValueId, int64_t> opaque_;
  std::map<ValueId, ValueId> now_;
};

}  // namespace

const fe_op_def& region_op_def() {
  static const fe_op_def def = [] {
    static const auto operand = [] {
      auto o = abi::sized<fe_operand_def>();
      o.name = abi::string(std::string_view("values"));
      o.flags = FE_OPERAND_VARIADIC;
      return o;
    }();
    static const auto attributes = [] {
      std::array<fe_attr_def, 2> list{abi::sized<fe_attr_def>(), abi::sized<fe_attr_def>()};
      for (auto& attribute : list) {
        attribute.required = 1;
        attribute.value = abi::sized<fe_attr>();
      }
      list[0].value.name = abi::string(region_number);
      list[0].value.kind = FE_ATTR_INT;
      list[1].value.name = abi::string(region_types);
      list[1].value.kind = FE_ATTR_INTS;
      return list;
    }();
    auto op = abi::sized<fe_op_def>();
    op.rev = 1;
    op.flags = FE_OP_RANDOM;  // neither folded nor merged
    op.name = abi::string(region_op);
    op.doc = abi::string(std::string_view("A part of the graph that a provider takes as a whole."));
    op.operands = abi::array(&operand, 1);
    op.attrs = abi::array(attributes.data(), attributes.size());
    op.infer = [](void*, fe_call* call, const fe_infer_args* args, fe_infer_out* out) -> int32_t {
      std::span<const int64_t> types;
      for (uint64_t k = 0; k < args->op->attrs.count; ++k)
        if (const auto attribute = abi::element<fe_attr>(args->op->attrs, k);
            abi::view(attribute.name) == region_types)
          types = {static_cast<const int64_t*>(attribute.list.data), attribute.list.count};
      while (types.size() >= 2) {
        const auto rank = static_cast<uint64_t>(types[1]);
        if (rank > types.size() - 2) break;
        auto type = abi::sized<fe_tensor_type>();
        type.dtype = static_cast<fe_dtype>(types[0]);
        type.rank = static_cast<uint32_t>(rank);
        type.dims = types.data() + 2;
        if (const int32_t status = out->add(out->host, &type); status != FE_OK) return status;
        types = types.subspan(2 + rank);
      }
      return types.empty()
                 ? FE_OK
                 : abi::report(call, error(FE_EINVALID, "FE-S23", "the types of a region are cut short"));
    };
    // lower::lower() handles regions itself.
    op.lower = [](void*, fe_call*, const fe_lowering_args*, fe_none*) -> int32_t { return FE_EUNSUPPORTED; };
    return op;
  }();
  return def;
}

bool has_claims(const plugin::Registry& registry) {
  return std::ranges::any_of(registry.providers(),
                             [](const auto& p) { return abi::read(p.table).claim != nullptr; });
}

Result<std::vector<Region>> claim_regions(Graph& graph, const runtime::Devices& devices,
                                          CandidateBlocklist& blocklist, Ledger& ledger) {
  return Claims(graph, devices, blocklist, ledger).run();
}

}  // namespace ferrite::core::select
