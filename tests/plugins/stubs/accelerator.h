// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the accelerator's compiler and its runtime agree on: programs and the layout of tensors on the device.
#pragma once

#include <cstdint>
#include <string_view>

namespace acme {

/// The device's own layout of f32: tiles of 8, each backwards, the last one filled up.
inline constexpr std::string_view tiles = "acme.tiles";
inline constexpr int64_t tile = 8;
inline constexpr int64_t tiled_elements(int64_t count) { return (count + tile - 1) / tile * tile; }
inline constexpr int64_t tiled_index(int64_t k) { return k / tile * tile + (tile - 1 - k % tile); }

/// The device's memory is its own: an address in it has this bit more than the host's address behind it.
inline constexpr uintptr_t device_bit = uintptr_t{1} << 62;
inline constexpr int32_t dlpack_device = 12;  ///< DLPack's kind for devices of other makers

/// A program is words: the magic number, arguments, temporaries and steps by count; each argument's and
/// temporary's elements and whether it is tiled; then the steps.
inline constexpr int64_t magic = 0x41434d45;
enum class Operation : int64_t { relu, sigmoid, add, sub, mul };
struct Step {
  Operation operation;
  int64_t a, b, to;  ///< arguments, then temporaries; b is a where there is one operand
};
struct Tensor {
  int64_t elements, is_tiled;
};
struct Head {
  int64_t magic, arguments, temporaries, steps;
};

}  // namespace acme
