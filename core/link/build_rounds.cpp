// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/link/build_rounds.h"

#include <utility>
#include <vector>

#include "core/observe/observation.h"
#include "core/schedule/memory/kernel_order.h"
#include "core/select/placement.h"

namespace ferrite::core::link {
namespace {

/// One round: each step either succeeds, or adds to the blocklist and ends the round.
class Round {
 public:
  Round(const BuildInputs& inputs, const BuildRequest& request)
      : in_(inputs),
        request_(request),
        refused_(inputs.blocklist.count()),
        declined_(inputs.blocklist.groups.size()) {}

  /// Nothing where the round failed and another one is needed.
  Result<std::optional<Built>> run() {
    in_.watch.begin("select");
    FE_CHECK(assign());
    Builder builder(in_.groups, in_.devices, placement_, in_.regions, request_.options, in_.blocklist,
                    in_.ledger);
    // A kernel for each group, with the cheapest proposed candidate. Groups that no provider compiles for
    // their device are placed again.
    FE_CHECK(in_.kernel ? builder.select(*in_.kernel) : builder.select());
    if (in_.blocklist.groups.size() != declined_) return std::optional<Built>();
    // Machine code; all kernels are compiled in parallel.
    in_.watch.begin("emit");
    FE_CHECK(builder.emit());
    if (in_vain()) return std::optional<Built>();
    // Loading comes before the plan because a driver may reject code only when it loads it.
    if (request_.links) {
      in_.watch.begin("load");
      FE_CHECK(builder.load());
      if (in_vain()) return std::optional<Built>();
    }
    // Offsets in the arena for buffers between kernels and for workspaces, whose sizes are known once kernels
    // are compiled. A candidate that takes too much memory is replaced by another one.
    in_.watch.begin("plan");
    builder.plan();
    if (in_vain()) return std::optional<Built>();
    FE_CHECK(keep_decisions());
    Built built;
    if (!request_.links) {
      if (request_.lists_code) in_.watch.begin("code");
      built.listing = request_.lists_code ? builder.code() : builder.text();
      return std::optional(std::move(built));
    }
    // The launches at load and in each run.
    in_.watch.begin("link");
    FE_TRY(built.executable, builder.link());
    return built.executable ? std::optional(std::move(built)) : std::optional<Built>();
  }

 private:
  bool in_vain() const { return in_.blocklist.count() != refused_; }

  /// A device for each group, and a library for each group that one runs, wholly or in part.
  Result<void> assign() {
    // A group goes to the first device that supports it.
    placement_ = select::assign_groups(in_.groups, in_.devices, in_.blocklist, in_.ledger);
    in_.decisions.begin();
    // Candidates without a known decision are measured, where this is requested. A lock forbids it, and a
    // single kernel is no group.
    if (request_.tune.mode == tune::Mode::measure && request_.services.measure &&
        !in_.decisions.is_locked() && !in_.kernel) {
      const auto trials = request_.open_cache ? request_.open_cache() : nullptr;
      auto options = request_.options;
      options.cache = trials.get();
      in_.watch.begin("tune");
      FE_CHECK(request_.services.measure(
          {in_.groups, in_.parts ? &*in_.parts : nullptr, placement_, in_.devices}, request_.tune, options,
          in_.costs, in_.blocklist, in_.decisions, in_.ledger));
      in_.watch.begin("select");
    }
    // Libraries that run a whole group, or a part of it with the rest left to the code generator.
    if (in_.parts)
      FE_CHECK(select::select_libraries(in_.groups, *in_.parts, placement_, in_.devices, in_.costs,
                                        request_.options.memory, in_.blocklist, in_.ledger, in_.decisions));
    // At the peak of live memory, results overwrite operands that are dead. Groups of libraries are excluded,
    // because a library may read an operand again after it has stored a part of the result.
    if (request_.stores_in_place) {
      std::vector<bool> allowed;
      for (const auto& choice : placement_) allowed.push_back(!choice.compiler);
      schedule::store_in_place(in_.groups, allowed, in_.ledger);
    }
    return {};
  }

  Result<void> keep_decisions() {
    FE_CHECK(in_.decisions.check());
    if (!request_.tune.lock.empty() && request_.services.write_lock)
      FE_CHECK(request_.services.write_lock(request_.tune.lock, in_.decisions.taken(), in_.devices));
    if (auto* seen = request_.options.observation)
      seen->selections = {in_.decisions.taken().begin(), in_.decisions.taken().end()};
    return {};
  }

  const BuildInputs& in_;
  const BuildRequest& request_;
  const size_t refused_, declined_;  // before the round
  select::Placement placement_;
};

}  // namespace

Result<Built> build(const BuildInputs& inputs, const BuildRequest& request) {
  // A round splits groups for libraries; the next one starts from the unsplit groups.
  std::optional<schedule::Schedule> whole;
  if (inputs.parts || inputs.devices.size() > 1) whole = inputs.groups;
  // Each failed round adds at least one entry to the blocklist, and there are finitely many candidates, so
  // the loop ends.
  while (true) {
    FE_TRY(auto built, Round(inputs, request).run());
    if (built) return std::move(*built);
    if (whole) inputs.groups = *whole;
  }
}

}  // namespace ferrite::core::link
