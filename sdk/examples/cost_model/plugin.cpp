// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A cost model for a device with expensive launches: the time of the launch, plus the time to move the bytes
// of the buffers that other kernels see. Launch time and bandwidth are the target's numbers, unless the
// manifest sets them. Contractions are left to the compiler.
#include <ferrite/kernel.hpp>
#include <ferrite/plugin.hpp>

namespace {

using namespace ferrite;

class LaunchAndBytes : public CostModel {
 public:
  LaunchAndBytes(std::optional<double> launch, std::optional<double> bandwidth)
      : launch_(launch), bandwidth_(bandwidth) {}
  std::string id() const override { return "acme.launch_and_bytes"; }

  std::optional<Cost> estimate(std::string_view, Bytes bytes,
                               const fe_target_numbers& numbers) const override {
    std::string wrong;
    const auto kernel = read_kernel(bytes, &wrong);
    if (!kernel) fail("acme.cost_model/kernel", "the kernel cannot be read: ", wrong);
    for (const auto& statement : kernel->statements)
      if (statement.kind == FE_STATEMENT_CONTRACT) return std::nullopt;
    Cost cost;
    cost.bytes = 0;
    for (const auto& buffer : kernel->buffers)
      if (buffer.kind != FE_BUFFER_LOCAL) cost.bytes += buffer.bytes();
    const double all_workers = static_cast<double>(numbers.bandwidth) * static_cast<double>(numbers.workers);
    cost.seconds = launch_.value_or(static_cast<double>(numbers.launch_ns) * 1e-9) +
                   static_cast<double>(cost.bytes) / bandwidth_.value_or(all_workers);
    return cost;
  }

 private:
  const std::optional<double> launch_, bandwidth_;  ///< seconds; bytes per second
};

void add(PluginBuilder& builder, const PluginContext& context) {
  const auto number = [&](const char* name, double unit) -> std::optional<double> {
    if (!context.config.has(name)) return std::nullopt;
    return context.config.number(name) * unit;
  };
  builder.add(
      std::make_unique<LaunchAndBytes>(number("launch_us", 1e-6), number("gigabytes_per_second", 1e9)));
}

}  // namespace

FERRITE_PLUGIN("acme.cost_model", "1.0.0", add)
