// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The text form: what is printed parses to what prints the same and computes the same; damaged text is an
// error with a place.
#include "core/ir/text/print_loops.h"

#include <random>

#include "tests/core/ir/loop_samples.h"

namespace ferrite::core::loop::test {
namespace {

TEST(LoopText, ProgramsRoundTrip) {
  for (const auto& sample : samples(true)) {
    auto& program = sample->program;
    const std::string text = print(program);
    auto parsed = parse_program(text, "sample.fe");
    ASSERT_TRUE(parsed) << parsed.error().message() << "\n" << text;
    EXPECT_EQ(print(*parsed), text);
    EXPECT_EQ(parsed->statements.size(), program.statements.size());
    EXPECT_EQ(parsed->outputs, program.outputs);
    for (size_t k = 0; k < program.statements.size(); ++k)
      EXPECT_EQ(parsed->statements[k].origins, program.statements[k].origins);
  }
}

TEST(LoopText, KernelsRoundTrip) {
  for (const auto& sample : samples(false)) {
    const Kernel kernel = kernel_of(sample->program);
    const std::string text = print(kernel);
    auto parsed = parse_kernel(text, "sample.fe");
    ASSERT_TRUE(parsed) << parsed.error().message() << "\n" << text;
    EXPECT_EQ(print(*parsed), text);
  }
}

TEST(LoopText, ParsedProgramsComputeTheSame) {
  std::mt19937 random(3);
  for (const auto& sample : samples(false)) {
    const auto& program = sample->program;
    auto parsed = parse_program(print(program), "sample.fe");
    ASSERT_TRUE(parsed);
    std::vector<std::vector<std::byte>> inputs, outputs[2];
    for (BufferId id : program.inputs) {
      const auto& buffer = program.buffers[id];
      auto& data = inputs.emplace_back(static_cast<size_t>(buffer.bytes()));
      for (auto& byte : data) byte = static_cast<std::byte>(random() & 0x3f);
      if (buffer.dtype == i64) std::fill(data.begin(), data.end(), std::byte{0});
    }
    std::vector<ConstMemory> in(inputs.begin(), inputs.end());
    for (int k = 0; k < 2; ++k) {
      std::vector<Memory> out;
      for (BufferId id : program.outputs)
        outputs[k].emplace_back(static_cast<size_t>(program.buffers[id].bytes()));
      for (auto& data : outputs[k]) out.push_back(data);
      auto result = evaluate(k ? *parsed : program, in, out);
      ASSERT_TRUE(result) << result.error().message();
    }
    EXPECT_EQ(outputs[0], outputs[1]);
  }
}

TEST(LoopText, ConstantsRoundTrip) {
  Recording r;
  auto constant = [&](DType dtype, std::vector<int64_t> dims, std::vector<std::byte> data, std::string id) {
    const auto buffer = r.buffer(Role::constant, dtype, std::move(dims));
    r.program.buffers[buffer].kind = FE_BUFFER_CONSTANT;
    r.program.buffers[buffer].number = static_cast<uint32_t>(r.program.constants.size());
    auto owned = std::make_shared<const std::vector<std::byte>>(std::move(data));
    r.program.constants.push_back({owned->data(), owned->size(), std::move(id), owned});
  };
  auto bytes = []<class T>(std::vector<T> values) {
    auto span = std::as_bytes(std::span(values));
    return std::vector<std::byte>(span.begin(), span.end());
  };
  constant(f32, {5}, bytes(std::vector<float>{0.1f, -0.0f, INFINITY, NAN, 3.4028235e38f}), "");
  constant(f64, {2}, bytes(std::vector<double>{0.1, -5e-324}), "weights.bin:8");
  constant(i8, {2}, bytes(std::vector<int8_t>{-128, 127}), "");
  constant(u64, {1}, bytes(std::vector<uint64_t>{~0ull}), "");
  constant(DType::c64_, {1}, bytes(std::vector<float>{1, 2}), "");
  constant(f32, {0}, {}, "");
  constant(f32, {1000}, bytes(std::vector<float>(1000)), "weights.bin:16");
  const std::string text = print(r.program);
  auto parsed = parse_program(text, "constants.fe");
  ASSERT_TRUE(parsed) << parsed.error().message() << "\n" << text;
  EXPECT_EQ(print(*parsed), text);
  for (size_t k = 0; k + 1 < r.program.constants.size(); ++k) {
    const auto &a = r.program.constants[k], &b = parsed->constants[k];
    ASSERT_EQ(a.bytes, b.bytes);
    EXPECT_TRUE(std::equal(a.data, a.data + a.bytes, b.data)) << k;
  }
  EXPECT_EQ(parsed->constants.back().data, nullptr);
  EXPECT_EQ(parsed->constants.back().id, "weights.bin:16");
}

TEST(LoopText, ConstantsReadBackAsTheirBits) {
  std::mt19937_64 random(4);
  for (DType dtype : {f8e4m3, f8e5m2, f8e4m3fnuz, f8e5m2fnuz, f16, bf16, f32, f64, i8, u8, i64, u64}) {
    for (int k = 0; k < 2000; ++k) {
      const uint64_t bits =
          bits_of(dtype) == 64 ? random() : random() & ((uint64_t{1} << bits_of(dtype)) - 1);
      Recording r;
      r.buffer(Role::output, dtype, {});
      r.bind();
      r.begin({});
      r.store(1, {}, r.constant(dtype, bits));
      r.end();
      r.finish();
      auto parsed = parse_program(print(r.program), "bits.fe");
      ASSERT_TRUE(parsed) << parsed.error().message() << print(r.program);
      ASSERT_EQ(parsed->statements[0].ops[0].bits, bits);
    }
  }
}

TEST(LoopText, DamagedTextIsAnErrorWithAPlace) {
  std::mt19937 random(5);
  for (const auto& sample : samples(true)) {
    const std::string text = print(sample->program);
    for (int k = 0; k < 400; ++k) {
      std::string damaged = text;
      const size_t at = random() % text.size();
      switch (random() % 4) {
        case 0: damaged.erase(at, 1 + random() % 8); break;
        case 1: damaged.resize(at); break;
        case 2: damaged[at] = static_cast<char>(random() % 128); break;
        default: damaged.insert(at, text.substr(random() % text.size(), 1 + random() % 20)); break;
      }
      auto parsed = parse_program(damaged, "damaged.fe");
      if (parsed) continue;
      EXPECT_EQ(parsed.error().code.substr(0, 3), "FE-") << parsed.error().message();
      EXPECT_EQ(parsed.error().status == FE_EINVALID || parsed.error().status == FE_EUNSUPPORTED, true)
          << parsed.error().message();
    }
  }
}

TEST(LoopText, MalformedStatementsPrint) {
  for (const auto& sample : samples(false)) {
    auto& s = sample->program.statements.back();
    for (auto& op : s.ops) op.buffer = 99, op.code = 0x77;
    s.kind = 55;
    for (auto& var : s.vars) var.symbol += 1000;
    EXPECT_FALSE(print_statement(list_of(sample->program), sample->program.statements.size() - 1).empty());
    EXPECT_FALSE(verify(sample->program));
  }
}

}  // namespace
}  // namespace ferrite::core::loop::test
