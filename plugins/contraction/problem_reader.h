// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// From a kernel to the numbers of a contraction. read_problem.cpp has the main steps, statements and plain
// products; read_window.cpp has convolutions, and read_epilogue.cpp the epilogues of both.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "problem.h"

namespace ferrite::contraction {

using loop::BodyOp;
using loop::Statement;
using loop::VarKind;
using Index = std::span<const index::Expr>;

/// Reads one kernel, once. Anything that the library cannot compute ends in decline() with the reason.
class ProblemReader {
 public:
  ProblemReader(const loop::Kernel& kernel, const Abilities& abilities, size_t most_statements)
      : kernel_(kernel), s_(kernel.statements[0]), abilities_(abilities), most_statements_(most_statements) {}

  ReadProblem run();

 private:
  const BodyOp& a() const { return s_.ops[a_]; }
  const BodyOp& b() const { return s_.ops[b_]; }

  void check_statement();
  /// The type in which products are summed and epilogues are computed.
  DType accumulator() const { return result_.problem.type == f64 ? f64 : f32; }

  // -- indices
  /// Strides of a buffer. LOCAL and packed buffers are contiguous: another kernel may compute the rest from
  /// them.
  static std::vector<int64_t> strides_of(const loop::Buffer& buffer);
  /// The stride of a variable in elements; nullopt if it is not constant.
  std::optional<int64_t> stride(const loop::Buffer& buffer, Index at, index::Symbol symbol) const;
  int64_t offset(const loop::Buffer& buffer, Index at) const;
  bool uses(const BodyOp& load, index::Symbol symbol) const;
  std::vector<index::Symbol> symbols_of(index::Expr expr, index::Symbol wanted) const;
  Operand operand(loop::BufferId id, Index at) const;

  // -- loops
  /// Reads the kernel with the current order of operands. Returns the reason why it does not fit, or "". The
  /// other functions that return a text do the same.
  std::string read();
  bool read_result(loop::BufferId id, Index at);
  /// Whether an index adds loops, has a stride, or reads outside the operand.
  bool is_convolution() const;
  size_t number(index::Symbol symbol) const;

  struct Axis {
    size_t out = SIZE_MAX, window = SIZE_MAX;  // variables
    size_t dim = 0;                            // dim of a's buffer
    Window form;
    int64_t shift = 0;                    // offset in the dim of the first element that is read
    std::optional<int64_t> lower, upper;  // bounds on o * step + k * dilation, from the mask
  };

  /// Reads the dims of `a` that a window moves over.
  std::string read_window();
  /// Checks that the mask only states that points of the window lie within the operand.
  std::string read_mask();
  std::string collect_window();
  /// Merges loops that are contiguous in every operand into one loop, starting with the first. The others
  /// become loops around the product.
  Loop merge(std::vector<size_t> list);
  std::string collect_product();
  void find_weight_dims();

  // -- epilogue
  /// By dim of an access: its variable, or its constant; nullopt for any other form.
  std::optional<std::vector<int64_t>> shape_of(const Statement& s, Index at) const;
  /// Reads the operations of the contraction itself on its sum.
  bool read_finish();
  /// Reads the following statements that the library computes together with the product, one after the other.
  void read_epilogue();
  bool is_read(loop::BufferId buffer, size_t from) const;
  bool take_result_type(const Statement& map);
  bool read_result_of(const Statement& map);
  /// Adds a map that loads the product once and applies epilogue steps to it.
  bool add_map(const Statement& map, loop::BufferId product);
  /// Follows the operations from the product to the stored value: additions, and at most one activation.
  bool add_steps(const Statement& s, loop::OpId at);
  /// Whether the operation only casts between the types in which a product is stored and computed.
  bool is_rounding(const BodyOp& op) const;
  bool is_computed(const BodyOp& op) const;  ///< whether its type is one of these
  /// The value of a constant of one of these types.
  std::optional<double> constant_of(const BodyOp& op) const;
  bool add_addend(const Statement& map, loop::OpId addend);
  /// An expression as text, with the operands of sums and products in a fixed order.
  std::string text_of(const Statement& map, loop::OpId id, loop::OpId x, int depth) const;

  const loop::Kernel& kernel_;
  const Statement& s_;
  const Abilities& abilities_;
  const size_t most_statements_;
  ReadProblem result_;
  loop::OpId a_ = 0, b_ = 0;
  size_t parallel_ = 0;
  std::vector<Loop> loops_;      // by variable
  std::vector<size_t> channel_;  // variables of b and the result only
  std::vector<size_t> depth_;    // reduction variables of both operands in a convolution
  std::vector<size_t> rest_;     // loops around the product
  std::vector<Axis> axes_, plain_;
  size_t group_ = SIZE_MAX, several_ = SIZE_MAX;  // groups of one channel, groups of several channels
  size_t n_ = SIZE_MAX, k_ = SIZE_MAX;
  bool packable_ = false;
};

}  // namespace ferrite::contraction
