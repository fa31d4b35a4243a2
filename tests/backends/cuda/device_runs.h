// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Runs on a device whose driver records its calls. A launch reads the first element of its first buffer, adds
// one, and stores the result as the first element of its last buffer.
#pragma once

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "driver/session.h"

namespace ferrite::core {
namespace {

using Context = runtime::Executable::Context;

// Two kernels, since the sum has another size than its operand.
constexpr const char* two_kernels = R"(ferrite graph 0
graph @g(%x: f32[4,300]) -> (%r "r", %s "s") {
  %r = exp(%x) from "first"
  %t = transpose(%r) {perm = [1, 0]} from "transposed"
  %s = matmul(%r, %t) from "second"
}
)";
constexpr const char* one_kernel = R"(ferrite graph 0
graph @g(%x: f32[4,300]) -> (%r "r") {
  %r = exp(%x) from "first"
}
)";

class DeviceRuns : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() / ("ferrite-runs-" + std::to_string(getpid()));
    std::filesystem::create_directories(folder_);
    setenv("FAKE_DRIVER_LOG", log().c_str(), 1);
    driver_ = dlopen(FERRITE_FAKE_DRIVER, RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(driver_, nullptr) << dlerror();
    driver<void()>("fake_driver_reset")();
    open();
    options_.device = "cuda:0";
  }
  /// Opens a session; `library`: with a stand-in for cuBLASLt that computes products on the host.
  void open(bool library = false) {
    std::string manifest = "schema = 0\nenable = [\"ferrite.cuda\"";
    manifest += library ? ", \"ferrite.cublaslt\"]\n" : "]\n";
    manifest +=
        "[plugin.\"ferrite.cuda\"]\nconfig = { library = \"" + std::string(FERRITE_FAKE_DRIVER) + "\" }\n";
    if (library)
      manifest += "[plugin.\"ferrite.cublaslt\"]\nconfig = { library = \"" FERRITE_FAKES
                  "/fake_lt.so\", driver = \"" FERRITE_FAKE_DRIVER "\", price = 0.0 }\n";
    auto pipeline = config::read_pipeline_text(manifest, (folder_ / "manifest.toml").string(), {});
    ASSERT_TRUE(pipeline) << pipeline.error().message();
    auto session = Session::open(*pipeline);
    ASSERT_TRUE(session) << session.error().message();
    session_ = std::move(*session);
  }
  void TearDown() override {
    program_.reset();
    model_.reset();
    session_.reset();
    for (const char* name : {"FAKE_DRIVER_FAIL", "FAKE_DRIVER_LOSE", "FAKE_DRIVER_DEVICES",
                             "FAKE_DRIVER_POOLS", "FAKE_DRIVER_WAITS"})
      unsetenv(name);
    std::filesystem::remove_all(folder_);
  }

  std::string log() const { return (folder_ / "calls").string(); }
  /// Clears the log.
  void forget_calls() { std::filesystem::remove(log()); }
  /// The arguments of a function's calls; its name must be at the beginning of a line.
  std::vector<std::string> calls(const std::string& function) const {
    std::vector<std::string> result;
    std::ifstream file(log());
    for (std::string line; std::getline(file, line);)
      if (line == function || line.starts_with(function + " "))
        result.push_back(line.substr(function.size()));
    return result;
  }

  void load(const std::filesystem::path& path) {
    auto model = Model::open(*session_, path.string());
    ASSERT_TRUE(model) << model.error().message();
    model_ = std::move(*model);
  }
  std::vector<std::vector<int64_t>> dims() const {
    std::vector<std::vector<int64_t>> result;
    for (const auto& input : model_->inputs()) result.push_back(input.dims);
    return result;
  }
  void make() {
    auto program = model_->program(dims(), options_);
    ASSERT_TRUE(program) << program.error().message();
    program_ = *program;
    forget_calls();
  }
  void compile(const std::string& text) {
    std::ofstream(folder_ / "model.fe") << text;
    load(folder_ / "model.fe");
    make();
  }
  /// Packages the model; afterwards the package's program is the model.
  void package(const std::string& text, std::span<const TargetName> targets = {}) {
    std::ofstream(folder_ / "model.fe") << text;
    load(folder_ / "model.fe");
    const auto path = folder_ / "model.fepkg";
    const auto saved = model_->save(dims(), options_, targets, path.string());
    ASSERT_TRUE(saved) << saved.error().message();
    load(path);
    make();
  }
  /// A function of the driver, as a program next to Ferrite calls it.
  template <class Function>
  Function* driver(const char* name) const {
    return reinterpret_cast<Function*>(dlsym(driver_, name));
  }
  std::shared_ptr<runtime::Device> device(const std::string& name) const {
    auto opened = runtime::Device::open(name, session_->registry());
    EXPECT_TRUE(opened) << (opened ? "" : opened.error().message());
    return opened ? *opened : nullptr;
  }
  const runtime::Executable& executable() const { return *program_->compilation.executable; }

  /// Runs with new host memory for all ports; sets the first element of the first input and returns that of
  /// the first output.
  Result<float> run(Context& context, float first) const {
    std::vector<std::vector<std::byte>> memory;
    std::vector<const void*> in;
    std::vector<void*> out;
    for (const auto& port : executable().inputs) in.push_back(memory.emplace_back(port.bytes).data());
    for (const auto& port : executable().outputs) out.push_back(memory.emplace_back(port.bytes).data());
    std::memcpy(memory[0].data(), &first, sizeof first);
    FE_CHECK(executable().run(context, in, out));
    float result = 0;
    std::memcpy(&result, out[0], sizeof result);
    return result;
  }
  std::vector<LedgerRecord> records(const std::string& kind) const {
    auto all = program_->ledger.records();
    std::erase_if(all, [&](const auto& record) { return record.kind != kind; });
    return all;
  }

  std::filesystem::path folder_;
  void* driver_ = nullptr;
  std::unique_ptr<Session> session_;
  std::unique_ptr<Model> model_;
  std::shared_ptr<Program> program_;
  CompileOptions options_;
};

}  // namespace
}  // namespace ferrite::core
