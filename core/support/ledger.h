// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The decision ledger: each decision of a compilation and its reason. `explain`, metrics and reports read it.
#pragma once

#include <mutex>
#include <span>
#include <string>
#include <vector>

namespace ferrite::core {

/// One decision. `kind` is one of: rule, pass, plugin, inline, fusion, parts, placement, candidate, kernel,
/// packing, lowering,
/// claim, select, layout, partition, record.
/// For inline, fusion and kernel, `subject` names model nodes ("Conv_3, Relu_4"); for inline and fusion
/// `object` does, too.
struct LedgerRecord {
  std::string kind;
  std::string subject;   ///< the thing decided about: a rule, a pass, a pair's first node
  std::string object;    ///< the pair's second node, the plugin, the device
  std::string outcome;   ///< "applied", "fused", "refused", "chosen", ...
  std::string category;  ///< the category of a refusal; otherwise empty
  std::string text;      ///< an explanation for people
  double score = 0;      ///< bytes saved, seconds or matches, depending on `kind`
};

/// The list of decisions. Any-thread.
class Ledger {
 public:
  void add(LedgerRecord record) {
    std::lock_guard lock(mutex_);
    records_.push_back(std::move(record));
  }
  /// A copy of the records, in the order of the decisions.
  std::vector<LedgerRecord> records() const {
    std::lock_guard lock(mutex_);
    return records_;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<LedgerRecord> records_;
};

/// A JSON list of records with their fields' names as keys.
std::string ledger_json(std::span<const LedgerRecord> records);

}  // namespace ferrite::core
