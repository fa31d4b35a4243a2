// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Statements whose points are walked in an order of their own, so that memory is read in long pieces: tiles of maps that read across
// their vectors, strips of reductions over rows.
#include <algorithm>

#include "statement_emitter.h"
#include "transpose.h"

namespace ferrite::emitter {

namespace {

llvm::Value* smaller(llvm::IRBuilder<>& builder, llvm::Value* a, llvm::Value* b) {
  return builder.CreateBinaryIntrinsic(llvm::Intrinsic::smin, a, b);
}

}  // namespace

/// Reads the tile of each turned load as its lines lie in memory, then transposes as many lines as there are lanes and goes along them.
void StatementEmitter::walk_tiles(const Point& point) {
  auto& builder = context_.builder;
  const auto all_lines = bounds(*plan_.inside), all_row = bounds(*plan_.vector);
  const auto lanes = static_cast<int64_t>(plan_.lanes);
  const auto tile_at = [&](llvm::Value* first_line, llvm::Value* first) {
    const Range lines{
        all_lines.var, first_line,
        smaller(builder, builder.CreateNSWAdd(first_line, context_.i64(plan_.tile_lines)), all_lines.to)};
    const Range row{all_row.var, first,
                    smaller(builder, builder.CreateNSWAdd(first, context_.i64(plan_.tile_row)), all_row.to)};
    auto* line_count = builder.CreateNSWSub(lines.to, lines.from);
    auto* row_count = builder.CreateNSWSub(row.to, row.from);
    for (const auto& tile : tiles_) read_tile(point, tile, lines, row);
    context_.loop(context_.i64(0), line_count, lanes, "tile.turn", [&](llvm::Value* line) {
      for (const auto& tile : tiles_) turn_lines(tile, line, row_count);
      auto* count = smaller(builder, builder.CreateNSWSub(line_count, line), context_.i64(lanes));
      context_.loop(context_.i64(0), count, 1, "tile.line", [&](llvm::Value* number) {
        auto inner = point;
        inner.set(statement_.vars[lines.var].symbol,
                  builder.CreateNSWAdd(builder.CreateNSWAdd(lines.from, line), number));
        auto* begin =
            builder.CreateNSWSub(builder.CreateNSWMul(number, context_.i64(plan_.tile_row)), row.from);
        walk_vector(
            inner, row,
            [&](const std::vector<Point>& points) {
              for (const auto& each : points) {
                body_.start(each);
                auto* at = builder.CreateNSWAdd(begin, each.at(statement_.vars[row.var].symbol));
                for (const auto& tile : tiles_) {
                  const auto dtype = context_.kernel.buffers[statement_.ops[tile.load].buffer].dtype;
                  auto* type = context_.storage_type(dtype);
                  body_.bind_stored(
                      tile.load, builder.CreateAlignedLoad(llvm::FixedVectorType::get(type, plan_.lanes),
                                                           builder.CreateInBoundsGEP(type, tile.turned, at),
                                                           llvm::Align(KernelContext::storage_bytes(dtype))));
                }
                body_.store(body_.finish_stores());
              }
            },
            plan_.unroll);
      });
    });
  };
  context_.loop(all_lines.from, all_lines.to, plan_.tile_lines, "tile.lines", [&](llvm::Value* line) {
    context_.loop(all_row.from, all_row.to, plan_.tile_row, "tile",
                  [&](llvm::Value* first) { tile_at(line, first); });
  });
}

/// Copies what lies in `lines` for each value of the vector variable in `row`: each line of a cache is asked for once, as a whole.
void StatementEmitter::read_tile(const Point& point, const Tile& tile, const Range& lines, const Range& row) {
  auto& builder = context_.builder;
  const auto buffer = statement_.ops[tile.load].buffer;
  const unsigned bytes = KernelContext::storage_bytes(context_.kernel.buffers[buffer].dtype);
  auto* element = builder.getIntNTy(bytes * 8);
  const unsigned lanes = std::max(1U, context_.target.vector_bytes / bytes);
  auto* vector = llvm::FixedVectorType::get(element, lanes);
  auto* count = builder.CreateNSWSub(lines.to, lines.from);
  auto* whole = builder.CreateAnd(count, context_.i64(-int64_t{lanes}));
  context_.loop(row.from, row.to, 1, "tile.read", [&](llvm::Value* value) {
    auto at = point;
    at.set(statement_.vars[row.var].symbol, value);
    at.set(statement_.vars[lines.var].symbol, lines.from);
    body_.start(at);
    auto* from =
        builder.CreateGEP(element, context_.base(buffer), body_.index(body_.load_address(tile.load)));
    auto* offset =
        builder.CreateNSWMul(builder.CreateNSWSub(value, row.from), context_.i64(plan_.tile_lines));
    auto* to = builder.CreateInBoundsGEP(element, tile.read, offset);
    const auto copy = [&](llvm::Value* first, llvm::Value* mask) {
      auto* source = builder.CreateGEP(element, from, first);
      llvm::Instruction* loaded =
          mask ? static_cast<llvm::Instruction*>(builder.CreateMaskedLoad(
                     vector, source, llvm::Align(bytes), mask, llvm::Constant::getNullValue(vector)))
               : builder.CreateAlignedLoad(vector, source, llvm::Align(bytes));
      context_.mark(loaded, buffer);
      builder.CreateAlignedStore(loaded, builder.CreateInBoundsGEP(element, to, first), llvm::Align(bytes));
    };
    context_.loop(context_.i64(0), whole, lanes, "tile.copy",
                  [&](llvm::Value* first) { copy(first, nullptr); });
    context_.when(builder.CreateICmpSLT(whole, count), "tile.tail",
                  [&] { copy(whole, context_.lane_mask(builder.CreateNSWSub(count, whole), lanes)); });
  });
}

/// Turns the lines from `line` on round, as many as there are lanes. Those that do not exist are garbage that nobody reads.
void StatementEmitter::turn_lines(const Tile& tile, llvm::Value* line, llvm::Value* row_count) {
  auto& builder = context_.builder;
  const unsigned bytes =
      KernelContext::storage_bytes(context_.kernel.buffers[statement_.ops[tile.load].buffer].dtype);
  const llvm::Align align(bytes);
  auto* element = builder.getIntNTy(bytes * 8);
  auto* vector = llvm::FixedVectorType::get(element, plan_.lanes);
  context_.loop(context_.i64(0), row_count, plan_.lanes, "tile.square", [&](llvm::Value* first) {
    std::vector<llvm::Value*> square(plan_.lanes);
    auto* from = builder.CreateNSWAdd(builder.CreateNSWMul(first, context_.i64(plan_.tile_lines)), line);
    auto* source = builder.CreateInBoundsGEP(element, tile.read, from);
    for (unsigned k = 0; k < plan_.lanes; ++k)
      square[k] = builder.CreateAlignedLoad(
          vector,
          builder.CreateConstInBoundsGEP1_64(element, source, static_cast<uint64_t>(k * plan_.tile_lines)),
          align);
    transpose_square(builder, square);
    auto* target = builder.CreateInBoundsGEP(element, tile.turned, first);
    for (unsigned k = 0; k < plan_.lanes; ++k)
      builder.CreateAlignedStore(
          square[k],
          builder.CreateConstInBoundsGEP1_64(element, target, static_cast<uint64_t>(k * plan_.tile_row)),
          align);
  });
}

/// Where the state of the vector at a point of a strip is kept.
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

/// Takes all rows into the states of a strip, a few at a time: what is kept is read and written once for them.
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
          std::vector<llvm::Value*> kept;
          for (size_t k = 0; k < strip_.size(); ++k) {
            kept.push_back(strip_state(k, points[0], strip));
            strip_[k].set(builder.CreateLoad(strip_[k].type(), kept[k]));
          }
          for (int64_t row = 0; row < rows; ++row) {
            auto inner = points[0];
            inner.set(var.symbol, builder.CreateNSWAdd(first, context_.i64(row)));
            body_.start(inner);
            for (auto& state : strip_) state.take(nullptr);
            body_.store(body_.element_stores());
          }
          for (size_t k = 0; k < strip_.size(); ++k) builder.CreateStore(strip_[k].values().value, kept[k]);
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
