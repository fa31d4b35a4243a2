// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The micro-kernel that moves along a row of register blocks: the row operand stays in registers, while the
// columns and the tile advance.
#include <llvm/IR/Module.h>

#include <vector>

#include "backends/llvm/cpu/gemm/micro.h"
#include "ferrite/emitter/kernel_context.h"

namespace ferrite::emitter {
namespace {

class FewRowsEmitter {
 public:
  FewRowsEmitter(llvm::Function* function, const MicroShape& shape)
      : b_(llvm::BasicBlock::Create(function->getContext(), "entry", function)),
        function_(function),
        shape_(shape),
        vector_(llvm::FixedVectorType::get(shape.accumulator, static_cast<unsigned>(shape.lanes))) {}

  void emit() {
    // The row elements of all steps are loop-invariant: broadcast them once.
    for (int64_t k = 0; k < shape_.depth; ++k)
      for (int64_t r = 0; r < shape_.rows; ++r) {
        auto* place = at(shape_.row_type, function_->getArg(0), r * shape_.row_stride + k * shape_.row_step);
        auto* element = b_.CreateAlignedLoad(shape_.row_type, place, align_of(shape_.row_type));
        rows_.push_back(b_.CreateVectorSplat(static_cast<unsigned>(shape_.lanes),
                                             widen_float(b_, element, shape_.accumulator)));
      }
    auto* entry = b_.GetInsertBlock();
    auto* loop = llvm::BasicBlock::Create(b_.getContext(), "run", function_);
    b_.CreateBr(loop);
    b_.SetInsertPoint(loop);
    auto* left = b_.CreatePHI(b_.getInt64Ty(), 2);
    auto* columns = b_.CreatePHI(b_.getPtrTy(), 2);
    auto* tile = b_.CreatePHI(b_.getPtrTy(), 2);
    left->addIncoming(function_->getArg(3), entry);
    columns->addIncoming(function_->getArg(1), entry);
    tile->addIncoming(function_->getArg(2), entry);
    block(columns, tile);
    const int64_t width = int64_t{shape_.vectors} * shape_.lanes;
    auto* next = b_.CreateSub(left, b_.getInt64(1));
    left->addIncoming(next, loop);
    columns->addIncoming(at(shape_.column_type, columns, width), loop);
    tile->addIncoming(at(shape_.accumulator, tile, width), loop);
    auto* done = llvm::BasicBlock::Create(b_.getContext(), "done", function_);
    b_.CreateCondBr(b_.CreateICmpNE(next, b_.getInt64(0)), loop, done);
    b_.SetInsertPoint(done);
    b_.CreateRetVoid();
  }

 private:
  llvm::Value* at(llvm::Type* type, llvm::Value* base, int64_t elements) {
    return elements == 0 ? base : b_.CreateConstInBoundsGEP1_64(type, base, static_cast<uint64_t>(elements));
  }
  static llvm::Align align_of(llvm::Type* type) { return llvm::Align(type->getScalarSizeInBits() / 8); }

  void block(llvm::Value* columns, llvm::Value* tile) {
    const auto bytes = static_cast<uint64_t>(shape_.lanes) * shape_.accumulator->getScalarSizeInBits() / 8;
    std::vector<llvm::Value*> places, sums;
    for (int64_t r = 0; r < shape_.rows; ++r)
      for (int64_t v = 0; v < shape_.vectors; ++v) {
        places.push_back(at(shape_.accumulator, tile, r * shape_.tile_stride + v * shape_.lanes));
        sums.push_back(b_.CreateAlignedLoad(vector_, places.back(), llvm::Align(bytes)));
      }
    auto* type = llvm::FixedVectorType::get(shape_.column_type, static_cast<unsigned>(shape_.lanes));
    for (int64_t k = 0; k < shape_.depth; ++k)
      for (int64_t v = 0; v < shape_.vectors; ++v) {
        auto* place = at(shape_.column_type, columns, k * shape_.column_step + v * shape_.lanes);
        prefetch(place);
        auto* column = widen_float(b_, b_.CreateAlignedLoad(type, place, align_of(shape_.column_type)),
                                   shape_.accumulator);
        for (int64_t r = 0; r < shape_.rows; ++r) {
          auto*& sum = sums[static_cast<size_t>(r * shape_.vectors + v)];
          sum = multiply_add(b_, shape_, rows_[static_cast<size_t>(k * shape_.rows + r)], column, sum);
        }
      }
    for (size_t s = 0; s < sums.size(); ++s) b_.CreateAlignedStore(sums[s], places[s], llvm::Align(bytes));
  }
  /// Prefetches the columns some steps later; the last steps prefetch past the operand, which is harmless.
  void prefetch(llvm::Value* place) {
    auto* later = b_.CreateConstGEP1_64(shape_.column_type, place,
                                        static_cast<uint64_t>(shape_.ahead * shape_.column_step));
    KernelContext::prefetch(b_, later, false, KernelContext::Level::second);
  }

  llvm::IRBuilder<> b_;
  llvm::Function* function_;
  const MicroShape& shape_;
  llvm::FixedVectorType* vector_;
  std::vector<llvm::Value*> rows_;  // by depth step, then by row: the element, broadcast to all lanes
};

}  // namespace

llvm::Function* emit_few_rows_kernel(llvm::Module& module, const llvm::Twine& name, const MicroShape& shape,
                                     const llvm::AttributeList& attributes) {
  auto* function = micro_function(module, name, micro_type(module.getContext(), true, false), attributes);
  for (unsigned k = 0; k < 3; ++k) function->addParamAttr(k, llvm::Attribute::NoAlias);
  FewRowsEmitter(function, shape).emit();
  return function;
}

}  // namespace ferrite::emitter
