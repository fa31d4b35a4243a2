// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ferrite/emitter/kernel_context.h"

#include <llvm/IR/Constants.h>
#include <llvm/IR/DerivedTypes.h>
#include <llvm/IR/GlobalVariable.h>
#include <llvm/IR/Intrinsics.h>

#include <algorithm>
#include <functional>
#include <utility>

namespace ferrite::emitter {

namespace {

llvm::StringRef view(std::string_view text) { return {text.data(), text.size()}; }

}  // namespace

KernelContext::KernelContext(llvm::Module& module_, const Target& target_, loop::Kernel& kernel_,
                             std::string_view entry)
    : module(module_),
      target(target_),
      kernel(kernel_),
      builder(module_.getContext()),
      math(builder, {target_.fused_multiply_add, target_.rounding, target_.division,
                     target_.grid ? std::string_view(target_.grid->exp2) : std::string_view()}) {
  auto& context = module.getContext();
  if (target.grid)
    begin_grid(entry);
  else
    begin_range(entry);
  function->addFnAttr(llvm::Attribute::NoUnwind);
  if (!target.cpu.empty()) function->addFnAttr("target-cpu", target.cpu);
  if (!target.features.empty()) function->addFnAttr("target-features", target.features);

  llvm::MDBuilder metadata(context);
  auto* domain = metadata.createAnonymousAliasScopeDomain(view(entry));
  std::vector<llvm::Metadata*> scopes;
  for (size_t k = 0; k < kernel.buffers.size(); ++k)
    scopes.push_back(metadata.createAnonymousAliasScope(domain));
  for (size_t k = 0; k < scopes.size(); ++k) {
    scope_.push_back(llvm::MDNode::get(context, {scopes[k]}));
    auto rest = scopes;
    rest.erase(rest.begin() + static_cast<std::ptrdiff_t>(k));
    others_.push_back(llvm::MDNode::get(context, rest));
  }
}

void KernelContext::begin_range(std::string_view entry) {
  auto& context = module.getContext();
  auto* pointer = builder.getPtrTy();
  auto* word = builder.getInt64Ty();
  auto* type =
      // One alias scope per buffer: accesses of different buffers do not alias.
      llvm::FunctionType::get(builder.getVoidTy(), {pointer, word, word, word, pointer, pointer}, false);
  function = llvm::Function::Create(type, llvm::Function::ExternalLinkage, view(entry), module);
  function->addFnAttr("prefer-vector-width", std::to_string(target.vector_bytes * 8));
  const char* names[] = {"buffers", "begin", "end", "worker", "workspace", "error"};
  for (unsigned k = 0; k < 6; ++k) function->getArg(k)->setName(names[k]);
  begin = function->getArg(1);
  end = function->getArg(2);
  workspace = function->getArg(4);
  error = function->getArg(5);
  builder.SetInsertPoint(llvm::BasicBlock::Create(context, "entry", function));

  auto* invariant = llvm::MDNode::get(context, {});
  unsigned argument = 0;
  for (size_t k = 0; k < kernel.buffers.size(); ++k) {
    const auto& buffer = kernel.buffers[k];
    if (buffer.kind == FE_BUFFER_LOCAL) {
      if (buffer.extent() <= 1) {
        bases_.push_back(slot(storage_type(buffer.dtype), "local" + std::to_string(k)));
      } else {
        bases_.push_back(take_workspace(buffer.bytes()));
      }
      continue;
    }
    auto* address = builder.CreateConstInBoundsGEP1_64(pointer, function->getArg(0), argument++);
    auto* base = builder.CreateLoad(pointer, address, "b" + std::to_string(k));
    base->setMetadata(llvm::LLVMContext::MD_invariant_load, invariant);
    bases_.push_back(base);
  }
}

void KernelContext::begin_grid(std::string_view entry) {
  const auto is_local = [](const loop::Buffer& buffer) { return buffer.kind == FE_BUFFER_LOCAL; };
  const auto arguments = std::ranges::count_if(kernel.buffers, std::not_fn(is_local)) + 1;
  const std::vector<llvm::Type*> types(static_cast<size_t>(arguments),
                                       builder.getPtrTy(target.grid->global_space));
  auto* type = llvm::FunctionType::get(builder.getVoidTy(), types, false);
  function = llvm::Function::Create(type, llvm::Function::ExternalLinkage, view(entry), module);
  function->setCallingConv(target.grid->calling_convention);
  unsigned argument = 0;
  for (size_t k = 0; k < kernel.buffers.size(); ++k) {
    bases_.push_back(is_local(kernel.buffers[k]) ? nullptr : function->getArg(argument++));
    if (bases_[k]) bases_[k]->setName("b" + std::to_string(k));
  }
  error = function->getArg(argument);
  error->setName("error");
  builder.SetInsertPoint(llvm::BasicBlock::Create(module.getContext(), "entry", function));
}

llvm::Type* KernelContext::storage_type(DType dtype) {
  switch (dtype) {
    case DType::f16_: return builder.getHalfTy();
    case DType::f32_: return builder.getFloatTy();
    case DType::f64_: return builder.getDoubleTy();
    default: return builder.getIntNTy(static_cast<unsigned>(bits_of(dtype)));
  }
}

llvm::Type* KernelContext::value_type(DType dtype) {
  if (dtype == boolean) return builder.getInt1Ty();
  if (compute_type(dtype) == f32) return builder.getFloatTy();
  return storage_type(dtype);
}

llvm::Type* KernelContext::value_type(DType dtype, unsigned lanes) {
  auto* scalar = value_type(dtype);
  return lanes == 1 ? scalar : llvm::FixedVectorType::get(scalar, lanes);
}

void KernelContext::mark(llvm::Instruction* access, loop::BufferId buffer) {
  access->setMetadata(llvm::LLVMContext::MD_alias_scope, scope_[buffer]);
  if (others_[buffer]->getNumOperands() != 0)
    access->setMetadata(llvm::LLVMContext::MD_noalias, others_[buffer]);
}

void KernelContext::prefetch(llvm::IRBuilder<>& builder, llvm::Value* address, bool to_write, Level level) {
  constexpr uint32_t data = 1;
  builder.CreateIntrinsic(llvm::Intrinsic::prefetch, {builder.getPtrTy()},
                          {address, builder.getInt32(to_write ? 1 : 0),
                           builder.getInt32(level == Level::first ? 3 : 2), builder.getInt32(data)});
}

llvm::AllocaInst* KernelContext::slot(llvm::Type* type, const llvm::Twine& name) {
  auto& entry = function->getEntryBlock();
  llvm::IRBuilder<> at_entry(&entry, entry.begin());
  return at_entry.CreateAlloca(type, nullptr, name);
}

llvm::Value* KernelContext::take_workspace(int64_t bytes) {
  int64_t offset = workspace_bytes;
  workspace_bytes += (bytes + 63) / 64 * 64;
  return builder.CreateConstInBoundsGEP1_64(builder.getInt8Ty(), workspace, static_cast<uint64_t>(offset));
}

llvm::BasicBlock* KernelContext::block(const llvm::Twine& name) {
  return llvm::BasicBlock::Create(module.getContext(), name, function);
}

void KernelContext::loop(llvm::Value* from, llvm::Value* to, int64_t step, const llvm::Twine& name,
                         const std::function<void(llvm::Value*)>& body) {
  auto* first = llvm::dyn_cast<llvm::ConstantInt>(from);
  auto* last = llvm::dyn_cast<llvm::ConstantInt>(to);
  if (first && last) {
    // Loops of constant bounds with at most one iteration become straight-line code.
    if (first->getSExtValue() >= last->getSExtValue()) return;
    if (first->getSExtValue() + step >= last->getSExtValue()) {
      auto* straight = block(name);
      builder.CreateBr(straight);
      builder.SetInsertPoint(straight);
      return body(from);
    }
  }
  auto* exit = block(name + ".end");
  auto* before = builder.GetInsertBlock();
  auto* head = block(name);
  if (first && last) {
    builder.CreateBr(head);
  } else {
    builder.CreateCondBr(builder.CreateICmpSLT(from, to), head, exit);
  }
  builder.SetInsertPoint(head);
  auto* value = builder.CreatePHI(builder.getInt64Ty(), 2, "i");
  value->addIncoming(from, before);
  body(value);
  auto* next = builder.CreateNSWAdd(value, i64(step));
  value->addIncoming(next, builder.GetInsertBlock());
  builder.CreateCondBr(builder.CreateICmpSLT(next, to), head, exit);
  builder.SetInsertPoint(exit);
}

void KernelContext::when(llvm::Value* condition, const llvm::Twine& name, const std::function<void()>& body) {
  if (auto* known = llvm::dyn_cast<llvm::ConstantInt>(condition)) {
    if (known->isOne()) body();
    return;
  }
  auto* taken = block(name);
  auto* exit = block(name + ".end");
  builder.CreateCondBr(condition, taken, exit);
  builder.SetInsertPoint(taken);
  body();
  builder.CreateBr(exit);
  builder.SetInsertPoint(exit);
}

std::vector<llvm::Value*> KernelContext::coordinates(std::span<const loop::Var> vars, llvm::Value* flat) {
  std::vector<llvm::Value*> result(vars.size(), i64(0));
  int64_t count = 1;
  bool fits = true;
  for (const auto& var : vars)
    fits = fits && !__builtin_mul_overflow(count, var.extent, &count) && count < 1LL << 31;
  // Coordinates of extent 1 stay 0; the outermost other variable needs no modulo.
  const auto is_single = [](const loop::Var& var) { return var.extent == 1; };
  for (size_t v = vars.size(); v-- > 0;) {
    if (is_single(vars[v])) continue;
    if (std::ranges::all_of(vars.first(v), is_single)) {
      result[v] = flat;
      break;
    }
    result[v] = divide(flat, vars[v].extent, fits, true);
    flat = divide(flat, vars[v].extent, fits, false);
  }
  return result;
}

llvm::Value* KernelContext::divide(llvm::Value* value, int64_t by, bool fits, bool rest) {
  const auto make = [&](llvm::Value* a, llvm::Value* b) {
    return rest ? builder.CreateURem(a, b) : builder.CreateUDiv(a, b);
  };
  if (!fits || !target.grid) return make(value, i64(by));
  auto* narrow = builder.CreateTrunc(value, builder.getInt32Ty());
  return builder.CreateZExt(make(narrow, builder.getInt32(static_cast<uint32_t>(by))), builder.getInt64Ty());
}

llvm::Value* KernelContext::lane_mask(llvm::Value* count, unsigned lanes) {
  if (auto* known = llvm::dyn_cast<llvm::ConstantInt>(count)) {
    std::vector<llvm::Constant*> bits;
    for (unsigned k = 0; k < lanes; ++k) bits.push_back(builder.getInt1(k < known->getZExtValue()));
    return llvm::ConstantVector::get(bits);
  }
  auto* narrow = builder.getInt32Ty();
  auto* limit = builder.CreateTrunc(count, narrow);
  return builder.CreateICmpULT(iota(narrow, lanes), builder.CreateVectorSplat(lanes, limit), "lanes");
}

llvm::Constant* KernelContext::iota(llvm::Type* integer, unsigned lanes, int64_t step) {
  std::vector<llvm::Constant*> values;
  for (unsigned k = 0; k < lanes; ++k)
    values.push_back(llvm::ConstantInt::getSigned(integer, static_cast<int64_t>(k) * step));
  return llvm::ConstantVector::get(values);
}

llvm::Value* KernelContext::nowhere() {
  if (nowhere_) return nowhere_;
  constexpr unsigned vectors = 4;
  auto* vector = llvm::FixedVectorType::get(builder.getInt8Ty(), std::max(16u, target.vector_bytes));
  auto* type = llvm::ArrayType::get(vector, vectors);
  if (target.grid) {
    auto* variable = new llvm::GlobalVariable(module, type, true, llvm::GlobalValue::InternalLinkage,
                                              llvm::Constant::getNullValue(type), "nowhere", nullptr,
                                              llvm::GlobalValue::NotThreadLocal, target.grid->global_space);
    variable->setAlignment(llvm::Align(std::max(16u, target.vector_bytes)));
    return nowhere_ = variable;
  }
  auto* memory = slot(type, "nowhere");
  llvm::IRBuilder<> after(memory->getNextNode());
  for (unsigned k = 0; k < vectors; ++k)
    after.CreateStore(llvm::Constant::getNullValue(vector),
                      after.CreateConstInBoundsGEP1_64(vector, memory, k));
  return nowhere_ = memory;
}

llvm::Value* KernelContext::nowhere(loop::BufferId buffer) { return target.grid ? base(buffer) : nowhere(); }

// The zeros of nowhere() belong to a function, so another function must make its own.
void KernelContext::within(llvm::Function* other, std::vector<llvm::Value*> bases,
                           const std::function<void()>& body) {
  const llvm::IRBuilderBase::InsertPointGuard place(builder);
  std::swap(function, other);
  std::swap(bases_, bases);
  auto* nowhere = std::exchange(nowhere_, nullptr);
  builder.SetInsertPoint(block("entry"));
  body();
  nowhere_ = nowhere;
  std::swap(bases_, bases);
  std::swap(function, other);
}

llvm::Value* KernelContext::widen_half(llvm::Value* half) {
  if (target.half_conversion) return math.widen_f16(half);
  auto* type = half->getType()->getWithNewType(builder.getInt32Ty());
  auto* float_type = type->getWithNewType(builder.getFloatTy());
  auto number = [&](uint32_t value) { return llvm::ConstantInt::get(type, value); };
  auto* bits = builder.CreateZExt(
      builder.CreateBitCast(half, half->getType()->getWithNewType(builder.getInt16Ty())), type);
  auto* magnitude = builder.CreateAnd(bits, number(0x7fff));
  auto* sign = builder.CreateShl(builder.CreateAnd(bits, number(0x8000)), number(16));
  auto* shifted = builder.CreateShl(magnitude, number(13));
  // Rebias the exponent by 112, and by another 112 if it is full (infinities and NaN).
  auto* normal = builder.CreateAdd(shifted, number(112u << 23));
  auto* full = builder.CreateICmpUGE(magnitude, number(0x7c00));
  normal = builder.CreateSelect(full, builder.CreateAdd(shifted, number(224u << 23)), normal);
  auto* tiny = builder.CreateFMul(builder.CreateUIToFP(magnitude, float_type),
                                  llvm::ConstantFP::get(float_type, 0x1p-24));
  auto* subnormal = builder.CreateICmpULT(magnitude, number(0x400));
  auto* result = builder.CreateSelect(subnormal, builder.CreateBitCast(tiny, type), normal);
  return builder.CreateBitCast(builder.CreateOr(result, sign), float_type);
}

llvm::Value* KernelContext::narrow_half(llvm::Value* value) {
  if (target.half_conversion) return math.narrow_f16(value);
  auto* type = value->getType()->getWithNewType(builder.getInt32Ty());
  auto number = [&](uint32_t bits) { return llvm::ConstantInt::get(type, bits); };
  auto* bits = builder.CreateBitCast(value, type);
  auto* magnitude = builder.CreateAnd(bits, number(0x7fffffff));
  auto* sign = builder.CreateAnd(builder.CreateLShr(bits, number(16)), number(0x8000));
  // Round to nearest even: add half an ulp minus one, plus the last kept bit.
  auto* last = builder.CreateAnd(builder.CreateLShr(magnitude, number(13)), number(1));
  auto* rounded = builder.CreateAdd(builder.CreateAdd(magnitude, number(0xfff)), last);
  auto* normal = builder.CreateLShr(builder.CreateSub(rounded, number(112u << 23)), number(13));
  // The ulp of 0.5 is the smallest subnormal half, so adding 0.5 rounds the value.
  auto* half = llvm::ConstantFP::get(value->getType(), 0.5);
  auto* sum = builder.CreateFAdd(builder.CreateBitCast(magnitude, value->getType()), half);
  auto* subnormal = builder.CreateSub(builder.CreateBitCast(sum, type), number(0x3f000000));
  auto* result =
      builder.CreateSelect(builder.CreateICmpULT(magnitude, number(0x38800000)), subnormal, normal);
  result = builder.CreateSelect(builder.CreateICmpUGE(magnitude, number(0x477ff000)), number(0x7c00), result);
  result = builder.CreateSelect(builder.CreateICmpUGT(magnitude, number(0x7f800000)), number(0x7e00), result);
  auto* narrow =
      builder.CreateTrunc(builder.CreateOr(result, sign), type->getWithNewType(builder.getInt16Ty()));
  return builder.CreateBitCast(narrow, value->getType()->getWithNewType(builder.getHalfTy()));
}

llvm::Value* KernelContext::narrow_bf16(llvm::Value* value) {
  if (!target.bf16_conversion || value->getType()->getScalarType()->isDoubleTy())
    return math.narrow_bf16(value);
  auto* type = value->getType();
  return builder.CreateBitCast(builder.CreateFPTrunc(value, type->getWithNewType(builder.getBFloatTy())),
                               type->getWithNewType(builder.getInt16Ty()));
}

llvm::Value* KernelContext::widen_f8(llvm::Value* bits, DType dtype) {
  if (dtype != f8e5m2) return math.widen_f8(bits, dtype);
  // f8e5m2 is the upper half of an f16.
  auto* type = bits->getType()->getWithNewType(builder.getInt16Ty());
  auto* upper = builder.CreateShl(builder.CreateZExt(bits, type), 8);
  return widen_half(builder.CreateBitCast(upper, type->getWithNewType(builder.getHalfTy())));
}

llvm::Value* KernelContext::splat(llvm::Value* value, unsigned lanes) {
  if (lanes == 1 || value->getType()->isVectorTy()) return value;
  return builder.CreateVectorSplat(lanes, value);
}

}  // namespace ferrite::emitter
