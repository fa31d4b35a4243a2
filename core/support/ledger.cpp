// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/support/ledger.h"

#include <nlohmann/json.hpp>

namespace ferrite::core {

std::string ledger_json(std::span<const LedgerRecord> records) {
  auto list = nlohmann::ordered_json::array();
  for (const auto& record : records)
    list.push_back({{"kind", record.kind},
                    {"subject", record.subject},
                    {"object", record.object},
                    {"outcome", record.outcome},
                    {"category", record.category},
                    {"text", record.text},
                    {"score", record.score}});
  // Names come from models and may be invalid UTF-8: replace bad bytes instead of throwing.
  return list.dump(1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace ferrite::core
