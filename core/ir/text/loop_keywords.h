// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The keywords of the text form of loops and kernels. The SDK's tables name primitives, element types,
// reductions and statement kinds.
#pragma once

#include <string_view>

namespace ferrite::core::loop::keyword {

inline constexpr std::string_view version = "0", ferrite = "ferrite", loops = "loops", kernel = "kernel",
                                  schedule = "schedule", listing = "listing", group = "group";
inline constexpr std::string_view shared = "shared", numerics = "numerics", buffer = "buffer",
                                  outputs = "outputs";
inline constexpr std::string_view roles[] = {"input", "output", "constant", "temporary"};  // by Role
inline constexpr std::string_view kinds[] = {"input", "output", "constant", "local"};      // by FE_BUFFER_*
inline constexpr std::string_view channels_last = "channels_last";  // an attribute of temporaries
inline constexpr std::string_view strides = "strides", offset = "offset", align = "align", packed = "packed";
inline constexpr std::string_view terms = "terms", term = "t";  // attributes of packed elements that are sums
inline constexpr std::string_view weight = "weight", bytes = "bytes", bits = "bits";
inline constexpr std::string_view variables[] = {"parallel", "reduce",
                                                 "serial"};  // by VarKind; the first one is implied
inline constexpr std::string_view from = "from", of = "of", call = "call", reads = "reads", writes = "writes";
inline constexpr std::string_view load = "load", constant = "constant", index = "index",
                                  indirect = "indirect";
inline constexpr std::string_view reduced = "reduced", carried = "carried", reduction = "reduction",
                                  carry = "carry", store = "store";
inline constexpr std::string_view where = "where", otherwise = "else", at = "at", init = "init",
                                  next = "next";
inline constexpr std::string_view indirect_modes[] = {"wrap", "clamp", "check",
                                                      "assume"};  // by FE_INDIRECT_*
inline constexpr std::string_view store_modes[] = {"set", "add", "mul", "max",
                                                   "min"};  // by FE_STORE_*; the first one is implied
inline constexpr std::string_view contracts[] = {"generic", "gemm", "conv"};  // by FE_CONTRACT_*

}  // namespace ferrite::core::loop::keyword
