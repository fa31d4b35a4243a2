// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The shape of a library of hand-written kernels: it takes matrix products in f32 with a constant right
// operand, which it wants packed, and at most the bias behind them; whatever follows is left to others. It
// launches what it compiled itself.
#include <algorithm>
#include <array>
#include <cstring>
#include <optional>

#include "ferrite/kernel.hpp"
#include "ferrite/plugin.hpp"

namespace acme {
namespace {

using namespace ferrite;

constexpr int64_t rows = 4, columns = 16;  // of the block that is computed at once

/// What a launch needs: C[m.., n] = sum over k of A[m.., k] * B[k, n], and a bias for each n.
struct Product {
  static constexpr size_t most_dims = 6;
  int64_t dims = 0, depth = 1, width = 1;                              // of m, k, n
  std::array<int64_t, most_dims> extent{}, a{}, c{};                   // of m: elements and strides
  int64_t a_depth = 0, c_width = 0, bias_width = 0;                    // strides
  int64_t a_offset = 0, c_offset = 0, bias_offset = 0;                 // elements
  int64_t a_buffer = 0, b_buffer = 0, c_buffer = 0, bias_buffer = -1;  // arguments
  int64_t covered = 1;                                                 // statements
  int64_t height() const {
    int64_t product = 1;
    for (int64_t d = 0; d < dims; ++d) product *= extent[static_cast<size_t>(d)];
    return product;
  }
};

/// Reads products out of kernels.
class Reader {
 public:
  explicit Reader(const loop::Kernel& kernel) : kernel_(kernel) {}

  std::optional<Product> run() {
    const auto& s = kernel_.statements[0];
    if (s.kind != FE_STATEMENT_CONTRACT || s.stores.size() != 1 || s.reductions.size() != 1) return {};
    const auto& store = s.stores[0];
    if (store.mask != loop::none || s.ops[store.value].code != FE_OP_REDUCED) return {};
    if (s.ops[s.contract_a].dtype != f32 || s.ops[s.contract_b].dtype != f32 ||
        s.ops[store.value].dtype != f32)
      return {};
    for (auto [a, b] : {std::pair(s.contract_a, s.contract_b), std::pair(s.contract_b, s.contract_a)})
      if (kernel_.buffers[s.ops[b].buffer].kind == FE_BUFFER_CONSTANT &&
          product(s, s.ops[a], s.ops[b], store)) {
        add_bias(s);
        return product_;
      }
    return {};
  }

  /// The weight, as a buffer of the kernel, and which of its dims is k and which n.
  loop::BufferId weight = 0;
  std::vector<char> weight_dims;

 private:
  /// The stride of an access by one variable, in elements; none where it is no multiple of it.
  std::optional<int64_t> stride(const loop::Buffer& buffer, std::span<const index::Expr> at,
                                const loop::Var& var) {
    int64_t total = 0;
    for (size_t d = 0; d < at.size(); ++d) {
      const auto affine = kernel_.pool.affine(at[d]);
      if (!affine.rest.empty()) return {};
      for (const auto& [symbol, coefficient] : affine.terms)
        if (symbol == var.symbol) total += coefficient * buffer.strides[d];
    }
    return total;
  }
  int64_t offset(const loop::Buffer& buffer, std::span<const index::Expr> at) {
    int64_t total = buffer.offset;
    for (size_t d = 0; d < at.size(); ++d) total += kernel_.pool.affine(at[d]).constant * buffer.strides[d];
    return total;
  }
  int64_t argument(loop::BufferId id) {
    int64_t number = 0;
    for (loop::BufferId b = 0; b < id; ++b) number += kernel_.buffers[b].kind != FE_BUFFER_LOCAL;
    return number;
  }

  bool product(const loop::Statement& s, const loop::BodyOp& a, const loop::BodyOp& b,
               const loop::Store& store) {
    product_ = {};
    const auto &from = kernel_.buffers[a.buffer], &to = kernel_.buffers[store.buffer];
    if (a.a != loop::none || b.a != loop::none || from.packing) return false;
    const loop::Var *depth = nullptr, *width = nullptr;
    weight_dims.clear();
    for (auto at : b.index) {
      const auto symbol = kernel_.pool.as_symbol(at);
      if (!symbol && kernel_.pool.as_constant(at) != 0) return false;
      weight_dims.push_back('0');
      for (const auto& var : s.vars) {
        if (!symbol || var.symbol != *symbol) continue;
        auto& found = var.kind == loop::VarKind::reduction ? depth : width;
        if (found) return false;
        found = &var;
        weight_dims.back() = var.kind == loop::VarKind::reduction ? 'k' : 'n';
      }
    }
    if (!depth || !width) return false;
    for (const auto& var : s.vars) {
      const auto in = stride(from, a.index, var), out = stride(to, store.index, var);
      if (!in || !out || (&var == width && *in != 0)) return false;
      if (&var == depth) {
        product_.depth = var.extent;
        product_.a_depth = *in;
      } else if (&var == width) {
        product_.width = var.extent;
        product_.c_width = *out;
      } else if (var.extent != 1) {
        if (var.kind != loop::VarKind::parallel || product_.dims == Product::most_dims) return false;
        const auto d = static_cast<size_t>(product_.dims++);
        product_.extent[d] = var.extent;
        product_.a[d] = *in;
        product_.c[d] = *out;
      }
    }
    weight = b.buffer;
    width_ = static_cast<size_t>(width - s.vars.data());
    product_.a_offset = offset(from, a.index);
    product_.c_offset = offset(to, store.index);
    product_.a_buffer = argument(a.buffer);
    product_.b_buffer = argument(b.buffer);
    product_.c_buffer = argument(store.buffer);
    return product_.height() > 0;
  }

  /// The second statement, where it only adds a bias to what nobody else reads.
  void add_bias(const loop::Statement& s) {
    if (kernel_.statements.size() < 2) return;
    const auto& map = kernel_.statements[1];
    const auto product = s.stores[0].buffer;
    if (map.kind != FE_STATEMENT_MAP || map.ops.size() != 3 || map.stores.size() != 1 ||
        map.stores[0].mask != loop::none || kernel_.buffers[product].kind != FE_BUFFER_LOCAL ||
        s.vars.size() != map.vars.size() + 1)
      return;
    const auto& sum = map.ops[2];
    if (!sum.is_prim() || sum.prim() != Prim::add_ || sum.dtype != f32 || map.stores[0].value != 2) return;
    const bool first = map.ops[0].code == FE_OP_LOAD && map.ops[0].buffer == product;
    const auto &acc = map.ops[first ? 0 : 1], &bias = map.ops[first ? 1 : 0];
    if (acc.code != FE_OP_LOAD || acc.buffer != product || bias.code != FE_OP_LOAD || bias.a != loop::none ||
        acc.a != loop::none)
      return;
    const auto &from = kernel_.buffers[bias.buffer], &to = kernel_.buffers[map.stores[0].buffer];
    if (from.packing || bias.buffer == product) return;
    Product with = product_;
    with.c.fill(0);
    for (size_t v = 0, m = 0; v < map.vars.size(); ++v) {
      const auto in = stride(from, bias.index, map.vars[v]),
                 out = stride(to, map.stores[0].index, map.vars[v]);
      if (!in || !out || (v != width_ && *in != 0)) return;
      if (v == width_) {
        with.bias_width = *in;
        with.c_width = *out;
      } else if (map.vars[v].extent != 1) {
        with.c[m++] = *out;
      }
    }
    with.bias_offset = offset(from, bias.index);
    with.c_offset = offset(to, map.stores[0].index);
    with.bias_buffer = argument(bias.buffer);
    with.c_buffer = argument(map.stores[0].buffer);
    with.covered = 2;
    product_ = with;
  }

  const loop::Kernel& kernel_;
  Product product_;
  size_t width_ = 0;  // which variable
};

loop::Kernel read(Bytes bytes) {
  std::string error;
  auto kernel = read_kernel(bytes, &error);
  if (!kernel || kernel->statements.empty()) fail("acme.gemm/kernel", "the kernel cannot be read: ", error);
  return std::move(*kernel);
}

/// B in panels of so many columns: packed [n / columns][k][columns].
OperandLayout panels(const Reader& reader, const Product& product) {
  auto expr = [](uint32_t op, int64_t value, uint32_t lhs = 0, uint32_t rhs = 0) {
    return fe_flat_expr{op, 0, value, lhs, rhs};
  };
  OperandLayout layout;
  layout.buffer = reader.weight;
  layout.packed_dims = {(product.width + columns - 1) / columns, product.depth, columns};
  layout.exprs = {expr(1, 0),
                  expr(1, 1),
                  expr(1, 2),
                  expr(FE_INDEX_CONSTANT, columns),
                  expr(FE_INDEX_MUL, 0, 0, 3),
                  expr(FE_INDEX_ADD, 0, 4, 2),
                  expr(FE_INDEX_CONSTANT, 0)};
  for (char dim : reader.weight_dims) layout.unpack.push_back(dim == 'k' ? 1 : dim == 'n' ? 5 : 6);
  return layout;
}

class Library final : public LibraryProvider {
 public:
  Library(Host host, double price, int64_t workspace, bool silent)
      : host_(host), price_(price), workspace_(workspace), silent_(silent) {}
  std::string id() const override { return "acme.gemm"; }
  std::string device_kind() const override { return "cpu"; }
  std::unique_ptr<Target> open_target(Bytes) override {
    auto target = std::make_unique<Target>();
    target->name = "blocks of 4 by 16";
    const auto only = uint64_t{1} << static_cast<unsigned>(f32);
    target->capabilities = {{FE_STATEMENT_CONTRACT, 0, only}, {FE_STATEMENT_MAP, 0, only}};
    for (auto prim : {Prim::mul_, Prim::add_})
      target->capabilities.push_back({0, static_cast<uint32_t>(prim), only});
    return target;
  }
  std::vector<Candidate> propose(Target&, Bytes bytes) override {
    const auto kernel = read(bytes);
    Reader reader(kernel);
    const auto product = reader.run();
    if (!product) decline("it is no product with a constant");
    Candidate candidate;
    candidate.name = product->covered == 2 ? "gemm.bias" : "gemm";
    candidate.cost =
        price_ * 2e-11 * static_cast<double>(product->height() * product->depth * product->width);
    candidate.workspace_bytes = std::max(silent_ ? 0 : workspace_, rows * product->depth * 4);
    candidate.covered = static_cast<uint32_t>(product->covered);
    candidate.operand_layouts = {panels(reader, *product)};
    return {candidate};
  }
  CompileResult compile(Target&, const CompileRequest& request) override {
    const auto kernel = read(request.kernel);
    const auto product = Reader(kernel).run();
    if (!product || product->covered != static_cast<int64_t>(kernel.statements.size()))
      fail("acme.gemm/kernel", "this is not what was proposed");
    CompileResult result;
    result.blob.assign(reinterpret_cast<const char*>(&*product), sizeof(Product));
    result.tasks = (product->height() + rows - 1) / rows;
    result.grain = std::max<int64_t>(1, (1 << 16) / (product->depth * product->width));
    result.workspace_bytes = std::max(workspace_, rows * product->depth * 4);
    return result;
  }
  std::string fingerprint() override { return "acme.gemm 1"; }

  void* exec_create(Target&, const ExecRequest& request) override {
    if (request.blob.size() != sizeof(Product)) fail("acme.gemm/blob", "this is no product");
    auto product = std::make_unique<Product>();
    std::memcpy(product.get(), request.blob.data(), sizeof(Product));
    return product.release();
  }
  void exec_destroy(void* exec) override { delete static_cast<Product*>(exec); }
  void exec_launch(const fe_launch_args& args) override {
    fe_launch_args copy = args;
    host_.parallel_for(args.tasks, args.grain, args.workers, &copy,
                       [](void* self, int64_t begin, int64_t end, int64_t worker) {
                         const auto& a = *static_cast<const fe_launch_args*>(self);
                         auto* block = reinterpret_cast<float*>(static_cast<char*>(a.workspace) +
                                                                worker * a.workspace_bytes);
                         for (int64_t task = begin; task < end; ++task)
                           run(*static_cast<const Product*>(a.function), a.buffers, task, block);
                       });
  }

 private:
  /// One block of rows; `block` holds them of A as [k][rows].
  static void run(const Product& p, void* const* buffers, int64_t task, float* block) {
    const auto* a = static_cast<const float*>(buffers[p.a_buffer]) + p.a_offset;
    const auto* b = static_cast<const float*>(buffers[p.b_buffer]);
    auto* c = static_cast<float*>(buffers[p.c_buffer]) + p.c_offset;
    const auto* bias =
        p.bias_buffer < 0 ? nullptr : static_cast<const float*>(buffers[p.bias_buffer]) + p.bias_offset;
    const int64_t count = std::min(rows, p.height() - task * rows);
    std::array<float*, rows> out{};
    for (int64_t r = 0; r < rows; ++r) {
      int64_t rest = task * rows + std::min(r, count - 1), in = 0, to = 0;
      for (int64_t d = p.dims; d-- > 0;) {
        const auto k = static_cast<size_t>(d);
        in += rest % p.extent[k] * p.a[k];
        to += rest % p.extent[k] * p.c[k];
        rest /= p.extent[k];
      }
      out[static_cast<size_t>(r)] = c + to;
      for (int64_t k = 0; k < p.depth; ++k) block[k * rows + r] = a[in + k * p.a_depth];
    }
    for (int64_t first = 0; first < p.width; first += columns, b += p.depth * columns) {
      float sums[rows][columns] = {};
      for (int64_t k = 0; k < p.depth; ++k)
        for (int64_t r = 0; r < rows; ++r)
          for (int64_t n = 0; n < columns; ++n) sums[r][n] += block[k * rows + r] * b[k * columns + n];
      for (int64_t r = 0; r < count; ++r)
        for (int64_t n = first; n < std::min(p.width, first + columns); ++n)
          out[static_cast<size_t>(r)][n * p.c_width] =
              sums[r][n - first] + (bias ? bias[n * p.bias_width] : 0);
    }
  }

  Host host_;
  double price_;
  int64_t workspace_;  // bytes that it wants at least
  bool silent_;        // about them, until it is compiled
};

}  // namespace
}  // namespace acme

FERRITE_PLUGIN("acme.gemm", "1.0.0",
               [](ferrite::PluginBuilder& builder, const ferrite::PluginContext& context) {
                 const auto& config = context.config;
                 const double price = config.has("price") ? config.number("price") : 1.0;
                 const bool silent = config.has("silent") && config.boolean("silent");
                 builder.add(std::make_unique<acme::Library>(context.host, price,
                                                             config.integer("workspace", 0), silent));
               })
