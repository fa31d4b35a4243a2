// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Turns x / sqrt(y) into x * rsqrt(y) where y is broadcast: a product an element and a division a row. The predicate is C++; the
// matching is the host's, in any order of commutative operands, as for rules that are text.
#include <ferrite/plugin.hpp>

namespace {

namespace fe = ferrite;

fe::Rule normalise() {
  auto x = fe::any("x"), y = fe::any("y");
  return fe::rule("acme.normalise")
      .match(fe::op("div")(x, fe::op("sqrt")(y).used_once()))
      .where([](const fe::Match& match) {
        return match["x"].dtype() == fe::f32 && match["y"].type().elements() < match["x"].type().elements();
      })
      .yield(fe::op("mul")(x, fe::op("rsqrt")(y)));
}

}  // namespace

FERRITE_PLUGIN("acme.rule_cpp", "1.0.0", fe::rules("post_grad_pre", normalise))
