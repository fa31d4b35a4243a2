// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "backends/llvm/gpu/attention/key_value_tiles.h"

#include <llvm/IR/Constants.h>
#include <llvm/IR/DerivedTypes.h>
#include <llvm/IR/Intrinsics.h>

#include "backends/llvm/gemm/tile_sizes.h"

namespace ferrite::emitter {

namespace {

constexpr int64_t lanes = loop::softmax_product_lanes;

llvm::Type* words_of_access(llvm::IRBuilder<>& builder) {
  constexpr unsigned words = bytes_of_access / 4;
  return llvm::FixedVectorType::get(builder.getInt32Ty(), words);
}

}  // namespace

KeyValueTiles::KeyValueTiles(KernelContext& context, ThreadBlock& block, const GpuAttentionPlan& plan,
                             const loop::SoftmaxProducts::Operand& operand, const Loops& loops,
                             llvm::Value* first)
    : context_(context),
      builder_(context.builder),
      block_(block),
      plan_(plan),
      operand_(operand),
      copy_(block.copy_of(bytes_of_access)),
      element_(context.storage_type(plan.products.dtype)),
      lines_are_columns_(operand.depth_inside != loops.column_is_depth),
      first_(first) {
  lines_ = lines_are_columns_ ? plan.columns : loops.other.extent;
  elements_ = lines_are_columns_ ? loops.other.extent : plan.columns;
  // Round up to whole fragments, and pad the lines so that they start in different banks.
  const int64_t depth = plan.matrix->depth;
  const auto whole = [&](int64_t extent) { return ceil_div(extent, depth) * depth; };
  line_ = whole(elements_) + lanes;
  buffer_ = whole(lines_) * line_;
  const auto& along = lines_are_columns_ ? loops.column : loops.other;
  step_ = *context.kernel.pool.coefficient(operand.address, along.symbol);
  memory_ = block.shared(element_, 2 * buffer_);
}

void KeyValueTiles::clear() {
  auto* zero = llvm::Constant::getNullValue(words_of_access(builder_));
  block_.divide(2 * buffer_ / lanes, plan_.threads(block_.machine()), "zero", [&](llvm::Value* k) {
    builder_.CreateAlignedStore(zero, builder_.CreateInBoundsGEP(zero->getType(), memory_, k),
                                llvm::Align(bytes_of_access));
  });
}

void KeyValueTiles::load_async(llvm::Value* column, llvm::Value* buffer) {
  const int64_t in_line = elements_ / lanes, count = lines_ * in_line;
  const int64_t threads = plan_.threads(block_.machine());
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
    auto* wanted = builder_.CreateNSWAdd(column, lines_are_columns_ ? line : inside);
    auto* exists = builder_.CreateICmpSLT(wanted, context_.i64(plan_.products.column.extent));
    auto* step = context_.i64(step_);
    auto* offset = lines_are_columns_ ? builder_.CreateNSWAdd(builder_.CreateNSWMul(wanted, step), inside)
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

void KeyValueTiles::write(llvm::Value* buffer) {
  for (size_t k = 0; k < values_.size(); ++k) {
    auto* to = builder_.CreateNSWAdd(places_[k], builder_.CreateNSWMul(buffer, context_.i64(buffer_)));
    builder_.CreateAlignedStore(values_[k], builder_.CreateInBoundsGEP(element_, memory_, to),
                                llvm::Align(bytes_of_access));
  }
}

SharedTile KeyValueTiles::tile(llvm::Value* buffer) const {
  auto* at = builder_.CreateNSWMul(buffer, context_.i64(buffer_));
  return {element_, operand_.depth_inside, line_, builder_.CreateInBoundsGEP(element_, memory_, at)};
}

}  // namespace ferrite::emitter
