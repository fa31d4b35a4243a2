// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "backends/llvm/gpu/gemm/matrix_instruction.h"

#include <llvm/IR/Constants.h>
#include <llvm/IR/DerivedTypes.h>

#include <algorithm>
#include <array>
#include <string>

namespace ferrite::emitter {

llvm::Value* SharedTile::at(llvm::IRBuilder<>& builder, llvm::Value* across, llvm::Value* depth) const {
  auto* outer = lines_along_depth ? across : depth;
  auto* inner = lines_along_depth ? depth : across;
  auto* offset =
      builder.CreateNSWAdd(builder.CreateNSWMul(outer, builder.getInt64(static_cast<uint64_t>(line))), inner);
  return builder.CreateInBoundsGEP(element, memory, offset);
}

MatrixInstruction::MatrixInstruction(KernelContext& context, ThreadBlock& block,
                                     const GpuMachine::Matrix& machine)
    : context_(context), builder_(context.builder), block_(block), machine_(machine) {
  const int64_t lanes = block.machine().warp;
  lane_ = builder_.CreateURem(block.thread(), context.i64(lanes));
  warp_ = builder_.CreateUDiv(block.thread(), context.i64(lanes));
}

/// Offset of the lane's elements of a fragment from those of lane 0: row and column, or line and depth.
std::pair<llvm::Value*, llvm::Value*> MatrixInstruction::place_of_lane(const Fragment& fragment) {
  auto* quotient = builder_.CreateUDiv(lane_, context_.i64(fragment.divisor));
  auto* remainder = builder_.CreateURem(lane_, context_.i64(fragment.divisor));
  const auto along = [&](int64_t of_quotient, int64_t of_remainder) {
    return builder_.CreateNSWAdd(builder_.CreateNSWMul(quotient, context_.i64(of_quotient)),
                                 builder_.CreateNSWMul(remainder, context_.i64(of_remainder)));
  };
  return {along(fragment.quotient.line, fragment.remainder.line),
          along(fragment.quotient.depth, fragment.remainder.depth)};
}

std::pair<llvm::Value*, llvm::Value*> MatrixInstruction::place_of_sum(size_t number) {
  const auto [row, column] = place_of_lane(machine_.sums);
  const auto& at = machine_.sums.elements[number];
  return {builder_.CreateNSWAdd(row, context_.i64(at.line)),
          builder_.CreateNSWAdd(column, context_.i64(at.depth))};
}

size_t MatrixInstruction::sums_together(size_t number) const {
  const auto& sums = machine_.sums;
  const auto& first = sums.elements[number];
  const auto side_by_side = [&](size_t count) {
    const auto whole = [&](int64_t column) { return column % static_cast<int64_t>(count) == 0; };
    if (number + count > sums.elements.size() || !whole(first.depth) || !whole(sums.quotient.depth) ||
        !whole(sums.remainder.depth) || !whole(machine_.columns))
      return false;
    for (size_t k = 1; k < count; ++k) {
      const auto& next = sums.elements[number + k];
      if (next.line != first.line || next.depth != first.depth + static_cast<int64_t>(k)) return false;
    }
    return true;
  };
  return side_by_side(4) ? 4 : side_by_side(2) ? 2 : 1;
}

std::vector<MatrixInstruction::Operands> MatrixInstruction::operands(const SharedTile& tile,
                                                                     const Fragment& layout, int64_t lines,
                                                                     llvm::Value* first, int64_t depth,
                                                                     int64_t count) {
  const unsigned together = layout.together;
  auto* element = context_.storage_type(machine_.operand);
  llvm::Type* type = machine_.words  ? builder_.getInt32Ty()
                     : together == 1 ? element
                                     : llvm::FixedVectorType::get(element, together);
  if (!machine_.load.empty()) return load_squares(tile, layout, lines, first, depth, count, type);
  const auto bytes = tile.element->getScalarSizeInBits() / 8 * together;
  const llvm::Align alignment(std::min<uint64_t>(bytes, bytes_of_access));
  const auto [line, inside] = place_of_lane(layout);
  auto* lane = tile.at(builder_, builder_.CreateNSWAdd(first, line), inside);
  std::vector<Operands> result;
  for (int64_t number = 0; number < count; ++number) {
    auto& operands = result.emplace_back();
    for (size_t e = 0; e < layout.elements.size(); e += together) {
      const auto& at = layout.elements[e];
      const auto offset = tile.offset(number * lines + at.line, depth + at.depth);
      operands.push_back(builder_.CreateAlignedLoad(
          type, builder_.CreateInBoundsGEP(tile.element, lane, context_.i64(offset)), alignment));
    }
  }
  return result;
}

/// Loads operands with the machine's instruction, which loads 8 x 8 squares and distributes their elements as
/// operands. Each lane passes the address of one line of one square. Small fragments are loaded several at a
/// time.
std::vector<MatrixInstruction::Operands> MatrixInstruction::load_squares(const SharedTile& tile,
                                                                         const Fragment& layout,
                                                                         int64_t lines, llvm::Value* first,
                                                                         int64_t depth, int64_t count,
                                                                         llvm::Type* type) {
  constexpr int64_t side = 8, most = 4;
  const auto of_fragment = static_cast<int64_t>(layout.elements.size() / layout.together);
  const int64_t fragments = count % (most / of_fragment) == 0 ? most / of_fragment : 1;
  const int64_t squares = of_fragment * fragments;
  auto* line = builder_.CreateURem(lane_, context_.i64(side));
  auto* square_of_lane =
      builder_.CreateURem(builder_.CreateUDiv(lane_, context_.i64(side)), context_.i64(squares));
  // The corner of each square, by its number.
  llvm::Value *corner_line = context_.i64(0), *corner_depth = context_.i64(0);
  for (int64_t number = 1; number < squares; ++number) {
    const auto& at = layout.elements[static_cast<size_t>(number % of_fragment) * layout.together];
    auto* is = builder_.CreateICmpEQ(square_of_lane, context_.i64(number));
    corner_line =
        builder_.CreateSelect(is, context_.i64(number / of_fragment * lines + at.line), corner_line);
    corner_depth = builder_.CreateSelect(is, context_.i64(at.depth), corner_depth);
  }
  const bool along = tile.lines_along_depth;
  auto* across = builder_.CreateNSWAdd(first, corner_line);
  auto* lane = along ? tile.at(builder_, builder_.CreateNSWAdd(across, line), corner_depth)
                     : tile.at(builder_, across, builder_.CreateNSWAdd(corner_depth, line));
  // The name contains the number of squares, as in "...x4...".
  auto name = along ? machine_.load : machine_.load_transposed;
  name.replace(name.find('#'), 1, std::to_string(squares));
  auto* word = builder_.getInt32Ty();
  auto* loads = squares == 1
                    ? static_cast<llvm::Type*>(word)
                    : llvm::StructType::get(context_.module.getContext(),
                                            std::vector<llvm::Type*>(static_cast<size_t>(squares), word));
  std::vector<Operands> result;
  for (int64_t start = 0; start < count; start += fragments) {
    const std::array places{
        builder_.CreateInBoundsGEP(tile.element, lane, context_.i64(tile.offset(start * lines, depth)))};
    auto* loaded = block_.call(name, loads, places);
    for (int64_t number = 0; number < squares; ++number) {
      if (number % of_fragment == 0) result.emplace_back();
      auto* value =
          squares == 1 ? loaded : builder_.CreateExtractValue(loaded, static_cast<unsigned>(number));
      result.back().push_back(builder_.CreateBitCast(value, type));
    }
  }
  return result;
}

void MatrixInstruction::multiply(std::span<llvm::Value* const> row, std::span<llvm::Value* const> column,
                                 std::span<llvm::AllocaInst* const> sums) {
  auto* type = context_.value_type(machine_.sum);
  std::vector<llvm::Value*> operands(row.begin(), row.end());
  operands.insert(operands.end(), column.begin(), column.end());
  const auto count = static_cast<unsigned>(sums.size());
  const bool together = machine_.sums.together > 1;
  llvm::Type* result = nullptr;
  if (together) {
    result = llvm::FixedVectorType::get(type, count);
    llvm::Value* vector = llvm::PoisonValue::get(result);
    for (unsigned k = 0; k < count; ++k)
      vector = builder_.CreateInsertElement(vector, builder_.CreateLoad(type, sums[k]), uint64_t{k});
    operands.push_back(vector);
  } else {
    result = llvm::StructType::get(context_.module.getContext(), std::vector<llvm::Type*>(count, type));
    for (auto* sum : sums) operands.push_back(builder_.CreateLoad(type, sum));
  }
  for (const uint32_t number : machine_.function.operands) operands.push_back(builder_.getInt32(number));
  auto* made = block_.call(machine_.function.name, result, operands);
  for (unsigned k = 0; k < count; ++k)
    builder_.CreateStore(
        together ? builder_.CreateExtractElement(made, uint64_t{k}) : builder_.CreateExtractValue(made, k),
        sums[k]);
}

}  // namespace ferrite::emitter
