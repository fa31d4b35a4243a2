// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// ferrite plugin new KIND NAME: creates a small project for a plugin of this kind from the SDK's installed
// templates: share/ferrite/templates/<kind>/. In their texts and file names @ID@ is replaced by the plugin's
// id, and @TARGET@ by the id as one word, with underscores for dots.
#include <algorithm>
#include <cctype>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "core/support/files/file_fault.h"
#include "core/support/suggest.h"
#include "driver/config/manifest.h"
#include "tools/cli/commands/plugin.h"

namespace ferrite::cli {
namespace {

namespace fs = std::filesystem;

struct PluginNewOptions {
  std::string kind, name, output;
};

/// An error for the errno value `number`.
Error file_error(const fs::path& path, std::string_view what, int number) {
  return core::at(path.string(),
                  error(FE_EINVALID, "FE-C10", "{}: {}", what, core::file_fault(path.string(), number)));
}

/// At least two words of letters, digits and '_', each beginning with a letter, joined by dots: valid as an
/// id, as the name of a rule or an op, as a file name and, with underscores for dots, as a CMake target.
bool valid_name(std::string_view name) {
  if (name.size() > 128 || name.find('.') == std::string_view::npos) return false;
  char before = '.';
  for (char c : name) {
    const bool letter = std::isalpha(static_cast<unsigned char>(c)) != 0;
    const bool inside = c == '_' || c == '.' || std::isdigit(static_cast<unsigned char>(c)) != 0;
    if (!letter && (before == '.' || !inside)) return false;
    before = c;
  }
  return before != '.';
}

/// The folder of the kind's template. FE-C25 where no templates are installed, FE-C01 where there is no such
/// kind.
Result<fs::path> template_of(const std::string& kind) {
  const auto folder = fs::path(core::plugin::installed_files().default_manifest).parent_path() / "templates";
  std::error_code failed;
  std::vector<std::string> kinds;
  for (const auto& entry : fs::directory_iterator(folder, failed))
    if (entry.is_directory(failed)) kinds.push_back(entry.path().filename().string());
  if (kinds.empty())
    return core::at(folder.string(), error(FE_EINVALID, "FE-C25",
                                           "there are no templates; install Ferrite with its share folder"));
  std::ranges::sort(kinds);
  if (!std::ranges::binary_search(kinds, kind)) {
    const std::vector<std::string_view> names(kinds.begin(), kinds.end());
    return error(FE_EINVALID, "FE-C01", "there is no kind of plugin '{}'; there are {}{}", kind,
                 fmt::join(kinds, ", "), core::did_you_mean(kind, names));
  }
  return folder / kind;
}

std::string filled_in(std::string text, const std::string& id) {
  std::string target = id;
  std::ranges::replace(target, '.', '_');
  for (const auto& [mark, value] :
       {std::pair<std::string_view, std::string_view>{"@ID@", id}, {"@TARGET@", target}})
    for (size_t at = text.find(mark); at != std::string::npos; at = text.find(mark, at + value.size()))
      text.replace(at, mark.size(), value);
  return text;
}

/// Removes the template's licence line, because the new project belongs to its author.
std::string without_licence(std::string text) {
  if (text.substr(0, text.find('\n')).find("SPDX-License-Identifier") != std::string::npos)
    text.erase(0, text.find('\n') + 1);
  return text;
}

/// Copies one file of a template.
Result<void> copy(const fs::path& from, const fs::path& to, const std::string& id) {
  errno = 0;
  std::ifstream in(from, std::ios::binary);
  std::ostringstream text;
  if (!in || !(text << in.rdbuf())) return file_error(from, "the template cannot be read", errno);
  std::error_code failed;
  fs::create_directories(to.parent_path(), failed);
  return write_text(to.string(), filled_in(without_licence(text.str()), id));
}

/// Creates the files and returns their names, relative to the folder.
Result<std::vector<std::string>> make(const fs::path& source, const fs::path& folder, const std::string& id) {
  std::vector<std::string> made;
  std::error_code failed;
  for (const auto& entry : fs::recursive_directory_iterator(source, failed)) {
    if (!entry.is_regular_file(failed)) continue;
    const std::string name = filled_in(entry.path().lexically_relative(source).string(), id);
    FE_CHECK(copy(entry.path(), folder / name, id));
    made.push_back(name);
  }
  std::ranges::sort(made);
  return made;
}

Result<void> make_plugin(const PluginNewOptions& options) {
  FE_TRY(const auto source, template_of(options.kind));
  if (!valid_name(options.name))
    return error(
        FE_EINVALID, "FE-C26",
        "'{}' is no name for a plugin: write the vendor's and its own joined by a point, as in acme.fuse; "
        "letters, digits and '_', each part begun by a letter",
        options.name);
  if (options.name.starts_with("ferrite."))
    return error(
        FE_EINVALID, "FE-C26",
        "'{}' is the name of a built-in plugin, or may become one's: those begin with 'ferrite.'; take "
        "another vendor's name",
        options.name);
  const fs::path folder = options.output.empty() ? options.name : options.output;
  std::error_code failed;
  if (fs::symlink_status(folder, failed).type() != fs::file_type::not_found)
    return core::at(folder.string(),
                    error(FE_EINVALID, "FE-C27",
                          "it is there already, and nothing in it is overwritten; give another "
                          "folder with --output, or remove it"));
  if (!fs::create_directories(folder, failed))
    return file_error(folder, "the folder cannot be made", failed.value());
  auto made = make(source, folder, options.name);
  if (!made) {
    fs::remove_all(folder, failed);
    return std::move(made.error());
  }
  fmt::print("made the plugin {} ({}):\n", options.name, options.kind);
  for (const auto& name : *made) fmt::print("  {}\n", (folder / name).string());
  fmt::print("its README.md says how to build, test and use it\n");
  return {};
}

}  // namespace

Run add_plugin_new(CLI::App& command) {
  auto options = std::make_shared<PluginNewOptions>();
  command.add_option("KIND", options->kind, "rules, pass, op, backend, importer or provider")
      ->type_name("KIND")
      ->required();
  command.add_option("NAME", options->name, "The plugin's id, as in acme.fuse")
      ->type_name("NAME")
      ->required();
  command.add_option("--output", options->output, "The folder to make; without it NAME in this folder")
      ->type_name("DIR")
      ->check(not_empty);
  return [options] {
    auto done = make_plugin(*options);
    return done ? 0 : report(done.error());
  };
}

}  // namespace ferrite::cli
