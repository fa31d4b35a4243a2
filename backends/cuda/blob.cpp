// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The form: Head, an fe_argument_needs for each argument, the entry's name, the PTX.
#include "blob.h"

#include <cstring>

#include "ferrite/error.hpp"

namespace ferrite::cuda {

namespace {

constexpr uint64_t magic = 0x3055'4355'4546;  // "FECU0" and the layout's number
constexpr uint64_t most_threads = 1024, most_blocks = 0x7fff'ffff;

struct Head {
  uint64_t magic, blocks, threads, arguments, entry_bytes, ptx_bytes;
};

}  // namespace

std::string write_blob(const Blob& blob) {
  const Head head{magic,
                  static_cast<uint64_t>(blob.blocks),
                  blob.threads,
                  blob.arguments.size(),
                  blob.entry.size(),
                  blob.ptx.size()};
  std::string bytes(reinterpret_cast<const char*>(&head), sizeof head);
  bytes.append(reinterpret_cast<const char*>(blob.arguments.data()),
               blob.arguments.size() * sizeof(fe_argument_needs));
  return bytes + blob.entry + blob.ptx;
}

Blob read_blob(Bytes bytes) {
  const auto refuse = [] {
    fail("ferrite.cuda/link", "the code is none of this plugin, or of another version; compile it again");
  };
  Head head{};
  if (bytes.size() < sizeof head) refuse();
  std::memcpy(&head, bytes.data(), sizeof head);
  auto rest = bytes.subspan(sizeof head);
  const auto take = [&](uint64_t count) {
    if (count > rest.size()) refuse();
    const auto taken = rest.first(count);
    rest = rest.subspan(count);
    return taken;
  };
  if (head.magic != magic || head.blocks > most_blocks || head.threads == 0 || head.threads > most_threads ||
      head.arguments > bytes.size() / sizeof(fe_argument_needs))
    refuse();
  Blob blob;
  blob.blocks = static_cast<int64_t>(head.blocks);
  blob.threads = static_cast<unsigned>(head.threads);
  const auto arguments = take(head.arguments * sizeof(fe_argument_needs));
  blob.arguments.resize(head.arguments);
  if (!arguments.empty()) std::memcpy(blob.arguments.data(), arguments.data(), arguments.size());
  const auto text = [&](uint64_t count) {
    const auto taken = take(count);
    return std::string(reinterpret_cast<const char*>(taken.data()), taken.size());
  };
  blob.entry = text(head.entry_bytes);
  blob.ptx = text(head.ptx_bytes);
  if (!rest.empty()) refuse();
  return blob;
}

}  // namespace ferrite::cuda
