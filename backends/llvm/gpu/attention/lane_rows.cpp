// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "backends/llvm/gpu/attention/lane_rows.h"

#include <llvm/IR/Constants.h>
#include <llvm/IR/DerivedTypes.h>

#include <algorithm>
#include <optional>
#include <utility>

namespace ferrite::emitter {

namespace {

/// The position of a row operand's element among the sums: which of the adjacent instructions, and which of
/// its sums.
std::optional<std::pair<int64_t, size_t>> sum_of(const GpuMachine::Matrix& matrix, size_t element) {
  const auto& at = matrix.row.elements[element];
  const auto& sums = matrix.sums.elements;
  for (size_t e = 0; e < sums.size(); ++e)
    if (sums[e].line == at.line && sums[e].depth == at.depth % matrix.columns)
      return std::pair(at.depth / matrix.columns, e);
  return std::nullopt;
}

llvm::Type* vector_of(llvm::Type* type, size_t lanes) {
  return lanes == 1 ? type : llvm::FixedVectorType::get(type, static_cast<unsigned>(lanes));
}

}  // namespace

std::vector<LaneRow> rows_of_lane(const GpuMachine::Matrix& matrix) {
  std::vector<LaneRow> rows;
  const auto& elements = matrix.sums.elements;
  for (size_t e = 0; e < elements.size(); ++e) {
    auto row = std::ranges::find(rows, elements[e].line, &LaneRow::line);
    if (row == rows.end()) row = rows.insert(row, {elements[e].line, {}});
    row->sums.push_back(e);
  }
  return rows;
}

bool gives_what_it_takes(const GpuMachine::Matrix& matrix) {
  const auto &row = matrix.row, &sums = matrix.sums;
  const auto same = [](const auto& x, const auto& y) { return x.line == y.line && x.depth == y.depth; };
  if (row.divisor != sums.divisor || !same(row.quotient, sums.quotient) ||
      !same(row.remainder, sums.remainder) || sums.quotient.depth != 0 || sums.remainder.line != 0 ||
      matrix.depth % matrix.columns != 0)
    return false;
  for (size_t e = 0; e < row.elements.size(); ++e)
    if (!sum_of(matrix, e)) return false;
  for (const auto& lane_row : rows_of_lane(matrix))
    for (size_t k = 0; k < lane_row.sums.size(); ++k)
      if (sums.elements[lane_row.sums[k]].depth != static_cast<int64_t>(k)) return false;
  // Elements of one operand must be adjacent, and the lanes of a row must cover the columns of one
  // instruction.
  for (size_t e = 0; e < row.elements.size(); ++e) {
    const auto& first = row.elements[e - e % row.together];
    if (row.elements[e].line != first.line ||
        row.elements[e].depth != first.depth + static_cast<int64_t>(e % row.together))
      return false;
  }
  return row.remainder.depth * static_cast<int64_t>(row.divisor) == matrix.columns;
}

LaneSums::LaneSums(KernelContext& context, const GpuMachine::Matrix& matrix, int64_t fragments, int64_t tiles)
    : context_(context), builder_(context.builder), matrix_(matrix), tiles_(tiles) {
  const auto count = static_cast<size_t>(fragments * tiles) * matrix.sums.elements.size();
  for (size_t k = 0; k < count; ++k) slots_.push_back(context.slot(builder_.getFloatTy(), "sum"));
  clear();
}

void LaneSums::clear() {
  for (auto* slot : slots_) builder_.CreateStore(llvm::ConstantFP::get(builder_.getFloatTy(), 0), slot);
}

std::span<llvm::AllocaInst* const> LaneSums::at(int64_t fragment, int64_t tile) const {
  const size_t sums = matrix_.sums.elements.size();
  return std::span(slots_).subspan(static_cast<size_t>(fragment * tiles_ + tile) * sums, sums);
}

llvm::Value* LaneSums::values(int64_t fragment, int64_t tile, const std::vector<size_t>& sums) const {
  const auto slots = at(fragment, tile);
  auto* type = builder_.getFloatTy();
  if (sums.size() == 1) return builder_.CreateLoad(type, slots[sums[0]]);
  llvm::Value* result = llvm::PoisonValue::get(vector_of(type, sums.size()));
  for (size_t k = 0; k < sums.size(); ++k)
    result = builder_.CreateInsertElement(result, builder_.CreateLoad(type, slots[sums[k]]), uint64_t{k});
  return result;
}

void LaneSums::set(int64_t fragment, int64_t tile, const std::vector<size_t>& sums, llvm::Value* values) {
  const auto slots = at(fragment, tile);
  for (size_t k = 0; k < sums.size(); ++k)
    builder_.CreateStore(sums.size() == 1 ? values : builder_.CreateExtractElement(values, uint64_t{k}),
                         slots[sums[k]]);
}

MatrixInstruction::Operands LaneSums::as_rows(int64_t fragment, int64_t step, DType dtype) const {
  const auto& layout = matrix_.row;
  auto* type = builder_.getFloatTy();
  MatrixInstruction::Operands result;
  for (size_t e = 0; e < layout.elements.size(); e += layout.together) {
    llvm::Value* values = llvm::PoisonValue::get(vector_of(type, layout.together));
    for (size_t k = 0; k < layout.together; ++k) {
      const auto [tile, sum] = *sum_of(matrix_, e + k);
      auto* slot = at(fragment, step * (matrix_.depth / matrix_.columns) + tile)[sum];
      auto* each = builder_.CreateLoad(type, slot);
      values = layout.together == 1 ? each : builder_.CreateInsertElement(values, each, uint64_t{k});
    }
    auto* narrow = dtype == bf16 ? context_.narrow_bf16(values)
                                 : builder_.CreateFPTrunc(
                                       values, vector_of(context_.storage_type(dtype), layout.together));
    result.push_back(matrix_.words ? builder_.CreateBitCast(narrow, builder_.getInt32Ty()) : narrow);
  }
  return result;
}

}  // namespace ferrite::emitter
