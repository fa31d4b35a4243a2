// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "grid_contract.h"

#include <llvm/IR/Constants.h>
#include <llvm/IR/DerivedTypes.h>

#include <algorithm>
#include <array>
#include <memory>
#include <utility>
#include <vector>

#include "contract_finish.h"
#include "contract_sizes.h"
#include "contract_statement.h"
#include "ferrite/emitter/body_emitter.h"

namespace ferrite::emitter {

namespace {

using loop::none;

constexpr int64_t threads = grid_contract_threads;
constexpr int64_t square =
    16;  // threads lie so many by so many over a tile, where no matrix instruction is used
constexpr int64_t warp_rows = 2, warp_columns = 4;  // warps of a block over the tile, where one is
constexpr int64_t grouped_tiles = 8;  // tiles of rows whose blocks run side by side with each tile of columns

/// The value before casts to wider floats.
loop::OpId before_widening(const loop::Statement& statement, loop::OpId value) {
  for (;;) {
    const auto& op = statement.ops[value];
    if (!op.is_prim() || op.prim() != Prim::cast_ || !is_float(op.dtype)) return value;
    const auto from = statement.ops[op.a].dtype;
    if (!is_float(from) || bits_of(op.dtype) <= bits_of(from)) return value;
    value = op.a;
  }
}

/// The statement of what makes a value, by the flat coordinates.
loop::Statement value_statement(const ContractPlan& plan, index::Pool& pool, loop::OpId value) {
  const std::array roots{value};
  auto kept = keep_operations(plan.statement, needed_operations(plan.statement, pool, roots), false);
  kept.reductions.clear();
  kept.vars.clear();
  Replacements replacements;
  for (const auto* axis : {&plan.batch, &plan.rows, &plan.columns, &plan.depth}) {
    kept.vars.push_back({axis->symbol, axis->extent, loop::VarKind::parallel});
    if (axis->vars.size() != 1) expand_axis(pool, *axis, pool.symbol(axis->symbol), replacements);
  }
  substitute(kept, pool, replacements);
  return kept;
}

/// How far the largest buffer that the value is made of moves by one step of the axis' last variable; nothing where unevenly.
std::optional<int64_t> step_along(loop::Kernel& kernel, const ContractPlan& plan, loop::OpId value,
                                  const Axis& axis) {
  const auto& statement = plan.statement;
  const std::array roots{value};
  const auto needed = needed_operations(statement, kernel.pool, roots);
  const loop::BodyOp* largest = nullptr;
  for (size_t k = 0; k < statement.ops.size(); ++k) {
    const auto& op = statement.ops[k];
    if (needed[k] && op.code == FE_OP_LOAD &&
        (!largest || kernel.buffers[op.buffer].elements() > kernel.buffers[largest->buffer].elements()))
      largest = &op;
  }
  if (!largest || axis.vars.empty()) return std::nullopt;
  return kernel.pool.coefficient(largest->index[0], axis.vars.back().symbol);
}

/// Whether all that the value is made of can be read as vectors of `lanes` along the flat coordinate.
bool is_even(loop::Kernel& kernel, const loop::Statement& statement, loop::OpId value, index::Symbol along) {
  auto& pool = kernel.pool;
  const std::array roots{value};
  const auto needed = needed_operations(statement, pool, roots);
  for (size_t k = 0; k < statement.ops.size(); ++k) {
    const auto& op = statement.ops[k];
    if (!needed[k] || op.index.empty()) continue;
    if (op.code != FE_OP_LOAD || op.a != none) return false;
    for (auto expr : op.index) {
      const auto step = pool.coefficient(expr, along);
      if (!step || (*step != 0 && *step != 1)) return false;
    }
  }
  return true;
}

GridContractPlan::Side side_of(loop::Kernel& kernel, const ContractPlan& plan, const Operand& operand,
                               const Axis& across) {
  GridContractPlan::Side side;
  side.value = before_widening(plan.statement, operand.value);
  side.dtype = plan.statement.ops[side.value].dtype;
  side.depth_inside = step_along(kernel, plan, side.value, plan.depth) == 1 ||
                      step_along(kernel, plan, side.value, across) != 1;
  const auto& inner = side.depth_inside ? plan.depth : across;
  const int64_t lanes = bytes_of_access * 8 / bits_of(side.dtype);
  const auto statement = value_statement(plan, kernel.pool, side.value);
  if (inner.extent % lanes == 0 && is_even(kernel, statement, side.value, inner.symbol)) side.lanes = lanes;
  return side;
}

/// The tile that takes the machine the least time, by what larger tiles save of reading.
void choose_tile(const GridMachine& machine, GridContractPlan& plan) {
  struct Choice {
    int64_t size;
    double speed;  // of the multiplications
  };
  constexpr std::array choices = {Choice{128, 1.0}, Choice{64, 0.7}, Choice{32, 0.4}};
  const auto& contract = plan.contract;
  double best = 0;
  for (const auto& [size, speed] : choices) {
    if (plan.matrix ? size < 64 : size * bits_of(contract.accumulator) > 128 * 32) continue;
    const int64_t row_tiles = ceil_div(contract.rows.extent, size);
    const int64_t column_tiles = ceil_div(contract.columns.extent, size);
    const int64_t waves =
        ceil_div(contract.batch.extent * row_tiles * column_tiles, int64_t{machine.multiprocessors});
    const double time = static_cast<double>(waves * size * size) / speed;
    if (plan.tile_rows != 0 && time >= best) continue;
    best = time;
    plan.tile_rows = plan.tile_columns = size;
    plan.row_tiles = row_tiles;
    plan.column_tiles = column_tiles;
  }
  plan.tile_depth = plan.matrix ? 32 : contract.accumulator == f64 ? 8 : 16;
}

/// One operand on its way from memory to shared memory: a piece of `across` by `depth` elements.
class PieceLoader {
 public:
  /// `padding`: elements behind each line of shared memory.
  PieceLoader(KernelContext& context, GridBlock& block, const GridContractPlan& plan, bool columns)
      : context_(context),
        builder_(context.builder),
        block_(block),
        plan_(plan),
        side_(columns ? plan.column : plan.row),
        axis_(columns ? plan.contract.columns : plan.contract.rows),
        across_(columns ? plan.tile_columns : plan.tile_rows),
        statement_(value_statement(plan.contract, context.kernel.pool, side_.value)),
        body_(context, statement_) {
    element_ =
        plan.matrix ? context.storage_type(side_.dtype) : context.value_type(plan.contract.accumulator);
    lines_along_depth_ = plan.matrix && (side_.depth_inside || block.machine().matrix->load_turned.empty());
    const int64_t bytes = element_->getScalarSizeInBits() / 8;
    line_ = (lines_along_depth_ ? plan.tile_depth : across_) + bytes_of_access / bytes;
    const int64_t lines = lines_along_depth_ ? across_ : plan.tile_depth;
    half_ = lines * line_;
  }

  /// Of both buffers, which lie where lie_at() says.
  int64_t bytes() const { return 2 * half_ * static_cast<int64_t>(element_->getScalarSizeInBits() / 8); }
  void lie_at(llvm::Value* memory) { memory_ = memory; }

  /// Whether a line of shared memory is contiguous along the depth, else across.
  bool lines_along_depth() const { return lines_along_depth_; }
  /// Elements from line to line.
  int64_t line() const { return line_; }
  llvm::Type* element() const { return element_; }
  /// Element (across, depth) of the piece in buffer 0 or 1.
  llvm::Value* at(llvm::Value* buffer, llvm::Value* across, llvm::Value* depth) {
    auto* outer = lines_along_depth_ ? across : depth;
    auto* inner = lines_along_depth_ ? depth : across;
    auto* place = builder_.CreateNSWAdd(builder_.CreateNSWMul(outer, context_.i64(line_)), inner);
    place = builder_.CreateNSWAdd(place, builder_.CreateNSWMul(buffer, context_.i64(half_)));
    return builder_.CreateInBoundsGEP(element_, memory_, place);
  }

  /// Reads the thread's part of the piece at these flat coordinates into registers. Beyond the end nothing is read.
  void read(llvm::Value* batch, llvm::Value* first, llvm::Value* depth) {
    values_.clear();
    for (int64_t part = 0; part < parts(); ++part) {
      const auto [across, inside] = place(part);
      const int64_t across_lanes = side_.depth_inside ? 1 : side_.lanes;
      const int64_t depth_lanes = side_.depth_inside ? side_.lanes : 1;
      const auto& contract = plan_.contract;
      auto* outer = at_most(builder_.CreateNSWAdd(first, across), axis_.extent - across_lanes,
                            axis_.extent % across_ == 0);
      auto* wanted = builder_.CreateNSWAdd(depth, inside);
      const bool even = contract.depth.extent % plan_.tile_depth == 0;
      auto* k = at_most(wanted, contract.depth.extent - depth_lanes, even);
      Point point;
      point.set(contract.batch.symbol, batch);
      point.set(contract.rows.symbol, context_.i64(0));
      point.set(contract.columns.symbol, context_.i64(0));
      point.set(axis_.symbol, outer);
      point.set(contract.depth.symbol, k);
      point.lanes = static_cast<unsigned>(side_.lanes);
      point.vector = side_.depth_inside ? contract.depth.symbol : axis_.symbol;
      point.aligned = true;
      body_.start(point);
      auto* value = plan_.matrix ? body_.stored_lanes_of(side_.value) : body_.lanes_of(side_.value);
      if (!plan_.matrix && value->getType()->getScalarType() != element_)
        value = builder_.CreateFPExt(value, value->getType()->getWithNewType(element_));
      if (!even)
        value = builder_.CreateSelect(builder_.CreateICmpSLT(wanted, context_.i64(contract.depth.extent)),
                                      value, llvm::Constant::getNullValue(value->getType()));
      values_.push_back(value);
    }
  }

  /// Writes what was read into buffer 0 or 1.
  void write(llvm::Value* buffer) {
    for (int64_t part = 0; part < parts(); ++part) {
      const auto [across, inside] = place(part);
      auto* value = values_[static_cast<size_t>(part)];
      const auto bytes = element_->getScalarSizeInBits() / 8;
      if (side_.lanes == 1 || lines_along_depth_ == side_.depth_inside) {
        builder_.CreateAlignedStore(value, at(buffer, across, inside),
                                    llvm::Align(bytes * static_cast<uint64_t>(side_.lanes)));
        continue;
      }
      for (int64_t k = 0; k < side_.lanes; ++k) {
        auto* next = context_.i64(k);
        auto* to = at(buffer, side_.depth_inside ? across : builder_.CreateNSWAdd(across, next),
                      side_.depth_inside ? builder_.CreateNSWAdd(inside, next) : inside);
        builder_.CreateAlignedStore(builder_.CreateExtractElement(value, static_cast<uint64_t>(k)), to,
                                    llvm::Align(bytes));
      }
    }
  }

 private:
  int64_t parts() const { return across_ * plan_.tile_depth / side_.lanes / threads; }

  /// Across and along the depth, where the thread's part lies in the piece: neighbours read neighbours.
  std::pair<llvm::Value*, llvm::Value*> place(int64_t part) {
    const int64_t inner = (side_.depth_inside ? plan_.tile_depth : across_) / side_.lanes;
    auto* flat = builder_.CreateNSWAdd(block_.thread(), context_.i64(part * threads));
    auto* outer = builder_.CreateUDiv(flat, context_.i64(inner));
    auto* within =
        builder_.CreateNSWMul(builder_.CreateURem(flat, context_.i64(inner)), context_.i64(side_.lanes));
    return side_.depth_inside ? std::pair(outer, within) : std::pair(within, outer);
  }

  llvm::Value* at_most(llvm::Value* value, int64_t last, bool certain) {
    return certain ? value : builder_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, value, context_.i64(last));
  }

  KernelContext& context_;
  llvm::IRBuilder<>& builder_;
  GridBlock& block_;
  const GridContractPlan& plan_;
  const GridContractPlan::Side& side_;
  const Axis& axis_;
  const int64_t across_;
  loop::Statement statement_;
  BodyEmitter body_;
  llvm::Type* element_ = nullptr;
  bool lines_along_depth_ = false;
  int64_t line_ = 0, half_ = 0;
  llvm::Value* memory_ = nullptr;
  std::vector<llvm::Value*> values_;
};

/// The sums of a thread: how they come about, and where they lie in the tile.
class Sums {
 public:
  virtual ~Sums() = default;
  /// Adds the products of the pieces in buffer 0 or 1.
  virtual void add_products(PieceLoader& rows, PieceLoader& columns, llvm::Value* buffer) = 0;
  /// The sums go to the epilogue in this many turns of the same number of rows of the tile.
  virtual int64_t turns() const = 0;
  virtual int64_t rows_of_turn() const = 0;
  /// The row of the tile that row `number` of a turn is.
  virtual llvm::Value* row_of(int64_t turn, llvm::Value* number) = 0;
  /// Writes the thread's sums of a turn to a tile of rows_of_turn() by `line`.
  virtual void write(int64_t turn, llvm::Value* memory, int64_t line) = 0;
};

/// Each thread has rows and columns in groups of neighbours, the groups of one thread far apart, so that threads read shared memory
/// side by side.
class ScalarSums final : public Sums {
 public:
  ScalarSums(KernelContext& context, GridBlock& block, const GridContractPlan& plan)
      : context_(context), builder_(context.builder), plan_(plan) {
    per_thread_ = plan.tile_rows / square;
    group_ = std::min<int64_t>(4, per_thread_);
    type_ = context.value_type(plan.contract.accumulator);
    row_ = builder_.CreateNSWMul(context.divide(block.thread(), square, true, false), context.i64(group_));
    column_ = builder_.CreateNSWMul(context.divide(block.thread(), square, true, true), context.i64(group_));
    for (int64_t k = 0; k < per_thread_ * per_thread_; ++k) {
      sums_.push_back(context.slot(type_, "sum"));
      builder_.CreateStore(llvm::Constant::getNullValue(type_), sums_.back());
    }
  }

  void add_products(PieceLoader& rows, PieceLoader& columns, llvm::Value* buffer) override {
    constexpr int64_t unrolled = 4;
    const auto read = [&](PieceLoader& piece, llvm::Value* first, llvm::Value* k) {
      std::vector<llvm::Value*> values;
      auto* vector = llvm::FixedVectorType::get(type_, static_cast<unsigned>(group_));
      for (int64_t start = 0; start < per_thread_; start += group_) {
        auto* from = piece.at(buffer, builder_.CreateNSWAdd(first, context_.i64(start * square)), k);
        auto* loaded = builder_.CreateAlignedLoad(vector, from, alignment());
        for (int64_t lane = 0; lane < group_; ++lane)
          values.push_back(builder_.CreateExtractElement(loaded, static_cast<uint64_t>(lane)));
      }
      return values;
    };
    context_.loop(context_.i64(0), context_.i64(plan_.tile_depth), unrolled, "k", [&](llvm::Value* first) {
      for (int64_t step = 0; step < unrolled; ++step) {
        auto* k = builder_.CreateNSWAdd(first, context_.i64(step));
        const auto row = read(rows, row_, k), column = read(columns, column_, k);
        for (size_t r = 0; r < row.size(); ++r)
          for (size_t c = 0; c < column.size(); ++c) {
            auto* sum = sums_[r * column.size() + c];
            auto* old = builder_.CreateLoad(type_, sum);
            builder_.CreateStore(
                builder_.CreateIntrinsic(llvm::Intrinsic::fma, {type_}, {row[r], column[c], old}), sum);
          }
      }
    });
  }

  int64_t turns() const override { return per_thread_ / group_; }
  int64_t rows_of_turn() const override { return square * group_; }
  llvm::Value* row_of(int64_t turn, llvm::Value* number) override {
    return builder_.CreateNSWAdd(number, context_.i64(turn * rows_of_turn()));
  }
  void write(int64_t turn, llvm::Value* memory, int64_t line) override {
    auto* vector = llvm::FixedVectorType::get(type_, static_cast<unsigned>(group_));
    for (int64_t r = 0; r < group_; ++r)
      for (int64_t start = 0; start < per_thread_; start += group_) {
        llvm::Value* values = llvm::PoisonValue::get(vector);
        for (int64_t c = 0; c < group_; ++c) {
          auto* sum = sums_[static_cast<size_t>((turn * group_ + r) * per_thread_ + start + c)];
          values =
              builder_.CreateInsertElement(values, builder_.CreateLoad(type_, sum), static_cast<uint64_t>(c));
        }
        auto* row = builder_.CreateNSWMul(builder_.CreateNSWAdd(row_, context_.i64(r)), context_.i64(line));
        auto* place =
            builder_.CreateNSWAdd(builder_.CreateNSWAdd(row, column_), context_.i64(start * square));
        builder_.CreateAlignedStore(values, builder_.CreateInBoundsGEP(type_, memory, place), alignment());
      }
  }

 private:
  llvm::Align alignment() const {
    const auto bytes = static_cast<uint64_t>(group_) * type_->getScalarSizeInBits() / 8;
    return llvm::Align(std::min<uint64_t>(bytes, bytes_of_access));
  }

  KernelContext& context_;
  llvm::IRBuilder<>& builder_;
  const GridContractPlan& plan_;
  llvm::Type* type_ = nullptr;
  int64_t per_thread_ = 1, group_ = 1;
  llvm::Value *row_ = nullptr, *column_ = nullptr;
  std::vector<llvm::AllocaInst*> sums_;
};

/// Each warp has a part of the tile, which it goes over fragment by fragment.
class MatrixSums final : public Sums {
 public:
  MatrixSums(KernelContext& context, GridBlock& block, const GridContractPlan& plan)
      : context_(context),
        builder_(context.builder),
        block_(block),
        plan_(plan),
        machine_(*block.machine().matrix),
        type_(builder_.getFloatTy()) {
    const int64_t warp_size = block.machine().warp;
    lane_ = builder_.CreateURem(block.thread(), context.i64(warp_size));
    auto* warp = builder_.CreateUDiv(block.thread(), context.i64(warp_size));
    rows_ = plan.tile_rows / warp_rows;
    columns_ = plan.tile_columns / warp_columns;
    row_ = builder_.CreateNSWMul(builder_.CreateUDiv(warp, context.i64(warp_columns)), context.i64(rows_));
    column_ =
        builder_.CreateNSWMul(builder_.CreateURem(warp, context.i64(warp_columns)), context.i64(columns_));
    for (int64_t k = 0; k < row_fragments() * column_fragments(); ++k)
      for (size_t e = 0; e < machine_.sums.elements.size(); ++e) {
        sums_.push_back(context.slot(type_, "sum"));
        builder_.CreateStore(llvm::Constant::getNullValue(type_), sums_.back());
      }
  }

  void add_products(PieceLoader& rows, PieceLoader& columns, llvm::Value* buffer) override {
    for (int64_t k = 0; k < plan_.tile_depth; k += machine_.depth) {
      std::vector<std::vector<llvm::Value*>> row, column;
      for (int64_t r = 0; r < row_fragments(); ++r)
        row.push_back(fragment(rows, machine_.row, buffer,
                               builder_.CreateNSWAdd(row_, context_.i64(r * machine_.rows)), k));
      for (int64_t c = 0; c < column_fragments(); ++c)
        column.push_back(fragment(columns, machine_.column, buffer,
                                  builder_.CreateNSWAdd(column_, context_.i64(c * machine_.columns)), k));
      for (int64_t r = 0; r < row_fragments(); ++r)
        for (int64_t c = 0; c < column_fragments(); ++c)
          multiply(row[static_cast<size_t>(r)], column[static_cast<size_t>(c)], sum_at(r, c));
    }
  }

  int64_t turns() const override { return row_fragments(); }
  int64_t rows_of_turn() const override { return warp_rows * machine_.rows; }
  llvm::Value* row_of(int64_t turn, llvm::Value* number) override {
    auto* warp = builder_.CreateUDiv(number, context_.i64(machine_.rows));
    auto* within = builder_.CreateURem(number, context_.i64(machine_.rows));
    return builder_.CreateNSWAdd(builder_.CreateNSWMul(warp, context_.i64(rows_)),
                                 builder_.CreateNSWAdd(within, context_.i64(turn * machine_.rows)));
  }
  void write(int64_t turn, llvm::Value* memory, int64_t line) override {
    // The warp's rows of the turn lie side by side with the other warps'.
    auto* first =
        builder_.CreateNSWMul(builder_.CreateUDiv(row_, context_.i64(rows_)), context_.i64(machine_.rows));
    for (int64_t c = 0; c < column_fragments(); ++c)
      for (size_t e = 0; e < machine_.sums.elements.size(); ++e) {
        const auto [row, column] = place(machine_.sums, e);
        auto* to = builder_.CreateNSWMul(builder_.CreateNSWAdd(first, row), context_.i64(line));
        to = builder_.CreateNSWAdd(to, builder_.CreateNSWAdd(column_, column));
        to = builder_.CreateNSWAdd(to, context_.i64(c * machine_.columns));
        builder_.CreateStore(builder_.CreateLoad(type_, sum_at(turn, c)[e]),
                             builder_.CreateInBoundsGEP(type_, memory, to));
      }
  }

 private:
  using Fragment = GridMachine::Matrix::Fragment;

  int64_t row_fragments() const { return rows_ / machine_.rows; }
  int64_t column_fragments() const { return columns_ / machine_.columns; }
  std::span<llvm::AllocaInst* const> sum_at(int64_t row, int64_t column) const {
    const size_t count = machine_.sums.elements.size();
    return std::span(sums_).subspan(static_cast<size_t>(row * column_fragments() + column) * count, count);
  }

  /// Where the lane's element of a fragment lies in it: row and column, or line and depth.
  std::pair<llvm::Value*, llvm::Value*> place(const Fragment& fragment, size_t element) {
    auto* quotient = builder_.CreateUDiv(lane_, context_.i64(fragment.divisor));
    auto* remainder = builder_.CreateURem(lane_, context_.i64(fragment.divisor));
    const auto along = [&](int64_t of_quotient, int64_t of_remainder, int64_t offset) {
      auto* value = builder_.CreateNSWAdd(builder_.CreateNSWMul(quotient, context_.i64(of_quotient)),
                                          builder_.CreateNSWMul(remainder, context_.i64(of_remainder)));
      return builder_.CreateNSWAdd(value, context_.i64(offset));
    };
    const auto& at = fragment.elements[element];
    return {along(fragment.quotient.line, fragment.remainder.line, at.line),
            along(fragment.quotient.depth, fragment.remainder.depth, at.depth)};
  }

  llvm::Type* operand_type(const Fragment& fragment) const {
    if (plan_.row.dtype == bf16 && machine_.bf16_words) return builder_.getInt32Ty();
    return llvm::FixedVectorType::get(context_.storage_type(plan_.row.dtype), fragment.together);
  }

  /// The operands of the instruction for the lines from `first` on and the depth from `k` on.
  std::vector<llvm::Value*> fragment(PieceLoader& piece, const Fragment& layout, llvm::Value* buffer,
                                     llvm::Value* first, int64_t k) {
    auto* type = operand_type(layout);
    if (!piece.lines_along_depth() || !machine_.load.empty())
      return load_fragment(piece, layout, buffer, first, k, type);
    std::vector<llvm::Value*> operands;
    for (size_t e = 0; e < layout.elements.size(); e += layout.together) {
      const auto [line, depth] = place(layout, e);
      auto* from =
          piece.at(buffer, builder_.CreateNSWAdd(first, line), builder_.CreateNSWAdd(depth, context_.i64(k)));
      const auto bytes = piece.element()->getScalarSizeInBits() / 8 * layout.together;
      operands.push_back(builder_.CreateAlignedLoad(type, from, llvm::Align(bytes)));
    }
    return operands;
  }

  /// By the machine's instruction, which loads squares of 8 by 8 and gives each lane its elements of as many of them as the fragment
  /// has operands; a lane says where one line of one square lies.
  std::vector<llvm::Value*> load_fragment(PieceLoader& piece, const Fragment& layout, llvm::Value* buffer,
                                          llvm::Value* first, int64_t k, llvm::Type* type) {
    constexpr int64_t side = 8;
    const size_t squares = layout.elements.size() / layout.together;
    auto* line = builder_.CreateURem(lane_, context_.i64(side));
    auto* square_of_lane = builder_.CreateURem(builder_.CreateUDiv(lane_, context_.i64(side)),
                                               context_.i64(static_cast<int64_t>(squares)));
    // The corner of each square, by its number.
    llvm::Value *corner_line = context_.i64(0), *corner_depth = context_.i64(0);
    for (size_t number = 1; number < squares; ++number) {
      const auto& at = layout.elements[number * layout.together];
      auto* is = builder_.CreateICmpEQ(square_of_lane, context_.i64(static_cast<int64_t>(number)));
      corner_line = builder_.CreateSelect(is, context_.i64(at.line), corner_line);
      corner_depth = builder_.CreateSelect(is, context_.i64(at.depth), corner_depth);
    }
    const bool along = piece.lines_along_depth();
    auto* across = builder_.CreateNSWAdd(first, corner_line);
    auto* depth = builder_.CreateNSWAdd(corner_depth, context_.i64(k));
    auto* from = along ? piece.at(buffer, builder_.CreateNSWAdd(across, line), depth)
                       : piece.at(buffer, across, builder_.CreateNSWAdd(depth, line));
    // "...x4...": how many squares.
    auto name = along ? machine_.load : machine_.load_turned;
    name.replace(name.find('#'), 1, std::to_string(squares));
    auto* word = builder_.getInt32Ty();
    auto* result = squares == 1 ? static_cast<llvm::Type*>(word)
                                : llvm::StructType::get(context_.module.getContext(),
                                                        std::vector<llvm::Type*>(squares, word));
    const std::array operands{from};
    auto* loaded = block_.call(name, result, operands);
    std::vector<llvm::Value*> values;
    for (unsigned number = 0; number < squares; ++number) {
      auto* value = squares == 1 ? loaded : builder_.CreateExtractValue(loaded, number);
      values.push_back(builder_.CreateBitCast(value, type));
    }
    return values;
  }

  void multiply(const std::vector<llvm::Value*>& row, const std::vector<llvm::Value*>& column,
                std::span<llvm::AllocaInst* const> sums) {
    std::vector<llvm::Value*> operands(row);
    operands.insert(operands.end(), column.begin(), column.end());
    const auto count = static_cast<unsigned>(sums.size());
    llvm::Type* result = nullptr;
    if (machine_.sums.together > 1) {
      result = llvm::FixedVectorType::get(type_, count);
      llvm::Value* vector = llvm::PoisonValue::get(result);
      for (unsigned k = 0; k < count; ++k)
        vector = builder_.CreateInsertElement(vector, builder_.CreateLoad(type_, sums[k]), uint64_t{k});
      operands.push_back(vector);
    } else {
      result = llvm::StructType::get(context_.module.getContext(), std::vector<llvm::Type*>(count, type_));
      for (auto* sum : sums) operands.push_back(builder_.CreateLoad(type_, sum));
    }
    const auto& function = plan_.row.dtype == bf16 ? machine_.bf16 : machine_.f16;
    for (const uint32_t number : function.operands) operands.push_back(builder_.getInt32(number));
    auto* made = block_.call(function.name, result, operands);
    for (unsigned k = 0; k < count; ++k)
      builder_.CreateStore(machine_.sums.together > 1 ? builder_.CreateExtractElement(made, uint64_t{k})
                                                      : builder_.CreateExtractValue(made, k),
                           sums[k]);
  }

  KernelContext& context_;
  llvm::IRBuilder<>& builder_;
  GridBlock& block_;
  const GridContractPlan& plan_;
  const GridMachine::Matrix& machine_;
  llvm::Type* type_;
  int64_t rows_ = 0, columns_ = 0;  // of a warp
  llvm::Value *lane_ = nullptr, *row_ = nullptr, *column_ = nullptr;
  std::vector<llvm::AllocaInst*> sums_;
};

class GridContract {
 public:
  GridContract(KernelContext& context, GridBlock& block, const GridContractPlan& plan)
      : context_(context),
        builder_(context.builder),
        block_(block),
        plan_(plan),
        rows_(context, block, plan, false),
        columns_(context, block, plan, true) {
    if (plan.matrix)
      sums_ = std::make_unique<MatrixSums>(context, block, plan);
    else
      sums_ = std::make_unique<ScalarSums>(context, block, plan);
    // Where the pieces were, the sums go to the epilogue.
    memory_ = block.shared(builder_.getInt8Ty(), std::max(rows_.bytes() + columns_.bytes(),
                                                          sums_->rows_of_turn() * line() * sum_bytes()));
    rows_.lie_at(memory_);
    columns_.lie_at(builder_.CreateConstInBoundsGEP1_64(builder_.getInt8Ty(), memory_,
                                                        static_cast<uint64_t>(rows_.bytes())));
  }

  void emit() {
    find_tile();
    const int64_t steps = ceil_div(plan_.contract.depth.extent, plan_.tile_depth);
    read(context_.i64(0));
    write(context_.i64(0));
    block_.barrier();
    context_.loop(context_.i64(0), context_.i64(steps), 1, "step", [&](llvm::Value* step) {
      auto* next = builder_.CreateNSWAdd(step, context_.i64(1));
      auto* buffer = builder_.CreateAnd(step, context_.i64(1));
      // The last one is read again in place of what comes behind the end.
      read(builder_.CreateNSWMul(
          builder_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, next, context_.i64(steps - 1)),
          context_.i64(plan_.tile_depth)));
      sums_->add_products(rows_, columns_, buffer);
      write(builder_.CreateAnd(next, context_.i64(1)));
      block_.barrier();
    });
    finish();
  }

 private:
  void read(llvm::Value* depth) {
    rows_.read(batch_, row_, depth);
    columns_.read(batch_, column_, depth);
  }
  void write(llvm::Value* buffer) {
    rows_.write(buffer);
    columns_.write(buffer);
  }

  /// Of the sums, elements from row to row.
  int64_t line() const { return plan_.tile_columns + bytes_of_access / sum_bytes(); }
  int64_t sum_bytes() const { return bits_of(plan_.contract.accumulator) / 8; }

  /// Blocks that run at once read the same rows and columns: a few tiles of rows by many of columns.
  void find_tile() {
    const int64_t row_tiles = plan_.row_tiles, column_tiles = plan_.column_tiles;
    auto* number = block_.number();
    batch_ = builder_.CreateUDiv(number, context_.i64(row_tiles * column_tiles));
    number = builder_.CreateURem(number, context_.i64(row_tiles * column_tiles));
    auto* group = builder_.CreateUDiv(number, context_.i64(grouped_tiles * column_tiles));
    auto* within = builder_.CreateURem(number, context_.i64(grouped_tiles * column_tiles));
    auto* first = builder_.CreateNSWMul(group, context_.i64(grouped_tiles));
    auto* size = builder_.CreateBinaryIntrinsic(llvm::Intrinsic::smin,
                                                builder_.CreateNSWSub(context_.i64(row_tiles), first),
                                                context_.i64(grouped_tiles));
    auto* row = builder_.CreateNSWAdd(first, builder_.CreateURem(within, size));
    row_ = builder_.CreateNSWMul(row, context_.i64(plan_.tile_rows));
    column_ = builder_.CreateNSWMul(builder_.CreateUDiv(within, size), context_.i64(plan_.tile_columns));
  }

  void finish() {
    const auto& contract = plan_.contract;
    ContractFinish epilogue(context_, contract);
    auto* type = context_.value_type(contract.accumulator);
    const int64_t rows = sums_->rows_of_turn(), columns = plan_.tile_columns;
    const int64_t lanes = contract.lanes;
    for (int64_t turn = 0; turn < sums_->turns(); ++turn) {
      sums_->write(turn, memory_, line());
      block_.barrier();
      block_.divide(rows * columns / lanes, threads, "finish", [&](llvm::Value* flat) {
        auto* row = builder_.CreateUDiv(flat, context_.i64(columns / lanes));
        auto* column = builder_.CreateNSWMul(builder_.CreateURem(flat, context_.i64(columns / lanes)),
                                             context_.i64(lanes));
        auto* place = builder_.CreateNSWAdd(builder_.CreateNSWMul(row, context_.i64(line())), column);
        const ContractPlace at{batch_, builder_.CreateNSWAdd(row_, sums_->row_of(turn, row)),
                               builder_.CreateNSWAdd(column_, column)};
        auto* exists =
            builder_.CreateAnd(builder_.CreateICmpSLT(at.row, context_.i64(contract.rows.extent)),
                               builder_.CreateICmpSLT(at.column, context_.i64(contract.columns.extent)));
        context_.when(exists, "exists", [&] {
          auto* from = builder_.CreateInBoundsGEP(type, memory_, place);
          llvm::Type* wide =
              lanes == 1 ? type : llvm::FixedVectorType::get(type, static_cast<unsigned>(lanes));
          const auto bytes = static_cast<uint64_t>(lanes) * type->getScalarSizeInBits() / 8;
          epilogue.emit_vector(
              at, builder_.CreateAlignedLoad(wide, from, llvm::Align(std::min<uint64_t>(bytes, 16))),
              nullptr);
        });
      });
      block_.barrier();
    }
  }

  KernelContext& context_;
  llvm::IRBuilder<>& builder_;
  GridBlock& block_;
  const GridContractPlan& plan_;
  PieceLoader rows_, columns_;
  std::unique_ptr<Sums> sums_;
  llvm::Value* memory_ = nullptr;
  llvm::Value *batch_ = nullptr, *row_ = nullptr, *column_ = nullptr;
};

}  // namespace

std::optional<GridContractPlan> plan_grid_contract(const Target& target, loop::Kernel& kernel) {
  constexpr int64_t least = 8;  // rows, columns and depth; fewer are done as sums of their own
  auto planned = kernel;        // what is no contraction of tiles stays as it is
  auto contract = plan_contract_of_grid(target, planned);
  if (!contract || contract->rows.extent < least || contract->columns.extent < least ||
      contract->depth.extent < least || contract->batch.extent == 0)
    return std::nullopt;
  kernel = std::move(planned);
  GridContractPlan plan;
  plan.contract = std::move(*contract);
  auto& made = plan.contract;
  if (made.columns.extent % made.lanes != 0) made.lanes = 1;
  plan.row = side_of(kernel, made, made.row, made.rows);
  plan.column = side_of(kernel, made, made.column, made.columns);
  plan.matrix = target.grid->matrix && made.accumulator == f32 && plan.row.dtype == plan.column.dtype &&
                (plan.row.dtype == f16 || plan.row.dtype == bf16);
  choose_tile(*target.grid, plan);
  // Each thread has a part of a piece.
  const auto narrow = [&](GridContractPlan::Side& side, int64_t across) {
    side.lanes = std::min(side.lanes, across * plan.tile_depth / threads);
  };
  narrow(plan.row, plan.tile_rows);
  narrow(plan.column, plan.tile_columns);
  return plan;
}

void emit_grid_contract(KernelContext& context, GridBlock& block, const GridContractPlan& plan) {
  GridContract(context, block, plan).emit();
}

}  // namespace ferrite::emitter
