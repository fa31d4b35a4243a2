// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "expansion.h"

#include <algorithm>
#include <limits>

#include "ferrite/counted.hpp"
#include "ferrite/graph.hpp"

namespace ferrite::from_onnx {
namespace {

uint64_t plus(uint64_t a, uint64_t b) {
  return a > std::numeric_limits<uint64_t>::max() - b ? std::numeric_limits<uint64_t>::max() : a + b;
}

}  // namespace

void Expansion::add_calls(const Nodes& nodes, const Opsets& opsets, const std::string& within) {
  for (int k = 0; k < nodes.size(); ++k)
    if (const auto* function = called(nodes[k], opsets))
      add_call(*function, place_of(nodes[k], k, op_of(nodes[k], opsets)) + within);
}

void Expansion::add_call(const Function& function, std::string_view place) {
  const Size size = size_of(function, 0);
  const char* const advice =
      "; export the model with fewer calls within functions, or have a plugin read such calls as one op "
      "(docs/add-an-op.md)";
  if (size.height > deepest)
    throw Failure(FE_EUNSUPPORTED, "FE-I43",
                  detail::concatenate(place, ": the function ", function.text,
                                      " calls functions within functions, "
                                      "more than ",
                                      deepest, " deep", advice));
  total_ = plus(total_, size.nodes);
  if (total_ <= most_nodes) return;
  const bool countless = size.nodes == std::numeric_limits<uint64_t>::max();
  throw Failure(FE_EUNSUPPORTED, "FE-I43",
                detail::concatenate(
                    place, ": the function ", function.text, " expands to ", countless ? "more than " : "",
                    counted(size.nodes, "node"), ", which makes ", countless ? "more than " : "", total_,
                    " of the functions of the model, and at most ", most_nodes, " are made", advice));
}

const Function* Expansion::called(const onnx::NodeProto& node, const Opsets& opsets) {
  const Readers who = readers_.find(op_of(node, opsets));
  return who.plugin && who.plugin->kind != FE_READER_NONE ? nullptr : who.function;
}

/// A function that calls itself has no size. The call is refused (FE-I40) when it is reached, so it counts
/// nothing here.
const Expansion::Size& Expansion::size_of(const Function& function, uint64_t depth) {
  const auto [found, added] = sizes_.try_emplace(&function);
  auto& size = found->second;
  if (!added) return size;
  // It is too deep already, whatever it calls.
  if (depth > deepest)
    size.height = deepest + 1;
  else
    count(size, function.proto->node(), function.opsets, depth);
  return size;
}

void Expansion::count(Size& size, const Nodes& nodes, const Opsets& opsets, uint64_t depth) {
  for (const auto& node : nodes) {
    size.nodes = plus(size.nodes, 1);
    if (const auto* function = called(node, opsets)) {
      const Size inner = size_of(*function, depth + 1);
      size.nodes = plus(size.nodes, inner.nodes);
      size.height = std::max(size.height, std::min(inner.height + 1, deepest + 1));
    }
    for (const auto& attribute : node.attribute())
      if (attribute.has_g()) count(size, attribute.g().node(), opsets, depth);
  }
}

}  // namespace ferrite::from_onnx
