// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "tools/plugin_check/loading.h"

#include <unistd.h>

#include <algorithm>
#include <map>
#include <optional>

#include "driver/config/descriptor.h"
#include "tools/plugin_check/subject.h"

namespace ferrite::core::plugin_check {
namespace {

/// "2 ops, 1 pass"
std::string count_kinds(const std::vector<std::string>& contributions) {
  std::map<std::string, size_t> counts;
  for (const auto& each : contributions) ++counts[each.substr(0, each.find(' '))];
  std::vector<std::string> parts;
  for (const auto& [kind, count] : counts) parts.push_back(fmt::format("{} {}", count, kind));
  return fmt::format("{}", fmt::join(parts, ", "));
}

/// The first contribution that only one of two instances has.
Verdict compare(const std::vector<std::string>& first, const std::vector<std::string>& other,
                std::string_view which) {
  std::vector<std::string> differing;
  std::set_symmetric_difference(first.begin(), first.end(), other.begin(), other.end(),
                                std::back_inserter(differing));
  if (!differing.empty())
    return error(
        FE_EINVALID, "FE-P45",
        "the {} instance contributes otherwise than the first: {}; what a plugin gives must follow from "
        "its config alone",
        which, differing.front());
  return {};
}

Verdict agrees(const Subject& subject, const std::string& path) {
  if (path.empty()) return Verdict::skipped("the library has no descriptor beside it");
  FE_TRY(const auto descriptor, config::Descriptor::read(path));
  if (descriptor.library.empty()) return Verdict::skipped("the plugin has no library");
  const auto& plugin = subject.plugin();
  const auto version = config::Version::parse(plugin.version);
  if (!version)
    return error(FE_EINVALID, "FE-P44", "the library's version '{}' is none; write major.minor.patch",
                 plugin.version);
  if (*version != descriptor.version)
    return at(path, error(FE_EINVALID, "FE-P44", "the descriptor says version {}.{}.{}, the library {}",
                          descriptor.version.major, descriptor.version.minor, descriptor.version.patch,
                          plugin.version));
  return {};
}

off_t printed() { return lseek(STDOUT_FILENO, 0, SEEK_END); }

}  // namespace

void check_loading(const CheckOptions& options, Runner& runner) {
  const off_t before = printed();
  // Opened by the first check that runs, so that a crash while loading is attributed to a check.
  std::optional<Result<std::unique_ptr<Subject>>> opened;
  std::vector<std::string> given;
  auto first = [&]() -> Result<std::unique_ptr<Subject>>& {
    if (opened) return *opened;
    opened.emplace(Subject::open(options));
    if (*opened) given = (**opened)->contributions();
    return *opened;
  };
  auto with_plugin = [&](std::string_view name,
                         const std::function<Verdict(std::unique_ptr<Subject>&)>& check) {
    runner.run(name, [&]() -> Verdict {
      if (!first()) return Verdict::skipped("the plugin does not load");
      return check(**opened);
    });
  };
  runner.run_needed("load and create", [&]() -> Verdict {
    if (!first()) return opened->error();
    return Verdict::passed((**opened)->plugin().id + " " + (**opened)->plugin().version);
  });
  with_plugin("descriptor and library",
              [&](std::unique_ptr<Subject>& subject) { return agrees(*subject, options.target.descriptor); });
  with_plugin("contributions", [&](std::unique_ptr<Subject>&) -> Verdict {
    if (given.empty()) return error(FE_EINVALID, "FE-P45", "the plugin contributes nothing");
    return Verdict::passed(count_kinds(given));
  });
  with_plugin("second instance", [&](std::unique_ptr<Subject>&) -> Verdict {
    FE_TRY(auto second, Subject::open(options));
    return compare(given, second->contributions(), "second");
  });
  with_plugin("destroy and create again", [&](std::unique_ptr<Subject>& subject) -> Verdict {
    subject.reset();
    FE_TRY(subject, Subject::open(options));
    return compare(given, subject->contributions(), "third");
  });
  with_plugin("prints nothing", [&](std::unique_ptr<Subject>&) -> Verdict {
    if (before < 0) return Verdict::skipped("standard output is no file here");
    if (const auto bytes = printed() - before; bytes > 0)
      return error(FE_EINVALID, "FE-P45",
                   "{} bytes came out on standard output; a plugin logs through the host's 'log'", bytes);
    return {};
  });
}

}  // namespace ferrite::core::plugin_check
