// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// SHA-256, for files whose contents must match a published checksum.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace ferrite::core {

/// The SHA-256 of all bytes added.
class Digest {
 public:
  /// Looks the algorithm up, once for the process. Call it on the thread that starts the threads which
  /// digest: the cryptographic library keeps state for each thread that looks an algorithm up, and leaks it
  /// if the thread ends before the process.
  static void prepare();
  Digest();
  ~Digest();
  Digest(const Digest&) = delete;
  void add(std::span<const std::byte> bytes);
  /// Finishes: 64 hexadecimal digits. Nothing may be added afterwards.
  std::string hex();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

std::string sha256(std::string_view text);
/// The SHA-256 of several parts. The length of each part is included, so that different splits of the same
/// bytes differ.
std::string sha256(std::initializer_list<std::string_view> parts);

}  // namespace ferrite::core
