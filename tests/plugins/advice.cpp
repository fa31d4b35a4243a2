// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A fusion policy, a cost model or a metric sink, by the setting mode. A policy: "fuse", "refuse", "declines", "throws" (at the second pair), "reverses" the order of the
// pairs, or answers what is no answer: "lies", "nan", "short". In the mode "twice" there are two of one id.
// A cost model: "cost_each" (a second a kernel), "cost_crowd" (the more statements, the worse), "cost_launches" (the same, in launches), "cost_declines", "cost_elsewhere" (knows
// another device), "cost_throws", "cost_lies". A sink that writes lines "table column=value ..." to the file `path`: "sink", or
// "sink_fails", "sink_mistyped" (wants a table that there is none of).
#include <atomic>
#include <cmath>
#include <fstream>
#include <stdexcept>

#include "ferrite/kernel.hpp"
#include "ferrite/plugin.hpp"

namespace {

using namespace ferrite;

class Policy : public FusionPolicy {
 public:
  explicit Policy(std::string_view mode) : mode_(mode) {}
  std::string id() const override { return "test.policy"; }
  Decision decide(const FusionPair& pair) const override {
    if (mode_ == "fuse") return Decision::fuse;
    // What it may ask the host for is read only.
    if (mode_ == "refuse")
      return pair.statement(pair.first()).kind == FE_STATEMENT_CALL ? Decision::fuse : Decision::refuse;
    if (mode_ == "declines") decline("it never has an opinion");
    if (mode_ == "throws" && ++asked_ == 2) throw std::runtime_error("two pairs are too many");
    if (mode_ == "lies") return static_cast<Decision>(7);
    return Decision::no_opinion;
  }
  std::vector<double> rank(const std::vector<FusionPair>& pairs) const override {
    std::vector<double> scores;
    if (mode_ == "reverses")
      for (const auto& pair : pairs) scores.push_back(pair.second());
    if (mode_ == "nan") scores.assign(pairs.size(), std::nan(""));
    if (mode_ == "short") scores.assign(pairs.size() + 1, 0);
    return scores;
  }

 private:
  const std::string mode_;
  mutable std::atomic<int> asked_ = 0;
};

class Costs : public CostModel {
 public:
  explicit Costs(std::string_view mode) : mode_(mode) {}
  std::string id() const override { return "test.cost"; }
  std::string device() const override { return mode_ == "cost_elsewhere" ? "toaster" : ""; }
  std::optional<Cost> estimate(std::string_view, Bytes bytes,
                               const fe_target_numbers& numbers) const override {
    if (mode_ == "cost_declines") return std::nullopt;
    if (mode_ == "cost_throws") throw std::runtime_error("prices are secret");
    Cost cost;
    cost.seconds = mode_ == "cost_lies" ? -1 : 1;
    if (mode_ == "cost_crowd" || mode_ == "cost_launches")
      cost.seconds = std::pow(read_kernel(bytes)->statements.size(), 3);
    if (mode_ == "cost_launches") cost.seconds *= static_cast<double>(numbers.launch_ns) * 1e-9;
    return cost;
  }

 private:
  const std::string mode_;
};

class Sink : public MetricSink {
 public:
  Sink(std::string_view mode, std::string_view path) : mode_(mode), path_(path) {}
  std::string id() const override { return "test.sink"; }
  std::vector<std::string> tables() const override {
    if (mode_ == "sink_mistyped") return {"kernels"};
    return {"fusion", "kernel"};
  }
  void write(const MetricRows& rows) override {
    if (mode_ == "sink_fails") throw std::runtime_error("the disk is full");
    std::ofstream file(path_, std::ios::app);
    for (size_t row = 0; row < rows.rows(); ++row) {
      file << rows.table();
      for (size_t k = 0; k < rows.columns(); ++k) file << ' ' << rows.column(k) << '=' << rows.value(row, k);
      file << '\n';
    }
  }

 private:
  const std::string mode_, path_;
};

}  // namespace

FERRITE_PLUGIN("test.advice", "1.0.0", [](PluginBuilder& builder, const PluginContext& context) {
  const auto mode = context.config.string("mode");
  if (mode.starts_with("cost_")) return builder.add(std::make_unique<Costs>(mode));
  if (mode.starts_with("sink")) {
    const auto path = context.config.has("path") ? context.config.string("path") : "";
    return builder.add(std::make_unique<Sink>(mode, path));
  }
  for (int k = 0; k < (mode == "twice" ? 2 : 1); ++k) builder.add(std::make_unique<Policy>(mode));
})
