// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "unsupported_ops.h"

#include <set>

#include "ferrite/counted.hpp"
#include "ferrite/graph.hpp"

namespace ferrite::from_onnx {
namespace {

using Nodes = google::protobuf::RepeatedPtrField<onnx::NodeProto>;

class UnsupportedOps {
 public:
  UnsupportedOps(ReaderTable& readers, bool with_subgraphs)
      : readers_(readers), with_subgraphs_(with_subgraphs) {}

  /// `within` is the suffix of the nodes' places: " in function custom.Twice".
  void look(const Nodes& nodes, const Opsets& opsets, const std::string& within = {}) {
    for (int k = 0; k < nodes.size(); ++k) {
      const auto& node = nodes[k];
      const NodeOp op = op_of(node, opsets);
      const Readers who = readers_.find(op);
      const bool by_plugin = who.plugin && who.plugin->kind != FE_READER_NONE;
      // The nodes of a function matter only if the function is inlined, that is if no plugin reads its calls.
      if (!by_plugin && who.function) {
        if (seen_.insert(who.function).second)
          look(who.function->proto->node(), who.function->opsets, " in function " + who.function->text);
      } else if (!by_plugin && !reads(who.entry, op.version)) {
        note(op, who, place_of(node, k, op) + within);
      }
      if (!with_subgraphs_) continue;
      for (const auto& attribute : node.attribute())
        if (attribute.has_g())
          look(attribute.g().node(), opsets,
               " in '" + attribute.name() + "' of " + place_of(node, k, op) + within);
    }
  }
  bool empty() const { return missing_.empty() && too_new_.empty(); }

  [[noreturn]] void refuse() const {
    std::string text;
    if (!missing_.empty())
      text = missing_.size() == 1 ? std::string("an op is not supported: ")
                                  : std::to_string(missing_.size()) + " ops are not supported: ";
    bool known = true;
    const Missing* first_unknown = nullptr;
    const char* separator = "";
    for (const auto& [version, missing] : too_new_) {
      text += separator;
      separator = "; ";
      text += "opset " + std::to_string(version) + " of ONNX is newer than the newest one that is known, " +
              std::to_string(newest) + " (" + counted(missing.count, "node") + ", " +
              (missing.count == 1 ? "" : "the first is ") + missing.place + ")";
    }
    for (const auto& [key, missing] : missing_) {
      text += separator;
      separator = "; ";
      text += missing.op.text() + " in opset " + std::to_string(missing.op.version) + " (" +
              counted(missing.count, "node") + ", " + (missing.count == 1 ? "" : "the first is ") +
              missing.place + missing.more + ")";
      if (!missing.known) {
        known = false;
        if (!first_unknown) first_unknown = &missing;
      }
    }
    text += "; `ferrite ops --onnx` lists those that are";
    if (first_unknown)
      text += ". A plugin adds one such as " + first_unknown->op.text() + " by " +
              (first_unknown->op.domain.empty() ? "" : "an op of that name, by ") + "the alias \"" +
              first_unknown->op.source() +
              "\" of an op in its descriptor, or by an import handler "
              "(docs/add-an-op.md)";
    else
      text += too_new_.empty() ? "; convert or export the model with an opset that is supported"
                               : "; export the model with opset " + std::to_string(newest) +
                                     " or an older one, or convert it";
    throw Failure(FE_EUNSUPPORTED, known ? "FE-I21" : "FE-I20", text);
  }

 private:
  struct Missing {
    NodeOp op;
    size_t count = 0;
    std::string place;  ///< place of the first node
    std::string more;   ///< supported versions, or a similar name
    bool known = false;
  };

  void note(const NodeOp& op, const Readers& who, std::string place) {
    const bool too_new = who.entry && op.domain.empty() && op.version > newest;
    auto& missing = too_new ? too_new_[op.version] : missing_[{op.text() + ' ' + op.overload, op.version}];
    if (missing.count++ > 0) return;
    missing.op = op;
    missing.place = std::move(place);
    if (who.entry) {
      missing.known = true;
      missing.more = "; opsets " + std::to_string(who.entry->first) + " to " +
                     std::to_string(who.entry->last) + " are supported";
    }
    if (!who.plugin || too_new) return;
    if (const auto& versions = who.plugin->versions; !versions.empty()) {
      missing.known = true;
      missing.more += "; plugins read versions " + versions;
    } else if (!missing.known && !who.plugin->suggestion.empty()) {
      missing.more = "; did you mean '" + suggested(who.plugin->suggestion) + "'?";
    }
  }

  /// "com.acme.FusedRope" of "onnx:com.acme::FusedRope"
  static std::string suggested(const std::string& source) {
    const std::string name = source.substr(source.find(':') + 1);
    const auto end = name.rfind("::");
    return end == std::string::npos ? name : op_text(name.substr(0, end), name.substr(end + 2));
  }

  ReaderTable& readers_;
  const bool with_subgraphs_;
  std::map<std::pair<std::string, int64_t>, Missing> missing_;  ///< by op and version
  std::map<int64_t, Missing> too_new_;                          ///< all ops of an opset, by its version
  std::set<const Function*> seen_;
};

}  // namespace

void refuse_unsupported(const Nodes& nodes, const Opsets& opsets, ReaderTable& readers) {
  UnsupportedOps found(readers, false);
  found.look(nodes, opsets);
  if (found.empty()) return;
  UnsupportedOps whole(readers, true);
  whole.look(nodes, opsets);
  whole.refuse();
}

}  // namespace ferrite::from_onnx
