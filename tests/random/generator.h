// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What generate() is made of: a function for each family of operators.
#pragma once

#include <optional>

#include "graph_writer.h"

namespace ferrite::random_graphs {

/// One graph in the making. Each op that it can add is a function without arguments, which step() picks from.
class Generator {
 public:
  explicit Generator(uint64_t seed) : w_(seed), random_(w_.random) {}

  GeneratedGraph run();

 private:
  using Step = void (Generator::*)();

  /// Adds one op, or none where its operands are not there.
  void step();
  /// Lets the model leave values of theirs in the memory of inputs: what it computes, other inputs or
  /// constants.
  void mutations();
  /// What nothing reads, now and then a value that is read too, an input, or one value twice.
  std::vector<size_t> outputs();

  // ---- choices

  DType random_dtype();
  int64_t random_dim();
  Dims random_dims(size_t low = 0, size_t high = 4);
  /// A new input; exact: 1 yes, 0 no, -1 either.
  size_t fresh(DType dtype, Dims dims, int exact);
  template <class Accept>
  std::optional<size_t> choose(Accept&& accept) {
    std::vector<size_t> fitting;
    for (size_t k = 0; k < w_.values.size(); ++k)
      if (accept(w_.values[k])) {
        fitting.push_back(k);
        // Values that nothing reads yet are taken more often, so that graphs grow deep.
        if (w_.values[k].uses == 0) fitting.insert(fitting.end(), 3, k);
      }
    if (fitting.empty()) return std::nullopt;
    return random_.pick(fitting);
  }
  std::optional<size_t> choose_float(size_t low_rank = 0);
  static bool is_exact(const Tensor& t) { return !is_float(t.dtype) || t.quantum > 0; }

  /// Adds a float result unless its bounds say that it would be meaningless, or bounds of an integer or bool.
  void emit(Tensor t, const std::string& call);
  /// `t` with new bounds for a float result that is computed, and rounded once.
  static Tensor computed(const Tensor& t, double magnitude, double error);

  // ---- pointwise

  void unary();
  void exact_unary();
  void exponential();
  /// Functions with a pole, of |x| + 1.
  void guarded();
  static std::optional<Dims> broadcast(const Dims& a, const Dims& b);
  /// A second operand that broadcasts with value k: one that is there, a new input or a constant.
  size_t partner(size_t k, int exact);
  void binary();
  void compare();
  void logic();
  void where();
  /// Bounds of what may be an element of either.
  static Tensor joined(const Tensor& a, const Tensor& b);
  void cast();
  void predicates();

  // ---- reductions

  void reduce();
  void reduce_over(size_t k, const std::vector<int64_t>& axes);
  /// Of a new input of many rows: each by its maximum or its softmax, then the maximum of all of them.
  void along_and_over_rows();
  /// One pass over a new input of few rows with thousands of elements each.
  void long_rows();
  void argmax();
  void argmax_along(size_t k, int64_t axis);
  /// Of the products or the distances of bytes.
  void byte_sums();
  void cumsum();
  void cumsum_along(size_t k, int64_t axis);
  void softmax();
  void attention();
  void normalise();

  // ---- views and moves

  void view();
  void reshape(size_t k, Tensor r);
  void slice(size_t k, Tensor r);
  void concat();
  void pad();
  void split();
  void arrange();
  void counting();
  /// Random numbers of a new seed.
  void draw();

  // ---- indexing

  void gather();
  void scatter();
  void sort();

  // ---- contractions and windows

  /// The other operand: a value with these dims, a new input or a weight.
  size_t operand(DType dtype, const Dims& dims, int exact);
  /// The value or, now and then, what a cheap op makes of it, or of narrower elements, for one reader: an
  /// operand that a contraction may compute.
  size_t prepared(size_t k);
  /// A sum of `count` products.
  static Tensor summed(const Tensor& a, const Tensor& b, double count);
  void matmul();
  /// The product of a few rows with a large matrix, as it is stored or transposed.
  void few_rows();
  /// The operand of an op over windows: batch, channels and one or two spatial dims.
  std::optional<size_t> image();
  struct Windows {
    std::vector<int64_t> kernel, strides, low, high, dilations, result;
    int64_t volume = 1;
    std::string attributes() const {
      return fmt::format("strides = [{}], pads_low = [{}], pads_high = [{}], dilations = [{}]",
                         fmt::join(strides, ", "), fmt::join(low, ", "), fmt::join(high, ", "),
                         fmt::join(dilations, ", "));
    }
  };
  std::optional<Windows> windows(const Dims& dims);
  void convolution();
  void transposed_convolution();
  void pool();

  GraphWriter w_;
  RandomSource& random_;
  int64_t most_ = most_elements;  ///< of one value
  double empty_ = 0.01;           ///< how often a dim has size 0: seldom, but in some graphs often
};

}  // namespace ferrite::random_graphs
