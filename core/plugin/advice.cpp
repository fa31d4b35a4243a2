// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/plugin/advice.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "core/schedule/api.h"
#include "core/support/abi/abi.h"
#include "core/support/warning.h"
#include "runtime/plugin/serialised_calls.h"
#include "runtime/target/number_table.h"

namespace ferrite::core::plugin {
namespace {

fe_fusion_pair abi_pair(const schedule::FusionPair& pair) {
  auto result = abi::sized<fe_fusion_pair>();
  result.first = pair.first;
  result.second = pair.second;
  result.buffer = pair.buffer;
  result.flags = pair.reads ? FE_FUSION_READS : 0;
  result.bytes = pair.bytes;
  return result;
}

}  // namespace

template <class Table>
void Advisors<Table>::fail(const Entry& entry, const Error& cause) {
  const auto id = abi::string(entry.table->id);
  const bool no_answer = cause.code == words_.no_answer;
  auto failure =
      error(cause.status, no_answer ? words_.no_answer : words_.failed, "{} '{}' of plugin '{}' failed: {}",
            words_.what, id, entry.plugin->id, cause.message());
  ledger_.add({"plugin", id, entry.plugin->id, "failed", {}, cause.message(), 0});
  if (entry.plugin->on_error == OnError::skip)
    log::warn("plugins", fmt::format("{}; not asked any more, as the manifest says", failure.text));
  else
    fault_ = std::move(failure);
}

std::optional<CostModels::Price> CostModels::price(std::string_view device,
                                                   const kernel::FlatKernel& kernel) {
  auto [known, added] = known_.emplace(std::pair(std::string(device), kernel.entry), std::nullopt);
  if (!added) return known->second;
  auto args = abi::sized<fe_cost_args>();
  args.device = abi::string(device);
  args.kernel = {kernel.bytes.data(), kernel.bytes.size(), 1};
  const auto found = numbers_.find(device);
  const auto numbers = found == numbers_.end() ? runtime::abi_numbers({}) : found->second;
  args.numbers = &numbers;
  models_.each([&](const Contributed<fe_cost_model>& model) -> Result<bool> {
    const auto& table = *model.table;
    if (const auto kind = abi::view(table.device); !kind.empty() && kind != device) return false;
    auto out = abi::sized<fe_cost_out>();
    out.operations = -1;
    out.bytes = -1;
    abi::Call call;
    const int32_t status = invoke(table, table.estimate, call, &args, &out);
    if (status == FE_EUNSUPPORTED) return false;
    FE_CHECK(call.check(status, "FE-P82", "it gave no reason"));
    if (!std::isfinite(out.seconds) || out.seconds < 0)
      return error(FE_EINVALID, "FE-P83", "it says that {} takes {} s", kernel.entry, out.seconds);
    known->second = Price{out.seconds, fmt::format("cost model '{}'", abi::view(table.id))};
    return true;
  });
  return known->second;
}

std::vector<double> PolicyAdvisor::rank(const schedule::LoopProgram& program,
                                        std::span<const schedule::FusionPair> pairs) {
  std::vector<fe_fusion_pair> given;
  for (const auto& pair : pairs) given.push_back(abi_pair(pair));
  std::vector<double> scores;
  policies_.each([&](const Policy& policy) -> Result<bool> {
    if (!policy.table->rank) return false;
    schedule::LoopApi api(program, nullptr);
    auto args = abi::sized<fe_fusion_rank_args>();
    args.loops = api.api();
    args.pairs = abi::array(given);
    std::vector<double> answer(pairs.size(), 0.0);
    auto out = abi::sized<fe_fusion_rank_out>();
    out.scores = answer.data();
    out.count = answer.size();
    abi::Call call;
    const int32_t status = invoke(*policy.table, policy.table->rank, call, &args, &out);
    if (status == FE_EUNSUPPORTED) return false;
    FE_CHECK(call.check(status, "FE-P80", "it gave no reason"));
    FE_CHECK(api.check());
    if (std::ranges::any_of(answer, [](double score) { return std::isnan(score); }))
      return error(FE_EINVALID, "FE-P81", "one of its scores is not a number");
    ledger_.add({"plugin",
                 abi::string(policy.table->id),
                 policy.plugin->id,
                 "ranked",
                 {},
                 fmt::format("the order in which {} pairs are tried", pairs.size()),
                 0});
    scores = std::move(answer);
    return true;
  });
  return scores;
}

schedule::FusionAdvisor::Advice PolicyAdvisor::decide(const schedule::LoopProgram& program,
                                                      const schedule::FusionPair& pair,
                                                      const schedule::FusionTrial& trial) {
  auto given = abi_pair(pair);
  given.flags |= trial.cheaper ? FE_FUSION_CHEAPER : 0;
  given.first_group = abi::array(trial.first.statements);
  given.second_group = abi::array(trial.second.statements);
  given.shared = trial.shared;
  Advice advice;
  policies_.each([&](const Policy& policy) -> Result<bool> {
    schedule::LoopApi api(program, nullptr);
    auto args = abi::sized<fe_fusion_decide_args>();
    args.loops = api.api();
    args.pair = &given;
    auto out = abi::sized<fe_fusion_decide_out>();
    abi::Call call;
    const int32_t status = invoke(*policy.table, policy.table->decide, call, &args, &out);
    if (status == FE_EUNSUPPORTED) return false;
    FE_CHECK(call.check(status, "FE-P80", "it gave no reason"));
    FE_CHECK(api.check());
    if (out.decision > FE_FUSION_REFUSE)
      return error(FE_EINVALID, "FE-P81", "it decided {}, which is no decision", out.decision);
    if (out.decision == FE_FUSION_NO_OPINION) return false;
    ++opinions_;
    advice.verdict = out.decision == FE_FUSION_FUSE ? Verdict::fuse : Verdict::refuse;
    advice.by = fmt::format("fusion policy '{}'", abi::view(policy.table->id));
    return true;
  });
  return advice;
}

std::optional<PolicyAdvisor::Price> PolicyAdvisor::price(const schedule::Kernel& kernel) {
  const auto flat = kernel::flatten(kernel);
  if (!flat) return {};
  return costs_.price(device_, *flat);
}

}  // namespace ferrite::core::plugin
