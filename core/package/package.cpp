// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/package/package.h"

#include <algorithm>
#include <array>
#include <map>

#include "core/graph/flat.h"
#include "core/isolate/wire.h"
#include "core/plugin/library.h"
#include "core/run/pool.h"
#include "core/support/hash.h"
#include "core/support/log.h"

namespace ferrite::core::package {
namespace {

using Bytes = std::span<const std::byte>;
constexpr uint32_t first_target = 0;  // a package has one

/// Weights in the order in which they are first named, equal ones once.
class Weights {
 public:
  uint64_t keep(Bytes bytes) {
    auto [found, added] = offsets_.try_emplace({hash128(bytes), bytes.size()}, end_);
    if (!added) return found->second;
    static constexpr std::array<std::byte, alignment> zeros{};
    pieces_.push_back(bytes);
    const uint64_t padding = (alignment - bytes.size() % alignment) % alignment;
    pieces_.push_back(Bytes(zeros).first(padding));
    end_ += bytes.size() + padding;
    return found->second;
  }
  std::vector<Bytes> pieces() const { return pieces_; }

 private:
  std::map<std::pair<std::string, size_t>, uint64_t> offsets_;
  std::vector<Bytes> pieces_;
  uint64_t end_ = 0;
};

/// Ferrite's version, and the plugins that had a part in it.
Result<std::vector<std::byte>> describe(const plugin::Registry& registry) {
  isolate::Encoder to;
  to.put(std::string_view(FERRITE_VERSION));
  to.put(uint64_t{registry.plugins().size()});
  for (const auto& plugin : registry.plugins()) {
    std::string hash;  // empty for one of rule files only
    if (!plugin->library.empty()) {
      FE_TRY(hash, plugin::hash_library(plugin->library));
    }
    for (const auto& text : {plugin->id, plugin->version, hash}) to.put(std::string_view(text));
  }
  return to.take();
}

Result<void> show(Bytes description) {
  isolate::Decoder from(description);
  log::print("plugins", "the package was made by ferrite {}", from.text());
  for (uint64_t left = from.count(); left > 0 && from.ok(); --left) {
    const auto id = from.text(), version = from.text(), hash = from.text();
    log::print("plugins", "the package was made with {} {}, SHA-256 {}", id, version, hash);
  }
  if (!from.done()) return error(FE_EINVALID, "FE-K52", "its description is cut short, or too long");
  return {};
}

}  // namespace

Result<uint64_t> save(const std::string& path, const Contents& contents) {
  Weights weights;
  const auto keep = [&](Bytes bytes) { return weights.keep(bytes); };
  graph::FlatOptions options;
  options.keep = keep;
  FE_TRY(const auto graph, graph::write_flat(contents.graph, options));
  std::vector<std::byte> code;
  auto program = write_program(contents.executable, contents.executable.code, contents.figures, keep, code);
  if (!program) return at(path, std::move(program.error()));
  FE_TRY(const auto description, describe(contents.registry));
  return write(path, std::array{Section{Kind::description, all_targets, Codec::zstd, {description}},
                                Section{Kind::program, first_target, Codec::zstd, {*program}},
                                Section{Kind::code, first_target, Codec::zstd, {code}},
                                Section{Kind::graph, all_targets, Codec::zstd, {graph.bytes}},
                                Section{Kind::weights, all_targets, Codec::stored, weights.pieces()}});
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
  FE_TRY(program_, container_.read(Kind::program, first_target));
  FE_TRY(code_, container_.read(Kind::code, first_target));
  FE_TRY(const auto program, read_program(program_, weights_, code_.size()));
  inputs_ = program.executable->inputs;
  outputs_ = program.executable->outputs;
  figures_ = program.figures;
  return {};
}

Result<graph::Graph> Package::graph() const {
  FE_TRY(const auto bytes, container_.read(Kind::graph, all_targets));
  FE_TRY(auto read, graph::read_flat(bytes, {weights_, container_.file()}));
  const auto& graph = read.graph;
  // Who runs it gives what the ports of the program say.
  const auto fits = [&](const graph::Input& input, const run::PortInfo& port) {
    const auto& type = graph.type(input.value);
    return type.dtype == port.dtype && std::ranges::equal(type.dims, port.dims);
  };
  if (!std::ranges::equal(graph.inputs(), inputs_, fits) || graph.outputs().size() != outputs_.size())
    return error(FE_EINVALID, "FE-K52", "its graph has other inputs or outputs than its program");
  return std::move(read.graph);
}

Result<run::Devices> Package::devices(const std::string& names, const std::vector<Need>& needs,
                                      const plugin::Registry& registry) const {
  const auto refuse = [](const Need& need, const std::string& reason) {
    return error(FE_EUNSUPPORTED, "FE-K53",
                 "it was compiled for '{}' ({}): {}; --recompile compiles its graph anew", need.kind,
                 need.target, reason);
  };
  if (names == run::interpreter_name) return refuse(needs.back(), "the interpreter runs no code");
  FE_TRY(auto devices, run::open_devices(names, registry));
  for (size_t d = 0; d < needs.size(); ++d) {
    if (devices.size() != needs.size() || devices[d]->kind != needs[d].kind)
      return refuse(needs[d], fmt::format("the device is '{}'", names));
    if (auto reason = devices[d]->refusal(needs[d].target); !reason.empty()) return refuse(needs[d], reason);
  }
  return devices;
}

Result<std::shared_ptr<run::Executable>> Package::program(const std::string& names,
                                                          const plugin::Registry& registry,
                                                          int64_t threads) const {
  FE_TRY(auto program, read_program(program_, weights_, code_.size()));
  auto& executable = *program.executable;
  FE_TRY(executable.devices, devices(names, program.needs, registry));
  std::vector<std::string> blobs;
  for (size_t k = 0; k < program.parts.size(); ++k) {
    const Part& part = program.parts[k];
    blobs.emplace_back(reinterpret_cast<const char*>(code_.data()) + part.offset, part.bytes);
    if (part.library.empty()) continue;
    const auto& compilers = executable.devices[executable.kernels[k].device]->compilers;
    const auto library = std::ranges::find(compilers, part.library, &run::Compiler::id);
    if (library == compilers.end() || !library->is_library())
      return error(FE_EUNSUPPORTED, "FE-K53", "no enabled plugin has the library '{}' that it calls",
                   part.library);
    executable.kernels[k].library = &*library;
  }
  for (auto& constant : executable.constants)
    constant.owned = std::shared_ptr<const std::vector<std::byte>>(container_.file(), nullptr);
  run::Pool::process().grow(threads);
  executable.workers = threads > 0 ? threads : run::Pool::process().workers();
  if (auto loaded = executable.load(blobs); !loaded) {
    // Here it is the file that says what the code's launches are.
    if (loaded.error().code != "FE-P67") return std::move(loaded.error());
    return error(FE_EINVALID, "FE-K52", "{}: {}; make it again, or use --recompile", loaded.error().where,
                 loaded.error().text);
  }
  return std::move(program.executable);
}

}  // namespace ferrite::core::package
