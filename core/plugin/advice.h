// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Advice of plugins on fusion and costs. Advisors are asked in the order of the manifest until one has an
// opinion.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/ir/kernel/flatten.h"
#include "core/plugin/registry.h"
#include "core/schedule/fusion/advisor.h"
#include "core/support/error.h"
#include "core/support/ledger.h"

namespace ferrite::core::plugin {

/// The advisors of one kind for one compilation. An advisor that fails is not asked again; its earlier
/// answers remain valid. If its plugin has on_error = "fail", no advisor is asked any more, and check()
/// returns the error.
template <class Table>
class Advisors {
 public:
  using Entry = Contributed<Table>;
  /// The error codes for an advisor that fails, and for an invalid answer.
  struct Words {
    std::string_view what, failed, no_answer;
  };

  Advisors(std::vector<Entry> entries, Words words, Ledger& ledger)
      : entries_(std::move(entries)), words_(words), ledger_(ledger) {}
  bool empty() const { return entries_.empty(); }
  Result<void> check() const {
    if (fault_) return *fault_;
    return {};
  }
  /// Asks the advisors in order until `ask` returns true (has an opinion). An error of `ask` counts as the
  /// advisor's failure.
  template <class Ask>
  void each(Ask ask) {
    for (size_t k = 0; k < entries_.size() && !fault_;) {
      Result<bool> answered = ask(entries_[k]);
      if (answered && *answered) return;
      if (answered) {
        ++k;
        continue;
      }
      fail(entries_[k], answered.error());
      entries_.erase(entries_.begin() + static_cast<std::ptrdiff_t>(k));
    }
  }

 private:
  void fail(const Entry& entry, const Error& cause);

  std::vector<Entry> entries_;  ///< those that have not failed
  const Words words_;
  Ledger& ledger_;
  std::optional<Error> fault_;
};

/// Cost models: how long kernels take. Not thread-safe.
class CostModels {
 public:
  using Price = schedule::FusionAdvisor::Price;

  /// `numbers`: by device kind, the description that models receive; other kinds get the defaults.
  CostModels(std::vector<Contributed<fe_cost_model>> models,
             std::map<std::string, fe_target_numbers, std::less<>> numbers, Ledger& ledger)
      : models_(std::move(models), {"cost model", "FE-P82", "FE-P83"}, ledger),
        numbers_(std::move(numbers)) {}
  bool empty() const { return models_.empty(); }
  /// FE-P82 if a model failed, FE-P83 if its time is invalid.
  Result<void> check() const { return models_.check(); }
  /// None if no model knows the kernel. Models are asked at most once per kernel.
  std::optional<Price> price(std::string_view device, const kernel::FlatKernel& kernel);

 private:
  Advisors<fe_cost_model> models_;
  const std::map<std::string, fe_target_numbers, std::less<>> numbers_;
  std::map<std::pair<std::string, std::string>, std::optional<Price>> known_;  ///< by device kind and kernel
};

/// The fusion policies of one compilation, with the costs of kernels on one device kind.
class PolicyAdvisor : public schedule::FusionAdvisor {
 public:
  using Policy = Contributed<fe_fusion_policy>;

  PolicyAdvisor(std::vector<Policy> policies, CostModels& costs, std::string device, Ledger& ledger)
      : policies_(std::move(policies), {"fusion policy", "FE-P80", "FE-P81"}, ledger),
        costs_(costs),
        device_(std::move(device)),
        ledger_(ledger) {}
  /// Null if there is no policy and no cost model.
  PolicyAdvisor* if_any() { return policies_.empty() && costs_.empty() ? nullptr : this; }
  /// FE-P80 if a policy failed, FE-P81 if its answer is invalid; also the errors of cost models.
  Result<void> check() const {
    FE_CHECK(policies_.check());
    return costs_.check();
  }
  /// The number of decisions that policies made.
  size_t opinions() const { return opinions_; }

  std::vector<double> rank(const schedule::LoopProgram& program,
                           std::span<const schedule::FusionPair> pairs) override;
  Advice decide(const schedule::LoopProgram& program, const schedule::FusionPair& pair,
                const schedule::FusionTrial& trial) override;
  bool has_prices() const override { return !costs_.empty(); }
  std::optional<Price> price(const schedule::Kernel& kernel) override;

 private:
  Advisors<fe_fusion_policy> policies_;
  CostModels& costs_;
  const std::string device_;  ///< the device's kind
  Ledger& ledger_;
  size_t opinions_ = 0;
};

}  // namespace ferrite::core::plugin
