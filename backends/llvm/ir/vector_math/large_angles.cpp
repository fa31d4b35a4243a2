// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The method of Payne and Hanek (1983): x = m 2^e with an integer m, and only some digits of 1 / (2 pi)
// matter to the fraction of x / (2 pi). Those before them give whole turns; those after them are too small.
#include "backends/llvm/ir/vector_math/large_angles.h"

#include <array>
#include <cstddef>
#include <vector>

namespace ferrite::emitter {
namespace {

/// 1 / (2 pi) 2^-32, in words of 32 bits, the first one 0, since exponents may be down to -32.
constexpr std::array<std::uint32_t, 39> turns_per_radian = {
    0x00000000, 0x28be60db, 0x9391054a, 0x7f09d5f4, 0x7d4d3770, 0x36d8a566, 0x4f10e410, 0x7f9458ea,
    0xf7aef158, 0x6dc91b8e, 0x909374b8, 0x01924bba, 0x82746487, 0x3f877ac7, 0x2c4a69cf, 0xba208d7d,
    0x4baed121, 0x3a671c09, 0xad17df90, 0x4e64758e, 0x60d4ce7d, 0x272117e2, 0xef7e4a0e, 0xc7fe25ff,
    0xf7816603, 0xfbcbc462, 0xd6829b47, 0xdb4d9fb3, 0xc9f2c26d, 0xd3d18fd9, 0xa797fa8b, 0x5d49eeb1,
    0xfaf97c5e, 0xcf41ce7d, 0xe294a4ba, 0x9afed7ec, 0x47e35742, 0x1580cc11, 0xbf1edaea,
};

/// Lanes of 64 bits, of which mostly the lower 32 are used.
class Words {
 public:
  Words(llvm::IRBuilderBase& builder, llvm::Type* like)
      : builder_(builder), type_(like->getWithNewType(builder.getInt64Ty())) {}

  using Value = llvm::Value*;
  Value constant(std::uint64_t value) const { return llvm::ConstantInt::get(type_, value); }
  Value low(Value a) const { return builder_.CreateAnd(a, constant(0xffffffff)); }
  Value high(Value a) const { return builder_.CreateLShr(a, constant(32)); }
  Value pair(Value high, Value low) const {
    return builder_.CreateOr(builder_.CreateShl(high, constant(32)), low);
  }

  /// `count` words of the digits from a word on, whose number is below 2^bits: in steps that halve the
  /// choice.
  std::vector<Value> digits_from(Value word, unsigned bits, std::size_t count) const {
    std::vector<Value> words;
    for (std::size_t k = 0; k < count + (std::size_t{1} << bits) - 1; ++k)
      words.push_back(constant(k < turns_per_radian.size() ? turns_per_radian[k] : 0));
    for (unsigned bit = bits; bit-- > 0;) {
      const std::size_t step = std::size_t{1} << bit;
      Value later = builder_.CreateICmpNE(builder_.CreateAnd(word, constant(step)), constant(0));
      for (std::size_t k = 0; k + step < words.size(); ++k)
        words[k] = builder_.CreateSelect(later, words[k + step], words[k]);
      words.resize(words.size() - step);
    }
    return words;
  }

  /// The lowest words of a product, from the lowest on; factors have their highest word first.
  std::vector<Value> product(const std::vector<Value>& a, const std::vector<Value>& b,
                             std::size_t count) const {
    std::vector<Value> sums(count, constant(0));
    const auto add = [&](std::size_t place, Value part) {
      if (place < count) sums[place] = builder_.CreateAdd(sums[place], part);
    };
    for (std::size_t i = 0; i < a.size(); ++i)
      for (std::size_t j = 0; j < b.size(); ++j) {
        const std::size_t place = (a.size() - 1 - i) + (b.size() - 1 - j);
        if (place >= count) continue;
        Value part = builder_.CreateMul(a[i], b[j]);
        add(place, low(part));
        add(place + 1, high(part));
      }
    for (std::size_t k = 0; k < count; ++k) {
      add(k + 1, high(sums[k]));
      sums[k] = low(sums[k]);
    }
    return sums;
  }

 private:
  llvm::IRBuilderBase& builder_;
  llvm::Type* type_;
};

}  // namespace

Remainder remainder_of_large(llvm::IRBuilderBase& builder, Lanes magnitude) {
  using Value = llvm::Value*;
  const bool is_f32 = magnitude.is_f32();
  const auto& format = magnitude.format();
  const Words words(builder, magnitude.type());
  Value bits = builder.CreateZExt(magnitude.bits(), words.constant(0)->getType());
  Value exponent = builder.CreateLShr(bits, words.constant(format.fraction_bits));
  const std::uint64_t one = std::uint64_t{1} << format.fraction_bits;
  Value fraction = builder.CreateOr(builder.CreateAnd(bits, words.constant(one - 1)), words.constant(one));
  // The digits begin where their product with the integer m has its point; the first word is 32 of them.
  const auto point = static_cast<std::uint64_t>(format.bias) + format.fraction_bits - 32;
  Value begin = builder.CreateSub(exponent, words.constant(point));
  Value shift = builder.CreateSub(words.constant(32), builder.CreateAnd(begin, words.constant(31)));
  const std::size_t count = is_f32 ? 3 : 6;
  auto digits = words.digits_from(builder.CreateLShr(begin, words.constant(5)), is_f32 ? 3 : 5, count + 1);
  std::vector<Value> window;
  for (std::size_t k = 0; k < count; ++k)
    window.push_back(words.low(builder.CreateLShr(words.pair(digits[k], digits[k + 1]), shift)));
  const std::vector<Value> integer =
      is_f32 ? std::vector<Value>{fraction} : std::vector<Value>{words.high(fraction), words.low(fraction)};
  const auto product = words.product(integer, window, count);
  // The fraction of a turn in 64 bits: the nearest quarter, and the signed rest.
  Value turn = words.pair(product[count - 1], product[count - 2]);
  Value quarter =
      builder.CreateLShr(builder.CreateAdd(turn, words.constant(std::uint64_t{1} << 61)), words.constant(62));
  Value rest = builder.CreateSub(turn, builder.CreateShl(quarter, words.constant(62)));
  const auto half_pi = magnitude.pick(SplitConstant{0x1.921fb6p+0, -0x1.777a5cp-25},
                                      SplitConstant{0x1.921fb54442d18p+0, 0x1.1a62633145c07p-54});
  const auto as_float = [&](Value integer) {
    return magnitude.with(builder.CreateSIToFP(integer, magnitude.type()));
  };
  const Lanes most = as_float(rest);
  Value rounded = builder.CreateFPToSI(most, rest->getType());
  Lanes least = as_float(builder.CreateSub(rest, rounded)) * (half_pi.high * 0x1p-62);
  if (!is_f32) {
    Value later = words.pair(product[count - 3], product[count - 4]);
    least = magnitude.with(builder.CreateUIToFP(later, magnitude.type())) * (half_pi.high * 0x1p-126) + least;
  }
  Lanes angle = fma(most, half_pi.high * 0x1p-62, multiply_add(most, half_pi.low * 0x1p-62, least));
  // Infinity has no remainder.
  angle = select(magnitude < magnitude.infinity(), angle, magnitude - magnitude);
  return {angle, magnitude.with(builder.CreateTrunc(quarter, magnitude.integer(0).type()))};
}

}  // namespace ferrite::emitter
