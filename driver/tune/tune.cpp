// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "driver/tune/tune.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <limits>

#include "core/ir/kernel/flatten.h"
#include "core/plugin/advice.h"
#include "core/select/propose.h"
#include "core/support/hash.h"
#include "driver/tune/decision_store.h"
#include "driver/tune/decisions_lock.h"
#include "driver/tune/single_group.h"
#include "driver/tune/trial.h"
#include "ferrite/counted.hpp"
#include "runtime/pool.h"

namespace ferrite::core::tune {
namespace {

using Clock = std::chrono::steady_clock;
using runtime::Compiler;
using schedule::Schedule;
using select::Decision;
using select::DecisionKind;
using select::Decisions;

// The part of the budget for timing each kernel's cheapest candidate; the rest is for the search.
constexpr double share_of_first = 0.4;
// A candidate runs at least this long, because of the clock's resolution, and at most this long, because its
// least time is then known well enough.
constexpr double least_slice = 2e-3, most_slice = 40e-3;
// A smaller gain may be noise.
constexpr double worth = 0.97;
constexpr int rounds_of_final = 5;

/// One candidate for a kernel.
struct Way {
  const Compiler* compiler = nullptr;
  size_t covered = 0;  ///< of a library: number of statements of the group with unmerged maps
  std::string name{};
  double cost = 0;
  bool is_library() const { return compiler->is_library(); }
};

/// A distinct kernel and its candidates; the cheapest one by cost comes first.
struct Question {
  size_t group = 0;
  uint32_t device = 0;
  std::string entry{}, parts_entry{};  ///< parts: empty where no library is asked
  std::string subject{};
  size_t uses = 0;
  std::vector<Way> ways{};
  double usual_seconds = 0;  ///< of the first candidate; 0: not measured
  double weight() const { return usual_seconds * static_cast<double>(uses); }
};

class Tuner {
 public:
  Tuner(const Subject& subject, const Options& options, const link::BuildOptions& build,
        plugin::CostModels& costs, const select::CandidateBlocklist& blocklist, Decisions& decisions,
        Ledger& ledger)
      : subject_(subject),
        options_(options),
        build_(build),
        costs_(costs),
        blocklist_(blocklist),
        decisions_(decisions),
        ledger_(ledger),
        init_(schedule::init_groups(subject.groups)),
        constants_(schedule::init_buffers(subject.groups, init_)),
        start_(Clock::now()) {
    // Trials run, so they are loaded; they must not add to the listings and the observation of the
    // compilation.
    build_.listings = false;
    build_.observation = nullptr;
    build_.load = true;
  }

  Result<void> run() {
    FE_CHECK(ask());
    // A kernel with one candidate needs no decision.
    std::erase_if(questions_, [](const Question& question) { return question.ways.size() < 2; });
    if (questions_.empty()) return {};
    for (const auto& question : questions_)
      if (auto why = refusal(question); !why.empty())
        return at(
            subject_.devices[question.device]->kind,
            error(FE_EUNSUPPORTED, "FE-T44",
                  "kernels cannot be measured here: {}; use --tune cached or --decisions, or compile for "
                  "this machine",
                  why));
    // Costs of different kernels compare badly, but nothing better is known yet.
    std::ranges::stable_sort(questions_, std::ranges::greater(), [](const Question& question) {
      return question.ways[0].cost * static_cast<double>(question.uses);
    });
    for (size_t k = 0; k < questions_.size(); ++k) {
      // Kernels beyond this part of the budget are left to costs.
      if (spent() > options_.seconds * share_of_first) break;
      report(0);
      FE_CHECK(measure_usual(questions_[k]));
    }
    std::ranges::stable_sort(questions_, std::ranges::greater(), &Question::weight);
    double left = 0;
    for (const auto& question : questions_) left += question.weight();
    for (size_t k = 0; k < questions_.size(); ++k) {
      auto& question = questions_[k];
      report(k);
      const double budget = options_.seconds - spent();
      if (budget <= 0 || question.usual_seconds == 0) {
        ledger_.add({"candidate", question.subject, question.ways[0].name, "unmeasured", "budget",
                     fmt::format("{}: {}, of which costs decide", question.entry,
                                 counted(question.ways.size(), "candidate")),
                     question.ways[0].cost});
        continue;
      }
      const double share = budget * question.weight() / left;
      left -= question.weight();
      FE_CHECK(search(question, share));
    }
    return {};
  }

 private:
  double spent() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }

  void report(size_t done) const {
    if (!options_.progress) return;
    constexpr size_t width = 20;
    const size_t full = done * width / questions_.size();
    options_.progress(fmt::format("measuring candidates [{}{}] {} of {}, {:.0f} of {:g} s",
                                  std::string(full, '#'), std::string(width - full, '.'), done,
                                  counted(questions_.size(), "kernel"), std::min(spent(), options_.seconds),
                                  options_.seconds));
  }

  std::string refusal(const Question& question) const {
    const auto& device = *subject_.devices[question.device];
    return device.refusal(device.description);
  }

  /// Collects the distinct kernels without a decision.
  Result<void> ask() {
    select::LibraryOffers offers;
    if (subject_.parts) {
      // The offers of libraries are collected on a copy, so that nothing is chosen yet.
      Schedule groups = subject_.groups;
      auto placement = subject_.placement;
      auto blocklist = blocklist_;
      Ledger unheard;
      Decisions none;
      FE_TRY(const bool chosen,
             select::select_libraries(groups, *subject_.parts, placement, subject_.devices, costs_,
                                      build_.memory, blocklist, unheard, none, &offers));
      static_cast<void>(chosen);
    }
    const schedule::KernelMaker kernels(subject_.groups);
    std::optional<schedule::KernelMaker> kernels_of_parts;
    if (subject_.parts) kernels_of_parts.emplace(*subject_.parts);
    std::map<std::tuple<uint32_t, std::string, std::string>, size_t> known;
    for (size_t g = 0; g < subject_.groups.groups.size(); ++g) {
      const auto& first = subject_.groups.program.statements[subject_.groups.groups[g].statements[0]];
      if (init_[g] || first.kind == FE_STATEMENT_CALL) continue;
      Question question{.group = g,
                        .device = subject_.placement[g].device,
                        .subject = schedule::origin_names(first),
                        .uses = 1};
      auto group = kernels.make(g);
      schedule::mark_constants(group, constants_);
      FE_TRY(const auto flat, kernel::flatten(group.kernel));
      question.entry = flat.entry;
      const auto& device = *subject_.devices[question.device];
      if (std::ranges::any_of(device.compilers, [](const Compiler& c) { return c.is_library(); })) {
        auto parts = kernels_of_parts->make(g);
        schedule::mark_constants(parts, constants_);
        FE_TRY(const auto flat_parts, kernel::flatten(parts.kernel));
        question.parts_entry = flat_parts.entry;
      }
      const auto [found, added] =
          known.emplace(std::tuple(question.device, question.entry, question.parts_entry), questions_.size());
      if (!added) {
        ++questions_[found->second].uses;
        continue;
      }
      if (!is_decided(question)) FE_CHECK(find_ways(question, group.kernel, offers[g]));
      questions_.push_back(std::move(question));
    }
    return {};
  }

  bool is_decided(const Question& question) const {
    const auto& kind = subject_.devices[question.device]->kind;
    if (!question.parts_entry.empty()) {
      const auto library = decisions_.find(DecisionKind::library, kind, question.parts_entry);
      if (!library) return false;
      // A library decision without a provider leaves the kernel to code generators, which need a decision of
      // their own.
      if (!library->provider.empty()) return true;
    }
    return decisions_.find(DecisionKind::kernel, kind, question.entry).has_value();
  }

  Result<void> find_ways(Question& question, const loop::Kernel& kernel,
                         const std::vector<select::LibraryOffer>& offers) {
    const auto& device = *subject_.devices[question.device];
    for (const auto& compiler : device.generators()) {
      if (blocklist_.has_dropped(compiler)) continue;
      std::string declined;
      const auto proposals = select::propose_whole(compiler, kernel, declined);
      // Selection will drop the provider and report it.
      if (!proposals && compiler.plugin->on_error == plugin::OnError::skip) continue;
      if (!proposals) return at(question.subject, proposals.error());
      for (const auto& proposal : *proposals)
        question.ways.push_back({&compiler, 0, proposal.name, proposal.cost});
    }
    for (const auto& offer : offers) {
      question.ways.push_back({offer.compiler, offer.covered, offer.name, offer.cost});
    }
    std::ranges::stable_sort(question.ways, {}, &Way::cost);
    return {};
  }

  Result<std::unique_ptr<Trial>> make_trial(const Question& question, const Way& way) const {
    const auto& device = subject_.devices[question.device]->kind;
    Decisions forced;
    auto options = build_;
    options.decisions = &forced;
    options.memory.op_by_op.reset();  // that limit is for the whole program
    if (!way.is_library()) {
      forced.set(DecisionKind::kernel, device, question.entry,
                 {.provider = way.compiler->id, .candidate = way.name}, false);
      const auto schedule = alone(subject_.groups, question.group, constants_);
      FE_TRY(auto trial,
             Trial::make(schedule, subject_.devices, {{0, question.device, nullptr}}, options, blocklist_));
      const auto taken = forced.taken();
      // Compiled alone, the group may become another kernel than inside the program; its time would say
      // nothing.
      if (taken.size() != 1 || taken[0].entry != question.entry || taken[0].decision.candidate != way.name)
        return error(FE_EINTERNAL, "FE-K22", "alone it is another kernel");
      return trial;
    }
    auto schedule = alone(*subject_.parts, question.group, constants_);
    select::Placement placement{{0, question.device, way.compiler, way.name}};
    std::vector<bool> apart{true};
    if (way.covered < schedule.groups[0].statements.size()) {
      schedule::split_group(schedule, 0, way.covered);
      apart.push_back(false);
      placement.push_back({0, question.device, nullptr});
    }
    schedule::merge_statements(schedule, apart);
    return Trial::make(schedule, subject_.devices, placement, options, blocklist_);
  }

  void record(const Question& question, const Way& way, std::string outcome, std::string text,
              double seconds) {
    ledger_.add({"candidate", question.subject, way.name, std::move(outcome), "", std::move(text), seconds});
  }

  /// Compiles and times one candidate; none where that fails, which is recorded in the ledger.
  std::unique_ptr<Trial> try_way(const Question& question, const Way& way, double slice, double& seconds) {
    auto trial = make_trial(question, way);
    if (!trial) {
      record(question, way, "failed", trial.error().message(), 0);
      return nullptr;
    }
    const auto measured = (*trial)->measure(slice);
    if (!measured) {
      record(question, way, "failed", measured.error().message(), 0);
      return nullptr;
    }
    seconds = *measured;
    return std::move(*trial);
  }

  Result<void> measure_usual(Question& question) {
    try_way(question, question.ways[0], least_slice, question.usual_seconds);
    return {};
  }

  Result<void> search(const Question& question, double share) {
    const auto begin = Clock::now();
    const auto used = [&] { return std::chrono::duration<double>(Clock::now() - begin).count(); };
    // Timing takes one slice for each candidate and each final round. Another slice for each candidate is
    // left for compiling it.
    const double slice = std::clamp(share / static_cast<double>(2 * question.ways.size() + rounds_of_final),
                                    least_slice, most_slice);
    double usual_seconds = 0, best_seconds = std::numeric_limits<double>::infinity();
    const auto usual = try_way(question, question.ways[0], slice, usual_seconds);
    std::unique_ptr<Trial> best;
    const Way* winner = &question.ways[0];
    std::vector<std::pair<const Way*, double>> measured;
    if (usual) measured.emplace_back(winner, usual_seconds);
    bool all = true;
    for (size_t k = 1; k < question.ways.size(); ++k) {
      if (used() > share || spent() > options_.seconds) {
        all = false;
        break;
      }
      double seconds = 0;
      auto trial = try_way(question, question.ways[k], slice, seconds);
      if (!trial) continue;
      measured.emplace_back(&question.ways[k], seconds);
      if (seconds >= best_seconds) continue;
      best = std::move(trial);
      best_seconds = seconds;
      winner = &question.ways[k];
    }
    if (measured.empty()) return {};
    // The winner must also win when both are timed alternately, which cancels drifts of the clock rate.
    if (best && usual && best_seconds < usual_seconds)
      for (int round = 0; round < rounds_of_final; ++round) {
        FE_TRY(usual_seconds, usual->measure(slice / 2));
        FE_TRY(best_seconds, best->measure(slice / 2));
      }
    // Within the noise, the candidate with the lowest cost is kept, so that decisions are stable.
    if (usual && best_seconds >= usual_seconds * worth) {
      winner = &question.ways[0];
      best_seconds = usual_seconds;
    }
    for (const auto& [way, seconds] : measured)
      record(question, *way, "measured",
             fmt::format("{}: {:.1f} us measured, {:.1f} by cost", question.entry, seconds * 1e6,
                         way->cost * 1e6),
             seconds);
    decide(question, *winner, best_seconds, usual_seconds, all);
    return {};
  }

  void decide(const Question& question, const Way& winner, double seconds, double usual_seconds, bool keep) {
    const auto& device = subject_.devices[question.device]->kind;
    Decision decision{.provider = winner.compiler->id,
                      .candidate = winner.name,
                      .covered = winner.covered,
                      .cost = winner.cost,
                      .seconds = seconds,
                      .usual = question.ways[0].name,
                      .usual_seconds = usual_seconds,
                      .by = "measured"};
    if (winner.is_library()) {
      decisions_.set(DecisionKind::library, device, question.parts_entry, std::move(decision), keep);
      return;
    }
    if (!question.parts_entry.empty()) {
      // Two decisions: no library runs the group, and this candidate is chosen among those of code
      // generators.
      Decision nobody = decision;
      nobody.provider.clear();
      decisions_.set(DecisionKind::library, device, question.parts_entry, std::move(nobody), keep);
    }
    decisions_.set(DecisionKind::kernel, device, question.entry, std::move(decision), keep);
  }

  const Subject& subject_;
  const Options& options_;
  link::BuildOptions build_;
  plugin::CostModels& costs_;
  const select::CandidateBlocklist& blocklist_;
  Decisions& decisions_;
  Ledger& ledger_;
  const std::vector<bool> init_;
  const std::set<schedule::BufferId> constants_;
  const Clock::time_point start_;
  std::vector<Question> questions_;
};

}  // namespace

Result<void> measure(const Subject& subject, const Options& options, const link::BuildOptions& build,
                     plugin::CostModels& costs, const select::CandidateBlocklist& blocklist,
                     select::Decisions& decisions, Ledger& ledger) {
  return Tuner(subject, options, build, costs, blocklist, decisions, ledger).run();
}

Result<Decisions> open_decisions(const Options& options,
                                 const std::function<Decisions::Contexts()>& contexts) {
  if (!options.replay.empty()) {
    FE_TRY(auto lock, read_lock(options.replay));
    return Decisions(std::move(lock));
  }
  std::error_code failed;
  // Mode `cached` only reads decisions. Without a store it costs nothing.
  const bool stored = !options.folder.empty() && std::filesystem::exists(options.folder, failed);
  if (options.mode == Mode::off || (options.mode == Mode::cached && !stored)) return Decisions();
  auto store = open_store(options.folder);
  return store ? Decisions(std::move(store), contexts()) : Decisions();
}

}  // namespace ferrite::core::tune
