// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "runtime/package/container.h"

#include <zstd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "core/support/digest.h"
#include "core/support/files/replace_file.h"

namespace ferrite::core::package {
namespace {

static_assert(std::endian::native == std::endian::little, "numbers are written as they lie in memory");

using Bytes = std::span<const std::byte>;
// The line ends and the end-of-file character reveal damage by a transfer in text mode, as in PNG.
constexpr std::array<char, 8> magic = {'F', 'E', 'P', 'K', 'G', '\r', '\n', '\x1a'};
constexpr uint32_t format_version = 3;
/// Limit on the total size of compressed sections: more than any program needs, and small enough for any
/// machine.
constexpr uint64_t most_decompressed = uint64_t{512} << 20;
constexpr int level = 9;
constexpr size_t digits = 64;

struct Header {
  std::array<char, 8> magic{};
  uint32_t version = 0, sections = 0;
  uint64_t file_bytes = 0;
  std::array<char, digits> digest{};  ///< over the header before it, and the table
};
struct TableEntry {
  uint32_t kind = 0, codec = 0, target = 0, reserved = 0;
  uint64_t offset = 0, bytes = 0, raw_bytes = 0;
  std::array<char, digits> digest{};  ///< over the section's bytes in the file
};
static_assert(sizeof(Header) == 88 && sizeof(TableEntry) == 104);

uint64_t aligned(uint64_t offset) { return (offset + alignment - 1) / alignment * alignment; }

template <class T>
Bytes bytes_of(const T& value, size_t bytes = sizeof(T)) {
  return std::as_bytes(std::span(&value, 1)).first(bytes);
}

std::array<char, digits> digest_of(std::span<const Bytes> chunks) {
  Digest digest;
  for (const Bytes chunk : chunks) digest.add(chunk);
  std::array<char, digits> result{};
  digest.hex().copy(result.data(), digits);
  return result;
}

std::array<char, digits> digest_of(const Header& header, Bytes table) {
  return digest_of(std::array{bytes_of(header, offsetof(Header, digest)), table});
}

uint64_t size_of(std::span<const Bytes> chunks) {
  uint64_t bytes = 0;
  for (const Bytes chunk : chunks) bytes += chunk.size();
  return bytes;
}

std::vector<std::byte> compress(std::span<const Bytes> chunks) {
  std::vector<std::byte> contents;
  for (const Bytes chunk : chunks) contents.insert(contents.end(), chunk.begin(), chunk.end());
  std::vector<std::byte> result(ZSTD_compressBound(contents.size()));
  result.resize(ZSTD_compress(result.data(), result.size(), contents.data(), contents.size(), level));
  return result;
}

Error altered(std::string_view what) { return error(FE_EINVALID, "FE-K51", "{}; get the file again", what); }
Error impossible(std::string_view what) { return error(FE_EINVALID, "FE-K52", "{}", what); }

}  // namespace

Result<uint64_t> write(std::span<const Section> sections, const Sink& sink) {
  Header header;
  header.magic = magic;
  header.version = format_version;
  header.sections = static_cast<uint32_t>(sections.size());
  std::vector<TableEntry> table(sections.size());
  std::vector<std::vector<std::byte>> compressed(sections.size());
  static constexpr std::array<std::byte, alignment> zeros{};
  const uint64_t head = sizeof header + sections.size() * sizeof(TableEntry);
  std::vector<Bytes> file = {bytes_of(header), std::as_bytes(std::span(table))};
  uint64_t end = head, decompressed = 0;
  for (size_t k = 0; k < sections.size(); ++k) {
    const auto& section = sections[k];
    std::vector<Bytes> chunks = section.chunks;
    TableEntry& entry = table[k];
    entry.kind = static_cast<uint32_t>(section.kind);
    entry.codec = static_cast<uint32_t>(section.codec);
    entry.target = section.target;
    entry.raw_bytes = size_of(chunks);
    if (section.codec == Codec::zstd) {
      decompressed += entry.raw_bytes;
      if (decompressed > most_decompressed)
        return error(FE_EUNSUPPORTED, "FE-K54",
                     "it holds more than {} bytes beside its weights; compile parts of the model into "
                     "packages of their own",
                     most_decompressed);
      compressed[k] = compress(chunks);
      chunks = {compressed[k]};
    }
    entry.bytes = size_of(chunks);
    entry.offset = aligned(end);
    entry.digest = digest_of(chunks);
    file.push_back(Bytes(zeros).first(entry.offset - end));
    file.insert(file.end(), chunks.begin(), chunks.end());
    end = entry.offset + entry.bytes;
  }
  header.file_bytes = end;
  header.digest = digest_of(header, std::as_bytes(std::span(table)));
  FE_CHECK(sink(file));
  return end;
}

Result<uint64_t> write(const std::string& path, std::span<const Section> sections) {
  auto written = write(sections, [&](std::span<const Bytes> chunks) { return write_file(path, chunks); });
  if (!written) return at(path, std::move(written.error()));
  return written;
}

Result<void> write_file(const std::string& path, std::span<const Bytes> chunks) {
  if (auto fault = replace_file(path, chunks); !fault.empty())
    return error(FE_EINVALID, "FE-K55", "{}", fault);
  return {};
}

Result<Container> Container::open(std::shared_ptr<const graph::MappedFile> file, Check check) {
  Container result;
  result.check_ = check;
  result.file_ = std::move(file);
  const Bytes bytes = result.file_->bytes();
  Header header;
  if (bytes.size() < sizeof header)
    return error(FE_EINVALID, "FE-K50", "it is too short to be a package; make it with `ferrite compile`");
  std::memcpy(&header, bytes.data(), sizeof header);
  if (header.magic != magic)
    return error(FE_EINVALID, "FE-K50",
                 "it does not begin as a package does; make it with `ferrite compile`");
  if (header.version != format_version)
    return error(
        FE_EUNSUPPORTED, "FE-K50",
        "its format has version {}, this program reads version {}; make it again with `ferrite compile`",
        header.version, format_version);
  if (header.file_bytes != bytes.size())
    return error(FE_EINVALID, "FE-K51", "it says that it has {} bytes, and has {}; get the file again",
                 header.file_bytes, bytes.size());
  const uint64_t table_bytes = uint64_t{header.sections} * sizeof(TableEntry);
  // Check the count before hashing the table: the header is not verified yet.
  if (header.sections > most_sections || table_bytes > bytes.size() - sizeof header)
    return altered("its table of sections is no table");
  const Bytes table = bytes.subspan(sizeof header, table_bytes);
  if (digest_of(header, table) != header.digest) return altered("its header or table was changed");

  uint64_t end = sizeof header + table_bytes, decompressed = 0;
  for (uint32_t k = 0; k < header.sections; ++k) {
    TableEntry given;
    std::memcpy(&given, table.data() + k * sizeof given, sizeof given);
    if (given.kind == 0 || given.kind > kind_count || given.codec > static_cast<uint32_t>(Codec::zstd) ||
        given.reserved != 0)
      return impossible(fmt::format("section {} is of no kind that this version reads", k));
    // Sections must be consecutive: then none overlaps another and no bytes are hidden between them.
    if (given.offset != aligned(end) || given.offset > bytes.size() ||
        given.bytes > bytes.size() - given.offset)
      return impossible(fmt::format("section {} does not follow the one before it", k));
    Entry entry{static_cast<Kind>(given.kind),
                given.target,
                static_cast<Codec>(given.codec),
                bytes.subspan(given.offset, given.bytes),
                given.raw_bytes,
                given.digest};
    if (entry.codec == Codec::stored && entry.raw_bytes != given.bytes)
      return impossible(fmt::format("section {} is not compressed and has two sizes", k));
    if (entry.codec == Codec::zstd && entry.raw_bytes > most_decompressed - decompressed)
      return impossible(
          fmt::format("section {} and those before it would take more than {} bytes", k, most_decompressed));
    if (entry.codec == Codec::zstd) decompressed += entry.raw_bytes;
    for (const Entry& other : result.entries_)
      if (other.kind == entry.kind && other.target == entry.target)
        return impossible(fmt::format("section {} is there twice", k));
    if (std::ranges::any_of(bytes.subspan(end, given.offset - end),
                            [](std::byte b) { return b != std::byte{}; }))
      return altered("there are bytes between its sections");
    if (check == Check::all && digest_of(std::array{entry.bytes}) != given.digest)
      return altered(fmt::format("the contents of section {} were changed", k));
    end = given.offset + given.bytes;
    result.entries_.push_back(entry);
  }
  if (end != bytes.size()) return impossible("there are bytes after its last section");
  return result;
}

bool Container::has(Kind kind, uint32_t target) const {
  return std::ranges::any_of(
      entries_, [&](const Entry& entry) { return entry.kind == kind && entry.target == target; });
}

Result<const Container::Entry*> Container::find(Kind kind, uint32_t target) const {
  for (const Entry& entry : entries_)
    if (entry.kind == kind && entry.target == target) return &entry;
  return impossible(fmt::format("it has no section of kind {}", static_cast<uint32_t>(kind)));
}

Result<const Container::Entry*> Container::checked(Kind kind, uint32_t target) const {
  FE_TRY(const auto* entry, find(kind, target));
  if (check_ == Check::what_is_read && digest_of(std::array{entry->bytes}) != entry->digest)
    return altered(fmt::format("its section of kind {} was changed", static_cast<uint32_t>(kind)));
  return entry;
}

Result<uint64_t> Container::size(Kind kind, uint32_t target) const {
  FE_TRY(const auto* entry, find(kind, target));
  return entry->raw_bytes;
}

Result<Bytes> Container::in_place(Kind kind, uint32_t target) const {
  FE_TRY(const auto* entry, checked(kind, target));
  if (entry->codec != Codec::stored)
    return impossible(fmt::format("its section of kind {} is compressed", static_cast<uint32_t>(kind)));
  return entry->bytes;
}

Result<std::vector<std::byte>> Container::read(Kind kind, uint32_t target) const {
  FE_TRY(const auto* entry, checked(kind, target));
  if (entry->codec == Codec::stored) return std::vector(entry->bytes.begin(), entry->bytes.end());
  const auto fault = [&] {
    return impossible(fmt::format("its section of kind {} does not decompress to the {} bytes that it says",
                                  static_cast<uint32_t>(kind), entry->raw_bytes));
  };
  // Check the frame's declared size before allocating memory for it.
  if (ZSTD_getFrameContentSize(entry->bytes.data(), entry->bytes.size()) != entry->raw_bytes) return fault();
  std::vector<std::byte> contents(entry->raw_bytes);
  if (ZSTD_decompress(contents.data(), contents.size(), entry->bytes.data(), entry->bytes.size()) !=
      entry->raw_bytes)
    return fault();
  return contents;
}

}  // namespace ferrite::core::package
