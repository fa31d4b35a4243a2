// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Random numbers by Philox4x32-10 (Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2,
// 3", 2011). An element depends only on its number and the seed, so its bits are the same on every device and
// in every fusion.
#include <array>

#include "common.h"

namespace ferrite::standard {
namespace {

using Words = std::array<Val, 4>;  // each a u32

Val number(Lowering& l, DType dtype, uint64_t value) { return l.constant_bits(dtype, value); }

/// The output block for a counter of four words and a key of two.
Words philox(Lowering& l, Words counter, std::array<Val, 2> key) {
  constexpr uint64_t multipliers[] = {0xd2511f53, 0xcd9e8d57}, steps[] = {0x9e3779b9, 0xbb67ae85};
  constexpr int rounds = 10, word_bits = 32;
  for (int round = 0; round < rounds; ++round) {
    std::array<Val, 2> low, high;
    for (size_t k = 0; k < 2; ++k) {
      const Val product = cast(counter[2 * k], u64) * number(l, u64, multipliers[k]);
      low[k] = cast(product, u32);
      high[k] = cast(l.prim(Prim::shr_, product, number(l, u64, word_bits)), u32);
    }
    counter = {high[1] ^ counter[1] ^ key[0], low[1], high[0] ^ counter[3] ^ key[1], low[0]};
    for (size_t k = 0; k < 2; ++k) key[k] = key[k] + number(l, u32, steps[k]);
  }
  return counter;
}

/// Both halves of a u64.
std::array<Val, 2> halves(Lowering& l, Val value) {
  return {cast(value, u32), cast(l.prim(Prim::shr_, value, number(l, u64, 32)), u32)};
}

/// Block `block`, an i64, of the seed in operand 0, which contains the key and the number of the stream of
/// blocks.
Words block_of(Lowering& l, Val block) {
  const auto at = [&](int64_t k) { return l.load(0, Indices{l.constant_index(k)}); };
  const auto key = halves(l, at(0)), stream = halves(l, at(1)), place = halves(l, cast(block, u64));
  return philox(l, {place[0], place[1], stream[0], stream[1]}, key);
}

/// The element's number in row-major order.
Idx number_of(Lowering& l, const Indices& i) {
  Idx at = l.constant_index(0);
  const auto& dims = l.result().type.dims;
  for (size_t d = 0; d < i.size(); ++d) at = at * dims[d] + i[d];
  return at;
}

/// Word k % 4 of block k / 4.
Val word_of(Lowering& l, Idx k) {
  constexpr int64_t words_of_block = 4;
  const auto words = block_of(l, l.value(k / words_of_block));
  const Val which = l.value(k % words_of_block);
  Val word = words[3];
  for (int w = 2; w >= 0; --w) word = where(which == w, words[static_cast<size_t>(w)], word);
  return word;
}

/// 24 bits of a word as a number in [0, 1).
Val fraction(Lowering& l, Val word) {
  constexpr double step = 0x1p-24;
  return cast(l.prim(Prim::shr_, word, number(l, u32, 8)), f32) * step;
}

/// Two words as a number of the standard normal distribution.
Val normal(Lowering& l, Val first, Val second) {
  constexpr double step = 0x1p-24, turn = 6.283185307179586;
  const Val radius = sqrt(log(fraction(l, first) + step) * -2.0);
  return radius * cos(fraction(l, second) * turn);
}

/// Computes each element by `body(l, k)`, where k is its number.
using RandomBody = Val (*)(Lowering& l, Idx k);
OpDef random_def(const std::string& name, const std::string& doc, DType dtype, RandomBody body) {
  return op_def(name)
      .doc(doc +
           " The seed is a key and the number of a stream; element k has the same bits wherever it is "
           "computed.")
      .operands("seed")
      .required(attr("shape", Dims{}))
      .infer([dtype](const Instance& op) {
        const auto seed = op.operand(0);
        need_same_dtype(op, 0, u64);
        need_fit(seed.dims == Dims{2}, op, "the seed is ", to_string(seed), " and needs to be u64[2]");
        TensorType result{dtype, integers(op, "shape", op.attrs.integers("shape").size(), 0, large)};
        element_count(op, result.dims);
        return std::vector{result};
      })
      .lower([body](Lowering& l) { l.map(0, [&](const Indices& i) { return body(l, number_of(l, i)); }); })
      .samples({sample("%seed: u64[2]", name + "(%seed) {shape = [3, 5]}"),
                sample("%seed: u64[2]", name + "(%seed) {shape = []}")});
}

}  // namespace

void add_random(PluginBuilder& builder, const PluginContext&) {
  builder.add(random_def("random_bits", "Word k % 4 of block k / 4 of Philox4x32-10.", u32, word_of));
  builder.add(random_def("random_uniform",
                         "Numbers of [0, 1), of the upper 24 of the bits that random_bits gives.", f32,
                         [](Lowering& l, Idx k) { return fraction(l, word_of(l, k)); }));
  builder.add(random_def(
      "random_normal",
      "Numbers of the standard normal distribution, by Box and Muller's method of two words of block k of "
      "Philox4x32-10.",
      f32, [](Lowering& l, Idx k) {
        const auto words = block_of(l, l.value(k));
        return normal(l, words[0], words[1]);
      }));
}

}  // namespace ferrite::standard
