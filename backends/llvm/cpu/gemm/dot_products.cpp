// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <llvm/IR/Module.h>

#include <algorithm>
#include <vector>

#include "backends/llvm/cpu/gemm/micro.h"
#include "backends/llvm/gemm/tile_sizes.h"
#include "ferrite/emitter/kernel_context.h"

namespace ferrite::emitter {
namespace {

/// Computes several columns of the block in parallel, each with one vector of partial sums per row.
class DotEmitter {
 public:
  DotEmitter(llvm::Function* function, const MicroShape& shape)
      : function_(function),
        b_(llvm::BasicBlock::Create(function->getContext(), "entry", function)),
        shape_(shape) {}

  void emit() {
    auto *columns = function_->getArg(1), *tile = function_->getArg(2);
    const int64_t count = shape_.tail_lanes > 0 ? shape_.tail_lanes : shape_.lanes;
    const int64_t whole = count / shape_.dots;
    loop(0, whole, "columns", {}, [&](llvm::Value* trip, std::vector<llvm::Value*>&) {
      auto* first = b_.CreateMul(trip, number(shape_.dots));
      group(at(shape_.column_type, columns, b_.CreateMul(first, number(shape_.column_stride))),
            at(shape_.accumulator, tile, first), shape_.dots);
    });
    if (const int64_t rest = count - whole * shape_.dots) {
      auto* first = number(whole * shape_.dots);
      group(at(shape_.column_type, columns, b_.CreateMul(first, number(shape_.column_stride))),
            at(shape_.accumulator, tile, first), rest);
    }
    b_.CreateRetVoid();
  }

 private:
  using Values = std::vector<llvm::Value*>;

  llvm::ConstantInt* number(int64_t value) { return b_.getInt64(static_cast<uint64_t>(value)); }
  llvm::Value* at(llvm::Type* type, llvm::Value* base, llvm::Value* element) {
    return b_.CreateInBoundsGEP(type, base, element);
  }

  void group(llvm::Value* columns, llvm::Value* tile, int64_t count) {
    auto* vector = llvm::FixedVectorType::get(shape_.accumulator, static_cast<unsigned>(shape_.lanes));
    Values sums(static_cast<size_t>(shape_.rows * count), llvm::Constant::getNullValue(vector));
    const int64_t whole = shape_.depth / shape_.lanes, left = shape_.depth % shape_.lanes;
    const auto trips = [&](int64_t from, int64_t to, int64_t ahead) {
      sums = loop(from, to, "depth", std::move(sums), [&](llvm::Value* trip, Values& inner) {
        step(columns, b_.CreateMul(trip, number(shape_.lanes)), count, nullptr, ahead, inner);
      });
    };
    if (shape_.ahead == 0) {
      trips(0, whole, 0);
    } else {
      // Split the loop where the prefetched position passes the end of the current columns; from there on it
      // continues in the columns of the next group.
      const int64_t later = shape_.ahead % shape_.depth, groups = shape_.ahead / shape_.depth;
      const int64_t own = std::min(whole, ceil_div(shape_.depth - later, shape_.lanes));
      const int64_t group = shape_.dots * shape_.column_stride;
      trips(0, own, groups * group + later);
      trips(own, whole, (groups + 1) * group + later - shape_.depth);
    }
    if (left > 0) {
      std::vector<llvm::Constant*> lanes;
      for (int64_t l = 0; l < shape_.lanes; ++l) lanes.push_back(b_.getInt1(l < left));
      step(columns, number(whole * shape_.lanes), count, llvm::ConstantVector::get(lanes), 0, sums);
    }
    // -0 is the identity of addition: it keeps the sign of a sum of -0.
    auto* zero = llvm::ConstantFP::getNegativeZero(shape_.accumulator);
    for (int64_t r = 0; r < shape_.rows; ++r)
      for (int64_t c = 0; c < count; ++c) {
        auto* sum = b_.CreateFAddReduce(zero, sums[static_cast<size_t>(r * count + c)]);
        sum->setHasAllowReassoc(true);  // sum by a tree instead of a chain
        auto* address = at(shape_.accumulator, tile, number(r * shape_.tile_stride + c));
        b_.CreateAlignedStore(sum, address, align_of(shape_.accumulator));
      }
  }

  /// Processes one vector of the depth from `k` on: every row with each of `count` columns.
  void step(llvm::Value* columns, llvm::Value* k, int64_t count, llvm::Constant* mask, int64_t ahead,
            Values& sums) {
    Values column;
    for (int64_t c = 0; c < count; ++c)
      column.push_back(load(shape_.column_type, columns, c * shape_.column_stride, k, mask, ahead));
    // If columns come from memory, their bandwidth is the limit, and the out-of-order window must reach far
    // ahead. A row vector that is loaded once occupies a register until its last product; loaded once per
    // product, it is a memory operand of the multiply-add and shortens that dependence. The loads are
    // volatile because the compiler would merge them otherwise.
    const bool in_memory = shape_.memory_operands && ahead > 0 && shape_.row_type == shape_.accumulator;
    for (int64_t r = 0; r < shape_.rows; ++r) {
      llvm::Value* row = nullptr;
      for (int64_t c = 0; c < count; ++c) {
        if (!row || in_memory)
          row = load(shape_.row_type, function_->getArg(0), r * shape_.row_stride, k, mask, 0, in_memory);
        auto*& sum = sums[static_cast<size_t>(r * count + c)];
        sum = multiply_add(b_, shape_, row, column[static_cast<size_t>(c)], sum);
      }
    }
  }

  /// `ahead` > 0: prefetches the element that many elements later. Past the end of the operand this is
  /// harmless.
  llvm::Value* load(llvm::Type* element, llvm::Value* base, int64_t offset, llvm::Value* k,
                    llvm::Constant* mask, int64_t ahead, bool is_volatile = false) {
    auto* type = llvm::FixedVectorType::get(element, static_cast<unsigned>(shape_.lanes));
    auto* address = at(element, at(element, base, number(offset)), k);
    if (ahead > 0) {
      auto* later = b_.CreateConstGEP1_64(element, address, static_cast<uint64_t>(ahead));
      KernelContext::prefetch(b_, later, false, KernelContext::Level::second);
    }
    llvm::Value* value =
        mask ? b_.CreateMaskedLoad(type, address, align_of(element), mask, llvm::Constant::getNullValue(type))
             : static_cast<llvm::Value*>(b_.CreateAlignedLoad(type, address, align_of(element), is_volatile));
    return widen_float(b_, value, shape_.accumulator);
  }
  static llvm::Align align_of(llvm::Type* type) { return llvm::Align(type->getScalarSizeInBits() / 8); }

  /// Loop over [from, to), possibly empty; returns the loop-carried values after the last iteration.
  template <class Body>
  Values loop(int64_t from, int64_t to, const char* name, Values values, Body&& body) {
    if (from == to) return values;
    auto* before = b_.GetInsertBlock();
    auto* block = llvm::BasicBlock::Create(b_.getContext(), name, function_);
    b_.CreateBr(block);
    b_.SetInsertPoint(block);
    auto* trip = b_.CreatePHI(b_.getInt64Ty(), 2);
    trip->addIncoming(number(from), before);
    std::vector<llvm::PHINode*> phis;
    for (auto*& value : values) {
      phis.push_back(b_.CreatePHI(value->getType(), 2));
      phis.back()->addIncoming(value, before);
      value = phis.back();
    }
    body(trip, values);
    auto* next = b_.CreateNUWAdd(trip, number(1));
    auto* last = b_.GetInsertBlock();
    trip->addIncoming(next, last);
    for (size_t v = 0; v < values.size(); ++v) phis[v]->addIncoming(values[v], last);
    auto* done = llvm::BasicBlock::Create(b_.getContext(), "done", function_);
    b_.CreateCondBr(b_.CreateICmpNE(next, number(to)), block, done);
    b_.SetInsertPoint(done);
    return values;
  }

  llvm::Function* function_;
  llvm::IRBuilder<> b_;
  const MicroShape& shape_;
};

}  // namespace

llvm::Function* emit_dot_kernel(llvm::Module& module, const llvm::Twine& name, const MicroShape& shape,
                                const llvm::AttributeList& attributes) {
  auto* function = micro_function(module, name, shape, attributes);
  DotEmitter(function, shape).emit();
  return function;
}

}  // namespace ferrite::emitter
