// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "runtime/package/package.h"

#include <algorithm>
#include <map>

#include "core/support/abi/abi.h"
#include "core/support/byte_fields.h"
#include "core/support/log.h"
#include "runtime/pool.h"

namespace ferrite::core::package {
namespace {

using Bytes = std::span<const std::byte>;

void add_once(std::vector<std::string>& list, const std::string& name) {
  if (std::ranges::find(list, name) == list.end()) list.push_back(name);
}

bool same_port(const runtime::PortInfo& a, const runtime::PortInfo& b) {
  return a.name == b.name && a.dtype == b.dtype && a.dims == b.dims && a.changed == b.changed;
}

/// Whether a program copies to or from a device's memory.
bool copies_to(const runtime::Executable& executable, uint32_t device) {
  for (const auto* launches : {&executable.init, &executable.steps})
    for (const auto& launch : *launches)
      if (launch.copy != runtime::no_copy && launch.device == device) return true;
  return false;
}

/// Distinct devices of these kinds: "npu,npu:1,cpu".
std::string names_of(std::span<const runtime::Target> needs) {
  std::map<std::string_view, uint32_t> counts;
  std::vector<std::string> names;
  for (const auto& need : needs) {
    const uint32_t number = counts[need.kind]++;
    names.push_back(number == 0 ? need.kind : fmt::format("{}:{}", need.kind, number));
  }
  return fmt::format("{}", fmt::join(names, ","));
}

Error refuse(const runtime::Target& need, const std::string& reason) {
  return error(FE_EUNSUPPORTED, "FE-K53", "'{}' ({}): {}", need.kind, need.description, reason);
}

/// The reason why a library is not among those of the device.
std::string why_not_here(const std::string& library, const plugin::Backends& backends) {
  const bool enabled = std::ranges::any_of(
      backends.providers(), [&](const auto& provider) { return abi::view(provider.table->id) == library; });
  return enabled ? fmt::format("the library '{}' that it calls is of no use here; --log plugins says why",
                               library)
                 : fmt::format("no enabled plugin has the library '{}' that it calls", library);
}

Result<void> show(Bytes description) {
  Decoder from(description);
  log::print("plugins", "the package was made by ferrite {}", from.text());
  for (uint64_t left = from.count(); left > 0 && from.ok(); --left) {
    const auto id = from.text(), version = from.text(), hash = from.text();
    log::print("plugins", "the package was made with {} {}, SHA-256 {}", id, version, hash);
  }
  if (!from.done()) return error(FE_EINVALID, "FE-K52", "its description is cut short, or too long");
  return {};
}

}  // namespace

std::vector<std::string> kinds_of(const std::string& path) {
  std::vector<std::string> kinds;
  auto file = graph::MappedFile::open(path);
  if (!file) return kinds;
  // Verify only the sections that are read: this runs before the plugins are loaded, and open() verifies
  // everything.
  const auto container = Container::open(std::move(*file), Check::what_is_read);
  for (uint32_t target = 0; container && container->has(Kind::program, target); ++target) {
    const auto program = container->read(Kind::program, target);
    if (!program) break;
    for (const auto& kind : kinds_in(*program)) add_once(kinds, kind);
  }
  return kinds;
}

Result<std::shared_ptr<const Package>> Package::open(std::shared_ptr<const graph::MappedFile> file) {
  FE_TRY(auto container, Container::open(std::move(file)));
  std::shared_ptr<Package> package(new Package(std::move(container)));
  FE_CHECK(package->read());
  return std::shared_ptr<const Package>(std::move(package));
}

Result<void> Package::read() {
  FE_TRY(const auto description, container_.read(Kind::description, all_targets));
  FE_CHECK(show(description));
  FE_TRY(weights_, container_.in_place(Kind::weights, all_targets));
  // Read target 0 even if it is missing: a package without a program is an error.
  for (uint32_t target = 0; target == 0 || container_.has(Kind::program, target); ++target) {
    FE_TRY(auto bytes, container_.read(Kind::program, target));
    FE_TRY(const auto code_bytes, container_.size(Kind::code, target));
    FE_TRY(const auto program, read_program(bytes, weights_, code_bytes));
    auto& [inputs, outputs] = ports_;
    if (target == 0) ports_ = {program.executable->inputs, program.executable->outputs};
    // Callers bind tensors before a target is chosen, so all programs must have the same ports.
    if (!std::ranges::equal(inputs, program.executable->inputs, same_port) ||
        !std::ranges::equal(outputs, program.executable->outputs, same_port))
      return error(FE_EINVALID, "FE-K52", "its programs have different inputs or outputs");
    for (const auto& need : program.needs) add_once(needs_.kinds, need.kind);
    for (const auto& part : program.parts)
      if (!part.library.empty()) add_once(needs_.libraries, part.library);
    programs_.push_back(std::move(bytes));
  }
  return {};
}

std::vector<ModelPort> model_ports(std::span<const runtime::PortInfo> ports) {
  std::vector<ModelPort> result;
  for (const auto& port : ports)
    result.push_back({port.name, port.dtype, true, port.dims, std::vector<std::string>(port.dims.size())});
  return result;
}

Result<std::vector<std::byte>> Package::graph_bytes() const {
  return container_.read(Kind::graph, all_targets);
}

Result<void> Package::fit(const std::string& names, Read& program, const plugin::Backends& backends) const {
  const auto& needs = program.needs;
  auto& executable = *program.executable;
  if (names == runtime::interpreter_name) return refuse(needs.back(), "the interpreter runs no code");
  auto opened = runtime::open_devices(names.empty() ? names_of(needs) : names, backends);
  if (!opened) return refuse(needs.front(), opened.error().message());
  for (size_t d = 0; d < needs.size(); ++d) {
    if (opened->size() != needs.size() || (*opened)[d]->kind != needs[d].kind)
      return refuse(needs[d],
                    names.empty() ? "its plugin is passed over" : fmt::format("the device is '{}'", names));
    auto& device = *(*opened)[d];
    if (auto reason = device.refusal(needs[d].description); !reason.empty()) return refuse(needs[d], reason);
    // A program compiled without a device copies to and from separate memory. Follow it, even if this device
    // could access the host's.
    if (d + 1 < needs.size() && copies_to(executable, static_cast<uint32_t>(d))) device.host_memory = false;
  }
  for (size_t k = 0; k < program.parts.size(); ++k) {
    const auto& library = program.parts[k].library;
    auto& kernel = executable.kernels[k];
    if (library.empty()) continue;
    const auto& compilers = (*opened)[kernel.device]->compilers;
    const auto found = std::ranges::find(compilers, library, &runtime::Compiler::id);
    if (found == compilers.end() || !found->is_library())
      return refuse(needs[kernel.device], why_not_here(library, backends));
    kernel.library = &*found;
  }
  executable.devices = std::move(*opened);
  return {};
}

Result<Loaded> Package::program(const std::string& names, const plugin::Backends& backends, int64_t threads,
                                const std::shared_ptr<runtime::Allocator>& allocator) const {
  std::vector<std::string> reasons, passed_over;
  for (uint32_t target = 0; target < programs_.size(); ++target) {
    FE_TRY(const auto code_bytes, container_.size(Kind::code, target));
    FE_TRY(auto program, read_program(programs_[target], weights_, code_bytes));
    program.executable->allocator = allocator;
    const auto first = program.needs.front();
    auto fitting = fit(names, program, backends);
    if (fitting) {
      auto loaded = load(target, std::move(program), threads);
      if (loaded) {
        loaded->passed_over = std::move(passed_over);
        return loaded;
      }
      // Try the next target only if this machine cannot run the program; any other error is a real failure.
      if (loaded.error().status != FE_EUNSUPPORTED) return loaded;
      // A library reports here that it cannot open its part of the program.
      fitting = refuse(first, loaded.error().message());
    }
    log::print("plugins", "of the package's targets, {}", fitting.error().text);
    reasons.push_back(std::move(fitting.error().text));
    passed_over.push_back(runtime::text_of({&first, 1}));
  }
  return error(FE_EUNSUPPORTED, "FE-K53", "it was compiled for {}; --recompile compiles its graph anew",
               fmt::join(reasons, "; for "));
}

Result<Loaded> Package::load(uint32_t target, Read program, int64_t threads) const {
  auto& executable = *program.executable;
  FE_TRY(const auto code, container_.read(Kind::code, target));
  std::vector<std::string> blobs;
  for (const Part& part : program.parts)
    blobs.emplace_back(reinterpret_cast<const char*>(code.data()) + part.offset, part.bytes);
  // Constants point into the mapped file: keep it mapped as long as the executable.
  for (auto& constant : executable.constants)
    constant.owned = std::shared_ptr<const std::vector<std::byte>>(container_.file(), nullptr);
  executable.workers = runtime::workers_for(threads, true);
  if (auto loaded = executable.load(blobs); !loaded) {
    // The launches come from the file here, so a mismatch with the code is the file's error.
    if (loaded.error().code != "FE-P67") return std::move(loaded.error());
    return error(FE_EINVALID, "FE-K52", "{}: {}; make it again, or use --recompile", loaded.error().where,
                 loaded.error().text);
  }
  return Loaded{std::move(program.executable),
                program.figures,
                programs_.size() > 1 ? runtime::text_of(program.needs) : std::string(),
                {}};
}

}  // namespace ferrite::core::package
