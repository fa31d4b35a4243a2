// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "checking.h"

#include <unistd.h>

#include <cmath>
#include <cstring>
#include <regex>

#include "core/ir/text/parse_graph.h"
#include "core/observe/observation.h"
#include "core/schedule/memory/kernel_order.h"

namespace ferrite::random_graphs {
namespace {

/// "" or what is wrong with one tensor.
std::string difference(const std::string& what, DType dtype, const Dims& dims, const Bytes& actual,
                       const Bytes& expected, double absolute) {
  const auto width = static_cast<size_t>(bits_of(dtype) / 8);
  const auto count = static_cast<int64_t>(expected.size() / width);
  const double relative = relative_tolerance(dtype);
  int64_t wrong = 0, worst = 0;
  double excess = -1, allowed = 0;
  for (int64_t k = 0; k < count; ++k) {
    const double a = number_at(dtype, actual.data(), k), b = number_at(dtype, expected.data(), k);
    const auto at = static_cast<size_t>(k) * width;
    double off = 0;
    if (!is_float(dtype)) {
      // Bits, because a double does not hold every i64.
      if (std::memcmp(actual.data() + at, expected.data() + at, width) != 0) off = HUGE_VAL;
    } else if (!(a == b || (std::isnan(a) && std::isnan(b)))) {
      const double tolerance = absolute + relative * std::fabs(b);
      off = std::fabs(a - b);
      if (std::isfinite(a) && std::isfinite(b) && off <= tolerance) off = 0;
      if (std::isnan(off)) off = HUGE_VAL;
    }
    if (off == 0) continue;
    ++wrong;
    if (off > excess) worst = k, excess = off, allowed = absolute + relative * std::fabs(b);
  }
  if (wrong == 0) return {};
  return fmt::format("{} {}[{}]: {} of {} elements are off, the worst at {}: {}, expected {} (bound {:.3g})",
                     what, name_of(dtype), fmt::join(dims, ","), wrong, count, worst,
                     number_at(dtype, actual.data(), worst), number_at(dtype, expected.data(), worst),
                     allowed);
}

struct Results {
  std::vector<core::runtime::PortInfo> ports;
  std::vector<Bytes> tensors;
  std::vector<Bytes> inputs;  ///< as the run left them
};

core::Result<core::Compilation> compile(const core::Session& session, const GeneratedGraph& graph,
                                        const core::CompileOptions& options, core::Ledger& ledger) {
  core::graph::ParseOptions parse;
  parse.registry = &session.registry().ops();
  FE_TRY(auto parsed, core::graph::parse(graph.text, parse));
  return core::compile(std::move(parsed), session.registry(), options, ledger);
}

core::Result<Results> evaluate(const core::Session& session, const GeneratedGraph& graph,
                               std::vector<Bytes> inputs, const core::CompileOptions& options) {
  core::Program program;
  FE_TRY(program.compilation, compile(session, graph, options, program.ledger));
  Results results;
  results.ports = program.outputs();
  std::vector<const void*> in;
  std::vector<void*> out;
  for (const auto& input : inputs) in.push_back(input.data());
  for (const auto& port : results.ports) {
    // Whatever is not written shows.
    results.tensors.emplace_back(static_cast<size_t>(port.bytes), std::byte{0xFF});
  }
  for (auto& tensor : results.tensors) out.push_back(tensor.data());
  std::unique_ptr<core::runtime::Executable::Context> context;
  if (program.compilation.executable) {
    context = std::make_unique<core::runtime::Executable::Context>(*program.compilation.executable);
    FE_CHECK(context->fill_arenas(std::byte{0xFF}));  // NaN
  }
  FE_CHECK(program.run(context.get(), in, out));
  if (context) {
    FE_TRY(const auto beside, context->written_beside(std::byte{0xFF}));
    if (!beside.empty()) return core::error(FE_EINVALID, "FE-P52", "{}", beside);
  }
  results.inputs = std::move(inputs);
  return results;
}

/// What is wrong with a plan of memory, whatever the numbers of the target are; empty where nothing is.
std::string excess_of(const core::observe::Observation& seen, const GeneratedGraph& graph, bool has_red_zones,
                      bool has_own_rates) {
  if (!seen.op_by_op_bytes) return {};
  int64_t most_live = 0, buffers = 0, workers = 1, packed = 0;
  for (const auto& one : seen.memory) {
    buffers += one.workers == 0 ? 1 : 0;
    if (one.packed) packed = std::max(packed, one.bytes);
    workers = std::max(workers, one.workers);
    int64_t live = 0;
    for (const auto& other : seen.memory)
      if (other.workers == 0 && !other.packed && other.first <= one.first && one.first <= other.last)
        live += other.bytes;
    most_live = std::max(most_live, live);
  }
  // Without workspaces there is no more than op by op, but for what buffers are aligned to, 1 KiB, and a 64th
  // of what is read for parts of reductions.
  int64_t read = *seen.op_by_op_bytes;
  for (const auto& input : graph.inputs) {
    int64_t elements = 1;
    for (const int64_t dim : input.dims) elements *= dim;
    read += 4 * elements;
  }
  const int64_t most = *seen.op_by_op_bytes + 64 * buffers + 1024 + read / 64;
  // Where rates are not the target's own, what is fused may keep more; what is planned stays within the limit
  // all the same.
  if (has_own_rates && most_live > most)
    return fmt::format("{} bytes live, {} op by op", most_live, *seen.op_by_op_bytes);
  const auto limit =
      core::schedule::MemoryLimit{seen.op_by_op_bytes, workers}.bytes(static_cast<size_t>(buffers));
  // An operand that is packed before a launch may be in the plan beyond the limit.
  if (!has_red_zones && seen.arena_bytes > limit + packed)
    return fmt::format("{} bytes planned, at most {} are to be", seen.arena_bytes, limit);
  return {};
}

}  // namespace

std::vector<Bytes> inputs_of(const GeneratedGraph& graph, uint64_t seed) {
  std::vector<Bytes> inputs;
  for (size_t k = 0; k < graph.inputs.size(); ++k)
    inputs.push_back(contents_of(graph.inputs[k], seed * 64 + k));
  return inputs;
}

bool tell(int progress, char mark) { return write(progress, &mark, 1) == 1; }

std::string schedule_name(Feature without) {
  return fmt::format("schedule without {}", core::schedule::name_of(without));
}

namespace {

/// Makes the schedule with all features and without each that is not idle, and no kernels. Writes the letters
/// of these features and the marks to `progress`.
Fault compare_schedules(const core::Session& session, const Here& here, const GeneratedGraph& graph,
                        core::CompileOptions compiled, int progress) {
  compiled.to = "schedule";
  const auto schedule_without = [&](Features without) -> core::Result<std::string> {
    compiled.without = without;
    core::Ledger ledger;
    FE_TRY(const auto compilation, compile(session, graph, compiled, ledger));
    return compilation.text();
  };
  if (!tell(progress, whole_schedule)) return {"the parent is gone", {}};
  const auto whole = schedule_without({});
  if (!whole) return {fmt::format("{}: {}", whole_name, whole.error().message()), {}};
  for (size_t k = 0; k < feature_count; ++k) {
    const auto feature = static_cast<Feature>(k);
    if (here.idle.has(feature)) continue;
    if (!tell(progress, static_cast<char>(first_feature + k))) return {"the parent is gone", only(feature)};
    const auto without = schedule_without(only(feature));
    if (!without)
      return {fmt::format("{}: {}", schedule_name(feature), without.error().message()), only(feature)};
    if (*without != *whole && !tell(progress, another_schedule)) return {"the parent is gone", only(feature)};
  }
  return {};
}

/// A text without the numbers of nodes, which are those of the graph that was read.
std::string without_node_numbers(const std::string& text) {
  static const std::regex number(" %[0-9]+(?=[,)])");
  std::string result;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const auto line = text.substr(begin, end - begin);
    result += line.find(" from ") == std::string::npos ? line : std::regex_replace(line, number, "");
    result += '\n';
    begin = end + 1;
  }
  return result;
}

/// Goes on from the text of each stage to the schedule, and from the schedule's text to the kernels, as the
/// whole way has them.
Fault check_stages(const core::Session& session, const GeneratedGraph& graph, core::CompileOptions compiled) {
  const auto text_to = [&](std::string_view stage) -> core::Result<std::string> {
    compiled.from.clear();
    compiled.to = stage;
    core::Ledger ledger;
    FE_TRY(const auto compilation, compile(session, graph, compiled, ledger));
    return compilation.text();
  };
  const auto text_from = [&](const std::string& text, std::string_view from,
                             std::string_view to) -> core::Result<std::string> {
    core::graph::ParseOptions parse;
    parse.registry = &session.registry().ops();
    FE_TRY(auto source, core::parse_source(text, parse));
    compiled.from = from;
    compiled.to = to;
    core::Ledger ledger;
    FE_TRY(const auto compilation, core::compile(std::move(source), session.registry(), compiled, ledger));
    return compilation.text();
  };
  const auto stages = core::stages();
  for (size_t k = 0; stages[k] != "emit"; ++k) {
    const auto end = stages[k] == "schedule" ? "emit" : "schedule";
    const auto fault = [&](const std::string& text) {
      return Fault{
          fmt::format("the text of '{}', from '{}' to '{}': {}", stages[k], stages[k + 1], end, text), {}};
    };
    const auto expected = text_to(end), text = text_to(stages[k]);
    if (!expected || !text) return fault((expected ? text : expected).error().message());
    const auto actual = text_from(*text, stages[k + 1], end);
    if (!actual) return fault(actual.error().message());
    const auto x = without_node_numbers(*actual), y = without_node_numbers(*expected);
    if (x == y) continue;
    const auto first = static_cast<size_t>(std::ranges::mismatch(x, y).in1 - x.begin());
    const auto line = [&](const std::string& all) {
      const size_t begin = first == 0 ? 0 : all.rfind('\n', first - 1) + 1;
      return all.substr(begin, all.find('\n', first) - begin);
    };
    return fault(fmt::format("gives\n  {}\nwhere the whole way gives\n  {}", line(x), line(y)));
  }
  return {};
}

}  // namespace

Fault check(const core::Session& session, const Here& here, const GeneratedGraph& graph, uint64_t seed,
            int progress, const Options& options) {
  if (options.stages) {
    auto compiled = options_for(here, seed, options);
    if (!compiled) return {compiled.error().message(), {}};
    return check_stages(session, graph, *std::move(compiled));
  }
  const auto inputs = inputs_of(graph, seed);
  core::CompileOptions reference;
  reference.device = "interpreter";
  reference.only_passes = {"none"};
  auto expected = evaluate(session, graph, inputs, reference);
  if (!expected) return {"reference: " + expected.error().message(), options.without};
  auto compiled = options_for(here, seed, options);
  if (!compiled) return {compiled.error().message(), options.without};
  char letter = first_variant;
  for (const auto& without : variants(seed, options)) {
    if (!tell(progress, letter++)) return {"the parent is gone", without};
    compiled->without = without;
    core::observe::Observation seen;
    compiled->observation = &seen;
    const auto fault = [&](const std::string& text) {
      return Fault{fmt::format("{}: {}", name_of(without, options), text), without};
    };
    auto actual = evaluate(session, graph, inputs, *compiled);
    compiled->observation = nullptr;
    if (!actual) return fault(actual.error().message());
    // In the memory of another device there are copies of inputs and results, too, which nothing op by op is
    // counted for.
    if (without == Features() && !options.policy && !options.pad && options.device == "cpu")
      if (auto excess = excess_of(seen, graph, compiled->red_zones, numbers_for(seed).bandwidth == 0);
          !excess.empty())
        return fault(excess);
    for (size_t k = 0; k < expected->ports.size(); ++k) {
      const auto& port = expected->ports[k];
      auto text = difference("output " + port.name, port.dtype, port.dims, actual->tensors[k],
                             expected->tensors[k], graph.absolute[k]);
      if (!text.empty()) return fault(text);
    }
    // What is not to change has not changed either.
    for (size_t k = 0; k < graph.inputs.size(); ++k) {
      const auto& input = graph.inputs[k];
      auto text = difference("input " + input.name, input.dtype, input.dims, actual->inputs[k],
                             expected->inputs[k], input.absolute);
      if (!text.empty()) return fault(text);
    }
  }
  if (here.devices.empty() || options.without != Features()) return {};
  return compare_schedules(session, here, graph, *std::move(compiled), progress);
}

}  // namespace ferrite::random_graphs
