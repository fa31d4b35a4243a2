// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "emulated_grid.h"

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/InlineAsm.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/ReplaceConstant.h>
#include <llvm/IR/Verifier.h>
#include <llvm/Support/raw_ostream.h>
#include <ucontext.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "backends/cpu/jit.h"
#include "backends/cpu/target.h"
#include "ferrite/emitter/gpu_kernel.h"
#include "ferrite/emitter/machine.h"
#include "instructions.h"

namespace ferrite::kernel_test {

namespace {

/// Address of a block's own shared memory, as seen by the code: its offset from that of the cluster's first
/// block.
constexpr std::string_view shared_offset = "llvm.nvvm.shared.offset";
/// Called before an atomic exchange of a word.
constexpr std::string_view exchange = "exchange";

/// The threads of one block, or of a cluster's blocks, which take turns on this thread.
class Block {
 public:
  /// `threads` in each of the cluster's `blocks`, with `shared_bytes` of shared memory each.
  Block(size_t threads, size_t blocks, size_t shared_bytes, size_t warp, bool backwards)
      : threads_(threads * blocks),
        of_block_(threads),
        shared_bytes_(shared_bytes),
        warp_(warp),
        backwards_(backwards) {
    for (auto& thread : threads_) thread.stack = std::make_unique_for_overwrite<char[]>(stack_bytes);
  }

  /// Returns "" or an error text.
  std::string run(const std::function<void()>& body) {
    body_ = &body;
    for (auto& thread : threads_) {
      thread.state = State::ready;
      getcontext(&thread.context);
      thread.context.uc_stack.ss_sp = thread.stack.get();
      thread.context.uc_stack.ss_size = stack_bytes;
      thread.context.uc_link = &scheduler_;
      makecontext(&thread.context, &Block::start, 0);
    }
    while (problem_.empty()) {
      bool any = false, done = true;
      for (size_t k = 0; k < threads_.size() && problem_.empty(); ++k) {
        current_ = backwards_ ? threads_.size() - 1 - k : k;
        auto& thread = threads_[current_];
        done = done && thread.state == State::done;
        if (thread.state != State::ready) continue;
        any = true;
        running = this;
        swapcontext(&scheduler_, &thread.context);
      }
      if (!any && done) break;
      if (!any) problem_ = "threads wait for others that do not come";
    }
    return problem_;
  }

  /// A thread's call of a device function, on the thread's own stack.
  void call(const std::string& name, void* const* operands, void* result) {
    auto& self = threads_[current_];
    // Let all other threads reach the same point first: of those that read the same word, all but one must
    // then fail.
    if (name == exchange) {
      swapcontext(&self.context, &scheduler_);
      return;
    }
    if (name == "llvm.amdgcn.workitem.id.x" || name == "llvm.nvvm.read.ptx.sreg.tid.x")
      return store(result, current_ % of_block_);
    const size_t block = current_ / of_block_;
    if (name == "llvm.amdgcn.workgroup.id.x" || name == "llvm.nvvm.read.ptx.sreg.ctaid.x")
      return store(result, static_cast<size_t>(number) + block);
    if (name == shared_offset) return store(result, block * shared_bytes_);
    if (name == "llvm.nvvm.mapa.shared.cluster") {
      char* place = nullptr;
      uint32_t other = 0;
      std::memcpy(&place, operands[0], sizeof place);
      std::memcpy(&other, operands[1], sizeof other);
      place = place - block * shared_bytes_ + other * shared_bytes_;
      std::memcpy(result, &place, sizeof place);
      return;
    }
    // An instruction of each thread alone.
    if (name == "llvm.nvvm.ex2.approx.ftz.f32") {
      const LaneOperands own{operands, result};
      problem_ = execute(name, {&own, 1});
      return;
    }
    // Arriving needs no wait, and there is no earlier launch.
    if (name == "llvm.nvvm.barrier.cluster.arrive.aligned" || name == "llvm.nvvm.griddepcontrol.wait") return;
    const bool of_cluster = name == "llvm.nvvm.barrier.cluster.wait.aligned";
    const bool barrier =
        of_cluster || name == "llvm.amdgcn.s.barrier" || name == "llvm.nvvm.barrier.cta.sync.aligned.all";
    const size_t first = of_cluster ? 0 : barrier ? block * of_block_ : current_ / warp_ * warp_;
    const size_t count = of_cluster ? threads_.size() : barrier ? of_block_ : warp_;
    self.name = name;
    self.lane = {operands, result};
    self.state = State::waits;
    bool all = true;
    std::vector<LaneOperands> lanes;
    for (size_t k = first; k < first + count; ++k) {
      all = all && threads_[k].state == State::waits && threads_[k].name == name;
      lanes.push_back(threads_[k].lane);
    }
    if (all) {
      if (!barrier) problem_ = execute(name, lanes);
      for (size_t k = first; k < first + count; ++k) threads_[k].state = State::ready;
    }
    swapcontext(&self.context, &scheduler_);
  }

  static thread_local Block* running;
  int64_t number = 0;

 private:
  static constexpr size_t stack_bytes = 256 << 10;
  enum class State { ready, waits, done };
  struct Thread {
    ucontext_t context = {};
    std::unique_ptr<char[]> stack;
    State state = State::ready;
    std::string name;  // the function in which the thread waits
    LaneOperands lane;
  };

  static void start() {
    (*running->body_)();
    running->threads_[running->current_].state = State::done;
  }
  static void store(void* result, size_t value) {
    const auto word = static_cast<uint32_t>(value);
    std::memcpy(result, &word, sizeof word);
  }

  std::vector<Thread> threads_;
  const size_t of_block_, shared_bytes_;
  const size_t warp_;
  const bool backwards_;
  ucontext_t scheduler_ = {};
  size_t current_ = 0;
  const std::function<void()>* body_ = nullptr;
  std::string problem_;
};

thread_local Block* Block::running = nullptr;

/// The code calls this instead of a device function.
void call_of_code(const std::string* name, void* const* operands, void* result) {
  Block::running->call(*name, operands, result);
}

bool is_of_a_device(const llvm::Function* function) {
  return function &&
         (function->getName().starts_with("llvm.amdgcn.") || function->getName().starts_with("llvm.nvvm."));
}

/// Whether the call adds a pair of floats to a word of memory.
bool is_pair_sum(const llvm::CallInst& call) {
  auto* assembly = llvm::dyn_cast<llvm::InlineAsm>(call.getCalledOperand());
  return assembly && assembly->getAsmString().contains(".add.") && assembly->getAsmString().contains("f16x2");
}

void add_pair(llvm::CallInst& call) {
  llvm::IRBuilder<> builder(&call);
  const bool half = !llvm::cast<llvm::InlineAsm>(call.getCalledOperand())->getAsmString().contains("bf16");
  auto* pair = llvm::FixedVectorType::get(half ? builder.getHalfTy() : builder.getBFloatTy(), 2);
  builder.CreateAtomicRMW(llvm::AtomicRMWInst::FAdd, call.getArgOperand(0),
                          builder.CreateBitCast(call.getArgOperand(1), pair), llvm::Align(4),
                          llvm::AtomicOrdering::Monotonic);
  call.eraseFromParent();
}

/// Passes the operands and results of such calls through memory. The names must keep their addresses.
/// Exchanges stay, preceded by a call.
void emulate_calls(llvm::Module& module, std::vector<std::unique_ptr<std::string>>& names) {
  auto& context = module.getContext();
  auto* pointer = llvm::PointerType::getUnqual(context);
  auto* type = llvm::FunctionType::get(llvm::Type::getVoidTy(context), {pointer, pointer, pointer}, false);
  const auto address = [&](const void* to) {
    auto* number = llvm::ConstantInt::get(llvm::Type::getInt64Ty(context), reinterpret_cast<uintptr_t>(to));
    return llvm::ConstantExpr::getIntToPtr(number, pointer);
  };
  for (auto& function : module)
    for (auto& instruction : llvm::make_early_inc_range(llvm::instructions(function))) {
      if (llvm::isa<llvm::AtomicCmpXchgInst>(instruction)) {
        names.push_back(std::make_unique<std::string>(exchange));
        auto* nothing = llvm::ConstantPointerNull::get(pointer);
        llvm::IRBuilder<>(&instruction)
            .CreateCall(type, address(reinterpret_cast<const void*>(&call_of_code)),
                        {address(names.back().get()), nothing, nothing});
        continue;
      }
      auto* call = llvm::dyn_cast<llvm::CallInst>(&instruction);
      if (call && is_pair_sum(*call)) {
        add_pair(*call);
        continue;
      }
      if (!call || !is_of_a_device(call->getCalledFunction())) continue;
      names.push_back(std::make_unique<std::string>(call->getCalledFunction()->getName().str()));
      llvm::IRBuilder<> entry(&*function.getEntryBlock().getFirstInsertionPt()), builder(call);
      auto* operands = entry.CreateAlloca(pointer, entry.getInt32(std::max(1U, call->arg_size())));
      for (unsigned k = 0; k < call->arg_size(); ++k) {
        auto* operand = call->getArgOperand(k);
        auto* slot = entry.CreateAlloca(operand->getType());
        builder.CreateStore(operand, slot);
        builder.CreateStore(slot, builder.CreateConstGEP1_32(pointer, operands, k));
      }
      const bool gives = !call->getType()->isVoidTy();
      llvm::Value* result = gives ? entry.CreateAlloca(call->getType())
                                  : static_cast<llvm::Value*>(llvm::ConstantPointerNull::get(pointer));
      builder.CreateCall(type, address(reinterpret_cast<const void*>(&call_of_code)),
                         {address(names.back().get()), operands, result});
      if (gives) call->replaceAllUsesWith(builder.CreateLoad(call->getType(), result));
      call->eraseFromParent();
    }
}

/// Creates the shared memory: one variable with a part for each block of the cluster, whose start the calls
/// return. Returns the bytes of a part.
/// begins. Bytes of a part.
size_t share(llvm::Module& module, const emitter::Target& target, int64_t dynamic_bytes, size_t blocks) {
  size_t bytes = 0;
  for (auto& global : llvm::make_early_inc_range(module.globals())) {
    if (global.getAddressSpace() != target.grid->shared_space) continue;
    auto* type = global.isDeclaration() ? llvm::ArrayType::get(llvm::Type::getInt8Ty(module.getContext()),
                                                               static_cast<uint64_t>(dynamic_bytes))
                                        : global.getValueType();
    bytes = module.getDataLayout().getTypeAllocSize(type).getFixedValue();
    auto* all = llvm::ArrayType::get(type, blocks);
    auto* memory = new llvm::GlobalVariable(module, all, false, llvm::GlobalValue::ExternalLinkage,
                                            llvm::Constant::getNullValue(all), "memory", &global,
                                            llvm::GlobalValue::NotThreadLocal, target.grid->shared_space);
    memory->setAlignment(global.getAlign());
    if (blocks > 1) {
      llvm::convertUsersOfConstantsToInstructions({&global});
      auto* function = module.getFunction("kernel");
      llvm::IRBuilder<> builder(&*function->getEntryBlock().getFirstInsertionPt());
      const auto offset = module.getOrInsertFunction(llvm::StringRef(shared_offset), builder.getInt32Ty());
      auto* part =
          builder.CreatePtrAdd(memory, builder.CreateZExt(builder.CreateCall(offset), builder.getInt64Ty()));
      global.replaceAllUsesWith(part);
    } else {
      global.replaceAllUsesWith(memory);
    }
    global.eraseFromParent();
  }
  return bytes;
}

/// Adds `run(arguments)`, which calls the kernel with arguments from an array.
void add_run(llvm::Module& module, llvm::Function* kernel) {
  auto& context = module.getContext();
  auto* pointer = llvm::PointerType::getUnqual(context);
  auto* run =
      llvm::Function::Create(llvm::FunctionType::get(llvm::Type::getVoidTy(context), {pointer}, false),
                             llvm::GlobalValue::ExternalLinkage, "run", module);
  llvm::IRBuilder<> builder(llvm::BasicBlock::Create(context, "", run));
  std::vector<llvm::Value*> arguments;
  for (unsigned k = 0; k < kernel->arg_size(); ++k)
    arguments.push_back(builder.CreateLoad(kernel->getArg(k)->getType(),
                                           builder.CreateConstGEP1_32(pointer, run->getArg(0), k)));
  builder.CreateCall(kernel, arguments);
  builder.CreateRetVoid();
}

/// The function of the compiler's library that rounds to bf16, to the nearest, ties to even: code for a
/// machine without the instruction calls it, and not every such library has it.
void add_rounding(llvm::Module& module) {
  auto& context = module.getContext();
  auto* type =
      llvm::FunctionType::get(llvm::Type::getBFloatTy(context), llvm::Type::getFloatTy(context), false);
  auto* function = llvm::Function::Create(type, llvm::Function::ExternalLinkage, "__truncsfbf2", module);
  llvm::IRBuilder<> builder(llvm::BasicBlock::Create(context, "entry", function));
  auto* value = function->getArg(0);
  auto* bits = builder.CreateBitCast(value, builder.getInt32Ty());
  auto* odd = builder.CreateAnd(builder.CreateLShr(bits, 16), 1);
  auto* rounded = builder.CreateAdd(bits, builder.CreateAdd(odd, builder.getInt32(0x7FFF)));
  auto* quiet = builder.CreateOr(bits, 0x400000);
  auto* wide = builder.CreateSelect(builder.CreateFCmpUNO(value, value), quiet, rounded);
  builder.CreateRet(builder.CreateBitCast(
      builder.CreateTrunc(builder.CreateLShr(wide, 16), builder.getInt16Ty()), type->getReturnType()));
}

/// The GPU's table, with the code generator of this machine.
emitter::Target on_this_machine(emitter::Target target) {
  const auto host = cpu::parse_target(cpu::describe_host());
  target.triple = host.triple;
  target.cpu = host.cpu;
  target.features = host.features;
  target.fused_multiply_add = host.fused_multiply_add;
  target.half_conversion = host.half_conversion;
  target.bf16_conversion = host.bf16_conversion;
  target.grid->calling_convention = llvm::CallingConv::C;
  return target;
}

}  // namespace

EmulatedKernel emulate_on_grid(const loop::Kernel& kernel, emitter::Target target) {
  target = on_this_machine(std::move(target));
  emitter::Machines machines;
  emitter::Machine machine(machines, target);
  llvm::LLVMContext context;
  EmulatedKernel made;
  auto result = emitter::emit_gpu_kernel(context, target, kernel, "kernel");
  auto& module = *result.module;
  std::string problem;
  llvm::raw_string_ostream stream(problem);
  if (llvm::verifyModule(module, &stream)) {
    made.text = problem + emitter::listing_of(module);
    return made;
  }
  machine.optimise(module);
  made.text = emitter::listing_of(module);
  made.blocks = result.blocks;
  auto names = std::make_shared<std::vector<std::unique_ptr<std::string>>>();
  size_t cluster = 1;
  if (const auto& attribute = target.grid->cluster.attribute; !attribute.empty())
    module.getFunction("kernel")->getFnAttribute(attribute).getValueAsString().getAsInteger(10, cluster);
  const size_t shared_bytes = share(module, target, result.dynamic_bytes, cluster);
  emulate_calls(module, *names);
  add_run(module, module.getFunction("kernel"));
  add_rounding(module);
  auto object = machine.object(module);
  auto jit = std::make_shared<cpu::Jit>();
  const std::span<const std::byte> bytes[] = {std::as_bytes(std::span(object))};
  auto run = reinterpret_cast<void (*)(void* const*)>(jit->find(jit->load(bytes, "test"), "run"));
  const size_t buffers = static_cast<size_t>(std::ranges::count_if(
      kernel.buffers, [](const auto& buffer) { return buffer.kind != FE_BUFFER_LOCAL; }));
  made.run = [=, blocks = result.blocks, threads = result.threads, warp = target.grid->warp](
                 void* const* given, int64_t* error, bool backwards) {
    std::vector<void*> arguments(given, given + buffers);
    arguments.push_back(error);
    Block block(threads, cluster, shared_bytes, warp, backwards);
    for (block.number = 0; block.number < blocks; block.number += static_cast<int64_t>(cluster)) {
      if (auto wrong = block.run([&] { run(arguments.data()); }); !wrong.empty())
        return "block " + std::to_string(block.number) + ": " + wrong;
    }
    (void)jit, (void)names;  // they must outlive the code
    return std::string();
  };
  return made;
}

}  // namespace ferrite::kernel_test
