// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// libFuzzer: any bytes as a flat graph. What reads must print, write, and read back equal.
#include <cstdint>
#include <cstdlib>
#include <span>

#include "core/ir/flat/flat_graph.h"
#include "core/ir/graph/verify.h"
#include "tests/core/ir/graph_ops.h"

using namespace ferrite::core::graph;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const test::Ops ops;
  const auto read = read_flat(std::as_bytes(std::span(data, size)), "/nowhere");
  if (!read) {
    if (read.error().code.empty() || read.error().text.empty()) std::abort();
    return 0;
  }
  const std::string text = print(read->graph);
  if (const auto verdict = verify(read->graph, ops.registry()); !verdict && verdict.error().code.empty())
    std::abort();
  const auto written = write_flat(read->graph, FlatOptions{UINT64_MAX});
  if (!written) {
    // Expressions may nest deeper once they are simplified.
    if (read->graph.symbols().size() == 0) std::abort();
    return 0;
  }
  const auto again = read_flat(written->bytes, "/nowhere");
  if (!again || !equal(read->graph, again->graph) || print(again->graph) != text) std::abort();
  return 0;
}
