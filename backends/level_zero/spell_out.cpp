// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "spell_out.h"

#include <llvm/Analysis/ValueTracking.h>
#include <llvm/Analysis/VectorUtils.h>
#include <llvm/CodeGen/AtomicExpandUtils.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/Instructions.h>
#include <llvm/IR/IntrinsicInst.h>
#include <llvm/IR/PatternMatch.h>
#include <llvm/Transforms/Utils/BasicBlockUtils.h>
#include <llvm/Transforms/Utils/Local.h>

#include <functional>
#include <vector>

#include "ferrite/error.hpp"

namespace ferrite::level_zero {

namespace {

using llvm::Value;

unsigned lanes_of(const Value* vector) {
  return llvm::cast<llvm::FixedVectorType>(vector->getType())->getNumElements();
}

/// Rewrites one instruction; the new code is inserted before it.
class Speller {
 public:
  explicit Speller(llvm::Instruction& instruction) : instruction_(instruction), builder_(&instruction) {}

  /// The replacement of the instruction's value; null if it stays. Instructions without a value are rewritten
  /// in place.
  Value* other_terms() {
    if (auto* call = llvm::dyn_cast<llvm::IntrinsicInst>(&instruction_)) return intrinsic(*call);
    if (auto* choice = llvm::dyn_cast<llvm::SelectInst>(&instruction_)) return select(*choice);
    if (auto* cast = llvm::dyn_cast<llvm::CastInst>(&instruction_)) return conversion(*cast);
    return nullptr;
  }

 private:
  Value* intrinsic(llvm::IntrinsicInst& call) {
    switch (call.getIntrinsicID()) {
      case llvm::Intrinsic::minimum: return extreme(call, llvm::CmpInst::FCMP_OLT);
      case llvm::Intrinsic::maximum: return extreme(call, llvm::CmpInst::FCMP_OGT);
      case llvm::Intrinsic::vector_reduce_or:
      case llvm::Intrinsic::vector_reduce_and: {
        if (!call.getType()->isIntegerTy(1)) return nullptr;
        return all_lanes(call.getArgOperand(0), call.getIntrinsicID() == llvm::Intrinsic::vector_reduce_and);
      }
      case llvm::Intrinsic::masked_load:
      case llvm::Intrinsic::masked_gather:
        return load(call.getArgOperand(0), call.getArgOperand(1), call.getArgOperand(2),
                    call.getParamAlign(0));
      case llvm::Intrinsic::masked_store:
      case llvm::Intrinsic::masked_scatter:
        store(call.getArgOperand(0), call.getArgOperand(1), call.getArgOperand(2), call.getParamAlign(1));
        return &call;
      default: return math(call);
    }
  }

  /// Not every device has functions of halves; compute in f32 instead.
  Value* math(llvm::IntrinsicInst& call) {
    const auto is_half = [](const Value* value) { return value->getType()->getScalarType()->isHalfTy(); };
    if (!is_half(&call) || !llvm::all_of(call.args(), is_half)) return nullptr;
    auto* type = call.getType()->getWithNewType(builder_.getFloatTy());
    std::vector<Value*> operands;
    for (auto& operand : call.args()) operands.push_back(convert(llvm::Instruction::FPExt, operand, type));
    auto* result = builder_.CreateIntrinsic(call.getIntrinsicID(), {type}, operands);
    return convert(llvm::Instruction::FPTrunc, result, call.getType());
  }

  /// The functions that LLVM would select drop NaN.
  Value* extreme(const llvm::IntrinsicInst& call, llvm::CmpInst::Predicate first) {
    auto *a = call.getArgOperand(0), *b = call.getArgOperand(1);
    auto* of_numbers = builder_.CreateSelect(builder_.CreateFCmp(first, a, b), a, b);
    return builder_.CreateSelect(builder_.CreateFCmpUNO(a, a), a, of_numbers);
  }

  Value* all_lanes(Value* mask, bool each) {
    auto* result = lane(mask, 0);
    for (unsigned k = 1; k < lanes_of(mask); ++k)
      result = each ? builder_.CreateAnd(result, lane(mask, k)) : builder_.CreateOr(result, lane(mask, k));
    return result;
  }

  /// A vector select needs a condition with as many lanes.
  Value* select(llvm::SelectInst& choice) {
    if (!choice.getType()->isVectorTy() || choice.getCondition()->getType()->isVectorTy()) return nullptr;
    auto* condition = builder_.CreateVectorSplat(lanes_of(&choice), choice.getCondition());
    return builder_.CreateSelect(condition, choice.getTrueValue(), choice.getFalseValue());
  }

  Value* conversion(llvm::CastInst& cast) {
    auto *from = cast.getSrcTy(), *to = cast.getDestTy();
    const bool halves = from->getScalarType()->isHalfTy() || to->getScalarType()->isHalfTy();
    if (!llvm::isa<llvm::BitCastInst>(cast))
      return halves && to->isVectorTy() ? convert(cast.getOpcode(), cast.getOperand(0), to) : nullptr;
    if (from->isVectorTy() && from->getScalarType()->isIntegerTy(1))
      return number_of_mask(cast.getOperand(0), to);
    return nullptr;
  }
  Value* convert(llvm::Instruction::CastOps operation, Value* value, llvm::Type* type) {
    if (!type->isVectorTy()) return builder_.CreateCast(operation, value, type);
    Value* result = llvm::PoisonValue::get(type);
    for (unsigned k = 0; k < lanes_of(value); ++k)
      result = builder_.CreateInsertElement(
          result, builder_.CreateCast(operation, lane(value, k), type->getScalarType()), uint64_t{k});
    return result;
  }
  Value* number_of_mask(Value* mask, llvm::Type* type) {
    Value* result = llvm::Constant::getNullValue(type);
    for (unsigned k = 0; k < lanes_of(mask); ++k)
      result = builder_.CreateOr(result, builder_.CreateShl(builder_.CreateZExt(lane(mask, k), type), k));
    return result;
  }

  Value* lane(Value* vector, unsigned number) {
    return builder_.CreateExtractElement(vector, uint64_t{number});
  }

  /// The pointer of one lane. Vectors of pointers occur only as addresses within one object; other pointers
  /// denote adjacent elements.
  Value* pointer(Value* pointers, llvm::Type* element, unsigned number) {
    if (!pointers->getType()->isVectorTy()) return builder_.CreateConstGEP1_64(element, pointers, number);
    if (auto* place = llvm::dyn_cast<llvm::GEPOperator>(pointers)) {
      const auto one = [&](Value* operand) {
        if (!operand->getType()->isVectorTy()) return operand;
        return operand->getType()->getScalarType()->isPointerTy() ? pointer(operand, element, number)
                                                                  : lane(operand, number);
      };
      std::vector<Value*> indices;
      for (auto& index : place->indices()) indices.push_back(one(index));
      return builder_.CreateGEP(place->getSourceElementType(), one(place->getPointerOperand()), indices);
    }
    auto* same = llvm::getSplatValue(pointers);
    if (!same)
      throw Failure(FE_EINTERNAL, "ferrite.level_zero/emit",
                    "a vector of pointers that are no addresses of one object");
    return same;
  }

  Value* load(Value* pointers, Value* mask, Value* other, llvm::MaybeAlign align) {
    auto* type = other->getType()->getScalarType();
    const auto alignment = lane_alignment(pointers, align, type);
    Value* result = llvm::PoisonValue::get(other->getType());
    for (unsigned k = 0; k < lanes_of(other); ++k) {
      auto* wanted = lane(mask, k);
      const auto* known = llvm::dyn_cast<llvm::Constant>(wanted);
      auto* value = known && known->isNullValue()
                        ? lane(other, k)
                        : load_if(wanted, pointer(pointers, type, k), lane(other, k), alignment);
      result = builder_.CreateInsertElement(result, value, uint64_t{k});
    }
    return result;
  }
  /// If the load is inactive, read the start of the object that contains the address instead, if the object
  /// is known: that memory exists.
  Value* load_if(Value* wanted, Value* address, Value* other, llvm::Align align) {
    auto* type = other->getType();
    constexpr unsigned without_limit = 0;
    auto* object = llvm::getUnderlyingObject(address, without_limit);
    if (llvm::isa<llvm::Constant>(wanted) ||
        llvm::isa<llvm::Argument, llvm::AllocaInst, llvm::GlobalVariable>(object)) {
      auto* from = builder_.CreateSelect(wanted, address, object);
      auto* loaded = builder_.CreateAlignedLoad(type, from, align);
      return llvm::isa<llvm::UndefValue>(other) ? loaded : builder_.CreateSelect(wanted, loaded, other);
    }
    auto* before = builder_.GetInsertBlock();
    auto* end = llvm::SplitBlockAndInsertIfThen(wanted, &instruction_, false);
    builder_.SetInsertPoint(end);
    auto* loaded = builder_.CreateAlignedLoad(type, address, align);
    builder_.SetInsertPoint(&instruction_);
    auto* either = builder_.CreatePHI(type, 2);
    either->addIncoming(loaded, end->getParent());
    either->addIncoming(other, before);
    return either;
  }

  void store(Value* values, Value* pointers, Value* mask, llvm::MaybeAlign align) {
    auto* type = values->getType()->getScalarType();
    const auto write = [&](unsigned k) {
      builder_.CreateAlignedStore(lane(values, k), pointer(pointers, type, k),
                                  lane_alignment(pointers, align, type));
    };
    for (unsigned k = 0; k < lanes_of(values); ++k) {
      auto* wanted = lane(mask, k);
      if (const auto* known = llvm::dyn_cast<llvm::Constant>(wanted)) {
        if (known->isOneValue()) write(k);
        continue;
      }
      builder_.SetInsertPoint(llvm::SplitBlockAndInsertIfThen(wanted, &instruction_, false));
      write(k);
      builder_.SetInsertPoint(&instruction_);
    }
  }
  /// The alignment of one lane: that of an element if the given alignment belongs to the whole vector.
  static llvm::Align lane_alignment(Value* pointers, llvm::MaybeAlign align, llvm::Type* type) {
    const llvm::Align element(type->getScalarSizeInBits() / 8);
    return pointers->getType()->isVectorTy() ? align.value_or(element) : element;
  }

  llvm::Instruction& instruction_;
  llvm::IRBuilder<> builder_;
};

/// There is no atomic addition of floats: emit a compare-and-swap loop.
void exchange_floats(llvm::AtomicRMWInst& operation) {
  const auto compare_and_exchange = [](llvm::IRBuilderBase& builder, Value* address, Value* expected,
                                       Value* wanted, llvm::Align align, llvm::AtomicOrdering ordering,
                                       llvm::SyncScope::ID scope, Value*& done, Value*& loaded,
                                       llvm::Instruction*) {
    auto* type = expected->getType();
    auto* bits = builder.getIntNTy(type->getScalarSizeInBits());
    auto* pair = builder.CreateAtomicCmpXchg(
        address, builder.CreateBitCast(expected, bits), builder.CreateBitCast(wanted, bits), align, ordering,
        llvm::AtomicCmpXchgInst::getStrongestFailureOrdering(ordering), scope);
    done = builder.CreateExtractValue(pair, 1);
    loaded = builder.CreateBitCast(builder.CreateExtractValue(pair, 0), type);
  };
  llvm::expandAtomicRMWToCmpXchg(&operation, compare_and_exchange);
}

/// Only the device accesses the memory while it works, so device scope suffices.
void order_within_device(llvm::Instruction& instruction) {
  const auto scope = instruction.getContext().getOrInsertSyncScopeID("device");
  if (auto* load = llvm::dyn_cast<llvm::LoadInst>(&instruction); load && load->isAtomic())
    load->setSyncScopeID(scope);
  if (auto* store = llvm::dyn_cast<llvm::StoreInst>(&instruction); store && store->isAtomic())
    store->setSyncScopeID(scope);
  if (auto* operation = llvm::dyn_cast<llvm::AtomicRMWInst>(&instruction)) operation->setSyncScopeID(scope);
  if (auto* exchange = llvm::dyn_cast<llvm::AtomicCmpXchgInst>(&instruction)) exchange->setSyncScopeID(scope);
}

}  // namespace

void spell_out(llvm::Module& module) {
  for (auto& function : module) {
    std::vector<llvm::Instruction*> instructions;
    for (auto& instruction : llvm::instructions(function)) instructions.push_back(&instruction);
    std::vector<llvm::WeakTrackingVH> replaced;
    for (auto* instruction : instructions) {
      order_within_device(*instruction);
      if (auto* atomic = llvm::dyn_cast<llvm::AtomicRMWInst>(instruction)) {
        if (atomic->isFloatingPointOperation()) exchange_floats(*atomic);
        continue;
      }
      auto* other = Speller(*instruction).other_terms();
      if (!other) continue;
      if (other != instruction) instruction->replaceAllUsesWith(other);
      replaced.emplace_back(instruction);
    }
    // Also remove values that only these used, such as vectors of pointers; they may be among the replaced
    // ones.
    for (const auto& handle : replaced) {
      auto* old = llvm::cast_or_null<llvm::Instruction>(handle);
      if (!old) continue;
      const std::vector<llvm::WeakTrackingVH> operands(old->op_begin(), old->op_end());
      old->eraseFromParent();
      for (const auto& operand : operands)
        if (Value* value = operand) llvm::RecursivelyDeleteTriviallyDeadInstructions(value);
    }
  }
}

}  // namespace ferrite::level_zero
