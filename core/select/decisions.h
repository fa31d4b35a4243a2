// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The candidates that kernels get where decisions override costs, and the choices that a compilation made.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "core/support/error.h"
#include "runtime/device.h"

namespace ferrite::core::select {

/// A decision about a kernel.
struct Decision {
  std::string provider{};   ///< its id; empty: code generators get the whole kernel, no library
  std::string candidate{};  ///< the provider's name of it
  uint64_t covered = 0;     ///< of a library: the number of leading statements that it runs
  double cost = 0;     ///< seconds, as the provider or a cost model estimates; for a part, including the rest
  double seconds = 0;  ///< measured; 0: it was not
  std::string usual{};       ///< the candidate that costs alone would select; empty: unknown
  double usual_seconds = 0;  ///< measured; 0: it was not
  std::string by{};          ///< "cost", "measured", "stored" or "locked"
};

/// The subject of a decision. Where a device has libraries, a decision of kind `library` concerns a kernel in
/// its form with unmerged maps, of which a library may run all or a part. The kernels that no library runs
/// are the subject of decisions of kind `kernel`, for code generators.
enum class DecisionKind : uint8_t { kernel, library };

/// A choice that a compilation made.
struct Taken {
  DecisionKind kind = DecisionKind::kernel;
  std::string device{};      ///< its kind
  std::string entry{};       ///< of the kernel, before its constants are packed
  std::string provenance{};  ///< model nodes
  size_t candidates = 0;     ///< number of candidates
  Decision decision{};
};

/// The subject of a decision: its kind, the kind of device, and the kernel's entry.
using DecisionKey = std::tuple<DecisionKind, std::string, std::string>;

/// Decisions of earlier compilations, by a hash of everything on which each depends; with an empty hash
/// nothing is found or kept. Safe for any number of threads. Faults are warnings: a compilation goes on
/// without them.
class DecisionStore {
 public:
  virtual ~DecisionStore() = default;
  virtual std::optional<Decision> find(const std::string& key) const = 0;
  virtual void keep(const std::string& key, const Decision& decision) const = 0;
};

/// A decisions lock: a kernel without an entry in it is an error.
struct DecisionLock {
  std::string path{};
  std::map<DecisionKey, Decision> decisions{};
  std::map<DecisionKey, std::string> places{};               ///< the position of each entry in the file
  std::map<std::string, runtime::SourcedNumbers> numbers{};  ///< those that it sets, by kind of device
};

/// The advice that ends each error about a lock.
inline constexpr std::string_view lock_cure =
    "write the lock anew with --lock-decisions, or compile without --decisions";

/// The decisions of one compilation: those known before it, and those that it makes. Not thread-safe.
class Decisions {
 public:
  /// By kind of device, a hash of everything on which a decision depends besides the kernel; nothing is
  /// stored for a device without a hash.
  using Contexts = std::map<std::string, std::string>;

  /// Without decisions: costs decide.
  Decisions() = default;
  Decisions(std::unique_ptr<const DecisionStore> store, Contexts contexts)
      : store_(std::move(store)), contexts_(std::move(contexts)) {}
  /// A lock decides everything: neither a store nor a measurement changes a replay.
  explicit Decisions(DecisionLock lock);

  /// The decision about a kernel, by its entry; none where costs decide.
  std::optional<Decision> find(DecisionKind kind, const std::string& device, const std::string& entry);
  /// Whether a lock is replayed: a kernel without an entry in it is an error.
  bool is_locked() const { return !lock_path_.empty(); }
  const std::string& lock_path() const { return lock_path_; }
  /// tune::Options::libraries_first.
  bool libraries_first() const { return libraries_first_; }
  void set_libraries_first(bool first) { libraries_first_ = first; }
  /// Sets a decision. `keep`: stores it for other compilations too.
  void set(DecisionKind kind, const std::string& device, const std::string& entry, Decision decision,
           bool keep);

  /// Starts a new round: forgets the choices made so far.
  void begin() { taken_.clear(); }
  void took(Taken taken) { taken_.push_back(std::move(taken)); }
  std::span<const Taken> taken() const { return taken_; }
  /// FE-T43 where the lock has a kernel that the program does not have.
  Result<void> check() const;
  /// Sets the devices' numbers to those of the lock, by kind; numbers that are not in the lock stay.
  void lock_numbers(const runtime::Devices& devices) const;

 private:
  std::string store_key(const DecisionKey& key) const;

  std::unique_ptr<const DecisionStore> store_;  ///< null: nothing is stored
  Contexts contexts_;
  std::map<DecisionKey, std::optional<Decision>> known_;    ///< none: the store has no entry
  std::map<DecisionKey, std::string> locked_;               ///< DecisionLock::places
  std::map<std::string, runtime::SourcedNumbers> numbers_;  ///< of the lock, by kind of device
  std::string lock_path_;
  bool libraries_first_ = false;
  std::vector<Taken> taken_;
};

/// By kind of device, a hash of everything on which decisions about its kernels depend besides the kernels:
/// the device description, each provider with its settings and its library's contents, and the number of
/// workers. Empty for a device with a provider that has no fingerprint.
std::map<std::string, std::string> decision_contexts(const runtime::Devices& devices, int64_t threads);

/// FE-T42: a decision names a provider or a candidate that does not exist.
Error no_candidate(const Decisions& decisions, const Decision& decision, std::string_view entry,
                   std::string_view why);
/// FE-T43: the lock has no entry for a kernel.
Error not_locked(const Decisions& decisions, std::string_view entry);

/// "k_…: 12.3 us measured, 10.1 us by cost; costs pick 'llvm', 14.0 us measured", as far as known.
std::string figures_text(std::string_view entry, const Decision& decision);

}  // namespace ferrite::core::select
