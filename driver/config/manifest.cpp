// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "driver/config/manifest.h"

#include <filesystem>

#include "core/support/log.h"
#include "core/support/shell.h"
#include "core/support/toml/toml_reader.h"
#include "driver/config/find_plugins.h"
#include "driver/config/lock.h"
#include "driver/config/manifest_read.h"

namespace ferrite::core::config {

namespace {

std::string options_of(const PipelineRequest& request) {
  std::vector<std::string> words;
  const auto add = [&](std::string_view option, const std::string& value) {
    if (!value.empty()) words.push_back(fmt::format("{} {}", option, shell_word(value)));
  };
  if (request.safe_mode) words.emplace_back("--safe-mode");
  add("--manifest", request.manifest);
  for (const auto& plugin : request.plugins) add("--plugin", plugin);
  add("--profile", request.profile);
  return fmt::format("{}", fmt::join(words, " "));
}

}  // namespace

Result<Pipeline> read_pipeline_text(std::string_view text, const std::string& path,
                                    const PipelineRequest& request) {
  FE_TRY(auto content, read_manifest(text, path, request.profile));
  content.pipeline.options = options_of(request);
  std::optional<Lock> lock;
  const auto lock_path = Lock::path_for(path);
  std::error_code failed;
  // A dangling link counts as a lock that cannot be read. exists() would follow the link and ignore the lock.
  if (request.use_lock && std::filesystem::exists(std::filesystem::symlink_status(lock_path, failed))) {
    FE_TRY(lock, Lock::read(lock_path));
    content.pipeline.lock = lock_path;
  }
  return find_plugins(std::move(content), request, lock ? &*lock : nullptr);
}

Result<Pipeline> read_pipeline(const PipelineRequest& request) {
  const auto files = installed_files();
  if (request.safe_mode) {
    log::print("plugins", "safe mode: the built-in plugins, without {}",
               request.manifest.empty() ? "the command line" : request.manifest);
    FE_TRY(auto text, read_text_file(files.default_manifest));
    PipelineRequest plain;
    plain.safe_mode = true;
    plain.devices = request.devices;
    plain.targets = request.targets;
    plain.kinds = request.kinds;
    plain.tf32 = request.tf32;
    plain.use_lock = false;
    return read_pipeline_text(text, files.default_manifest, plain);
  }
  const auto& manifest = request.manifest.empty() ? files.default_manifest : request.manifest;
  FE_TRY(auto text, read_text_file(manifest));
  return read_pipeline_text(text, manifest, request);
}

}  // namespace ferrite::core::config
