// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <algorithm>
#include <map>
#include <optional>

#include <fmt/format.h>

#include "core/ir/kernel/flatten.h"
#include "core/ir/kernel/legalise.h"
#include "core/select/decisions.h"
#include "core/select/placement.h"
#include "core/select/prices.h"
#include "core/select/propose.h"
#include "ferrite/counted.hpp"

namespace ferrite::core::select {
namespace {

using runtime::Compiler;
using schedule::Schedule;
using Price = plugin::CostModels::Price;

class Selector {
 public:
  Selector(Schedule& schedule, const Schedule& parts, Placement& placement, const runtime::Devices& devices,
           plugin::CostModels& costs, const schedule::MemoryLimit& memory, CandidateBlocklist& blocklist,
           Ledger& ledger, Decisions& decisions, LibraryOffers* collected)
      : schedule_(schedule),
        parts_(parts),
        placement_(placement),
        devices_(devices),
        prices_(costs, blocklist, ledger),
        memory_(memory),
        live_(schedule::live_bytes(schedule)),
        blocklist_(blocklist),
        ledger_(ledger),
        decisions_(decisions),
        collected_(collected),
        kernels_(schedule),
        kernels_of_parts_(parts),
        init_(schedule::init_groups(schedule)),
        constants_(schedule::init_buffers(schedule, init_)) {}

  Result<bool> run() {
    std::map<size_t, Verdict> chosen;
    for (size_t g = 0; g < schedule_.groups.size(); ++g) {
      const auto& group = schedule_.groups[g];
      if (init_[g] || schedule_.program.statements[group.statements[0]].kind == FE_STATEMENT_CALL) continue;
      FE_TRY(const auto verdict, choose(g));
      if (verdict.compiler) chosen.emplace(g, verdict);
    }
    if (chosen.empty()) return false;
    apply(chosen);
    return true;
  }

 private:
  struct Verdict {
    const Compiler* compiler = nullptr;
    size_t covered = 0;
    double cost = 0;  ///< including the rest
    std::string name;
  };

  struct Decided {
    Verdict verdict;
    std::vector<std::pair<int64_t, bool>> workspaces;  ///< of candidates, and whether they are allowed
  };

  /// Groups with equal kernels are decided once, unless they differ in the memory that lives beside them.
  Result<Verdict> choose(size_t g) {
    const auto& device = *devices_[placement_[g].device];
    if (std::ranges::none_of(device.compilers, [](const Compiler& c) { return c.is_library(); }))
      return Verdict();
    const auto subject = schedule::origin_names(parts_.program.statements[parts_.groups[g].statements[0]]);
    auto group = kernels_of_parts_.make(g);
    schedule::mark_constants(group, constants_);
    FE_TRY(const auto flat, kernel::flatten(group.kernel, subject));
    // Refusals are known by group, so a group with one no longer shares its decision with equal kernels.
    const bool tried = std::ranges::any_of(
        blocklist_.groups, [&](const auto& refused) { return std::get<0>(refused.first) == g; });
    const auto key =
        fmt::format("{}@{}{}", flat.entry, placement_[g].device, tried ? fmt::format("#{}", g) : "");
    // The memory that lives beside the kernel limits its workspace.
    const int64_t live = placement_[g].device + 1 == devices_.size() ? live_[g] : 0;
    auto& earlier = decided_[key];
    for (const auto& one : earlier)
      if (std::ranges::all_of(one.workspaces, [&](const auto& workspace) {
            return memory_.allows(workspace.first, live) == workspace.second;
          }))
        return one.verdict;
    auto& now = earlier.emplace_back();
    FE_TRY(now.verdict, choose(g, subject, group, flat, live, now.workspaces));
    return now.verdict;
  }

  /// `workspaces`: receives the sizes that candidates request, and whether they are allowed.
  Result<Verdict> choose(size_t g, const std::string& subject, const schedule::GroupKernel& group,
                         const kernel::FlatKernel& flat, int64_t live,
                         std::vector<std::pair<int64_t, bool>>& workspaces) {
    const auto& device = *devices_[placement_[g].device];

    const auto decided = decisions_.find(DecisionKind::library, device.kind, flat.entry);
    // A lock or a measurement may assign the group to code generators.
    if (decided ? decided->provider.empty() : decisions_.is_locked()) return Verdict();

    Verdict best;
    std::optional<Price> whole;  // by the code generator; computed only once some library makes an offer
    struct Offer {
      Verdict verdict;
      std::string refused;
    };
    std::vector<Offer> offers;
    std::map<size_t, std::optional<Price>> rests;  // by number of statements before the rest
    for (const auto& compiler : device.compilers) {
      if (!compiler.is_library() || !compiler.takes_kernels() || blocklist_.has_dropped(compiler)) continue;
      if (const auto why = blocklist_.groups.find({g, placement_[g].device, &compiler});
          why != blocklist_.groups.end()) {
        ledger_.add(
            {"select", subject, compiler.id, "refused", "unfit", "its code is refused: " + why->second, 0});
        continue;
      }
      // Flags that a library does not know would make it misread the kernel.
      if (kernel::features_of(group.kernel) & ~compiler.slots.features) {
        ledger_.add({"select", subject, compiler.id, "refused", "declined",
                     "it does not support computed operands of contractions", 0});
        continue;
      }
      std::string declined;
      auto proposals = select::propose(compiler, flat.bytes, group.kernel.statements.size(), declined);
      if (!proposals && blocklist_.forgive(compiler, proposals.error(), ledger_)) continue;
      if (!proposals) return at(subject, std::move(proposals.error()));
      if (!declined.empty())
        ledger_.add({"select", subject, compiler.id, "refused", "declined", std::move(declined), 0});
      for (const auto& proposal : *proposals) {
        Offer offer{{&compiler, proposal.covered, proposal.cost, proposal.name}, {}};
        if (auto missing = compiler.coverage.missing(group.kernel, proposal.covered); !missing.empty())
          offer.refused = "it does not take " + missing;
        // On a CPU each worker has a workspace of its own.
        const int64_t copies = device.host_memory ? memory_.workers : 1;
        workspaces.emplace_back(proposal.workspace_bytes * copies,
                                memory_.allows(proposal.workspace_bytes * copies, live));
        if (!workspaces.back().second)
          offer.refused = fmt::format(
              "it needs {} bytes of workspace for each of {}, but {} of the {} bytes allowed are in use",
              proposal.workspace_bytes, counted(copies, "worker"), live, memory_.bytes(0));
        // Packing costs once for a constant; for other operands it would run before each launch.
        if (!only_constants(group.kernel, proposal))
          offer.refused = "it requests a layout for an operand that is not constant";
        if (offer.refused.empty() && proposal.covered < group.kernel.statements.size()) {
          auto found = rests.find(proposal.covered);
          if (found == rests.end()) {
            FE_TRY(auto priced, price_of_rest(device, g, proposal.covered));
            found = rests.emplace(proposal.covered, std::move(priced)).first;
          }
          const auto& rest = found->second;
          if (!rest)
            offer.refused = "nothing compiles the rest";
          else
            offer.verdict.cost += rest->seconds;
        }
        offers.push_back(std::move(offer));
      }
    }
    for (const auto& offer : offers)
      if (collected_ && offer.refused.empty())
        (*collected_)[g].push_back(
            {offer.verdict.compiler, offer.verdict.covered, offer.verdict.cost, offer.verdict.name});
    if (decided) {
      for (const auto& offer : offers) {
        const auto& v = offer.verdict;
        if (offer.refused.empty() && v.compiler->id == decided->provider && v.name == decided->candidate &&
            v.covered == decided->covered)
          best = v;
      }
      if (best.compiler) {
        ledger_.add({"select", subject, best.name, "chosen", decided->by, figures_text(flat.entry, *decided),
                     best.cost});
        took(subject, flat.entry, device.kind, best, *decided, offers.size() + 1);
        return best;
      }
      if (decisions_.is_locked())
        return no_candidate(decisions_, *decided, flat.entry,
                            fmt::format("is not offered for {} of its {}", decided->covered,
                                        counted(group.kernel.statements.size(), "statement")));
    }
    if (!offers.empty()) {
      // The code generator's kernel has merged statements; libraries see them apart.
      FE_TRY(whole, price(device, kernels_.make(g)));
      for (const auto& offer : offers)
        if (offer.refused.empty() &&
            (decisions_.libraries_first() || !whole || offer.verdict.cost < whole->seconds) &&
            (!best.compiler || offer.verdict.cost < best.cost))
          best = offer.verdict;
      record(subject, group.kernel.statements.size(), best, offers, whole);
      if (best.compiler) took(subject, flat.entry, device.kind, best, {.by = "cost"}, offers.size() + 1);
    }
    return best;
  }

  void took(const std::string& subject, const std::string& entry, const std::string& device,
            const Verdict& verdict, Decision decision, size_t candidates) {
    decision.provider = verdict.compiler->id;
    decision.candidate = verdict.name;
    decision.covered = verdict.covered;
    decision.cost = verdict.cost;
    decisions_.took({DecisionKind::library, device, entry, subject, candidates, std::move(decision)});
  }

  template <class Offers>
  void record(const std::string& subject, size_t statements, const Verdict& best, const Offers& offers,
              const std::optional<Price>& whole) {
    for (const auto& offer : offers) {
      const auto& v = offer.verdict;
      const bool taken = v.compiler == best.compiler && v.name == best.name && v.covered == best.covered;
      auto text = fmt::format("covers {} of {}", v.covered, counted(statements, "statement"));
      if (!offer.refused.empty()) text += "; " + offer.refused;
      ledger_.add({"select", subject, v.name, taken ? "chosen" : "refused",
                   taken                   ? ""
                   : offer.refused.empty() ? "cost"
                                           : "unfit",
                   std::move(text), v.cost});
    }
    if (whole)
      ledger_.add({"select", subject, "the code generator", best.compiler ? "refused" : "chosen",
                   best.compiler ? "cost" : "",
                   fmt::format("covers {} of {}{}{}", statements, counted(statements, "statement"),
                               whole->by.empty() ? "" : ", by ", whole->by),
                   whole->seconds});
  }

  static bool only_constants(const ferrite::loop::Kernel& kernel, const select::Proposal& proposal) {
    std::vector<ferrite::loop::BufferId> numbers;
    const auto canonical = kernel::canonical(kernel, numbers);
    return std::ranges::all_of(proposal.layouts, [&](const auto& layout) {
      return layout.buffer < canonical.buffers.size() &&
             canonical.buffers[layout.buffer].kind == FE_BUFFER_CONSTANT;
    });
  }

  Result<std::optional<Price>> price(const runtime::Device& device, schedule::GroupKernel group) {
    schedule::mark_constants(group, constants_);
    return prices_.of(device, group.kernel);
  }
  Result<std::optional<Price>> price_of_rest(const runtime::Device& device, size_t g, size_t covered) {
    // The rest would be a kernel of its own: price it as it would be, split and merged again.
    Schedule trial = parts_;
    schedule::split_group(trial, g, covered);
    std::vector<bool> apart(trial.groups.size(), true);
    apart[g + 1] = false;
    schedule::merge_statements(trial, apart);
    return price(device, schedule::KernelMaker(trial).make(g + 1));
  }

  /// Replaces the groups by their split forms, from the last to the first, so that group numbers stay valid.
  void apply(const std::map<size_t, Verdict>& chosen) {
    Schedule result = parts_;
    std::vector<bool> apart(result.groups.size());
    for (auto it = chosen.rbegin(); it != chosen.rend(); ++it) {
      const auto& [g, verdict] = *it;
      apart[g] = true;
      if (verdict.covered < result.groups[g].statements.size()) {
        schedule::split_group(result, g, verdict.covered);
        apart.insert(apart.begin() + static_cast<ptrdiff_t>(g) + 1, false);
        placement_.insert(placement_.begin() + static_cast<ptrdiff_t>(g) + 1,
                          Choice{.group = g, .device = placement_[g].device, .why = placement_[g].why});
      }
      placement_[g].compiler = verdict.compiler;
      placement_[g].candidate = verdict.name;
      placement_[g].cost = verdict.cost;
    }
    schedule::merge_statements(result, apart);
    schedule_ = std::move(result);
  }

  Schedule& schedule_;
  const Schedule& parts_;
  Placement& placement_;
  const runtime::Devices& devices_;
  Prices prices_;
  const schedule::MemoryLimit memory_;
  const std::vector<int64_t> live_;  ///< by group
  CandidateBlocklist& blocklist_;
  Ledger& ledger_;
  Decisions& decisions_;
  LibraryOffers* const collected_;
  const schedule::KernelMaker kernels_, kernels_of_parts_;
  const std::vector<bool> init_;
  const std::set<schedule::BufferId> constants_;
  std::map<std::string, std::vector<Decided>> decided_;
};

}  // namespace

Result<bool> select_libraries(Schedule& schedule, const Schedule& parts, Placement& placement,
                              const runtime::Devices& devices, plugin::CostModels& costs,
                              const schedule::MemoryLimit& memory, CandidateBlocklist& blocklist,
                              Ledger& ledger, Decisions& decisions, LibraryOffers* offers) {
  return Selector(schedule, parts, placement, devices, costs, memory, blocklist, ledger, decisions, offers)
      .run();
}

bool has_libraries(const runtime::Devices& devices) {
  return std::ranges::any_of(devices, [](const auto& device) {
    return std::ranges::any_of(device->compilers, [](const Compiler& c) { return c.is_library(); });
  });
}

}  // namespace ferrite::core::select
