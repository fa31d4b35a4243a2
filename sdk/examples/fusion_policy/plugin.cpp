// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Keeps kernels small, which helps to find the slow part of a model: forbids fusions that would give a kernel
// more than `most` statements. All other decisions are left to the compiler's cost model.
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
  // Try pairs with small buffers first: statements that share one usually belong together.
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
