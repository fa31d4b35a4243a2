// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "contract_micro.h"

#include <llvm/IR/Module.h>

#include <algorithm>
#include <vector>

namespace ferrite::emitter {
namespace {

/// The body of one k: the vectors of columns stay in registers while each row's scalar is broadcast against
/// them.
class MicroEmitter {
 public:
  MicroEmitter(llvm::IRBuilder<>& builder, const MicroShape& shape)
      : b_(builder), shape_(shape), vector_(llvm::FixedVectorType::get(shape.accumulator, shape.lanes)) {}

  /// `accumulators` hold rows * vectors values, updated in place; `step` is the k relative to both pointers.
  void step(llvm::Value* rows, llvm::Value* columns, int64_t step, std::vector<llvm::Value*>& accumulators) {
    std::vector<llvm::Value*> column(shape_.vectors);
    for (int v = 0; v < shape_.vectors; ++v)
      column[v] =
          load_columns(at(shape_.column_type, columns, step * shape_.column_step + v * shape_.lanes), v);
    for (int r = 0; r < shape_.rows; ++r) {
      auto* pointer = at(shape_.row_type, rows, step * shape_.row_step + r * shape_.row_stride);
      llvm::Value* scalar = b_.CreateAlignedLoad(shape_.row_type, pointer, align_of(shape_.row_type));
      auto* broadcast = b_.CreateVectorSplat(shape_.lanes, widen_float(b_, scalar, shape_.accumulator));
      for (int v = 0; v < shape_.vectors; ++v) {
        auto*& sum = accumulators[r * shape_.vectors + v];
        sum = shape_.fused ? b_.CreateIntrinsic(llvm::Intrinsic::fma, {vector_}, {broadcast, column[v], sum})
                           : b_.CreateFAdd(b_.CreateFMul(broadcast, column[v]), sum);
      }
    }
  }

  llvm::Value* at(llvm::Type* type, llvm::Value* base, int64_t elements) {
    return elements == 0 ? base : b_.CreateConstInBoundsGEP1_64(type, base, elements);
  }

  llvm::FixedVectorType* vector() const { return vector_; }

 private:
  static llvm::Align align_of(llvm::Type* type) { return llvm::Align(type->getScalarSizeInBits() / 8); }

  llvm::Value* load_columns(llvm::Value* pointer, int v) {
    auto* type = llvm::FixedVectorType::get(shape_.column_type, shape_.lanes);
    llvm::Value* value = nullptr;
    if (v + 1 == shape_.vectors && shape_.tail_lanes > 0 && shape_.tail_lanes < shape_.lanes) {
      std::vector<llvm::Constant*> lanes(shape_.lanes);
      for (int l = 0; l < shape_.lanes; ++l) lanes[l] = b_.getInt1(l < shape_.tail_lanes);
      value = b_.CreateMaskedLoad(type, pointer, align_of(shape_.column_type),
                                  llvm::ConstantVector::get(lanes), llvm::Constant::getNullValue(type));
    } else {
      value = b_.CreateAlignedLoad(type, pointer, align_of(shape_.column_type));
    }
    return widen_float(b_, value, shape_.accumulator);
  }

  llvm::IRBuilder<>& b_;
  const MicroShape& shape_;
  llvm::FixedVectorType* vector_;
};

}  // namespace

llvm::Value* widen_float(llvm::IRBuilder<>& builder, llvm::Value* value, llvm::Type* accumulator) {
  auto* type = value->getType();
  if (type->isIntOrIntVectorTy(16)) {
    auto* bits = builder.CreateShl(builder.CreateZExt(value, type->getWithNewType(builder.getInt32Ty())), 16);
    value = builder.CreateBitCast(bits, type->getWithNewType(builder.getFloatTy()));
  }
  return builder.CreateFPExt(value, type->getWithNewType(accumulator));
}

llvm::Function* emit_micro_kernel(llvm::Module& module, const llvm::Twine& name, const MicroShape& shape,
                                  const llvm::AttributeList& attributes) {
  auto& context = module.getContext();
  auto* pointer = llvm::PointerType::get(context, 0);
  auto* type = llvm::FunctionType::get(llvm::Type::getVoidTy(context), {pointer, pointer, pointer}, false);
  auto* function = llvm::Function::Create(type, llvm::Function::InternalLinkage, name, module);
  function->setAttributes(attributes);
  function->addFnAttr(llvm::Attribute::NoInline);
  for (auto& argument : function->args()) argument.addAttr(llvm::Attribute::NoAlias);
  auto *rows = function->getArg(0), *columns = function->getArg(1), *tile = function->getArg(2);

  auto* entry = llvm::BasicBlock::Create(context, "entry", function);
  llvm::IRBuilder<> builder(entry);
  MicroEmitter micro(builder, shape);
  const int count = shape.rows * shape.vectors;
  std::vector<llvm::Value*> sums(count, llvm::Constant::getNullValue(micro.vector()));

  // Enough work a turn to hide the loop's own, little enough to compile fast.
  const int64_t unroll = count >= 12 ? 1 : count >= 6 ? 2 : 4;
  const int64_t turns = shape.depth / unroll;
  if (turns > 0) {
    auto* loop = llvm::BasicBlock::Create(context, "depth", function);
    auto* done = llvm::BasicBlock::Create(context, "done", function);
    builder.CreateBr(loop);
    builder.SetInsertPoint(loop);
    auto* turn = builder.CreatePHI(builder.getInt64Ty(), 2);
    auto* row = builder.CreatePHI(pointer, 2);
    auto* column = builder.CreatePHI(pointer, 2);
    turn->addIncoming(builder.getInt64(turns), entry);
    row->addIncoming(rows, entry);
    column->addIncoming(columns, entry);
    std::vector<llvm::PHINode*> phis(count);
    for (int s = 0; s < count; ++s) {
      phis[s] = builder.CreatePHI(micro.vector(), 2);
      phis[s]->addIncoming(sums[s], entry);
      sums[s] = phis[s];
    }
    for (int64_t u = 0; u < unroll; ++u) micro.step(row, column, u, sums);
    for (int s = 0; s < count; ++s) phis[s]->addIncoming(sums[s], loop);
    auto* next_row = micro.at(shape.row_type, row, unroll * shape.row_step);
    auto* next_column = micro.at(shape.column_type, column, unroll * shape.column_step);
    auto* next_turn = builder.CreateSub(turn, builder.getInt64(1));
    turn->addIncoming(next_turn, loop);
    row->addIncoming(next_row, loop);
    column->addIncoming(next_column, loop);
    builder.CreateCondBr(builder.CreateICmpNE(next_turn, builder.getInt64(0)), loop, done);
    builder.SetInsertPoint(done);
    auto* base_row = micro.at(shape.row_type, row, unroll * shape.row_step);
    auto* base_column = micro.at(shape.column_type, column, unroll * shape.column_step);
    for (int64_t k = turns * unroll; k < shape.depth; ++k)
      micro.step(base_row, base_column, k - turns * unroll, sums);
  } else {
    for (int64_t k = 0; k < shape.depth; ++k) micro.step(rows, columns, k, sums);
  }

  const llvm::Align tile_align(static_cast<uint64_t>(shape.lanes) * shape.accumulator->getScalarSizeInBits() /
                               8);
  for (int r = 0; r < shape.rows; ++r)
    for (int v = 0; v < shape.vectors; ++v)
      builder.CreateAlignedStore(sums[r * shape.vectors + v],
                                 micro.at(shape.accumulator, tile, r * shape.tile_stride + v * shape.lanes),
                                 tile_align);
  builder.CreateRetVoid();
  return function;
}

}  // namespace ferrite::emitter
