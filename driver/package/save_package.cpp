// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "driver/package/save_package.h"

#include <algorithm>
#include <array>
#include <map>
#include <vector>

#include "core/ir/flat/flat_graph.h"
#include "core/support/byte_fields.h"
#include "core/support/hash.h"
#include "runtime/package/container.h"
#include "runtime/plugin/plugin_library.h"

namespace ferrite::core::package {
namespace {

using Bytes = std::span<const std::byte>;

/// Weights in the order of their first use; equal ones are stored once.
class Weights {
 public:
  uint64_t keep(Bytes bytes) {
    auto [found, added] = offsets_.try_emplace({hash128(bytes), bytes.size()}, end_);
    if (!added) return found->second;
    static constexpr std::array<std::byte, alignment> zeros{};
    chunks_.push_back(bytes);
    const uint64_t padding = (alignment - bytes.size() % alignment) % alignment;
    chunks_.push_back(Bytes(zeros).first(padding));
    end_ += bytes.size() + padding;
    return found->second;
  }
  std::vector<Bytes> chunks() const { return chunks_; }

 private:
  std::map<std::pair<std::string, size_t>, uint64_t> offsets_;
  std::vector<Bytes> chunks_;
  uint64_t end_ = 0;
};

/// Describes Ferrite's version and the plugins that took part. `hashes`: those of their libraries, too.
Result<std::vector<std::byte>> describe(const plugin::Registry& registry, bool hashes) {
  Encoder to;
  to.put(std::string_view(FERRITE_VERSION));
  to.put(uint64_t{registry.plugins().size()});
  for (const auto& plugin : registry.plugins()) {
    std::string hash;  // empty for a plugin of rule files only
    if (hashes && !plugin->library.empty()) {
      FE_TRY(hash, plugin::hash_library(plugin->library));
    }
    for (const auto& text : {plugin->id, plugin->version, hash}) to.put(std::string_view(text));
  }
  return to.take();
}

/// `place`: of errors.
Result<uint64_t> save(const Contents& contents, bool hashes, const std::string& place, const Sink& sink) {
  Weights weights;
  const auto keep = [&](Bytes bytes) { return weights.keep(bytes); };
  graph::FlatOptions options;
  options.keep = keep;
  FE_TRY(const auto graph, graph::write_flat(contents.graph, options));
  std::vector<std::vector<std::byte>> programs, codes(contents.programs.size());
  for (size_t k = 0; k < codes.size(); ++k) {
    const auto& [executable, figures] = contents.programs[k];
    auto program = write_program(executable, executable.code, figures, keep, codes[k]);
    if (!program) return at(place, std::move(program.error()));
    programs.push_back(std::move(*program));
  }
  FE_TRY(const auto description, describe(contents.registry, hashes));
  std::vector<Section> sections = {{Kind::description, all_targets, Codec::zstd, {description}}};
  for (uint32_t k = 0; k < programs.size(); ++k) {
    sections.push_back({Kind::program, k, Codec::zstd, {programs[k]}});
    sections.push_back({Kind::code, k, Codec::zstd, {codes[k]}});
  }
  sections.push_back({Kind::graph, all_targets, Codec::zstd, {graph.bytes}});
  sections.push_back({Kind::weights, all_targets, Codec::stored, weights.chunks()});
  auto written = write(sections, sink);
  if (!written) return at(place, std::move(written.error()));
  return written;
}

}  // namespace

Result<uint64_t> save(const std::string& path, const Contents& contents) {
  return save(contents, true, path, [&](std::span<const Bytes> chunks) { return write_file(path, chunks); });
}

Result<std::vector<std::byte>> bytes_of(const Contents& contents) {
  std::vector<std::byte> bytes;
  FE_TRY([[maybe_unused]] const auto size,
         save(contents, false, {}, [&](std::span<const Bytes> chunks) -> Result<void> {
           for (const Bytes chunk : chunks) bytes.insert(bytes.end(), chunk.begin(), chunk.end());
           return {};
         }));
  return bytes;
}

Result<graph::Graph> graph_of(const Package& package) {
  FE_TRY(const auto bytes, package.graph_bytes());
  FE_TRY(auto read, graph::read_flat(bytes, {package.weights(), package.file()}));
  const auto& graph = read.graph;
  // Users see the ports of the program, so the graph must have the same ones.
  const auto fits = [&](const graph::Input& input, const runtime::PortInfo& port) {
    const auto& type = graph.type(input.value);
    return type.dtype == port.dtype && std::ranges::equal(type.dims, port.dims);
  };
  if (!std::ranges::equal(graph.inputs(), package.inputs(), fits) ||
      graph.outputs().size() != package.outputs().size())
    return error(FE_EINVALID, "FE-K52", "its graph has other inputs or outputs than its program");
  return std::move(read.graph);
}

}  // namespace ferrite::core::package
