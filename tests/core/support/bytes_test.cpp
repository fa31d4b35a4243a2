// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Bytes as fields, whole, cut short and hostile; digests and hashes against published values.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <limits>

#include "core/support/byte_fields.h"
#include "core/support/digest.h"
#include "core/support/hash.h"

namespace ferrite::core {
namespace {

enum class Colour : uint8_t { red, green = 7 };

const std::string with_nul("a\0b", 3);
const Bytes two_bytes = {std::byte{0xff}, std::byte{0}};

Bytes message() {
  Encoder encoder;
  encoder.put(std::numeric_limits<int64_t>::min());
  encoder.put(-0.5);
  encoder.put(Colour::green);
  encoder.put(std::string_view(with_nul));
  encoder.put("");
  encoder.put(std::span<const std::byte>(two_bytes));
  encoder.put(std::vector<int32_t>{1, -2, 3});
  encoder.put(std::vector<std::string>{"", "last"});
  return encoder.take();
}

TEST(ByteFields, AreReadAsTheyWereWritten) {
  const Bytes bytes = message();
  Decoder decoder(bytes);
  EXPECT_EQ(decoder.get<int64_t>(), std::numeric_limits<int64_t>::min());
  EXPECT_EQ(decoder.get<double>(), -0.5);
  EXPECT_EQ(decoder.get<Colour>(), Colour::green);
  EXPECT_EQ(decoder.text(), with_nul);
  EXPECT_EQ(decoder.text(), "");
  const auto raw = decoder.bytes();
  EXPECT_EQ(Bytes(raw.begin(), raw.end()), two_bytes);
  EXPECT_EQ(decoder.list<int32_t>(), (std::vector<int32_t>{1, -2, 3}));
  EXPECT_TRUE(decoder.more());
  EXPECT_FALSE(decoder.done()) << "a list is left";
  EXPECT_EQ(decoder.texts(), (std::vector<std::string>{"", "last"}));
  EXPECT_TRUE(decoder.done());
  EXPECT_FALSE(decoder.more());
}

TEST(ByteFields, CutShortAnywhereAreRefused) {
  const Bytes whole = message();
  for (size_t size = 0; size < whole.size(); ++size) {
    Decoder decoder(std::span<const std::byte>(whole).first(size));
    decoder.get<int64_t>();
    decoder.get<double>();
    decoder.get<Colour>();
    decoder.text();
    decoder.text();
    decoder.bytes();
    decoder.list<int32_t>();
    decoder.texts();
    EXPECT_FALSE(decoder.ok()) << size;
    EXPECT_FALSE(decoder.done()) << size;
  }
}

TEST(ByteFields, AfterAMissingOneAreEmpty) {
  Encoder encoder;
  encoder.put(uint64_t{9});  // announces more bytes than follow
  encoder.put(uint64_t{1});
  Decoder decoder(encoder.bytes());
  EXPECT_TRUE(decoder.text().empty());
  EXPECT_FALSE(decoder.ok());
  EXPECT_EQ(decoder.get<uint64_t>(), 0u) << "the bytes behind a missing field are none";
  EXPECT_TRUE(decoder.list<char>().empty());
  Decoder refused(encoder.bytes());
  refused.refuse();
  EXPECT_EQ(refused.get<uint64_t>(), 0u);
  EXPECT_FALSE(refused.more());
}

TEST(ByteFields, SizesThatOverflowAreRefused) {
  const auto with_size = [](uint64_t size) {
    Encoder encoder;
    encoder.put(size);
    encoder.put(uint32_t{5});
    return encoder.take();
  };
  // (2^62 + 1) * 4 bytes are 4 in 64 bits, which are there.
  const Bytes wrapped = with_size((uint64_t{1} << 62) + 1), most = with_size(UINT64_MAX);
  Decoder list(wrapped);
  EXPECT_TRUE(list.list<uint32_t>().empty());
  EXPECT_FALSE(list.ok());
  Decoder bytes(most);
  EXPECT_TRUE(bytes.bytes().empty());
  EXPECT_FALSE(bytes.ok());
  const Bytes five = with_size(5), four = with_size(4);
  Decoder too_many(five), fit(four);
  EXPECT_EQ(too_many.count(), 0u) << "each item has at least one byte, and four are left";
  EXPECT_FALSE(too_many.ok());
  EXPECT_EQ(fit.count(), 4u);
  EXPECT_TRUE(fit.ok());
}

// FIPS 180-4 and the examples that NIST publishes for it.
TEST(Sha256, GivesThePublishedDigests) {
  EXPECT_EQ(sha256(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  Digest::prepare();
  Digest pieces;
  const std::string thousand(1000, 'a');
  for (int k = 0; k < 1000; ++k) pieces.add(std::as_bytes(std::span(thousand)));
  EXPECT_EQ(pieces.hex(), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Hashes, OfPartsTellWhereAPartEnds) {
  EXPECT_NE(sha256({"ab", "c"}), sha256({"a", "bc"}));
  EXPECT_NE(sha256({"a", "b"}), sha256({"a1:b"}));
  EXPECT_NE(sha256({"a", ""}), sha256({"a"}));
  EXPECT_EQ(sha256({"ab", "c"}), sha256({"ab", "c"}));
  EXPECT_NE(hash128({"ab", "c"}), hash128({"a", "bc"}));
  EXPECT_NE(hash128({"a", "b"}), hash128({"a;1:b"}));
  EXPECT_NE(hash128({"a", ""}), hash128({"a"}));
}

// The values that xxhsum prints for these inputs.
TEST(Hashes, AreXxh3) {
  EXPECT_EQ(hash128(""), "99aa06d3014798d86001c324468d497f");
  EXPECT_EQ(hash128("a"), "a96faf705af16834e6c632b61e964e1f");
  EXPECT_EQ(hash128("abc"), "06b05ab6733a618578af5f94892f3950");
  const std::string_view text = "abc";
  EXPECT_EQ(hash128(std::as_bytes(std::span(text))), hash128("abc"));
}

TEST(Hashes, OfFilesAreThoseOfTheirContents) {
  const auto path =
      std::filesystem::temp_directory_path() / ("ferrite-hash-test-" + std::to_string(getpid()));
  std::ofstream(path) << "abc";
  EXPECT_EQ(file_hash128(path.string()), hash128("abc"));
  std::ofstream(path, std::ios::trunc).close();
  EXPECT_EQ(file_hash128(path.string()), hash128("")) << "an empty file can be read";
  std::filesystem::remove(path);
  EXPECT_EQ(file_hash128(path.string()), "");
  EXPECT_EQ(file_hash128(path.parent_path().string()), "") << "a folder can be opened, and not read";
}

}  // namespace
}  // namespace ferrite::core
