// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Loads and stores of a body: contiguous, reversed, shuffled from a few adjacent vectors, or gathered. They
// are masked wherever a lane may not exist.
#include <llvm/IR/Constants.h>
#include <llvm/IR/DerivedTypes.h>
#include <llvm/IR/InlineAsm.h>
#include <llvm/IR/Intrinsics.h>
#include <llvm/Support/MathExtras.h>

#include <algorithm>
#include <bit>

#include "ferrite/emitter/body_emitter.h"

namespace ferrite::emitter {

namespace {

constexpr unsigned word_bytes = 4;  // the least width of atomic exchange on machines with grids

/// Whether the 32-bit words that contain the elements belong entirely to the buffer: an exchange of a word
/// past its end would race with another buffer.
bool has_whole_words(const loop::Buffer& buffer) {
  return buffer.kind != FE_BUFFER_LOCAL && buffer.alignment >= word_bytes && buffer.bytes() % word_bytes == 0;
}

/// Whether the buffer has a single element: the address is then constant even for indices from data, so a
/// local buffer stays in a register.
bool is_single(const loop::Buffer& buffer) { return buffer.extent() == 1; }

llvm::SmallVector<int, 64> reversed(unsigned lanes) {
  llvm::SmallVector<int, 64> order(lanes);
  for (unsigned k = 0; k < lanes; ++k) order[k] = static_cast<int>(lanes - 1 - k);
  return order;
}

/// The lane of a constant mask with exactly one active lane.
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

bool stores_at_once(const GpuMachine& machine, const loop::Kernel& kernel, const loop::Statement& statement) {
  const auto is_atomic = [&](const loop::Store& store) {
    const auto& buffer = kernel.buffers[store.buffer];
    const bool extremum = store.mode == FE_STORE_MAX || store.mode == FE_STORE_MIN;
    if (!extremum && store.mode != FE_STORE_ADD) return false;
    if (KernelContext::storage_bytes(buffer.dtype) >= word_bytes) return true;
    // Compare-and-swap scales badly: thousands of threads that all change one element make each other retry.
    // Extrema rarely change it.
    return (extremum || machine.pair_sum_of(buffer.dtype)) && has_whole_words(buffer);
  };
  return statement.kind == FE_STATEMENT_SCATTER && std::ranges::all_of(statement.stores, is_atomic);
}

llvm::Value* BodyEmitter::widen(llvm::Value* stored, DType dtype) {
  if (dtype == boolean) return builder_.CreateICmpNE(stored, llvm::Constant::getNullValue(stored->getType()));
  if (dtype == bf16) return context_.math.widen_bf16(stored);
  if (dtype == f16) return context_.widen_half(stored);
  if (is_f8(dtype)) return context_.widen_f8(stored, dtype);
  return stored;
}

llvm::Value* BodyEmitter::widen_loaded(llvm::Value* loaded, DType dtype, bool shuffled) {
  auto* value = widen(loaded, dtype);
  // For halves that are gathered one by one and then shuffled, the x86 code generator of LLVM 22 drops
  // elements when it combines the conversion with the shuffles. The fence prevents that.
  if (dtype == f16 && shuffled && !context_.target.grid)
    value = builder_.CreateArithmeticFence(value, value->getType());
  return value;
}

llvm::Value* BodyEmitter::narrow(llvm::Value* value, DType dtype) {
  if (dtype == boolean)
    return builder_.CreateZExt(value, value->getType()->getWithNewType(builder_.getInt8Ty()));
  if (dtype == bf16) return context_.narrow_bf16(value);
  if (dtype == f16) return context_.narrow_half(value);
  if (is_f8(dtype)) return context_.math.narrow_f8(value, dtype);
  return value;
}

llvm::Value* BodyEmitter::round_to(llvm::Value* value, DType dtype) {
  return is_float(dtype) && bits_of(dtype) < 32 ? widen(narrow(value, dtype), dtype) : value;
}

llvm::Value* BodyEmitter::pointer(loop::BufferId buffer, llvm::Value* element) {
  auto* type = context_.storage_type(context_.kernel.buffers[buffer].dtype);
  return builder_.CreateGEP(type, context_.base(buffer), element);
}

/// The lanes that exist and for which `mask` (a value of the body, or null) is true; null: all.
llvm::Value* BodyEmitter::element_mask(llvm::Value* mask) {
  if (!mask) return point_.mask;
  mask = spread(mask);
  return point_.mask ? builder_.CreateAnd(point_.mask, mask) : mask;
}

llvm::Value* BodyEmitter::emit_load(const loop::BodyOp& op, loop::OpId id, bool as_stored) {
  const auto& buffer = context_.kernel.buffers[op.buffer];
  auto* mask = op.a == loop::none ? nullptr : value(op.a);
  auto* other = op.b == loop::none ? nullptr : as_stored ? stored(op.b) : value(op.b);
  const auto taken = [&](llvm::Value* loaded) {
    return as_stored ? loaded : widen_loaded(loaded, op.dtype, shuffled_[id]);
  };
  const auto choose = [&](llvm::Value* condition, llvm::Value* yes, llvm::Value* no) {
    return as_stored ? choose_stored(condition, yes, no) : builder_.CreateSelect(condition, yes, no);
  };
  if (auto* known = llvm::dyn_cast_or_null<llvm::ConstantInt>(mask)) {
    if (known->isZero()) return other;
    mask = nullptr;
  }
  if (buffer.elements() == 0) {
    auto* type = as_stored ? context_.storage_type(op.dtype) : context_.value_type(op.dtype);
    return other ? other : llvm::Constant::getNullValue(type);
  }
  auto place = address(load_address_[id]);
  if (place.step == 0 || point_.lanes == 1) {
    llvm::Value* condition = mask;
    if (mask && mask->getType()->isVectorTy()) condition = builder_.CreateOrReduce(element_mask(mask));
    auto* loaded = taken(load_scalar(op.buffer, place.base, condition));
    if (!mask || !other) return loaded;
    if (mask->getType()->isVectorTy()) return choose(mask, spread(loaded), spread(other));
    if (other->getType()->isVectorTy()) loaded = spread(loaded);
    return choose(mask, loaded, other);
  }
  auto* condition = mask && !mask->getType()->isVectorTy() ? mask : nullptr;
  shuffled_[id] = place.step != 1;
  auto* loaded = taken(load_lanes(op.buffer, place, condition, element_mask(condition ? nullptr : mask)));
  return mask && other ? choose(spread(mask), loaded, spread(other)) : loaded;
}

llvm::Value* BodyEmitter::stored_lanes_of(loop::OpId id) {
  if (is_moved(id)) return spread(stored(id));
  const auto& op = statement_.ops[id];
  const bool plain = op.code == FE_OP_LOAD && op.a == loop::none && !values_[id];
  if (!plain || context_.kernel.buffers[op.buffer].elements() == 0) return narrow(lanes_of(id), op.dtype);
  for (const auto binding : bindings_[id]) value(binding);
  const auto place = address(load_address_[id]);
  if (place.step == 0 || point_.lanes == 1) return spread(load_scalar(op.buffer, place.base, nullptr));
  return load_lanes(op.buffer, place, nullptr, element_mask(nullptr));
}

llvm::Value* BodyEmitter::load_scalar(loop::BufferId buffer, llvm::Value* element, llvm::Value* condition) {
  auto* type = context_.storage_type(context_.kernel.buffers[buffer].dtype);
  auto* from = is_single(context_.kernel.buffers[buffer]) ? context_.base(buffer) : pointer(buffer, element);
  if (condition) from = builder_.CreateSelect(condition, from, context_.nowhere(buffer));
  auto* loaded = builder_.CreateAlignedLoad(
      type, from, llvm::Align(KernelContext::storage_bytes(context_.kernel.buffers[buffer].dtype)));
  if (!condition) context_.mark(loaded, buffer);
  return loaded;
}

/// The alignment of an access to adjacent lanes: that of an element, or of the vector if the machine owns all
/// of the buffer's memory and the access starts at a multiple of the lanes.
llvm::Align BodyEmitter::alignment(loop::BufferId id, const Address& place) const {
  const auto& buffer = context_.kernel.buffers[id];
  const uint64_t bytes = KernelContext::storage_bytes(buffer.dtype), vector = bytes * point_.lanes;
  const bool whole = context_.target.grid && place.whole && buffer.kind != FE_BUFFER_LOCAL;
  return llvm::Align(whole && vector <= buffer.alignment && std::has_single_bit(vector) ? vector : bytes);
}

/// Loads adjacent elements; `certain`: the address is known to lie in the buffer.
llvm::Value* BodyEmitter::load_vector(loop::BufferId buffer, llvm::Value* from, unsigned lanes, bool certain,
                                      llvm::Value* mask, llvm::Align align) {
  DType dtype = context_.kernel.buffers[buffer].dtype;
  auto* type = llvm::FixedVectorType::get(context_.storage_type(dtype), lanes);
  llvm::Instruction* loaded;
  if (mask) {
    loaded = builder_.CreateMaskedLoad(type, from, align, mask, llvm::Constant::getNullValue(type));
  } else {
    loaded = builder_.CreateAlignedLoad(type, from, align);
  }
  if (certain) context_.mark(loaded, buffer);
  return loaded;
}

/// Loads lanes at small constant distances: reads the vectors that contain them, from the first lane's
/// element to the last one's and not beyond, and shuffles.
llvm::Value* BodyEmitter::load_window(loop::BufferId buffer, const Address& place, llvm::Value* condition,
                                      llvm::Value* mask) {
  const unsigned lanes = point_.lanes, count = vectors_of_window(place.offsets);
  const auto [low, high] = std::ranges::minmax(place.offsets);
  const auto span = static_cast<unsigned>(high - low + 1);
  const unsigned width = count > 1 ? lanes : mask ? std::min(lanes, std::bit_ceil(span)) : span;
  auto* scalar = context_.storage_type(context_.kernel.buffers[buffer].dtype);
  auto* from = pointer(buffer, builder_.CreateAdd(place.base, context_.i64(low)));
  if (condition) from = builder_.CreateSelect(condition, from, context_.nowhere());
  // An element is active if a lane that uses it is. Masks are shuffled as integers, which every machine
  // supports.
  llvm::Value* wide = nullptr;
  if (mask) {
    auto* integer = builder_.getIntNTy(scalar->getScalarSizeInBits());
    wide = builder_.CreateSExt(mask, llvm::FixedVectorType::get(integer, lanes));
  }
  const auto mask_from = [&](unsigned start) -> llvm::Value* {
    if (!wide) return nullptr;
    auto* none = llvm::Constant::getNullValue(wide->getType());
    llvm::Value* active = nullptr;
    std::vector<unsigned> taken(width);
    for (bool more = true; more;) {
      more = false;
      llvm::SmallVector<int, 64> lane_of(width, static_cast<int>(lanes));
      for (unsigned j = 0; j < width; ++j)
        for (unsigned k = taken[j]; k < lanes; ++k)
          if (place.offsets[k] - low == int64_t{start} + j) {
            lane_of[j] = static_cast<int>(k);
            taken[j] = k + 1;
            more = true;
            break;
          }
      if (!more && active) break;
      auto* part = builder_.CreateShuffleVector(wide, none, lane_of);
      active = active ? builder_.CreateOr(active, part) : part;
    }
    return builder_.CreateICmpSLT(active, llvm::Constant::getNullValue(active->getType()));
  };
  // The last vector ends at the last element, so that nothing past it is read.
  std::vector<unsigned> starts;
  std::vector<llvm::Value*> vectors;
  for (unsigned v = 0; v < count; ++v) {
    starts.push_back(v > 0 && v + 1 == count ? span - width : v * width);
    auto* at = builder_.CreateConstGEP1_64(scalar, from, starts[v]);
    vectors.push_back(load_vector(buffer, at, width, !condition, mask_from(starts[v]),
                                  llvm::Align(scalar->getScalarSizeInBits() / 8)));
  }
  const auto vector_of = [&](unsigned lane) {
    return std::min(static_cast<unsigned>(place.offsets[lane] - low) / width, count - 1);
  };
  const auto element_of = [&](unsigned lane) {
    return static_cast<int>(place.offsets[lane] - low) - static_cast<int>(starts[vector_of(lane)]);
  };
  // Shuffles combine two vectors at a time: first each pair, then the two results.
  const auto pair = [&](unsigned first) {
    auto* second = first + 1 < count ? vectors[first + 1] : llvm::PoisonValue::get(vectors[first]->getType());
    llvm::SmallVector<int, 64> order(lanes, llvm::PoisonMaskElem);
    for (unsigned k = 0; k < lanes; ++k)
      if (const unsigned v = vector_of(k); v == first || v == first + 1)
        order[k] = element_of(k) + (v == first ? 0 : static_cast<int>(width));
    return builder_.CreateShuffleVector(vectors[first], second, order);
  };
  auto* result = pair(0);
  if (count <= 2) return result;
  llvm::SmallVector<int, 64> order(lanes);
  for (unsigned k = 0; k < lanes; ++k) order[k] = static_cast<int>(vector_of(k) < 2 ? k : lanes + k);
  return builder_.CreateShuffleVector(result, pair(2), order);
}

llvm::Value* BodyEmitter::load_lanes(loop::BufferId buffer, const Address& place, llvm::Value* condition,
                                     llvm::Value* mask) {
  DType dtype = context_.kernel.buffers[buffer].dtype;
  const unsigned lanes = point_.lanes, bytes = KernelContext::storage_bytes(dtype);
  const auto& target = context_.target;
  if (condition && lanes * bytes > target.vector_bytes) {
    // The vector is wider than the zeros that are readable in its place: fold the condition into the mask.
    mask = mask ? builder_.CreateAnd(mask, spread(condition)) : spread(condition);
    condition = nullptr;
  }
  if (place.step == 1 || place.step == -1) {
    const bool transposed = place.step == -1;
    auto* first = transposed ? builder_.CreateSub(place.base, context_.i64(lanes - 1)) : place.base;
    auto* from = pointer(buffer, first);
    if (condition) from = builder_.CreateSelect(condition, from, context_.nowhere());
    if (!transposed) return load_vector(buffer, from, lanes, !condition, mask, alignment(buffer, place));
    auto order = reversed(lanes);
    if (mask) mask = builder_.CreateShuffleVector(mask, order);
    return builder_.CreateShuffleVector(
        load_vector(buffer, from, lanes, !condition, mask, llvm::Align(bytes)), order);
  }
  const auto gather = [&]() -> llvm::Value* {
    auto* scalar = context_.storage_type(dtype);
    auto* type = llvm::FixedVectorType::get(scalar, lanes);
    auto* addresses = builder_.CreateGEP(scalar, pointer(buffer, place.base), place.lane);
    llvm::Value* active =
        mask ? mask : llvm::Constant::getAllOnesValue(type->getWithNewType(builder_.getInt1Ty()));
    if (condition) active = builder_.CreateAnd(active, spread(condition));
    auto* gathered = builder_.CreateMaskedGather(type, addresses, llvm::Align(bytes), active,
                                                 llvm::Constant::getNullValue(type));
    context_.mark(gathered, buffer);
    return gathered;
  };
  const unsigned vectors = vectors_of_window(place.offsets);
  // A window of one vector may have any width, which the target must support.
  if (vectors == 0 || (vectors == 1 && !target.uneven_vectors)) return gather();
  const bool masked_loads = target.masks || (target.vector_bytes >= 32 && bytes >= 4);
  if (!mask || masked_loads || llvm::isa<llvm::Constant>(mask))
    return load_window(buffer, place, condition, mask);
  if (mask == point_.mask) return gather();
  // Without masked loads, test the mask: most are full, and the plain window load is fast.
  auto* whole = context_.block("window");
  auto* parts = context_.block("window.parts");
  auto* exit = context_.block("window.end");
  builder_.CreateCondBr(builder_.CreateAndReduce(mask), whole, parts);
  builder_.SetInsertPoint(whole);
  auto* plain = load_window(buffer, place, condition, nullptr);
  builder_.CreateBr(exit);
  builder_.SetInsertPoint(parts);
  auto* gathered = gather();
  builder_.CreateBr(exit);
  builder_.SetInsertPoint(exit);
  auto* result = builder_.CreatePHI(plain->getType(), 2);
  result->addIncoming(plain, whole);
  result->addIncoming(gathered, parts);
  return result;
}

void BodyEmitter::store_lanes(loop::BufferId buffer, const Address& place, llvm::Value* stored,
                              llvm::Value* mask, bool streams) {
  DType dtype = context_.kernel.buffers[buffer].dtype;
  unsigned lanes = point_.lanes;
  const llvm::Align align(KernelContext::storage_bytes(dtype));
  auto contiguous = [&](llvm::Value* to, llvm::Value* values, llvm::Value* active) {
    // The x86 code generator of LLVM 22 writes a single lane of a narrowing store at its width before
    // narrowing: extract the lane.
    if (auto lane = single_lane(active)) {
      auto* at = builder_.CreateConstGEP1_64(context_.storage_type(dtype), to, *lane);
      return context_.mark(
          builder_.CreateAlignedStore(builder_.CreateExtractElement(values, *lane), at, align), buffer);
    }
    llvm::Instruction* done =
        active ? static_cast<llvm::Instruction*>(builder_.CreateMaskedStore(values, to, align, active))
               : builder_.CreateAlignedStore(values, to, place.step == 1 ? alignment(buffer, place) : align);
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

/// A store that may run in parallel with others to the same element: one atomic operation if there is one,
/// else a compare-and-swap loop.
void BodyEmitter::store_at_once(const loop::Store& store, llvm::Value* element, llvm::Value* given) {
  const DType dtype = context_.kernel.buffers[store.buffer].dtype;
  const bool sign = is_signed(dtype);
  if (const auto* sum = store.mode == FE_STORE_ADD ? context_.target.grid->pair_sum_of(dtype) : nullptr)
    return add_to_pair(*sum, store.buffer, element, given);
  if (KernelContext::storage_bytes(dtype) < word_bytes || (is_float(dtype) && store.mode != FE_STORE_ADD))
    return replace_at_once(store, element, given);
  using Rmw = llvm::AtomicRMWInst;
  const auto operation = store.mode == FE_STORE_MAX   ? (sign ? Rmw::Max : Rmw::UMax)
                         : store.mode == FE_STORE_MIN ? (sign ? Rmw::Min : Rmw::UMin)
                         : is_float(dtype)            ? Rmw::FAdd
                                                      : Rmw::Add;
  atomic(operation, pointer(store.buffer, element), narrow(given, dtype),
         KernelContext::storage_bytes(dtype));
}

void BodyEmitter::atomic(llvm::AtomicRMWInst::BinOp operation, llvm::Value* address, llvm::Value* value,
                         unsigned bytes) {
  auto& llvm_context = context_.module.getContext();
  const auto& grid = *context_.target.grid;
  auto* done =
      builder_.CreateAtomicRMW(operation, address, value, llvm::Align(bytes), llvm::AtomicOrdering::Monotonic,
                               llvm_context.getOrInsertSyncScopeID(grid.grid_scope));
  for (const auto& mark : grid.memory_marks) done->setMetadata(mark, llvm::MDNode::get(llvm_context, {}));
}

/// Adds -0 to the other element of the pair, which changes no number and keeps the sign of zeros.
void BodyEmitter::add_to_pair(const GpuMachine::PairSum& sum, loop::BufferId buffer, llvm::Value* element,
                              llvm::Value* given) {
  auto* stored = narrow(given, sum.dtype);
  auto* word =
      builder_.CreateZExt(builder_.CreateBitCast(stored, builder_.getInt16Ty()), builder_.getInt32Ty());
  constexpr uint32_t negative_zero = 0x8000;
  // All machines with grids are little-endian: the first element is in the low bits.
  auto* first = builder_.CreateOr(word, negative_zero << 16);
  auto* second = builder_.CreateOr(builder_.CreateShl(word, 16), negative_zero);
  auto* odd = builder_.CreateTrunc(element, builder_.getInt1Ty());
  word = builder_.CreateSelect(odd, second, first);
  auto* to =
      pointer(buffer, builder_.CreateAnd(element, llvm::ConstantInt::getSigned(element->getType(), -2)));
  if (!sum.assembly.empty()) {
    auto* type = llvm::FunctionType::get(builder_.getVoidTy(), {to->getType(), word->getType()}, false);
    builder_.CreateCall(llvm::InlineAsm::get(type, sum.assembly, sum.constraints, true), {to, word});
    return;
  }
  auto* pair =
      llvm::FixedVectorType::get(sum.dtype == f16 ? builder_.getHalfTy() : builder_.getBFloatTy(), 2);
  atomic(llvm::AtomicRMWInst::FAdd, to, builder_.CreateBitCast(word, pair), word_bytes);
}

/// Updates an element by compare-and-swap. An element below 32 bits is replaced with its whole word, which
/// belongs to the buffer (stores_at_once): the other bytes are written back unchanged, and if another thread
/// changed them meanwhile the exchange fails and repeats. If the result equals the old value, there is no
/// exchange: of many maxima at one element, few are new.
void BodyEmitter::replace_at_once(const loop::Store& store, llvm::Value* element, llvm::Value* given) {
  const DType dtype = context_.kernel.buffers[store.buffer].dtype;
  const unsigned bytes = KernelContext::storage_bytes(dtype);
  auto* type = builder_.getIntNTy(bytes * 8);
  auto* word = builder_.getIntNTy(std::max(bytes, word_bytes) * 8);
  auto* to = pointer(store.buffer, element);
  llvm::Value *shift = nullptr, *others = nullptr;  // for an element that shares its word
  if (bytes < word_bytes) {
    auto* byte = builder_.CreateAnd(builder_.CreatePtrToInt(to, builder_.getInt64Ty()), word_bytes - 1);
    to = builder_.CreatePtrAdd(to, builder_.CreateNeg(byte));
    // All machines with grids are little-endian: the first byte is in the low bits.
    shift = builder_.CreateShl(builder_.CreateTrunc(byte, word), 3);
    auto* lowest = llvm::ConstantInt::get(word, llvm::maskTrailingOnes<uint64_t>(bytes * 8));
    others = builder_.CreateNot(builder_.CreateShl(lowest, shift));
  }
  const auto element_of = [&](llvm::Value* held) {
    if (shift) held = builder_.CreateTrunc(builder_.CreateLShr(held, shift), type);
    return widen(builder_.CreateBitCast(held, context_.storage_type(dtype)), dtype);
  };
  const auto with_element = [&](llvm::Value* held, llvm::Value* result) {
    auto* stored = builder_.CreateBitCast(narrow(result, dtype), type);
    if (!shift) return stored;
    stored = builder_.CreateShl(builder_.CreateZExt(stored, word), shift);
    return builder_.CreateOr(builder_.CreateAnd(held, others), stored);
  };
  const llvm::Align align(std::max(bytes, word_bytes));
  auto& llvm_context = context_.module.getContext();
  const auto scope = llvm_context.getOrInsertSyncScopeID(context_.target.grid->grid_scope);
  constexpr auto order = llvm::AtomicOrdering::Monotonic;
  auto* there = builder_.CreateAlignedLoad(word, to, align);
  there->setAtomic(order, scope);
  auto* before = builder_.GetInsertBlock();
  auto* attempt = context_.block("attempt");
  auto* exchange = context_.block("exchange");
  auto* after = context_.block("replaced");
  builder_.CreateBr(attempt);
  builder_.SetInsertPoint(attempt);
  auto* old = builder_.CreatePHI(word, 2);
  old->addIncoming(there, before);
  auto* result = with_element(old, combine(store.mode, element_of(old), given, dtype));
  builder_.CreateCondBr(builder_.CreateICmpEQ(result, old), after, exchange);
  builder_.SetInsertPoint(exchange);
  auto* done = builder_.CreateAtomicCmpXchg(to, old, result, align, order, order, scope);
  old->addIncoming(builder_.CreateExtractValue(done, 0), builder_.GetInsertBlock());
  builder_.CreateCondBr(builder_.CreateExtractValue(done, 1), after, attempt);
  builder_.SetInsertPoint(after);
}

void BodyEmitter::store(const std::vector<size_t>& numbers) {
  struct Ready {
    size_t number;
    Address place;
    llvm::Value* given;  // the stored form if `moved`
    bool moved;
    llvm::Value* mask;
  };
  std::vector<Ready> ready;
  for (size_t number : numbers) {
    const auto& store = statement_.stores[number];
    if (context_.kernel.buffers[store.buffer].elements() == 0) continue;
    for (auto id : store_bindings_[number]) value(id);
    const bool moved = store.mode == FE_STORE_SET && is_moved(store.value);
    auto* given = moved ? stored(store.value) : value(store.value);
    auto* mask = store.mask == loop::none ? nullptr : value(store.mask);
    if (auto* known = llvm::dyn_cast_or_null<llvm::ConstantInt>(mask)) {
      if (known->isZero()) continue;
      mask = nullptr;
    }
    ready.push_back({number, address(store_address_[number]), given, moved, mask});
  }
  // All loads and masks are emitted by now, so stores cannot change operands of each other.
  const auto& grid = context_.target.grid;
  const bool at_once = grid && stores_at_once(*grid, context_.kernel, statement_);
  for (auto& [number, place, given, moved, mask] : ready) {
    const auto& store = statement_.stores[number];
    DType dtype = context_.kernel.buffers[store.buffer].dtype;
    const auto to_store = [&, is_stored = moved](llvm::Value* result) {
      return is_stored ? result : narrow(result, dtype);
    };
    if (point_.lanes == 1) {
      auto write = [&, &place = place, &given = given] {
        if (at_once) return store_at_once(store, place.base, given);
        auto* result = given;
        if (store.mode != FE_STORE_SET)
          result =
              combine(store.mode, widen(load_scalar(store.buffer, place.base, nullptr), dtype), given, dtype);
        llvm::Align align(KernelContext::storage_bytes(dtype));
        const bool single = is_single(context_.kernel.buffers[store.buffer]);
        auto* to = single ? context_.base(store.buffer) : pointer(store.buffer, place.base);
        auto* done = builder_.CreateAlignedStore(to_store(result), to, align);
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
      result =
          combine(store.mode, widen(load_lanes(store.buffer, place, nullptr, active), dtype), result, dtype);
    store_lanes(store.buffer, place, to_store(result), active, !streams_.empty() && streams_[number]);
  }
}

}  // namespace ferrite::emitter
