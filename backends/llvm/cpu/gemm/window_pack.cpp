// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "backends/llvm/cpu/gemm/micro.h"
#include "backends/llvm/cpu/gemm/pack.h"

namespace ferrite::emitter {

WindowPacker::WindowPacker(KernelContext& context, const GemmPlan& plan)
    : context_(context),
      plan_(plan),
      window_(*plan.window),
      body_(context, window_.statement),
      element_(context.storage_type(plan.row.dtype)),
      align_(static_cast<uint64_t>(bits_of(plan.row.dtype)) / 8) {}

llvm::Value* WindowPacker::at(llvm::Value* data, llvm::Value* element) {
  return context_.builder.CreateInBoundsGEP(element_, data, element);
}

/// Copies the vector at the point, with zeros outside the mask. The select is needed because a computed value
/// that is the same in all lanes ignores the mask.
void WindowPacker::copy(Point& point, llvm::Value* mask, llvm::Value* target) {
  point.mask = mask;
  body_.start(point);
  auto* value = plan_.amx ? body_.stored_lanes_of(window_.load)
                          : widen_float(context_.builder, body_.lanes_of(plan_.row.value), element_);
  if (mask)
    value = context_.builder.CreateSelect(mask, value, llvm::Constant::getNullValue(value->getType()));
  context_.builder.CreateAlignedStore(value, target, align_);
}

/// Zeroes `count` elements, a multiple of the lanes.
void WindowPacker::zero(llvm::Value* from, llvm::Value* count) {
  store_zeros(context_, element_, plan_.lanes, from, count);
}

/// Copies all channels of each position: a few vectors each, the last one masked.
void WindowPacker::interleaved_line(Point point, llvm::Value* line, llvm::Value* channel,
                                    llvm::Value* channels) {
  auto& builder = context_.builder;
  const auto& region = *window_.region;
  const auto lanes = static_cast<unsigned>(plan_.lanes);
  const auto& along = window_.inner.vars[0];
  const bool whole = along.extent % pitch_ == 0 || (!channels && along.extent % lanes == 0);
  const int64_t vectors = pitch_ / lanes;
  // Masks do not depend on the position: compute them once if there are few.
  constexpr int64_t most_straight = 4;
  if (!channels) channels = context_.i64(along.extent);
  const auto mask_at = [&](llvm::Value* element) {
    auto* left = builder.CreateBinaryIntrinsic(llvm::Intrinsic::smax, builder.CreateSub(channels, element),
                                               context_.i64(0));
    return whole ? nullptr : context_.lane_mask(left, lanes);
  };
  std::vector<llvm::Value*> masks;
  if (vectors <= most_straight)
    for (int64_t v = 0; v < vectors; ++v) masks.push_back(mask_at(context_.i64(v * lanes)));
  zero(line, context_.i64(region.x_from * pitch_));
  context_.loop(context_.i64(region.x_from), context_.i64(region.x_to), 1, "x", [&](llvm::Value* x) {
    point.set(window_.outer.vars[1].symbol, x);
    auto* target = at(line, builder.CreateMul(x, context_.i64(pitch_)));
    const auto vector = [&](llvm::Value* element, llvm::Value* mask) {
      point.set(along.symbol, builder.CreateAdd(channel, element));
      copy(point, mask, at(target, element));
    };
    for (size_t v = 0; v < masks.size(); ++v) vector(context_.i64(static_cast<int64_t>(v * lanes)), masks[v]);
    if (masks.empty())
      context_.loop(context_.i64(0), channels, lanes, "channel",
                    [&](llvm::Value* element) { vector(element, mask_at(element)); });
  });
  zero(at(line, context_.i64(region.x_to * pitch_)), context_.i64((window_.width() - region.x_to) * pitch_));
}

/// Copies one channel's line from left to right: the last vector may reach into the next row, which is
/// written later.
void WindowPacker::planar_line(Point point, llvm::Value* line) {
  auto& builder = context_.builder;
  const auto& region = *window_.region;
  const auto lanes = static_cast<unsigned>(plan_.lanes);
  zero(line, context_.i64(pitch_));
  auto *from = context_.i64(region.x_from), *to = context_.i64(region.x_to);
  const bool whole = (region.x_to - region.x_from) % lanes == 0;
  context_.loop(from, to, lanes, "x", [&](llvm::Value* x) {
    point.set(window_.inner.symbol, x);
    copy(point, whole ? nullptr : context_.lane_mask(builder.CreateSub(to, x), lanes), at(line, x));
  });
}

void WindowPacker::emit(llvm::Value* batch, llvm::Value* data, int64_t pitch, llvm::Value* y_from,
                        llvm::Value* y_to, llvm::Value* channel, llvm::Value* channels) {
  auto& builder = context_.builder;
  pitch_ = pitch;
  Point point;
  decode(context_, point, plan_.batch.vars, batch);
  point.vector = window_.inner.symbol;
  point.lanes = static_cast<unsigned>(plan_.lanes);
  const auto& region = *window_.region;
  const int64_t across = window_.across() * pitch;
  context_.loop(y_from, y_to, 1, "y", [&](llvm::Value* y) {
    point.set(window_.outer.vars[0].symbol, y);
    auto* line = at(data, builder.CreateMul(builder.CreateSub(y, y_from), context_.i64(across)));
    auto* inside = builder.CreateAnd(builder.CreateICmpSGE(y, context_.i64(region.y_from)),
                                     builder.CreateICmpSLT(y, context_.i64(region.y_to)));
    context_.when(inside, "inside", [&] {
      if (!window_.planar) return interleaved_line(point, line, channel, channels);
      context_.loop(context_.i64(0), context_.i64(window_.channels), 1, "channel", [&](llvm::Value* c) {
        if (window_.outer.vars.size() > 1) point.set(window_.outer.vars[1].symbol, c);
        planar_line(point, at(line, builder.CreateMul(c, context_.i64(pitch))));
      });
    });
    context_.when(builder.CreateNot(inside), "outside", [&] { zero(line, context_.i64(across)); });
  });
}

}  // namespace ferrite::emitter
