// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The numbers of a target that loop decisions depend on: the one cost model of inlining, layouts, fusion and
// splits. Plugins' cost models apply to fused groups and to candidates only.
#pragma once

#include <algorithm>
#include <cstdint>

namespace ferrite::core::runtime {

/// The order of dims that a target's convolutions prefer for their inputs and outputs.
enum class Activations : uint8_t { any, channels_last };

/// The statements with which a contraction may share loops, apart from the maps after it. any: other
/// contractions and reductions, row by row; apart: nothing; softmax: only a second contraction with a softmax
/// between the two.
enum class Products : uint8_t { any, apart, softmax };

/// The numbers of a target; rates are per worker. The initial values are the defaults for a target that
/// states nothing and was not measured. Loops are divided by these numbers and by shapes only, never by the
/// number of threads, so that results do not depend on it.
struct TargetNumbers {
  int64_t workers = 8;  ///< with fewer tasks, some workers would be idle
  /// Capacity for buffers that live within one iteration of the shared loops.
  int64_t local_bytes = 256 << 10;
  /// Capacity that several statements can touch in turn and still find in a near cache.
  int64_t near_bytes = 128 << 10;
  int64_t line_bytes = 64;    ///< bytes per memory transfer
  int64_t page_bytes = 4096;  ///< rows this far apart are on separate pages
  int64_t pages = 512;        ///< entries of the fast TLB
  /// Cost factor of an access that no inner loop walks; the default is the number of f32 per line.
  int64_t uncoalesced = 16;
  int64_t launch_ns = 16384;  ///< cost of one more launch
  int64_t join_ns = 2048;     ///< time before other workers join a launch
  /// Time per point of a scatter that replaces values, which must run in order, on a device whose combining
  /// scatters of 32 bits or more run in parallel; 0: on this target they do not.
  int64_t ordered_ns = 0;
  int64_t bandwidth = 32'000'000'000;   ///< bytes per second
  int64_t operations = 16'000'000'000;  ///< scalar primitives per second
  Activations activations = Activations::any;
  Products products = Products::any;

  /// The number of points, each reading one f32, that one worker processes in this time.
  int64_t points_in(int64_t nanoseconds) const {
    return std::max<int64_t>(1, static_cast<int64_t>(bytes_in(nanoseconds) / element_bytes));
  }
  /// The cost of one more launch, in points.
  int64_t launch_points() const { return points_in(launch_ns); }
  /// The points that one worker finishes before others have joined it.
  int64_t small_work() const { return points_in(join_ns); }
  /// The cost of one more launch, in bytes read.
  int64_t launch_bytes() const { return std::max<int64_t>(1, static_cast<int64_t>(bytes_in(launch_ns))); }
  /// The number of operations that take as long as reading one f32.
  int64_t operations_of_element() const { return static_cast<int64_t>(operations_while_reading()); }
  /// The cost of a point with this many operations and one read, in elements read: the larger of both costs,
  /// as in the roofline model (Williams, Waterman and Patterson, 2009).
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
