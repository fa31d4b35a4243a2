// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Messages between the host process and the child in which a plugin runs.
#pragma once

#include <cstdint>

#include "core/ir/graph/types.h"
#include "core/support/byte_fields.h"
#include "core/support/error.h"

namespace ferrite::core::isolate {

using core::Bytes;
using core::Decoder;
using core::Encoder;

/// The kind of a request: its first field.
enum class Request : uint32_t {
  hello,  ///< comes first: names the plugin; the answer is its description
  load,   ///< a plugin whose ops the graphs use
  pass,
  predicate,
  open_target,
  close_target,
  propose,
  compile,
  fingerprint,
  claim,
  goodbye,  ///< destroy everything and end
};

/// The descriptors that are open in a child: the socket, and the shared memory of requests and of replies.
enum class Descriptor : int { control = 3, request = 4, reply = 5 };

/// Sent over the socket, once for each request and each reply; the payload is in the shared memory.
struct ControlMessage {
  static constexpr uint32_t right_magic = 0x69656546;
  uint32_t magic = right_magic;
  uint32_t sequence = 0;  ///< of the request; its reply repeats it
  uint64_t bytes = 0;     ///< of the payload
};

void put(Encoder& to, const graph::Attribute& attribute);
/// The dims must be static.
void put(Encoder& to, const graph::TensorType& type);
/// Empty, with `from` not ok(), where the bytes are invalid.
graph::Attribute get_attribute(Decoder& from);
graph::TensorType get_type(Decoder& from);

/// A status and, unless it is FE_OK, code and text: the beginning of each reply.
void put_status(Encoder& to, int32_t status, const Error& error);
Result<void> get_status(Decoder& from);

}  // namespace ferrite::core::isolate
