// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A backend that takes maps only and computes none of them: launches leave the outputs as they are. Its
// memory is not aligned as it says, and its fingerprint is another one each time.
#include <cstdlib>
#include <cstring>

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

// Streams that nobody can tell apart, and what they record is done at once.
class PoorRuntime : public Runtime, public Streams {
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
  void copy(const fe_copy_args& args) override { std::memmove(args.to, args.from, args.bytes); }
  void* module_load(uint32_t, std::span<const Bytes>, std::string_view) override { return this; }
  void module_unload(void*) override {}
  void* function(void*, std::string_view) override { return this; }
  void launch(const fe_launch_args&) override {}

  void* stream_open(uint32_t, void*) override { return this; }
  void stream_close(uint32_t, void*) override {}
  void* native_handle(uint32_t, void*, uint32_t) override { return this; }
  void* stream_alloc(uint32_t device, uint64_t bytes, void* stream) override {
    return stream ? host_alloc(device, bytes) : alloc(device, bytes);
  }
  void stream_free(uint32_t, void*, void*) override {}
  void stream_synchronise(uint32_t, void*) override {}
  void record_begin(uint32_t, void*) override {}
  void* record_end(uint32_t, void*) override { return this; }
  void replay(void*, void*, std::span<const fe_rebinding>) override {}
  void* host_alloc(uint32_t, uint64_t bytes) override {
    return std::aligned_alloc(64, (bytes + 63) / 64 * 64);
  }
  void host_free(uint32_t, void* data) override { std::free(data); }
};

}  // namespace

FERRITE_PLUGIN("check.poor_backend", "1.0.0", std::make_unique<PoorProvider>(),
               std::make_unique<PoorRuntime>())
