// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/passes/joint/changed_regions.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>

#include "core/passes/joint/subgraph.h"

namespace ferrite::core::joint {
namespace {

using graph::Graph;
using graph::NodeId;
using graph::ValueId;

std::vector<std::string> split(std::string_view origin) {
  std::vector<std::string> names;
  while (!origin.empty()) {
    const auto comma = std::min(origin.find(','), origin.size());
    names.emplace_back(origin.substr(0, comma));
    origin.remove_prefix(std::min(origin.size(), comma + 1));
  }
  return names;
}

class Comparison {
 public:
  Comparison(const Graph& before, const Graph& after, const std::vector<NamedValue>& names)
      : before_(before), after_(after), names_(names) {
    for (const auto& [value, name] : names) name_of_.try_emplace(value, name);
  }

  Result<std::vector<ChangedRegion>> run() {
    find_changed();
    while (complete()) {
    }
    unite();
    std::vector<ChangedRegion> regions;
    std::set<std::string> done;
    for (NodeId id = before_.first(); id; id = before_.next(id)) {
      const auto& origin = before_.node(id).origin;
      if (!changed_.contains(origin) || !done.insert(root(origin)).second) continue;
      FE_TRY(auto region, region_of(root(origin)));
      if (!region.graph.inputs().empty()) regions.push_back(std::move(region));
    }
    return regions;
  }

 private:
  bool is_new(NodeId id) const { return id && !before_.find(id); }
  /// Whether a node of `after` is part of a region: it is new, or the model's node that it is a part of has
  /// changed.
  bool is_inside(NodeId id) const { return id && (is_new(id) || changed_.contains(before_.node(id).origin)); }
  /// The origin of what computes a value before the passes; empty for inputs and constants.
  std::string origin_of(ValueId value) const {
    const auto producer = value ? before_.value(value).producer : NodeId();
    return producer ? before_.node(producer).origin : std::string();
  }

  /// Nodes that are gone or other than before. Where only an operand differs, its value was replaced, and the
  /// node that computed it has changed.
  void find_changed() {
    const auto compare = [&](ValueId was, ValueId is, const std::string& user) {
      if (was == is) return;
      const auto producer = was ? before_.value(was).producer : NodeId();
      const bool is_gone = producer && !after_.find(producer) && name_of_.contains(was);
      if (is_gone && replaced_.try_emplace(was, is).first->second == is)
        changed_.insert(before_.node(producer).origin);
      else
        changed_.insert(user);  // the pass changed this use only
    };
    for (NodeId id = before_.first(); id; id = before_.next(id)) {
      const auto& was = before_.node(id);
      const auto* is = after_.find(id);
      if (!is || before_.op(id) != after_.op(id) || was.attributes != is->attributes ||
          was.operands.size() != is->operands.size()) {
        changed_.insert(was.origin);
        continue;
      }
      for (size_t k = 0; k < was.operands.size(); ++k) compare(was.operands[k], is->operands[k], was.origin);
    }
    for (size_t k = 0; k < before_.outputs().size(); ++k) {
      const auto was = before_.outputs()[k].value, is = after_.outputs()[k].value;
      if (was == is) continue;
      replaced_.try_emplace(was, is);
      changed_.insert(origin_of(was));
    }
    changed_.erase("");
  }

  /// A region reads and gives only values that the model has names for. True if a node was added for that.
  bool complete() {
    const auto count = changed_.size();
    for (NodeId id = after_.first(); id; id = after_.next(id)) {
      const bool inside = is_inside(id);
      for (const auto operand : after_.node(id).operands) {
        const auto producer = operand ? after_.value(operand).producer : NodeId();
        if (!producer || is_inside(producer) == inside || is_new(producer)) continue;
        if (name_of_.contains(operand)) continue;
        // The node is part of a node of the model, which is in the region as a whole.
        changed_.insert(before_.node(inside ? producer : id).origin);
      }
    }
    return changed_.size() > count;
  }

  // Regions are sets of nodes of the model and of new nodes, named by handle, that belong together.
  static std::string key(NodeId id) { return fmt::format("%{}", id.bits); }
  std::string key_of(NodeId id) const { return is_new(id) ? key(id) : before_.node(id).origin; }
  std::string root(std::string of) const {
    for (auto found = parent_.find(of); found != parent_.end(); found = parent_.find(of)) of = found->second;
    return of;
  }
  void join(const std::string& a, const std::string& b) {
    const auto from = root(a), to = root(b);
    if (from != to) parent_[from] = to;
  }

  void unite() {
    std::set<ValueId> boundary;  // values of `after` that stand for one of the model's
    for (const auto& [value, name] : name_of_) boundary.insert(value);
    for (const auto& [was, is] : replaced_) {
      if (!name_of_.contains(was)) continue;
      boundary.insert(is);
      const auto producer = is ? after_.value(is).producer : NodeId();
      const auto origin = origin_of(was);
      if (is_inside(producer) && changed_.contains(origin)) join(key_of(producer), origin);
    }
    for (NodeId id = after_.first(); id; id = after_.next(id)) {
      if (!is_inside(id)) continue;
      if (is_new(id))
        for (const auto& origin : split(after_.node(id).origin))
          if (changed_.contains(origin)) join(key(id), origin);
      for (const auto operand : after_.node(id).operands) {
        const auto producer = operand ? after_.value(operand).producer : NodeId();
        if (is_inside(producer) && !boundary.contains(operand)) join(key_of(producer), key_of(id));
      }
    }
    // A value that a removed node computed only for removed nodes goes with them.
    for (NodeId id = before_.first(); id; id = before_.next(id))
      for (const auto operand : before_.node(id).operands) {
        const auto origin = origin_of(operand);
        if (changed_.contains(origin) && changed_.contains(before_.node(id).origin) && !image_of(operand))
          join(origin, before_.node(id).origin);
      }
  }

  /// The value of `after` that stands for a value of `before`; none if there is none.
  ValueId image_of(ValueId value) const {
    if (const auto found = replaced_.find(value); found != replaced_.end()) return found->second;
    return after_.find(value) ? value : ValueId();
  }

  Result<ChangedRegion> region_of(const std::string& region) const {
    ChangedRegion made{{}, {}, Graph("region", before_.weight_folder())};
    std::set<std::string> listed;
    for (NodeId id = before_.first(); id; id = before_.next(id)) {
      const auto& origin = before_.node(id).origin;
      if (changed_.contains(origin) && root(origin) == region && listed.insert(origin).second)
        made.nodes.push_back(origin);
    }
    std::vector<NodeId> nodes;
    std::set<NodeId> inside;
    for (NodeId id = after_.first(); id; id = after_.next(id))
      if (is_inside(id) && root(key_of(id)) == region) {
        nodes.push_back(id);
        inside.insert(id);
        const auto& maker = after_.node(id).made_by;
        if (is_new(id) && std::ranges::find(made.passes, maker) == made.passes.end())
          made.passes.push_back(maker);
      }
    // The model's values that other nodes read, or the graph gives.
    std::vector<std::pair<ValueId, std::string>> outputs;
    for (const auto& [value, name] : names_) {
      if (!listed.contains(origin_of(value))) continue;
      const bool is_read =
          std::ranges::any_of(before_.users(value),
                              [&](NodeId user) { return !listed.contains(before_.node(user).origin); }) ||
          before_.is_output(value);
      if (!is_read) continue;
      const auto image = image_of(value);
      if (!image) return unmapped(made, name);
      outputs.emplace_back(image, name);
    }
    Subgraph copy(after_, made.graph);
    const auto need = [&](ValueId value) -> Result<void> {
      if (!value || copy.has(value) || after_.value(value).constant) return {};
      const auto producer = after_.value(value).producer;
      if (producer && inside.contains(producer)) return {};
      const auto name = model_name(value);
      if (name.empty()) return unmapped(made, after_.value(value).name);
      return copy.add_input(value, name);
    };
    for (const auto id : nodes)
      for (const auto operand : after_.node(id).operands) FE_CHECK(need(operand));
    for (const auto& [value, name] : outputs) FE_CHECK(need(value));
    for (const auto id : nodes) FE_CHECK(copy.add_node(id));
    for (const auto& [value, name] : outputs) FE_CHECK(copy.add_output(value, name));
    return made;
  }

  /// The model's name of a value of `after`; empty if it has none.
  std::string model_name(ValueId value) const {
    if (const auto found = name_of_.find(value); found != name_of_.end()) return found->second;
    for (const auto& [was, is] : replaced_)
      if (is == value && name_of_.contains(was)) return name_of_.at(was);
    return {};
  }

  static Error unmapped(const ChangedRegion& region, std::string_view value) {
    return error(
        FE_EUNSUPPORTED, "FE-G59",
        "the change of '{}' to the model's nodes {} cannot be carried back to the model: it has no value "
        "that is '{}'; run the pass at joint_pre or later",
        fmt::join(region.passes, "', '"), fmt::join(region.nodes, ", "), value);
  }

  const Graph& before_;
  const Graph& after_;
  const std::vector<NamedValue>& names_;
  std::map<ValueId, std::string> name_of_;
  std::map<ValueId, ValueId> replaced_;         ///< values of `before` by those that are read in their place
  std::set<std::string, std::less<>> changed_;  ///< nodes of the model
  std::map<std::string, std::string> parent_;   ///< of the union-find forest
};

}  // namespace

Result<std::vector<ChangedRegion>> changed_regions(const Graph& before, const Graph& after,
                                                   const std::vector<NamedValue>& names) {
  return Comparison(before, after, names).run();
}

}  // namespace ferrite::core::joint
