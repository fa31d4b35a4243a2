// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// ferrite plugin schema: the description against which manifests, descriptors and lock files are checked.
#include "core/support/suggest.h"
#include "driver/config/schema.h"
#include "tools/cli/commands/plugin.h"

namespace ferrite::cli {
namespace {

struct PluginSchemaOptions {
  std::string file;
  bool markdown = false;
};

Result<void> print_schema(const PluginSchemaOptions& options) {
  std::vector<std::string_view> names;
  for (const auto& file : core::config::file_keys()) {
    if (file.name == options.file) {
      fmt::print(
          "{}", options.markdown ? core::config::key_tables_markdown(file) : core::config::json_schema(file));
      return {};
    }
    names.push_back(file.name);
  }
  return core::at(options.file, error(FE_EINVALID, "FE-C01", "there is no such kind of file; there are: {}{}",
                                      fmt::join(names, ", "), core::did_you_mean(options.file, names)));
}

}  // namespace

Run add_plugin_schema(CLI::App& command) {
  auto options = std::make_shared<PluginSchemaOptions>();
  command.add_option("file", options->file, "manifest, descriptor or lock")->required()->type_name("FILE");
  command.add_flag("--markdown", options->markdown, "Tables of the keys instead of a JSON schema");
  return [options] {
    auto done = print_schema(*options);
    return done ? 0 : report(done.error());
  };
}

}  // namespace ferrite::cli
