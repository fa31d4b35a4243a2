// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What a model says of the types of its values, beside what its nodes make.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <unordered_map>

#include "ferrite/graph.hpp"
#include "format/proto.h"

namespace ferrite::from_onnx {

/// Takes a warning: a code, a place and a text.
using Warn = std::function<void(const std::string&)>;

/// The types that a graph declares for values that nodes make and for its outputs.
class DeclaredTypes {
 public:
  /// `file` begins each warning.
  DeclaredTypes(std::string file, Warn warn) : file_(std::move(file)), warn_(std::move(warn)) {}

  /// Keeps references into `graph`.
  void add(const onnx::GraphProto& graph);

  /// FE-I27 where the model declares another dtype for the value. A rank or a size that differs from the one
  /// declared is a warning, FE-I30, once a value; sizes that are declared by name or not at all differ from
  /// none. `where` is what makes it.
  void check(const std::string& name, const Value& value, const std::string& where);
  /// To be called when all values are checked: one warning counts those that were not shown, as one wrong
  /// shape makes others wrong.
  void finish();

 private:
  std::string file_;
  Warn warn_;
  std::unordered_map<std::string, const onnx::TypeProto::Tensor*> types_;
  std::set<std::string> differ_;
};

}  // namespace ferrite::from_onnx
