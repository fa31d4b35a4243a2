// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tells an observation of each stage of a compilation.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include "core/observe/observation.h"
#include "core/support/elapsed.h"

namespace ferrite::core::observe {

/// A stage ends where the next one begins, and the last one with end(), while the program can still be looked at. Does nothing
/// where there is no observation. One thread.
class StageWatch {
 public:
  /// `sizes` and `text`: of the program as it is when they are called.
  StageWatch(Observation* observation, std::function<Sizes()> sizes, std::function<std::string()> text)
      : observation_(observation), sizes_(std::move(sizes)), text_of_(std::move(text)) {}
  ~StageWatch() { end(); }
  StageWatch(const StageWatch&) = delete;

  void begin(std::string_view stage) {
    if (!observation_) return;
    end();
    stage_ = {std::string(stage), 0, sizes_(), {}, {}};
    start_ = Clock::now();
    open_ = true;
  }
  void end() {
    if (!open_) return;
    open_ = false;
    const auto now = Clock::now();
    stage_.milliseconds = milliseconds_between(start_, now);
    stage_.after = sizes_();
    if (observation_->texts) {
      auto text = text_of_();
      if (text != text_) stage_.text = text_ = std::move(text);
    }
    observation_->add({"stage",
                       stage_.name,
                       start_,
                       now,
                       0,
                       {{"nodes", static_cast<int64_t>(stage_.after.nodes)},
                        {"statements", static_cast<int64_t>(stage_.after.statements)},
                        {"groups", static_cast<int64_t>(stage_.after.groups)}}});
    observation_->stages.push_back(std::move(stage_));
  }

 private:
  Observation* observation_;
  std::function<Sizes()> sizes_;
  std::function<std::string()> text_of_;
  Stage stage_;
  std::string text_;  ///< of the stage before
  Clock::time_point start_;
  bool open_ = false;
};

}  // namespace ferrite::core::observe
