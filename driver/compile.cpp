// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "driver/compile.h"

#include "driver/cache/kernel_folder.h"
#include "driver/tune/decisions_lock.h"
#include "driver/tune/tune.h"

namespace ferrite::core {

Result<Compilation> compile(Source source, const plugin::Registry& registry, const CompileOptions& options,
                            Ledger& ledger) {
  const Services services{
      [](const std::string& folder) { return std::make_unique<cache::KernelFolder>(folder); },
      {tune::measure, tune::open_decisions, tune::write_lock}};
  return compile(std::move(source), registry, options, services, ledger);
}

}  // namespace ferrite::core
