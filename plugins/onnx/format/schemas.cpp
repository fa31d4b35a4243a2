// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "format/schemas.h"
#include "ferrite/counted.hpp"

#include <set>

#include "ferrite/graph.hpp"

namespace ferrite::from_onnx {
namespace {

constexpr Signature all[] = {
#define ONNX_OP(domain, name, since, ...) {domain, name, since, false, __VA_ARGS__},
#define ONNX_OP_REMOVED(domain, name, since) {domain, name, since, true, 0, 0, 0, 0, "", "", ""},
#include "format/schemas.def"
#undef ONNX_OP
#undef ONNX_OP_REMOVED
};

/// The type letters of schemas.def, indexed by AttributeProto's type numbers.
constexpr std::string_view letters = "?fistgFISTGxXpP";

/// "an integer", for a type number of AttributeProto.
std::string_view type_text(int type) {
  constexpr std::string_view names[] = {"of no type",
                                        "a number",
                                        "an integer",
                                        "a string",
                                        "a tensor",
                                        "a graph",
                                        "a list of numbers",
                                        "a list of integers",
                                        "a list of strings",
                                        "a list of tensors",
                                        "a list of graphs",
                                        "a sparse tensor",
                                        "a list of sparse tensors",
                                        "a type",
                                        "a list of types"};
  return type >= 0 && static_cast<size_t>(type) < std::size(names) ? names[type] : "of an unknown type";
}

/// Calls body(name, letter, required) for each attribute.
template <class Body>
void for_each_attribute(std::string_view rest, const Body& body) {
  while (!rest.empty()) {
    auto part = rest.substr(0, rest.find(' '));
    rest.remove_prefix(std::min(rest.size(), part.size() + 1));
    auto colon = part.find(':');
    body(part.substr(0, colon), part[colon + 1], part.ends_with('!'));
  }
}

/// Name k of a list; the last one applies to all further ones.
std::string_view name_in(std::string_view names, size_t k) {
  for (; k > 0 && names.find(' ') != std::string_view::npos; --k) names.remove_prefix(names.find(' ') + 1);
  return names.substr(0, names.find(' '));
}
std::string numbered(const char* what, size_t k, std::string_view names) {
  std::string text = what + std::to_string(k);
  if (const auto name = name_in(names, k); !name.empty()) text.append(" (").append(name).append(")");
  return text;
}

std::string range_text(int least, int most) {
  if (most < 0) return "at least " + std::to_string(least);
  if (least == most) return std::to_string(least);
  return std::to_string(least) + " to " + std::to_string(most);
}

void check_attribute(const onnx::AttributeProto& attribute, const Signature& signature,
                     std::string_view where) {
  std::string known;
  char letter = 0;
  for_each_attribute(signature.attributes, [&](std::string_view name, char type, bool) {
    if (name == attribute.name()) letter = type;
    known.append(known.empty() ? "" : ", ").append(name);
  });
  if (letter == 0)
    fail("FE-I23", where, ": the op has no attribute '", attribute.name(), "' in this opset; ",
         known.empty() ? "it has none" : "it has " + known);
  if (!attribute.ref_attr_name().empty())
    fail("FE-I23", where, ": attribute '", attribute.name(), "' refers to '", attribute.ref_attr_name(),
         "' of a function, and the node is in none; the model is damaged, export it again");
  auto type = static_cast<size_t>(attribute.type());
  if (type >= letters.size() || letters[type] != letter)
    fail("FE-I23", where, ": attribute '", attribute.name(), "' is ", type_text(attribute.type()),
         ", and the op takes ", type_text(static_cast<int>(letters.find(letter))));
}

}  // namespace

std::string input_text(const Signature* signature, size_t k) {
  return numbered("input ", k, signature ? signature->inputs : std::string_view());
}
std::string output_text(const Signature* signature, size_t k) {
  return numbered("output ", k, signature ? signature->outputs : std::string_view());
}

std::span<const Signature> signatures() { return all; }

const Signature* signature_of(std::string_view domain, std::string_view name, int64_t opset) {
  const Signature* found = nullptr;
  for (const auto& signature : all)
    if (signature.name == name && signature.domain == domain && signature.since <= opset) found = &signature;
  return found && !found->removed ? found : nullptr;
}

void check_node(const onnx::NodeProto& node, const Signature& signature, std::string_view where) {
  const int inputs = node.input_size(), outputs = node.output_size();
  if (inputs < signature.least_inputs)
    fail("FE-I23", where, ": ", input_text(&signature, static_cast<size_t>(inputs)),
         " is missing: the op takes ", range_text(signature.least_inputs, signature.most_inputs), " inputs");
  if (signature.most_inputs >= 0 && inputs > signature.most_inputs)
    fail("FE-I23", where, ": the node has ", counted(inputs, "input"), ", and the op takes ",
         range_text(signature.least_inputs, signature.most_inputs));
  if (outputs < signature.least_outputs || (signature.most_outputs >= 0 && outputs > signature.most_outputs))
    fail("FE-I23", where, ": the node has ", counted(outputs, "output"), ", and the op gives ",
         range_text(signature.least_outputs, signature.most_outputs));
  std::set<std::string_view> given;
  for (const auto& attribute : node.attribute()) {
    check_attribute(attribute, signature, where);
    if (!given.insert(attribute.name()).second)
      fail("FE-I23", where, ": attribute '", attribute.name(), "' is there twice");
  }
  for_each_attribute(signature.attributes, [&](std::string_view name, char, bool required) {
    if (required && !given.contains(name)) fail("FE-I23", where, ": attribute '", name, "' is missing");
  });
}

}  // namespace ferrite::from_onnx
