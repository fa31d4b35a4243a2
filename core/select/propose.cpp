// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/select/propose.h"

#include <algorithm>
#include <cmath>

#include "core/ir/kernel/flatten.h"
#include "core/ir/kernel/legalise.h"
#include "core/support/abi/abi.h"
#include "runtime/plugin/serialised_calls.h"

namespace ferrite::core::select {

Result<std::vector<Proposal>> propose(const Compiler& compiler, std::span<const std::byte> kernel,
                                      size_t statements, std::string& declined) {
  struct Taken {
    size_t statements;
    std::vector<Proposal> proposals;
    std::optional<Error> fault;
  } taken{statements, {}, {}};
  abi::Call call;
  auto args = abi::sized<fe_propose_args>();
  args.target = compiler.target.target;
  args.kernel = {kernel.data(), kernel.size(), 1};
  auto out = abi::sized<fe_propose_out>();
  out.host = &taken;
  // The plugin calls this: a fault is kept, and reported after the call.
  out.add = [](void* host, const fe_candidate* given) -> int32_t {
    auto& to = *static_cast<Taken*>(host);
    if (!given) return FE_EINVALID;
    const auto candidate = abi::read(given);
    const std::string name(abi::view(candidate.name));
    // A plugin is not trusted: a NaN would make the order of costs undefined, and a layout is memory to read.
    if (!std::isfinite(candidate.cost) || candidate.cost < 0 || candidate.workspace_bytes < 0 ||
        (candidate.covered != FE_NONE32 && candidate.covered > to.statements) ||
        !abi::readable<fe_operand_layout>(candidate.operand_layouts, sizeof(uint64_t))) {
      to.fault =
          error(FE_EINTERNAL, "FE-S22",
                "candidate '{}' costs {} s, wants {} bytes of workspace and covers {} of {} statements", name,
                candidate.cost, candidate.workspace_bytes, candidate.covered, to.statements);
      return FE_EINVALID;
    }
    Proposal proposal{candidate.id, name, candidate.cost, candidate.workspace_bytes, {}, {}};
    // 0 and FE_NONE32 both mean all statements.
    proposal.covered =
        std::min<size_t>(candidate.covered == 0 ? FE_NONE32 : candidate.covered, to.statements);
    for (size_t k = 0; k < candidate.operand_layouts.count; ++k)
      proposal.layouts.push_back(copy_layout(abi::element<fe_operand_layout>(candidate.operand_layouts, k)));
    to.proposals.push_back(std::move(proposal));
    return FE_OK;
  };
  const int32_t status = plugin::invoke(*compiler.table, compiler.slots.propose, call, &args, &out);
  if (taken.fault) return at(compiler.id, std::move(*taken.fault));
  // Declining is an answer and no error: other providers may take the kernel.
  if (status == FE_EUNSUPPORTED || (status == FE_OK && taken.proposals.empty())) {
    declined = call.error(status, "FE-K20", "nothing is proposed").text;
    return std::vector<Proposal>();
  }
  if (status != FE_OK) return call.error(status, "FE-K20", "the provider proposes nothing for this kernel");
  // Stable: of equal costs the provider's first proposal wins, on every machine.
  std::ranges::stable_sort(taken.proposals, {}, &Proposal::cost);
  return std::move(taken.proposals);
}

Result<std::vector<Proposal>> propose_whole(const Compiler& compiler, const loop::Kernel& kernel,
                                            std::string& declined) {
  auto legal = kernel;
  if (auto done = kernel::legalise(legal, compiler.target.statement_kinds, compiler.slots.features); !done) {
    declined = done.error().text;
    return std::vector<Proposal>();
  }
  FE_TRY(const auto flat, kernel::flatten(legal));
  FE_TRY(auto proposals, propose(compiler, flat.bytes, legal.statements.size(), declined));
  // Code generators take whole kernels; a part would leave statements without code.
  std::erase_if(proposals, [&](const Proposal& each) { return each.covered < legal.statements.size(); });
  return proposals;
}

}  // namespace ferrite::core::select
