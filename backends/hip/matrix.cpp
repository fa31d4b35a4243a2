// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// From the manuals of AMD's instruction sets ("Matrix Arithmetic Instructions" of CDNA, "WMMA" of RDNA 3 and
// RDNA 4). All matrices are 16 by 16; for row and column operands, lane k holds line k % 16.
#include "matrix.h"

#include <string>

namespace ferrite::hip {

namespace {

using Matrix = emitter::GpuMachine::Matrix;

constexpr unsigned side = 16;

/// A fragment of `count` adjacent elements along the depth, one operand, shifted by `step` for each further
/// 16 lanes.
Matrix::Fragment line_of_lane(unsigned count, int64_t step) {
  Matrix::Fragment fragment{side, {0, step}, {1, 0}, {}, count};
  for (unsigned k = 0; k < count; ++k) fragment.elements.push_back({0, k});
  return fragment;
}

/// A fragment of `count` rows of one column that are `apart` rows apart, shifted by `step` for each further
/// 16 lanes.
Matrix::Fragment column_of_lane(unsigned count, int64_t apart, int64_t step) {
  Matrix::Fragment fragment{side, {step, 0}, {0, 1}, {}, count};
  for (unsigned k = 0; k < count; ++k) fragment.elements.push_back({k * apart, 0});
  return fragment;
}

Matrix matrix(DType operand, DType sum, unsigned depth, const Matrix::Fragment& line,
              const Matrix::Fragment& sums, const std::string& name) {
  Matrix made;
  made.operand = operand;
  made.sum = sum;
  made.rows = made.columns = side;
  made.depth = depth;
  made.row = made.column = line;
  made.sums = sums;
  made.function.name = "llvm.amdgcn." + name;
  return made;
}

/// Matrix instructions of 64-lane waves.
std::vector<Matrix> mfma() {
  const auto halves = line_of_lane(4, 4), one = line_of_lane(1, 1);
  const auto sums = column_of_lane(4, 1, 4), wide_sums = column_of_lane(4, 4, 1);
  std::vector matrices = {
      matrix(f16, f32, 16, halves, sums, "mfma.f32.16x16x16f16"),
      matrix(bf16, f32, 16, halves, sums, "mfma.f32.16x16x16bf16.1k"),
      matrix(f32, f32, 4, one, sums, "mfma.f32.16x16x4f32"),
      matrix(f64, f64, 4, one, wide_sums, "mfma.f64.16x16x4f64"),
  };
  // No broadcasts and no transposed lanes.
  for (auto& made : matrices) made.function.operands = {0, 0, 0};
  return matrices;
}

/// Matrix instructions of 32-lane waves; both halves of a wave hold the same rows and columns.
std::vector<Matrix> wmma() {
  const auto line = line_of_lane(16, 0);
  const auto sums = column_of_lane(8, 2, 1);
  return {matrix(f16, f32, 16, line, sums, "wmma.f32.16x16x16.f16.v8f32.v16f16"),
          matrix(bf16, f32, 16, line, sums, "wmma.f32.16x16x16.bf16.v8f32.v16i16")};
}

/// The same without this duplication. The manual lists another order of the depth; any order works if rows
/// and columns agree, and in this one a lane's elements are adjacent.
std::vector<Matrix> wmma_of_12() {
  const auto line = line_of_lane(8, 8);
  const auto sums = column_of_lane(8, 1, 8);
  return {matrix(f16, f32, 16, line, sums, "wmma.f32.16x16x16.f16.v8f32.v8f16"),
          matrix(bf16, f32, 16, line, sums, "wmma.f32.16x16x16.bf16.v8f32.v8i16")};
}

}  // namespace

std::vector<Matrix> matrices_of(std::string_view architecture) {
  if (architecture.starts_with("gfx9")) return mfma();
  if (architecture.starts_with("gfx11")) return wmma();
  if (architecture.starts_with("gfx12")) return wmma_of_12();
  return {};
}

}  // namespace ferrite::hip
