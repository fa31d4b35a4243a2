// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The choices that one compilation does not try again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <tuple>

#include "core/support/ledger.h"
#include "runtime/device.h"

namespace ferrite::core::select {

struct CandidateBlocklist {
  /// Failed compilations, with the reason, by group, device and library provider; null means the device's
  /// code generator.
  std::map<std::tuple<size_t, uint32_t, const runtime::Compiler*>, std::string> groups;
  /// Providers that failed and whose plugin has on_error = "skip", with their errors. They are not called
  /// again.
  std::map<const runtime::Compiler*, std::string> dropped;

  /// Candidates of code generators whose workspace takes too much memory, by the entry of the kernel for
  /// which they were proposed. Other candidates are preferred, where there are any.
  std::set<std::tuple<const runtime::Compiler*, std::string, uint64_t>> candidates;

  size_t count() const { return groups.size() + dropped.size() + candidates.size(); }
  bool has_dropped(const runtime::Compiler& compiler) const { return dropped.contains(&compiler); }
  /// Whether a provider's failure can be tolerated. If so, the provider is dropped, with a record in the
  /// ledger and a line in the log.
  bool forgive(const runtime::Compiler& compiler, const Error& failed, Ledger& ledger);
};

}  // namespace ferrite::core::select
