// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Messages between a process and the child that a plugin lives in.
#pragma once

#include <cstdint>

#include "core/ir/graph/types.h"
#include "core/support/byte_fields.h"
#include "core/support/error.h"

namespace ferrite::core::isolate {

using core::Bytes;
using core::Decoder;
using core::Encoder;

/// What a request asks for. The first field of each.
enum class Request : uint32_t {
  hello,  ///< first: which plugin; answered with its description
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

/// The descriptors that a child finds open: the socket, and the shared memory of requests and of replies.
enum class Descriptor : int { control = 3, request = 4, reply = 5 };

/// Goes over the socket, once for each request and each reply; the payload is in the shared memory.
struct ControlMessage {
  static constexpr uint32_t right_magic = 0x69656546;
  uint32_t magic = right_magic;
  uint32_t sequence = 0;  ///< of the request, given back by its reply
  uint64_t bytes = 0;     ///< of the payload
};

void put(Encoder& to, const graph::Attribute& attribute);
/// The dims are static.
void put(Encoder& to, const graph::TensorType& type);
/// Empty, and `from` not ok(), where the bytes are none.
graph::Attribute get_attribute(Decoder& from);
graph::TensorType get_type(Decoder& from);

/// A status and, unless it is FE_OK, code and text: how each reply begins.
void put_status(Encoder& to, int32_t status, const Error& error);
Result<void> get_status(Decoder& from);

}  // namespace ferrite::core::isolate
