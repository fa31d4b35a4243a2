// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Random graphs over the standard ops, as text, with what is needed to judge a result: inputs and error
// bounds.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ferrite/dtype.hpp"

namespace ferrite::random_graphs {

using Dims = std::vector<int64_t>;

/// What an input holds.
enum class Contents : uint8_t {
  real,       ///< uniform in [-magnitude, magnitude]
  quantised,  ///< multiples of 0.5 in [-magnitude, magnitude]
  whole,      ///< integers in [-magnitude, magnitude], from 0 where the type has no sign
  extreme,    ///< integers of the whole range of the type, its ends among them
  index,      ///< integers in [0, magnitude)
};

struct Input {
  std::string name;
  DType dtype = DType::none;
  Dims dims;
  Contents contents = Contents::real;
  double magnitude = 1;
  bool special = false;  ///< a few elements are NaN or infinite
  /// What the model leaves in the input's memory; none: what was there.
  std::string mutated_by;
  double absolute = 0;  ///< of what it leaves, as for outputs
};

struct GeneratedGraph {
  std::string text;
  std::vector<Input> inputs;
  std::vector<double> absolute;  ///< by output: the bound of the absolute error that rounding alone explains
};

/// The same seed gives the same graph. 3 to 25 ops; every op's value is bounded, so that a finite input gives
/// a finite result, and discontinuous ops only see values that both sides compute exactly.
GeneratedGraph generate(uint64_t seed);

/// Elements of an input, contiguous.
std::vector<std::byte> contents_of(const Input& input, uint64_t seed);

/// One element as a number; 64-bit integers by their own comparison.
double number_at(DType dtype, const std::byte* data, int64_t element);

/// How far results of a dtype may be off relative to their size.
double relative_tolerance(DType dtype);

}  // namespace ferrite::random_graphs
