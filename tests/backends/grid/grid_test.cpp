// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// GPU kernels without a GPU: the tests of every backend, products with the matrix instructions of each
// architecture, and the tables of these instructions.
#include "backends/cuda/target.h"
#include "backends/hip/target.h"
#include "emulated_grid.h"
#include "ferrite/emitter/gpu_kernel.h"
#include "instructions.h"
#include "tests/backends/kernel_support.h"
#include "tests/backends/packed.h"

namespace ferrite::kernel_test {

/// "cuda ARCHITECTURE" or "hip ARCHITECTURE".
inline emitter::Target target_named(const std::string& description) {
  const auto space = description.find(' ');
  const auto device = description.substr(space + 1);
  return description.starts_with("hip") ? hip::target_of(hip::parse_device(device))
                                        : cuda::target_of(cuda::parse_device(device));
}

inline std::vector<std::string> targets_of(const Options& options) {
  if (!options.descriptions.empty() && options.descriptions[0].find(' ') != std::string::npos)
    return options.descriptions;
  // Each kernel runs on one of them, in turn, since compiling takes most of the time. Descriptions of other
  // backends are skipped.
  static const std::vector<std::string> all = {"cuda sm_90a", "hip gfx942", "hip gfx1100"};
  static size_t turn = 0;
  return {all[turn++ % all.size()]};
}

/// Divides the points of a single statement among tasks like the host.
inline Compiled compile(const loop::Kernel& given, const std::string& description) {
  auto kernel = given;
  if (kernel.statements.size() == 1)
    kernel.shared = static_cast<uint32_t>(kernel.statements[0].parallel_count());
  const auto target = target_named(description);
  std::vector<emitter::OperandLayout> layouts;
  if (const auto options = emitter::gpu_options(target, kernel); !options.empty())
    layouts = options[0].layouts;
  for (const auto& layout : layouts) {
    auto& buffer = kernel.buffers[layout.buffer];
    const std::vector<char> contents(static_cast<size_t>(buffer.bytes()));
    pack(layout, buffer, contents.data(), buffer.packing.emplace(), kernel.pool);
    buffer.strides.clear();
    buffer.offset = 0;
  }
  auto made = emulate_on_grid(kernel, target);
  Compiled compiled;
  compiled.tasks = made.blocks;
  compiled.text = std::move(made.text);
  if (!made.run) {
    ADD_FAILURE() << compiled.text;
    return compiled;
  }
  std::vector<loop::Buffer> buffers;  // unmodified
  std::vector<std::optional<emitter::OperandLayout>> wanted;
  for (loop::BufferId b = 0; b < given.buffers.size(); ++b) {
    if (given.buffers[b].kind == FE_BUFFER_LOCAL) continue;
    buffers.push_back(given.buffers[b]);
    const auto found = std::ranges::find(layouts, b, &emitter::OperandLayout::buffer);
    wanted.push_back(found == layouts.end() ? std::nullopt : std::optional(*found));
  }
  // Threads run forwards and backwards, in turn. Device memory is aligned to the widest access.
  static bool backwards = false;
  backwards = !backwards;
  compiled.run = [run = std::move(made.run), way = backwards, buffers, layouts = wanted](
                     void* const* arguments, int64_t* error, bool) {
    constexpr size_t access = 16;
    std::vector<std::unique_ptr<Guarded>> memory;
    std::vector<void*> aligned;
    for (size_t k = 0; k < buffers.size(); ++k) {
      const auto* from = static_cast<const char*>(arguments[k]);
      std::vector<char> bytes(from, from + buffers[k].bytes());
      if (layouts[k]) {
        loop::Packing packing;
        index::Pool pool;
        bytes = pack(*layouts[k], buffers[k], from, packing, pool);
      }
      memory.push_back(std::make_unique<Guarded>((bytes.size() + access - 1) / access * access));
      aligned.push_back(memory.back()->data);
      std::ranges::copy(bytes, memory.back()->data);
    }
    EXPECT_EQ(run(aligned.data(), error, way), "");
    for (size_t k = 0; k < buffers.size(); ++k)
      if (!layouts[k]) std::memcpy(arguments[k], aligned[k], static_cast<size_t>(buffers[k].bytes()));
  };
  return compiled;
}

}  // namespace ferrite::kernel_test

#include "tests/backends/convolution_kernel.h"
#include "tests/backends/kernel_conformance.h"

namespace ferrite::kernel_test {
namespace {

const std::vector<std::string> with_matrices = {"cuda sm_80", "hip gfx90a", "hip gfx942", "hip gfx1100",
                                                "hip gfx1201"};

using Matrix = emitter::GpuMachine::Matrix;
using Position = Matrix::Position;

Position place_of(const Matrix::Fragment& fragment, int64_t lane, const Position& at) {
  const int64_t quotient = lane / fragment.divisor, remainder = lane % fragment.divisor;
  return {at.line + quotient * fragment.quotient.line + remainder * fragment.remainder.line,
          at.depth + quotient * fragment.quotient.depth + remainder * fragment.remainder.depth};
}

/// Checks that the lanes' elements cover every position the same number of times.
void check_cover(const Matrix::Fragment& fragment, unsigned lanes, unsigned lines, unsigned depth) {
  std::vector<size_t> times(size_t{lines} * depth);
  for (unsigned lane = 0; lane < lanes; ++lane)
    for (const auto& element : fragment.elements) {
      const auto at = place_of(fragment, lane, element);
      ASSERT_LT(at.line, lines);
      ASSERT_LT(at.depth, depth);
      ++times[static_cast<size_t>(at.line * depth + at.depth)];
    }
  for (const size_t count : times) EXPECT_EQ(count, lanes * fragment.elements.size() / times.size());
  EXPECT_EQ(fragment.elements.size() % fragment.together, 0U);
}

/// Small integers, whose sums are all exact.
std::vector<double> numbers(size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<double> made(count);
  for (auto& number : made) number = static_cast<int>(random() % 17) - 8;
  return made;
}

/// The lanes' operands of the instruction and its results, arranged by the table.
class OneInstruction {
 public:
  OneInstruction(const Matrix& matrix, unsigned lanes)
      : matrix_(matrix),
        lanes_(lanes),
        a_(numbers(size_t{matrix.rows} * matrix.depth, 1)),
        b_(numbers(size_t{matrix.columns} * matrix.depth, 2)),
        c_(numbers(size_t{matrix.rows} * matrix.columns, 3)) {}

  void check() {
    std::vector<std::vector<std::vector<char>>> operands(lanes_);
    std::vector<std::vector<char>> results(lanes_);
    std::vector<std::vector<void*>> pointers(lanes_);
    std::vector<LaneOperands> offered(lanes_);
    const size_t sum_bytes = static_cast<size_t>(bits_of(matrix_.sum)) / 8;
    for (unsigned lane = 0; lane < lanes_; ++lane) {
      auto& mine = operands[lane];
      write(mine, matrix_.row, lane, matrix_.operand, a_, matrix_.depth);
      write(mine, matrix_.column, lane, matrix_.operand, b_, matrix_.depth);
      write(mine, matrix_.sums, lane, matrix_.sum, c_, matrix_.columns);
      for (auto& operand : mine) pointers[lane].push_back(operand.data());
      results[lane].resize(matrix_.sums.elements.size() * sum_bytes);
      offered[lane] = {pointers[lane].data(), results[lane].data()};
    }
    ASSERT_EQ(execute(matrix_.function.name, offered), "");
    for (unsigned lane = 0; lane < lanes_; ++lane)
      for (size_t e = 0; e < matrix_.sums.elements.size(); ++e) {
        const auto at = place_of(matrix_.sums, lane, matrix_.sums.elements[e]);
        double sum = c_[static_cast<size_t>(at.line * matrix_.columns + at.depth)];
        for (int64_t k = 0; k < matrix_.depth; ++k)
          sum += a_[static_cast<size_t>(at.line * matrix_.depth + k)] *
                 b_[static_cast<size_t>(at.depth * matrix_.depth + k)];
        ASSERT_EQ(read(matrix_.sum, results[lane].data() + e * sum_bytes), sum)
            << "lane " << lane << " element " << e;
      }
  }

 private:
  static void write(std::vector<std::vector<char>>& operands, const Matrix::Fragment& fragment, unsigned lane,
                    DType dtype, const std::vector<double>& values, int64_t inner) {
    const size_t bytes = static_cast<size_t>(bits_of(dtype)) / 8;
    for (size_t e = 0; e < fragment.elements.size(); ++e) {
      if (e % fragment.together == 0) operands.emplace_back();
      const auto at = place_of(fragment, lane, fragment.elements[e]);
      const uint64_t bits = Builder::bits(dtype, values[static_cast<size_t>(at.line * inner + at.depth)]);
      const auto* from = reinterpret_cast<const char*>(&bits);
      operands.back().insert(operands.back().end(), from, from + bytes);
    }
  }

  const Matrix& matrix_;
  const unsigned lanes_;
  const std::vector<double> a_, b_, c_;
};

TEST(MatrixInstructions, TablesAgreeWithTheManuals) {
  for (const auto& description : with_matrices) {
    const auto target = target_named(description);
    ASSERT_FALSE(target.grid->matrices.empty());
    for (const auto& matrix : target.grid->matrices) {
      SCOPED_TRACE(description + " " + matrix.function.name);
      check_cover(matrix.row, target.grid->warp, matrix.rows, matrix.depth);
      check_cover(matrix.column, target.grid->warp, matrix.columns, matrix.depth);
      check_cover(matrix.sums, target.grid->warp, matrix.rows, matrix.columns);
      EXPECT_EQ(matrix.sums.elements.size() * target.grid->warp, size_t{matrix.rows} * matrix.columns);
      OneInstruction(matrix, target.grid->warp).check();
    }
  }
}

TEST(MatrixInstructions, ArchitecturesWithoutThemHaveNone) {
  EXPECT_TRUE(target_named("hip gfx1030").grid->matrices.empty());
}

struct Product {
  DType dtype = f16;
  int64_t batch = 1, m = 64, n = 64, k = 64;
  bool transposed_a = false, transposed_b = false;
  int64_t unit = 1;  ///< rows in memory are multiples of that many elements apart
};

/// relu(a b + bias), both operands unchanged or transposed.
Builder product(const Product& shape) {
  Builder b;
  const auto dims = [&](bool transposed, int64_t rows, int64_t columns) {
    return transposed ? std::vector<int64_t>{shape.batch, columns, rows}
                      : std::vector<int64_t>{shape.batch, rows, columns};
  };
  const auto matrix = [&](uint32_t kind, const std::vector<int64_t>& given) {
    auto padded = given;
    padded.back() = (padded.back() + shape.unit - 1) / shape.unit * shape.unit;
    return b.buffer(shape.dtype, kind, given, loop::contiguous_strides(padded));
  };
  auto x = matrix(FE_BUFFER_INPUT, dims(shape.transposed_a, shape.m, shape.k));
  auto y = matrix(FE_BUFFER_INPUT, dims(shape.transposed_b, shape.k, shape.n));
  auto bias = b.input(shape.dtype, {shape.n});
  auto out = matrix(FE_BUFFER_OUTPUT, {shape.batch, shape.m, shape.n});
  auto v = b.begin(FE_STATEMENT_CONTRACT, {shape.batch, shape.m, shape.n}, {shape.k});
  const auto at = [&](bool transposed, Expr row, Expr column) {
    return transposed ? std::vector<Expr>{v[0], column, row} : std::vector<Expr>{v[0], row, column};
  };
  auto left = b.load(x, at(shape.transposed_a, v[1], v[3])),
       right = b.load(y, at(shape.transposed_b, v[3], v[2]));
  auto sum = b.contract(left, right);
  const auto type = compute_type(shape.dtype);
  auto more = b.load(bias, {v[2]});
  if (shape.dtype != type) more = b.prim(Prim::cast_, more, none, none, type);
  sum = b.prim(Prim::max_, b.prim(Prim::add_, sum, more), b.constant(type, 0));
  b.store(out, {v[0], v[1], v[2]}, sum);
  return b;
}

void check_product(const Product& shape) {
  SCOPED_TRACE(detail::concatenate(name_of(shape.dtype), " ", shape.batch, " x ", shape.m, " x ", shape.n,
                                   " x ", shape.k));
  for (const auto& description : with_matrices) {
    const auto target = target_named(description);
    const auto* matrix = target.grid->matrix_of(shape.dtype, shape.dtype == f64 ? f64 : f32);
    const auto built = product(shape);
    const auto text = compile(built.kernel, description).text;
    if (matrix) {
      EXPECT_NE(text.find(matrix->function.name + "("), std::string::npos) << description;
    }
    // The sums have another order than the interpreter's, and their terms of up to 4 cancel: the tolerance is
    // relative to the terms.
    check(built, {.tolerance = shape.dtype == f32   ? 1e-3
                               : shape.dtype == f64 ? 1e-11
                                                    : 0,
                  .descriptions = {description}});
    if (testing::Test::HasFatalFailure()) return;
  }
}

TEST(MatrixInstructions, Products) {
  for (const auto dtype : {f16, bf16, f32, f64}) {
    check_product({.dtype = dtype, .m = 70, .n = 72, .k = 80});
    if (HasFatalFailure()) return;
  }
}

// Rows of odd lengths that start at multiples of a vector: the last vectors are copied and stored partially.
TEST(Products, PaddedRows) {
  for (const bool a : {false, true})
    for (const bool b : {false, true}) {
      const Product shape{.dtype = bf16,
                          .batch = 2,
                          .m = 41,
                          .n = 43,
                          .k = 83,
                          .transposed_a = a,
                          .transposed_b = b,
                          .unit = 8};
      check_product(shape);
      if (HasFatalFailure()) return;
      const auto text = compile(product(shape).kernel, "cuda sm_80").text;
      EXPECT_NE(text.find("call void @llvm.nvvm.cp.async.cg.shared.global.16.s("), std::string::npos);
      EXPECT_EQ(text.find("call void @llvm.nvvm.cp.async.ca"), std::string::npos);
    }
}

// They are widened one by one, since no matrix instruction accepts them.
TEST(Products, FloatsOf8Bits) {
  for (const auto dtype : {f8e4m3, f8e5m2}) {
    check_product({.dtype = dtype, .m = 70, .n = 80, .k = 96});
    check_product({.dtype = dtype, .m = 33, .n = 41, .k = 19, .transposed_b = true});
    if (HasFatalFailure()) return;
  }
}

TEST(Products, BlocksShareTheDepth) {
  // Some steps are loaded before the loop and some inside it; the last one is partial.
  for (const auto dtype : {f16, f32}) {
    const auto built = product({.dtype = dtype, .m = 40, .n = 48, .k = 2040});
    const auto text = compile(built.kernel, "cuda sm_90a").text;
    EXPECT_NE(text.find("llvm.nvvm.mapa"), std::string::npos);
    check(built, {.tolerance = dtype == f32 ? 1e-2 : 0, .descriptions = {"cuda sm_90a"}});
  }
}

/// Sums over rows of values that each row and column stores in-place of an operand, and the maximum with its
/// row.
Builder columns(DType dtype, int64_t batch, int64_t rows, int64_t n, int64_t stride) {
  Builder b;
  auto x = b.buffer(dtype, FE_BUFFER_OUTPUT, {batch, rows, n}, {rows * stride, stride, 1});
  auto scale = b.input(f32, {rows});
  auto chosen = b.input(i64, {rows});
  auto sums = b.output(dtype, {batch, n}), most = b.output(i64, {batch, n});
  auto v = b.begin(FE_STATEMENT_REDUCE, {batch, n}, {rows});
  auto at = b.index_value(b.indirect(b.load(chosen, {v[2]}), n, FE_INDIRECT_CLAMP));
  auto is_chosen = b.prim(Prim::eq_, b.index_value(v[1]), at);
  auto value = b.prim(Prim::mul_, b.cast(b.load(x, {v[0], v[2], v[1]}), f32), b.load(scale, {v[2]}));
  auto stored = b.cast(b.prim(Prim::where_, is_chosen, b.constant(f32, 3), value, f32), dtype);
  b.store(x, {v[0], v[2], v[1]}, stored);
  b.store(sums, {v[0], v[1]}, b.cast(b.reduce(FE_REDUCE_SUM, b.cast(stored, f32)), dtype));
  b.store(most, {v[0], v[1]}, b.reduce(FE_REDUCE_ARGMAX, b.cast(stored, f32), b.index_value(v[2])));
  return b;
}

// Rows whose last vector is partial use vectors if all rows start at multiples of a vector. Of other rows, a
// thread of the row's block has four elements.
TEST(Map, VectorsOfPaddedRows) {
  constexpr int64_t rows = 40, n = 1003, vectors = 251, threads = 256;  // f32: four at a time
  for (const int64_t stride : {1008, 1003}) {
    Builder b;
    auto x = b.buffer(bf16, FE_BUFFER_INPUT, {rows, n}, {1008, 1}), shift = b.input(bf16, {n});
    auto out = b.buffer(bf16, FE_BUFFER_OUTPUT, {rows, n}, {stride, 1});
    auto v = b.begin(FE_STATEMENT_MAP, {rows, n});
    b.store(out, {v[0], v[1]}, b.prim(Prim::add_, b.load(x, {v[0], v[1]}), b.load(shift, {v[1]})));
    const int64_t blocks = stride == n ? rows : (rows * vectors + threads - 1) / threads;
    EXPECT_EQ(compile(b.kernel, "cuda sm_90a").tasks, blocks);
    check(b);
    if (HasFatalFailure()) return;
  }
}

/// A HIP dispatch counts its threads in 32 bits; a CUDA launch counts only its blocks, in 31.
TEST(Map, GridsLargerThanALaunch) {
  const auto emit = [](const std::string& description, int64_t elements) {
    Builder b;
    auto x = b.input(i8, {elements}), out = b.output(i8, {elements});
    auto v = b.begin(FE_STATEMENT_MAP, {elements});
    b.store(out, {v[0]}, b.prim(Prim::neg_, b.load(x, {v[0]})));
    auto kernel = b.kernel;
    kernel.shared = 1;
    llvm::LLVMContext context;
    const auto made = emitter::emit_gpu_kernel(context, target_named(description), kernel, "k");
    return made.blocks * made.threads;
  };
  EXPECT_EQ(emit("cuda sm_90a", int64_t{1} << 37), int64_t{1} << 33);  // 16 elements per thread
  EXPECT_EQ(emit("hip gfx942", int64_t{1} << 35), int64_t{1} << 31);
  try {
    emit("hip gfx942", int64_t{1} << 37);
    ADD_FAILURE() << "it is not declined";
  } catch (const Failure& failure) {
    EXPECT_NE(std::string(failure.what()).find("more than one launch takes"), std::string::npos);
  }
  EXPECT_THROW(emit("cuda sm_90a", int64_t{1} << 44), Failure);
}

// Too few results for the device: a block covers a line of columns.
TEST(Reduce, BlocksOfColumns) {
  for (const auto* description : {"cuda sm_90a multiprocessors=4", "hip gfx942 multiprocessors=4"})
    for (const auto dtype : {f32, bf16}) {
      const int64_t of_line = 128 * 8 / bits_of(dtype);
      const auto tasks = [&](const Builder& b) { return compile(b.kernel, description).tasks; };
      // Whole lines; rows with aligned starts and a remainder; rows with unaligned starts.
      for (const auto& [n, stride] : {std::pair<int64_t, int64_t>{2 * of_line, 2 * of_line},
                                      {of_line + 13, of_line + 16},
                                      {of_line + 13, of_line + 13}}) {
        const auto built = columns(dtype, 2, 150, n, stride);
        EXPECT_EQ(tasks(built), 2 * 2);
        check(built, {.tolerance = 1e-4, .descriptions = {description}});
        if (HasFatalFailure()) return;
      }
      auto larger = std::string(description);
      larger.back() = '8';
      EXPECT_NE(compile(columns(dtype, 1, 150, of_line, of_line).kernel, larger).tasks,
                1);  // a single block would leave seven of eight multiprocessors idle
      // There are enough results for a thread each, but threads of narrow elements would read less than a
      // line together.
      EXPECT_EQ(tasks(columns(dtype, 1 << 13, 150, of_line, of_line)) == 1 << 13, dtype == bf16);
    }
}

TEST(MatrixInstructions, TransposedAndBatchedProducts) {
  for (const auto dtype : {f16, f32})
    for (const bool a : {false, true})
      for (const bool b : {false, true}) {
        if (!a && !b) continue;
        check_product(
            {.dtype = dtype, .batch = 2, .m = 40, .n = 24, .k = 41, .transposed_a = a, .transposed_b = b});
        if (HasFatalFailure()) return;
      }
}

/// Scatters whose row order is visible keep the model's order: one thread per column, wherever the loop over
/// rows is.
TEST(OrderedScatters, AThreadForEachPlaceThatNoIndexMoves) {
  for (const auto& [dtype, mode] :
       {std::pair(f32, FE_STORE_SET), {f16, FE_STORE_MUL}, {i64, FE_STORE_MUL}, {f8e4m3, FE_STORE_ADD}})
    for (const bool columns_first : {false, true}) {
      constexpr int64_t rows = 13, heads = 3, columns = 700;
      Builder b;
      auto ids = b.input(i64, {rows}), updates = b.input(dtype, {rows, heads, columns}),
           out = b.output(dtype, {heads, 5, columns});
      const auto v =
          b.begin(FE_STATEMENT_SCATTER, columns_first ? std::vector<int64_t>{columns, rows, heads}
                                                      : std::vector<int64_t>{rows, heads, columns});
      const auto row = v[columns_first ? 1 : 0], head = v[columns_first ? 2 : 1],
                 column = v[columns_first ? 0 : 2];
      const auto place = b.indirect(b.load(ids, {row}), 5, FE_INDIRECT_CLAMP);
      b.store(out, {head, place, column}, b.load(updates, {row, head, column}), mode);
      Options options;
      options.exact = true;
      options.set = [&](loop::BufferId buffer, char* data) {
        for (int64_t k = 0; buffer == ids && k < rows; ++k) {
          const int64_t value = k * 3 % 5;
          std::memcpy(data + k * 8, &value, 8);
        }
      };
      options.descriptions = {"cuda sm_90a"};
      const auto compiled = compile(b.kernel, "cuda sm_90a");
      EXPECT_GE(compiled.tasks, heads * columns / 1024);
      EXPECT_EQ(compiled.text.find("cmpxchg"), std::string::npos);
      check(b, options);
      if (HasFatalFailure()) return;
    }
}

/// The first element shares its word with elements before it. If the last element's word would reach past the
/// end, the order is the model's.
TEST(CombiningScatters, NarrowElementsAreExchangedWithTheWordThatTheyLieIn) {
  for (const auto dtype : {boolean, i8, u8, i16, u16, f16, bf16, f8e5m2})
    for (const auto& [mode, places] :
         {std::pair(FE_STORE_MAX, 335), {FE_STORE_MIN, 335}, {FE_STORE_MIN, 334}}) {
      SCOPED_TRACE(detail::concatenate("mode ", mode, " ", name_of(dtype), " ", places));
      constexpr int64_t updates = 2000;
      Builder b;
      const auto ids = b.input(i64, {updates}), from = b.input(dtype, {updates}),
                 out = b.output(dtype, {places});
      b.kernel.buffers[out].offset = 1;
      const auto v = b.begin(FE_STATEMENT_SCATTER, {updates});
      const auto place = b.indirect(b.load(ids, {v[0]}), places, FE_INDIRECT_CLAMP);
      b.store(out, {place}, b.load(from, {v[0]}), mode);
      Options options;
      options.exact = true;
      options.set = [&, places = places](loop::BufferId buffer, char* data) {
        if (buffer != ids && is_float(dtype)) fill_for_every_order(b.kernel.buffers[buffer], data);
        for (int64_t k = 0; buffer == ids && k < updates; ++k) {
          const int64_t value = k * 7 % places;
          std::memcpy(data + k * 8, &value, 8);
        }
      };
      options.descriptions = {"cuda sm_90a", "hip gfx942"};
      const bool at_once = places == 335;  // after an offset of one
      for (const auto& machine : options.descriptions) {
        const auto compiled = compile(b.kernel, machine);
        EXPECT_EQ(compiled.tasks > 1, at_once) << machine;
        EXPECT_EQ(compiled.text.find("cmpxchg") != std::string::npos, at_once) << machine;
        EXPECT_EQ(compiled.text.find("= phi i64") == std::string::npos, at_once) << machine;
      }
      check(b, options);
      if (HasFatalFailure()) return;
    }
}

/// The neighbour in the word is not changed; if the neighbour belongs to another buffer, the sums are made in
/// order.
TEST(CombiningScatters, FloatsOf16BitsAreAddedInPairs) {
  for (const auto dtype : {f16, bf16})
    for (const int64_t offset : {0, 1, 2}) {
      SCOPED_TRACE(detail::concatenate(name_of(dtype), " from ", offset, " on"));
      constexpr int64_t updates = 2000, places = 334;
      Builder b;
      const auto ids = b.input(i64, {updates}), from = b.input(dtype, {updates}),
                 out = b.output(dtype, {places});
      b.kernel.buffers[out].offset = offset;
      const auto v = b.begin(FE_STATEMENT_SCATTER, {updates});
      const auto place = b.indirect(b.load(ids, {v[0]}), places, FE_INDIRECT_CLAMP);
      b.store(out, {place}, b.load(from, {v[0]}), FE_STORE_ADD);
      Options options;
      options.exact = true;
      options.set = [&](loop::BufferId buffer, char* data) {
        if (buffer != ids) fill_for_every_order(b.kernel.buffers[buffer], data);
        // Positions that are multiples of 3 get no update and keep zeros and the smallest numbers. This
        // machine may have no bf16 denormals.
        const uint16_t smallest = dtype == f16 ? 1 : 0x80;
        const uint16_t untouched[] = {0x8000, 0, smallest, static_cast<uint16_t>(0x8000 | smallest)};
        for (int64_t k = 0; buffer == out && k < places; k += 3) {
          std::memcpy(data + (offset + k) * 2, &untouched[k % 4], 2);
        }
        for (int64_t k = 0; buffer == ids && k < updates; ++k) {
          const int64_t value = k * 5 % (places / 3) * 3 + 1 + k % 2;
          std::memcpy(data + k * 8, &value, 8);
        }
      };
      options.descriptions = {"cuda sm_80", "cuda sm_90a", "hip gfx942", "hip gfx1100"};
      const bool pairs = (places + offset) % 2 == 0;
      for (const auto& [machine, has_them] : {std::pair("cuda sm_80", dtype == f16),
                                              {"cuda sm_90a", true},
                                              {"hip gfx942", true},
                                              {"hip gfx1100", false}}) {
        const auto compiled = compile(b.kernel, machine);
        EXPECT_EQ(compiled.tasks > 1, pairs && has_them) << machine;
        EXPECT_EQ(compiled.text.find("= phi i64") == std::string::npos, pairs && has_them) << machine;
      }
      check(b, options);
      if (HasFatalFailure()) return;
    }
}

/// Lines of shared memory are copied unchanged, with zeros for window positions outside the image, and
/// weights are packed accordingly.
TEST(Convolutions, CopyWholeChannels) {
  const std::string copy = "llvm.nvvm.cp.async.cg.shared.global.16";
  for (auto shape : {Conv{.channels = 16, .filters = 24},
                     {.batch = 2, .channels = 64, .filters = 32, .height = 8, .width = 6, .stride = 2},
                     {.channels = 24, .filters = 16, .dilation = 2, .pad = 2},
                     {.channels = 16, .filters = 16, .pad = 0},
                     {.channels = 32, .filters = 48, .groups = 2},
                     {.channels = 16, .filters = 24, .then_map = true}}) {
    shape.dtype = f16;
    shape.channels_last = true;
    SCOPED_TRACE(detail::concatenate(shape.channels, " -> ", shape.filters, " step ", shape.stride));
    const auto built = conv(shape);
    const auto text = compile(built.kernel, "cuda sm_90a").text;
    EXPECT_NE(text.find(copy), std::string::npos);
    EXPECT_EQ(text.find("= load half"), std::string::npos);
    check(built, {.descriptions = {"cuda sm_90a"}});
    if (HasFatalFailure()) return;
  }
}

TEST(Convolutions, OrdersAndTypes) {
  for (const auto dtype : {f16, f32})
    for (const bool last : {false, true})
      for (const uint32_t weights : {FE_BUFFER_CONSTANT, FE_BUFFER_INPUT})
        for (const int64_t channels : {int64_t{3}, int64_t{16}}) {
          SCOPED_TRACE(detail::concatenate(name_of(dtype), " ", channels, last ? " last" : "", " ", weights));
          check(conv({.dtype = dtype,
                      .channels = channels,
                      .filters = 16,
                      .channels_last = last,
                      .weights = weights}),
                {.tolerance = dtype == f32 ? 1e-3 : 0,
                 .descriptions = {"cuda sm_90a", "hip gfx942", "hip gfx1100"}});
          if (HasFatalFailure()) return;
        }
}

}  // namespace
}  // namespace ferrite::kernel_test
