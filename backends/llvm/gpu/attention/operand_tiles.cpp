// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "backends/llvm/gpu/attention/operand_tiles.h"

#include <llvm/IR/Constants.h>
#include <llvm/IR/DerivedTypes.h>
#include <llvm/IR/Intrinsics.h>

#include "backends/llvm/gemm/tile_sizes.h"

namespace ferrite::emitter {

namespace {

constexpr int64_t lanes = loop::product_lanes;

llvm::Type* words_of_access(llvm::IRBuilder<>& builder) {
  constexpr unsigned words = bytes_of_access / 4;
  return llvm::FixedVectorType::get(builder.getInt32Ty(), words);
}

}  // namespace

OperandTiles::OperandTiles(KernelContext& context, ThreadBlock& block, const loop::ProductOperand& operand,
                           const Shape& shape, llvm::Value* first)
    : context_(context),
      builder_(context.builder),
      block_(block),
      operand_(operand),
      shape_(shape),
      copy_(block.copy_of(bytes_of_access)),
      element_(context.storage_type(shape.dtype)),
      lines_are_places_(operand.depth_inside != shape.along_is_depth),
      first_(first) {
  lines_ = lines_are_places_ ? shape.extent : shape.other.extent;
  elements_ = lines_are_places_ ? shape.other.extent : shape.extent;
  // Round up to whole fragments, and pad the lines so that they start in different banks.
  const auto whole = [&](int64_t extent) { return ceil_div(extent, shape.whole) * shape.whole; };
  line_ = whole(elements_) + lanes;
  buffer_ = whole(lines_) * line_;
  const auto& step = lines_are_places_ ? shape.along : shape.other;
  step_ = *context.kernel.pool.coefficient(operand.address, step.symbol);
  memory_ = block.shared(element_, shape.buffers * buffer_);
}

void OperandTiles::clear() {
  auto* zero = llvm::Constant::getNullValue(words_of_access(builder_));
  block_.divide(shape_.buffers * buffer_ / lanes, shape_.threads, "zero", [&](llvm::Value* k) {
    builder_.CreateAlignedStore(zero, builder_.CreateInBoundsGEP(zero->getType(), memory_, k),
                                llvm::Align(bytes_of_access));
  });
}

void OperandTiles::load_async(llvm::Value* start, llvm::Value* buffer) {
  const int64_t in_line = elements_ / lanes, count = lines_ * in_line;
  const int64_t threads = shape_.threads;
  auto* base = context_.base(operand_.buffer);
  places_.clear();
  values_.clear();
  for (int64_t part = 0; part * threads < count; ++part) {
    llvm::Value* flat = builder_.CreateNSWAdd(block_.thread(), context_.i64(part * threads));
    // Threads without a part compute the address of the last one but copy nothing. Without asynchronous
    // copies they load it redundantly, which avoids a branch.
    const bool some_have_none = (part + 1) * threads > count;
    auto* own = some_have_none ? builder_.CreateICmpSLT(flat, context_.i64(count)) : nullptr;
    if (some_have_none)
      flat = builder_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, flat, context_.i64(count - 1));
    auto* line = context_.divide(flat, in_line, true, false);
    auto* inside = builder_.CreateNSWMul(context_.divide(flat, in_line, true, true), context_.i64(lanes));
    auto* wanted = builder_.CreateNSWAdd(start, lines_are_places_ ? line : inside);
    auto* exists = builder_.CreateICmpSLT(wanted, context_.i64(shape_.along.extent));
    auto* step = context_.i64(step_);
    auto* offset = lines_are_places_ ? builder_.CreateNSWAdd(builder_.CreateNSWMul(wanted, step), inside)
                                     : builder_.CreateNSWAdd(builder_.CreateNSWMul(line, step), wanted);
    offset = builder_.CreateNSWAdd(first_, builder_.CreateSelect(exists, offset, context_.i64(0)));
    auto* from = builder_.CreateInBoundsGEP(element_, base, offset);
    auto* to = builder_.CreateNSWAdd(builder_.CreateNSWMul(line, context_.i64(line_)), inside);
    if (copy_) {
      to = builder_.CreateNSWAdd(to, builder_.CreateNSWMul(buffer, context_.i64(buffer_)));
      const auto copy = [&] {
        block_.copy(*copy_, builder_.CreateInBoundsGEP(element_, memory_, to), from, exists);
      };
      own ? context_.when(own, "part", copy) : copy();
      continue;
    }
    auto* load = builder_.CreateAlignedLoad(words_of_access(builder_), from, llvm::Align(bytes_of_access));
    context_.mark(load, operand_.buffer);
    values_.push_back(builder_.CreateSelect(exists, load, llvm::Constant::getNullValue(load->getType())));
    places_.push_back(to);
  }
}

void OperandTiles::write(llvm::Value* buffer) {
  for (size_t k = 0; k < values_.size(); ++k) {
    auto* to = builder_.CreateNSWAdd(places_[k], builder_.CreateNSWMul(buffer, context_.i64(buffer_)));
    builder_.CreateAlignedStore(values_[k], builder_.CreateInBoundsGEP(element_, memory_, to),
                                llvm::Align(bytes_of_access));
  }
}

SharedTile OperandTiles::tile(llvm::Value* buffer) const {
  auto* at = builder_.CreateNSWMul(buffer, context_.i64(buffer_));
  return {element_, operand_.depth_inside, line_, builder_.CreateInBoundsGEP(element_, memory_, at)};
}

SharedTile OperandTiles::turned(llvm::Value* buffer) const {
  auto result = tile(buffer);
  result.lines_along_depth = !result.lines_along_depth;
  return result;
}

}  // namespace ferrite::emitter
