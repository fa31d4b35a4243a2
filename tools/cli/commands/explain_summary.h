// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The first page of ferrite explain: the program, its compilation, its largest kernels, and counts of
// its decisions.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "core/compile.h"
#include "core/observe/observation.h"
#include "core/support/ledger.h"

namespace ferrite::cli {

/// A section of the ledger: the records of one kind.
struct Section {
  std::string_view kind, about;
};
/// In the order in which a compilation makes the decisions.
inline constexpr std::array sections = {
    Section{"feature", "features of the scheduler that are off"},
    Section{"plugin", "plugins that decided, or failed"},
    Section{"provider", "providers that were dropped"},
    Section{"pass", "passes"},
    Section{"rule", "rules that were applied or refused"},
    Section{"lowering", "decompositions, and lowerings that declined"},
    Section{"claim", "regions that providers claim"},
    Section{"inline", "statements inlined into their readers"},
    Section{"layout", "orders of dims, and padded rows"},
    Section{"fusion", "pairs of statements, fused or refused"},
    Section{"parts", "loops divided into parts"},
    Section{"memory", "results stored in place, and copies"},
    Section{"select", "libraries or the code generator"},
    Section{"candidate", "variants of the code of a kernel"},
    Section{"placement", "devices of kernels"},
    Section{"transfer", "copies between memories"},
    Section{"kernel", "kernels compiled or reused"},
    Section{"packing", "kernels that pack constants"},
    Section{"record", "recording of launches"},
};

/// Counts of a section's records: "fusion: 51 fused; 2 refused, broadcast".
std::string counts_text(const std::vector<core::LedgerRecord>& records, std::string_view kind);

/// The summary, at most 40 lines of at most 110 columns.
struct Summary {
  std::string_view model;
  const core::Compilation& compilation;
  const core::observe::Observation& seen;
  const std::vector<core::LedgerRecord>& records;

  std::string text() const;
};

}  // namespace ferrite::cli
