// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/link/kernel_instances.h"

#include <algorithm>
#include <span>

#include "core/ir/kernel/flatten.h"
#include "core/ir/kernel/legalise.h"
#include "core/select/pack.h"

namespace ferrite::core::link {

using loop::BufferId;

/// An instance together with one of its possible providers.
struct KernelInstances::Offer {
  const Compiler* compiler = nullptr;
  select::Proposal proposal;
  KernelInstance
      form;  ///< the kernel with the statement kinds that the provider supports, its bytes and entry
  size_t candidates = 0;                    ///< number of candidates between which it was chosen
  std::optional<select::Decision> decided;  ///< the decision that selects it; none: its cost does
};

namespace {

/// Numbers buffers in the order of their first use, so that equal groups give equal bytes.
void make_canonical(schedule::GroupKernel& group) {
  std::vector<BufferId> old_argument(group.kernel.buffers.size(), loop::none), numbers, arguments;
  size_t argument = 0;
  for (BufferId b = 0; b < group.kernel.buffers.size(); ++b)
    if (group.kernel.buffers[b].kind != FE_BUFFER_LOCAL) old_argument[b] = group.arguments[argument++];
  group.kernel = kernel::canonical(group.kernel, numbers);
  for (BufferId old : numbers)
    if (old_argument[old] != loop::none) arguments.push_back(old_argument[old]);
  group.arguments = std::move(arguments);
}

Result<void> flatten(KernelInstance& instance) {
  FE_TRY(auto flat, kernel::flatten(instance.group.kernel, instance.provenance));
  instance.bytes = std::move(flat.bytes);
  instance.entry = flat.entry;
  return {};
}

/// The instance in the form for a provider. FE-K07 where it has statements that the provider does not
/// support.
Result<KernelInstance> form_for(const KernelInstance& instance, const Compiler& compiler) {
  KernelInstance form = instance;
  // Legalisation changes neither buffers nor arguments.
  FE_TRY(const bool changed,
         kernel::legalise(form.group.kernel, compiler.target.statement_kinds, compiler.slots.features));
  if (changed) FE_CHECK(flatten(form));
  return form;
}

}  // namespace

const std::vector<Pack>& KernelInstances::packs(size_t instance) const {
  static const std::vector<Pack> none;
  const auto found = packs_.find(instance);
  return found == packs_.end() ? none : found->second;
}

Result<size_t> KernelInstances::add(schedule::GroupKernel& group, const std::string& provenance,
                                    uint32_t device, const Compiler* chosen, const std::string& candidate) {
  make_canonical(group);
  return instance_of(group, provenance, device, chosen, candidate);
}

/// The instance of a kernel. Groups with the same device, provider, candidate and kernel bytes share one.
Result<size_t> KernelInstances::instance_of(schedule::GroupKernel group, std::string provenance,
                                            uint32_t device, const Compiler* compiler,
                                            const std::string& candidate) {
  auto flat = kernel::flatten(group.kernel, provenance);
  if (!flat) return at(provenance, std::move(flat.error()));
  auto [found, added] =
      numbers_.emplace(std::tuple(device, compiler, candidate, flat->entry), instances_.size());
  if (added) {
    KernelInstance instance;
    instance.group = std::move(group);
    instance.bytes = std::move(flat->bytes);
    instance.entry = flat->entry;
    instance.provenance = std::move(provenance);
    instance.device = device;
    instance.compiler = compiler;
    instance.candidate_name = candidate;
    instances_.push_back(std::move(instance));
  }
  return found->second;
}

/// The best offer for an instance: the decided one, or the one of the chosen compiler, else the cheapest one
/// among its possible providers. Without any offer, the error has the reasons, FE-K20. `is_packing`: packing
/// kernels are never subject to decisions.
Result<KernelInstances::Offer> KernelInstances::best_offer(const KernelInstance& instance, bool is_packing) {
  const auto& device = *devices_[instance.device];
  const auto providers = instance.compiler ? std::span(instance.compiler, 1) : device.generators();
  auto* const decisions = instance.compiler || is_packing ? nullptr : options_.decisions;
  const auto decided =
      decisions ? decisions->find(select::DecisionKind::kernel, device.kind, instance.entry) : std::nullopt;
  if (decisions && decisions->is_locked() && !decided) return select::not_locked(*decisions, instance.entry);
  std::optional<Offer> best, wanted, refused;
  size_t candidates = 0;
  std::string reasons;
  const auto decline = [&](const std::string& reason) { reasons += (reasons.empty() ? "" : "; ") + reason; };
  for (const auto& compiler : providers) {
    if (const auto dropped = blocklist_.dropped.find(&compiler); dropped != blocklist_.dropped.end()) {
      decline(fmt::format("provider '{}' was dropped: {}", compiler.id, dropped->second));
      continue;
    }
    auto form = form_for(instance, compiler);
    if (!form) {
      decline(fmt::format("provider '{}': {}", compiler.id, form.error().text));
      continue;
    }
    std::string declined;
    const size_t statements = form->group.kernel.statements.size();
    auto proposals = select::propose(compiler, form->bytes, statements, declined);
    if (!proposals && blocklist_.forgive(compiler, proposals.error(), ledger_)) {
      decline(fmt::format("provider '{}': {}", compiler.id, proposals.error().text));
      continue;
    }
    if (!proposals) return std::move(proposals.error());
    if (!declined.empty()) decline(fmt::format("provider '{}': {}", compiler.id, declined));
    for (auto& proposal : *proposals) {
      if (proposal.covered < statements) continue;
      ++candidates;
      if (instance.compiler && proposal.name == instance.candidate_name)
        wanted = Offer{&compiler, proposal, *form, 0, {}};
      if (decided && decided->provider == compiler.id && decided->candidate == proposal.name &&
          (decisions->is_locked() ||
           !blocklist_.candidates.contains({&compiler, instance.entry, proposal.id})))
        wanted = Offer{&compiler, proposal, *form, 0, decided};
      // A candidate that takes too much memory is used only where there is no other.
      auto& to = blocklist_.candidates.contains({&compiler, instance.entry, proposal.id}) ? refused : best;
      if (to && to->proposal.cost <= proposal.cost) continue;
      to = Offer{&compiler, std::move(proposal), *form, 0, {}};
    }
  }
  if (decided && !wanted && decisions->is_locked())
    return select::no_candidate(*decisions, *decided, instance.entry,
                                reasons.empty() ? "is not proposed" : "is not proposed: " + reasons);
  if (wanted) best = std::move(wanted);
  if (!best) best = std::move(refused);
  if (best) {
    best->candidates = candidates;
    return std::move(*best);
  }
  return error(FE_EUNSUPPORTED, "FE-K20", "no provider of device '{}' takes this kernel: {}", device.kind,
               reasons.empty() ? "it has none" : reasons);
}

Result<std::vector<size_t>> KernelInstances::choose(const Declined& declined) {
  const size_t kernels = instances_.size();
  // The loop also visits packing instances that apply_layout() appends on the way.
  for (size_t u = 0; u < instances_.size(); ++u) {
    auto offer = best_offer(instances_[u], u >= kernels);
    if (!offer) {
      const bool nothing = offer.error().code == "FE-K20";
      auto failed = at(instances_[u].provenance, std::move(offer.error()));
      if (!nothing) return failed;
      FE_CHECK(declined(u, std::move(failed)));
      continue;
    }
    const bool generated = !instances_[u].compiler;
    const auto entry = instances_[u].entry;
    auto& instance = instances_[u] = std::move(offer->form);
    instance.compiler = offer->compiler;
    instance.asked = entry;
    instance.candidate = offer->proposal.id;
    instance.cost = offer->proposal.cost;
    if (u >= kernels) continue;
    instance.candidate_name = offer->proposal.name;
    record_choice(instance, entry, *offer, generated);
    for (const auto& layout : offer->proposal.layouts) FE_CHECK(apply_layout(u, layout));
  }
  return merge_equal();
}

/// `entry`: that of the kernel before legalisation for its provider.
void KernelInstances::record_choice(const KernelInstance& instance, const std::string& entry,
                                    const Offer& offer, bool generated) {
  const auto& decided = offer.decided;
  ledger_.add({"candidate", instance.provenance, instance.candidate_name, "chosen",
               decided ? decided->by : std::string(),
               decided ? select::figures_text(instance.entry, *decided) : instance.entry,
               offer.proposal.cost});
  if (!options_.decisions || !generated) return;
  select::Taken taken{.device = devices_[instance.device]->kind,
                      .entry = entry,
                      .provenance = instance.provenance,
                      .candidates = offer.candidates,
                      .decision = {.by = "cost"}};
  if (decided) taken.decision = *decided;
  taken.decision.provider = offer.compiler->id;
  taken.decision.candidate = offer.proposal.name;
  taken.decision.cost = offer.proposal.cost;
  options_.decisions->took(std::move(taken));
}

/// Merges instances that became equal because they differed only in statements that their provider does not
/// support.
std::vector<size_t> KernelInstances::merge_equal() {
  std::map<std::tuple<uint32_t, const Compiler*, std::string, std::string>, size_t> first;
  std::vector<size_t> number;
  for (const auto& instance : instances_) {
    const bool library = instance.compiler && instance.compiler->is_library();
    const auto key = std::tuple(instance.device, instance.compiler, library ? instance.candidate_name : "",
                                instance.entry);
    number.push_back(first.emplace(key, first.size()).first->second);
  }
  if (first.size() == instances_.size()) return number;
  std::vector<KernelInstance> kept(first.size());
  decltype(packs_) packs;
  // Backwards, so that the first of equal instances is the one that is kept.
  for (size_t u = instances_.size(); u-- > 0;) kept[number[u]] = std::move(instances_[u]);
  for (auto& [u, list] : packs_) {
    for (auto& pack : list) pack.instance = number[pack.instance];
    packs[number[u]] = std::move(list);
  }
  instances_ = std::move(kept);
  packs_ = std::move(packs);
  return number;
}

Result<void> KernelInstances::apply_layout(size_t u, const select::OperandLayout& layout) {
  auto& kernel = instances_[u].group.kernel;
  const auto plain = layout.buffer < kernel.buffers.size() ? kernel.buffers[layout.buffer] : loop::Buffer();
  if (auto done = select::lay_out(kernel, layout); !done)
    return at(instances_[u].provenance, std::move(done.error()));
  FE_TRY(auto pack, select::make_pack_kernel(plain, layout));
  uint32_t argument = 0;
  for (uint32_t b = 0; b < layout.buffer; ++b)
    if (kernel.buffers[b].kind != FE_BUFFER_LOCAL) ++argument;
  schedule::GroupKernel pack_group{std::move(pack), {0, 1}};
  make_canonical(pack_group);
  FE_TRY(size_t pack_instance, instance_of(std::move(pack_group), "packing for " + instances_[u].provenance,
                                           instances_[u].device, nullptr));
  instances_[pack_instance].candidate_name = "pack";
  packs_[u].push_back({argument, pack_instance, plain.kind == FE_BUFFER_CONSTANT});
  return flatten(instances_[u]);
}

}  // namespace ferrite::core::link
