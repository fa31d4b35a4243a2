// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Which candidate each kernel gets where costs do not decide, and which it got.
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

namespace ferrite::core::tune {

/// What was decided for a kernel.
struct Decision {
  std::string provider{};    ///< its id; empty: the code generators take the kernel whole, no library
  std::string candidate{};   ///< the provider's name of it
  uint64_t covered = 0;      ///< of a library: the leading statements that it takes
  double cost = 0;           ///< seconds, by the provider or a cost model; of a part with the rest
  double seconds = 0;        ///< measured; 0: it was not
  std::string usual{};       ///< the candidate that costs alone would have picked; empty: it is not known
  double usual_seconds = 0;  ///< measured; 0: it was not
  std::string by{};          ///< "cost", "measured", "stored" or "locked"
};

/// What a decision is about. Where a device has libraries, one of them may take a kernel, or a part of it, in the form in which
/// its maps are apart; what no library takes is a code generator's.
enum class Kind : uint8_t { kernel, library };

/// A decision that a compilation came to.
struct Taken {
  Kind kind = Kind::kernel;
  std::string device{};      ///< its kind
  std::string entry{};       ///< of the kernel, before its constants are laid out
  std::string provenance{};  ///< model nodes
  size_t candidates = 0;     ///< between which was decided
  Decision decision{};
};

/// One decision a file, named by what it depends on. An entry is checked against its own hash; one that is damaged is set aside
/// with a warning (FE-T40), and its kernel decided anew. A folder that others may write to is not used. Any number of processes.
class Store {
 public:
  /// An empty folder: nothing is kept. FE-T41, a warning, where the folder is not to be trusted.
  explicit Store(std::string folder);
  bool is_open() const { return !folder_.empty(); }
  std::optional<Decision> find(const std::string& key) const;
  /// FE-T41, a warning, where it cannot be written.
  void keep(const std::string& key, const Decision& decision) const;

 private:
  std::string folder_;
};

inline constexpr std::string_view decision_suffix = ".decision";

/// The decisions of one compilation: those that hold before it, and those that it comes to. One thread.
class Decisions {
 public:
  /// Nothing is decided: costs decide.
  Decisions() : store_(std::make_unique<Store>("")) {}
  using Contexts = std::map<std::string, std::string>;
  /// `contexts` is called where there is a store to look into: by kind of device, a hash of all that a decision depends on beside
  /// the kernel; of a device without one nothing is kept. The errors of reading a lock: FE-M01 to FE-M04, FE-M08, FE-M14.
  static Result<Decisions> open(const Options& options, const std::function<Contexts()>& contexts);

  /// What holds for a kernel, by its entry; none where costs decide.
  std::optional<Decision> find(Kind kind, const std::string& device, const std::string& entry);
  /// A lock is replayed: all that it does not say is an error.
  bool is_locked() const { return !lock_path_.empty(); }
  const std::string& lock_path() const { return lock_path_; }
  /// Options::libraries_first.
  bool libraries_first() const { return libraries_first_; }
  /// From now on this holds. `keep`: in other compilations too.
  void set(Kind kind, const std::string& device, const std::string& entry, Decision decision, bool keep);

  /// All is decided anew; what was taken is forgotten.
  void begin() { taken_.clear(); }
  void took(Taken taken) { taken_.push_back(std::move(taken)); }
  std::span<const Taken> taken() const { return taken_; }
  /// FE-T43 where the lock has a kernel that the program has not.
  Result<void> check() const;
  /// Devices decide by the numbers that the lock has of their kind; those of which it says nothing keep their own.
  void lock_numbers(const runtime::Devices& devices) const;
  /// FE-C10 where the file cannot be written.
  Result<void> write_lock(const std::string& path, const runtime::Devices& devices) const;

 private:
  using Key = std::tuple<Kind, std::string, std::string>;
  Result<void> read_lock(const std::string& path);
  std::string store_key(const Key& key) const;

  std::unique_ptr<Store> store_;
  Contexts contexts_;
  std::map<Key, std::optional<Decision>> known_;            ///< none: the store was asked and has none
  std::map<Key, std::string> locked_;                       ///< where in the lock each stands
  std::map<std::string, runtime::SourcedNumbers> numbers_;  ///< of the lock, by kind of device
  std::string lock_path_;
  bool libraries_first_ = false;
  std::vector<Taken> taken_;
};

/// By kind of device, what decisions about its kernels depend on beside the kernels: the description that is compiled for, each
/// provider with its settings and its library's contents, the workers. Empty for a device with a provider that has no fingerprint.
std::map<std::string, std::string> contexts(const runtime::Devices& devices, int64_t threads);

/// FE-T42: a decision that holds names a provider or a candidate that there is none of.
Error no_candidate(const Decisions& decisions, const Decision& decision, std::string_view entry,
                   std::string_view why);
/// FE-T43: a kernel of which the lock says nothing.
Error not_locked(const Decisions& decisions, std::string_view entry);

/// "k_…: 12.3 us measured, 10.1 us by cost; costs pick 'llvm', 14.0 us measured", as far as it is known.
std::string figures_text(std::string_view entry, const Decision& decision);

/// The text of a decisions lock: the numbers by which groups were formed, a table for each kind of device, and what was taken, in
/// order. Equal decisions give equal texts.
std::string lock_text(std::span<const Taken> taken, const runtime::Devices& devices);

}  // namespace ferrite::core::tune
