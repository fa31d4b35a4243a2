// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <llvm/IR/IntrinsicsX86.h>
#include <llvm/IR/Module.h>

#include <algorithm>
#include <array>

#include "backends/llvm/cpu/gemm/micro.h"
#include "backends/llvm/gemm/tile_sizes.h"
#include "ferrite/emitter/kernel_context.h"

namespace ferrite::emitter {
namespace {

/// Numbers of the AMX registers. The sums of (register of rows, register of columns) are in 2 * r + c, so 0
/// to 3.
constexpr int first_rows = 4, first_columns = 6;

/// The operand of ldtilecfg: palette 1, then by register the bytes of a row from offset 16 on (16 bits
/// each) and the rows from offset 48 on.
llvm::GlobalVariable* configuration(llvm::Module& module, const llvm::Twine& name, const MicroShape& shape) {
  std::array<uint8_t, 64> bytes{};
  bytes[0] = 1;
  const auto set = [&](int index, int rows) {
    const auto number = static_cast<size_t>(index);
    bytes[16 + 2 * number] = amx_row_bytes;
    bytes[48 + number] = static_cast<uint8_t>(rows);
  };
  for (int r = 0; r * amx_rows < shape.rows; ++r) {
    const int rows = std::min(amx_rows, shape.rows - r * amx_rows);
    set(first_rows + r, rows);
    for (int c = 0; c < shape.vectors; ++c) set(2 * r + c, rows);
  }
  for (int c = 0; c < shape.vectors; ++c) set(first_columns + c, amx_rows);
  auto* data = llvm::ConstantDataArray::get(module.getContext(), llvm::ArrayRef<uint8_t>(bytes));
  auto* global = new llvm::GlobalVariable(module, data->getType(), true, llvm::GlobalValue::PrivateLinkage,
                                          data, name + ".registers");
  global->setAlignment(llvm::Align(64));
  return global;
}

}  // namespace

llvm::Function* emit_amx_kernel(llvm::Module& module, const llvm::Twine& name, const MicroShape& shape,
                                const llvm::AttributeList& attributes) {
  auto& context = module.getContext();
  auto* pointer = llvm::PointerType::get(context, 0);
  auto* function = micro_function(module, name, shape, attributes);
  auto *rows = function->getArg(0), *columns = function->getArg(1), *tile = function->getArg(2);

  auto* entry = llvm::BasicBlock::Create(context, "entry", function);
  auto* outer = llvm::BasicBlock::Create(context, "trip", function);
  auto* loop = llvm::BasicBlock::Create(context, "depth", function);
  auto* next = llvm::BasicBlock::Create(context, "next", function);
  auto* done = llvm::BasicBlock::Create(context, "done", function);
  llvm::IRBuilder<> b(entry);
  const int row_registers = (shape.rows + amx_rows - 1) / amx_rows;
  const auto at = [&](llvm::Value* base, int64_t bytes) {
    return b.CreateConstInBoundsGEP1_64(b.getInt8Ty(), base, static_cast<uint64_t>(bytes));
  };
  const auto call = [&](llvm::Intrinsic::ID id, std::initializer_list<llvm::Value*> arguments) {
    b.CreateIntrinsic(id, {}, arguments);
  };
  const auto each_sum = [&](const auto& body) {
    for (int r = 0; r < row_registers; ++r)
      for (int c = 0; c < shape.vectors; ++c) body(r, c, b.getInt8(static_cast<uint8_t>(2 * r + c)));
  };
  const auto element = static_cast<int64_t>(sizeof(uint16_t)), sum = static_cast<int64_t>(sizeof(float));
  const int64_t width = shape.column_step * element;  // bytes of one depth step of a panel

  call(llvm::Intrinsic::x86_ldtilecfg, {configuration(module, name, shape)});
  each_sum([&](int, int, llvm::Value* number) { call(llvm::Intrinsic::x86_tilezero, {number}); });
  b.CreateBr(outer);
  b.SetInsertPoint(outer);
  const MicroLoop around = shape.loops.empty() ? MicroLoop{} : shape.loops[0];
  auto* trips = b.CreatePHI(b.getInt64Ty(), 2);
  auto* trip_rows = b.CreatePHI(pointer, 2);
  auto* trip_columns = b.CreatePHI(pointer, 2);
  trips->addIncoming(shape.counted ? static_cast<llvm::Value*>(function->getArg(3))
                                   : b.getInt64(static_cast<uint64_t>(around.trips)),
                     entry);
  trip_rows->addIncoming(rows, entry);
  trip_columns->addIncoming(columns, entry);
  b.CreateBr(loop);
  b.SetInsertPoint(loop);
  auto* step = b.CreatePHI(b.getInt64Ty(), 2);
  auto* row = b.CreatePHI(pointer, 2);
  auto* column = b.CreatePHI(pointer, 2);
  step->addIncoming(b.getInt64(static_cast<uint64_t>(shape.depth / amx_depth)), outer);
  row->addIncoming(trip_rows, outer);
  column->addIncoming(trip_columns, outer);
  for (int r = 0; r < row_registers; ++r)
    call(llvm::Intrinsic::x86_tileloadd64,
         {b.getInt8(static_cast<uint8_t>(first_rows + r)), at(row, r * amx_rows * shape.row_stride * element),
          b.getInt64(static_cast<uint64_t>(shape.row_stride * element))});
  // A row of a register of columns holds two interleaved depth steps, so its stride is two steps.
  for (int c = 0; c < shape.vectors; ++c)
    call(llvm::Intrinsic::x86_tileloadd64,
         {b.getInt8(static_cast<uint8_t>(first_columns + c)), at(column, c * amx_row_bytes),
          b.getInt64(static_cast<uint64_t>(2 * width))});
  // The prefetches are between loads and multiplications, which leave the load ports idle.
  for (int64_t line = 0; shape.prefetches && line < shape.prefetched_lines; ++line)
    KernelContext::prefetch(
        b, b.CreateGEP(b.getInt8Ty(), at(column, line * cache_line), function->getArg(shape.counted ? 4 : 3)),
        false, KernelContext::Level::second);
  each_sum([&](int r, int c, llvm::Value* number) {
    call(llvm::Intrinsic::x86_tdpbf16ps, {number, b.getInt8(static_cast<uint8_t>(first_rows + r)),
                                          b.getInt8(static_cast<uint8_t>(first_columns + c))});
  });
  auto* left = b.CreateSub(step, b.getInt64(1));
  auto* next_columns = at(column, amx_depth * width);
  step->addIncoming(left, loop);
  row->addIncoming(at(row, amx_row_bytes), loop);
  column->addIncoming(next_columns, loop);
  b.CreateCondBr(b.CreateICmpNE(left, b.getInt64(0)), loop, next);
  b.SetInsertPoint(next);
  auto* trips_left = b.CreateSub(trips, b.getInt64(1));
  trips->addIncoming(trips_left, next);
  trip_rows->addIncoming(at(trip_rows, around.row_step * element), next);
  trip_columns->addIncoming(next_columns, next);
  b.CreateCondBr(b.CreateICmpNE(trips_left, b.getInt64(0)), outer, done);
  b.SetInsertPoint(done);
  each_sum([&](int r, int c, llvm::Value* number) {
    call(llvm::Intrinsic::x86_tilestored64,
         {number, at(tile, (r * amx_rows * shape.tile_stride + c * shape.lanes) * sum),
          b.getInt64(static_cast<uint64_t>(shape.tile_stride * sum))});
  });
  // AMX registers in use would make later context switches save them.
  call(llvm::Intrinsic::x86_tilerelease, {});
  b.CreateRetVoid();
  return function;
}

}  // namespace ferrite::emitter
