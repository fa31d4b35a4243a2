// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How many nodes the functions that a model defines expand to. A few functions that call each other twice make more than any machine
// can hold, so the nodes are counted before they are made.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "functions.h"
#include "format/proto.h"
#include "readers.h"

namespace ferrite::from_onnx {

/// Of one import. Calls that a plugin reads are one node each.
class Expansion {
 public:
  static constexpr uint64_t most_nodes = 1'000'000;  ///< that all calls of a model together make
  static constexpr uint64_t deepest = 200;           ///< calls within calls

  explicit Expansion(ReaderTable& readers) : readers_(readers) {}

  using Nodes = google::protobuf::RepeatedPtrField<onnx::NodeProto>;
  /// Counts the calls among the nodes; those in subgraphs are not looked at. FE-I43 where there are too many; `within` is what the
  /// places of the nodes end with.
  void add_calls(const Nodes& nodes, const Opsets& opsets, const std::string& within);
  /// Counts one call more, that of the node at `place`.
  void add_call(const Function& function, std::string_view place);

 private:
  struct Size {
    uint64_t nodes = 0;   ///< saturates
    uint64_t height = 0;  ///< of the calls within, saturates just above `deepest`
  };
  const Size& size_of(const Function& function, uint64_t depth);
  void count(Size& size, const Nodes& nodes, const Opsets& opsets, uint64_t depth);
  const Function* called(const onnx::NodeProto& node, const Opsets& opsets);

  ReaderTable& readers_;
  std::map<const Function*, Size> sizes_;
  uint64_t total_ = 0;
};

}  // namespace ferrite::from_onnx
