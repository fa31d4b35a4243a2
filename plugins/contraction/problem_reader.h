// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// From a kernel to the numbers of a contraction. read_problem.cpp has the way, statements and plain products;
// read_window.cpp what convolutions are besides, read_epilogue.cpp what is computed behind either.
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

/// Reads one kernel, once. What the library cannot take ends in decline(), with why.
class ProblemReader {
 public:
  ProblemReader(const loop::Kernel& kernel, const Abilities& abilities, size_t most_statements)
      : kernel_(kernel), s_(kernel.statements[0]), abilities_(abilities), most_statements_(most_statements) {}

  ReadProblem run();

 private:
  const BodyOp& a() const { return s_.ops[a_]; }
  const BodyOp& b() const { return s_.ops[b_]; }

  void check_statement();
  /// In which products are summed, and their epilogues computed.
  DType accumulator() const { return result_.problem.type == f64 ? f64 : f32; }

  // -- indices
  /// What a kernel keeps to itself becomes a buffer where its rest is computed by somebody else.
  static std::vector<int64_t> strides_of(const loop::Buffer& buffer);
  /// How far a step of a variable goes, in elements; none where that is not always the same.
  std::optional<int64_t> stride(const loop::Buffer& buffer, Index at, index::Symbol symbol) const;
  int64_t offset(const loop::Buffer& buffer, Index at) const;
  bool uses(const BodyOp& load, index::Symbol symbol) const;
  std::vector<index::Symbol> symbols_of(index::Expr expr, index::Symbol wanted) const;
  Operand operand(loop::BufferId id, Index at) const;

  // -- loops
  /// With the operands as they are numbered now; why it is no such contraction, or nothing. So do the others that give a text.
  std::string read();
  bool read_result(loop::BufferId id, Index at);
  /// Whether an index adds loops, or steps over elements, or reads beside the operand.
  bool is_convolution() const;
  size_t number(index::Symbol symbol) const;

  struct Axis {
    size_t out = SIZE_MAX, window = SIZE_MAX;  // variables
    size_t dim = 0;                            // of a's buffer
    Window form;
    int64_t shift = 0;                    // elements of the dim, before the first one that counts
    std::optional<int64_t> lower, upper;  // by the mask, of o * step + k * dilation
  };

  /// The dims of `a` that a window goes over.
  std::string read_window();
  /// The mask has to say nothing but that points of the window lie within the operand.
  std::string read_mask();
  std::string collect_window();
  /// Makes one loop of as many of these as lie one after the other in every operand, starting with the first one; the others become
  /// loops around the product.
  Loop merge(std::vector<size_t> list);
  std::string collect_product();
  void find_weight_dims();

  // -- epilogue
  /// Which variable each dim of an access is, or its constant; none for another form.
  std::optional<std::vector<int64_t>> shape_of(const Statement& s, Index at) const;
  /// What the contraction itself makes of its sum.
  bool read_finish();
  /// Takes the statements that the library computes with the product, one after the other.
  void read_epilogue();
  bool is_read(loop::BufferId buffer, size_t from) const;
  bool take_result_type(const Statement& map);
  bool read_result_of(const Statement& map);
  /// A map that has steps behind the product, which it loads once.
  bool add_map(const Statement& map, loop::BufferId product);
  /// From an operation that gives the product to what is stored: sums, an activation at most.
  bool add_steps(const Statement& s, loop::OpId at);
  /// Whether it only goes between the types in which a product is stored and computed.
  bool is_rounding(const BodyOp& op) const;
  bool is_computed(const BodyOp& op) const;  ///< in one of them
  /// What a constant of one of them is.
  std::optional<double> constant_of(const BodyOp& op) const;
  bool add_addend(const Statement& map, loop::OpId addend);
  /// An expression as text, sums and products in one order.
  std::string text_of(const Statement& map, loop::OpId id, loop::OpId x, int depth) const;

  const loop::Kernel& kernel_;
  const Statement& s_;
  const Abilities& abilities_;
  const size_t most_statements_;
  ReadProblem result_;
  loop::OpId a_ = 0, b_ = 0;
  size_t parallel_ = 0;
  std::vector<Loop> loops_;      // by variable
  std::vector<size_t> channel_;  // variables of b and the result alone
  std::vector<size_t> depth_;    // of both operands, that a convolution sums over
  std::vector<size_t> rest_;     // around the product
  std::vector<Axis> axes_, plain_;
  size_t group_ = SIZE_MAX, several_ = SIZE_MAX;  // of one channel each, of several ones
  size_t n_ = SIZE_MAX, k_ = SIZE_MAX;
  bool packable_ = false;
};

}  // namespace ferrite::contraction
