// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Random numbers that are the same on every machine.
#pragma once

#include <cstdint>
#include <vector>

namespace ferrite::random_graphs {

/// SplitMix64 (Steele, Lea, Flood 2014).
class RandomSource {
 public:
  /// The state is drawn from the seed: else the next seed's numbers were this one's, one further on.
  explicit RandomSource(uint64_t seed) : state_(seed * 0x9E3779B97F4A7C15u + 0x632BE59BD9B4E019u) {
    state_ = bits();
  }

  uint64_t bits() {
    uint64_t z = state_ += 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
  }
  /// In [low, high].
  int64_t integer(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(bits() % (static_cast<uint64_t>(high - low) + 1));
  }
  /// In [0, 1).
  double real() { return static_cast<double>(bits() >> 11) * 0x1p-53; }
  bool chance(double probability) { return real() < probability; }
  template <class T>
  const T& pick(const std::vector<T>& list) {
    return list[static_cast<size_t>(integer(0, static_cast<int64_t>(list.size()) - 1))];
  }

 private:
  uint64_t state_;
};

}  // namespace ferrite::random_graphs
