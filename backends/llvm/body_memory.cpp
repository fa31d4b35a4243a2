// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Loads and stores of a body: contiguous, reversed, strided by two, gathered; masked wherever a lane may not exist.
#include <llvm/IR/Constants.h>
#include <llvm/IR/DerivedTypes.h>
#include <llvm/IR/Intrinsics.h>

#include <numeric>

#include "ferrite/emitter/body_emitter.h"

namespace ferrite::emitter {

namespace {

llvm::SmallVector<int, 64> reversed(unsigned lanes) {
  llvm::SmallVector<int, 64> order(lanes);
  for (unsigned k = 0; k < lanes; ++k) order[k] = static_cast<int>(lanes - 1 - k);
  return order;
}

/// The lane of a constant mask that holds one.
std::optional<unsigned> single_lane(llvm::Value* mask) {
  auto* lanes = llvm::dyn_cast_or_null<llvm::ConstantVector>(mask);
  if (!lanes) return std::nullopt;
  std::optional<unsigned> found;
  for (unsigned k = 0; k < lanes->getNumOperands(); ++k) {
    if (lanes->getOperand(k)->isNullValue()) continue;
    if (found) return std::nullopt;
    found = k;
  }
  return found;
}

}  // namespace

llvm::Value* BodyEmitter::widen(llvm::Value* stored, DType dtype) {
  if (dtype == boolean) return builder_.CreateICmpNE(stored, llvm::Constant::getNullValue(stored->getType()));
  if (dtype == bf16) return context_.math.widen_bf16(stored);
  if (dtype == f16) return context_.widen_half(stored);
  return stored;
}

llvm::Value* BodyEmitter::narrow(llvm::Value* value, DType dtype) {
  if (dtype == boolean)
    return builder_.CreateZExt(value, value->getType()->getWithNewType(builder_.getInt8Ty()));
  if (dtype == bf16) return context_.math.narrow_bf16(value);
  if (dtype == f16) return context_.narrow_half(value);
  return value;
}

llvm::Value* BodyEmitter::round_to(llvm::Value* value, DType dtype) {
  return dtype == bf16 || dtype == f16 ? widen(narrow(value, dtype), dtype) : value;
}

llvm::Value* BodyEmitter::pointer(loop::BufferId buffer, llvm::Value* element) {
  auto* type = context_.storage_type(context_.kernel.buffers[buffer].dtype);
  return builder_.CreateGEP(type, context_.base(buffer), element);
}

/// The lanes that exist and for which `mask` (a value of the body, or null) holds; null = all.
llvm::Value* BodyEmitter::element_mask(llvm::Value* mask) {
  if (!mask) return point_.mask;
  mask = spread(mask);
  return point_.mask ? builder_.CreateAnd(point_.mask, mask) : mask;
}

llvm::Value* BodyEmitter::emit_load(const loop::BodyOp& op, loop::OpId id) {
  const auto& buffer = context_.kernel.buffers[op.buffer];
  auto* mask = op.a == loop::none ? nullptr : value(op.a);
  auto* other = op.b == loop::none ? nullptr : value(op.b);
  if (auto* known = llvm::dyn_cast_or_null<llvm::ConstantInt>(mask)) {
    if (known->isZero()) return other;
    mask = nullptr;
  }
  if (buffer.elements() == 0)
    return other ? other : llvm::Constant::getNullValue(context_.value_type(op.dtype));
  auto place = address(load_address_[id]);
  if (place.step == 0 || point_.lanes == 1) {
    llvm::Value* condition = mask;
    if (mask && mask->getType()->isVectorTy()) condition = builder_.CreateOrReduce(element_mask(mask));
    auto* loaded = widen(load_scalar(op.buffer, place.base, condition), op.dtype);
    if (!mask || !other) return loaded;
    if (mask->getType()->isVectorTy()) return builder_.CreateSelect(mask, spread(loaded), spread(other));
    if (other->getType()->isVectorTy()) loaded = spread(loaded);
    return builder_.CreateSelect(mask, loaded, other);
  }
  auto* loaded = widen(load_lanes(op.buffer, place, element_mask(mask)), op.dtype);
  return mask && other ? builder_.CreateSelect(spread(mask), loaded, spread(other)) : loaded;
}

llvm::Value* BodyEmitter::load_scalar(loop::BufferId buffer, llvm::Value* element, llvm::Value* condition) {
  auto* type = context_.storage_type(context_.kernel.buffers[buffer].dtype);
  auto* from = pointer(buffer, element);
  if (condition) from = builder_.CreateSelect(condition, from, context_.nowhere());
  auto* loaded = builder_.CreateAlignedLoad(
      type, from, llvm::Align(KernelContext::storage_bytes(context_.kernel.buffers[buffer].dtype)));
  if (!condition) context_.mark(loaded, buffer);
  return loaded;
}

llvm::Value* BodyEmitter::load_lanes(loop::BufferId buffer, const Address& place, llvm::Value* mask) {
  DType dtype = context_.kernel.buffers[buffer].dtype;
  auto* scalar = context_.storage_type(dtype);
  unsigned lanes = point_.lanes;
  auto* type = llvm::FixedVectorType::get(scalar, lanes);
  llvm::Align align(KernelContext::storage_bytes(dtype));
  auto* nothing = llvm::Constant::getNullValue(type);
  auto contiguous = [&](llvm::Value* from, llvm::Value* active) -> llvm::Value* {
    if (!active) {
      auto* plain = builder_.CreateAlignedLoad(type, from, align);
      context_.mark(plain, buffer);
      return plain;
    }
    auto* masked = builder_.CreateMaskedLoad(type, from, align, active, nothing);
    context_.mark(masked, buffer);
    return masked;
  };
  if (place.step == 1) return contiguous(pointer(buffer, place.base), mask);
  if (place.step == -1) {
    auto order = reversed(lanes);
    auto* from = pointer(buffer, builder_.CreateSub(place.base, context_.i64(lanes - 1)));
    if (mask) mask = builder_.CreateShuffleVector(mask, order);
    return builder_.CreateShuffleVector(contiguous(from, mask), order);
  }
  if (place.step == 2 && !mask && lanes > 2) {
    // Two neighbouring vectors, of which the even elements are kept; the last odd element may not exist.
    llvm::SmallVector<int, 64> even(lanes);
    std::vector<llvm::Constant*> but_last(lanes, builder_.getTrue());
    but_last.back() = builder_.getFalse();
    for (unsigned k = 0; k < lanes; ++k) even[k] = static_cast<int>(2 * k);
    auto* low = contiguous(pointer(buffer, place.base), nullptr);
    auto* second = pointer(buffer, builder_.CreateAdd(place.base, context_.i64(lanes)));
    auto* high = contiguous(second, llvm::ConstantVector::get(but_last));
    return builder_.CreateShuffleVector(low, high, even);
  }
  auto* from = pointer(buffer, place.base);
  auto* addresses = builder_.CreateGEP(scalar, from, place.lane);
  auto* active =
      mask ? mask : llvm::Constant::getAllOnesValue(llvm::FixedVectorType::get(builder_.getInt1Ty(), lanes));
  auto* gathered = builder_.CreateMaskedGather(type, addresses, align, active, nothing);
  context_.mark(gathered, buffer);
  return gathered;
}

void BodyEmitter::store_lanes(loop::BufferId buffer, const Address& place, llvm::Value* stored,
                              llvm::Value* mask, bool streams) {
  DType dtype = context_.kernel.buffers[buffer].dtype;
  unsigned lanes = point_.lanes;
  llvm::Align align(KernelContext::storage_bytes(dtype));
  auto contiguous = [&](llvm::Value* to, llvm::Value* values, llvm::Value* active) {
    // The x86 code generator of LLVM 22 writes a lone lane of a narrowing store at its width before the narrowing.
    if (auto lane = single_lane(active)) {
      auto* at = builder_.CreateConstGEP1_64(context_.storage_type(dtype), to, *lane);
      return context_.mark(
          builder_.CreateAlignedStore(builder_.CreateExtractElement(values, *lane), at, align), buffer);
    }
    llvm::Instruction* done =
        active ? static_cast<llvm::Instruction*>(builder_.CreateMaskedStore(values, to, align, active))
               : builder_.CreateAlignedStore(values, to, align);
    context_.mark(done, buffer);
  };
  if (place.step == 1 && streams && !mask) {
    auto* done = builder_.CreateAlignedStore(stored, pointer(buffer, place.base),
                                             llvm::Align(uint64_t{lanes} * align.value()));
    auto* once = llvm::ConstantAsMetadata::get(builder_.getInt32(1));
    done->setMetadata(llvm::LLVMContext::MD_nontemporal,
                      llvm::MDNode::get(context_.module.getContext(), once));
    return context_.mark(done, buffer);
  }
  if (place.step == 1) return contiguous(pointer(buffer, place.base), stored, mask);
  if (place.step == -1) {
    auto order = reversed(lanes);
    if (mask) mask = builder_.CreateShuffleVector(mask, order);
    auto* to = pointer(buffer, builder_.CreateSub(place.base, context_.i64(lanes - 1)));
    return contiguous(to, builder_.CreateShuffleVector(stored, order), mask);
  }
  auto* to = pointer(buffer, place.base);
  auto* lane = place.lane ? place.lane : context_.iota(builder_.getInt64Ty(), lanes, 0);
  auto* addresses = builder_.CreateGEP(context_.storage_type(dtype), to, lane);
  auto* active =
      mask ? mask : llvm::Constant::getAllOnesValue(llvm::FixedVectorType::get(builder_.getInt1Ty(), lanes));
  context_.mark(builder_.CreateMaskedScatter(stored, addresses, align, active), buffer);
}

llvm::Value* BodyEmitter::combine(uint32_t mode, llvm::Value* old, llvm::Value* given, DType dtype) {
  switch (mode) {
    case FE_STORE_ADD: return prim(Prim::add_, dtype, {old, given});
    case FE_STORE_MUL: return prim(Prim::mul_, dtype, {old, given});
    case FE_STORE_MAX: return prim(Prim::max_, dtype, {old, given});
    case FE_STORE_MIN: return prim(Prim::min_, dtype, {old, given});
    default: return given;
  }
}

void BodyEmitter::store(const std::vector<size_t>& numbers) {
  struct Ready {
    size_t number;
    Address place;
    llvm::Value *value, *mask;
  };
  std::vector<Ready> ready;
  for (size_t number : numbers) {
    const auto& store = statement_.stores[number];
    if (context_.kernel.buffers[store.buffer].elements() == 0) continue;
    for (auto id : store_bindings_[number]) value(id);
    auto* given = value(store.value);
    auto* mask = store.mask == loop::none ? nullptr : value(store.mask);
    if (auto* known = llvm::dyn_cast_or_null<llvm::ConstantInt>(mask)) {
      if (known->isZero()) continue;
      mask = nullptr;
    }
    ready.push_back({number, address(store_address_[number]), given, mask});
  }
  for (auto& [number, place, given, mask] : ready) {
    const auto& store = statement_.stores[number];
    DType dtype = context_.kernel.buffers[store.buffer].dtype;
    if (point_.lanes == 1) {
      auto write = [&, &place = place, &given = given] {
        auto* result = given;
        if (store.mode != FE_STORE_SET)
          result =
              combine(store.mode, widen(load_scalar(store.buffer, place.base, nullptr), dtype), given, dtype);
        llvm::Align align(KernelContext::storage_bytes(dtype));
        auto* done =
            builder_.CreateAlignedStore(narrow(result, dtype), pointer(store.buffer, place.base), align);
        context_.mark(done, store.buffer);
      };
      if (mask) {
        context_.when(mask, "store", write);
      } else {
        write();
      }
      continue;
    }
    auto* active = element_mask(mask);
    auto* result = spread(given);
    if (store.mode != FE_STORE_SET)
      result = combine(store.mode, widen(load_lanes(store.buffer, place, active), dtype), result, dtype);
    store_lanes(store.buffer, place, narrow(result, dtype), active, !streams_.empty() && streams_[number]);
  }
}

}  // namespace ferrite::emitter
