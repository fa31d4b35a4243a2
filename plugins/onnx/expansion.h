// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The number of nodes after inlining the functions of a model. A few functions that call each other twice can
// expand beyond any memory, so the nodes are counted before they are created.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "format/proto.h"
#include "functions.h"
#include "readers.h"

namespace ferrite::from_onnx {

/// The count for one import. Calls that a plugin reads count as one node each.
class Expansion {
 public:
  static constexpr uint64_t most_nodes = 1'000'000;  ///< in all calls of a model together
  static constexpr uint64_t deepest = 200;           ///< nesting of calls

  explicit Expansion(ReaderTable& readers) : readers_(readers) {}

  using Nodes = google::protobuf::RepeatedPtrField<onnx::NodeProto>;
  /// Counts the calls among the nodes, without those in subgraphs. FE-I43 if there are too many; `within` is
  /// the suffix of the nodes' places.
  void add_calls(const Nodes& nodes, const Opsets& opsets, const std::string& within);
  /// Counts one more call, of the node at `place`.
  void add_call(const Function& function, std::string_view place);

 private:
  struct Size {
    uint64_t nodes = 0;   ///< saturates
    uint64_t height = 0;  ///< nesting of the calls within; saturates just above `deepest`
  };
  const Size& size_of(const Function& function, uint64_t depth);
  void count(Size& size, const Nodes& nodes, const Opsets& opsets, uint64_t depth);
  const Function* called(const onnx::NodeProto& node, const Opsets& opsets);

  ReaderTable& readers_;
  std::map<const Function*, Size> sizes_;
  uint64_t total_ = 0;
};

}  // namespace ferrite::from_onnx
