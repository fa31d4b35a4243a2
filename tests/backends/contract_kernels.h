// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Contract kernels for tests and benchmarks: built, packed as proposed, compiled for this machine, run, and
// interpreted in double precision.
#pragma once

#include <llvm/ExecutionEngine/Orc/LLJIT.h>
#include <llvm/IR/Verifier.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/Support/raw_ostream.h>
#include <llvm/TargetParser/Host.h>

#include <chrono>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "ferrite/emitter/gemm.h"
#include "ferrite/emitter/kernel_emitter.h"
#include "ferrite/emitter/machine.h"
#include "ferrite/loop_check.hpp"
#include "kernel_builder.h"
#include "target.h"

namespace ferrite::contract_test {

using index::Expr;
using loop::none;
using loop::OpId;

/// This machine, or a lower level of its architecture.
inline emitter::Target host_target(const std::string& level = "native") {
  emitter::Target target;
  target.triple = llvm::sys::getProcessTriple();
  target.cpu = level == "native" ? llvm::sys::getHostCPUName().str() : "x86-64";
  const auto features = llvm::sys::getHostCPUFeatures();
  const bool wide = level == "native" && features.lookup("avx512f") && features.lookup("avx512vl");
  const bool middle = level != "sse" && features.lookup("avx2") && features.lookup("fma");
  if (level == "native") {
    for (const auto& feature : features)
      target.features += (target.features.empty() ? "" : ",") + std::string(feature.second ? "+" : "-") +
                         feature.first().str();
  } else if (middle) {
    target.features = "+avx2,+fma,+f16c";
  }
  target.vector_bytes = wide ? 64 : middle ? 32 : 16;
  target.vector_registers = wide ? 32 : 16;
  target.masks = wide;
  target.fused_multiply_add = middle;
  target.rounding = middle;
  target.half_conversion = middle;
  target.amx = wide && features.lookup("amx-bf16") && cpu::allow_amx();
  target.l1_bytes = 48 << 10;
  target.l2_bytes = 2 << 20;
  return target;
}

/// The layouts of the emitter's own choice, or of Winograd blocks; empty if the kernel is not handled.
inline std::vector<emitter::OperandLayout> wanted_layouts(const emitter::Target& target,
                                                          const loop::Kernel& kernel, bool winograd = false) {
  for (const auto& option : emitter::gemm_options(target, kernel, winograd))
    if (option.config.winograd == winograd) return option.layouts;
  return {};
}

/// Builds a kernel with one contract statement, followed by maps.
class Builder : public kernel_test::Builder {
 public:
  /// A local buffer holds one value.
  // NOLINTNEXTLINE(bugprone-derived-method-shadowing-base-method): adds defaults for contractions
  loop::BufferId buffer(DType dtype, uint32_t kind, std::vector<int64_t> dims,
                        std::vector<int64_t> strides = {}, int64_t offset = 0) {
    if (kind == FE_BUFFER_LOCAL) strides.assign(dims.size(), 0);
    return kernel_test::Builder::buffer(dtype, kind, std::move(dims), std::move(strides), offset);
  }
  /// All statements share the parallel variables.
  // NOLINTNEXTLINE(bugprone-derived-method-shadowing-base-method): likewise
  std::vector<Expr> begin(uint32_t kind, std::vector<int64_t> parallel, std::vector<int64_t> reduction = {}) {
    kernel.shared = static_cast<uint32_t>(parallel.size());
    return kernel_test::Builder::begin(kind, std::move(parallel), std::move(reduction));
  }
};

inline double read(DType dtype, const char* data, int64_t element) {
  if (dtype == i8) return reinterpret_cast<const int8_t*>(data)[element];
  if (dtype == u8) return reinterpret_cast<const uint8_t*>(data)[element];
  if (!is_float(dtype)) throw std::runtime_error("dtype");
  return kernel_test::read(dtype, data + element * (bits_of(dtype) / 8));
}
inline void write(DType dtype, char* data, int64_t element, double value) {
  const auto width = static_cast<size_t>(bits_of(dtype)) / 8;
  const uint64_t bits = kernel_test::Builder::bits(dtype, value);
  std::memcpy(data + static_cast<size_t>(element) * width, &bits, width);
}

/// Evaluates the kernel point by point in double precision. `data` has a pointer for each non-local buffer;
/// locals hold one value.
class Interpreter {
 public:
  Interpreter(loop::Kernel& kernel, std::vector<char*> data)
      : kernel_(kernel), data_(std::move(data)), local_(kernel.buffers.size()) {}

  void run() {
    values_.assign(kernel_.pool.symbol_count(), 0);
    nest(kernel_.statements[0].parallel_count(), 0);
  }

 private:
  void nest(size_t count, size_t depth) {
    if (depth == count) {
      for (auto& statement : kernel_.statements) point(statement);
      return;
    }
    for (int64_t v = 0; v < kernel_.statements[0].vars[depth].extent; ++v) {
      for (auto& statement : kernel_.statements) values_[statement.vars[depth].symbol] = v;
      nest(count, depth + 1);
    }
  }
  void point(loop::Statement& statement) {
    const auto finish = loop::place(kernel_.pool, statement).finish;
    std::vector<double> value(statement.ops.size());
    double sum = 0;
    if (!statement.reductions.empty()) {
      reduce(statement, finish, value, statement.parallel_count(), sum);
      reduced_ = sum;
    }
    // The operations that the stores need once the sum is known.
    std::vector<bool> needed(value.size());
    for (const auto& store : statement.stores) needed[store.value] = true;
    for (size_t k = value.size(); k-- > 0;)
      for (auto operand : {statement.ops[k].a, statement.ops[k].b, statement.ops[k].c})
        if (needed[k] && operand != none) needed[operand] = true;
    for (size_t k = 0; k < value.size(); ++k)
      if (needed[k]) value[k] = evaluate(statement, k, value);
    for (const auto& store : statement.stores) {
      if (kernel_.buffers[store.buffer].kind == FE_BUFFER_LOCAL)
        local_[store.buffer] = rounded(kernel_.buffers[store.buffer].dtype, value[store.value]);
      else
        write(kernel_.buffers[store.buffer].dtype, data_[store.buffer], address(store.buffer, store.index),
              value[store.value]);
    }
  }
  static double rounded(DType dtype, double value) {
    char bytes[8];
    write(dtype, bytes, 0, value);
    return read(dtype, bytes, 0);
  }
  void reduce(loop::Statement& statement, const std::vector<bool>& finish, std::vector<double>& value,
              size_t depth, double& sum) {
    if (depth < statement.vars.size()) {
      for (int64_t v = 0; v < statement.vars[depth].extent; ++v) {
        values_[statement.vars[depth].symbol] = v;
        reduce(statement, finish, value, depth + 1, sum);
      }
      return;
    }
    for (size_t k = 0; k < value.size(); ++k)
      if (!finish[k]) value[k] = evaluate(statement, k, value);
    sum += value[statement.reductions[0].element];
  }
  int64_t address(loop::BufferId id, const std::vector<Expr>& index) {
    const auto& buffer = kernel_.buffers[id];
    int64_t element = buffer.offset;
    for (size_t d = 0; d < index.size(); ++d)
      element += kernel_.pool.eval(index[d], values_) * buffer.strides[d];
    return element;
  }
  double evaluate(loop::Statement& statement, size_t k, const std::vector<double>& value) {
    const auto& op = statement.ops[k];
    auto a = [&] { return value[op.a]; };
    auto b = [&] { return value[op.b]; };
    switch (op.code) {
      case FE_OP_LOAD:
        if (kernel_.buffers[op.buffer].kind == FE_BUFFER_LOCAL) return local_[op.buffer];
        if (op.a != none && value[op.a] == 0) return op.b == none ? 0 : value[op.b];
        return read(op.dtype, data_[op.buffer], address(op.buffer, op.index));
      case FE_OP_CONSTANT: {
        if (op.dtype == i64) return static_cast<double>(static_cast<int64_t>(op.bits));
        return read(op.dtype, reinterpret_cast<const char*>(&op.bits), 0);
      }
      case FE_OP_INDEX: return static_cast<double>(kernel_.pool.eval(op.index[0], values_));
      case FE_OP_REDUCED: return reduced_;
      default: break;
    }
    switch (op.prim()) {
      case Prim::add_: return a() + b();
      case Prim::sub_: return a() - b();
      case Prim::mul_: return a() * b();
      case Prim::max_: return std::max(a(), b());
      case Prim::and_: return a() != 0 && b() != 0;
      case Prim::lt_: return a() < b();
      case Prim::ge_: return a() >= b();
      case Prim::erf_: return std::erf(a());
      case Prim::exp_: return std::exp(a());
      case Prim::cast_: return is_float(op.dtype) && bits_of(op.dtype) < 32 ? rounded(op.dtype, a()) : a();
      default: throw std::runtime_error("prim");
    }
  }

  loop::Kernel& kernel_;
  std::vector<char*> data_;
  std::vector<double> local_;
  std::vector<int64_t> values_;
  double reduced_ = 0;
};

using Entry = void (*)(void* const*, int64_t, int64_t, int64_t, char*, int64_t*);

/// A compiled kernel that runs in the calling thread.
struct Compiled {
  std::unique_ptr<llvm::orc::LLJIT> jit;
  Entry entry = nullptr;
  int64_t tasks = 0;
  int64_t workspace = 0;
  double milliseconds = 0;
  std::string text;
};

inline Compiled compile(const emitter::Target& target, loop::Kernel kernel, bool keep_text = false,
                        const emitter::GemmConfig& config = {}) {
  static const bool ready = !llvm::InitializeNativeTarget() && !llvm::InitializeNativeTargetAsmPrinter();
  if (!ready) throw std::runtime_error("LLVM has no target for this machine");
  Compiled compiled;
  const auto start = std::clock();  // CPU time of the process: the machine may be busy
  llvm::LLVMContext context;
  emitter::Machines machines;
  emitter::Machine machine(machines, target);
  auto emitted = emitter::emit_kernel(context, target, std::move(kernel), "entry", config);
  compiled.tasks = emitted.tasks;
  compiled.workspace = emitted.workspace_bytes;
  std::string fault;
  llvm::raw_string_ostream stream(fault);
  if (llvm::verifyModule(*emitted.module, &stream)) throw std::runtime_error(fault);
  machine.optimise(*emitted.module);
  if (keep_text) compiled.text = emitter::listing_of(*emitted.module);
  auto object = machine.object(*emitted.module);
  compiled.milliseconds = 1e3 * static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  compiled.jit = llvm::cantFail(llvm::orc::LLJITBuilder().create());
  llvm::cantFail(compiled.jit->addObjectFile(llvm::MemoryBuffer::getMemBufferCopy(object)));
  compiled.entry = llvm::cantFail(compiled.jit->lookup("entry")).toPtr<Entry>();
  return compiled;
}

}  // namespace ferrite::contract_test
