// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Turns x / sqrt(y) into x * rsqrt(y) if y is broadcast: one product per element and one division per row.
// The predicate is C++; the host does the matching, as for rules in text form, including operand orders of
// commutative ops.
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
