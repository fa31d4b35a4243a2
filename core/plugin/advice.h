// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What plugins think of fusions and of costs, asked in the order of the manifest until one has an opinion.
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

/// The advisors of one kind and one compilation. One that fails is not asked any more; what it said until then stands. Where its
/// plugin has on_error = "fail", no other is asked either, and check() gives the error.
template <class Table>
class Advisors {
 public:
  using Entry = Contributed<Table>;
  /// Codes: of one that fails, and of one that answers what is no answer.
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
  /// Asks one after the other until `ask` gives true: it had an opinion. An error of it is the advisor's.
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

  std::vector<Entry> entries_;  ///< those that did not fail yet
  const Words words_;
  Ledger& ledger_;
  std::optional<Error> fault_;
};

/// How long kernels take. One thread.
class CostModels {
 public:
  using Price = schedule::FusionAdvisor::Price;

  /// `numbers`: by kind of device, what models are told of it; of other kinds they are told the defaults.
  CostModels(std::vector<Contributed<fe_cost_model>> models,
             std::map<std::string, fe_target_numbers, std::less<>> numbers, Ledger& ledger)
      : models_(std::move(models), {"cost model", "FE-P82", "FE-P83"}, ledger),
        numbers_(std::move(numbers)) {}
  bool empty() const { return models_.empty(); }
  /// FE-P82 where a model failed, FE-P83 where it gave a time that is none.
  Result<void> check() const { return models_.check(); }
  /// Nothing where no model knows the kernel. Models are asked once about each.
  std::optional<Price> price(std::string_view device, const kernel::FlatKernel& kernel);

 private:
  Advisors<fe_cost_model> models_;
  const std::map<std::string, fe_target_numbers, std::less<>> numbers_;
  std::map<std::pair<std::string, std::string>, std::optional<Price>> known_;  ///< by device and kernel
};

/// The fusion policies of one compilation, and what kernels cost on a kind of device.
class PolicyAdvisor : public schedule::FusionAdvisor {
 public:
  using Policy = Contributed<fe_fusion_policy>;

  PolicyAdvisor(std::vector<Policy> policies, CostModels& costs, std::string device, Ledger& ledger)
      : policies_(std::move(policies), {"fusion policy", "FE-P80", "FE-P81"}, ledger),
        costs_(costs),
        device_(std::move(device)),
        ledger_(ledger) {}
  /// Null where nobody has anything to say.
  PolicyAdvisor* if_any() { return policies_.empty() && costs_.empty() ? nullptr : this; }
  /// FE-P80 where a policy failed, FE-P81 where it gave what is no answer; those of cost models.
  Result<void> check() const {
    FE_CHECK(policies_.check());
    return costs_.check();
  }
  /// How often a policy decided.
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
  const std::string device_;  ///< its kind
  Ledger& ledger_;
  size_t opinions_ = 0;
};

}  // namespace ferrite::core::plugin
