// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Any description, tables and arguments that a plugin may hand over, with sizes, counts, strides, kinds and
// null pointers as they come; what is not null points to as much as it says, or says more than there can be.
// Loading gives a code or a plugin, and a failed one leaves nothing; slots of the graph give a status and
// leave the graph valid.
#include <dlfcn.h>
#include <fuzzer/FuzzedDataProvider.h>

#include <cstdlib>
#include <cstring>
#include <deque>

#include "core/ir/graph/api.h"
#include "core/ir/graph/print.h"
#include "core/ir/graph/verify.h"
#include "core/ir/text/parse_graph.h"
#include "core/plugin/registry.h"
#include "core/support/abi/abi.h"
#include "tests/core/ir/graph_ops.h"

using namespace ferrite::core;

namespace {

constexpr uint64_t endless = uint64_t{1} << 40;

void require(bool holds) {
  if (!holds) std::abort();
}

int32_t no_pass(void*, fe_call*, const fe_pass_args*, fe_pass_out*) { return FE_OK; }
int32_t no_type(void*, fe_call*, const fe_infer_args*, fe_infer_out*) { return FE_OK; }
int32_t no_lowering(void*, fe_call*, const fe_lowering_args*, fe_none*) { return FE_EUNSUPPORTED; }
int32_t no_predicate(void*, fe_call*, const fe_match_args*, fe_predicate_out*) { return FE_OK; }
int32_t no_import(void*, fe_call*, const fe_import_args*, fe_import_out*) { return FE_EUNSUPPORTED; }
int32_t no_destroy(void*, fe_call*, const fe_destroy_args*, fe_none*) { return FE_OK; }

/// Makes hostile values out of the input; owns what they point to.
class Source {
 public:
  explicit Source(FuzzedDataProvider& data) : data_(data) {}

  template <class T>
  T number() {
    return data_.ConsumeIntegral<T>();
  }
  bool coin() { return data_.ConsumeBool(); }
  uint32_t below(uint32_t count) { return data_.ConsumeIntegralInRange<uint32_t>(0, count - 1); }
  uint64_t size(uint64_t honest) {
    const uint64_t choices[] = {honest, honest,     honest,     0,          7,
                                8,      honest - 1, honest - 8, honest + 8, number<uint64_t>()};
    return choices[below(std::size(choices))];
  }
  template <class Function>
  Function function(Function honest) {
    return below(8) == 0 ? nullptr : honest;
  }
  fe_string text() {
    static const char* const names[] = {"pre_grad",  "post_fusion", "relu",  "x", "fuzz.op",
                                        "fuzz.pass", "cpu",         ".fuzz", "",  "nowhere"};
    if (below(8) == 0) return {nullptr, number<uint64_t>()};
    if (below(4) != 0) return abi::string(std::string_view(names[below(std::size(names))]));
    auto& bytes = keep(data_.ConsumeRandomLengthString(40));
    return {bytes.data(), bytes.size()};
  }
  /// An array of what `make` gives: well-formed, null, with a stride that is too small, or longer than
  /// memory.
  template <class T, class Make>
  fe_array array(Make make) {
    const uint32_t count = below(5), kind = below(6);
    if (kind == 0) return {nullptr, number<uint64_t>(), number<uint64_t>()};
    const uint64_t stride = sizeof(T) + 8 * below(3);
    auto& bytes = keep(std::string(stride * 5, '\0'));
    for (uint32_t k = 0; k < count; ++k) {
      const T item = make();
      std::memcpy(bytes.data() + k * stride, &item, sizeof(T));
    }
    if (kind == 1) return {bytes.data(), count, below(sizeof(T))};
    if (kind == 2) return {bytes.data(), endless + number<uint32_t>(), stride};
    return {bytes.data(), count, stride};
  }
  fe_array texts() {
    return array<fe_string>([&] { return text(); });
  }
  fe_attr attribute() {
    fe_attr attr{};
    attr.size = sizeof attr;
    attr.name = text();
    attr.kind = below(10);
    attr.i = number<int64_t>();
    attr.f = data_.ConsumeFloatingPoint<double>();
    attr.s = text();
    if (attr.kind == FE_ATTR_STRINGS)
      attr.list = texts();
    else
      attr.list = array<int64_t>([&] { return number<int64_t>(); });
    return attr;
  }
  fe_tensor_type type() {
    static const int64_t dims[64] = {2, 3, 1, 0, 4, -1};
    fe_tensor_type type{};
    type.size = size(sizeof type);
    type.dtype = number<uint16_t>() % 32;
    type.layout = number<uint16_t>() % 5;
    type.rank = below(8) == 0 ? number<uint32_t>() : below(6);
    if (type.rank > 64 || below(8) != 0) type.dims = dims;
    if (type.rank > 64 || coin()) type.strides = dims;
    type.offset = number<int64_t>();
    type.alignment = number<uint32_t>();
    return type;
  }
  std::string& keep(std::string bytes) {
    bytes.reserve(16);
    return memory_.emplace_back(std::move(bytes));
  }

 private:
  FuzzedDataProvider& data_;
  std::deque<std::string> memory_;
};

/// What the plugin contributes in this run.
struct Contributed {
  fe_pass pass{};
  fe_op_def op{};
  fe_lowering lowering{};
  fe_rule_set rules{};
  fe_provider provider{};
  fe_runtime runtime{};
  fe_importer importer{};
  fe_import_handler handler{};
  std::vector<fe_contribution> list;
  fe_create_out out{};
} contributed;

void fill(Source& s) {
  auto& c = contributed;
  c = Contributed{};
  const uint32_t count = s.below(4);
  c.pass = {s.size(sizeof(fe_pass)), 1, 0, nullptr, s.text(), s.text(), s.texts(), s.texts(),
            s.function(no_pass)};
  c.op.size = s.size(sizeof(fe_op_def));
  c.op.flags = s.number<uint32_t>();
  c.op.name = s.text();
  c.op.results = s.below(3);
  c.op.operands = s.array<fe_operand_def>(
      [&] { return fe_operand_def{s.size(sizeof(fe_operand_def)), s.text(), s.below(4), 0}; });
  c.op.attrs = s.array<fe_attr_def>(
      [&] { return fe_attr_def{s.size(sizeof(fe_attr_def)), s.attribute(), s.below(2), 0, s.text()}; });
  c.op.infer = s.function(no_type);
  c.lowering = {s.size(sizeof(fe_lowering)), 1, 0, nullptr, s.text(), s.text(), s.function(no_lowering)};
  c.rules.size = s.size(sizeof(fe_rule_set));
  c.rules.text = s.text();
  c.rules.file = s.text();
  c.rules.predicates = s.array<fe_predicate>(
      [&] { return fe_predicate{sizeof(fe_predicate), nullptr, s.text(), s.function(no_predicate)}; });
  c.provider.size = s.size(sizeof(fe_provider));
  c.provider.id = s.text();
  c.provider.device_kind = s.text();
  c.runtime.size = s.size(sizeof(fe_runtime));
  c.runtime.id = s.text();
  c.importer.size = s.size(sizeof(fe_importer));
  c.importer.id = s.text();
  c.handler = {s.size(sizeof(fe_import_handler)),
               1,
               0,
               nullptr,
               s.text(),
               s.number<int64_t>(),
               s.number<int64_t>(),
               s.function(no_import)};
  const void* const tables[] = {&c.op,       &c.lowering, &c.rules, &c.pass, &c.provider, &c.runtime,
                                &c.importer, nullptr,     nullptr,  nullptr, nullptr,     &c.handler};
  for (uint32_t k = 0; k < count; ++k) {
    const uint32_t kind = s.below(14);
    const bool honest = kind >= 1 && kind <= std::size(tables) && s.below(8) != 0;
    c.list.push_back({kind, 0, honest ? tables[kind - 1] : nullptr});
  }
  c.out.contributions = s.array<fe_contribution>(
      [&, k = size_t{0}]() mutable { return k < c.list.size() ? c.list[k++] : fe_contribution{}; });
}

int32_t create(void*, fe_call*, const fe_create_args*, fe_create_out* out) {
  out->instance = &contributed;
  out->contributions = contributed.out.contributions;
  return FE_OK;
}

void load(Source& s) {
  static auto* const description = reinterpret_cast<fe_plugin_v0* (*)()>(
      dlsym(dlopen(FERRITE_FUZZ_PLUGIN, RTLD_NOW), "ferrite_fuzz_description"))();
  fill(s);
  *description = {s.size(sizeof(fe_plugin_v0)),
                  s.below(8) == 0 ? s.number<uint32_t>() : FE_ABI_MAJOR,
                  s.below(8) == 0 ? s.number<uint32_t>() : FE_ABI_MINOR,
                  nullptr,
                  s.text(),
                  s.text(),
                  s.function(create),
                  s.function(no_destroy)};
  fe_host host{};
  host.size = sizeof host;
  plugin::Registry registry(host);
  plugin::PluginRequest request;
  request.library = FERRITE_FUZZ_PLUGIN;
  const auto loaded = registry.load(request);
  if (loaded) {
    if (const auto rules = registry.compile_rules(); !rules) require(rules.error().code.starts_with("FE-"));
    return;
  }
  require(loaded.error().code.starts_with("FE-") && !loaded.error().where.empty());
  require(registry.plugins().empty() && registry.ops().all().empty() && registry.passes().empty() &&
          registry.rule_sets().empty() && registry.providers().empty() && registry.runtimes().empty() &&
          registry.importers().empty() && registry.import_handlers().empty());
}

constexpr std::string_view sample = R"(ferrite graph 0
graph @main(%x: f32[2,3], %y: f32[2,3]) -> (%r "out") {
  %m = clamp(%x, _, %y)
  %a = add(%m, %y)
  %r = relu(%a)
}
)";

/// One call of a slot of the graph.
void call(Source& s, const fe_graph_api& api, const std::vector<uint64_t>& handles) {
  const auto handle = [&] {
    return s.below(8) == 0 ? s.number<uint64_t>() : handles[s.below(static_cast<uint32_t>(handles.size()))];
  };
  // What is given has its full length whatever its size says.
  const auto slot = [&](auto function, auto args, auto out) {
    args.size = s.size(sizeof args);
    out.size = s.size(sizeof out);
    abi::Call call;
    function(api.self, s.below(16) == 0 ? nullptr : call.get(), s.below(16) == 0 ? nullptr : &args,
             s.below(16) == 0 ? nullptr : &out);
  };
  uint64_t results[2] = {};
  switch (s.below(15)) {
    case 0: return slot(api.view, fe_none{}, fe_graph_view{});
    case 1: return slot(api.node, fe_node_args{0, handle()}, fe_node_view{});
    case 2: return slot(api.value, fe_value_args{0, handle()}, fe_value_view{});
    case 3: {
      const auto operands = s.array<fe_value>(handle);
      const auto attrs = s.array<fe_attr>([&] { return s.attribute(); });
      return slot(api.make, fe_make_args{0, s.text(), operands, attrs, handle(), s.text(), handle()},
                  fe_make_out{0, 0, s.coin() ? results : nullptr, s.below(3), 0});
    }
    case 4: {
      static const char bytes[64] = {};
      return slot(api.literal, fe_literal_args{0, s.type(), s.coin() ? bytes : nullptr, s.below(65)},
                  fe_handle_out{});
    }
    case 5:
      return slot(api.weight,
                  fe_weight_args{0, s.text(), s.type(), s.text(), s.number<uint64_t>(), s.number<uint64_t>(),
                                 nullptr},
                  fe_handle_out{});
    case 6: return slot(api.input, fe_input_args{0, s.text(), s.type()}, fe_handle_out{});
    case 7: return slot(api.output, fe_output_args{0, s.text(), handle()}, fe_none{});
    case 8: return slot(api.replace_uses, fe_replace_args{0, handle(), handle()}, fe_none{});
    case 9: return slot(api.erase, fe_node_args{0, handle()}, fe_none{});
    case 10: return slot(api.set_operand, fe_operand_args{0, handle(), s.below(3), 0, handle()}, fe_none{});
    case 11: return slot(api.set_attr, fe_attr_args{0, handle(), s.attribute()}, fe_none{});
    case 12: return slot(api.evaluate, fe_value_args{0, handle()}, fe_handle_out{});
    case 13:
      return slot(api.set_input_memory, fe_input_memory_args{0, handle(), handle(), s.below(3), 0},
                  fe_none{});
    default: return slot(api.users, fe_value_args{0, handle()}, fe_users_out{});
  }
}

void edit(Source& s) {
  static const graph::test::Ops ops;
  auto graph = graph::parse(sample, {"sample", {}, &ops.registry()});
  require(graph.has_value());
  const std::string before = graph::print(*graph);
  const graph::Mark mark = graph->mark();
  {
    graph::GraphApi api(*graph, ops.registry());
    for (uint32_t calls = s.below(12); calls > 0; --calls) {
      std::vector<uint64_t> handles = {0};
      for (const graph::NodeId id : graph->nodes()) {
        handles.push_back(id.bits);
        for (const graph::ValueId result : graph->node(id).results) handles.push_back(result.bits);
      }
      for (const auto& input : graph->inputs()) handles.push_back(input.value.bits);
      call(s, *api.api(), handles);
    }
  }
  // What the verifier finds is undone, as behind a pass.
  static_cast<void>(graph::verify(*graph, ops.registry(), graph->touched(mark)));
  require(graph->rollback(mark).has_value());
  require(graph::verify(*graph, ops.registry()).has_value());
  require(graph::print(*graph) == before);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  FuzzedDataProvider provider(data, size);
  Source source(provider);
  if (source.coin())
    load(source);
  else
    edit(source);
  return 0;
}
