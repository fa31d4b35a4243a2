// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Common subexpressions: nodes of one op with equal attributes and equal operands.
#include <map>
#include <string>

#include "passes.h"

namespace ferrite::passes {
namespace {

/// Appends the bytes of a number.
template <class T>
void put(std::string& key, const T& value) {
  key.append(reinterpret_cast<const char*>(&value), sizeof value);
}
void put(std::string& key, std::string_view text) {
  put(key, text.size());
  key += text;
}

std::string key_of(const Attr& attr) {
  std::string key;
  put(key, std::string_view(attr.name()));
  put(key, attr.value().index());
  std::visit(
      [&](const auto& value) {
        using T = std::decay_t<decltype(value)>;
        if constexpr (std::is_same_v<T, std::string>) {
          put(key, std::string_view(value));
        } else if constexpr (std::is_arithmetic_v<T> || std::is_enum_v<T>) {
          put(key, value);
        } else {
          put(key, value.size());
          for (const auto& item : value) {
            if constexpr (std::is_same_v<T, std::vector<std::string>>)
              put(key, std::string_view(item));
            else
              put(key, item);
          }
        }
      },
      attr.value());
  return key;
}

/// Literals are equal if type and bytes are; any other value equals only itself.
std::string key_of(Value value) {
  std::string key;
  if (!value) return key;
  auto view = value.view();
  if (view.constant != FE_CONSTANT_LITERAL || !view.data) {
    put(key, value.handle());
    return key;
  }
  put(key, view.type.dtype);
  for (uint32_t d = 0; d < view.type.rank; ++d) put(key, view.type.dims[d]);
  key.append(static_cast<const char*>(view.data), view.data_bytes);
  return key;
}

std::string key_of(Node node) {
  auto view = node.view();
  std::string key;
  put(key, from_abi(view.op));
  std::vector<std::string> operands, attrs;
  for (const auto& attr : node.attrs().copy()) attrs.push_back(key_of(attr));
  for (size_t k = 0; k < node.operand_count(); ++k) operands.push_back(key_of(node.operand(k)));
  if (view.flags & FE_OP_COMMUTATIVE) std::sort(operands.begin(), operands.end());
  std::sort(attrs.begin(), attrs.end());
  for (const auto& part : operands) put(key, std::string_view(part));
  put(key, attrs.size());
  for (const auto& part : attrs) put(key, std::string_view(part));
  return key;
}

}  // namespace

bool merge_common(Graph& graph) {
  bool changed = false;
  std::map<std::string, Node> first;
  for (Node node : graph.nodes()) {
    if (node.view().flags & (FE_OP_RANDOM | FE_OP_EFFECT)) continue;
    auto [found, added] = first.emplace(key_of(node), node);
    if (added) continue;
    for (size_t k = 0; k < node.result_count(); ++k)
      graph.replace_uses(node.result(k), found->second.result(k));
    graph.erase(node);
    changed = true;
  }
  return changed;
}

}  // namespace ferrite::passes
