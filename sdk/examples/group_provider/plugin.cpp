// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A CPU provider with its own code for a single fused group: rows divided by their sums, which the scheduler
// fuses to one kernel with two statements. The code is C, compiled to an object file, the form that the CPU's
// runtime accepts.
#include <ferrite/kernel.hpp>
#include <ferrite/plugin.hpp>

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace {

using namespace ferrite;

struct RowShare {
  int64_t rows, columns;
};

/// Whether the operation loads row r, column c of a contiguous f32 buffer; a null symbol means index 0.
bool loads(const loop::Kernel& kernel, const loop::BodyOp& op, loop::BufferId buffer, const loop::Var* row,
           const loop::Var* column) {
  if (op.code != FE_OP_LOAD || op.a != loop::none || op.buffer != buffer || op.index.size() != 2)
    return false;
  const loop::Var* const vars[] = {row, column};
  for (size_t d = 0; d < 2; ++d) {
    if (vars[d] && kernel.pool.as_symbol(op.index[d]) != vars[d]->symbol) return false;
    if (!vars[d] && kernel.pool.as_constant(op.index[d]) != 0) return false;
  }
  return true;
}

bool is_matrix(const loop::Buffer& buffer, const RowShare& share) {
  return buffer.dtype == f32 && !buffer.packing && buffer.offset == 0 &&
         buffer.dims == Dims{share.rows, share.columns} &&
         buffer.strides == loop::contiguous_strides(buffer.dims);
}

/// Matches the group
///   reduce (r, c) { sum of load in[r, c]; store local[r, 0] }   map (r, c) { store out[r, c] = load in[r, c]
///   / load local[r, 0] }
std::optional<RowShare> match(const loop::Kernel& kernel) {
  if (kernel.statements.size() != 2 || kernel.buffers.size() != 3) return std::nullopt;
  const auto &sum = kernel.statements[0], &map = kernel.statements[1];
  if (sum.kind != FE_STATEMENT_REDUCE || map.kind != FE_STATEMENT_MAP || sum.vars.size() != 2 ||
      map.vars.size() != 2 || sum.parallel_count() != 1 || sum.vars[0].extent != map.vars[0].extent ||
      sum.vars[1].extent != map.vars[1].extent || sum.stores.size() != 1 || map.stores.size() != 1 ||
      sum.reductions.size() != 1 || sum.reductions[0].kind != FE_REDUCE_SUM || sum.ops.size() != 2 ||
      map.ops.size() != 3 || map.ops[2].code != static_cast<uint16_t>(Prim::div_))
    return std::nullopt;
  const RowShare share{sum.vars[0].extent, sum.vars[1].extent};
  const loop::BufferId in = sum.ops[0].buffer, local = sum.stores[0].buffer, out = map.stores[0].buffer;
  const auto &top = map.ops[map.ops[2].a], &bottom = map.ops[map.ops[2].b];
  const bool fits = loads(kernel, sum.ops[0], in, &sum.vars[0], &sum.vars[1]) &&
                    sum.reductions[0].element == 0 && sum.stores[0].value == 1 &&
                    loads(kernel, top, in, &map.vars[0], &map.vars[1]) &&
                    loads(kernel, bottom, local, &map.vars[0], nullptr) && map.stores[0].value == 2 &&
                    map.stores[0].mode == FE_STORE_SET &&
                    kernel.pool.as_symbol(map.stores[0].index[0]) == map.vars[0].symbol &&
                    kernel.pool.as_symbol(map.stores[0].index[1]) == map.vars[1].symbol &&
                    kernel.buffers[local].kind == FE_BUFFER_LOCAL && in == 0 && out == 2 &&
                    is_matrix(kernel.buffers[in], share) && is_matrix(kernel.buffers[out], share);
  return fits ? std::optional(share) : std::nullopt;
}

RowShare need_match(Bytes bytes) {
  std::string error;
  const auto kernel = read_kernel(bytes, &error);
  if (!kernel) fail("acme.group_provider/kernel", "the kernel cannot be read: ", error);
  const auto share = match(*kernel);
  if (!share) decline("it does not divide rows by their sums");
  return *share;
}

/// C source of the kernel; a task is a row. The parameters are those of every entry that the CPU's runtime
/// launches.
std::string source_of(const RowShare& share, std::string_view entry) {
  const std::string n = std::to_string(share.columns);
  return "void " + std::string(entry) +
         "(void* const* buffers, long begin, long end, long worker, char* workspace, long* error) {\n"
         "  for (long row = begin; row < end; ++row) {\n"
         "    const float* x = (const float*)buffers[0] + row * " +
         n +
         ";\n"
         "    float* y = (float*)buffers[1] + row * " +
         n +
         ";\n"
         "    float sum = 0;\n"
         "    for (long k = 0; k < " +
         n +
         "; ++k) sum += x[k];\n"
         "    for (long k = 0; k < " +
         n +
         "; ++k) y[k] = x[k] / sum;\n"
         "  }\n}\n";
}

std::string compile_c(const std::string& source) {
  std::string folder = (std::filesystem::temp_directory_path() / "row-share-XXXXXX").string();
  if (!mkdtemp(folder.data())) fail("acme.group_provider/scratch", "no folder can be made in ", folder);
  std::ofstream(folder + "/kernel.c") << source;
  const std::string command =
      "cd '" + folder + "' && cc -O3 -ffast-math -fPIC -fno-asynchronous-unwind-tables -c kernel.c";
  const int status = std::system(command.c_str());
  std::ifstream in(folder + "/kernel.o", std::ios::binary);
  const std::string object{std::istreambuf_iterator<char>(in), {}};
  std::filesystem::remove_all(folder);
  if (status != 0) fail("acme.group_provider/compiler", "this failed: ", command);
  return object;
}

class GroupProvider final : public Provider {
 public:
  std::string id() const override { return "acme.row_share"; }
  std::string device_kind() const override { return "cpu"; }
  std::unique_ptr<Target> open_target(Bytes) override {
    auto target = std::make_unique<Target>();
    target->name = "rows";
    return target;
  }
  std::vector<Candidate> propose(Target&, Bytes kernel) override {
    const auto share = need_match(kernel);
    Candidate candidate;
    candidate.name = "acme.row_share";
    candidate.cost = 1e-10 * static_cast<double>(share.rows * share.columns);
    return {candidate};
  }
  CompileResult compile(Target&, const CompileRequest& request) override {
    const auto share = need_match(request.kernel);
    CompileResult result;
    result.listing = source_of(share, request.entry);
    result.blob = compile_c(result.listing);
    result.tasks = share.rows;
    return result;
  }
  std::string fingerprint() override { return "acme.row_share 1.0.0"; }
};

}  // namespace

FERRITE_PLUGIN("acme.group_provider", "1.0.0", std::make_unique<GroupProvider>())
