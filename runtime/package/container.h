// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The file of a package: a header, a table of sections, the sections (docs/packages.md).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/support/error.h"
#include "core/support/files/weights.h"

namespace ferrite::core::package {

enum class Kind : uint32_t { description = 1, program, code, graph, weights };
inline constexpr uint32_t kind_count = 5;
enum class Codec : uint32_t { stored, zstd };

/// Of a section that belongs to no one target.
inline constexpr uint32_t all_targets = UINT32_MAX;

/// Of one file.
inline constexpr uint32_t most_sections = 64;

/// Sections begin at multiples of it, and so do weights in theirs: kernels may assume as much.
inline constexpr uint64_t alignment = 64;

/// A section to write. Its contents are in pieces that stay where they are until write() returns.
struct Section {
  Kind kind = Kind::description;
  uint32_t target = all_targets;
  Codec codec = Codec::zstd;
  std::vector<std::span<const std::byte>> pieces;
};

/// Writes the file beside its place and renames it. Equal sections give equal bytes. The size of the file; FE-K54 where a section
/// is larger than readers take, FE-K55 where it cannot be written.
Result<uint64_t> write(const std::string& path, std::span<const Section> sections);

/// What of a file is compared with its hashes: all of it when it is opened, or the sections that are read.
enum class Check : uint8_t { all, what_is_read };

/// A file that was looked through: every byte of it is in the header, in the table, in one section, whose hash is right, or is
/// padding. Any-thread.
class Container {
 public:
  /// FE-K50 no package, FE-K51 cut short or altered, FE-K52 sections that cannot be.
  static Result<Container> open(std::shared_ptr<const graph::MappedFile> file, Check check = Check::all);

  /// The contents, decompressed. FE-K52 where there is no such section, or it does not decompress to the size that it says.
  Result<std::vector<std::byte>> read(Kind kind, uint32_t target) const;
  /// The contents in the mapped file; FE-K52 where there is no such section, or it is compressed.
  Result<std::span<const std::byte>> in_place(Kind kind, uint32_t target) const;
  bool has(Kind kind, uint32_t target) const;
  /// Bytes of the contents that read() gives. FE-K52 where there is no such section.
  Result<uint64_t> size(Kind kind, uint32_t target) const;
  const std::shared_ptr<const graph::MappedFile>& file() const { return file_; }

 private:
  struct Entry {
    Kind kind = Kind::description;
    uint32_t target = 0;
    Codec codec = Codec::stored;
    std::span<const std::byte> bytes;
    uint64_t raw_bytes = 0;  ///< of the contents
    std::array<char, 64> digest{};
  };
  Result<const Entry*> find(Kind kind, uint32_t target) const;
  /// The section as it lies in the file, compared with its hash where that was not done at first.
  Result<const Entry*> checked(Kind kind, uint32_t target) const;

  std::shared_ptr<const graph::MappedFile> file_;
  std::vector<Entry> entries_;
  Check check_ = Check::all;
};

}  // namespace ferrite::core::package
