// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The conformance list of backends: kind of statement or primitive, by element type, by shape, by layout.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ferrite/dtype.hpp"

namespace ferrite::core::plugin_check {

/// The contents of a case's input.
enum class Values : uint8_t {
  ordinary,      ///< floats N(0, 1) times 3; small integers, occasionally the ends of the range
  special,       ///< the same with NaN, infinities and zeros of both signs
  positive,      ///< in (0, 4)
  fraction,      ///< in (-1, 1)
  above_one,     ///< in (1, 8)
  exact,         ///< sums of two thousand products are exact in every accumulator
  powers,        ///< -1, 1, and few of 2 and 0.5 (integers: 2): products are exact
  index,         ///< integers from 0 to 4
  signed_index,  ///< integers from -5 to 4; unsigned ones modulo 2^bits, one of them beyond 4
  outside,       ///< integers from -40 to 40, including both ends
};

/// One program of the list, as the text of a loop program.
struct KernelCase {
  std::string name;  ///< "83 strided"
  std::string text;
  std::vector<Values> inputs;  ///< by input of the program
  double ulp = 0;  ///< the largest allowed difference of an element, in units in the last place of its type
  bool out_of_range = false;  ///< the run must fail with the error of an out-of-range index
  bool fused = false;         ///< its statements are grouped into kernels as those of a model are
  bool always = false;        ///< in every sample of the list, because few other cases cover its features
};

/// A cell of the table of capabilities.
struct KernelCell {
  std::string name;
  DType dtype = DType::none;
};

/// The names of cells, each once, in the order of the checks; map comes first, because all others depend on
/// it.
std::vector<std::string> kernel_names();
/// The element types for which a name has cases.
std::vector<DType> types_of(const std::string& name);
/// All cases of a cell.
std::vector<KernelCase> cases_of(const KernelCell& cell);

}  // namespace ferrite::core::plugin_check
