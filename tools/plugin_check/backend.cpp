// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "tools/plugin_check/backend.h"

#include <xxhash.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <optional>

#include "core/select/placement.h"
#include "core/support/abi/abi.h"
#include "ferrite/counted.hpp"
#include "runtime/plugin/serialised_calls.h"
#include "runtime/target/capability.h"
#include "tools/plugin_check/streams.h"
#include "tools/plugin_check/subject.h"

namespace ferrite::core::plugin_check {
namespace {

constexpr uint64_t one_in = 10;
constexpr int64_t small_bytes = 4096;
constexpr uint64_t too_many_bytes = uint64_t{1} << 60;

uint64_t hash_of(const KernelCell& cell, const KernelCase& kernel) {
  const auto text = fmt::format("{} {} {}", cell.name, ferrite::name_of(cell.dtype), kernel.name);
  return XXH3_64bits(text.data(), text.size());
}

/// One case in ten by hash, and at least one.
std::vector<KernelCase> sampled(const KernelCell& cell, bool all) {
  auto cases = cases_of(cell);
  if (all || cases.empty()) return cases;
  const auto least = std::min_element(cases.begin(), cases.end(), [&](const auto& a, const auto& b) {
    return hash_of(cell, a) < hash_of(cell, b);
  });
  const std::string kept = least->name;
  std::erase_if(cases, [&](const auto& each) {
    return !each.always && each.name != kept && hash_of(cell, each) % one_in != 0;
  });
  return cases;
}

/// The table while it is filled. A name's cells count as failed until all of its cases are done, so that a
/// case that kills the process leaves them failed.
class Table {
 public:
  Table(std::string path, runtime::CapabilityTable table, bool resumed)
      : path_(std::move(path)), table_(std::move(table)) {
    if (path_.empty() || !resumed) return;
    auto before = runtime::CapabilityTable::read(path_);
    if (before && before->target == table_.target) table_ = std::move(*before);
  }
  Result<void> set(const std::string& name, const std::map<DType, runtime::Verdict>& verdicts) {
    if (path_.empty()) return {};
    for (const auto& [dtype, verdict] : verdicts) table_.cells[{name, dtype}] = verdict;
    return table_.write(path_);
  }

 private:
  std::string path_;
  runtime::CapabilityTable table_;
};

struct Backend {
  const fe_provider* provider = nullptr;
  const fe_runtime* runtime = nullptr;
  std::string kind;
  bool own_runtime = false;  ///< the runtime belongs to the checked plugin
};

std::vector<Backend> backends_of(const Subject& subject) {
  std::vector<Backend> result;
  for (const auto& provider : subject.registry().providers())
    for (const auto& runtime : subject.registry().runtimes()) {
      if (provider.plugin != &subject.plugin() && runtime.plugin != &subject.plugin()) continue;
      if (abi::view(provider.table->device_kind) != abi::view(runtime.table->id)) continue;
      result.push_back({provider.table, runtime.table, abi::string(runtime.table->id),
                        runtime.plugin == &subject.plugin()});
    }
  return result;
}

Result<std::string> fingerprint_of(const fe_provider& provider) {
  if (!provider.fingerprint) return std::string();
  abi::Collector<> text;
  abi::Call call;
  const auto none = abi::sized<fe_none>();
  auto sink = text.sink();
  const int32_t status = plugin::invoke(provider, provider.fingerprint, call, &none, &sink);
  if (status != FE_OK) return call.error(status, "FE-P52", "the provider gives no fingerprint");
  return text.bytes();
}

Verdict check_device(const fe_provider& provider, const runtime::Device& device) {
  FE_TRY(const auto first, fingerprint_of(provider));
  FE_TRY(const auto second, fingerprint_of(provider));
  if (first.empty())
    return error(FE_EINVALID, "FE-P52",
                 "the provider has no fingerprint: code of another version of it would be taken for its own");
  if (first != second) return error(FE_EINVALID, "FE-P52", "the provider's fingerprint differs each time");
  return Verdict::passed(device.name);
}

struct Allocation {
  int32_t status = FE_OK;
  void* data = nullptr;
};
Allocation allocate(const runtime::Device& device, uint64_t bytes) {
  abi::Call call;
  auto args = abi::sized<fe_alloc_args>();
  args.device = device.number;
  args.bytes = bytes;
  auto out = abi::sized<fe_alloc_out>();
  Allocation result;
  result.status = plugin::invoke(*device.runtime, device.runtime->alloc, call, &args, &out);
  result.data = out.data;
  return result;
}
void release(const runtime::Device& device, void* data) {
  if (!data || !device.runtime->free) return;
  abi::Call call;
  auto args = abi::sized<fe_free_args>();
  args.device = device.number;
  args.data = data;
  auto out = abi::sized<fe_none>();
  plugin::invoke(*device.runtime, device.runtime->free, call, &args, &out);
}

Verdict check_memory(const runtime::Device& device) {
  abi::Collector<> description, name;
  abi::Call call;
  auto args = abi::sized<fe_device_args>();
  args.device = device.number;
  auto described = abi::sized<fe_describe_out>();
  described.description = description.sink();
  described.name = name.sink();
  const int32_t status = plugin::invoke(*device.runtime, device.runtime->describe, call, &args, &described);
  if (status != FE_OK) return call.error(status, "FE-P52", "the device cannot be described");
  const uint64_t alignment = std::max<uint64_t>(described.alignment, 1);
  for (uint64_t bytes : {uint64_t{1}, uint64_t{100}, uint64_t{small_bytes}}) {
    const auto small = allocate(device, bytes);
    if (small.status != FE_OK || !small.data)
      return error(FE_EINVALID, "FE-P52", "{} bytes of memory cannot be allocated", bytes);
    const bool aligned = reinterpret_cast<uintptr_t>(small.data) % alignment == 0;
    release(device, small.data);
    if (!aligned)
      return error(FE_EINVALID, "FE-P52",
                   "memory of {} bytes is not aligned to {} as the device's description says", bytes,
                   alignment);
  }
  const auto large = allocate(device, too_many_bytes);
  if (large.status == FE_OK && large.data) {
    release(device, large.data);
    return error(FE_EINVALID, "FE-P52", "2^60 bytes of memory are allocated, which is impossible");
  }
  const auto after = allocate(device, small_bytes);
  if (after.status != FE_OK || !after.data)
    return error(FE_EINVALID, "FE-P52", "after memory ran out once, {} bytes cannot be allocated",
                 small_bytes);
  release(device, after.data);
  return {};
}

/// Runs all samples of a name; the verdict of each of its cells goes to the table.
Verdict check_name(const std::string& name, const runtime::Devices& devices, const CheckOptions& options,
                   Table& table, const Runner& runner) {
  std::map<DType, runtime::Verdict> verdicts;
  for (const DType dtype : types_of(name))
    if (!cases_of({name, dtype}).empty()) verdicts[dtype] = runtime::Verdict::failed;
  FE_CHECK(table.set(name, verdicts));
  size_t cases = 0, failed = 0, passed = 0, taken = 0;
  double worst = 0;
  std::optional<Error> first;
  std::vector<std::string> declined;
  std::string reason;
  for (auto& [dtype, verdict] : verdicts) {
    const KernelCell cell{name, dtype};
    verdict = runtime::Verdict::passed;
    size_t of_cell = 0, declined_here = 0;
    for (const auto& kernel : sampled(cell, options.all)) {
      const auto result = run_case(kernel, devices, options.seed ^ hash_of(cell, kernel));
      runner.goes_on();
      ++cases;
      ++of_cell;
      if (!result) {
        verdict = runtime::Verdict::failed;
        ++failed;
        if (!first)
          first = error(FE_EINVALID, "FE-P52", "{} {}, {}: {}", name, ferrite::name_of(dtype), kernel.name,
                        result.error().code == "FE-P52" ? result.error().text : result.error().message());
        continue;
      }
      worst = std::max(worst, result->ulp);
      if (!result->declined) {
        ++taken;
        continue;
      }
      ++declined_here;
      reason = result->reason;
    }
    // A cell is declined only if all of its cases are. For other cells, the provider is asked kernel by
    // kernel, and the kernels that it declines go to another device.
    if (declined_here == of_cell && of_cell > 0) verdict = runtime::Verdict::declined;
    passed += verdict == runtime::Verdict::passed;
    if (declined_here > 0)
      declined.push_back(
          fmt::format("{} ({} of {})", ferrite::name_of(dtype), declined_here, counted(of_cell, "case")));
  }
  FE_CHECK(table.set(name, verdicts));
  if (first) {
    if (failed > 1) first->text += fmt::format("; {} of {} cases are wrong", failed, cases);
    return *first;
  }
  if (passed == 0) return Verdict::skipped(fmt::format("declined: {}", reason));
  auto text = fmt::format("{}, {}", counted(taken, "case"), counted(passed, "element type"));
  if (worst > 0) text += fmt::format(", at most {:.2g} ulp", worst);
  if (!declined.empty()) text += fmt::format("; declined for {}: {}", fmt::join(declined, ", "), reason);
  return Verdict::passed(std::move(text));
}

Verdict check_repeatable(const runtime::Devices& devices) {
  size_t compared = 0;
  for (const auto& name : kernel_names()) {
    const auto cases = cases_of({name, f32});
    if (cases.empty() || cases.front().out_of_range) continue;
    FE_TRY(const auto schedule, schedule_of(cases.front(), devices));
    std::array<std::string, 2> texts;
    bool declined = false;
    for (auto& text : texts) {
      Ledger ledger;
      select::CandidateBlocklist none;
      const auto placement = select::assign_groups(schedule, devices, none, ledger);
      link::Builder builder(schedule, devices, placement, {}, {1, 1, false}, none, ledger);
      auto selected = builder.select();
      declined = declined || !selected;
      if (!selected) break;
      builder.plan();
      text = builder.text();
    }
    if (declined) continue;
    ++compared;
    if (texts[0] != texts[1])
      return error(FE_EINVALID, "FE-P52",
                   "the provider proposes another candidate for the same kernel ({}, {})", name,
                   cases.front().name);
  }
  if (compared == 0) return Verdict::skipped("every kernel is declined");
  return Verdict::passed(counted(compared, "kernel"));
}

/// Runs the conformance list, which also fills the table of capabilities. Providers of regions and of
/// libraries are checked on whole programs instead (check_programs).
void check_kernels(const Backend& backend, const std::string& prefix,
                   const std::shared_ptr<runtime::Device>& device, const CheckOptions& options,
                   const Subject& subject, Runner& runner) {
  const auto* compiler = device->compiler(*backend.provider);
  if (compiler && (compiler->slots.claim || compiler->is_library())) return;
  if (!compiler || compiler != device->generators().data()) {
    runner.run_needed(prefix + "kernels", [&] {
      return Verdict::skipped(compiler ? "another plugin's provider compiles for this device"
                                       : "the provider cannot compile for this device");
    });
    return;
  }
  runtime::CapabilityTable empty;
  empty.provider = compiler->id;
  empty.plugin = fmt::format("{} {}", subject.plugin().id, subject.plugin().version);
  empty.target = compiler->target_key;
  std::error_code none;
  const auto path = std::filesystem::is_directory(options.capabilities, none)
                        ? (std::filesystem::path(options.capabilities) / empty.file_name()).string()
                        : options.capabilities;
  Table table(path, std::move(empty), runner.resumed());
  for (const auto& name : kernel_names())
    runner.run(prefix + name, [&] { return check_name(name, {device}, options, table, runner); });
  runner.run(prefix + "same candidates each time", [&] { return check_repeatable({device}); });
}

}  // namespace

void check_backends(const CheckOptions& options, const Subject& subject, Runner& runner) {
  const auto backends = backends_of(subject);
  for (const auto& provider : subject.registry().providers())
    if (provider.plugin == &subject.plugin() &&
        std::none_of(backends.begin(), backends.end(),
                     [&](const Backend& b) { return b.provider == provider.table; }))
      runner.run(fmt::format("provider {}", abi::view(provider.table->id)), [&] {
        return Verdict::skipped(fmt::format("no runtime '{}' is loaded to launch its kernels",
                                            abi::view(provider.table->device_kind)));
      });
  for (const auto& backend : backends) {
    // On another plugin's device, the plugin provides the code only, so the check is named after the
    // provider.
    const std::string prefix = backend.own_runtime
                                   ? fmt::format("backend {}: ", backend.kind)
                                   : fmt::format("provider {}: ", abi::view(backend.provider->id));
    const auto device = runtime::Device::open(backend.kind, subject.registry());
    runner.run_needed(prefix + "device", [&]() -> Verdict {
      if (!device) return Verdict::skipped(device.error().message());
      return check_device(*backend.provider, **device);
    });
    if (!device) continue;
    if (backend.own_runtime) {
      runner.run(prefix + "memory", [&] { return check_memory(**device); });
      runner.run(prefix + "streams", [&] { return check_streams(**device); });
      runner.run(prefix + "launch graphs", [&] { return check_recordings(**device); });
    }
    check_kernels(backend, prefix, *device, options, subject, runner);
  }
  if (!options.capabilities.empty() && backends.empty())
    runner.run("capabilities", [] {
      return Verdict::skipped("the plugin has no provider and runtime to measure, and no table is written");
    });
  check_programs(options, subject, runner);
}

}  // namespace ferrite::core::plugin_check
