// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Loop orders that read memory in long segments: transposition blocks for maps that read across their
// vectors, and strips for reductions over rows.
#include <algorithm>

#include "backends/llvm/ir/transpose.h"
#include "backends/llvm/nest/nest_emitter.h"

namespace ferrite::emitter {

namespace {

llvm::Value* smaller(llvm::IRBuilder<>& builder, llvm::Value* a, llvm::Value* b) {
  return builder.CreateBinaryIntrinsic(llvm::Intrinsic::smin, a, b);
}

}  // namespace

/// Transposes a block of each transposed load, then iterates over its lines.
void StatementEmitter::walk_transpose_blocks(const Point& point) {
  auto& builder = context_.builder;
  const auto all_lines = bounds(*plan_.inside), all_row = bounds(*plan_.vector);
  const auto block_at = [&](llvm::Value* first_line, llvm::Value* first) {
    const Range lines{all_lines.var, first_line,
                      smaller(builder, builder.CreateNSWAdd(first_line, context_.i64(plan_.transpose_lines)),
                              all_lines.to)};
    const Range row{
        all_row.var, first,
        smaller(builder, builder.CreateNSWAdd(first, context_.i64(plan_.transpose_row)), all_row.to)};
    for (const auto& block : transpose_blocks_) transpose_block(point, block, lines, row);
    context_.loop(lines.from, lines.to, 1, "block.line", [&](llvm::Value* line) {
      auto inner = point;
      inner.set(statement_.vars[lines.var].symbol, line);
      auto* number = builder.CreateNSWSub(line, lines.from);
      walk_vector(
          inner, row,
          [&](const std::vector<Point>& points) {
            each_apart(points.size(), [&](size_t k) {
              body_.start(points[k]);
              auto* at = builder.CreateNSWSub(points[k].at(statement_.vars[row.var].symbol), row.from);
              for (const auto& block : transpose_blocks_)
                body_.bind_stored(block.load, transposed(block, number, at));
              body_.store(body_.finish_stores());
            });
          },
          plan_.unroll);
    });
  };
  context_.loop(all_lines.from, all_lines.to, plan_.transpose_lines, "block.lines", [&](llvm::Value* line) {
    context_.loop(all_row.from, all_row.to, plan_.transpose_row, "block",
                  [&](llvm::Value* first) { block_at(line, first); });
  });
}

/// A vector from a line of a transposition block, which starts at value `at` of the vector variable.
llvm::Value* StatementEmitter::transposed(const TransposeBlock& block, llvm::Value* line, llvm::Value* at) {
  auto& builder = context_.builder;
  const auto dtype = context_.kernel.buffers[statement_.ops[block.load].buffer].dtype;
  auto* type = context_.storage_type(dtype);
  auto* offset = builder.CreateNSWAdd(builder.CreateNSWMul(line, context_.i64(block.pitch)), at);
  return builder.CreateAlignedLoad(llvm::FixedVectorType::get(type, plan_.lanes),
                                   builder.CreateInBoundsGEP(type, block.transposed, offset),
                                   llvm::Align(KernelContext::storage_bytes(dtype)));
}

/// Transposes `lines` for each value of the vector variable in `row`, one square of registers at a time. Each
/// line is first copied into a buffer, while the next lines are prefetched, and the squares are made from
/// that buffer. Squares read in place would have rows a power of two apart, which evict each other from a
/// cache. Elements outside the ranges are garbage and never read.
void StatementEmitter::transpose_block(const Point& point, const TransposeBlock& block, const Range& lines,
                                       const Range& row) {
  auto& builder = context_.builder;
  const auto buffer = statement_.ops[block.load].buffer;
  const unsigned bytes = KernelContext::storage_bytes(context_.kernel.buffers[buffer].dtype);
  const llvm::Align align(bytes);
  auto* element = builder.getIntNTy(bytes * 8);
  auto* vector = llvm::FixedVectorType::get(element, plan_.lanes);
  const int64_t lanes = plan_.lanes;
  auto* count = builder.CreateNSWSub(lines.to, lines.from);
  auto* whole = builder.CreateAnd(count, context_.i64(-lanes));
  const auto place_of = [&](llvm::Value* value, llvm::Value* last) {
    auto at = point;
    // Rows past the end repeat the last one, so that all reads are valid.
    at.set(statement_.vars[row.var].symbol, smaller(builder, value, last));
    at.set(statement_.vars[lines.var].symbol, lines.from);
    body_.start(at);
    return builder.CreateGEP(element, context_.base(buffer), body_.index(body_.load_address(block.load)));
  };
  auto* last = builder.CreateNSWSub(row.to, context_.i64(1));
  auto* last_of_all = context_.i64(statement_.vars[row.var].extent - 1);
  const auto read = [&](llvm::Value* value, llvm::Value* to) {
    // Four lines ahead cover the latency of memory.
    constexpr int64_t rows_ahead = 4;
    auto* from = place_of(value, last);
    auto* ahead = place_of(builder.CreateNSWAdd(value, context_.i64(rows_ahead)), last_of_all);
    for (int64_t byte = 0; byte < plan_.transpose_lines * bytes; byte += cache_line)
      KernelContext::prefetch(
          builder, builder.CreateConstGEP1_64(builder.getInt8Ty(), ahead, static_cast<uint64_t>(byte)), false,
          KernelContext::Level::first);
    const auto copy = [&](llvm::Value* line, llvm::Value* mask) {
      auto* source = builder.CreateGEP(element, from, line);
      llvm::Instruction* loaded =
          mask ? static_cast<llvm::Instruction*>(builder.CreateMaskedLoad(
                     vector, source, align, mask, llvm::Constant::getNullValue(vector)))
               : builder.CreateAlignedLoad(vector, source, align);
      context_.mark(loaded, buffer);
      builder.CreateAlignedStore(loaded, builder.CreateInBoundsGEP(element, to, line), align);
    };
    context_.loop(context_.i64(0), whole, lanes, "block.read",
                  [&](llvm::Value* line) { copy(line, nullptr); });
    context_.when(builder.CreateICmpSLT(whole, count), "block.tail",
                  [&] { copy(whole, context_.lane_mask(builder.CreateNSWSub(count, whole), plan_.lanes)); });
  };
  context_.loop(row.from, row.to, lanes, "block.rows", [&](llvm::Value* value) {
    context_.loop(context_.i64(0), context_.i64(lanes), 1, "block.row", [&](llvm::Value* k) {
      read(builder.CreateNSWAdd(value, k),
           builder.CreateInBoundsGEP(element, block.rows,
                                     builder.CreateNSWMul(k, context_.i64(block.row_pitch))));
    });
    auto* to = builder.CreateInBoundsGEP(element, block.transposed, builder.CreateNSWSub(value, row.from));
    context_.loop(context_.i64(0), count, lanes, "block.square", [&](llvm::Value* line) {
      std::vector<llvm::Value*> square(plan_.lanes);
      auto* source = builder.CreateInBoundsGEP(element, block.rows, line);
      for (unsigned k = 0; k < plan_.lanes; ++k)
        square[k] = builder.CreateAlignedLoad(
            vector,
            builder.CreateConstInBoundsGEP1_64(element, source, static_cast<uint64_t>(k * block.row_pitch)),
            align);
      transpose_square(builder, square);
      auto* target =
          builder.CreateInBoundsGEP(element, to, builder.CreateNSWMul(line, context_.i64(block.pitch)));
      for (unsigned k = 0; k < plan_.lanes; ++k)
        builder.CreateAlignedStore(
            square[k],
            builder.CreateConstInBoundsGEP1_64(element, target, static_cast<uint64_t>(k * block.pitch)),
            align);
    });
  });
}

/// The address of a state: the vector at a point of a strip.
llvm::Value* StatementEmitter::strip_state(size_t number, const Point& point, const Range& strip) {
  auto& builder = context_.builder;
  auto* at = builder.CreateNSWSub(point.at(statement_.vars[strip.var].symbol), strip.from);
  return builder.CreateInBoundsGEP(strip_[number].type()->getScalarType(), strip_memory_[number], at);
}

void StatementEmitter::walk_strips(const Point& point) {
  auto& builder = context_.builder;
  const auto all = bounds(*plan_.vector);
  context_.loop(all.from, all.to, plan_.strip, "strip", [&](llvm::Value* first) {
    const Range strip{all.var, first,
                      smaller(builder, builder.CreateNSWAdd(first, context_.i64(plan_.strip)), all.to)};
    const auto each_vector = [&](const std::function<void(const Point&)>& body) {
      walk_vector(point, strip, [&](const std::vector<Point>& points) { body(points[0]); }, 1);
    };
    each_vector([&](const Point& at) {
      for (size_t k = 0; k < strip_.size(); ++k) {
        strip_[k].reset();
        builder.CreateStore(strip_[k].values().value, strip_state(k, at, strip));
      }
    });
    take_rows(point, 0, strip);
    each_vector([&](const Point& at) {
      body_.start(at);
      for (size_t k = 0; k < strip_.size(); ++k)
        body_.bind_reduced(
            k, strip_[k].result({builder.CreateLoad(strip_[k].type(), strip_state(k, at, strip)), nullptr}));
      body_.store(body_.finish_stores());
    });
  });
}

/// Accumulates all rows into the states of a strip, a few rows at a time, so that a state is loaded and
/// stored once for them. These rows are added to each other first: the rounding error of a sum grows with the
/// length of its longest chain of additions.
void StatementEmitter::take_rows(const Point& point, size_t level, const Range& strip) {
  auto& builder = context_.builder;
  const auto& var = statement_.vars[plan_.reductions[level]];
  if (level + 1 < plan_.reductions.size()) {
    context_.loop(context_.i64(0), context_.i64(var.extent), 1, "reduce", [&](llvm::Value* value) {
      auto inner = point;
      inner.set(var.symbol, value);
      take_rows(inner, level + 1, strip);
    });
    return;
  }
  const auto take = [&](llvm::Value* first, int64_t rows) {
    walk_vector(
        point, strip,
        [&](const std::vector<Point>& points) {
          for (auto& state : strip_) state.reset();
          for (int64_t row = 0; row < rows; ++row) {
            auto inner = points[0];
            inner.set(var.symbol, builder.CreateNSWAdd(first, context_.i64(row)));
            body_.start(inner);
            for (auto& state : strip_) state.take(nullptr);
            body_.store(body_.element_stores());
          }
          for (size_t k = 0; k < strip_.size(); ++k) {
            auto* kept = strip_state(k, points[0], strip);
            const auto sum =
                strip_[k].combine({builder.CreateLoad(strip_[k].type(), kept), nullptr}, strip_[k].values());
            builder.CreateStore(sum.value, kept);
          }
        },
        1);
  };
  const int64_t whole = var.extent / rows_of_strip * rows_of_strip;
  context_.loop(context_.i64(0), context_.i64(whole), rows_of_strip, "rows",
                [&](llvm::Value* first) { take(first, rows_of_strip); });
  context_.loop(context_.i64(whole), context_.i64(var.extent), 1, "row",
                [&](llvm::Value* first) { take(first, 1); });
}

}  // namespace ferrite::emitter
