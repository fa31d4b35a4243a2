// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The file format of a package: a header, a table of sections, the sections (docs/packages.md).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
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

/// The `target` of a section that all targets share.
inline constexpr uint32_t all_targets = UINT32_MAX;

/// The maximum number of sections in a file.
inline constexpr uint32_t most_sections = 64;

/// Sections, and weights within theirs, begin at multiples of this: kernels may rely on it.
inline constexpr uint64_t alignment = 64;

/// A section to write. Its contents are chunks whose memory must stay unchanged until write() returns.
struct Section {
  Kind kind = Kind::description;
  uint32_t target = all_targets;
  Codec codec = Codec::zstd;
  std::vector<std::span<const std::byte>> chunks;
};

/// Receives the contents of a file as chunks, which follow one another.
using Sink = std::function<Result<void>(std::span<const std::span<const std::byte>> chunks)>;

/// Gives the file to `sink`, all at once. Equal sections give equal bytes. Returns the size of the file.
/// FE-K54 if a section exceeds the limits of readers, and the errors of `sink`.
Result<uint64_t> write(std::span<const Section> sections, const Sink& sink);

/// Writes a file atomically from its chunks. FE-K55.
Result<void> write_file(const std::string& path, std::span<const std::span<const std::byte>> chunks);

/// Writes the file atomically (to a temporary file that is then renamed). Returns the size of the file.
/// FE-K54 if a section exceeds the limits of readers, FE-K55 if writing fails.
Result<uint64_t> write(const std::string& path, std::span<const Section> sections);

/// How much of a file is verified against its hashes: everything when it is opened, or only the sections that
/// are read.
enum class Check : uint8_t { all, what_is_read };

/// A verified file: every byte belongs to the header, the table, a section with a correct hash, or padding.
/// Any-thread.
class Container {
 public:
  /// FE-K50 no package, FE-K51 truncated or altered, FE-K52 invalid sections.
  static Result<Container> open(std::shared_ptr<const graph::MappedFile> file, Check check = Check::all);

  /// The contents, decompressed. FE-K52 if there is no such section, or its size after decompression is not
  /// the declared one.
  Result<std::vector<std::byte>> read(Kind kind, uint32_t target) const;
  /// The contents within the mapped file; FE-K52 if there is no such section or it is compressed.
  Result<std::span<const std::byte>> in_place(Kind kind, uint32_t target) const;
  bool has(Kind kind, uint32_t target) const;
  /// The size of the contents that read() returns. FE-K52 if there is no such section.
  Result<uint64_t> size(Kind kind, uint32_t target) const;
  const std::shared_ptr<const graph::MappedFile>& file() const { return file_; }

 private:
  struct Entry {
    Kind kind = Kind::description;
    uint32_t target = 0;
    Codec codec = Codec::stored;
    std::span<const std::byte> bytes;
    uint64_t raw_bytes = 0;  ///< of the decompressed contents
    std::array<char, 64> digest{};
  };
  Result<const Entry*> find(Kind kind, uint32_t target) const;
  /// The section as stored, verified against its hash unless that was done at opening.
  Result<const Entry*> checked(Kind kind, uint32_t target) const;

  std::shared_ptr<const graph::MappedFile> file_;
  std::vector<Entry> entries_;
  Check check_ = Check::all;
};

}  // namespace ferrite::core::package
