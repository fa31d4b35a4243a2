// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Recording loop programs in tests without an op: fe_lower_api with results checked.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "core/ir/loop/interpreter.h"
#include "core/ir/loop/record.h"
#include "core/ir/loop/verify.h"
#include "core/ir/text/print_loops.h"

namespace ferrite::core::loop::test {

/// The program of a text that is right: throws what is wrong with it, which fails the test.
inline LoopProgram parsed(std::string_view text) {
  auto program = parse_program(text, "program.fe");
  if (!program) throw std::runtime_error(program.error().message());
  return std::move(*program);
}

struct Recording {
  LoopProgram program;
  Recorder recorder{program};
  std::string code, text;  ///< of the last failed call
  fe_call call{};

  Recording() {
    call.size = sizeof call;
    call.host = this;
    call.set_error = [](void* self, fe_string c, fe_string t) {
      static_cast<Recording*>(self)->code.assign(c.data, c.length);
      static_cast<Recording*>(self)->text.assign(t.data, t.length);
    };
    call.cancelled = [](void*) -> int32_t { return 0; };
  }

  BufferId buffer(Role role, DType dtype, std::vector<int64_t> dims) {
    ProgramBuffer b;
    b.dtype = dtype;
    b.dims = std::move(dims);
    b.strides = ferrite::loop::contiguous_strides(b.dims);
    b.role = role;
    const auto id = static_cast<BufferId>(program.buffers.size());
    if (role == Role::input) {
      b.kind = FE_BUFFER_INPUT;
      b.number = static_cast<uint32_t>(program.inputs.size());
      program.inputs.push_back(id);
    }
    if (role == Role::output) {
      b.kind = FE_BUFFER_OUTPUT;
      b.number = static_cast<uint32_t>(program.outputs.size());
      program.outputs.push_back(id);
    }
    program.buffers.push_back(std::move(b));
    return id;
  }
  /// Takes buffers as operands (inputs) and results (outputs), in their order.
  void bind() {
    std::vector<BufferId> results = program.outputs;
    recorder.bind(program.inputs, results, {7, "sample", "Sample_7"});
  }
  void finish() {
    auto versions = recorder.finish();
    ASSERT_TRUE(versions) << versions.error().message();
    program.outputs = *versions;
    auto verified = verify(program);
    ASSERT_TRUE(verified) << verified.error().message();
  }

  template <class Args, class Out>
  int32_t slot(int32_t (*f)(void*, fe_call*, const Args*, Out*), Args args, Out* out) {
    args.size = sizeof(Args);
    if constexpr (requires { out->size; }) out->size = sizeof(Out);
    return f(recorder.api()->self, &call, &args, out);
  }
  template <class Args>
  uint32_t token(int32_t (*f)(void*, fe_call*, const Args*, fe_token_out*), Args args) {
    fe_token_out out{};
    slot(f, args, &out);
    return out.token;
  }

  std::vector<uint32_t> begin(std::vector<int64_t> parallel, std::vector<int64_t> reduction = {},
                              std::vector<int64_t> serial = {}) {
    std::vector<fe_var> vars;
    for (auto e : parallel) vars.push_back({e, FE_VAR_PARALLEL, 0});
    for (auto e : reduction) vars.push_back({e, FE_VAR_REDUCTION, 0});
    for (auto e : serial) vars.push_back({e, FE_VAR_SERIAL, 0});
    fe_begin_args args{};
    args.vars = {vars.data(), vars.size(), sizeof(fe_var)};
    const uint32_t first = token(recorder.api()->begin, args);
    std::vector<uint32_t> tokens;
    for (size_t k = 0; k < vars.size(); ++k) tokens.push_back(first ? first + static_cast<uint32_t>(k) : 0);
    return tokens;
  }
  int32_t end() {
    fe_none out{};
    return slot(recorder.api()->end, fe_none{}, &out);
  }
  uint32_t index(uint32_t op, uint32_t a, uint32_t b) {
    return token(recorder.api()->index, fe_index_args{0, op, a, b, 0, 0});
  }
  uint32_t index(int64_t constant) {
    return token(recorder.api()->index, fe_index_args{0, FE_INDEX_CONSTANT, 0, 0, 0, constant});
  }
  uint32_t load(uint32_t buffer, std::vector<uint32_t> index, uint32_t mask = 0, uint32_t other = 0) {
    return token(recorder.api()->load,
                 fe_load_args{0, buffer, mask, other, 0, {index.data(), index.size(), sizeof(uint32_t)}});
  }
  uint32_t constant(DType dtype, uint64_t bits) {
    return token(recorder.api()->constant, fe_constant_args{0, bits, static_cast<fe_dtype>(dtype), {}});
  }
  uint32_t constant(float value) { return constant(f32, std::bit_cast<uint32_t>(value)); }
  uint32_t prim(Prim p, uint32_t a, uint32_t b = 0, uint32_t c = 0, DType dtype = DType::none) {
    return token(recorder.api()->prim,
                 fe_prim_args{0, static_cast<uint32_t>(p), a, b, c, static_cast<fe_dtype>(dtype), {}});
  }
  uint32_t value(uint32_t index, DType dtype = i64) {
    return token(recorder.api()->index_value, fe_index_value_args{0, index, static_cast<fe_dtype>(dtype), 0});
  }
  uint32_t indirect(uint32_t value, int64_t extent, uint32_t mode = FE_INDIRECT_WRAP) {
    return token(recorder.api()->indirect, fe_indirect_args{0, value, mode, extent});
  }
  uint32_t reduce(uint32_t kind, uint32_t element, uint32_t index = 0, DType accumulator = DType::none) {
    return token(recorder.api()->reduce,
                 fe_reduce_args{0, kind, element, index, static_cast<fe_dtype>(accumulator), 0});
  }
  uint32_t contract(uint32_t a, uint32_t b, uint32_t kind = FE_CONTRACT_GEMM,
                    DType accumulator = DType::none) {
    return token(recorder.api()->contract,
                 fe_contract_args{0, a, b, kind, static_cast<fe_dtype>(accumulator), 0});
  }
  uint32_t carry(DType dtype, uint64_t bits) {
    return token(recorder.api()->carry, fe_carry_args{0, bits, static_cast<fe_dtype>(dtype), {}});
  }
  int32_t set_carry(uint32_t carried, uint32_t next) {
    fe_none out{};
    return slot(recorder.api()->set_carry, fe_set_carry_args{0, carried, next}, &out);
  }
  int32_t store(uint32_t buffer, std::vector<uint32_t> index, uint32_t value, uint32_t mode = FE_STORE_SET,
                uint32_t mask = 0) {
    fe_none out{};
    return slot(recorder.api()->store,
                fe_store_args{0, buffer, value, mask, mode, {index.data(), index.size(), sizeof(uint32_t)}},
                &out);
  }
  uint32_t temp(DType dtype, std::vector<int64_t> dims) {
    fe_temp_args args{};
    args.type.dtype = static_cast<fe_dtype>(dtype);
    args.type.rank = static_cast<uint32_t>(dims.size());
    args.type.dims = dims.data();
    return token(recorder.api()->temp, args);
  }

  /// Runs the program with one output; gives its elements.
  template <class To, class... From>
  std::vector<To> run(const std::vector<From>&... inputs) {
    std::vector<ConstMemory> in = {std::as_bytes(std::span(inputs))...};
    std::vector<To> out(static_cast<size_t>(program.buffers[program.outputs.at(0)].elements()));
    std::vector<Memory> memory = {std::as_writable_bytes(std::span(out))};
    auto result = evaluate(program, in, memory);
    EXPECT_TRUE(result) << result.error().message();
    return out;
  }
};

}  // namespace ferrite::core::loop::test
