// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Lowerings that begin a statement and then decline: what they recorded is dropped; relu's own lowering is taken, softmax is
// decomposed.
#include "ferrite/plugin.hpp"

namespace {

void begin_and_decline(ferrite::Lowering& l) {
  auto i = l.begin(l.result().type.dims);
  l.load(0, i);
  ferrite::decline("only for practice");
}

}  // namespace

FERRITE_PLUGIN("test.declining_lowering", "1.0.0", ferrite::lowering("relu", begin_and_decline),
               ferrite::lowering("softmax", begin_and_decline))
