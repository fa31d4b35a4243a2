// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Recorded programs of every kind of statement, for tests of text forms and containers.
#pragma once

#include <memory>

#include "tests/core/ir/loop_support.h"

namespace ferrite::core::loop::test {

inline void record_map(Recording& r) {
  r.buffer(Role::input, f32, {8, 128});
  r.program.buffers[0].name = "x \"quoted\"";
  r.buffer(Role::output, bf16, {8, 128});
  r.bind();
  auto i = r.begin({8, 128});
  auto y = r.prim(Prim::mul_, r.load(1, i), r.constant(0.1f));
  y = r.prim(Prim::max_, r.prim(Prim::add_, y, r.constant(f32, 0x7fc00001)), r.constant(-INFINITY));
  r.store(2, i, r.prim(Prim::cast_, y, 0, 0, bf16));
  r.end();
}

inline void record_reduce(Recording& r) {
  r.buffer(Role::input, f32, {6, 40});
  r.buffer(Role::output, i64, {6});
  r.bind();
  const auto largest = r.temp(f32, {6});
  auto i = r.begin({6}, {40});
  auto x = r.load(1, {i[0], i[1]});
  auto arg = r.reduce(FE_REDUCE_ARGMAX, x, r.value(i[1]));
  r.store(largest, {i[0]}, r.prim(Prim::exp_, r.reduce(FE_REDUCE_SUM, x)));
  r.store(2, {i[0]}, arg);
  r.end();
}

/// A convolution of stride 2 with padding.
inline void record_contract(Recording& r) {
  r.buffer(Role::input, f32, {1, 3, 9, 9});
  r.buffer(Role::input, f32, {4, 3, 3, 3});
  r.buffer(Role::output, f32, {1, 4, 5, 5});
  r.bind();
  auto v = r.begin({1, 4, 5, 5}, {3, 3, 3});
  auto at = [&](uint32_t out, uint32_t k) {
    return r.index(FE_INDEX_ADD, r.index(FE_INDEX_ADD, r.index(FE_INDEX_MUL, out, r.index(int64_t{2})), k),
                   r.index(int64_t{-1}));
  };
  auto y = at(v[2], v[5]), x = at(v[3], v[6]);
  auto inside = [&](uint32_t index) {
    return r.prim(Prim::and_, r.prim(Prim::ge_, r.value(index), r.constant(i64, 0)),
                  r.prim(Prim::lt_, r.value(index), r.constant(i64, 9)));
  };
  auto image = r.load(1, {v[0], v[4], y, x}, r.prim(Prim::and_, inside(y), inside(x)), r.constant(0.0f));
  r.store(3, {v[0], v[1], v[2], v[3]},
          r.contract(image, r.load(2, {v[1], v[4], v[5], v[6]}), FE_CONTRACT_CONV));
  r.end();
}

inline void record_scatter(Recording& r) {
  r.buffer(Role::input, i64, {5});
  r.buffer(Role::input, f16, {5, 2});
  r.buffer(Role::output, f16, {8, 2});
  r.bind();
  auto i = r.begin({8, 2});
  r.store(3, i, r.constant(f16, 0));
  r.end();
  i = r.begin({5, 2});
  auto row = r.indirect(r.load(1, {i[0]}), 8);
  r.store(3, {row, i[1]}, r.load(2, i), FE_STORE_ADD);
  r.end();
}

inline void record_serial(Recording& r) {
  r.buffer(Role::input, f64, {4, 16});
  r.buffer(Role::output, f64, {4, 16});
  r.bind();
  auto i = r.begin({4}, {}, {16});
  auto sum = r.carry(f64, std::bit_cast<uint64_t>(0.5));
  auto next = r.prim(Prim::add_, sum, r.load(1, i));
  r.set_carry(sum, next);
  auto mask = r.prim(Prim::ge_, r.value(i[1]), r.constant(i64, 0));
  r.store(2, i, next, FE_STORE_SET, r.prim(Prim::and_, mask, r.prim(Prim::gt_, next, sum)));
  r.end();
}

/// Views: transposes, reshapes through div and mod, reversal, a clipped index.
inline void record_views(Recording& r) {
  r.buffer(Role::input, i8, {6, 4});
  r.program.buffers[0].strides = {1, 6};
  r.program.buffers[0].offset = 3;
  r.program.buffers[0].alignment = 16;
  r.buffer(Role::output, i8, {3, 8});
  r.bind();
  auto i = r.begin({3, 8});
  auto flat = r.index(FE_INDEX_ADD, r.index(FE_INDEX_MUL, i[0], r.index(int64_t{8})), i[1]);
  auto reversed =
      r.index(FE_INDEX_ADD, r.index(int64_t{23}), r.index(FE_INDEX_MUL, flat, r.index(int64_t{-1})));
  auto row = r.index(FE_INDEX_FLOORDIV, reversed, r.index(int64_t{4})),
       column = r.index(FE_INDEX_MOD, flat, r.index(int64_t{4}));
  auto clipped =
      r.index(FE_INDEX_MAX, r.index(FE_INDEX_MIN, r.index(FE_INDEX_ADD, row, i[1]), r.index(int64_t{5})),
              r.index(int64_t{0}));
  r.store(2, i, r.prim(Prim::add_, r.load(1, {row, column}), r.load(1, {clipped, column})));
  r.end();
}

inline void record_call(Recording& r) {
  r.buffer(Role::input, f32, {4});
  r.buffer(Role::output, f32, {4});
  r.bind();
  uint32_t reads[] = {1}, writes[] = {2};
  fe_call_args args{};
  args.function = [](void*, fe_call*, const fe_kernel_call_args*, fe_none*) -> int32_t { return FE_OK; };
  args.reads = {reads, 1, sizeof(uint32_t)};
  args.writes = {writes, 1, sizeof(uint32_t)};
  args.name = {"no operation", 12};
  fe_none none{};
  r.slot(r.recorder.api()->call, args, &none);
}

/// All of the above; `calls` too.
inline std::vector<std::unique_ptr<Recording>> samples(bool calls) {
  std::vector<void (*)(Recording&)> recorders = {record_map,     record_reduce, record_contract,
                                                 record_scatter, record_serial, record_views};
  if (calls) recorders.push_back(record_call);
  std::vector<std::unique_ptr<Recording>> result;
  for (auto* record : recorders) {
    auto& r = *result.emplace_back(std::make_unique<Recording>());
    record(r);
    EXPECT_EQ(r.code, "") << r.text;
    r.finish();
  }
  return result;
}

/// The whole program as one kernel; versions become buffers of their own that a copy fills, so none may be
/// left.
inline Kernel kernel_of(const LoopProgram& program) {
  Kernel kernel;
  kernel.pool = program.pool;
  for (const auto& buffer : program.buffers) kernel.buffers.push_back(buffer);
  for (const auto& statement : program.statements) {
    kernel.statements.push_back(statement);
    for (auto& store : kernel.statements.back().stores) store.buffer = program.storage(store.buffer);
    for (auto& op : kernel.statements.back().ops)
      if (op.code == FE_OP_LOAD) op.buffer = program.storage(op.buffer);
  }
  return kernel;
}

}  // namespace ferrite::core::loop::test
