// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Lowerings that misuse the recorder, one at a time: setting mode = "range" | "open" | "mixed" | "throw" | "unwritten".
#include <stdexcept>

#include "ferrite/plugin.hpp"

namespace {

using namespace ferrite;

/// Stores one element behind the result's end.
void store_out_of_range(Lowering& l) {
  auto i = l.begin(l.result().type.dims);
  auto value = l.load(0, i);
  auto at = i;
  at.back() = at.back() + 1;
  l.store(l.result(), at, value);
  l.end();
}
/// Never ends its statement.
void leave_open(Lowering& l) {
  auto i = l.begin(l.result().type.dims);
  l.store(l.result(), i, l.load(0, i));
}
/// Adds numbers of two dtypes.
void mix_dtypes(Lowering& l) {
  l.map(0, [&](const Indices& i) { return l.load(0, i) + l.constant(f64, 1); });
}
void throw_something(Lowering&) { throw std::runtime_error("thrown on purpose"); }
/// Writes nothing.
void leave_unwritten(Lowering&) {}

void add_lowering(PluginBuilder& builder, const PluginContext& context) {
  auto mode = context.config.string("mode");
  auto function = mode == "range"   ? store_out_of_range
                  : mode == "open"  ? leave_open
                  : mode == "mixed" ? mix_dtypes
                  : mode == "throw" ? throw_something
                                    : leave_unwritten;
  builder.add(lowering("relu", function));
}

}  // namespace

FERRITE_PLUGIN("test.bad_lowering", "1.0.0", add_lowering)
