// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A folder with two plugins, and manifests over it.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "driver/config/manifest.h"

namespace ferrite::core::config {

namespace fs = std::filesystem;

class Manifest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "ferrite-manifest-XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
    fs::create_directory(folder_ / "plugins");
    write("plugins/acme.fuse.plugin.toml",
          "schema = 0\nid = \"acme.fuse\"\nversion = \"1.2.0\"\nrules = [\"fuse.fe\"]\n"
          "[config]\nlimit = \"integer\"\ntile = { m = \"number\" }\nnames = \"strings\"\non = \"boolean\"\n"
          "sizes = \"integers\"\nratio = \"number\"\nratios = \"numbers\"\n");
    write("plugins/fuse.fe", "rule text");
    write("plugins/acme.base.plugin.toml",
          "schema = 0\nid = \"acme.base\"\nversion = \"2.0\"\nlibrary = \"libbase.so\"\nabi = \"0.1\"\n");
    write("plugins/libbase.so", "not looked into here");
  }
  void TearDown() override { fs::remove_all(folder_); }

  void write(const std::string& name, const std::string& text) { std::ofstream(folder_ / name) << text; }
  Result<Pipeline> read(const std::string& text, const PipelineRequest& request = {}) {
    return read_pipeline_text("schema = 0\nextends = \"none\"\nsearch = [\"plugins\"]\n" + text,
                              (folder_ / "p.toml").string(), request);
  }
  /// "FE-M02 4:1": the code and the place, which is within p.toml where it has no name.
  std::string short_text(const Error& error) const {
    auto place = error.where;
    for (const auto& prefix : {(folder_ / "p.toml").string() + ":", folder_.string() + "/"})
      if (place.starts_with(prefix)) place = place.substr(prefix.size());
    return error.code + " " + place;
  }
  std::string fault(const std::string& text, const PipelineRequest& request = {}) {
    auto pipeline = read(text, request);
    if (pipeline) return "no error";
    text_ = pipeline.error().text;
    return short_text(pipeline.error());
  }
  fs::path folder_;
  std::string text_;  ///< of the last fault
};

}  // namespace ferrite::core::config
