// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "driver/tune/decisions_lock.h"

#include <array>
#include <cmath>
#include <set>

#include "core/support/files/replace_file.h"
#include "core/support/toml/toml_reader.h"

namespace ferrite::core::tune {
namespace {

using plugin::Key;
using plugin::KeyType;
using plugin::TomlTable;
using select::Decision;
using select::DecisionKind;
using select::DecisionLock;

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

double seconds_of(const TomlTable& table, std::string_view key) {
  return static_cast<double>(table.integer(key).value_or(0)) * 1e-9;
}

int64_t nanoseconds(double seconds) { return std::llround(seconds * 1e9); }

/// The target numbers by which groups were formed, one table for each kind of device, and the choices in
/// order. Equal decisions give equal texts.
std::string text_of(std::span<const select::Taken> taken, const runtime::Devices& devices) {
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

}  // namespace

Result<DecisionLock> read_lock(const std::string& path) {
  FE_TRY(const auto text, plugin::read_text_file(path));
  FE_TRY(const auto document, plugin::parse_toml(text, path));
  const TomlTable table(document, path, "");
  FE_CHECK(table.check(lock_table));
  DecisionLock lock;
  lock.path = path;
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
    if (!lock.numbers.emplace(device, numbers).second)
      return core::at(entry.place("device"),
                      error(FE_EINVALID, "FE-M08", "the numbers of device '{}' are given twice; {}", device,
                            select::lock_cure));
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
      const select::DecisionKey key{kind, *entry.string("device"), *entry.string("entry")};
      const auto place = entry.place("entry");
      // Places are kept: check() names the line of an entry that no kernel took.
      if (const auto [found, added] = lock.places.emplace(key, place); !added)
        return core::at(place, error(FE_EINVALID, "FE-M08", "{} is decided twice, at {} too; {}",
                                     std::get<2>(key), found->second, select::lock_cure));
      lock.decisions.emplace(key, std::move(decision));
    }
  return lock;
}

Result<void> write_lock(const std::string& path, std::span<const select::Taken> taken,
                        const runtime::Devices& devices) {
  const auto text = text_of(taken, devices);
  const std::array chunks{std::as_bytes(std::span(text))};
  if (const auto why = replace_file(path, chunks); !why.empty())
    return core::at(path, error(FE_EINVALID, "FE-C10", "the decisions lock cannot be written: {}", why));
  return {};
}

}  // namespace ferrite::core::tune
