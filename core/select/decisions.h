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

#include "core/select/tuning_options.h"
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

/// A folder with one file for each decision. The file's name is a hash of everything on which the decision
/// depends. An entry is checked against its own hash. A damaged one is renamed, with a warning (FE-T40), and
/// its kernel is decided again. A folder that other users can write to is not used. Safe for any number of
/// processes.
class DecisionStore {
 public:
  /// An empty folder name: nothing is stored. FE-T41, a warning, where the folder is not safe.
  explicit DecisionStore(std::string folder);
  bool is_open() const { return !folder_.empty(); }
  std::optional<Decision> find(const std::string& key) const;
  /// FE-T41, a warning, where the entry cannot be written.
  void keep(const std::string& key, const Decision& decision) const;

 private:
  std::string folder_;
};

inline constexpr std::string_view decision_suffix = ".decision";

/// The decisions of one compilation: those known before it, and those that it makes. Not thread-safe.
class Decisions {
 public:
  /// Without decisions: costs decide.
  Decisions() : store_(std::make_unique<DecisionStore>("")) {}
  using Contexts = std::map<std::string, std::string>;
  /// `contexts` is called only where there is a store. It returns, by kind of device, a hash of everything on
  /// which a decision depends besides the kernel; nothing is stored for a device without a hash. Errors are
  /// those of reading a lock: FE-M01 to FE-M04, FE-M08, FE-M14.
  static Result<Decisions> open(const tune::Options& options, const std::function<Contexts()>& contexts);

  /// The decision about a kernel, by its entry; none where costs decide.
  std::optional<Decision> find(DecisionKind kind, const std::string& device, const std::string& entry);
  /// Whether a lock is replayed: a kernel without an entry in it is an error.
  bool is_locked() const { return !lock_path_.empty(); }
  const std::string& lock_path() const { return lock_path_; }
  /// tune::Options::libraries_first.
  bool libraries_first() const { return libraries_first_; }
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
  /// FE-C10 where the file cannot be written.
  Result<void> write_lock(const std::string& path, const runtime::Devices& devices) const;

 private:
  using Key = std::tuple<DecisionKind, std::string, std::string>;
  Result<void> read_lock(const std::string& path);
  std::string store_key(const Key& key) const;

  std::unique_ptr<DecisionStore> store_;
  Contexts contexts_;
  std::map<Key, std::optional<Decision>> known_;            ///< none: the store has no entry
  std::map<Key, std::string> locked_;                       ///< the position of each entry in the lock
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

/// The text of a decisions lock: the target numbers by which groups were formed, one table for each kind of
/// device, and the choices in order. Equal decisions give equal texts.
std::string lock_text(std::span<const Taken> taken, const runtime::Devices& devices);

}  // namespace ferrite::core::select
