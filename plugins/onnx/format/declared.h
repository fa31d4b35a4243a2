// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The types that a model declares for its values, compared with the inferred ones.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <unordered_map>

#include "ferrite/graph.hpp"
#include "format/proto.h"

namespace ferrite::from_onnx {

/// Receives a warning: a code, a place and a text.
using Warn = std::function<void(const std::string&)>;

/// The types that a graph declares for intermediate values and outputs.
class DeclaredTypes {
 public:
  /// `file` is the prefix of each warning.
  DeclaredTypes(std::string file, Warn warn) : file_(std::move(file)), warn_(std::move(warn)) {}

  /// Keeps references into `graph`.
  void add(const onnx::GraphProto& graph);

  /// FE-I27 if the model declares another dtype for the value. A different rank or size is a warning, FE-I30,
  /// once per value; sizes that are symbolic or missing match any. `where` names the producer.
  void check(const std::string& name, const Value& value, const std::string& where);
  /// Call it after all checks: one warning counts the warnings that were suppressed, since one wrong shape
  /// causes others.
  void finish();

 private:
  std::string file_;
  Warn warn_;
  std::unordered_map<std::string, const onnx::TypeProto::Tensor*> types_;
  std::set<std::string> differ_;
};

}  // namespace ferrite::from_onnx
