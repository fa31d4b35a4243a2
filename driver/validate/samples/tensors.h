// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Random elements, and the tolerance within which two tensors agree: the basis of all comparisons of graphs
// here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "core/ir/graph/types.h"

namespace ferrite::core::validate {

/// Contiguous elements; the type is known from elsewhere.
using Tensor = std::vector<std::byte>;

/// The same numbers on every machine for the same seed (splitmix64: Steele, Lea and Flood, 2014).
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t bits();
  uint64_t below(uint64_t count) { return count == 0 ? 0 : bits() % count; }
  double real() { return static_cast<double>(bits() >> 11) * 0x1p-53; }  ///< [0, 1)
  double normal();                                                       ///< N(0, 1), by Box and Muller
  bool chance(double probability) { return real() < probability; }
  template <class List>
  const auto& pick(const List& list) {
    return list[below(list.size())];
  }

 private:
  uint64_t state_;
};

/// The distribution of elements. Integers are 0 or 1 in `normal` and `small`, 0 to 3 in `positive`, -4 to 4
/// (from 0 where unsigned) in `whole` and `halves`, -100 to 100 (likewise) in `wide`, and the least, the
/// greatest and small ones in `special`; bool is false or true.
enum class Contents : uint8_t {
  normal,    ///< N(0, 1)
  positive,  ///< uniform in (0, 2)
  small,     ///< N(0, 1) / 1000, for types of less than 32 bits / 8: shows the effect of small safety terms
  whole,     ///< -4 to 4
  wide,  ///< N(0, 1), and numbers so large or small that their exponential or square leaves the dtype's range
  special,  ///< NaN, infinities, zeros of both signs and a few ordinary numbers
  halves,   ///< -4 to 4 in steps of 0.5: ties of rounding
};
std::string_view name_of(Contents contents);

/// Whether tensors of the type can be made and compared: bool, integers of 8 bits and more, floats of 16 and
/// more.
bool comparable(DType dtype);

Tensor random_tensor(const graph::TensorType& type, Contents contents, Random& random);

/// The finite floats moved up or down by this many units of rounding; all other elements unchanged.
Tensor perturbed(const graph::TensorType& type, const Tensor& tensor, int units, Random& random);

/// Raises the spread of each element, the effect of rounding on it, to at least |b - a|.
void add_spread(const graph::TensorType& type, const Tensor& a, const Tensor& b, std::vector<double>& spread);

/// The first element that disagrees. Floats agree within the bounds for random graphs of docs/numerics.md,
/// times the largest finite element (at least 1), plus `spread`, where it is not empty. Equal infinities
/// agree, and so do NaNs at the same position. All other elements must be equal, or have a spread that is not
/// 0.
struct Mismatch {
  int64_t element = 0;
  double expected = 0, actual = 0;
};
std::optional<Mismatch> first_mismatch(const graph::TensorType& type, const Tensor& expected,
                                       const Tensor& actual, std::span<const double> spread = {});

/// The first float that is finite in one tensor and not in the other; none for other dtypes.
std::optional<Mismatch> first_out_of_range(const graph::TensorType& type, const Tensor& expected,
                                           const Tensor& actual);

}  // namespace ferrite::core::validate
