// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// SHA-256, for files that must be what somebody said they are.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace ferrite::core {

/// SHA-256 of what is added to it.
class Digest {
 public:
  /// Looks the algorithm up, once for the process. For the thread that starts others which digest: the cryptographic library keeps
  /// state for each thread that looks something up, which it does not give back where the thread outlives it.
  static void prepare();
  Digest();
  ~Digest();
  Digest(const Digest&) = delete;
  void add(std::span<const std::byte> bytes);
  /// 64 hexadecimal digits; nothing may be added afterwards.
  std::string hex();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

std::string sha256(std::string_view text);
/// Of several parts with their lengths, which keep them apart.
std::string sha256(std::initializer_list<std::string_view> parts);

}  // namespace ferrite::core
