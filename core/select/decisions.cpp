// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/select/decisions.h"

#include "core/support/hash.h"
#include "runtime/pool.h"

namespace ferrite::core::select {

Decisions::Decisions(DecisionLock lock)
    : known_(lock.decisions.begin(), lock.decisions.end()),
      locked_(std::move(lock.places)),
      numbers_(std::move(lock.numbers)),
      lock_path_(std::move(lock.path)) {}

std::string Decisions::store_key(const DecisionKey& key) const {
  const auto found = contexts_.find(std::get<1>(key));
  // Without a context two machines, or two builds of a compiler, would share decisions: keep none.
  if (found == contexts_.end() || found->second.empty()) return {};
  return hash128({"decision 0", std::get<0>(key) == DecisionKind::kernel ? "kernel" : "library",
                  found->second, std::get<1>(key), std::get<2>(key)});
}

std::optional<Decision> Decisions::find(DecisionKind kind, const std::string& device,
                                        const std::string& entry) {
  const DecisionKey key{kind, device, entry};
  if (const auto found = known_.find(key); found != known_.end()) return found->second;
  if (!store_) return std::nullopt;
  // An absent entry is known, too, so that each file is looked for once.
  return known_[key] = store_->find(store_key(key));
}

void Decisions::set(DecisionKind kind, const std::string& device, const std::string& entry, Decision decision,
                    bool keep) {
  const DecisionKey key{kind, device, entry};
  if (keep && store_) store_->keep(store_key(key), decision);
  known_[key] = std::move(decision);
}

Result<void> Decisions::check() const {
  // An entry that is left over means that the model changed: the lock would silently not apply.
  std::map<DecisionKey, std::string> unused = locked_;
  for (const auto& taken : taken_) unused.erase({taken.kind, taken.device, taken.entry});
  if (unused.empty()) return {};
  const auto& [key, place] = *unused.begin();
  return core::at(place,
                  error(FE_EINVALID, "FE-T43",
                        "the program has no kernel {} on device '{}' ({} of the lock's {} are not in it): "
                        "the model, its shapes or the pipeline changed; {}",
                        std::get<2>(key), std::get<1>(key), unused.size(), locked_.size(), lock_cure));
}

void Decisions::lock_numbers(const runtime::Devices& devices) const {
  for (const auto& device : devices) {
    const auto found = numbers_.find(device->kind);
    if (found == numbers_.end()) continue;
    const auto& [values, sources, choice_sources] = found->second;
    for (size_t k = 0; k < sources.size(); ++k)
      if (sources[k] == runtime::Source::locked)
        device->numbers.set(k, values.*runtime::number_table[k].value, runtime::Source::locked);
    for (size_t k = 0; k < choice_sources.size(); ++k)
      if (choice_sources[k] == runtime::Source::locked)
        device->numbers.choose(k, runtime::choice_table[k].get(values), runtime::Source::locked);
  }
}

Error no_candidate(const Decisions& decisions, const Decision& decision, std::string_view entry,
                   std::string_view why) {
  return core::at(decisions.lock_path(),
                  error(FE_EINVALID, "FE-T42", "candidate '{}' of provider '{}' for {} {}; {}",
                        decision.candidate, decision.provider, entry, why, lock_cure));
}

Error not_locked(const Decisions& decisions, std::string_view entry) {
  return core::at(decisions.lock_path(),
                  error(FE_EINVALID, "FE-T43",
                        "it has no entry for kernel {}: the model, its shapes or the pipeline changed; {}",
                        entry, lock_cure));
}

std::string figures_text(std::string_view entry, const Decision& decision) {
  std::string text(entry);
  if (decision.seconds > 0)
    text +=
        fmt::format(": {:.1f} us measured, {:.1f} us by cost", decision.seconds * 1e6, decision.cost * 1e6);
  if (decision.usual.empty() || decision.usual == decision.candidate) return text;
  text += fmt::format("; costs pick '{}'", decision.usual);
  if (decision.usual_seconds > 0) text += fmt::format(", {:.1f} us measured", decision.usual_seconds * 1e6);
  return text;
}

std::map<std::string, std::string> decision_contexts(const runtime::Devices& devices, int64_t threads) {
  const int64_t workers = threads > 0 ? threads : runtime::Pool::process().workers();
  std::map<std::string, std::string> result;
  for (const auto& device : devices) {
    std::string all = hash128({device->description, fmt::format("{}", workers)});
    // A compiler without a key may give other code tomorrow: no measurement of it can be reused.
    bool known = true;
    for (const auto& compiler : device->compilers) {
      known = known && !compiler.target_key.empty();
      all = hash128({all, compiler.id, runtime::maker_key(compiler)});
    }
    result.emplace(device->kind, known ? all : std::string());
  }
  return result;
}

}  // namespace ferrite::core::select
