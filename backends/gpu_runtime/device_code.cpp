// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The binary form: Head, an fe_argument_needs for each argument, the format's name, the entry's name, the
// code.
#include "ferrite/gpu_runtime/device_code.h"

#include <cstring>

#include "ferrite/error.hpp"

namespace ferrite::emitter {

namespace {

constexpr uint64_t magic = 0x3144'4952'4745'46;  // "FEGRID1"
constexpr uint64_t most_threads = 1024, most_shared = 1 << 24;

struct Head {
  uint64_t magic, blocks, threads, shared_bytes, overlaps, arguments, format_bytes, entry_bytes, code_bytes;
};

}  // namespace

std::string write_device_code(const DeviceCode& code) {
  const Head head{magic,
                  static_cast<uint64_t>(code.blocks),
                  code.threads,
                  code.shared_bytes,
                  code.overlaps,
                  code.arguments.size(),
                  code.format.size(),
                  code.entry.size(),
                  code.code.size()};
  std::string bytes(reinterpret_cast<const char*>(&head), sizeof head);
  bytes.append(reinterpret_cast<const char*>(code.arguments.data()),
               code.arguments.size() * sizeof(fe_argument_needs));
  return bytes + code.format + code.entry + code.code;
}

DeviceCode read_device_code(Bytes bytes, std::string_view format, std::string_view error_code) {
  const auto refuse = [&] {
    fail(error_code, "the code is none of this plugin, or of another version; compile it again");
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
      head.shared_bytes > most_shared || head.overlaps > 1 ||
      head.arguments > bytes.size() / sizeof(fe_argument_needs))
    refuse();
  DeviceCode result;
  result.blocks = static_cast<int64_t>(head.blocks);
  result.threads = static_cast<unsigned>(head.threads);
  result.shared_bytes = static_cast<unsigned>(head.shared_bytes);
  result.overlaps = head.overlaps != 0;
  const auto arguments = take(head.arguments * sizeof(fe_argument_needs));
  result.arguments.resize(head.arguments);
  if (!arguments.empty()) std::memcpy(result.arguments.data(), arguments.data(), arguments.size());
  const auto text = [&](uint64_t count) {
    const auto taken = take(count);
    return std::string(reinterpret_cast<const char*>(taken.data()), taken.size());
  };
  result.format = text(head.format_bytes);
  result.entry = text(head.entry_bytes);
  result.code = text(head.code_bytes);
  if (!rest.empty() || result.format != format) refuse();
  return result;
}

}  // namespace ferrite::emitter
