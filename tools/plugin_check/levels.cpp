// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "tools/plugin_check/levels.h"

#include "tools/plugin_check/advice.h"
#include "tools/plugin_check/backend.h"
#include "tools/plugin_check/hostile.h"
#include "tools/plugin_check/library.h"
#include "tools/plugin_check/loading.h"
#include "tools/plugin_check/numerics.h"
#include "tools/plugin_check/subject.h"

namespace ferrite::core::plugin_check {

void run_level(std::string_view level, const CheckOptions& options, Runner& runner) {
  if (level == level_names[0]) return check_files(options, runner);
  if (level == level_names[1]) return check_loading(options, runner);
  auto opened = Subject::open(options);
  if (!opened) {
    runner.run_needed("all", [] { return Verdict::skipped("the plugin does not load"); });
    return;
  }
  const Subject& subject = **opened;
  if (level == level_names[2]) {
    check_creation(options, subject, runner);
    check_hostile_ops(options, subject, runner);
    check_hostile_passes(options, subject, runner);
    check_hostile_advice(options, subject, runner);
    check_hostile_importers(options, subject, runner);
    check_hostile_backends(subject, runner);
    return;
  }
  check_samples(options, subject, runner);
  check_ops(options, subject, runner);
  check_passes(options, subject, runner);
  check_advice(options, subject, runner);
  check_importers(options, subject, runner);
  check_readers(options, subject, runner);
  check_backends(options, subject, runner);
}

}  // namespace ferrite::core::plugin_check
