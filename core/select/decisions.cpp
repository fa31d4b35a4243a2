// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/select/decisions.h"

#include <array>
#include <cmath>
#include <filesystem>
#include <set>
#include <span>

#include "core/support/files/replace_file.h"
#include "core/support/hash.h"
#include "core/support/toml/toml_reader.h"
#include "runtime/pool.h"

namespace ferrite::core::select {
namespace {

using plugin::Key;
using plugin::KeyType;
using plugin::TomlTable;

constexpr Key entry_key{
    .name = "entry", .type = KeyType::string, .absent = "required", .example = "", .doc = "the kernel"};
constexpr Key from_key{
    .name = "from", .type = KeyType::string, .absent = "required", .example = "", .doc = "model nodes"};
constexpr Key device_key{
    .name = "device", .type = KeyType::string, .absent = "required", .example = "", .doc = "its kind"};
constexpr Key provider_key{
    .name = "provider", .type = KeyType::string, .absent = "required", .example = "", .doc = "its id"};
constexpr Key candidate_key{.name = "candidate",
                            .type = KeyType::string,
                            .absent = "required",
                            .example = "",
                            .doc = "as the provider calls it"};
constexpr Key covered_key{.name = "covered",
                          .type = KeyType::integer,
                          .absent = "required",
                          .example = "",
                          .doc = "leading statements that the library takes",
                          .least = 1};
constexpr Key by_key{
    .name = "by", .type = KeyType::string, .absent = "unknown", .example = "", .doc = "how it was decided"};
constexpr Key cost_key{.name = "cost_ns",
                       .type = KeyType::integer,
                       .absent = "0",
                       .example = "",
                       .doc = "by the cost model",
                       .least = 0};
constexpr Key measured_key{.name = "measured_ns",
                           .type = KeyType::integer,
                           .absent = "it was not",
                           .example = "",
                           .doc = "measured",
                           .least = 0};
constexpr Key kernel_keys[] = {entry_key,     from_key, device_key, provider_key,
                               candidate_key, by_key,   cost_key,   measured_key};
constexpr Key library_keys[] = {entry_key,   from_key, device_key, provider_key, candidate_key,
                                covered_key, by_key,   cost_key,   measured_key};
constexpr plugin::KeyTable kernel_table{"[[kernel]]", kernel_keys};
constexpr plugin::KeyTable library_table{"[[library]]", library_keys};
constexpr auto target_keys = [] {
  std::array<Key, 1 + runtime::number_table.size() + runtime::choice_table.size()> keys{device_key};
  auto* key = &keys[1];
  for (const auto& number : runtime::number_table)
    *key++ = {.name = number.name,
              .type = KeyType::integer,
              .absent = "the target's own",
              .example = "",
              .doc = number.doc,
              .least = number.least,
              .most = number.most};
  for (const auto& choice : runtime::choice_table)
    *key++ = {.name = choice.name,
              .type = KeyType::string,
              .absent = "the target's own",
              .example = "",
              .doc = choice.doc,
              .choices = choice.names};
  return keys;
}();
constexpr plugin::KeyTable target_table{"[[target]]", target_keys};
constexpr Key top_keys[] = {
    {.name = "schema",
     .type = KeyType::integer,
     .absent = "required",
     .example = "",
     .doc = "0",
     .least = 0,
     .most = 0},
    {.name = "kernel",
     .type = KeyType::table_list,
     .absent = "none",
     .example = "",
     .doc = "kernels",
     .inner = &kernel_table},
    {.name = "library",
     .type = KeyType::table_list,
     .absent = "none",
     .example = "",
     .doc = "libraries",
     .inner = &library_table},
    {.name = "target",
     .type = KeyType::table_list,
     .absent = "none",
     .example = "",
     .doc = "by which numbers groups are formed",
     .inner = &target_table},
};
constexpr plugin::KeyTable lock_table{"", top_keys};

constexpr std::string_view cure = "write the lock anew with --lock-decisions, or compile without --decisions";

double seconds_of(const TomlTable& table, std::string_view key) {
  return static_cast<double>(table.integer(key).value_or(0)) * 1e-9;
}

int64_t nanoseconds(double seconds) { return std::llround(seconds * 1e9); }

}  // namespace

Result<Decisions> Decisions::open(const tune::Options& options, const std::function<Contexts()>& contexts) {
  Decisions decisions;
  decisions.libraries_first_ = options.libraries_first;
  // A lock decides everything: neither the store nor a measurement may change a replay.
  if (!options.replay.empty()) {
    FE_CHECK(decisions.read_lock(options.replay));
    return decisions;
  }
  std::error_code failed;
  // Mode `cached` only reads decisions. Without a store it costs nothing.
  const bool stored = !options.folder.empty() && std::filesystem::exists(options.folder, failed);
  if (options.mode == tune::Mode::off || (options.mode == tune::Mode::cached && !stored)) return decisions;
  decisions.store_ = std::make_unique<DecisionStore>(options.folder);
  // The contexts hash all compilers of all devices: made only if a store uses them.
  if (decisions.store_->is_open()) decisions.contexts_ = contexts();
  return decisions;
}

Result<void> Decisions::read_lock(const std::string& path) {
  FE_TRY(const auto text, plugin::read_text_file(path));
  FE_TRY(const auto document, plugin::parse_toml(text, path));
  const TomlTable table(document, path, "");
  FE_CHECK(table.check(lock_table));
  lock_path_ = path;
  for (const auto& entry : table.table_list("target")) {
    runtime::SourcedNumbers numbers;
    for (size_t k = 0; k < runtime::number_table.size(); ++k)
      if (const auto value = entry.integer(runtime::number_table[k].name))
        numbers.set(k, *value, runtime::Source::locked);
    for (size_t k = 0; k < runtime::choice_table.size(); ++k)
      if (const auto name = entry.string(runtime::choice_table[k].name)) {
        const auto names = runtime::choice_table[k].names;
        const auto chosen = std::ranges::find(names, *name) - names.begin();
        numbers.choose(k, static_cast<uint32_t>(chosen), runtime::Source::locked);
      }
    const auto device = *entry.string("device");
    if (!numbers_.emplace(device, numbers).second)
      return core::at(
          entry.place("device"),
          error(FE_EINVALID, "FE-M08", "the numbers of device '{}' are given twice; {}", device, cure));
  }
  for (const auto kind : {DecisionKind::kernel, DecisionKind::library})
    for (const auto& entry : table.table_list(kind == DecisionKind::kernel ? "kernel" : "library")) {
      Decision decision{.provider = *entry.string("provider"),
                        .candidate = *entry.string("candidate"),
                        .covered = static_cast<uint64_t>(entry.integer("covered").value_or(0)),
                        .cost = seconds_of(entry, "cost_ns"),
                        .seconds = seconds_of(entry, "measured_ns"),
                        .usual = {},
                        .usual_seconds = 0,
                        .by = "locked"};
      const Decisions::Key key{kind, *entry.string("device"), *entry.string("entry")};
      const auto place = entry.place("entry");
      // Places are kept: check() names the line of an entry that no kernel took.
      if (const auto [found, added] = locked_.emplace(key, place); !added)
        return core::at(place, error(FE_EINVALID, "FE-M08", "{} is decided twice, at {} too; {}",
                                     std::get<2>(key), found->second, cure));
      known_.emplace(key, std::move(decision));
    }
  return {};
}

std::string Decisions::store_key(const Key& key) const {
  const auto found = contexts_.find(std::get<1>(key));
  // Without a context two machines, or two builds of a compiler, would share decisions: keep none.
  if (found == contexts_.end() || found->second.empty()) return {};
  return hash128({"decision 0", std::get<0>(key) == DecisionKind::kernel ? "kernel" : "library",
                  found->second, std::get<1>(key), std::get<2>(key)});
}

std::optional<Decision> Decisions::find(DecisionKind kind, const std::string& device,
                                        const std::string& entry) {
  const Key key{kind, device, entry};
  if (const auto found = known_.find(key); found != known_.end()) return found->second;
  if (!store_->is_open()) return std::nullopt;
  // An absent entry is known, too, so that each file is looked for once.
  return known_[key] = store_->find(store_key(key));
}

void Decisions::set(DecisionKind kind, const std::string& device, const std::string& entry, Decision decision,
                    bool keep) {
  const Key key{kind, device, entry};
  if (keep) store_->keep(store_key(key), decision);
  known_[key] = std::move(decision);
}

Result<void> Decisions::check() const {
  // An entry that is left over means that the model changed: the lock would silently not apply.
  std::map<Key, std::string> unused = locked_;
  for (const auto& taken : taken_) unused.erase({taken.kind, taken.device, taken.entry});
  if (unused.empty()) return {};
  const auto& [key, place] = *unused.begin();
  return core::at(place,
                  error(FE_EINVALID, "FE-T43",
                        "the program has no kernel {} on device '{}' ({} of the lock's {} are not in it): "
                        "the model, its shapes or the pipeline changed; {}",
                        std::get<2>(key), std::get<1>(key), unused.size(), locked_.size(), cure));
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

Result<void> Decisions::write_lock(const std::string& path, const runtime::Devices& devices) const {
  const auto text = lock_text(taken_, devices);
  const std::array chunks{std::as_bytes(std::span(text))};
  if (const auto why = replace_file(path, chunks); !why.empty())
    return core::at(path, error(FE_EINVALID, "FE-C10", "the decisions lock cannot be written: {}", why));
  return {};
}

Error no_candidate(const Decisions& decisions, const Decision& decision, std::string_view entry,
                   std::string_view why) {
  return core::at(decisions.lock_path(),
                  error(FE_EINVALID, "FE-T42", "candidate '{}' of provider '{}' for {} {}; {}",
                        decision.candidate, decision.provider, entry, why, cure));
}

Error not_locked(const Decisions& decisions, std::string_view entry) {
  return core::at(
      decisions.lock_path(),
      error(FE_EINVALID, "FE-T43",
            "it has no entry for kernel {}: the model, its shapes or the pipeline changed; {}", entry, cure));
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

std::string lock_text(std::span<const Taken> taken, const runtime::Devices& devices) {
  // devices of one kind share their decisions
  std::set<std::tuple<DecisionKind, std::string_view, std::string_view>> written;
  std::string text =
      "# Written by `ferrite ... --lock-decisions`: which candidate each kernel gets.\nschema = 0\n";
  std::set<std::string_view> kinds;
  for (const auto& device : devices) {
    if (!kinds.insert(device->kind).second) continue;
    const auto& numbers = device->numbers.values;
    text += fmt::format("\n[[target]]\ndevice = {}\n", plugin::toml_string(device->kind));
    for (const auto& number : runtime::number_table)
      text += fmt::format("{} = {}\n", number.name, numbers.*number.value);
    for (const auto& choice : runtime::choice_table)
      text += fmt::format("{} = {}\n", choice.name, plugin::toml_string(choice.name_in(numbers)));
  }
  for (const auto& each : taken) {
    const auto& decision = each.decision;
    const bool library = each.kind == DecisionKind::library;
    if (!written.emplace(each.kind, each.device, each.entry).second) continue;
    text += fmt::format("\n[[{}]]\nentry = {}\nfrom = {}\ndevice = {}\nprovider = {}\ncandidate = {}\n",
                        library ? "library" : "kernel", plugin::toml_string(each.entry),
                        plugin::toml_string(each.provenance), plugin::toml_string(each.device),
                        plugin::toml_string(decision.provider), plugin::toml_string(decision.candidate));
    if (library) text += fmt::format("covered = {}\n", decision.covered);
    text +=
        fmt::format("by = {}\ncost_ns = {}\n", plugin::toml_string(decision.by), nanoseconds(decision.cost));
    if (decision.seconds > 0) text += fmt::format("measured_ns = {}\n", nanoseconds(decision.seconds));
  }
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
