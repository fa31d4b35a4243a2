// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The emitter passes the tests of every backend, vectorises, and compiles for other machines.
#include "emitter_support.h"
#include "ferrite/emitter/rematerialise.h"
#include "kernel_conformance.h"

namespace ferrite::kernel_test {
namespace {

TEST(Map, LoopAndMaskedTail) {
  auto compiled = compile(exp_of_sum(f32, 1000003).kernel, this_machine());
  EXPECT_NE(compiled.text.find("vector.body"), std::string::npos);
  EXPECT_NE(compiled.text.find("vector.tail"), std::string::npos);
  EXPECT_GT(compiled.tasks, 4);
}

// ---- memory orders

/// Strided reads are shuffled from contiguous vectors; masks are expanded if the machine has masked loads.
TEST(Map, NoGatherOfElementsInSteps) {
  for (int64_t step : {2, 3, 4})
    for (bool times : {false, true}) {
      if (times && step == 3)
        continue;  // the start of a vector within repeated elements depends on the vector
      Builder b;
      const int64_t n = 83;
      auto x = b.input(f32, {times ? (n - 1) / step + 1 : (n - 1) * step + 1}), out = b.output(f32, {n});
      auto i = b.begin(FE_STATEMENT_MAP, {n});
      b.store(out, {i[0]}, b.load(x, {times ? b.kernel.pool.floordiv(i[0], step) : b.mul(i[0], step)}));
      for (const auto& description : targets_of({})) {
        const auto text = compile(b.kernel, description).text;
        EXPECT_EQ(text.find("masked.gather"), std::string::npos) << description;
        if (description.find("v2") != std::string::npos && step == 4 && !times)
          continue;  // it takes four vectors for the elements of one, so gathering is as good
        EXPECT_NE(text.find("vector.body"), std::string::npos) << description;
        EXPECT_NE(text.find("shufflevector"), std::string::npos) << description;
      }
    }
}

/// This machine and lower levels of its architecture, with other cache sizes.
std::vector<std::string> with_caches(const std::string& caches) {
  auto descriptions = targets_of({});
  for (auto& description : descriptions) description += " " + caches;
  return descriptions;
}

TEST(Map, BlocksOfTransposedReads) {
  for (auto dtype : {f32, f64, bf16, f16, i8, boolean})
    for (auto [m, n] : {std::pair<int64_t, int64_t>(16, 16), {17, 200}, {200, 17}, {130, 70}, {200, 260}}) {
      SCOPED_TRACE(detail::concatenate(name_of(dtype), " ", m, "x", n));
      Builder b;
      auto x = b.input(dtype, {2, n, m}), y = b.input(dtype, {n, m}), z = b.input(dtype, {2, m, n}),
           out = b.output(dtype, {2, m, n});
      auto i = b.begin(FE_STATEMENT_MAP, {2, m, n});
      auto transposed = b.prim(Prim::max_, b.load(x, {i[0], i[2], i[1]}), b.load(y, {i[2], i[1]}));
      b.store(out, {i[0], i[1], i[2]}, b.prim(Prim::min_, transposed, b.load(z, {i[0], i[1], i[2]})));
      check(b, {.special = true});
      if (HasFatalFailure()) return;
      if (m < 64 || n < 64) continue;
      const auto text = compile(b.kernel, this_machine()).text;
      EXPECT_NE(text.find("block.square"), std::string::npos);
      EXPECT_EQ(text.find("masked.gather"), std::string::npos);
    }
}

TEST(Map, BlocksInManyTasks) {
  Builder b;
  auto x = b.input(f32, {500, 700}), out = b.output(f32, {700, 500});
  auto i = b.begin(FE_STATEMENT_MAP, {700, 500});
  b.store(out, {i[0], i[1]}, b.load(x, {i[1], i[0]}));
  check(b);
  EXPECT_GT(compile(b.kernel, this_machine()).tasks, 4);
}

TEST(Map, StreamingStores) {
  const auto descriptions = with_caches("last=1");
  for (auto dtype : {f32, bf16, f64, i8})
    for (int64_t n : {2048, 2049, 100000}) {
      SCOPED_TRACE(detail::concatenate(name_of(dtype), " ", n));
      Builder b;
      auto x = b.input(dtype, {n}), out = b.output(dtype, {n});
      auto i = b.begin(FE_STATEMENT_MAP, {n});
      auto value = b.load(x, {i[0]});
      b.store(out, {i[0]}, b.prim(Prim::add_, value, value));
      check(b, {.descriptions = descriptions});
      if (HasFatalFailure()) return;
      const auto text = compile(b.kernel, descriptions[0]).text;
      EXPECT_NE(text.find("!nontemporal"), std::string::npos);
      EXPECT_NE(text.find("sfence"), std::string::npos);
      EXPECT_EQ(compile(b.kernel, this_machine()).text.find("!nontemporal"), std::string::npos);
    }
}

/// Results that are read again, accumulated or written in short runs stay in the caches.
TEST(Map, NoStreamingStores) {
  Builder again;
  auto x = again.input(f32, {40, 1024}), kept = again.output(f32, {40, 1024}), out = again.output(f32, {40});
  auto i = again.begin(FE_STATEMENT_MAP, {40, 1024});
  again.store(kept, {i[0], i[1]}, again.prim(Prim::neg_, again.load(x, {i[0], i[1]})));
  auto r = again.begin(FE_STATEMENT_REDUCE, {40}, {1024});
  again.store(out, {r[0]}, again.reduce(FE_REDUCE_MAX, again.load(kept, {r[0], r[1]})));
  again.kernel.shared = 1;
  Builder ragged;
  auto y = ragged.input(f32, {40, 1001}), rows = ragged.buffer(f32, FE_BUFFER_OUTPUT, {40, 1001}, {1003, 1});
  auto j = ragged.begin(FE_STATEMENT_MAP, {40, 1001});
  ragged.store(rows, {j[0], j[1]}, ragged.load(y, {j[0], j[1]}));
  for (const auto& built : {again, ragged})
    for (const auto& description : with_caches("last=1"))
      EXPECT_EQ(compile(built.kernel, description).text.find("!nontemporal"), std::string::npos);
}

TEST(Reduce, StripsOfRows) {
  const auto descriptions = with_caches("l1=2048 l2=1");
  for (auto kind : {FE_REDUCE_SUM, FE_REDUCE_MAX, FE_REDUCE_PROD})
    for (auto dtype : {f32, bf16, i32, f64})
      for (auto [rows, columns] : {std::pair<int64_t, int64_t>(40, 1000), {19, 77}, {16, 128}}) {
        SCOPED_TRACE(detail::concatenate(kind, " ", name_of(dtype), " ", rows, "x", columns));
        check(reduction(kind, dtype, {rows, columns, 1}, 1),
              {.special = kind == FE_REDUCE_MAX, .tolerance = 1e-4, .descriptions = descriptions});
        if (HasFatalFailure()) return;
      }
  // Several reductions, a store at each element, and an epilogue.
  Builder b;
  auto x = b.input(f32, {3, 5, 21, 300}), weight = b.input(f32, {21}),
       squares = b.output(f32, {3, 5, 21, 300}), out = b.output(f32, {3, 300});
  auto v = b.begin(FE_STATEMENT_REDUCE, {3, 300}, {5, 21});
  auto element = b.load(x, {v[0], v[2], v[3], v[1]});
  auto square = b.prim(Prim::mul_, element, b.load(weight, {v[3]}));
  b.store(squares, {v[0], v[2], v[3], v[1]}, square);
  auto sum = b.reduce(FE_REDUCE_SUM, square), most = b.reduce(FE_REDUCE_MAX, element);
  b.store(out, {v[0], v[1]}, b.prim(Prim::add_, sum, most));
  check(b, {.tolerance = 1e-4, .descriptions = descriptions});
  EXPECT_NE(compile(b.kernel, descriptions[0]).text.find("strip"), std::string::npos);
}

TEST(Rows, NextRowIsAskedFor) {
  const auto descriptions = with_caches("l2=16384");
  check(softmax(6, 1000, f32), {.tolerance = 1e-5, .descriptions = descriptions});
  EXPECT_NE(compile(softmax(6, 1000, f32).kernel, descriptions[0]).text.find("llvm.prefetch"),
            std::string::npos);
  EXPECT_EQ(compile(softmax(6, 1000, f32).kernel, this_machine()).text.find("llvm.prefetch"),
            std::string::npos);
}

bool is_a_row_late(const Builder& built, const std::string& description) {
  return compile(built.kernel, description).text.find("row.late:") != std::string::npos;
}

/// Results that bypass the caches are interleaved with the next row.
TEST(Rows, ResultsARowLate) {
  const auto descriptions = with_caches("last=1 l2=8192");
  for (int64_t n : {256, 1008, 1024}) {
    SCOPED_TRACE(n);
    for (auto dtype : {f32, bf16, f64}) {
      check(softmax(7, n, dtype), {.tolerance = 1e-5, .descriptions = descriptions});
      EXPECT_TRUE(is_a_row_late(softmax(7, n, dtype), descriptions[0])) << name_of(dtype);
    }
    check(layer_norm(3, 4, n), {.tolerance = 1e-4, .descriptions = descriptions});
    EXPECT_TRUE(is_a_row_late(layer_norm(3, 4, n), descriptions[0]));
    EXPECT_FALSE(is_a_row_late(layer_norm(3, 4, n), this_machine()));
    if (HasFatalFailure()) return;
  }
  check(softmax(1, 1024, f32), {.tolerance = 1e-5, .descriptions = descriptions});
}

/// If operands that all rows share leave no room for a delayed row in the first-level cache, results are
/// written for several rows together, after the other statements of these rows. Remaining rows are processed
/// one by one.
TEST(Rows, ResultsOfSeveralRows) {
  constexpr int64_t n = 1024, row_bytes = 4 * n;
  const auto is_in_blocks = [](const Builder& built, const std::string& description) {
    return compile(built.kernel, description).text.find("block.row:") != std::string::npos;
  };
  const auto with_l1 = [](int64_t bytes) {
    return with_caches("last=1 l2=16384 l1=" + std::to_string(bytes));
  };
  // The cache fits a row, the scale and the bias; a delayed row would need the next row twice in addition.
  const auto descriptions = with_l1(3 * row_bytes);
  for (const int64_t rows : {1, 3, 4, 7, 13}) {
    SCOPED_TRACE(rows);
    for (const auto& built : {layer_norm(1, rows, n), layer_norm(3, rows, n), layer_norm(rows, 2, n - 8)}) {
      check(built, {.tolerance = 1e-4, .descriptions = descriptions});
      if (HasFatalFailure()) return;
    }
  }
  const auto norm = layer_norm(3, 4, n);
  EXPECT_TRUE(is_in_blocks(norm, descriptions[0]));
  EXPECT_FALSE(is_a_row_late(norm, descriptions[0]));
  // All three statements that read the next rows prefetch them.
  const auto text = compile(norm.kernel, descriptions[0]).text;
  const auto begin = text.find("\nblock.row:"), end = text.find("\nrow.end:", begin);
  ASSERT_NE(end, std::string::npos);
  const std::string_view blocks(text.data() + begin, end - begin), call = "call void @llvm.prefetch";
  int asked = 0;
  for (auto at = blocks.find(call); at != std::string_view::npos; at = blocks.find(call, at + 1)) ++asked;
  EXPECT_GE(asked, 1 + 1 + 4);
  EXPECT_FALSE(is_in_blocks(norm, with_l1(3 * row_bytes - 1)[0]));
  EXPECT_FALSE(is_in_blocks(norm, with_l1(5 * row_bytes)[0]));
  EXPECT_TRUE(is_a_row_late(norm, with_l1(5 * row_bytes)[0]));
  EXPECT_FALSE(is_in_blocks(norm, this_machine()));
  // LOCAL rows that exist for one row at a time are not kept for several rows.
  EXPECT_FALSE(is_in_blocks(softmax(8, n, f32), descriptions[0]));
}

/// A row's value is no longer available if the next row overwrote it before the vector that reads it.
TEST(Rows, ResultsOfTheSameRow) {
  const auto descriptions = with_caches("last=1");
  enum class Row { by_first, reversed, in_output, once, in_thirds };
  for (const auto how : {Row::by_first, Row::reversed, Row::in_output, Row::once, Row::in_thirds}) {
    SCOPED_TRACE(static_cast<int>(how));
    constexpr int64_t rows = 6, n = 512;
    Builder b;
    auto x = b.input(f32, {rows, n}), out = b.output(f32, {rows, n});
    auto sum = b.buffer(f32, FE_BUFFER_LOCAL, {rows}, {0}),
         most = b.buffer(f32, FE_BUFFER_LOCAL, {rows}, {0});
    auto row =
        how == Row::in_output ? b.output(f32, {rows, n}) : b.buffer(f32, FE_BUFFER_LOCAL, {rows, n}, {0, 1});
    b.kernel.shared = 1;
    auto& pool = b.kernel.pool;
    const auto read_at = [&](auto& v) {
      return how == Row::once ? pool.constant(0) : how == Row::in_thirds ? pool.floordiv(v[1], 3) : v[1];
    };
    const auto keep = [&](auto& v, auto element) {
      const index::Term back[] = {{v[1], -1}};
      b.store(row, {v[0], how == Row::reversed ? pool.linear(n - 1, back) : read_at(v)},
              b.prim(Prim::neg_, element));
    };
    auto v = b.begin(FE_STATEMENT_REDUCE, {rows}, {n});
    auto element = b.load(x, {v[0], v[1]});
    if (how == Row::by_first) keep(v, element);
    b.store(most, {v[0]}, b.reduce(FE_REDUCE_MAX, element));
    v = b.begin(FE_STATEMENT_REDUCE, {rows}, {n});
    element = b.load(x, {v[0], v[1]});
    if (how == Row::reversed || how == Row::in_output || how == Row::in_thirds) keep(v, element);
    auto total = b.reduce(FE_REDUCE_SUM, element);
    if (how == Row::once) keep(v, total);
    b.store(sum, {v[0]}, b.prim(Prim::add_, total, b.load(most, {v[0]})));
    v = b.begin(FE_STATEMENT_MAP, {rows, n});
    b.store(out, {v[0], v[1]}, b.prim(Prim::mul_, b.load(row, {v[0], read_at(v)}), b.load(sum, {v[0]})));
    check(b, {.tolerance = 1e-4, .descriptions = descriptions});
    EXPECT_FALSE(is_a_row_late(b, descriptions[0]));
    EXPECT_NE(compile(b.kernel, descriptions[0]).text.find("!nontemporal"), std::string::npos);
    if (HasFatalFailure()) return;
  }
}

bool keeps_nan(const Builder& built, const std::string& description) {
  return compile(built.kernel, description).text.find("llvm.maximum") != std::string::npos;
}

/// If a row contains a NaN, the maximum of its softmax does not matter: the sum is NaN, too.
TEST(Rows, NanComesBySum) {
  for (auto dtype : {f32, bf16})
    for (int64_t n : {2, 5, 16, 33, 400}) {
      SCOPED_TRACE(fmt::format("{} {}", name_of(dtype), n));
      for (const auto& description : {this_machine(), with_caches("last=1 l2=8192")[0]}) {
        EXPECT_FALSE(keeps_nan(softmax(60, n, dtype), description));
        check(softmax(60, n, dtype), {.special = true, .tolerance = 1e-5, .descriptions = {description}});
      }
      auto rematerialised = softmax(60, n, dtype);
      ASSERT_TRUE(emitter::rematerialise(rematerialised.kernel));
      EXPECT_FALSE(keeps_nan(rematerialised, this_machine()));
      check(rematerialised, {.special = true, .tolerance = 1e-5});
      if (HasFailure()) return;
    }
}

/// Values stored without the sum, or with a sum over a part of the row, depend on the maximum.
TEST(Rows, NanComesByMaximum) {
  enum class Stored { maximum, difference, power, sum_of_others, sum_of_half, chosen };
  for (const auto what : {Stored::maximum, Stored::difference, Stored::power, Stored::sum_of_others,
                          Stored::sum_of_half, Stored::chosen}) {
    SCOPED_TRACE(static_cast<int>(what));
    constexpr int64_t rows = 40, n = 64;
    Builder b;
    auto x = b.input(f32, {rows, n}), y = b.input(f32, {rows, n}), out = b.output(f32, {rows, n});
    auto sum = b.buffer(f32, FE_BUFFER_LOCAL, {rows}, {0}),
         most = what == Stored::maximum ? b.output(f32, {rows}) : b.buffer(f32, FE_BUFFER_LOCAL, {rows}, {0});
    b.kernel.shared = 1;
    const auto power = [&](auto& v, auto from) {
      const auto difference = b.prim(Prim::sub_, b.load(from, {v[0], v[1]}), b.load(most, {v[0]}));
      return what == Stored::difference ? difference : b.prim(Prim::exp_, difference);
    };
    auto v = b.begin(FE_STATEMENT_REDUCE, {rows}, {n});
    b.store(most, {v[0]}, b.reduce(FE_REDUCE_MAX, b.load(x, {v[0], v[1]})));
    v = b.begin(FE_STATEMENT_REDUCE, {rows}, {what == Stored::sum_of_half ? n / 2 : n});
    b.store(sum, {v[0]}, b.reduce(FE_REDUCE_SUM, power(v, what == Stored::sum_of_others ? y : x)));
    v = b.begin(FE_STATEMENT_MAP, {rows, n});
    auto value = power(v, x);
    if (what == Stored::chosen)
      value =
          b.prim(Prim::where_, b.prim(Prim::lt_, b.load(y, {v[0], v[1]}), value), b.load(sum, {v[0]}), value);
    else if (what != Stored::difference && what != Stored::power)
      value = b.prim(Prim::div_, value, b.load(sum, {v[0]}));
    b.store(out, {v[0], v[1]}, value);
    EXPECT_TRUE(keeps_nan(b, this_machine()));
    check(b, {.special = true, .tolerance = 1e-4});
    if (HasFailure()) return;
  }
}

/// Empty rows need no tasks.
TEST(Rows, Empty) {
  Builder b;
  auto x = b.input(f32, {5, 0}), first = b.output(f32, {5, 0}), second = b.output(f32, {5, 0});
  b.kernel.shared = 1;
  for (auto out : {first, second}) {
    auto v = b.begin(FE_STATEMENT_MAP, {5, 0});
    b.store(out, {v[0], v[1]}, b.load(x, {v[0], v[1]}));
  }
  EXPECT_EQ(compile(b.kernel, this_machine()).tasks, 0);
}

// ---- rematerialised rows

/// All outputs of the interpreter, for inputs that depend only on the buffers.
std::vector<double> interpreted(const loop::Kernel& kernel) {
  std::vector<std::vector<std::byte>> memory;
  Filler filler(1, false);
  for (const auto& buffer : kernel.buffers) {
    memory.emplace_back(static_cast<size_t>(buffer.bytes()));
    if (buffer.kind != FE_BUFFER_LOCAL)
      filler.fill(buffer.dtype, reinterpret_cast<char*>(memory.back().data()), buffer.extent());
  }
  std::vector<core::loop::Memory> spans(memory.begin(), memory.end());
  EXPECT_TRUE(core::loop::evaluate(kernel, spans));
  std::vector<double> outputs;
  for (size_t b = 0; b < memory.size(); ++b) {
    const auto& buffer = kernel.buffers[b];
    const auto* data = reinterpret_cast<const char*>(memory[b].data());
    for (int64_t e = 0; e < buffer.extent() && buffer.kind == FE_BUFFER_OUTPUT; ++e)
      outputs.push_back(read(buffer.dtype, data + bytes_of(buffer.dtype, e)));
  }
  return outputs;
}

TEST(Looped, RowsAreComputedAgain) {
  for (auto dtype : {f32, bf16, f64})
    for (int64_t n : {2, 31, 1000}) {
      const auto kept = softmax(5, n, dtype);
      auto rematerialised = kept;
      ASSERT_TRUE(emitter::rematerialise(rematerialised.kernel));
      size_t local_rows = 0;
      for (const auto& buffer : rematerialised.kernel.buffers)
        local_rows += buffer.kind == FE_BUFFER_LOCAL && buffer.extent() > 1;
      EXPECT_EQ(local_rows, 0u);
      // Rows that are kept round their elements.
      const auto expected = interpreted(kept.kernel), got = interpreted(rematerialised.kernel);
      ASSERT_EQ(got.size(), expected.size());
      for (size_t e = 0; e < got.size(); ++e)
        ASSERT_NEAR(got[e], expected[e], (tolerance_of(dtype) + 1e-6) * std::abs(expected[e])) << e;
      check(rematerialised, {.tolerance = 1e-5});
      EXPECT_FALSE(emitter::rematerialise(rematerialised.kernel));
      if (HasFailure()) return;
    }
}

/// Rows that depend on data that the kernel changes later, and rows of sums, are kept.
TEST(Looped, RowsThatAreKept) {
  for (const bool changed : {false, true}) {
    Builder b;
    auto x = b.input(f32, {4, 50, 7}), out = b.output(f32, {4, 50});
    auto row = b.buffer(f32, FE_BUFFER_LOCAL, {4, 50}, {0, 1});
    b.kernel.shared = 1;
    if (changed) {
      auto v = b.begin(FE_STATEMENT_MAP, {4, 50});
      b.store(out, {v[0], v[1]}, b.load(x, {v[0], v[1], b.kernel.pool.constant(3)}));
      v = b.begin(FE_STATEMENT_MAP, {4, 50});
      b.store(row, {v[0], v[1]}, b.prim(Prim::exp_, b.load(out, {v[0], v[1]})));
    } else {
      auto v = b.begin(FE_STATEMENT_REDUCE, {4, 50}, {7});
      b.store(row, {v[0], v[1]}, b.reduce(FE_REDUCE_SUM, b.load(x, {v[0], v[1], v[2]})));
    }
    auto v = b.begin(FE_STATEMENT_MAP, {4, 50});
    b.store(out, {v[0], v[1]}, b.prim(Prim::neg_, b.load(row, {v[0], v[1]})));
    check(b, {.tolerance = 1e-5});
    EXPECT_FALSE(emitter::rematerialise(b.kernel)) << changed;
  }
}

// ---- other machines

TEST(CrossCompile, Aarch64) {
  auto target = cpu::parse_target("triple=aarch64-unknown-linux-gnu cpu=cortex-a76");
  emitter::Machines machines;
  emitter::Machine machine(machines, target);
  llvm::LLVMContext context;
  for (const auto& built : {exp_of_sum(f32, 1000), exp_of_sum(bf16, 33), softmax(4, 100, f16),
                            reduction(FE_REDUCE_ARGMAX, f32, {8, 70}, 2)}) {
    auto emitted = emitter::emit_kernel(context, target, built.kernel, "kernel");
    machine.optimise(*emitted.module);
    EXPECT_EQ(machine.object(*emitted.module).substr(1, 3), "ELF");
  }
}

TEST(Target, BadDescriptions) {
  for (const char* text :
       {"cpu=nonsense", "triple=mars-unknown", "colour=red", "l1=big", "triple=nvptx64-x-x", "last=0"})
    EXPECT_THROW(cpu::parse_target(text), Failure) << text;
}

}  // namespace
}  // namespace ferrite::kernel_test
