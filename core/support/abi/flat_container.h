// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Writes the flat container (abi/kernel.h): collects sections, then lays them out after their header.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace ferrite::core {

/// The sections of one container, in the order in which they are added. Elements are plain data without
/// padding.
class FlatContainer {
 public:
  /// Adds a section. Readers must understand a semantic section, and entry() hashes it.
  template <class T>
  void add(uint32_t kind, bool semantic, const std::vector<T>& elements) {
    add(kind, semantic, elements.data(), elements.size(), sizeof(T));
  }

  /// The whole container: header, section table, and sections at multiples of 8 bytes. `features`: bits that
  /// a reader must understand.
  std::vector<std::byte> bytes(uint32_t content, uint64_t features = 0) const;

  /// "k_" and the hash of the contents of the semantic sections. Their offsets are not hashed.
  std::string entry() const;

 private:
  struct Section {
    uint32_t kind = 0;  ///< with the must-understand bit
    uint64_t stride = 0, count = 0;
    std::vector<std::byte> data;
    bool semantic = true;
  };
  void add(uint32_t kind, bool semantic, const void* data, size_t count, size_t stride);

  std::vector<Section> sections_;
};

}  // namespace ferrite::core
