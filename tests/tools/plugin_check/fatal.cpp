// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Passes that take their process with them: one faults, one ends it, one never comes back. And two that leave
// something behind: a process, and bytes in every descriptor.
#include <unistd.h>

#include <array>
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
bool end_well(Graph&) { std::_Exit(0); }
bool fork_off(Graph&) {
  if (fork() == 0) {
    execl("/bin/sleep", "check-fatal-left-behind", "300", static_cast<char*>(nullptr));
    std::_Exit(0);
  }
  return false;
}
bool hand_over(Graph& graph) {
  fork_off(graph);
  std::_Exit(4);
}
bool scribble(Graph&) {
  constexpr std::array<char, 100> zeros{};
  for (int descriptor = 3; descriptor < 20; ++descriptor)
    if (write(descriptor, zeros.data(), zeros.size()) < 0) continue;
  return false;
}
bool hang(Graph&) {
  for (;;) std::this_thread::sleep_for(std::chrono::seconds(1));
}

}  // namespace

FERRITE_PLUGIN("check.fatal", "1.0.0", pass("pre_grad", "check.fatal.fault", fault),
               pass("pre_grad", "check.fatal.leave", leave), pass("pre_grad", "check.fatal.end", end_well),
               pass("pre_grad", "check.fatal.fork", fork_off),
               pass("pre_grad", "check.fatal.hand_over", hand_over),
               pass("pre_grad", "check.fatal.scribble", scribble), pass("pre_grad", "check.fatal.hang", hang))
