// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// L2 of creation, importers and backends.
#include <algorithm>
#include <deque>
#include <filesystem>
#include <optional>

#include "core/ir/graph/api.h"
#include "core/ir/graph/infer.h"
#include "core/ir/graph/print.h"
#include "core/ir/kernel/flatten.h"
#include "core/lower/lower.h"
#include "core/plugin/import_ops.h"
#include "core/select/pack.h"
#include "core/select/propose.h"
#include "driver/validate/samples/tensors.h"
#include "ferrite/counted.hpp"
#include "runtime/host.h"
#include "runtime/plugin/serialised_calls.h"
#include "tools/plugin_check/backend.h"
#include "tools/plugin_check/hostile.h"
#include "tools/plugin_check/subject.h"

namespace ferrite::core::plugin_check {
namespace {

constexpr size_t most_refused_by_part = 32;
constexpr size_t cuts = 24, flips = 48;  // of a file or a kernel
constexpr uint64_t most_file_bytes = 4 << 20;

void wrap_all(Refusing<fe_host>& table) {
  table.wrap<&fe_host::log>();
  table.wrap<&fe_host::parallel_for>();
  table.wrap<&fe_host::workers>();
}

/// Creates an instance and destroys it again; returns the kinds of its contributions, in order.
Result<std::string> create_and_destroy(const fe_plugin_v0& plugin,
                                       const std::vector<graph::Attribute>& config, Treatment& treatment) {
  const auto host = plugin::make_host();
  Refusing<fe_host> refusing(*host, treatment.refused);
  wrap_all(refusing);
  Enlarged<fe_host> larger_host(*refusing.get());
  std::deque<std::vector<fe_string>> strings;
  std::vector<fe_attr> settings;
  for (const auto& setting : config) settings.push_back(graph::view_of(setting, strings.emplace_back()));
  EnlargedArray<fe_attr> larger_settings(abi::array(settings));
  auto args = abi::sized<fe_create_args>();
  args.host = treatment.larger ? larger_host.get() : refusing.get();
  args.config = treatment.larger ? larger_settings.get() : abi::array(settings);
  auto out = abi::sized<fe_create_out>();
  Enlarged<fe_create_args> larger_args(args);
  Enlarged<fe_create_out> larger_out(out);
  abi::Call call;
  const int32_t status = plugin.create(plugin.self, call.get(), treatment.larger ? larger_args.get() : &args,
                                       treatment.larger ? larger_out.get() : &out);
  treatment.calls = refusing.calls();
  treatment.intact = larger_args.intact() && larger_out.intact() && larger_host.intact();
  if (status != FE_OK) return call.error(status, "FE-P06", "the plugin could not be created");
  if (treatment.larger) out = abi::read(larger_out.get());
  std::string text;
  for (uint64_t k = 0; k < out.contributions.count; ++k)
    text += fmt::format("{} ", abi::element<fe_contribution>(out.contributions, k).kind);
  if (!plugin.destroy || !out.instance) return text;
  auto gone = abi::sized<fe_destroy_args>();
  gone.instance = out.instance;
  Enlarged<fe_destroy_args> larger_gone(gone);
  auto none = abi::sized<fe_none>();
  abi::Call destroy_call;
  const int32_t destroyed =
      plugin.destroy(plugin.self, destroy_call.get(), treatment.larger ? larger_gone.get() : &gone, &none);
  if (destroyed != FE_OK) return destroy_call.error(destroyed, "FE-P45", "the plugin could not be destroyed");
  return text;
}

/// Imports a model and returns its graph as text, with the importer called as `treatment` says.
Result<std::string> import(const fe_importer& importer, const std::string& path,
                           std::span<const std::byte> bytes, const plugin::Registry& registry,
                           Treatment& treatment) {
  abi::Call call;
  auto opening = abi::sized<fe_model_open_args>();
  opening.path = abi::string(std::string_view(path));
  opening.bytes = {bytes.data(), bytes.size(), 1};
  auto opened = abi::sized<fe_model_open_out>();
  Enlarged<fe_model_open_args> larger_opening(opening);
  Enlarged<fe_model_open_out> larger_opened(opened);
  int32_t status =
      plugin::invoke(importer, importer.model_open, call, treatment.larger ? larger_opening.get() : &opening,
                     treatment.larger ? larger_opened.get() : &opened);
  if (status != FE_OK) return call.error(status, "FE-I03", "the importer could not read the model");
  auto model = abi::sized<fe_model_args>();
  model.model = treatment.larger ? larger_opened.get()->model : opened.model;
  Enlarged<fe_model_args> larger_model(model);
  const auto close = [&] {
    abi::Call closing;
    auto none = abi::sized<fe_none>();
    if (importer.model_close)
      plugin::invoke(importer, importer.model_close, closing, treatment.larger ? larger_model.get() : &model,
                     &none);
  };
  auto signature = abi::sized<fe_signature_out>();
  Enlarged<fe_signature_out> larger_signature(signature);
  status = plugin::invoke(importer, importer.signature, call, treatment.larger ? larger_model.get() : &model,
                          treatment.larger ? larger_signature.get() : &signature);
  if (status != FE_OK) {
    close();
    return call.error(status, "FE-I03", "the model's signature could not be read");
  }
  if (treatment.larger) signature = abi::read(larger_signature.get());
  std::vector<fe_tensor_type> types;
  std::deque<std::vector<int64_t>> dims;
  for (uint64_t k = 0; k < signature.inputs.count; ++k) {
    const auto port = abi::element<fe_port>(signature.inputs, k);
    auto& sizes = dims.emplace_back();
    for (uint32_t d = 0; port.rank != FE_NONE32 && d < port.rank; ++d)
      sizes.push_back(port.dims[d] < 0 ? 1 : port.dims[d]);
    auto type = abi::sized<fe_tensor_type>();
    type.dtype = port.dtype;
    type.rank = static_cast<uint32_t>(sizes.size());
    type.dims = sizes.data();
    types.push_back(type);
  }
  graph::Graph graph("model", std::filesystem::path(path).parent_path().string());
  lower::Evaluator evaluator(registry);
  graph::GraphApi api(graph, registry.ops());
  api.set_evaluate([&](graph::Graph& g, graph::ValueId value) { return evaluator.evaluate(g, value); });
  Refusing<fe_graph_api> refusing(*api.api(), treatment.refused);
  plugin_check::wrap_all(refusing);
  Enlarged<fe_graph_api> table(*refusing.get());
  EnlargedArray<fe_tensor_type> larger_types(abi::array(types));
  auto building = abi::sized<fe_build_args>();
  building.model = model.model;
  building.graph = treatment.larger ? table.get() : refusing.get();
  building.input_types = treatment.larger ? larger_types.get() : abi::array(types);
  plugin::ImportOps plugins(registry, api);
  building.plugins = plugins.api();
  Enlarged<fe_build_args> larger_building(building);
  auto none = abi::sized<fe_none>();
  status = plugin::invoke(importer, importer.build, call,
                          treatment.larger ? larger_building.get() : &building, &none);
  treatment.calls = refusing.calls();
  treatment.intact = larger_opening.intact() && larger_opened.intact() && larger_model.intact() &&
                     larger_signature.intact() && larger_building.intact() && table.intact();
  auto text = status == FE_OK ? graph::print(graph) : std::string();
  close();
  if (status != FE_OK) return call.error(status, "FE-I04", "the model could not be imported");
  return text;
}

/// Calls `each` with the bytes truncated in `cuts` places and with `flips` single bytes changed.
template <class Each>
size_t damage(std::span<const std::byte> bytes, uint64_t seed, Each each) {
  for (size_t k = 0; k < cuts; ++k) each(bytes.first(bytes.size() * k / cuts));
  validate::Random random(seed);
  std::vector<std::byte> copy(bytes.begin(), bytes.end());
  for (size_t k = 0; k < flips && !copy.empty(); ++k) {
    auto& byte = copy[random.below(copy.size())];
    const auto before = byte;
    byte = static_cast<std::byte>(random.bits());
    each(std::span<const std::byte>(copy));
    byte = before;
  }
  return cuts + flips;
}

/// A kernel of each kind of statement, and a second version of each that reads several buffers, with the last
/// of them constant: many libraries support only constant weights.
std::vector<loop::Kernel> sample_kernels() {
  std::vector<loop::Kernel> result;
  for (const auto& name : kernel_names()) {
    if (find_prim(std::string_view(name))) break;
    const auto cases = cases_of({name, f32});
    const auto schedule =
        cases.empty() ? error(FE_EINTERNAL, "FE-P52", "no cases") : schedule_of(cases.front(), {});
    if (!schedule) continue;
    result.push_back(schedule::KernelMaker(*schedule).make(schedule->groups.size() - 1).kernel);
    std::vector<size_t> read;
    for (size_t b = 0; b < result.back().buffers.size(); ++b)
      if (result.back().buffers[b].kind == FE_BUFFER_INPUT) read.push_back(b);
    if (read.size() < 2) continue;
    auto weighted = result.back();
    weighted.buffers[read.back()].kind = FE_BUFFER_CONSTANT;
    result.push_back(std::move(weighted));
  }
  return result;
}

/// A kernel that a provider supports.
struct TakenKernel {
  std::vector<std::byte> proposed;
  uint64_t candidate = 0;           ///< the cheapest candidate for it
  std::vector<std::byte> compiled;  ///< with the layouts of that candidate
};

/// Nothing where the provider supports only a part of the kernel, or nothing of it.
std::optional<TakenKernel> take(const runtime::Compiler& compiler, loop::Kernel kernel) {
  TakenKernel result;
  auto flat = kernel::flatten(kernel);
  if (!flat) return {};
  result.proposed = std::move(flat->bytes);
  std::string declined;
  const auto proposals = select::propose(compiler, result.proposed, kernel.statements.size(), declined);
  if (!proposals) return {};
  for (const auto& proposal : *proposals) {
    if (proposal.covered < kernel.statements.size()) continue;
    result.candidate = proposal.id;
    for (const auto& layout : proposal.layouts)
      if (!select::lay_out(kernel, layout)) return {};
    flat = kernel::flatten(kernel);
    if (!flat) return {};
    result.compiled = std::move(flat->bytes);
    return result;
  }
  return {};
}

/// Proposes and compiles; returns the code. `full`: the number of the write of code that is rejected, from 1.
Result<std::string> compile(const runtime::Compiler& compiler, const TakenKernel& kernel, bool larger,
                            size_t full, size_t& writes, bool& intact) {
  struct Proposals {
    uint64_t wanted = 0;
    bool found = false;
  } proposals{kernel.candidate};
  auto args = abi::sized<fe_propose_args>();
  args.target = compiler.target.target;
  args.kernel = {kernel.proposed.data(), kernel.proposed.size(), 1};
  auto out = abi::sized<fe_propose_out>();
  out.host = &proposals;
  out.add = [](void* host, const fe_candidate* candidate) -> int32_t {
    auto& to = *static_cast<Proposals*>(host);
    if (!candidate) return FE_EINVALID;
    to.found = to.found || candidate->id == to.wanted;
    return FE_OK;
  };
  Enlarged<fe_propose_args> larger_args(args);
  Enlarged<fe_propose_out> larger_out(out);
  abi::Call call;
  int32_t status = plugin::invoke(*compiler.table, compiler.slots.propose, call,
                                  larger ? larger_args.get() : &args, larger ? larger_out.get() : &out);
  if (status != FE_OK || !proposals.found)
    return call.error(status == FE_OK ? FE_EUNSUPPORTED : status, "FE-K20",
                      "the provider does not propose what it proposed before");
  struct Sink {
    std::string bytes;
    size_t writes = 0, full = 0;
  } sink{{}, 0, full};
  auto compiling = abi::sized<fe_compile_args>();
  compiling.target = compiler.target.target;
  compiling.kernel = {kernel.compiled.data(), kernel.compiled.size(), 1};
  compiling.candidate = kernel.candidate;
  compiling.entry = abi::string(std::string_view("checked"));
  auto compiled = abi::sized<fe_compile_out>();
  compiled.blob = {sizeof(fe_sink), &sink, [](void* self, const void* data, uint64_t bytes) -> int32_t {
                     auto& to = *static_cast<Sink*>(self);
                     if (++to.writes == to.full) return FE_ENOMEM;
                     to.bytes.append(static_cast<const char*>(data), bytes);
                     return FE_OK;
                   }};
  Enlarged<fe_compile_args> larger_compiling(compiling);
  Enlarged<fe_compile_out> larger_compiled(compiled);
  status = plugin::invoke(*compiler.table, compiler.slots.compile, call,
                          larger ? larger_compiling.get() : &compiling,
                          larger ? larger_compiled.get() : &compiled);
  writes = sink.writes;
  intact =
      larger_args.intact() && larger_out.intact() && larger_compiling.intact() && larger_compiled.intact();
  if (status != FE_OK) return call.error(status, "FE-K22", "the kernel could not be compiled");
  return sink.bytes;
}

Result<std::string> compile(const runtime::Compiler& compiler, const TakenKernel& kernel) {
  size_t writes = 0;
  bool intact = true;
  return compile(compiler, kernel, false, 0, writes, intact);
}

/// A device of the plugin's provider, or the reason why there is none.
Result<std::shared_ptr<runtime::Device>> device_of(const Subject& subject, const fe_provider& provider) {
  FE_TRY(auto device, runtime::Device::open(abi::string(provider.device_kind), subject.registry()));
  if (!device->compiler(provider))
    return error(FE_EUNSUPPORTED, "FE-P52", "the provider cannot compile for this device");
  return device;
}

}  // namespace

void check_creation(const CheckOptions& options, const Subject& subject, Runner& runner) {
  const auto* plugin = subject.plugin().description;
  if (!plugin) return;
  std::vector<graph::Attribute> config;
  for (const auto& request : subject.session().pipeline().plugins)
    if (is_target(options.target, request)) config = request.config;
  runner.run("create: larger structs", [&]() -> Verdict {
    Treatment plain, larger;
    larger.larger = true;
    FE_TRY(const auto expected, create_and_destroy(*plugin, config, plain));
    const auto given = create_and_destroy(*plugin, config, larger);
    if (!larger.intact || !given || *given != expected)
      return error(FE_EINVALID, "FE-P46", "with a host of a later version the plugin {}",
                   !larger.intact ? "writes past the end of the structs that it is given"
                   : given        ? "contributes something else"
                                  : "cannot be created: " + given.error().text);
    return {};
  });
  runner.run("create: refused host calls", [&]() -> Verdict {
    Treatment count;
    FE_TRY(const auto expected, create_and_destroy(*plugin, config, count));
    if (count.calls == 0) return Verdict::skipped("it makes no calls of the host while it is created");
    for (size_t k : refused_calls(count.calls, most_refused_by_part)) {
      Treatment treatment;
      treatment.refused = k;
      static_cast<void>(create_and_destroy(*plugin, config, treatment));
      Treatment after;
      const auto again = create_and_destroy(*plugin, config, after);
      if (!again || *again != expected)
        return error(FE_EINVALID, "FE-P47",
                     "after call {} of the host was refused it cannot be created as before", k);
    }
    return Verdict::passed(counted(count.calls, "call"));
  });
}

void check_hostile_importers(const CheckOptions& options, const Subject& subject, Runner& runner) {
  const auto& registry = subject.registry();
  for (const auto& entry : registry.importers()) {
    const bool own = entry.plugin == &subject.plugin();
    const auto& importer = *entry.table;
    // The plugin's handlers for another plugin's format are called by that importer.
    if (!own && !subject.reads_ops_of(importer)) continue;
    const auto extensions = fmt::format(",{},", abi::view(importer.extensions));
    std::string path;
    std::shared_ptr<const graph::MappedFile> file;
    for (const auto& sample : options.samples)
      if (extensions.find("," + std::filesystem::path(sample).extension().string() + ",") !=
          std::string::npos)
        if (auto mapped = graph::MappedFile::open(sample);
            mapped && (*mapped)->bytes().size() <= most_file_bytes) {
          path = sample;
          file = *mapped;
        }
    auto with_file = [&](std::string_view what, const std::function<Verdict()>& check) {
      runner.run(fmt::format("importer {}: {}", abi::view(importer.id), what), [&]() -> Verdict {
        if (!file)
          return Verdict::skipped(fmt::format("no model of {} of at most {} MiB is given with --sample",
                                              abi::view(importer.extensions), most_file_bytes >> 20));
        Treatment treatment;
        if (auto text = import(importer, path, file->bytes(), registry, treatment); !text)
          return Verdict::skipped("the model cannot be imported: " + text.error().message());
        return check();
      });
    };
    auto plain = [&] {
      Treatment treatment;
      const auto text = import(importer, path, file->bytes(), registry, treatment);
      return text ? *text : "error: " + text.error().text;
    };
    with_file("larger structs", [&]() -> Verdict {
      Treatment larger;
      larger.larger = true;
      const auto text = import(importer, path, file->bytes(), registry, larger);
      if (!larger.intact || (text ? *text : "error: " + text.error().text) != plain())
        return error(
            FE_EINVALID, "FE-P46", "with structs of a later version the importer {}",
            larger.intact ? "gives another graph" : "writes past the end of the structs that it is given");
      return {};
    });
    with_file("refused host calls", [&]() -> Verdict {
      Treatment count;
      static_cast<void>(import(importer, path, file->bytes(), registry, count));
      const auto expected = plain();
      const auto refused = refused_calls(count.calls, most_refused_by_part);
      for (size_t k : refused) {
        Treatment treatment;
        treatment.refused = k;
        static_cast<void>(import(importer, path, file->bytes(), registry, treatment));
      }
      if (plain() != expected)
        return error(FE_EINVALID, "FE-P47",
                     "after calls of the host were refused the importer gives another graph");
      return Verdict::passed(counted(refused.size(), "call"));
    });
    if (!own) continue;
    with_file("damaged files", [&]() -> Verdict {
      const auto tried = damage(file->bytes(), options.seed, [&](std::span<const std::byte> bytes) {
        Treatment treatment;
        static_cast<void>(import(importer, path, bytes, registry, treatment));
      });
      return Verdict::passed(counted(tried, "file"));
    });
    with_file("two threads", [&]() -> Verdict {
      if (importer.thread_model != FE_THREADS_ANY)
        return Verdict::skipped(
            "the importer's table does not say that it may be called from several threads");
      const auto expected = plain();
      FE_CHECK(in_two_threads([&] {
        bool same = true;
        for (int round = 0; round < 4; ++round) same = same && plain() == expected;
        return std::string(same ? "" : "the importer gives another graph");
      }));
      return {};
    });
  }
}

void check_hostile_backends(const Subject& subject, Runner& runner) {
  for (const auto& entry : subject.registry().providers()) {
    if (entry.plugin != &subject.plugin()) continue;
    const auto& provider = *entry.table;
    std::optional<Result<std::shared_ptr<runtime::Device>>> opened;
    std::vector<TakenKernel> kernels;
    auto with_device = [&](std::string_view what,
                           const std::function<Verdict(const runtime::Compiler&)>& check) {
      runner.run(fmt::format("provider {}: {}", abi::view(provider.id), what), [&]() -> Verdict {
        if (!provider.propose || !provider.compile) return Verdict::skipped("it compiles no kernels");
        if (!opened) {
          opened.emplace(device_of(subject, provider));
          if (*opened)
            for (auto& kernel : sample_kernels())
              if (auto taken = take(*(**opened)->compiler(provider), std::move(kernel));
                  taken && compile(*(**opened)->compiler(provider), *taken))
                kernels.push_back(std::move(*taken));
        }
        if (!*opened) return Verdict::skipped(opened->error().message());
        if (kernels.empty()) return Verdict::skipped("it declines the sample of every kind of statement");
        return check(*(**opened)->compiler(provider));
      });
    };
    with_device("larger structs", [&](const runtime::Compiler& compiler) -> Verdict {
      for (const auto& kernel : kernels) {
        FE_TRY(const auto expected, compile(compiler, kernel));
        size_t writes = 0;
        bool intact = true;
        const auto given = compile(compiler, kernel, true, 0, writes, intact);
        if (!intact || !given || *given != expected)
          return error(FE_EINVALID, "FE-P46", "with structs of a later version the provider {}",
                       intact ? "gives other code" : "writes past the end of the structs that it is given");
      }
      return Verdict::passed(counted(kernels.size(), "kernel"));
    });
    with_device("full sinks", [&](const runtime::Compiler& compiler) -> Verdict {
      size_t tried = 0;
      for (const auto& kernel : kernels) {
        size_t writes = 0;
        bool intact = true;
        static_cast<void>(compile(compiler, kernel, false, 0, writes, intact));
        for (size_t k : refused_calls(writes, 4)) {
          size_t count = 0;
          ++tried;
          if (compile(compiler, kernel, false, k, count, intact))
            return error(FE_EINVALID, "FE-P47",
                         "when write {} of code is refused, the provider says that all is well", k);
        }
      }
      return Verdict::passed(fmt::format("{} writes", tried));
    });
    with_device("damaged kernels", [&](const runtime::Compiler& compiler) -> Verdict {
      size_t tried = 0;
      for (const auto& kernel : kernels) {
        // Damages the kernel once for proposing and once for compiling.
        for (auto part : {&TakenKernel::proposed, &TakenKernel::compiled})
          tried += damage(kernel.*part, tried + 1, [&](std::span<const std::byte> bytes) {
            auto damaged = kernel;
            (damaged.*part).assign(bytes.begin(), bytes.end());
            static_cast<void>(compile(compiler, damaged));
          });
      }
      return Verdict::passed(counted(tried, "kernel"));
    });
    with_device("two threads", [&](const runtime::Compiler& compiler) -> Verdict {
      if (provider.thread_model != FE_THREADS_ANY)
        return Verdict::skipped(
            "the provider's table does not say that it may be called from several threads");
      std::vector<std::string> expected;
      for (const auto& kernel : kernels) {
        FE_TRY(expected.emplace_back(), compile(compiler, kernel));
      }
      FE_CHECK(in_two_threads([&] {
        bool same = true;
        for (int round = 0; round < 3; ++round)
          for (size_t k = 0; k < kernels.size(); ++k) {
            const auto code = compile(compiler, kernels[k]);
            same = same && code && *code == expected[k];
          }
        return std::string(same ? "" : "the provider gives other code");
      }));
      return Verdict::passed(counted(kernels.size(), "kernel"));
    });
  }
}

}  // namespace ferrite::core::plugin_check
