// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "backends/llvm/cpu/gemm/micro.h"

#include <llvm/IR/Module.h>

#include <algorithm>
#include <vector>

#include "ferrite/emitter/kernel_context.h"

namespace ferrite::emitter {
namespace {

/// Emits one depth step: the column vectors stay in registers, and each row's scalar is broadcast and
/// multiplied with them.
class MicroEmitter {
 public:
  MicroEmitter(llvm::IRBuilder<>& builder, const MicroShape& shape, llvm::Value* prefetch_distance)
      : b_(builder),
        shape_(shape),
        prefetch_distance_(prefetch_distance),
        vector_(llvm::FixedVectorType::get(shape.accumulator, shape.lanes)) {}

  /// `accumulators` holds rows * vectors values and is updated in place; `step` is relative to both pointers.
  void step(llvm::Value* rows, llvm::Value* columns, int64_t step, std::vector<llvm::Value*>& accumulators) {
    if (shape_.channelwise) return step_channelwise(rows, columns, step, 1, accumulators);
    std::vector<llvm::Value*> column(shape_.vectors);
    for (int v = 0; v < shape_.vectors; ++v) column[v] = columns_at(columns, step, v);
    for (int r = 0; r < shape_.rows; ++r) {
      auto* pointer = at(shape_.row_type, rows, step * shape_.row_step + r * shape_.row_stride);
      llvm::Value* scalar = b_.CreateAlignedLoad(shape_.row_type, pointer, align_of(shape_.row_type));
      auto* broadcast = b_.CreateVectorSplat(shape_.lanes, widen_float(b_, scalar, shape_.accumulator));
      for (int v = 0; v < shape_.vectors; ++v) add_product(accumulators, r, v, broadcast, column[v]);
    }
  }

  /// Emits `count` depth steps. In channelwise contractions, neighbouring rows read overlapping positions;
  /// each position is loaded once and used in every sum that needs it.
  void steps(llvm::Value* rows, llvm::Value* columns, int64_t count,
             std::vector<llvm::Value*>& accumulators) {
    if (shape_.channelwise && shape_.row_step > 0 && shape_.row_stride % shape_.row_step == 0)
      return step_channelwise(rows, columns, 0, count, accumulators);
    for (int64_t k = 0; k < count; ++k) step(rows, columns, k, accumulators);
  }

  llvm::Value* at(llvm::Type* type, llvm::Value* base, int64_t elements) {
    return elements == 0 ? base : b_.CreateConstInBoundsGEP1_64(type, base, elements);
  }

  llvm::FixedVectorType* vector() const { return vector_; }

 private:
  llvm::Value* columns_at(llvm::Value* columns, int64_t step, int v) {
    if (prefetch_distance_ && v == 0) {
      auto* address = at(shape_.column_type, columns, step * shape_.column_step);
      KernelContext::prefetch(b_, b_.CreateGEP(b_.getInt8Ty(), address, prefetch_distance_), false,
                              KernelContext::Level::second);
    }
    if (shape_.ahead > 0) prefetch(columns, (step + shape_.ahead) * shape_.column_step, v);
    return load_columns(at(shape_.column_type, columns, step * shape_.column_step + v * shape_.lanes), v);
  }
  /// Prefetches the vector's cache line, once per line. The last steps prefetch past the operand, which is
  /// harmless.
  void prefetch(llvm::Value* columns, int64_t element, int v) {
    const int64_t bytes = static_cast<int64_t>(shape_.column_type->getScalarSizeInBits()) / 8,
                  first = v * shape_.lanes * bytes;
    // An earlier vector of this step lies in the same line.
    if (first % cache_line >= shape_.lanes * bytes) return;
    auto* address =
        b_.CreateConstGEP1_64(shape_.column_type, columns, static_cast<uint64_t>(element + v * shape_.lanes));
    KernelContext::prefetch(b_, address, false, KernelContext::Level::second);
  }
  void add_product(std::vector<llvm::Value*>& accumulators, int64_t r, int v, llvm::Value* row,
                   llvm::Value* column) {
    auto*& sum = accumulators[static_cast<size_t>(r * shape_.vectors + v)];
    sum = multiply_add(b_, shape_, row, column, sum);
  }
  void step_channelwise(llvm::Value* rows, llvm::Value* columns, int64_t first, int64_t count,
                        std::vector<llvm::Value*>& accumulators) {
    const int64_t stride = count == 1 ? 1 : shape_.row_stride / shape_.row_step;  // in depth steps
    auto* type = llvm::FixedVectorType::get(shape_.row_type, shape_.lanes);
    for (int v = 0; v < shape_.vectors; ++v) {
      std::vector<llvm::Value*> column(static_cast<size_t>(count));
      for (int64_t k = 0; k < count; ++k) column[static_cast<size_t>(k)] = columns_at(columns, first + k, v);
      const auto product = [&](int64_t r, int64_t k, llvm::Value* row) {
        add_product(accumulators, r, v, row, column[static_cast<size_t>(k)]);
      };
      const auto row_at = [&](int64_t r, int64_t k) {
        auto* pointer = at(shape_.row_type, rows,
                           (first + k) * shape_.row_step + r * shape_.row_stride + v * shape_.lanes);
        return widen_float(b_, b_.CreateAlignedLoad(type, pointer, align_of(shape_.row_type)),
                           shape_.accumulator);
      };
      if (count == 1) {
        for (int64_t r = 0; r < shape_.rows; ++r) product(r, 0, row_at(r, 0));
        continue;
      }
      // Iterate over positions, so that the position's vector is loaded once for all (row, step) pairs that
      // read it.
      for (int64_t position = 0; position < (shape_.rows - 1) * stride + count; ++position) {
        llvm::Value* row = nullptr;
        for (int64_t k = 0; k < count; ++k) {
          const int64_t r = (position - k) / stride;
          if (position < k || (position - k) % stride != 0 || r >= shape_.rows) continue;
          if (!row) row = row_at(r, k);
          product(r, k, row);
        }
      }
    }
  }
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
  llvm::Value* const prefetch_distance_;
  llvm::FixedVectorType* vector_;
};

}  // namespace

llvm::Value* widen_float(llvm::IRBuilder<>& builder, llvm::Value* value, llvm::Type* accumulator) {
  auto* type = value->getType();
  if (type->isIntOrIntVectorTy(16)) {
    // bf16 is the upper half of an f32.
    auto* bits = builder.CreateShl(builder.CreateZExt(value, type->getWithNewType(builder.getInt32Ty())), 16);
    value = builder.CreateBitCast(bits, type->getWithNewType(builder.getFloatTy()));
  }
  return builder.CreateFPExt(value, type->getWithNewType(accumulator));
}

llvm::Value* multiply_add(llvm::IRBuilder<>& builder, const MicroShape& shape, llvm::Value* a, llvm::Value* b,
                          llvm::Value* sum) {
  return shape.fused ? builder.CreateIntrinsic(llvm::Intrinsic::fma, {sum->getType()}, {a, b, sum})
                     : builder.CreateFAdd(builder.CreateFMul(a, b), sum);
}

namespace {

/// Emits the depth loops; all sums stay in registers.
class DepthEmitter {
 public:
  DepthEmitter(llvm::IRBuilder<>& builder, llvm::Function* function, const MicroShape& shape,
               llvm::Value* prefetch_distance)
      : builder_(builder), function_(function), shape_(shape), micro_(builder, shape, prefetch_distance) {}

  void emit(const MicroStart& start, std::vector<llvm::Value*>& sums) {
    if (!start.trips) {
      emit(0, start.rows, start.columns, sums);
      return;
    }
    trips(start.trips, shape_.loops[0].row_step, start.rows, start.columns, sums,
          [&](llvm::Value* rows, llvm::Value* columns, std::vector<llvm::Value*>& inner) {
            return emit(1, rows, columns, inner);
          });
  }

 private:
  /// Emits the loops from `level` on and returns the advanced column pointer. `sums` is updated in place.
  llvm::Value* emit(size_t level, llvm::Value* row, llvm::Value* column, std::vector<llvm::Value*>& sums) {
    if (level < shape_.loops.size()) {
      const auto& loop = shape_.loops[level];
      return trips(loop.trips, loop.row_step, row, column, sums,
                   [&](llvm::Value* rows, llvm::Value* columns, std::vector<llvm::Value*>& inner) {
                     return emit(level + 1, rows, columns, inner);
                   });
    }
    // Enough work per iteration to hide the loop overhead, but little enough to compile fast.
    const auto count = static_cast<int64_t>(sums.size());
    if (!shape_.loops.empty() && shape_.depth <= 8 && shape_.depth * count <= 128)
      return straight(shape_.depth, row, column, sums);
    const int64_t unroll = count >= 12 ? 1 : count >= 6 ? 2 : 4;
    const int64_t whole = shape_.depth / unroll;
    column = trips(whole, unroll * shape_.row_step, row, column, sums,
                   [&](llvm::Value* rows, llvm::Value* columns, std::vector<llvm::Value*>& inner) {
                     return straight(unroll, rows, columns, inner);
                   });
    row = micro_.at(shape_.row_type, row, whole * unroll * shape_.row_step);
    return straight(shape_.depth - whole * unroll, row, column, sums);
  }

  llvm::Value* straight(int64_t count, llvm::Value* row, llvm::Value* column,
                        std::vector<llvm::Value*>& sums) {
    micro_.steps(row, column, count, sums);
    return micro_.at(shape_.column_type, column, count * shape_.column_step);
  }

  template <class Body>
  llvm::Value* trips(int64_t count, int64_t row_step, llvm::Value* row, llvm::Value* column,
                     std::vector<llvm::Value*>& sums, Body&& body) {
    if (count == 0) return column;
    if (count == 1) return body(row, column, sums);
    return trips(builder_.getInt64(count), row_step, row, column, sums, body);
  }

  /// A loop of at least one iteration.
  template <class Body>
  llvm::Value* trips(llvm::Value* count, int64_t row_step, llvm::Value* row, llvm::Value* column,
                     std::vector<llvm::Value*>& sums, Body&& body) {
    auto* before = builder_.GetInsertBlock();
    auto* loop = llvm::BasicBlock::Create(builder_.getContext(), "depth", function_);
    builder_.CreateBr(loop);
    builder_.SetInsertPoint(loop);
    auto* trip = builder_.CreatePHI(builder_.getInt64Ty(), 2);
    auto* rows = builder_.CreatePHI(builder_.getPtrTy(), 2);
    auto* columns = builder_.CreatePHI(builder_.getPtrTy(), 2);
    trip->addIncoming(count, before);
    rows->addIncoming(row, before);
    columns->addIncoming(column, before);
    std::vector<llvm::PHINode*> phis(sums.size());
    for (size_t s = 0; s < sums.size(); ++s) {
      phis[s] = builder_.CreatePHI(micro_.vector(), 2);
      phis[s]->addIncoming(sums[s], before);
      sums[s] = phis[s];
    }
    auto* next_column = body(rows, columns, sums);
    auto* next_row = micro_.at(shape_.row_type, rows, row_step);
    auto* next_turn = builder_.CreateSub(trip, builder_.getInt64(1));
    auto* last = builder_.GetInsertBlock();
    for (size_t s = 0; s < sums.size(); ++s) phis[s]->addIncoming(sums[s], last);
    trip->addIncoming(next_turn, last);
    rows->addIncoming(next_row, last);
    columns->addIncoming(next_column, last);
    auto* done = llvm::BasicBlock::Create(builder_.getContext(), "done", function_);
    builder_.CreateCondBr(builder_.CreateICmpNE(next_turn, builder_.getInt64(0)), loop, done);
    builder_.SetInsertPoint(done);
    return next_column;
  }

  llvm::IRBuilder<>& builder_;
  llvm::Function* function_;
  const MicroShape& shape_;
  MicroEmitter micro_;
};

}  // namespace

llvm::AttributeList micro_attributes(const KernelContext& context) {
  auto& of = context.module.getContext();
  return llvm::AttributeList::get(of, llvm::AttributeList::FunctionIndex,
                                  llvm::AttrBuilder(of, context.function->getAttributes().getFnAttrs()));
}

llvm::Function* micro_function(llvm::Module& module, const llvm::Twine& name, llvm::FunctionType* type,
                               const llvm::AttributeList& attributes) {
  auto* function = llvm::Function::Create(type, llvm::Function::InternalLinkage, name, module);
  function->setAttributes(attributes);
  function->addFnAttr(llvm::Attribute::NoInline);
  return function;
}

llvm::FunctionType* micro_type(llvm::LLVMContext& context, bool counted, bool prefetches) {
  std::vector<llvm::Type*> parameters(3, llvm::PointerType::get(context, 0));
  parameters.insert(parameters.end(), size_t{counted} + size_t{prefetches}, llvm::Type::getInt64Ty(context));
  return llvm::FunctionType::get(llvm::Type::getVoidTy(context), parameters, false);
}

llvm::Function* micro_function(llvm::Module& module, const llvm::Twine& name, const MicroShape& shape,
                               const llvm::AttributeList& attributes) {
  auto* function = micro_function(
      module, name, micro_type(module.getContext(), shape.counted, shape.prefetches), attributes);
  for (auto& argument : function->args())
    if (argument.getType()->isPointerTy()) argument.addAttr(llvm::Attribute::NoAlias);
  return function;
}

std::vector<llvm::Value*> zero_sums(const MicroShape& shape) {
  auto* vector = llvm::FixedVectorType::get(shape.accumulator, static_cast<unsigned>(shape.lanes));
  return {static_cast<size_t>(shape.rows) * static_cast<size_t>(shape.vectors),
          llvm::Constant::getNullValue(vector)};
}

void add_products(llvm::IRBuilder<>& builder, llvm::Function* function, const MicroShape& shape,
                  const MicroStart& start, std::vector<llvm::Value*>& sums) {
  DepthEmitter(builder, function, shape, start.prefetch_distance).emit(start, sums);
}

llvm::Function* emit_micro_kernel(llvm::Module& module, const llvm::Twine& name, const MicroShape& shape,
                                  const llvm::AttributeList& attributes) {
  auto& context = module.getContext();
  auto* function = micro_function(module, name, shape, attributes);
  auto* tile = function->getArg(2);
  const MicroStart start{function->getArg(0), function->getArg(1),
                         shape.counted ? function->getArg(3) : nullptr,
                         shape.prefetches ? function->getArg(shape.counted ? 4 : 3) : nullptr};

  auto* entry = llvm::BasicBlock::Create(context, "entry", function);
  llvm::IRBuilder<> builder(entry);
  const llvm::Align tile_align(static_cast<uint64_t>(shape.lanes) * shape.accumulator->getScalarSizeInBits() /
                               8);
  const auto each_sum = [&](auto&& body) {
    size_t sum = 0;
    for (int r = 0; r < shape.rows; ++r)
      for (int v = 0; v < shape.vectors; ++v)
        body(sum++,
             builder.CreateConstInBoundsGEP1_64(
                 shape.accumulator, tile, static_cast<uint64_t>(r * shape.tile_stride + v * shape.lanes)));
  };
  auto sums = zero_sums(shape);
  if (shape.accumulate)
    each_sum([&](size_t sum, llvm::Value* address) {
      sums[sum] = builder.CreateAlignedLoad(sums[sum]->getType(), address, tile_align);
    });
  add_products(builder, function, shape, start, sums);
  each_sum(
      [&](size_t sum, llvm::Value* address) { builder.CreateAlignedStore(sums[sum], address, tile_align); });
  builder.CreateRetVoid();
  return function;
}

}  // namespace ferrite::emitter
