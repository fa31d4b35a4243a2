// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Fusion policies, cost models and metric sinks in C++: abstract classes whose tables PluginBuilder fills.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ferrite/provider.hpp"

namespace ferrite::inline v0 {

namespace detail {
inline std::vector<uint32_t> numbers_from(const fe_array& array) {
  std::vector<uint32_t> result;
  for (uint64_t k = 0; k < array.count; ++k) result.push_back(element<uint32_t>(array, k));
  return result;
}
}  // namespace detail

/// A statement of the loop program during fusion.
struct StatementInfo {
  uint32_t kind = 0;             ///< FE_STATEMENT_*
  std::vector<int64_t> extents;  ///< of its loops, parallel ones first
  uint32_t parallel = 0;         ///< number of parallel loops
  std::vector<uint32_t> reads, writes;
  std::string origin;  ///< names of the model's nodes
  std::string text;    ///< its text form
};

/// Two statements that fusion may put into one kernel. Valid until the callback returns.
class FusionPair {
 public:
  FusionPair(const fe_fusion_pair& pair, const fe_loop_api& loops) : pair_(pair), loops_(loops) {}
  /// The numbers of the two statements, in program order.
  uint32_t first() const { return pair_.first; }
  uint32_t second() const { return pair_.second; }
  /// The number of the shared buffer; FE_NONE32: a pass requested the pair.
  uint32_t buffer() const { return pair_.buffer; }
  /// The size of the buffer.
  int64_t bytes() const { return pair_.bytes; }
  /// Whether both statements only read the buffer.
  bool only_reads() const { return pair_.flags & FE_FUSION_READS; }
  // Only in FusionPolicy::decide:
  /// The host's own decision, which holds if no policy has an opinion.
  bool cheaper() const { return pair_.flags & FE_FUSION_CHEAPER; }
  /// The number of loops that all statements of the kernel would share.
  uint32_t shared() const { return pair_.shared; }
  /// The groups to which the statements belong at this point.
  std::vector<uint32_t> first_group() const { return detail::numbers_from(pair_.first_group); }
  std::vector<uint32_t> second_group() const { return detail::numbers_from(pair_.second_group); }

  /// The description of a statement, by its number.
  StatementInfo statement(uint32_t number) const {
    auto args = sized<fe_statement_args>();
    args.statement = number;
    auto view = sized<fe_statement_view>();
    call_host(loops_, loops_.statement, args, view);
    StatementInfo result{view.kind, {}, view.parallel, {}, {}, {}, {}};
    for (uint64_t k = 0; k < view.extents.count; ++k)
      result.extents.push_back(element<int64_t>(view.extents, k));
    result.reads = detail::numbers_from(view.reads);
    result.writes = detail::numbers_from(view.writes);
    result.origin = from_abi(view.origin);
    result.text = from_abi(view.text);
    return result;
  }

 private:
  const fe_fusion_pair& pair_;
  const fe_loop_api& loops_;
};

enum class Decision : uint32_t {
  no_opinion = FE_FUSION_NO_OPINION,
  fuse = FE_FUSION_FUSE,
  refuse = FE_FUSION_REFUSE,
};

/// Decides which of the legal fusions are made. Any-thread: several models may compile at the same time.
class FusionPolicy {
 public:
  virtual ~FusionPolicy() = default;
  virtual std::string id() const = 0;
  virtual Decision decide(const FusionPair& pair) const = 0;
  /// Scores for the pairs, one each: higher scores are tried earlier. An empty result keeps the order.
  virtual std::vector<double> rank(const std::vector<FusionPair>&) const { return {}; }
};

struct Cost {
  double seconds = 0;      ///< of one launch
  double operations = -1;  ///< number of scalar primitives; negative: unknown
  int64_t bytes = -1;      ///< bytes moved; negative: unknown
};

/// Estimates how long kernels take. Any-thread.
class CostModel {
 public:
  virtual ~CostModel() = default;
  virtual std::string id() const = 0;
  /// The device kind that the model covers; empty: any.
  virtual std::string device() const { return {}; }
  /// `kernel` is a flat kernel (see ferrite/kernel.hpp); `numbers` are the device's. None: the kernel is
  /// unknown, and the next model is asked.
  virtual std::optional<Cost> estimate(std::string_view device, Bytes kernel,
                                       const fe_target_numbers& numbers) const = 0;
};

/// The rows of one table. Valid until the callback returns.
class MetricRows {
 public:
  explicit MetricRows(const fe_metric_args& args) : args_(args) {}
  std::string_view table() const { return from_abi(args_.table); }
  size_t columns() const { return args_.columns.count; }
  size_t rows() const { return columns() == 0 ? 0 : args_.values.count / columns(); }
  std::string_view column(size_t k) const { return from_abi(element<fe_string>(args_.columns, k)); }
  std::string_view value(size_t row, size_t column) const {
    return from_abi(element<fe_string>(args_.values, row * columns() + column));
  }

 private:
  const fe_metric_args& args_;
};

/// Receives the rows of metric tables. Called by one thread at a time.
class MetricSink {
 public:
  virtual ~MetricSink() = default;
  virtual std::string id() const = 0;
  /// The tables to receive; empty: all.
  virtual std::vector<std::string> tables() const { return {}; }
  virtual void write(const MetricRows& rows) = 0;
};

}  // namespace ferrite::inline v0
