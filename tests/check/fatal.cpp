// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Passes that take their process with them: one faults, one ends it, one never comes back.
#include <cstdlib>
#include <thread>

#include "ferrite/plugin.hpp"

namespace {

using namespace ferrite;

bool fault(Graph&) {
  volatile int* volatile nowhere = nullptr;
  *nowhere = 1;
  return false;
}
bool leave(Graph&) { std::_Exit(3); }
bool hang(Graph&) {
  for (;;) std::this_thread::sleep_for(std::chrono::seconds(1));
}

}  // namespace

FERRITE_PLUGIN("check.fatal", "1.0.0", pass("pre_grad", "check.fatal.fault", fault),
               pass("pre_grad", "check.fatal.leave", leave), pass("pre_grad", "check.fatal.hang", hang))
