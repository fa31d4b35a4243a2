// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/check/levels.h"

#include "core/check/advice.h"
#include "core/check/backend.h"
#include "core/check/hostile.h"
#include "core/check/library.h"
#include "core/check/loading.h"
#include "core/check/numerics.h"
#include "core/check/subject.h"

namespace ferrite::core::check {

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

}  // namespace ferrite::core::check
