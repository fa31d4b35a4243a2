// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "runtime/device.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <filesystem>
#include <ranges>
#include <set>

#include "core/support/abi/abi.h"
#include "core/support/hash.h"
#include "core/support/log.h"
#include "core/support/split.h"
#include "core/support/suggest.h"
#include "core/support/warning.h"
#include "runtime/plugin/serialised_calls.h"

namespace ferrite::core::runtime {
namespace {

/// The runtime and the number that a device name refers to.
struct FoundDevice {
  std::string kind;
  uint32_t number = 0;
  const fe_runtime* runtime = nullptr;
};

Error named_twice(const std::string& name) {
  return error(FE_EINVALID, "FE-D01",
               "'{}' is named twice; each device takes what those before it do not: drop one", name);
}

Result<uint32_t> count_devices(const fe_runtime& runtime) {
  auto out = abi::sized<fe_device_count_out>();
  out.count = 1;
  if (!runtime.device_count) return out.count;
  abi::Call call;
  auto none = abi::sized<fe_none>();
  int32_t status = plugin::invoke(runtime, runtime.device_count, call, &none, &out);
  if (status != FE_OK) return call.error(status, "FE-D05", "the devices cannot be counted");
  return out.count;
}

/// The providers that compile for a device kind, with their plugins.
std::vector<plugin::Contributed<fe_provider>> providers_of(std::string_view kind,
                                                           const plugin::Backends& backends) {
  std::vector<plugin::Contributed<fe_provider>> found;
  for (const auto& provider : backends.providers()) {
    const auto slots = abi::read(provider.table);
    if (abi::view(slots.device_kind) == kind && slots.compile && (slots.propose || slots.claim))
      found.push_back(provider);
  }
  return found;
}

/// The devices present, of all loaded runtimes: "cpu:0".
std::vector<std::string> here(const plugin::Backends& backends) {
  std::vector<std::string> names;
  for (const auto& runtime : backends.runtimes()) {
    const auto count = count_devices(*runtime.table);
    for (uint32_t k = 0; count && k < *count; ++k)
      names.push_back(fmt::format("{}:{}", abi::view(runtime.table->id), k));
  }
  names.emplace_back(interpreter_name);
  return names;
}

// The largest page size of common machines.
constexpr uint64_t largest_alignment = uint64_t{1} << 21;

/// The assumed alignment for a target without a device.
constexpr uint64_t usual_alignment = 256;

/// The subject of errors.
std::string place_of(const std::string& names) { return names.empty() ? "device" : "device " + names; }

/// The known device kinds, by whether a device is present: names, and for absent ones also the reason.
struct Kinds {
  std::vector<std::string_view> all;
  std::vector<std::string> here, absent;
};
Kinds known_kinds(const plugin::Backends& backends) {
  Kinds kinds;
  for (const auto& runtime : backends.runtimes()) {
    const auto kind = abi::view(runtime.table->id);
    kinds.all.push_back(kind);
    const auto count = count_devices(*runtime.table);
    if (count && *count > 0) {
      kinds.here.emplace_back(kind);
      continue;
    }
    // The text lists everything that was tried; the first item is enough here.
    const std::string said = count ? "no device" : count.error().text;
    kinds.absent.push_back(fmt::format("{} ({})", kind, said.substr(0, said.find("; "))));
  }
  for (const auto& kind : backends.device_kinds())
    if (std::ranges::find(kinds.all, kind) == kinds.all.end()) {
      kinds.all.push_back(kind);
      kinds.absent.push_back(fmt::format("{} (no enabled plugin runs it)", kind));
    }
  kinds.all.push_back(interpreter_name);
  kinds.here.emplace_back(interpreter_name);
  return kinds;
}

/// The runtime of a kind for which something compiles.
Result<void> find_kind(FoundDevice& found, const plugin::Backends& backends) {
  for (const auto& runtime : backends.runtimes())
    if (abi::view(runtime.table->id) == found.kind) found.runtime = runtime.table;
  if (!found.runtime) {
    auto kinds = known_kinds(backends);
    // A provider compiles for this kind, but no enabled plugin has a runtime for it.
    std::erase(kinds.all, found.kind);
    return error(FE_EINVALID, "FE-D01", "there is no such device; there are {}{}{}{}",
                 fmt::join(kinds.here, ", "),
                 kinds.absent.empty() ? "" : "; known, but not here: ", fmt::join(kinds.absent, ", "),
                 did_you_mean(found.kind, kinds.all));
  }
  if (providers_of(found.kind, backends).empty())
    return error(FE_EINVALID, "FE-D01", "no enabled plugin compiles for '{}'; see 'ferrite targets'",
                 found.kind);
  return {};
}

/// Splits a name into kind and number.
Result<FoundDevice> read_name(const std::string& name) {
  FoundDevice found;
  auto colon = name.find(':');
  found.kind = name.substr(0, colon);
  if (colon != std::string::npos) {
    const char *begin = name.data() + colon + 1, *end = name.data() + name.size();
    auto [after, fault] = std::from_chars(begin, end, found.number);
    if (begin == end || after != end || (fault != std::errc() && fault != std::errc::result_out_of_range))
      return error(FE_EINVALID, "FE-D01", "a device is a kind and a number, as in 'cpu:0'");
    // Too large for a number: treat it as a device that does not exist.
    if (fault != std::errc()) found.number = UINT32_MAX;
  }
  if (name.empty())
    return error(FE_EINVALID, "FE-D01", "none is named; give --device or the manifest's 'device'");
  if (found.kind == interpreter_name)
    return colon == std::string::npos
               ? error(FE_EINVALID, "FE-D01", "the interpreter runs alone: name no other device")
               : error(FE_EINVALID, "FE-D01", "there is one interpreter, and it has no number: write '{}'",
                       interpreter_name);
  return found;
}

/// FE-D01 if the device's number does not exist.
Result<void> check_number(const FoundDevice& found, const plugin::Backends& backends) {
  const auto count = count_devices(*found.runtime);
  if (count && found.number < *count) return {};
  const auto others = fmt::format("; here are {}", fmt::join(here(backends), ", "));
  if (!count) {
    auto fault = count.error();
    fault.text += others;
    return fault;
  }
  return error(FE_EINVALID, "FE-D01", "'{}' has {}{}", found.kind,
               *count == 0   ? "no device here"
               : *count == 1 ? "one device, number 0"
                             : fmt::format("{} devices, numbers 0 to {}", *count, *count - 1),
               others);
}

Result<FoundDevice> find_device(const std::string& name, const plugin::Backends& backends, bool here = true) {
  FE_TRY(auto found, read_name(name));
  FE_CHECK(find_kind(found, backends));
  if (here) FE_CHECK(check_number(found, backends));
  return found;
}

/// A device that can be the last one of a program: the first suitable target, else the first device number 0
/// of any runtime; null if there is none.
std::shared_ptr<Device> open_for_the_rest(const plugin::Backends& backends, std::span<const Target> targets) {
  for (const auto& target : targets) {
    auto device = Device::open(target, backends);
    if (device && takes_the_rest(**device)) return std::move(*device);
  }
  for (const auto& runtime : backends.runtimes()) {
    auto device = Device::open(std::string(abi::view(runtime.table->id)), backends);
    if (device && takes_the_rest(**device)) return std::move(*device);
  }
  return nullptr;
}

/// Opens the target that replaces the named device.
Result<std::shared_ptr<Device>> open_as(const Target& target, const std::string& name,
                                        const plugin::Backends& backends) {
  const auto named = read_name(name);
  if (!named) return core::at(place_of(name), named.error());
  return Device::open(target, backends, named->number);
}

/// FE-P68 if the row padding that the target requests is invalid.
Result<void> check_row_padding(const Compiler& compiler) {
  const auto& target = compiler.target;
  if (target.row_alignment == 0 ||
      (std::has_single_bit(target.row_alignment) && target.row_alignment <= largest_alignment &&
       target.row_padding_percent <= FE_MOST_ROW_PADDING_PERCENT && target.row_padding_from >= 0))
    return {};
  return at(compiler.plugin->id,
            error(FE_EINTERNAL, "FE-P68",
                  "provider '{}' wants rows of buffers from {} bytes at multiples of {} bytes for at most {} "
                  "percent more; these are a size, a power of two up to {} and a number up to {}",
                  compiler.id, target.row_padding_from, target.row_alignment, target.row_padding_percent,
                  largest_alignment, FE_MOST_ROW_PADDING_PERCENT));
}

/// Finds the coverage of a provider: what it declares, minus the cells that failed or declined in the
/// measured table of this target, which is searched next to the plugin's library.
Result<void> find_coverage(Compiler& compiler, const std::string& description) {
  const auto& plugin = *compiler.plugin;
  auto coverage = runtime::Coverage::declared(compiler.target.capabilities);
  if (!coverage) return at(plugin.id, std::move(coverage.error()));
  compiler.coverage = *coverage;
  if (!compiler.slots.fingerprint) return {};
  abi::Collector<> fingerprint;
  abi::Call call;
  auto none = abi::sized<fe_none>();
  auto sink = fingerprint.sink();
  const int32_t status = plugin::invoke(*compiler.table, compiler.slots.fingerprint, call, &none, &sink);
  if (status != FE_OK) return at(plugin.id, call.error(status, "FE-D05", "the provider has no fingerprint"));
  if (fingerprint.bytes().empty())
    return at(
        plugin.id,
        error(FE_EDEVICE, "FE-D05",
              "the fingerprint of provider '{}' is empty; it names the target and the compiler's version",
              compiler.id));
  runtime::CapabilityTable wanted;
  wanted.provider = compiler.id;
  wanted.plugin = fmt::format("{} {}", plugin.id, plugin.version);
  wanted.target = compiler.target_key = runtime::target_key(description, compiler.id, fingerprint.bytes());
  const auto path = std::filesystem::path(plugin.library).parent_path() / wanted.file_name();
  std::error_code missing;
  const bool measured = std::filesystem::exists(path, missing);
  log::print("plugins", "{}: the table of what '{}' takes is {}{}", plugin.id, compiler.id, path.string(),
             measured ? "" : ", which is not there");
  if (!measured) return {};
  FE_TRY(const auto table, runtime::CapabilityTable::read(path.string(), &wanted));
  compiler.coverage.exclude(table);
  return {};
}

}  // namespace

std::string maker_key(const Compiler& compiler) {
  return hash128({FERRITE_VERSION, compiler.target_key, compiler.plugin->settings,
                  file_hash128(compiler.plugin->library)});
}

Result<std::shared_ptr<Device>> Device::open(const std::string& name, const plugin::Backends& backends) {
  const std::string where = place_of(name);
  auto found = find_device(name, backends);
  if (!found) return core::at(where, std::move(found.error()));
  std::shared_ptr<Device> device(new Device());
  device->runtime = found->runtime;
  device->slots = abi::read(found->runtime);
  device->kind = found->kind;
  device->number = found->number;
  auto opened = device->describe();
  if (opened) opened = device->open_targets(backends);
  if (!opened) return core::at(where, std::move(opened.error()));
  return device;
}

Result<std::shared_ptr<Device>> Device::open(const Target& target, const plugin::Backends& backends,
                                             uint32_t number) {
  const std::string where = place_of(target.kind);
  FoundDevice found{target.kind, number};
  if (auto known = find_kind(found, backends); !known) return core::at(where, std::move(known.error()));
  std::shared_ptr<Device> device(new Device());
  device->runtime = found.runtime;
  device->slots = abi::read(found.runtime);
  device->kind = found.kind;
  const auto count = count_devices(*found.runtime);
  // Use the same defaults for separate memory whether or not a device is present, so that packages are the
  // same on every machine.
  if (!count || *count == 0 || !device->describe() || !device->host_memory) {
    device->host_memory = false;
    device->alignment = usual_alignment;
    device->capacity = 0;
  } else if (auto here = check_number(found, backends); !here) {
    return core::at(where, std::move(here.error()));
  }
  device->number = number;
  device->description = device->name = target.description;
  if (auto opened = device->open_targets(backends); !opened)
    return core::at(where, std::move(opened.error()));
  return device;
}

Result<void> Device::describe() {
  abi::Collector<> description_text, label;
  abi::Call call;
  auto args = abi::sized<fe_device_args>();
  args.device = number;
  auto described = abi::sized<fe_describe_out>();
  described.description = description_text.sink();
  described.name = label.sink();
  described.host_memory = 1;
  const int32_t status = plugin::invoke(*runtime, runtime->describe, call, &args, &described);
  if (status != FE_OK) return call.error(status, "FE-D05", "the device cannot be described");
  description = description_text.bytes();
  name = label.bytes();
  host_memory = described.host_memory != 0;
  dlpack = described.dlpack_device;
  alignment = std::max<uint64_t>(described.alignment, 1);
  capacity = described.capacity;
  if (!std::has_single_bit(alignment) || alignment > largest_alignment)
    return error(FE_EDEVICE, "FE-P66",
                 "it says that its memory is aligned to {} bytes, which is no power of two up to {}",
                 described.alignment, largest_alignment);
  return {};
}

Result<void> Device::open_targets(const plugin::Backends& backends) {
  std::optional<Error> fault;
  for (const auto& [table, plugin] : providers_of(kind, backends)) {
    Compiler compiler;
    compiler.table = table;
    compiler.slots = abi::read(table);
    compiler.id = abi::view(compiler.slots.id);
    compiler.plugin = plugin;
    abi::Call call;
    auto args = abi::sized<fe_open_target_args>();
    args.description = {description.data(), description.size(), 1};
    compiler.target = abi::sized<fe_open_target_out>();
    const int32_t status = plugin::invoke(*table, compiler.slots.open_target, call, &args, &compiler.target);
    if (status != FE_OK) {
      fault = call.error(status, "FE-D05", "the provider cannot compile for this device");
      log::print("plugins", "provider {} is left out: {}", compiler.id, fault->message());
      continue;
    }
    compilers.push_back(std::move(compiler));  // the destructor closes its target from now on
    FE_CHECK(check_row_padding(compilers.back()));
    FE_CHECK(find_coverage(compilers.back(), description));
  }
  // There was at least one provider, so `fault` is set.
  if (compilers.empty()) return *fault;
  // The plugin enabled last goes first. Code generators go before the others, as generators() expects.
  std::reverse(compilers.begin(), compilers.end());
  std::stable_partition(compilers.begin(), compilers.end(),
                        [](const Compiler& c) { return c.takes_kernels() && !c.is_library(); });
  return find_numbers();
}

Result<void> Device::find_numbers() {
  // Apply the first generator last, so that its numbers win.
  for (const auto& compiler : std::views::reverse(generators())) {
    auto stated = abi::read(compiler.target.numbers);
    // Local memory follows below: there the smallest value counts, not the first.
    stated.local_bytes = 0;
    if (auto done = state(numbers, stated); !done)
      return core::at(compiler.plugin->id,
                      error(FE_EINTERNAL, "FE-P69", "provider '{}': {}", compiler.id, done.error().text));
  }
  // Any of the generators may compile a kernel, so the smallest local memory of all counts.
  const auto local = std::ranges::find(number_table, &TargetNumbers::local_bytes, &Number::value);
  if (const auto least = std::ranges::min_element(
          generators(), {}, [](const Compiler& compiler) { return compiler.target.local_bytes; });
      least != generators().end())
    numbers.set(static_cast<size_t>(local - number_table.begin()), least->target.local_bytes, Source::stated);
  if (const auto measured = load_measured(kind, description))
    for (size_t k = 0; k < number_table.size(); ++k)
      if (const int64_t value = (*measured).*number_table[k].stated; value != 0)
        numbers.set(k, value, Source::measured);
  return {};
}

std::string Device::refusal(const std::string& target) const {
  const auto slots = abi::read(runtime);  // tables of the first revision lack the slot
  if (!slots.accept) return target == description ? "" : "it was compiled for another device";
  abi::Call call;
  auto args = abi::sized<fe_accept_args>();
  args.device = number;
  args.description = {target.data(), target.size(), 1};
  auto out = abi::sized<fe_none>();
  const int32_t status = plugin::invoke(*runtime, slots.accept, call, &args, &out);
  return status == FE_OK ? "" : call.error(status, "FE-K53", "its code does not run on this device").text;
}

std::span<const Compiler> Device::generators() const {
  const auto end = std::ranges::find_if_not(
      compilers, [](const Compiler& c) { return c.takes_kernels() && !c.is_library(); });
  return {compilers.begin(), end};
}

const Compiler* Device::compiler(const fe_provider& provider) const {
  const auto found = std::ranges::find(compilers, &provider, &Compiler::table);
  return found == compilers.end() ? nullptr : &*found;
}

Device::~Device() {
  for (auto& compiler : compilers) {
    if (!compiler.slots.close_target || !compiler.target.target) continue;
    abi::Call call;
    auto out = abi::sized<fe_none>();
    plugin::invoke(*compiler.table, compiler.slots.close_target, call, &compiler.target, &out);
  }
}

Result<Devices> open_devices(const std::string& names, const plugin::Backends& backends,
                             std::span<const Target> targets) {
  Devices devices;
  const auto all = device_names(names);
  for (const auto& name : all) {
    const auto target = std::ranges::find(targets, kind_of(name), &Target::kind);
    auto device = target == targets.end() ? Device::open(name, backends) : open_as(*target, name, backends);
    if (device) {
      for (const auto& other : devices)
        if (other->kind == (*device)->kind && other->number == (*device)->number)
          return core::at(place_of(names), named_twice(name));
      devices.push_back(std::move(*device));
      continue;
    }
    // If its plugin may be skipped, leave the device out: later devices take its work.
    const auto providers = providers_of(kind_of(name), backends);
    const bool last = &name == &all.back();
    if (last || providers.empty() || std::ranges::any_of(providers, [](const auto& p) {
          return p.plugin->on_error != plugin::OnError::skip;
        }))
      return std::move(device.error());
    log::warn("plugins", fmt::format("left out: {}", device.error().message()));
  }
  if (const auto& last = *devices.back(); !takes_the_rest(last)) {
    auto rest = open_for_the_rest(backends, targets);
    if (!rest)
      return core::at(
          place_of(names),
          error(FE_EINVALID, "FE-D20",
                "'{}' {}, and no enabled plugin has a device that takes the rest; enable one", last.kind,
                last.generators().empty() ? "compiles no loops, only whole regions"
                                          : "does not reach the host's memory"));
    log::print("plugins", "{} takes what the others do not", rest->kind);
    devices.push_back(std::move(rest));
  }
  return devices;
}

TargetNumbers numbers_of(const Devices& devices) {
  std::optional<TargetNumbers> result;
  for (const auto& device : devices) {
    if (device->generators().empty()) continue;
    const auto& numbers = device->numbers.values;
    // The first device that compiles loops decides; the next two lines are the exceptions.
    if (!result) result = numbers;
    result->local_bytes = std::min(result->local_bytes, numbers.local_bytes);
    if (result->activations == Activations::any) result->activations = numbers.activations;
  }
  return result.value_or(TargetNumbers());
}

Result<void> check_devices(const std::string& names, const plugin::Backends& backends, bool here) {
  if (names == interpreter_name) return {};
  std::set<std::pair<std::string, uint32_t>> all;
  for (const auto& name : device_names(names)) {
    auto found = find_device(name, backends, here);
    if (!found) return core::at(place_of(name), std::move(found.error()));
    if (!all.emplace(found->kind, found->number).second) return core::at(place_of(names), named_twice(name));
  }
  return {};
}

bool takes_the_rest(const Device& device) { return !device.generators().empty() && device.host_memory; }

std::vector<std::string> device_names(std::string_view names) {
  const auto parts = split(names, ',');
  return {parts.begin(), parts.end()};
}

std::vector<Target> targets_of(const Devices& devices) {
  std::vector<Target> targets;
  for (const auto& device : devices) targets.push_back({device->kind, device->description});
  return targets;
}

std::string text_of(std::span<const Target> targets) {
  std::vector<std::string> texts;
  for (const auto& [kind, description] : targets) texts.push_back(fmt::format("{} ({})", kind, description));
  return fmt::format("{}", fmt::join(texts, ", "));
}

std::string kind_of(const std::string& name) { return name.substr(0, name.find(':')); }

std::vector<std::string> kinds_of(std::string_view names) {
  std::vector<std::string> kinds;
  for (const auto& name : device_names(names))
    if (auto kind = kind_of(name); std::ranges::find(kinds, kind) == kinds.end())
      kinds.push_back(std::move(kind));
  return kinds;
}

std::string last_kind(const std::string& names) { return kind_of(names.substr(names.rfind(',') + 1)); }

}  // namespace ferrite::core::runtime
