// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The effects of the backend on its process.
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <string>

#include "ferrite/ferrite.h"

namespace {

/// The handler of each signal, and this thread's alternate stack.
struct Signals {
  std::array<void (*)(int), NSIG> handlers{};
  void* stack = nullptr;
  static Signals now() {
    Signals result;
    for (int number = 1; number < NSIG; ++number) {
      struct sigaction action{};
      if (sigaction(number, nullptr, &action) == 0)
        result.handlers[static_cast<size_t>(number)] = action.sa_handler;
    }
    stack_t stack{};
    sigaltstack(nullptr, &stack);
    result.stack = stack.ss_sp;
    return result;
  }
  bool operator==(const Signals&) const = default;
};

TEST(HipSignals, StayWithTheProgram) {
  const auto folder =
      std::filesystem::temp_directory_path() / ("ferrite-signals-test-" + std::to_string(::getpid()));
  std::filesystem::create_directories(folder);
  const auto manifest = (folder / "ferrite.toml").string(), graph = (folder / "exp.fe").string();
  std::ofstream(graph) << "ferrite graph 0\ngraph @exp(%x: f32[64]) -> (%r \"r\") {\n  %r = exp(%x)\n}\n";
  std::ofstream(manifest) << "schema = 0\n[pipeline]\ndevice = \"hip\"\n[plugin.\"ferrite.hip\"]\n"
                             "config = { library = \""
                          << FERRITE_FAKE_DRIVER << "\" }\n";
  ::setenv("FERRITE_CACHE", "off", 1);
  const auto before = Signals::now();
  ferrite_session_options options{};
  options.size = sizeof options;
  options.manifest = manifest.c_str();
  ferrite_session* session = nullptr;
  ferrite_model* model = nullptr;
  ASSERT_EQ(ferrite_session_open(&options, &session), FERRITE_OK);
  ASSERT_EQ(ferrite_model_load(session, graph.c_str(), &model), FERRITE_OK);
  std::array<float, 64> x{}, r{};
  int64_t shape[] = {64};
  DLTensor input{}, output{};
  input.dtype = output.dtype = {kDLFloat, 32, 1};
  input.ndim = output.ndim = 1;
  input.shape = output.shape = shape;
  input.device = output.device = {kDLCPU, 0};
  input.data = x.data();
  output.data = r.data();
  const DLTensor* inputs[] = {&input};
  DLTensor* outputs[] = {&output};
  ASSERT_EQ(ferrite_run(model, inputs, 1, outputs, 1), FERRITE_OK);
  EXPECT_TRUE(before == Signals::now());
  ferrite_model_free(model);
  ferrite_session_close(session);
  std::filesystem::remove_all(folder);
}

}  // namespace
