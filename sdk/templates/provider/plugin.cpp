// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// @ID@: a provider, which compiles kernels for the devices of a runtime; here for the CPU, whose runtime
// accepts ELF objects. It writes elementwise f32 kernels as C, compiles them with the C compiler, and
// declines all others.
#include <ferrite/kernel.hpp>
#include <ferrite/plugin.hpp>

#include <unistd.h>

#include <bit>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace {

using namespace ferrite;

loop::Kernel read(Bytes bytes) {
  std::string error;
  auto kernel = read_kernel(bytes, &error);
  if (!kernel) fail("@ID@/kernel", "the kernel cannot be read: ", error);
  return std::move(*kernel);
}

/// Whether the k-th point of the loops accesses element k of the buffer.
bool elementwise(const loop::Kernel& kernel, loop::BufferId id, const std::vector<index::Expr>& index) {
  const auto& buffer = kernel.buffers[id];
  const auto& vars = kernel.statements[0].vars;
  if (buffer.dtype != f32 || buffer.kind == FE_BUFFER_LOCAL || buffer.packing || buffer.offset != 0 ||
      buffer.dims.size() != vars.size() || buffer.strides != loop::contiguous_strides(buffer.dims))
    return false;
  for (size_t d = 0; d < vars.size(); ++d)
    if (buffer.dims[d] != vars[d].extent || kernel.pool.as_symbol(index[d]) != vars[d].symbol) return false;
  return true;
}

/// The C expression for a primitive over %1 and %2; null for a primitive that is not supported here.
const char* form_of(Prim prim) {
  switch (prim) {
    case Prim::add_: return "%1 + %2";
    case Prim::sub_: return "%1 - %2";
    case Prim::mul_: return "%1 * %2";
    case Prim::div_: return "%1 / %2";
    case Prim::neg_: return "-%1";
    case Prim::abs_: return "__builtin_fabsf(%1)";
    case Prim::max_: return "%1 > %2 || %1 != %1 ? %1 : %2";
    case Prim::min_: return "%1 < %2 || %1 != %1 ? %1 : %2";
    default: return nullptr;
  }
}

std::string filled(std::string form, const std::string& a, const std::string& b) {
  for (size_t at = 0; (at = form.find('%', at)) != std::string::npos;)
    form.replace(at, 2, form[at + 1] == '1' ? a : b);
  return form;
}

constexpr int64_t points_a_task = 4096;

/// C source of an entry that computes the tasks in [begin, end). Declines kernels that are not supported
/// here.
std::string source_of(const loop::Kernel& kernel, std::string_view entry) {
  const auto& statement = kernel.statements[0];
  if (kernel.statements.size() != 1 || statement.kind != FE_STATEMENT_MAP) decline("it is not one map");
  const auto name = [](loop::OpId id) { return id == loop::none ? std::string() : "v" + std::to_string(id); };
  const auto element = [](loop::BufferId id) { return "((float*)buffers[" + std::to_string(id) + "])[i]"; };
  std::string text =
      "void " + std::string(entry) +
      "(void* const* buffers, long begin, long end, long worker, char* workspace, long* error) {\n";
  const int64_t points = statement.points(loop::VarKind::parallel);
  text += "  long last = end * " + std::to_string(points_a_task) + ";\n  if (last > " +
          std::to_string(points) + ") last = " + std::to_string(points) + ";\n  for (long i = begin * " +
          std::to_string(points_a_task) + "; i < last; ++i) {\n";
  for (loop::OpId k = 0; k < statement.ops.size(); ++k) {
    const auto& op = statement.ops[k];
    if (op.dtype != f32) decline("a value is not f32");
    std::string value;
    if (op.code == FE_OP_LOAD && op.a == loop::none && elementwise(kernel, op.buffer, op.index)) {
      value = element(op.buffer);
    } else if (op.code == FE_OP_CONSTANT) {
      char digits[64];
      std::snprintf(digits, sizeof digits, "%af", std::bit_cast<float>(static_cast<uint32_t>(op.bits)));
      value = digits;
    } else if (op.is_prim() && form_of(op.prim())) {
      value = filled(form_of(op.prim()), name(op.a), name(op.b));
    } else {
      decline("an operation is not known here");
    }
    text += "    float " + name(k) + " = " + value + ";\n";
  }
  for (const auto& store : statement.stores) {
    if (store.mode != FE_STORE_SET || store.mask != loop::none ||
        !elementwise(kernel, store.buffer, store.index))
      decline("a store is not elementwise");
    text += "    " + element(store.buffer) + " = " + name(store.value) + ";\n";
  }
  return text + "  }\n}\n";
}

/// A temporary folder, removed by the destructor.
struct Scratch {
  std::string path = (std::filesystem::temp_directory_path() / "kernel-XXXXXX").string();
  Scratch() {
    if (!mkdtemp(path.data())) fail("@ID@/scratch", "no folder can be made in ", path);
  }
  ~Scratch() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
};

std::string compile_c(const std::string& source) {
  Scratch scratch;
  const std::string c = scratch.path + "/kernel.c", object = scratch.path + "/kernel.o";
  std::ofstream(c) << source;
  const std::string command =
      "cc -O3 -march=native -fPIC -fno-asynchronous-unwind-tables -c '" + c + "' -o '" + object + "'";
  if (std::system(command.c_str()) != 0) fail("@ID@/compiler", "this failed: ", command);
  std::ifstream in(object, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

class ToyProvider final : public Provider {
 public:
  std::string id() const override { return "@ID@"; }
  std::string device_kind() const override { return "cpu"; }
  std::unique_ptr<Target> open_target(Bytes) override {
    auto target = std::make_unique<Target>();
    target->name = "C";
    return target;
  }
  std::vector<Candidate> propose(Target&, Bytes bytes) override {
    source_of(read(bytes), "probe");  // declines if it is not supported
    Candidate candidate;
    candidate.name = "@ID@";
    candidate.cost = 1e-9;  // seconds; the host chooses the cheapest candidate
    return {candidate};
  }
  /// Called from several threads in parallel.
  CompileResult compile(Target&, const CompileRequest& request) override {
    const auto kernel = read(request.kernel);
    CompileResult result;
    result.listing = source_of(kernel, request.entry);
    result.blob = compile_c(result.listing);
    const int64_t points = kernel.statements[0].points(loop::VarKind::parallel);
    result.tasks = (points + points_a_task - 1) / points_a_task;
    return result;
  }
  /// Changes whenever the same kernel would be compiled to different code.
  std::string fingerprint() override { return "@ID@ 0.1.0"; }
};

}  // namespace

FERRITE_PLUGIN("@ID@", "0.1.0", std::make_unique<ToyProvider>())
