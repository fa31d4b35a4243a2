// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// ferrite cache: the stored compiled kernels.
#include <algorithm>
#include <filesystem>

#include "core/support/files/file_fault.h"
#include "core/support/printable.h"
#include "driver/cache/kernel_folder.h"
#include "ferrite/counted.hpp"
#include "tools/cli/common.h"

namespace ferrite::cli {
namespace {

struct CacheOptions {
  std::string place;
  int64_t days = 0;
  bool remove = false;

  std::string folder() const {
    return core::cache::kernel_folder(place.empty() ? std::nullopt : std::optional(place));
  }
};

using Files = std::vector<core::cache::File>;
using Act = Result<void> (*)(const CacheOptions&, const std::string& folder, const Files&);

constexpr int64_t minute = 60, hour = 60 * minute, day = 24 * hour;  // seconds

uint64_t total(const Files& files) {
  uint64_t bytes = 0;
  for (const auto& file : files) bytes += file.bytes;
  return bytes;
}

/// Removes a file; another process may have done that already.
Result<void> remove(const std::string& folder, const std::string& name) {
  std::error_code failed;
  std::filesystem::remove(std::filesystem::path(folder) / name, failed);
  if (failed)
    return core::at(folder + "/" + name, core::error(FE_EINVALID, "FE-K30", "it cannot be removed: {}",
                                                     core::file_fault(folder + "/" + name, failed.value())));
  return {};
}

/// "3 hours ago"
std::string age_text(int64_t seconds) {
  if (seconds < minute) return "just now";
  return (seconds < hour  ? counted(seconds / minute, "minute")
          : seconds < day ? counted(seconds / hour, "hour")
                          : counted(seconds / day, "day")) +
         " ago";
}

/// The text, shortened to a column of `most` bytes.
std::string shortened(const std::string& text, size_t most) {
  auto shown = core::printable(text);
  if (shown.size() <= most) return shown;
  size_t end = most;
  while (end > 0 && (static_cast<unsigned char>(shown[end]) & 0xc0) == 0x80) --end;  // of UTF-8
  return shown.substr(0, end) + "…";
}

Result<void> list(const CacheOptions&, const std::string& folder, const Files& files) {
  constexpr size_t most_name = 24, most_nodes = 80;
  auto sorted = files;
  std::ranges::stable_sort(sorted, {}, &core::cache::File::unused);
  if (!sorted.empty())
    fmt::print("{:<16}  {:<16}  {:>10}  {:<8}  {:<24}  {}\n", "used", "made", "size", "device", "candidate",
               "nodes of the model");
  size_t damaged = 0;
  for (const auto& file : sorted) {
    std::string fault;
    const auto about = core::cache::look_at(folder, file.name, fault);
    if (!about && fault.empty()) continue;  // another process cleared it meanwhile
    const auto used = age_text(file.unused), size = size_text(file.bytes);
    if (about)
      fmt::print("{:<16}  {:<16}  {:>10}  {:<8}  {:<24}  {}\n", used,
                 file.age ? age_text(*file.age) : std::string(), size, shortened(about->device, most_name),
                 shortened(about->candidate, most_name), shortened(about->nodes, most_nodes));
    else
      fmt::print("{:<16}  {:<16}  {:>10}  not usable: {}: {}\n", used, "", size, file.name, fault);
    damaged += about ? 0 : 1;
  }
  fmt::print("{}, {}, in {}\n", counted(files.size(), "kernel"), size_text(total(files)), folder);
  if (const auto why = core::cache::distrusted(folder); !why.empty())
    fmt::print("the folder is not used: {}\n", why);
  if (damaged > 0)
    fmt::print("{} not usable, and made anew when {} wanted; ferrite cache verify --remove takes {} away\n",
               counted(damaged, "is", "are"), damaged == 1 ? "it is" : "they are",
               damaged == 1 ? "it" : "them");
  return {};
}

Result<void> clear(const CacheOptions& options, const std::string& folder, const Files& files) {
  Files old = files;
  std::erase_if(old, [&](const auto& file) { return file.unused / day < options.days; });
  for (const auto& file : old) FE_CHECK(remove(folder, file.name));
  fmt::print("removed {}, {}, from {}\n", counted(old.size(), "kernel"), size_text(total(old)), folder);
  FE_TRY(const auto parts, core::cache::list_abandoned(folder, core::cache::kernel_suffix));
  for (const auto& file : parts) FE_CHECK(remove(folder, file.name));
  if (!parts.empty())
    fmt::print("removed {} that was not written to its end, {}\n", counted(parts.size(), "file"),
               size_text(total(parts)));
  return {};
}

Result<void> verify(const CacheOptions& options, const std::string& folder, const Files& files) {
  size_t damaged = 0;
  for (const auto& file : files) {
    std::string fault;
    if (core::cache::look_at(folder, file.name, fault) || fault.empty()) continue;
    ++damaged;
    fmt::print("{}: {}{}\n", file.name, fault, options.remove ? "; removed" : "");
    if (options.remove) FE_CHECK(remove(folder, file.name));
  }
  if (damaged > 0 && !options.remove)
    return core::at(folder, core::error(FE_EINVALID, "FE-K31", "{} of {}; --remove takes them away", damaged,
                                        counted(files.size(), "kernel")));
  if (const auto why = core::cache::distrusted(folder); !why.empty())
    return core::at(
        folder,
        core::error(FE_EINVALID, "FE-K32",
                    "it is not used: {}; make it one's own, or name another folder with --cache", why));
  fmt::print("{} whole, in {}\n", counted(files.size() - damaged, "kernel is", "kernels are"), folder);
  return {};
}

Run add(CLI::App& command, Act act, const std::shared_ptr<CacheOptions>& options) {
  command.add_option("--cache", options->place, "The folder; without it the one that commands use")
      ->type_name("DIR")
      ->check(not_empty);
  return [options, act] {
    const std::string folder = options->folder();
    if (folder.empty()) {
      fmt::print("the cache is off\n");
      return 0;
    }
    const bool usual = options->place.empty() || options->place == "on";
    if (std::error_code failed; usual && !std::filesystem::exists(folder, failed) && !failed) {
      fmt::print("0 kernels: there is no folder {} yet\n", folder);
      return 0;
    }
    auto files = core::cache::list(folder, core::cache::kernel_suffix);
    auto done = files ? act(*options, folder, *files) : Result<void>(std::move(files.error()));
    return done ? 0 : report(done.error());
  };
}

}  // namespace

Run add_cache(CLI::App& command) {
  auto chosen = std::make_shared<Run>();
  auto options = std::make_shared<CacheOptions>();
  const auto subcommand = [&](const char* name, const char* help, Act act) {
    auto* sub = command.add_subcommand(name, help);
    sub->final_callback([run = add(*sub, act, options), chosen] { *chosen = run; });
    return sub;
  };
  subcommand("list", "List the cached kernels", list);
  subcommand("clear", "Delete the cached kernels", clear)
      ->add_option("--days", options->days, "Only kernels that were not used for so many days")
      ->type_name("N")
      ->check(CLI::Range(int64_t{0}, int64_t{36500}));
  subcommand("verify", "Check the hashes and the descriptions of all cached kernels", verify)
      ->add_flag("--remove", options->remove, "Remove damaged entries");
  command.require_subcommand(1);
  return [chosen] { return (*chosen)(); };
}

}  // namespace ferrite::cli
