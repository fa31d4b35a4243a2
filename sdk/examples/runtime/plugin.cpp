// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A runtime: the device `tape`, on which the host interprets a list of steps for each element. A runtime owns
// memory, modules and launches. A provider for its device kind supplies the code, here one for elementwise
// kernels of f32.
#include <ferrite/kernel.hpp>
#include <ferrite/plugin.hpp>

#include <bit>
#include <cstdlib>
#include <cstring>
#include <map>

namespace {

using namespace ferrite;

/// `code` is as in a statement's body: FE_OP_LOAD: register `to` = buffer a; FE_OP_CONSTANT: register `to` =
/// value; a primitive: register `to` = a op b; store_code: buffer `to` = register a.
struct Step {
  uint32_t code, to, a, b;
  float value;
};
constexpr uint32_t store_code = 0xffff;

/// The steps that the device executes for one element after the other.
using Tape = std::vector<Step>;

bool elementwise(const loop::Kernel& kernel, loop::BufferId id, const std::vector<index::Expr>& index) {
  const auto& buffer = kernel.buffers[id];
  const auto& vars = kernel.statements[0].vars;
  bool all = buffer.dtype == f32 && !buffer.packing && buffer.offset == 0 && index.size() == vars.size() &&
             buffer.kind != FE_BUFFER_LOCAL && buffer.strides == loop::contiguous_strides(buffer.dims);
  for (size_t d = 0; all && d < vars.size(); ++d)
    all = buffer.dims[d] == vars[d].extent && kernel.pool.as_symbol(index[d]) == vars[d].symbol;
  return all;
}

Tape tape_of(const loop::Kernel& kernel) {
  const auto& statement = kernel.statements[0];
  if (kernel.statements.size() != 1 || statement.kind != FE_STATEMENT_MAP) decline("it is not one map");
  Tape tape;
  for (uint32_t k = 0; k < statement.ops.size(); ++k) {
    const auto& op = statement.ops[k];
    const bool load = op.code == FE_OP_LOAD && op.a == loop::none && elementwise(kernel, op.buffer, op.index);
    const bool known =
        op.is_prim() && (op.prim() == Prim::add_ || op.prim() == Prim::mul_ || op.prim() == Prim::max_);
    if (op.dtype != f32 || !(load || known || op.code == FE_OP_CONSTANT))
      decline("the tape has no such operation");
    const float value = op.code == FE_OP_CONSTANT ? std::bit_cast<float>(static_cast<uint32_t>(op.bits)) : 0;
    tape.push_back({op.code, k, load ? op.buffer : op.a, op.b, value});
  }
  for (const auto& to : statement.stores) {
    if (to.mode != FE_STORE_SET || to.mask != loop::none || !elementwise(kernel, to.buffer, to.index))
      decline("a store is not elementwise");
    tape.push_back({store_code, to.buffer, to.value, 0, 0});
  }
  return tape;
}

class TapeProvider final : public Provider {
 public:
  std::string id() const override { return "tape"; }
  std::string device_kind() const override { return "tape"; }  // the runtime's id
  std::unique_ptr<Target> open_target(Bytes) override {
    auto target = std::make_unique<Target>();
    target->name = "tape";
    return target;
  }
  std::vector<Candidate> propose(Target&, Bytes bytes) override {
    tape_of(read(bytes));
    Candidate candidate;
    candidate.name = "tape";
    return {candidate};
  }
  /// The blob is the entry's name, a zero byte and the steps. A task is an element.
  CompileResult compile(Target&, const CompileRequest& request) override {
    const auto kernel = read(request.kernel);
    const auto tape = tape_of(kernel);
    CompileResult result;
    result.blob = std::string(request.entry) + '\0';
    result.blob.append(reinterpret_cast<const char*>(tape.data()), tape.size() * sizeof(Step));
    result.tasks = kernel.statements[0].points(loop::VarKind::parallel);
    result.grain = 4096;
    return result;
  }
  std::string fingerprint() override { return "tape 1.0.0"; }

 private:
  static loop::Kernel read(Bytes bytes) {
    std::string error;
    auto kernel = read_kernel(bytes, &error);
    if (!kernel) fail("acme.runtime/kernel", "the kernel cannot be read: ", error);
    return std::move(*kernel);
  }
};

void run(const Tape& tape, void* const* buffers, int64_t begin, int64_t end) {
  std::vector<float> registers(tape.size());
  for (int64_t k = begin; k < end; ++k)
    for (const Step& step : tape) {
      float* r = registers.data();
      switch (step.code) {
        case FE_OP_LOAD: r[step.to] = static_cast<const float*>(buffers[step.a])[k]; break;
        case FE_OP_CONSTANT: r[step.to] = step.value; break;
        case static_cast<uint32_t>(Prim::add_): r[step.to] = r[step.a] + r[step.b]; break;
        case static_cast<uint32_t>(Prim::mul_): r[step.to] = r[step.a] * r[step.b]; break;
        case static_cast<uint32_t>(Prim::max_):
          r[step.to] = r[step.a] > r[step.b] || r[step.a] != r[step.a] ? r[step.a] : r[step.b];
          break;
        default: static_cast<float*>(buffers[step.to])[k] = r[step.a];
      }
    }
}

class TapeRuntime final : public Runtime {
 public:
  explicit TapeRuntime(Host host) : host_(host) {}

  std::string id() const override { return "tape"; }
  uint32_t device_count() override { return 1; }
  DeviceDescription describe(uint32_t) override {
    DeviceDescription result;
    result.name = "a tape";
    return result;
  }

  void* alloc(uint32_t, uint64_t bytes) override {
    void* data = bytes < UINT64_MAX / 2 ? std::aligned_alloc(64, (bytes / 64 + 1) * 64) : nullptr;
    if (!data) throw std::bad_alloc();
    return data;
  }
  void free(uint32_t, void* data) override { std::free(data); }
  void copy(const fe_copy_args& args) override {
    if (args.bytes > 0) std::memmove(args.to, args.from, args.bytes);
  }

  using Module = std::map<std::string, Tape, std::less<>>;  // by entry
  void* module_load(uint32_t, std::span<const Bytes> blobs, std::string_view) override {
    auto module = std::make_unique<Module>();
    for (Bytes blob : blobs) {
      const std::string_view text(reinterpret_cast<const char*>(blob.data()), blob.size());
      const size_t name = text.find('\0');
      if (name == text.npos || (text.size() - name - 1) % sizeof(Step) != 0)
        fail("acme.runtime/blob", "a blob is no tape");
      Tape tape((text.size() - name - 1) / sizeof(Step));
      std::memcpy(tape.data(), text.data() + name + 1, tape.size() * sizeof(Step));
      module->emplace(text.substr(0, name), std::move(tape));
    }
    return module.release();
  }
  void module_unload(void* module) override { delete static_cast<Module*>(module); }
  void* function(void* module, std::string_view entry) override {
    auto& tapes = *static_cast<Module*>(module);
    const auto found = tapes.find(entry);
    if (found == tapes.end()) fail("acme.runtime/entry", "there is no tape '", entry, "'");
    return &found->second;
  }
  void launch(const fe_launch_args& args) override {
    host_.parallel_for(args.tasks, args.grain, args.workers, const_cast<fe_launch_args*>(&args),
                       [](void* context, int64_t begin, int64_t end, int64_t) {
                         const auto& launch = *static_cast<const fe_launch_args*>(context);
                         run(*static_cast<const Tape*>(launch.function), launch.buffers, begin, end);
                       });
  }

 private:
  Host host_;
};

}  // namespace

FERRITE_PLUGIN("acme.runtime", "1.0.0", [](PluginBuilder& builder, const PluginContext& context) {
  builder.add(std::make_unique<TapeProvider>());
  builder.add(std::make_unique<TapeRuntime>(context.host));
})
