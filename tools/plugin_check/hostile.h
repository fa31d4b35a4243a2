// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// L2: calls a plugin as peers do that are newer, that reject calls, and that use two threads. The plugin has
// to return from each call, leak nothing, and give the same results as otherwise.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "core/ir/graph/graph.h"
#include "core/plugin/registry.h"
#include "core/support/abi/abi.h"
#include "ferrite/abi/graph.h"
#include "ferrite/abi/lower.h"
#include "tools/plugin_check/levels.h"

namespace ferrite::core::plugin_check {

class Subject;

/// Calls the plugin's `create`, with a host that is newer and with one that rejects its calls.
void check_creation(const CheckOptions& options, const Subject& subject, Runner& runner);
/// Calls type rules, decompositions and lowerings, over the samples of their ops.
void check_hostile_ops(const CheckOptions& options, const Subject& subject, Runner& runner);
/// Calls passes and predicates of rules, over sampled graphs.
void check_hostile_passes(const CheckOptions& options, const Subject& subject, Runner& runner);
/// Calls importers on the given sample models: truncated, changed, rejected.
void check_hostile_importers(const CheckOptions& options, const Subject& subject, Runner& runner);
/// Calls providers with damaged kernels and sinks that are full.
void check_hostile_backends(const Subject& subject, Runner& runner);

inline constexpr size_t poison_bytes = 48;
inline constexpr std::byte poison{0xA5};

/// A struct as a peer of a later version gives it: longer than this version's, with poison in the unknown
/// part.
template <abi::SizeLed T>
class Enlarged {
 public:
  explicit Enlarged(const T& value) {
    bytes_.fill(poison);
    std::memcpy(bytes_.data(), &value, sizeof(T));
    get()->size = bytes_.size();
  }
  T* get() { return reinterpret_cast<T*>(bytes_.data()); }
  /// Whether nothing was written past the end of this version's struct.
  bool intact() const {
    for (size_t k = sizeof(T); k < bytes_.size(); ++k)
      if (bytes_[k] != poison) return false;
    return true;
  }

 private:
  alignas(16) std::array<std::byte, (sizeof(T) + 15) / 16 * 16 + poison_bytes> bytes_;
};

/// The same for the elements of an array, whose stride is larger, too.
template <abi::SizeLed T>
class EnlargedArray {
 public:
  explicit EnlargedArray(const fe_array& array) {
    for (uint64_t k = 0; k < array.count; ++k) items_.emplace_back(abi::element<T>(array, k));
  }
  fe_array get() { return {items_.data(), items_.size(), sizeof(Enlarged<T>)}; }

 private:
  std::vector<Enlarged<T>> items_;
};

/// A table of the host that counts calls and rejects one of them.
template <class Table>
class Refusing {
 public:
  /// `failing`: the number of the call that is rejected, from 1; 0: none.
  Refusing(const Table& real, size_t failing) : real_(&real), failing_(failing) {
    table_ = real;
    table_.self = this;
  }
  Refusing(const Refusing&) = delete;
  const Table* get() const { return &table_; }
  size_t calls() const { return calls_; }
  bool refused() const { return failing_ != 0 && calls_ >= failing_; }

  template <auto Slot>
  void wrap() {
    if (real_->*Slot) table_.*Slot = Forward<Slot>::call;
  }

 private:
  template <auto Slot>
  struct Forward;
  template <class Args, class Out, int32_t (*Table::*Slot)(void*, fe_call*, const Args*, Out*)>
  struct Forward<Slot> {
    static int32_t call(void* self, fe_call* call, const Args* args, Out* out) {
      auto& table = *static_cast<Refusing*>(self);
      if (++table.calls_ == table.failing_)
        return abi::report(call, error(FE_EINTERNAL, "FE-P47",
                                       "call {} of the host is refused: this is a check", table.calls_));
      return (table.real_->*Slot)(table.real_->self, call, args, out);
    }
  };

  Table table_;
  const Table* real_;
  std::atomic<size_t> calls_ = 0;
  size_t failing_;
};

/// Wraps every slot of a table.
void wrap_all(Refusing<fe_graph_api>& table);
void wrap_all(Refusing<fe_lower_api>& table);

/// How a callback is called, and the outcome.
struct Treatment {
  bool larger = false;  ///< structs and arrays are those of a later version
  size_t refused = 0;   ///< the number of the host call that is rejected, from 1; 0: none
  size_t calls = 0;     ///< out: number of host calls
  bool intact = true;   ///< out: nothing was written past the end of this version's structs
  const graph::OpRegistry* ops = nullptr;  ///< for decompositions: the ops of the graph that they edit
};

/// Runs the pass over a copy of the graph and returns its text. Errors are the pass's own.
Result<std::string> run_treated(const plugin::PassEntry& pass, graph::Graph graph,
                                const plugin::Registry& registry, Treatment& treatment);

/// Runs `work` in this thread and in another at the same time. It returns an error text, empty on success:
/// FE-P48 with the first one.
inline Result<void> in_two_threads(const std::function<std::string()>& work) {
  std::array<std::string, 2> wrong;
  std::thread other([&] { wrong[1] = work(); });
  wrong[0] = work();
  other.join();
  const auto& fault = wrong[0].empty() ? wrong[1] : wrong[0];
  if (fault.empty()) return {};
  return error(FE_EINVALID, "FE-P48",
               "called from two threads at once {}: several models may compile at a time", fault);
}

/// The numbers of the calls to reject out of `calls`: each one, or `most` that are evenly spread.
inline std::vector<size_t> refused_calls(size_t calls, size_t most) {
  std::vector<size_t> result;
  for (size_t k = 0; k < std::min(calls, most); ++k)
    result.push_back(calls <= most ? k + 1 : 1 + k * (calls - 1) / (most - 1));
  return result;
}

}  // namespace ferrite::core::plugin_check
