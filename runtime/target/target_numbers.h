// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What decisions about loops ask of a target: the numbers of the one cost model of inlining, layouts, fusion and splits. Cost models of
// plugins are asked about fused groups and about candidates.
#pragma once

#include <algorithm>
#include <cstdint>

namespace ferrite::core::runtime {

/// Which order of dims the convolutions of a target want of what they read and write.
enum class Activations : uint8_t { any, channels_last };

/// What contractions share loops with, beside the maps behind them: others and reductions, row by row; nothing; or, of two with a softmax
/// between them, that.
enum class Products : uint8_t { any, apart, softmax };

/// The numbers of a target; rates are those of one worker. What is here at first are the defaults, of a target that states nothing
/// and was not measured. Programs are cut by these and by shapes, never by how many threads run them.
struct TargetNumbers {
  int64_t workers = 8;              ///< fewer tasks than this leave some of them idle
  int64_t local_bytes = 256 << 10;  ///< of buffers that live inside one iteration of the shared loops
  int64_t near_bytes = 128 << 10;  ///< that several statements touch in turn, and find again where it is near
  int64_t line_bytes = 64;         ///< that memory moves at a time
  int64_t page_bytes = 4096;       ///< rows that far apart are on pages of their own
  int64_t pages = 512;             ///< that are looked up quickly
  int64_t uncoalesced = 16;   ///< times that an access counts which no inner loop walks: the f32 of a line
  int64_t launch_ns = 16384;  ///< that one launch more costs
  int64_t join_ns = 2048;     ///< in which one worker is alone with a launch
  /// That a thread takes for a point of a scatter that replaces, in order, where points of scatters that combine 32 bits or more run at
  /// once; 0: they do not.
  int64_t ordered_ns = 0;
  int64_t bandwidth = 32'000'000'000;   ///< bytes a second
  int64_t operations = 16'000'000'000;  ///< scalar primitives a second
  Activations activations = Activations::any;
  Products products = Products::any;

  /// Points of a loop that reads an f32 at each, that one worker goes through in so long.
  int64_t points_in(int64_t nanoseconds) const {
    return std::max<int64_t>(1, static_cast<int64_t>(bytes_in(nanoseconds) / element_bytes));
  }
  /// Points that a launch more is worth.
  int64_t launch_points() const { return points_in(launch_ns); }
  /// Points that one worker is done with before others have joined it.
  int64_t small_work() const { return points_in(join_ns); }
  /// Bytes that a launch more is worth.
  int64_t launch_bytes() const { return std::max<int64_t>(1, static_cast<int64_t>(bytes_in(launch_ns))); }
  /// Operations that take as long as reading an f32.
  int64_t operations_of_element() const { return static_cast<int64_t>(operations_while_reading()); }
  /// Elements whose reading takes as long as a point of so many operations that reads one: the longer of both, as in the roofline model
  /// (Williams, Waterman and Patterson, 2009).
  int64_t elements_of_point(int64_t operations_of_point) const {
    const double elements = static_cast<double>(operations_of_point) / operations_while_reading();
    return std::max<int64_t>(1, static_cast<int64_t>(elements));
  }

  friend bool operator==(const TargetNumbers&, const TargetNumbers&) = default;

 private:
  static constexpr double element_bytes = 4;
  double operations_while_reading() const {
    return static_cast<double>(operations) * element_bytes / static_cast<double>(bandwidth);
  }
  double bytes_in(int64_t nanoseconds) const {
    return static_cast<double>(nanoseconds) * static_cast<double>(bandwidth) / 1e9;
  }
};

}  // namespace ferrite::core::runtime
