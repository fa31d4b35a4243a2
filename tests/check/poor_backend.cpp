// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A backend that takes maps only and computes none of them: launches leave the outputs as they are. Its memory is not aligned as
// it says, and its fingerprint is another one each time.
#include <cstdlib>

#include "ferrite/kernel.hpp"
#include "ferrite/plugin.hpp"

namespace {

using namespace ferrite;

class PoorProvider : public Provider {
 public:
  std::string id() const override { return "poor"; }
  std::string device_kind() const override { return "poor"; }
  std::unique_ptr<Target> open_target(Bytes) override { return std::make_unique<Target>(); }
  std::vector<Candidate> propose(Target&, Bytes bytes) override {
    const auto kernel = read_kernel(bytes);
    if (!kernel) fail("FE-K06", "the kernel cannot be read");
    for (const auto& statement : kernel->statements)
      if (statement.kind != FE_STATEMENT_MAP) return {};
    Candidate candidate;
    candidate.name = "nothing";
    return {candidate};
  }
  CompileResult compile(Target&, const CompileRequest&) override {
    CompileResult result;
    result.blob = "nothing";
    return result;
  }
  std::string fingerprint() override { return std::to_string(++asked_); }

 private:
  int asked_ = 0;
};

class PoorRuntime : public Runtime {
 public:
  std::string id() const override { return "poor"; }
  uint32_t device_count() override { return 1; }
  DeviceDescription describe(uint32_t) override { return {"poor", "a device that does nothing"}; }
  void* alloc(uint32_t, uint64_t bytes) override {
    auto* data = bytes < (1u << 30) ? static_cast<char*>(std::malloc(bytes + 128)) : nullptr;
    if (!data) fail("FE-P22", "no memory");
    return data + (64 - reinterpret_cast<uintptr_t>(data) % 64) + 8;
  }
  // What alloc gives is no address that could be freed; the test is short.
  void free(uint32_t, void*) override {}
  void copy(const fe_copy_args&) override {}
  void* module_load(uint32_t, std::span<const Bytes>, std::string_view) override { return this; }
  void module_unload(void*) override {}
  void* function(void*, std::string_view) override { return this; }
  void launch(const fe_launch_args&) override {}
};

}  // namespace

FERRITE_PLUGIN("check.poor_backend", "1.0.0", std::make_unique<PoorProvider>(),
               std::make_unique<PoorRuntime>())
