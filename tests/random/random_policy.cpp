// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A fusion policy that ranks and decides at random. Setting: seed. What it says of a pair follows from the
// seed and the pair, so that a run can be repeated.
#include "ferrite/plugin.hpp"

namespace {

using namespace ferrite;

class RandomPolicy : public FusionPolicy {
 public:
  explicit RandomPolicy(uint64_t seed) : seed_(seed) {}
  std::string id() const override { return "test.random"; }
  Decision decide(const FusionPair& pair) const override {
    constexpr Decision all[] = {Decision::no_opinion, Decision::fuse, Decision::fuse, Decision::refuse};
    return all[number(pair, 1 + pair.first_group().size() + pair.second_group().size()) % std::size(all)];
  }
  std::vector<double> rank(const std::vector<FusionPair>& pairs) const override {
    std::vector<double> scores;
    for (const auto& pair : pairs) scores.push_back(static_cast<double>(number(pair, 0) >> 11));
    return scores;
  }

 private:
  uint64_t number(const FusionPair& pair, uint64_t state) const {
    // splitmix64, over what is known of the pair.
    const auto mix = [&](uint64_t value) {
      state += value + 0x9e3779b97f4a7c15u;
      state = (state ^ (state >> 30)) * 0xbf58476d1ce4e5b9u;
      state = (state ^ (state >> 27)) * 0x94d049bb133111ebu;
      state ^= state >> 31;
    };
    mix(seed_);
    for (const uint32_t s : {pair.first(), pair.second()})
      for (const char c : pair.statement(s).text) mix(static_cast<unsigned char>(c));
    mix(pair.buffer());
    return state;
  }
  const uint64_t seed_;
};

}  // namespace

FERRITE_PLUGIN("test.random_policy", "1.0.0", [](PluginBuilder& builder, const PluginContext& context) {
  const auto seed = context.config.has("seed") ? context.config.integer("seed") : 1;
  builder.add(std::make_unique<RandomPolicy>(static_cast<uint64_t>(seed)));
})
