// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The keys of manifests, descriptors and lock files, described once. The readers check files against the
// description, editors get it as a JSON schema, and docs/manifest.md gets its tables from it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "core/support/toml/keys.h"

namespace ferrite::core::config {

using namespace ferrite::core::plugin;

/// A kind of file.
struct FileKeys {
  std::string_view name;  ///< "manifest", "descriptor", "lock"
  std::string_view doc;
  const KeyTable* top;
};

/// manifest, descriptor, lock.
std::span<const FileKeys> file_keys();
const KeyTable& manifest_keys();
const KeyTable& descriptor_keys();
const KeyTable& lock_keys();
/// The keys of one setting in a descriptor's [config].
const KeyTable& declaration_keys();

/// The types that the declaration of a plugin's setting may have.
std::span<const std::string_view> setting_types();

/// JSON schema (draft 2020-12) of a kind of file, ending in a newline.
std::string json_schema(const FileKeys& file);
/// The tables of docs/manifest.md for a kind of file: one for each table of keys, outer ones first.
std::string key_tables_markdown(const FileKeys& file);

}  // namespace ferrite::core::config
