// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "tools/plugin_check/library.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>

#include "core/support/files/file_descriptor.h"
#include "driver/config/descriptor.h"
#include "ferrite/abi/plugin.h"
#include "tools/plugin_check/harness/elf.h"

namespace ferrite::core::plugin_check {
namespace {

/// Entry points of other major versions may exist beside this one.
constexpr std::string_view entry_prefix = "fe_plugin_entry_v";
constexpr size_t most_named = 5;

std::string listed(const std::vector<std::string>& names) {
  const std::vector<std::string> first(
      names.begin(), names.begin() + static_cast<ptrdiff_t>(std::min(names.size(), most_named)));
  return fmt::format("{}{}", fmt::join(first, ", "),
                     names.size() > most_named ? fmt::format(" and {} more", names.size() - most_named) : "");
}

/// The report of the dynamic loader when it traces a library with all symbols bound; no code of the library
/// runs.
Result<std::string> loader_trace(const std::string& loader, const std::string& library) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0)
    return error(FE_EINTERNAL, "FE-P53", "no pipe to the dynamic loader could be made");
  const FileDescriptor reading(ends[0]);
  FileDescriptor writing(ends[1]);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, writing.get(), STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, writing.get(), STDERR_FILENO);
  std::vector<std::string> environment = {"LD_TRACE_LOADED_OBJECTS=1", "LD_WARN=yes", "LD_BIND_NOW=yes"};
  if (const char* folders = secure_getenv("LD_LIBRARY_PATH"))
    environment.push_back(std::string("LD_LIBRARY_PATH=") + folders);
  std::vector<char*> variables;
  for (auto& variable : environment) variables.push_back(variable.data());
  variables.push_back(nullptr);
  std::string program = loader, argument = library;
  char* argv[] = {program.data(), argument.data(), nullptr};
  pid_t process = -1;
  const int fault = posix_spawn(&process, loader.c_str(), &actions, nullptr, argv, variables.data());
  posix_spawn_file_actions_destroy(&actions);
  writing = FileDescriptor();
  std::string text;
  std::array<char, 4096> part;
  for (ssize_t count = 0; fault == 0 && (count = ::read(reading.get(), part.data(), part.size())) > 0;)
    text.append(part.data(), static_cast<size_t>(count));
  if (fault != 0) return error(FE_EINTERNAL, "FE-P53", "the dynamic loader {} does not start", loader);
  int status = 0;
  waitpid(process, &status, 0);
  return text;
}

std::vector<std::string> lines_with(const std::string& text, std::string_view mark) {
  std::vector<std::string> lines;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    auto line = text.substr(at, end - at);
    line.erase(0, line.find_first_not_of(" \t"));
    if (line.find(mark) != std::string::npos) lines.push_back(std::move(line));
    at = end + 1;
  }
  return lines;
}

Verdict check_exports(const ElfLibrary& library) {
  std::vector<std::string> others;
  bool entry = false;
  for (const auto& name : library.exported) {
    entry = entry || name == FE_PLUGIN_ENTRY;
    if (!name.starts_with(entry_prefix)) others.push_back(name);
  }
  if (!entry)
    return error(FE_EINVALID, "FE-P41", "the library does not export '{}'; give the plugin its entry",
                 FE_PLUGIN_ENTRY);
  if (!others.empty())
    return error(
        FE_EINVALID, "FE-P41",
        "the library exports {} symbol{} beside its entry, which another library may bind to: {}; link it "
        "with the version script of ferrite_add_plugin()",
        others.size(), others.size() == 1 ? "" : "s", listed(others));
  return {};
}

Verdict check_memory(const ElfLibrary& library) {
  if (library.executable_stack)
    return error(FE_EINVALID, "FE-P43",
                 "the library asks for an executable stack; link it with -z noexecstack");
  if (library.text_relocations)
    return error(FE_EINVALID, "FE-P43",
                 "the library's code is changed as it is loaded; compile it with -fPIC");
  return {};
}

/// The loader's own report on dependencies and symbols.
Verdict check_loader(const std::string& path, std::string_view mark, std::string_view cure) {
  const auto self = ElfLibrary::read("/proc/self/exe");
  if (!self || self->interpreter.empty())
    return Verdict::skipped("this program names no dynamic loader that could be asked");
  FE_TRY(const auto trace, loader_trace(self->interpreter, path));
  if (trace.empty()) return Verdict::skipped("the dynamic loader says nothing of the library");
  const auto faults = lines_with(trace, mark);
  if (!faults.empty()) return error(FE_EINVALID, "FE-P42", "{}; {}", listed(faults), cure);
  return {};
}

}  // namespace

void check_files(const CheckOptions& options, Runner& runner) {
  std::string library = options.target.path;
  std::string none;
  if (!options.target.descriptor.empty()) {
    const auto descriptor = config::Descriptor::read(options.target.descriptor);
    library = descriptor ? descriptor->library : "";
    if (!descriptor)
      none = "the descriptor cannot be read";
    else if (library.empty())
      none = "the plugin has no library";
    runner.run("descriptor", [&]() -> Verdict {
      if (!descriptor) return descriptor.error();
      std::error_code failed;
      for (const auto& file : descriptor->rules)
        if (!std::filesystem::is_regular_file(file, failed))
          return at(options.target.descriptor,
                    error(FE_EINVALID, "FE-P44", "the rule file {} is missing", file));
      const auto expected = descriptor->id + std::string(plugin::descriptor_suffix);
      if (std::filesystem::path(options.target.descriptor).filename() != expected)
        return at(options.target.descriptor,
                  error(FE_EINVALID, "FE-P44", "the id is '{}': the file is found only if it is called {}",
                        descriptor->id, expected));
      return {};
    });
  } else {
    runner.run("descriptor", [&] { return Verdict::skipped("the library has no descriptor beside it"); });
  }
  auto file =
      none.empty() ? ElfLibrary::read(library) : Result<ElfLibrary>(error(FE_EINVALID, "FE-P40", "{}", none));
  /// If the file cannot be read, that is the only failure, and the other checks are skipped.
  auto with_file = [&](std::string_view name, const std::function<Verdict()>& check) {
    runner.run(name, [&]() -> Verdict {
      if (!none.empty()) return Verdict::skipped(none);
      if (!file) return Verdict::skipped("the library cannot be read");
      return check();
    });
  };
  runner.run("shared library", [&]() -> Verdict {
    if (!none.empty()) return Verdict::skipped(none);
    if (!file) return file.error();
    if (const auto self = ElfLibrary::read("/proc/self/exe"); self && self->machine != file->machine)
      return at(library, error(FE_EINVALID, "FE-P40", "the library is for {}, this program for {}",
                               machine_name(file->machine), machine_name(self->machine)));
    return {};
  });
  with_file("exports", [&] { return check_exports(*file); });
  with_file("stack and code", [&] { return check_memory(*file); });
  with_file("dependencies", [&] {
    return check_loader(library, "not found", "install what is missing, or link it statically");
  });
  with_file("symbols", [&] {
    return check_loader(library, "undefined symbol",
                        "link the library that defines it; the program exports nothing to plugins");
  });
}

}  // namespace ferrite::core::plugin_check
