// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// libFuzzer: any bytes as a graph's text. What reads must print, read back equal, and print the same again.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "core/ir/graph/print.h"
#include "core/ir/graph/verify.h"
#include "core/ir/text/parse_graph.h"
#include "tests/core/ir/graph_ops.h"

using namespace ferrite::core::graph;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const test::Ops ops;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  for (const OpRegistry* registry : {&ops.registry(), static_cast<const OpRegistry*>(nullptr)}) {
    const auto graph = parse(text, {"fuzz", "/nowhere", registry});
    if (!graph) {
      if (graph.error().code.empty() || graph.error().where.empty()) std::abort();
      continue;
    }
    if (registry && !verify(*graph, *registry)) std::abort();
    const std::string printed = print(*graph);
    const auto again = parse(printed, {"printed", "/nowhere", registry});
    if (!again || !equal(*graph, *again) || print(*again) != printed) std::abort();
  }
  return 0;
}
