// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "instructions.h"

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <utility>
#include <vector>

#include "ferrite/dtype.hpp"
#include "ferrite/error.hpp"
#include "tests/backends/kernel_builder.h"

namespace ferrite::kernel_test {

namespace {

using Lanes = std::span<const LaneOperands>;
/// The lane that holds an element of a matrix, and the element's number among the lane's operands.
using Layout = std::function<std::pair<int, int>(int line, int depth)>;

struct Instruction {
  std::string_view name;
  DType operand, sum;
  int rows, columns, depth;
  int row_operands, column_operands, sum_operands;  // numbers of operands of the call
  Layout row, column, sums;
  int twins = 0;  // lanes at this distance hold the same rows and columns
};

std::pair<int, int> halves_of_64(int line, int k) { return {line + 16 * (k / 4), k % 4}; }
std::pair<int, int> one_of_64(int line, int k) { return {line + 16 * k, 0}; }
std::pair<int, int> sums_of_64(int row, int column) { return {column + 16 * (row / 4), row % 4}; }
std::pair<int, int> doubles_of_64(int row, int column) { return {column + 16 * (row % 4), row / 4}; }
std::pair<int, int> line_of_11(int line, int k) { return {line, k}; }
std::pair<int, int> sums_of_11(int row, int column) { return {column + 16 * (row % 2), row / 2}; }
std::pair<int, int> line_of_12(int line, int k) { return {line + 16 * (k / 4 % 2), k / 8 * 4 + k % 4}; }
std::pair<int, int> sums_of_12(int row, int column) { return {column + 16 * (row / 8), row % 8}; }
std::pair<int, int> rows_of_mma(int row, int k) {
  return {row % 8 * 4 + k % 8 / 2, k % 2 + row / 8 * 2 + k / 8 * 4};
}
std::pair<int, int> columns_of_mma(int column, int k) { return {column * 4 + k % 8 / 2, k % 2 + k / 8 * 2}; }
std::pair<int, int> sums_of_mma(int row, int column) {
  return {row % 8 * 4 + column / 2, column % 2 + row / 8 * 2};
}

const std::array instructions = {
    Instruction{"llvm.amdgcn.mfma.f32.16x16x16f16", f16, f32, 16, 16, 16, 1, 1, 1, halves_of_64, halves_of_64,
                sums_of_64},
    Instruction{"llvm.amdgcn.mfma.f32.16x16x16bf16.1k", bf16, f32, 16, 16, 16, 1, 1, 1, halves_of_64,
                halves_of_64, sums_of_64},
    Instruction{"llvm.amdgcn.mfma.f32.16x16x4f32", f32, f32, 16, 16, 4, 1, 1, 1, one_of_64, one_of_64,
                sums_of_64},
    Instruction{"llvm.amdgcn.mfma.f64.16x16x4f64", f64, f64, 16, 16, 4, 1, 1, 1, one_of_64, one_of_64,
                doubles_of_64},
    Instruction{"llvm.amdgcn.wmma.f32.16x16x16.f16.v8f32.v16f16", f16, f32, 16, 16, 16, 1, 1, 1, line_of_11,
                line_of_11, sums_of_11, 16},
    Instruction{"llvm.amdgcn.wmma.f32.16x16x16.bf16.v8f32.v16i16", bf16, f32, 16, 16, 16, 1, 1, 1, line_of_11,
                line_of_11, sums_of_11, 16},
    Instruction{"llvm.amdgcn.wmma.f32.16x16x16.f16.v8f32.v8f16", f16, f32, 16, 16, 16, 1, 1, 1, line_of_12,
                line_of_12, sums_of_12},
    Instruction{"llvm.amdgcn.wmma.f32.16x16x16.bf16.v8f32.v8i16", bf16, f32, 16, 16, 16, 1, 1, 1, line_of_12,
                line_of_12, sums_of_12},
    Instruction{"llvm.nvvm.mma.m16n8k16.row.col.f32.f32", f16, f32, 16, 8, 16, 4, 2, 4, rows_of_mma,
                columns_of_mma, sums_of_mma},
    Instruction{"llvm.nvvm.mma.m16n8k16.row.col.bf16", bf16, f32, 16, 8, 16, 4, 2, 4, rows_of_mma,
                columns_of_mma, sums_of_mma},
};

/// Element `number` of a lane's operands from `first` on; `count` operands hold `elements` elements in total.
const char* element(const LaneOperands& lane, int first, int count, int elements, DType dtype, int number) {
  const int of_one = elements / count;
  return static_cast<const char*>(lane.operands[first + number / of_one]) +
         static_cast<size_t>(number % of_one * bits_of(dtype) / 8);
}

std::string multiply(const Instruction& machine, Lanes lanes) {
  const int warp = static_cast<int>(lanes.size()) / (machine.twins ? 2 : 1);
  const int first_column = machine.row_operands, first_sum = first_column + machine.column_operands;
  const auto read = [&](const Layout& layout, int first, int count, int elements, DType dtype, int line,
                        int depth) {
    const auto [lane, number] = layout(line, depth);
    return element(lanes[static_cast<size_t>(lane)], first, count, elements, dtype, number);
  };
  const int row_elements = machine.rows * machine.depth / warp,
            column_elements = machine.columns * machine.depth / warp,
            sum_elements = machine.rows * machine.columns / static_cast<int>(lanes.size());
  for (int lane = 0; lane < machine.twins; ++lane)
    for (int operand = 0; operand < 2; ++operand)
      if (std::memcmp(lanes[static_cast<size_t>(lane)].operands[operand],
                      lanes[static_cast<size_t>(lane + machine.twins)].operands[operand],
                      static_cast<size_t>(row_elements * bits_of(machine.operand) / 8)) != 0)
        return "the halves of a wave give different operands";
  struct Sum {
    char* to;
    double value;
  };
  std::vector<Sum> results;
  for (int i = 0; i < machine.rows; ++i)
    for (int j = 0; j < machine.columns; ++j) {
      double sum = kernel_test::read(
          machine.sum, read(machine.sums, first_sum, machine.sum_operands, sum_elements, machine.sum, i, j));
      for (int k = 0; k < machine.depth; ++k)
        sum += kernel_test::read(machine.operand, read(machine.row, 0, machine.row_operands, row_elements,
                                                       machine.operand, i, k)) *
               kernel_test::read(machine.operand, read(machine.column, first_column, machine.column_operands,
                                                       column_elements, machine.operand, j, k));
      const auto [lane, number] = machine.sums(i, j);
      results.push_back({static_cast<char*>(lanes[static_cast<size_t>(lane)].result) +
                             static_cast<size_t>(number * bits_of(machine.sum) / 8),
                         sum});
    }
  for (const auto& [to, value] : results) {
    const auto narrow = static_cast<float>(value);
    if (machine.sum == f64)
      std::memcpy(to, &value, sizeof value);
    else
      std::memcpy(to, &narrow, sizeof narrow);
  }
  return {};
}

/// Lanes 8q to 8q + 7 provide the addresses of the lines of square q.
void load_squares(Lanes lanes, size_t count, bool transposed) {
  constexpr size_t side = 8;
  for (size_t lane = 0; lane < lanes.size(); ++lane)
    for (size_t square = 0; square < count; ++square)
      for (size_t e = 0; e < 2; ++e) {
        const size_t outer = lane / 4, inner = lane % 4 * 2 + e;
        const size_t line = transposed ? inner : outer, at = transposed ? outer : inner;
        const uint16_t* from = nullptr;
        std::memcpy(&from, lanes[square * side + line].operands[0], sizeof from);
        std::memcpy(static_cast<uint16_t*>(lanes[lane].result) + square * 2 + e, from + at, sizeof *from);
      }
}

/// Operands: the participating lanes, the word, the distance, and the mask of lane number bits that may
/// differ.
std::string exchange(Lanes lanes) {
  std::vector<uint32_t> words(lanes.size());
  uint32_t distance = 0;
  for (size_t lane = 0; lane < lanes.size(); ++lane) {
    uint32_t part = 0;
    std::memcpy(&part, lanes[lane].operands[0], sizeof part);
    if (part != 0xffff'ffff) return "not all lanes take part in an exchange";
    std::memcpy(&words[lane], lanes[lane].operands[1], sizeof part);
    std::memcpy(&distance, lanes[lane].operands[2], sizeof distance);
  }
  for (size_t lane = 0; lane < lanes.size(); ++lane)
    std::memcpy(lanes[lane].result, &words[(lane ^ distance) % lanes.size()], sizeof(uint32_t));
  return {};
}

/// Operands: four times the number of the source lane, and the word.
std::string permute(Lanes lanes) {
  std::vector<uint32_t> words(lanes.size());
  for (size_t lane = 0; lane < lanes.size(); ++lane)
    std::memcpy(&words[lane], lanes[lane].operands[1], sizeof words[lane]);
  for (const auto& lane : lanes) {
    uint32_t place = 0;
    std::memcpy(&place, lane.operands[0], sizeof place);
    std::memcpy(lane.result, &words[place / sizeof(uint32_t) % lanes.size()], sizeof(uint32_t));
  }
  return {};
}

/// Operands: destination, source, and the number of the instruction's bytes that are read; the others become
/// zeros.
void copy(Lanes lanes, size_t bytes) {
  for (const auto& lane : lanes) {
    char *to = nullptr, *from = nullptr;
    uint32_t read = 0;
    std::memcpy(&to, lane.operands[0], sizeof to);
    std::memcpy(&from, lane.operands[1], sizeof from);
    std::memcpy(&read, lane.operands[2], sizeof read);
    std::memset(to, 0, bytes);
    if (read > 0) std::memcpy(to, from, read);
  }
}

/// Denormal operands and results become zeros.
void power_of_two(Lanes lanes) {
  const auto flushed = [](float value) { return std::fpclassify(value) == FP_SUBNORMAL ? 0.0F : value; };
  for (const auto& lane : lanes) {
    float value = 0;
    std::memcpy(&value, lane.operands[0], sizeof value);
    value = flushed(std::exp2(flushed(value)));
    std::memcpy(lane.result, &value, sizeof value);
  }
}

}  // namespace

std::string execute(std::string_view name, Lanes lanes) {
  for (const auto& instruction : instructions)
    if (instruction.name == name) return multiply(instruction, lanes);
  if (name == "llvm.nvvm.shfl.sync.bfly.i32") return exchange(lanes);
  if (name == "llvm.nvvm.ex2.approx.ftz.f32") return power_of_two(lanes), std::string();
  if (name.starts_with("llvm.nvvm.cp.async.commit") || name.starts_with("llvm.nvvm.cp.async.wait")) return {};
  for (const size_t bytes : {4, 8, 16})
    for (const std::string_view level : {"ca", "cg"})
      if (name == detail::concatenate("llvm.nvvm.cp.async.", level, ".shared.global.", bytes, ".s"))
        return copy(lanes, bytes), std::string();
  if (name == "llvm.amdgcn.ds.bpermute") return permute(lanes);
  for (const size_t count : {1, 2, 4})
    for (const bool transposed : {false, true})
      if (name == "llvm.nvvm.ldmatrix.sync.aligned.m8n8.x" + std::to_string(count) +
                      (transposed ? ".trans" : "") + ".b16.p3") {
        load_squares(lanes, count, transposed);
        return {};
      }
  return "no such instruction: " + std::string(name);
}

}  // namespace ferrite::kernel_test
