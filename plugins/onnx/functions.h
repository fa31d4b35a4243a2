// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The functions that a model defines itself, and the attributes of their calls.
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

/// Versions of operator sets by domain, "" = ai.onnx.
using Opsets = std::map<std::string, int64_t, std::less<>>;

/// The name of a domain as it is looked up: "" for ai.onnx.
inline std::string_view domain_of(std::string_view domain) {
  return domain == "ai.onnx" ? std::string_view() : domain;
}
/// "com.acme.FusedRope", "Relu"
std::string op_text(std::string_view domain, std::string_view op);
/// Which of several functions of one name a node calls; "" in models before IR version 10.
std::string overload_of(const onnx::NodeProto& node);

/// Attributes that nodes of a function may refer to, by name.
using Bindings = std::map<std::string, onnx::AttributeProto, std::less<>>;

struct Function {
  const onnx::FunctionProto* proto = nullptr;
  std::string text;  ///< "custom.Twice", with the overload in parentheses where it has one
  Opsets opsets;     ///< its own; of domains that it leaves out, the model's
  Bindings defaults;

  /// The attributes of a call. FE-I23 where the call gives one that the function lacks, or leaves one out that it needs, or has more
  /// inputs or outputs than the function; `place` begins the message.
  Bindings bind(const onnx::NodeProto& call, std::string_view place) const;
};

class Functions {
 public:
  /// FE-I25 where two functions have one name, domain and overload.
  Functions(const onnx::ModelProto& model, const Opsets& opsets);
  /// Null where the model defines none. The domain is as domain_of() gives it.
  const Function* find(std::string_view domain, std::string_view name, std::string_view overload) const;

 private:
  std::map<std::tuple<std::string, std::string, std::string>, Function> functions_;
};

/// The node with its references to attributes of the function replaced by these; those that the call leaves out are left out. None
/// where it has no references. FE-I23 where one has another type; `place` begins the message.
std::optional<onnx::NodeProto> bound_node(const onnx::NodeProto& node, const Bindings& bindings,
                                          std::string_view place);

}  // namespace ferrite::from_onnx
