// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Products around a softmax whose rows exceed the caches: streaming softmax processes a tile of columns at a
// time, and must agree with the interpreter's whole rows.
#include "emitter_support.h"

namespace ferrite::kernel_test {
namespace {

struct Attention {
  int64_t batch = 2, rows = 37, columns = 403, depth = 20, features = 24;
  DType dtype = f32;
  bool causal = false;      ///< columns after the row are masked by an index
  bool divides = false;     ///< exponentials are divided by their sum, not multiplied by its reciprocal
  bool transposed = false;  ///< columns have the order [depth, column], like the values
  bool finished = false;    ///< the second product has an epilogue
};

/// Inputs: rows, columns, values, and the addend of the scores.
Builder attention(const Attention& a) {
  Builder b;
  const auto local = [&](DType dtype, std::vector<int64_t> dims) {
    std::vector<int64_t> strides(dims.size());
    strides.back() = 1;
    return b.buffer(dtype, FE_BUFFER_LOCAL, std::move(dims), std::move(strides));
  };
  auto q = b.input(a.dtype, {a.batch, a.rows, a.depth}),
       k = b.input(a.dtype, a.transposed ? std::vector{a.batch, a.depth, a.columns}
                                         : std::vector{a.batch, a.columns, a.depth}),
       v = b.input(a.dtype, {a.batch, a.columns, a.features}), added = b.input(f32, {a.rows, a.columns}),
       out = b.output(a.dtype, {a.batch, a.rows, a.features});
  auto scores = local(a.dtype, {a.batch, a.rows, a.columns}),
       powers = local(f32, {a.batch, a.rows, a.columns}),
       weights = local(a.dtype, {a.batch, a.rows, a.columns}), most = local(f32, {a.batch, a.rows, 1}),
       sum = local(f32, {a.batch, a.rows, 1});
  b.kernel.shared = 2;
  const auto zero = b.kernel.pool.constant(0);
  const auto contract = [&](OpId x, OpId y) {
    auto& statement = b.statement();
    statement.contract_kind = FE_CONTRACT_GEMM;
    statement.contract_a = x;
    statement.contract_b = y;
    return b.reduce(FE_REDUCE_SUM, b.prim(Prim::mul_, b.cast(x, f32), b.cast(y, f32)));
  };
  auto i = b.begin(FE_STATEMENT_CONTRACT, {a.batch, a.rows, a.columns}, {a.depth});
  b.store(scores, {i[0], i[1], i[2]},
          contract(b.load(q, {i[0], i[1], i[3]}),
                   b.load(k, a.transposed ? std::vector{i[0], i[3], i[2]} : std::vector{i[0], i[2], i[3]})));
  const auto score = [&](Expr batch, Expr row, Expr column) {
    auto value =
        b.prim(Prim::add_, b.cast(b.load(scores, {batch, row, column}), f32), b.load(added, {row, column}));
    if (!a.causal) return value;
    auto behind = b.prim(Prim::gt_, b.index_value(column), b.index_value(row));
    return b.prim(Prim::where_, behind, b.constant(f32, -std::numeric_limits<double>::infinity()), value);
  };
  i = b.begin(FE_STATEMENT_REDUCE, {a.batch, a.rows}, {a.columns});
  b.store(most, {i[0], i[1], zero}, b.reduce(FE_REDUCE_MAX, score(i[0], i[1], i[2])));
  i = b.begin(FE_STATEMENT_REDUCE, {a.batch, a.rows}, {a.columns});
  auto power =
      b.prim(Prim::exp_, b.prim(Prim::sub_, score(i[0], i[1], i[2]), b.load(most, {i[0], i[1], zero})));
  auto all = b.reduce(FE_REDUCE_SUM, power);
  b.store(powers, {i[0], i[1], i[2]}, power);
  b.store(sum, {i[0], i[1], zero}, a.divides ? all : b.prim(Prim::reciprocal_, all));
  i = b.begin(FE_STATEMENT_MAP, {a.batch, a.rows, a.columns});
  b.store(weights, {i[0], i[1], i[2]},
          b.prim(a.divides ? Prim::div_ : Prim::mul_, b.load(powers, {i[0], i[1], i[2]}),
                 b.load(sum, {i[0], i[1], zero})));
  i = b.begin(FE_STATEMENT_CONTRACT, {a.batch, a.rows, a.features}, {a.columns});
  auto result = contract(b.load(weights, {i[0], i[1], i[3]}), b.load(v, {i[0], i[3], i[2]}));
  if (a.finished) result = b.prim(Prim::add_, b.prim(Prim::tanh_, result), b.constant(f32, 0.5));
  b.store(out, {i[0], i[1], i[2]}, result);
  return b;
}

constexpr loop::BufferId values_buffer = 2, added_buffer = 3;

/// Machines with caches so small that a quarter of the second level holds tiles of few columns, and half of
/// the last level holds no attention block.
std::vector<std::string> small_caches() {
  std::vector<std::string> result;
  for (const auto& target : targets_of({})) result.push_back(target + " l2=131072 l3=131072");
  return result;
}

bool is_running(const std::string& text) { return text.find("running") != std::string::npos; }

/// Operands that keep scores small, values whose sums do not cancel, and an addend of the scores that is zero
/// except for `change` of (row, column).
void check_running(const Attention& a, const std::function<float(int64_t, int64_t)>& change = {}) {
  const auto built = attention(a);
  Options options;
  options.descriptions = small_caches();
  for (const auto& target : options.descriptions)
    ASSERT_TRUE(is_running(compile(built.kernel, target).text)) << target;
  options.tolerance = a.dtype == f32 ? 4e-5 : a.dtype == f16 ? 4e-3 : 3e-2;
  options.set = [&](loop::BufferId buffer, char* data) {
    const auto bytes = static_cast<size_t>(bits_of(a.dtype)) / 8;
    const int64_t counts[] = {a.batch * a.rows * a.depth, a.batch * a.columns * a.depth,
                              a.batch * a.columns * a.features};
    if (buffer <= values_buffer)
      for (int64_t e = 0; e < counts[buffer]; ++e) {
        auto* at = data + static_cast<size_t>(e) * bytes;
        const double value = read(a.dtype, at) / 2;
        const uint64_t bits = Builder::bits(a.dtype, buffer == values_buffer ? 1 + std::abs(value) : value);
        std::memcpy(at, &bits, bytes);
      }
    if (buffer == added_buffer)
      for (int64_t r = 0; r < a.rows; ++r)
        for (int64_t c = 0; c < a.columns; ++c)
          reinterpret_cast<float*>(data)[r * a.columns + c] = change ? change(r, c) : 0.0F;
  };
  check(built, options);
}

TEST(StreamingSoftmax, AreTakenWhereWholeRowsDoNotFit) {
  const auto built = attention({});
  for (const auto& target : targets_of({})) {
    EXPECT_TRUE(is_running(compile(built.kernel, target + " l2=131072 l3=131072").text));
    EXPECT_FALSE(is_running(compile(built.kernel, target + " l2=1048576 l3=16777216").text));
  }
}

TEST(StreamingSoftmax, WorkspaceIsThatOfATile) {
  const auto workspace = [](int64_t columns) {
    llvm::LLVMContext context;
    const auto target = cpu::parse_target(small_caches()[0]);
    return emitter::emit_kernel(context, target, attention({.columns = columns}).kernel, "kernel")
        .workspace_bytes;
  };
  EXPECT_EQ(workspace(5120), workspace(512000));
}

TEST(StreamingSoftmax, Types) {
  for (const auto dtype : {f32, f16, bf16}) check_running({.dtype = dtype});
}

TEST(StreamingSoftmax, Shapes) {
  for (const Attention& a :
       {Attention{.batch = 1, .rows = 200, .columns = 512, .depth = 64, .features = 64},
        Attention{.divides = true}, Attention{.transposed = true}, Attention{.finished = true},
        Attention{.causal = true, .finished = true},
        Attention{.rows = 70, .columns = 430, .depth = 3, .features = 100, .transposed = true}})
    check_running(a);
}

/// Scores that rise from tile to tile, so that each tile rescales the previous sums; and scores that fall.
TEST(StreamingSoftmax, Slopes) {
  check_running({}, [](int64_t row, int64_t column) {
    return static_cast<float>((row % 2 == 0 ? 1 : -1) * column) * 0.3F;
  });
}

TEST(StreamingSoftmax, MaskedAndSpecialScores) {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  check_running({}, [](int64_t row, int64_t column) {
    switch (row) {
      case 0: return -infinity;                             // all columns: NaN
      case 1: return column < 250 ? -infinity : 0.0F;       // the first tiles
      case 2: return column > 70 ? -infinity : 0.0F;        // the last tiles
      case 3: return column == 100 ? 0.0F : -infinity;      // all columns but one
      case 4: return column == 7 ? std::nanf("") : 0.0F;    // NaN from the first tile on
      case 5: return column == 402 ? std::nanf("") : 0.0F;  // NaN in the last tile
      case 6: return column == 0 ? infinity : 0.0F;         // NaN as inf - inf
      case 7: return column == 330 ? infinity : -infinity;
      case 8: return column < 200 ? 3e38F : -3e38F;
      case 9: return column < 200 ? -3e38F : 3e38F;
      default: return 0.0F;
    }
  });
}

}  // namespace
}  // namespace ferrite::kernel_test
