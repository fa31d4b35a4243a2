// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Keeps kernels small, as one wants them to find out which part of a model is slow: what would have more than `most` statements is
// not fused. Everything else is left to the compiler, which knows what fusions cost.
#include <ferrite/plugin.hpp>

namespace {

using namespace ferrite;

class SmallKernels : public FusionPolicy {
 public:
  explicit SmallKernels(int64_t most) : most_(static_cast<size_t>(most)) {}
  std::string id() const override { return "acme.small_kernels"; }
  Decision decide(const FusionPair& pair) const override {
    const size_t statements = pair.first_group().size() + pair.second_group().size();
    return statements > most_ ? Decision::refuse : Decision::no_opinion;
  }
  // Small buffers first: they say more about which statements belong together than large ones do.
  std::vector<double> rank(const std::vector<FusionPair>& pairs) const override {
    std::vector<double> scores;
    for (const auto& pair : pairs) scores.push_back(-static_cast<double>(pair.bytes()));
    return scores;
  }

 private:
  const size_t most_;
};

void add(PluginBuilder& builder, const PluginContext& context) {
  builder.add(std::make_unique<SmallKernels>(context.config.integer("most", 2)));
}

}  // namespace

FERRITE_PLUGIN("acme.fusion_policy", "1.0.0", add)
