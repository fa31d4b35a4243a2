// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A lowering that begins a statement and then declines: what it recorded is dropped, the op's own lowering is taken.
#include "ferrite/plugin.hpp"

namespace {

void begin_and_decline(ferrite::Lowering& l) {
  auto i = l.begin(l.result().type.dims);
  l.load(0, i);
  ferrite::decline("only for practice");
}

}  // namespace

FERRITE_PLUGIN("test.declining_lowering", "1.0.0", ferrite::lowering("relu", begin_and_decline))
