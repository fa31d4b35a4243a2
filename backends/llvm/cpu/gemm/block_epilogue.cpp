// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "backends/llvm/cpu/gemm/block_epilogue.h"

#include <algorithm>
#include <set>

#include "backends/llvm/nest/nest_plan.h"

namespace ferrite::emitter {

BlockEpilogue::BlockEpilogue(KernelContext& context, const GemmPlan& plan)
    : GemmEpilogue(context, plan),
      buffers_(buffers()),
      in_registers_(!plan.deep() && !plan.amx && plan.dots == 0 && is_short()) {
  find_streams();
}

std::vector<loop::BufferId> BlockEpilogue::buffers() const {
  std::set<loop::BufferId> touched;
  for (const auto& op : statement_.ops)
    if (op.code == FE_OP_LOAD) touched.insert(op.buffer);
  for (const auto& store : statement_.stores) touched.insert(store.buffer);
  return {touched.begin(), touched.end()};
}

/// Whether the epilogue is short enough, in code and compile time, to be unrolled over a register block. An
/// INDIRECT index may be out of range, which only the kernel's own function can report.
bool BlockEpilogue::is_short() const {
  constexpr double most = 100;  // a few operations per sum, no polynomial
  double cycles = 0;
  for (const auto& op : statement_.ops) {
    if (op.code == FE_OP_INDIRECT) return false;
    cycles += operation_cost(op);
  }
  return cycles * plan_.block_rows * plan_.block_vectors <= most;
}

void BlockEpilogue::find_streams() {
  auto& pool = context_.kernel.pool;
  const auto add = [&](loop::BufferId buffer, index::Expr address, bool store) {
    const bool each_once =
        pool.coefficient(address, lane_) == 1 && pool.depends_on(address, plan_.rows.symbol);
    if (each_once && context_.kernel.buffers[buffer].bytes() >= context_.target.l2_bytes / 2)
      streams_.push_back({buffer, address, store});
  };
  for (size_t k = 0; k < statement_.ops.size(); ++k)
    if (const auto& op = statement_.ops[k]; op.code == FE_OP_LOAD && op.a == loop::none)
      add(op.buffer, body_.load_address(static_cast<loop::OpId>(k)), false);
  for (size_t k = 0; k < statement_.stores.size(); ++k)
    if (statement_.stores[k].mask == loop::none)
      add(statement_.stores[k].buffer, body_.store_address(k), true);
}

void BlockEpilogue::prefetch(const GemmCoordinates& place, llvm::Value* row_end) {
  if (streams_.empty()) return;
  context_.loop(place.row, row_end, 1, "ahead", [&](llvm::Value* row) {
    start({place.batch, row, place.column});
    for (const auto& stream : streams_) {
      const auto dtype = context_.kernel.buffers[stream.buffer].dtype;
      auto* first = builder_.CreateInBoundsGEP(context_.storage_type(dtype), context_.base(stream.buffer),
                                               body_.index(stream.address));
      const int64_t bytes = plan_.block_columns() * bits_of(dtype) / 8;
      for (int64_t byte = 0; byte < bytes; byte += cache_line)
        KernelContext::prefetch(
            builder_, builder_.CreateConstGEP1_64(builder_.getInt8Ty(), first, static_cast<uint64_t>(byte)),
            stream.store, KernelContext::Level::first);
    }
  });
}

llvm::FunctionType* BlockEpilogue::kernel_type() {
  std::vector<llvm::Type*> parameters(2, builder_.getPtrTy());
  parameters.insert(parameters.end(), 3, builder_.getInt64Ty());
  parameters.insert(parameters.end(), buffers_.size(), builder_.getPtrTy());
  const bool counted = plan_.window && plan_.window->skips_lines;
  parameters.insert(parameters.end(), size_t{counted} + size_t{plan_.prefetches_panels},
                    builder_.getInt64Ty());
  return llvm::FunctionType::get(builder_.getVoidTy(), parameters, false);
}

/// A separate function: inlined into the loops around it, their loop invariants would occupy the few
/// registers that the sums leave.
llvm::Function* BlockEpilogue::emit_kernel(const llvm::Twine& name, const MicroShape& shape, int64_t columns,
                                           const llvm::AttributeList& attributes) {
  auto* function = micro_function(context_.module, name, kernel_type(), attributes);
  const auto argument = [&](size_t number) { return function->getArg(static_cast<unsigned>(number)); };
  const GemmCoordinates first{argument(2), argument(3), argument(4)};
  const size_t next = 5 + buffers_.size();
  const MicroStart start{argument(0), argument(1), shape.counted ? argument(next) : nullptr,
                         shape.prefetches ? argument(next + size_t{shape.counted}) : nullptr};
  std::vector<llvm::Value*> bases(context_.kernel.buffers.size());
  for (size_t k = 0; k < buffers_.size(); ++k) bases[buffers_[k]] = argument(5 + k);
  context_.within(function, std::move(bases), [&] {
    auto sums = zero_sums(shape);  // by row, then by vector
    add_products(builder_, function, shape, start, sums);
    const auto lanes = static_cast<unsigned>(plan_.lanes);
    auto sum = sums.begin();
    for (int r = 0; r < shape.rows; ++r)
      for (int v = 0; v < shape.vectors; ++v) {
        const int64_t column = int64_t{v} * plan_.lanes, left = columns - column;
        emit_vector({first.batch, builder_.CreateAdd(first.row, context_.i64(r)),
                     builder_.CreateAdd(first.column, context_.i64(column))},
                    *sum++, left < plan_.lanes ? context_.lane_mask(context_.i64(left), lanes) : nullptr);
      }
    builder_.CreateRetVoid();
  });
  return function;
}

void BlockEpilogue::call_kernel(llvm::Value* kernel, const MicroStart& start, const GemmCoordinates& place) {
  std::vector<llvm::Value*> arguments = {start.rows, start.columns, place.batch, place.row, place.column};
  for (const auto buffer : buffers_) arguments.push_back(context_.base(buffer));
  if (start.trips) arguments.push_back(start.trips);
  if (start.prefetch_distance) arguments.push_back(start.prefetch_distance);
  builder_.CreateCall(kernel_type(), kernel, arguments);
}

void BlockEpilogue::emit_block(const GemmCoordinates& place, llvm::Value* row_end, llvm::Value* column_end,
                               llvm::Value* sums, int64_t stride) {
  // All vectors of a row are straight-line code: blocks are small, and one mispredicted loop exit costs as
  // much as a row.
  const auto lanes = static_cast<unsigned>(plan_.lanes);
  const bool whole = plan_.columns.extent % plan_.block_columns() == 0;
  auto* vector = llvm::FixedVectorType::get(accumulator(), lanes);
  const llvm::Align align(static_cast<uint64_t>(plan_.lanes * bits_of(plan_.accumulator) / 8));
  std::vector<llvm::Value*> starts, masks;
  for (int64_t v = 0; v < plan_.block_vectors; ++v) {
    starts.push_back(builder_.CreateAdd(place.column, context_.i64(v * plan_.lanes)));
    auto* left = builder_.CreateSub(column_end, starts.back());
    auto* some = builder_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, left, context_.i64(0));
    masks.push_back(whole ? nullptr : context_.lane_mask(some, lanes));
  }
  context_.loop(place.row, row_end, 1, "row", [&](llvm::Value* row) {
    auto* offset = builder_.CreateMul(builder_.CreateSub(row, place.row), context_.i64(stride));
    auto* first = builder_.CreateInBoundsGEP(accumulator(), sums, offset);
    for (size_t v = 0; v < starts.size(); ++v) {
      auto* from = builder_.CreateInBoundsGEP(accumulator(), first,
                                              context_.i64(static_cast<int64_t>(v) * plan_.lanes));
      emit_vector({place.batch, row, starts[v]}, builder_.CreateAlignedLoad(vector, from, align), masks[v]);
    }
  });
}

}  // namespace ferrite::emitter
