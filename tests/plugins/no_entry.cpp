// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A library that is no plugin.
namespace {
[[maybe_unused]] int nothing() { return 0; }
}  // namespace
