// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Functions that a model defines itself, and the attributes of their calls.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "format/proto.h"

namespace ferrite::from_onnx {

/// Versions of operator sets by domain; "" = ai.onnx.
using Opsets = std::map<std::string, int64_t, std::less<>>;

/// The lookup name of a domain: "" for ai.onnx.
inline std::string_view domain_of(std::string_view domain) {
  return domain == "ai.onnx" ? std::string_view() : domain;
}
/// "com.acme.FusedRope", "Relu"
std::string op_text(std::string_view domain, std::string_view op);
/// The overload that a node calls, among functions of one name; "" in models before IR version 10.
std::string overload_of(const onnx::NodeProto& node);

/// Values of the attributes that nodes of a function may refer to, by name.
using Bindings = std::map<std::string, onnx::AttributeProto, std::less<>>;

struct Function {
  const onnx::FunctionProto* proto = nullptr;
  std::string text;  ///< "custom.Twice", followed by the overload in parentheses, if there is one
  Opsets opsets;     ///< its own operator sets; for other domains, the model's
  Bindings defaults;

  /// The attributes of a call. FE-I23 if the call has an attribute that the function lacks, omits a required
  /// one, or has more inputs or outputs than the function; `place` is the prefix of the message.
  Bindings bind(const onnx::NodeProto& call, std::string_view place) const;
};

class Functions {
 public:
  /// FE-I25 if two functions have the same name, domain and overload.
  Functions(const onnx::ModelProto& model, const Opsets& opsets);
  /// Null if the model defines no such function. The domain is a result of domain_of().
  const Function* find(std::string_view domain, std::string_view name, std::string_view overload) const;

 private:
  std::map<std::tuple<std::string, std::string, std::string>, Function> functions_;
};

/// The node with references to the function's attributes replaced by their values; attributes that the call
/// omits are removed. nullopt if there are no references. FE-I23 if a type differs; `place` is the prefix of
/// the message.
std::optional<onnx::NodeProto> bound_node(const onnx::NodeProto& node, const Bindings& bindings,
                                          std::string_view place);

}  // namespace ferrite::from_onnx
