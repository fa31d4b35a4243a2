// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A device that lies: setting mode.
//   misaligned, odd_alignment   about its memory
//   negative_tasks, workspace   about a compiled kernel
//   odd_rows, large_padding     about the rows of buffers
//   no_such_choice              about what its target wants
//   supports                    about what it compiles: it proposes a candidate and then declines
//   early                       about its launches: they return with nothing computed
#include <cstdlib>

#include "ferrite/plugin.hpp"

namespace {

using namespace ferrite;

class LyingRuntime final : public Runtime {
 public:
  explicit LyingRuntime(std::string mode) : mode_(std::move(mode)) {}
  std::string id() const override { return "adversarial"; }
  uint32_t device_count() override { return 1; }
  DeviceDescription describe(uint32_t) override {
    DeviceDescription description;
    description.description = mode_;
    description.name = "a device that lies";
    if (mode_ == "odd_alignment") description.alignment = 48;
    if (mode_ == "huge_alignment") description.alignment = uint64_t{1} << 31;
    return description;
  }
  void* alloc(uint32_t, uint64_t bytes) override {
    auto* data = static_cast<char*>(std::aligned_alloc(64, (bytes + 127) / 64 * 64));
    return mode_ == "misaligned" ? data + 8 : data;
  }
  void free(uint32_t, void* data) override {
    std::free(mode_ == "misaligned" ? static_cast<char*>(data) - 8 : data);
  }
  void copy(const fe_copy_args&) override {}
  void* module_load(uint32_t, std::span<const Bytes>, std::string_view) override { return this; }
  void module_unload(void*) override {}
  void* function(void* module, std::string_view) override { return module; }
  void launch(const fe_launch_args&) override {}

 private:
  std::string mode_;
};

class LyingProvider final : public Provider {
 public:
  std::string id() const override { return "adversarial"; }
  std::string device_kind() const override { return "adversarial"; }
  std::unique_ptr<Target> open_target(Bytes description) override {
    mode_.assign(reinterpret_cast<const char*>(description.data()), description.size());
    auto target = std::make_unique<Target>();
    if (mode_ == "odd_rows") target->row_alignment = 48;
    if (mode_ == "no_such_choice") target->numbers.products = FE_PRODUCTS_SOFTMAX + 1;
    if (mode_ == "large_padding") {
      target->row_alignment = 128;
      target->row_padding_percent = FE_MOST_ROW_PADDING_PERCENT + 1;
    }
    return target;
  }
  std::vector<Candidate> propose(Target&, Bytes) override {
    Candidate candidate;
    candidate.name = "anything";
    return {candidate};
  }
  CompileResult compile(Target&, const CompileRequest&) override {
    if (mode_ == "supports") decline("not this one, after all");
    CompileResult result;
    result.blob = "code";
    if (mode_ == "negative_tasks") result.tasks = -1;
    if (mode_ == "workspace") result.workspace_bytes = INT64_MAX;
    if (mode_ == "misaligned") result.workspace_bytes = 64;
    return result;
  }
  std::string fingerprint() override { return mode_ == "no_fingerprint" ? "" : "adversarial"; }

 private:
  std::string mode_;
};

void contribute(PluginBuilder& builder, const PluginContext& context) {
  builder.add(
      std::unique_ptr<Runtime>(std::make_unique<LyingRuntime>(std::string(context.config.string("mode")))));
  builder.add(std::unique_ptr<Provider>(std::make_unique<LyingProvider>()));
}

}  // namespace

FERRITE_PLUGIN("test.adversarial", "1.0.0", contribute)
