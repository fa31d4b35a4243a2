// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Whether this build uses a sanitizer.
#pragma once

namespace ferrite::core {

/// True for the address and thread sanitizers: they reserve more address space than any limit on the process
/// allows.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool sanitized = true;
#elif defined(__has_feature)
inline constexpr bool sanitized = __has_feature(address_sanitizer) || __has_feature(thread_sanitizer);
#else
inline constexpr bool sanitized = false;
#endif

}  // namespace ferrite::core
