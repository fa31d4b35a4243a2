// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "backends/llvm/gpu/nest/thread_block.h"

#include <llvm/IR/Constants.h>
#include <llvm/IR/Instructions.h>

#include <algorithm>
#include <array>
#include <vector>

namespace ferrite::emitter {

namespace {

constexpr uint64_t shared_alignment = bytes_of_access;

}  // namespace

ThreadBlock::ThreadBlock(KernelContext& context)
    : context_(context),
      machine_(*context.target.grid),
      thread_(call(machine_.thread)),
      number_(call(machine_.block)) {
  // Before every access to memory and in all threads: a launch that waits for this one then knows that the
  // earlier ones have finished, too.
  if (!machine_.launches_before.name.empty()) call(machine_.launches_before);
}

void ThreadBlock::barrier() {
  const auto fence = [&](llvm::AtomicOrdering ordering) {
    if (!machine_.block_scope.empty())
      context_.builder.CreateFence(ordering,
                                   context_.module.getContext().getOrInsertSyncScopeID(machine_.block_scope));
  };
  fence(llvm::AtomicOrdering::Release);
  call(machine_.barrier);
  fence(llvm::AtomicOrdering::Acquire);
}

// The variable gets its size in finish_shared(), when all arrays are known.
llvm::Value* ThreadBlock::shared(llvm::Type* element, int64_t count) {
  auto& builder = context_.builder;
  if (!memory_) {
    memory_ = new llvm::GlobalVariable(context_.module, llvm::ArrayType::get(builder.getInt8Ty(), 0), false,
                                       llvm::GlobalValue::ExternalLinkage, nullptr, "shared", nullptr,
                                       llvm::GlobalValue::NotThreadLocal, machine_.shared_space);
    memory_->setAlignment(llvm::Align(shared_alignment));
  }
  const uint64_t size = context_.module.getDataLayout().getTypeAllocSize(element).getFixedValue();
  const uint64_t bytes = size * static_cast<uint64_t>(std::max<int64_t>(1, count));
  auto* address =
      builder.CreateConstInBoundsGEP1_64(builder.getInt8Ty(), memory_, static_cast<uint64_t>(shared_bytes_));
  shared_bytes_ += static_cast<int64_t>((bytes + shared_alignment - 1) / shared_alignment * shared_alignment);
  return address;
}

int64_t ThreadBlock::finish_shared() {
  if (!memory_) return 0;
  // The external variable stays: the launch sets the size of its memory.
  if (shared_bytes_ > machine_.static_bytes) return shared_bytes_;
  auto* type = llvm::ArrayType::get(context_.builder.getInt8Ty(), static_cast<uint64_t>(shared_bytes_));
  auto* variable = new llvm::GlobalVariable(context_.module, type, false, llvm::GlobalValue::InternalLinkage,
                                            llvm::UndefValue::get(type), "shared", memory_,
                                            llvm::GlobalValue::NotThreadLocal, machine_.shared_space);
  variable->setAlignment(llvm::Align(shared_alignment));
  memory_->replaceAllUsesWith(variable);
  memory_->eraseFromParent();
  memory_ = variable;
  return 0;
}

const GpuMachine::Copy* ThreadBlock::copy_of(int64_t bytes) const {
  const auto found = std::ranges::find(machine_.copies.widths, bytes, &GpuMachine::Copy::bytes);
  return found == machine_.copies.widths.end() ? nullptr : &*found;
}

void ThreadBlock::copy(const GpuMachine::Copy& copy, llvm::Value* to, llvm::Value* from, llvm::Value* exists,
                       llvm::Value* bytes) {
  auto& builder = context_.builder;
  bytes = bytes ? builder.CreateTrunc(bytes, builder.getInt32Ty())
                : builder.getInt32(static_cast<uint32_t>(copy.bytes));
  if (exists) bytes = builder.CreateSelect(exists, bytes, builder.getInt32(0));
  const std::array operands{to, from, bytes};
  call(copy.name, builder.getVoidTy(), operands);
}

void ThreadBlock::wait_for_copies(int64_t under_way) {
  const std::array<llvm::Value*, 1> operands{context_.builder.getInt32(static_cast<uint32_t>(under_way))};
  call(machine_.copies.wait, context_.builder.getVoidTy(), operands);
}

void ThreadBlock::make_resident(int64_t blocks) {
  if (!machine_.resident_attribute.empty())
    context_.function->addFnAttr(machine_.resident_attribute, std::to_string(blocks));
}

void ThreadBlock::make_cluster(int64_t blocks) {
  context_.function->addFnAttr(machine_.cluster.attribute, std::to_string(blocks));
}

void ThreadBlock::cluster_barrier() {
  call(machine_.cluster.arrive);
  call(machine_.cluster.wait);
}

llvm::Value* ThreadBlock::in_block(llvm::Value* address, llvm::Value* number) {
  auto& builder = context_.builder;
  const std::array operands{address, builder.CreateTrunc(number, builder.getInt32Ty())};
  return call(machine_.cluster.map, builder.getPtrTy(machine_.cluster.space), operands);
}

void ThreadBlock::divide(int64_t count, int64_t threads, const llvm::Twine& name,
                         const std::function<void(llvm::Value*)>& body) {
  context_.loop(thread_, context_.i64(count), threads, name, body);
}

void ThreadBlock::vector(llvm::Value* left, int64_t extent, int64_t lanes, int64_t together,
                         const std::function<void(llvm::Value*)>& work) {
  if (extent % together == 0) return work(nullptr);
  auto& builder = context_.builder;
  context_.when(builder.CreateICmpSGE(left, context_.i64(lanes)), "whole", [&] { work(nullptr); });
  if (extent % lanes == 0) return;
  // Threads whose columns all exist took the branch above; the others mask the remainder.
  auto* some = builder.CreateAnd(builder.CreateICmpSGT(left, context_.i64(0)),
                                 builder.CreateICmpSLT(left, context_.i64(lanes)));
  context_.when(some, "rest", [&] { work(context_.lane_mask(left, static_cast<unsigned>(lanes))); });
}

llvm::Value* ThreadBlock::from_lane(llvm::Value* value, unsigned distance) {
  auto& builder = context_.builder;
  const auto& lanes = machine_.lanes;
  auto* type = value->getType();
  const unsigned bits = type->getScalarSizeInBits(), word_bits = 32;
  auto* word = builder.getInt32Ty();
  llvm::Value* offset = nullptr;
  // The machine addresses lanes by byte offsets.
  if (lanes.by_place) {
    constexpr uint32_t bytes = word_bits / 8;
    auto* lane = builder.CreateURem(builder.CreateTrunc(thread_, word), builder.getInt32(machine_.warp));
    offset = builder.CreateMul(builder.CreateXor(lane, builder.getInt32(distance)), builder.getInt32(bytes));
  }
  const auto exchanged = [&](llvm::Value* given) {
    std::vector<llvm::Value*> operands;
    for (const uint32_t operand : lanes.before) operands.push_back(builder.getInt32(operand));
    if (offset) operands.push_back(offset);
    operands.push_back(given);
    if (!offset) operands.push_back(builder.getInt32(distance));
    for (const uint32_t operand : lanes.after) operands.push_back(builder.getInt32(operand));
    return call(lanes.name, word, operands);
  };
  auto* whole = builder.getIntNTy(bits);
  llvm::Value* raw = builder.CreateBitCast(value, whole);
  // Shuffles move 32-bit words: extend narrower values, and split wider ones.
  if (bits <= word_bits)
    return builder.CreateBitCast(builder.CreateTrunc(exchanged(builder.CreateZExt(raw, word)), whole), type);
  llvm::Value* result = llvm::ConstantInt::get(whole, 0);
  for (unsigned at = 0; at < bits; at += word_bits) {
    auto* part = exchanged(builder.CreateTrunc(builder.CreateLShr(raw, at), word));
    result = builder.CreateOr(result, builder.CreateShl(builder.CreateZExt(part, whole), at));
  }
  return builder.CreateBitCast(result, type);
}

llvm::Value* ThreadBlock::call(const GpuMachine::Function& function) {
  auto& builder = context_.builder;
  std::vector<llvm::Value*> operands;
  for (const uint32_t operand : function.operands) operands.push_back(builder.getInt32(operand));
  auto* type = function.bits == 0 ? builder.getVoidTy() : builder.getIntNTy(function.bits);
  auto* made = llvm::cast<llvm::CallInst>(call(function.name, type, operands));
  if (auto* callee = made->getCalledFunction(); !callee->isIntrinsic()) {
    // LLVM knows this for intrinsics: the function is convergent, or it is a pure function of the thread.
    made->setCallingConv(function.calling_convention);
    callee->setCallingConv(function.calling_convention);
    callee->setDoesNotThrow();
    if (function.bits == 0)
      callee->setConvergent();
    else
      callee->setDoesNotAccessMemory(), callee->addFnAttr(llvm::Attribute::WillReturn);
  }
  return function.bits == 0 ? made : builder.CreateZExtOrTrunc(made, builder.getInt64Ty());
}

llvm::Value* ThreadBlock::call(const std::string& name, llvm::Type* result,
                               std::span<llvm::Value* const> operands) {
  std::vector<llvm::Type*> types;
  for (const auto* operand : operands) types.push_back(operand->getType());
  const auto callee =
      context_.module.getOrInsertFunction(name, llvm::FunctionType::get(result, types, false));
  return context_.builder.CreateCall(callee, llvm::ArrayRef(operands.data(), operands.size()));
}

}  // namespace ferrite::emitter
