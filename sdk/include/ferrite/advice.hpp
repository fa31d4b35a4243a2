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

/// A statement of the loop program that is being fused.
struct StatementInfo {
  uint32_t kind = 0;             ///< FE_STATEMENT_*
  std::vector<int64_t> extents;  ///< of its loops, parallel ones first
  uint32_t parallel = 0;         ///< how many of them are parallel
  std::vector<uint32_t> reads, writes;
  std::string origin;  ///< names of the model's nodes
  std::string text;    ///< in the text form
};

/// What fusion may make one kernel. Valid until the callback returns.
class FusionPair {
 public:
  FusionPair(const fe_fusion_pair& pair, const fe_loop_api& loops) : pair_(pair), loops_(loops) {}
  /// Numbers of the statements that share a buffer, in their order.
  uint32_t first() const { return pair_.first; }
  uint32_t second() const { return pair_.second; }
  /// FE_NONE32: a pass asked for the pair.
  uint32_t buffer() const { return pair_.buffer; }
  /// Of the buffer.
  int64_t bytes() const { return pair_.bytes; }
  /// Both only read it.
  bool only_reads() const { return pair_.flags & FE_FUSION_READS; }
  // Of FusionPolicy::decide only:
  /// What becomes of the pair where no policy has an opinion.
  bool cheaper() const { return pair_.flags & FE_FUSION_CHEAPER; }
  /// Loops that all statements of the kernel would share.
  uint32_t shared() const { return pair_.shared; }
  /// The groups that the statements are in by now.
  std::vector<uint32_t> first_group() const { return detail::numbers_from(pair_.first_group); }
  std::vector<uint32_t> second_group() const { return detail::numbers_from(pair_.second_group); }

  /// What is known of a statement, by its number.
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

/// Decides which of the legal fusions are made. Any-thread: several models may compile at a time.
class FusionPolicy {
 public:
  virtual ~FusionPolicy() = default;
  virtual std::string id() const = 0;
  virtual Decision decide(const FusionPair& pair) const = 0;
  /// Pairs with higher scores are tried earlier. One score a pair, or none at all: the order stays as it is.
  virtual std::vector<double> rank(const std::vector<FusionPair>&) const { return {}; }
};

struct Cost {
  double seconds = 0;      ///< of one launch
  double operations = -1;  ///< of scalar primitives; less than 0: not known
  int64_t bytes = -1;      ///< moved; less than 0: not known
};

/// Says how long kernels take. Any-thread.
class CostModel {
 public:
  virtual ~CostModel() = default;
  virtual std::string id() const = 0;
  /// The kind of device that it knows; empty: any.
  virtual std::string device() const { return {}; }
  /// `kernel` is read with ferrite/kernel.hpp; `numbers` are the device's. Nothing: it is not known, and the next model is asked.
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

/// Gets the rows of the metric tables. Called by one thread at a time.
class MetricSink {
 public:
  virtual ~MetricSink() = default;
  virtual std::string id() const = 0;
  /// The tables that it wants; empty: all.
  virtual std::vector<std::string> tables() const { return {}; }
  virtual void write(const MetricRows& rows) = 0;
};

}  // namespace ferrite::inline v0
