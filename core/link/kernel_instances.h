// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The kernels of a program, each once, and the candidates chosen for them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "core/link/builder.h"
#include "core/select/decisions.h"
#include "core/select/propose.h"

namespace ferrite::core::link {

using namespace ferrite::core::runtime;

/// One kernel on its way from the group to code; equal groups share one.
struct KernelInstance {
  schedule::GroupKernel group;   ///< of the first group that has this kernel
  std::vector<std::byte> bytes;  ///< flat form, with operand layouts applied
  std::string entry;
  std::string asked;  ///< its entry when candidates were requested
  std::string provenance;
  uint32_t device = 0;
  const Compiler* compiler = nullptr;  ///< its compiler; null: a code generator, until one is chosen
  uint64_t candidate = 0;
  std::string candidate_name;
  double cost = 0;  ///< seconds, as the candidate's provider estimates
};

/// An argument of an instance, and the instance that packs it into the requested layout: at load if the
/// argument is constant, else before each launch.
struct Pack {
  uint32_t argument;
  size_t instance;
  bool constant;
};

class KernelInstances {
 public:
  /// Keeps references to all arguments.
  KernelInstances(const Devices& devices, const BuildOptions& options, select::CandidateBlocklist& blocklist,
                  Ledger& ledger)
      : devices_(devices), options_(options), blocklist_(blocklist), ledger_(ledger) {}

  size_t size() const { return instances_.size(); }
  const KernelInstance& operator[](size_t instance) const { return instances_[instance]; }
  auto begin() const { return instances_.begin(); }
  auto end() const { return instances_.end(); }
  /// The packed arguments of an instance; after choose().
  const std::vector<Pack>& packs(size_t instance) const;

  /// The instance of a kernel, for the device's code generators or for a candidate of one compiler. `group`
  /// is put into canonical order.
  Result<size_t> add(schedule::GroupKernel& group, const std::string& provenance, uint32_t device,
                     const Compiler* chosen = nullptr, const std::string& candidate = {});

  /// Called with an instance for which there are no proposals, and the reason. If it returns an error,
  /// choose() ends with it.
  using Declined = std::function<Result<void>(size_t instance, Error)>;
  /// Asks the providers for candidates and chooses the decided one, else the cheapest. The layouts that it
  /// requests become packing kernels. These are instances after the others and have no constants themselves.
  /// Returns the new number of each instance, because instances that differed only in statements that their
  /// provider does not support are merged. FE-T42, FE-T43 where a decisions lock does not fit.
  Result<std::vector<size_t>> choose(const Declined& declined);

 private:
  struct Offer;

  Result<size_t> instance_of(schedule::GroupKernel group, std::string provenance, uint32_t device,
                             const Compiler* compiler, const std::string& candidate = {});
  Result<Offer> best_offer(const KernelInstance& instance, bool is_packing);
  void record_choice(const KernelInstance& instance, const std::string& entry, const Offer& offer,
                     bool generated);
  std::vector<size_t> merge_equal();
  Result<void> apply_layout(size_t u, const select::OperandLayout& layout);

  const Devices& devices_;
  const BuildOptions& options_;
  select::CandidateBlocklist& blocklist_;
  Ledger& ledger_;
  std::vector<KernelInstance> instances_;
  std::map<std::tuple<uint32_t, const Compiler*, std::string, std::string>, size_t> numbers_;
  std::map<size_t, std::vector<Pack>> packs_;
};

}  // namespace ferrite::core::link
