// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Built with libc++ while the host has libstdc++: strings, containers and exceptions of the one must not meet
// the other's.
#include <ferrite/plugin.hpp>

#include <map>
#include <stdexcept>

#ifndef _LIBCPP_VERSION
#error "this is to be built with libc++"
#endif

namespace {

using namespace ferrite;

void lower(Lowering& l) {
  const std::map<std::string, double> factors = {{"a name that is too long for the small string", 3.0}};
  double factor = 0;
  try {
    factors.at("another name that is too long for the small string");
  } catch (const std::out_of_range&) {
    factor = factors.at("a name that is too long for the small string");
  }
  l.pointwise([&](const std::vector<Val>& x) { return x[0] * factor; });
}

}  // namespace

FERRITE_PLUGIN("test.with_libcxx", "1.0.0",
               op_def("test.thrice").operands("x").flags(FE_OP_POINTWISE).shape(same_as(0)).lower(lower))
