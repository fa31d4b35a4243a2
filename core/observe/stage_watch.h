// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reports each stage of a compilation to an observation.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include "core/observe/observation.h"
#include "core/support/elapsed.h"

namespace ferrite::core::observe {

/// A stage ends when the next one begins; the last one ends with end(), which must come while the program
/// still exists. Does nothing without an observation. Not thread-safe.
class StageWatch {
 public:
  /// `sizes`, `view` and `text` describe the program at the time of the call.
  StageWatch(Observation* observation, std::function<Sizes()> sizes, std::function<GraphView()> view,
             std::function<std::string()> text)
      : observation_(observation),
        sizes_(std::move(sizes)),
        view_(std::move(view)),
        text_of_(std::move(text)) {}
  ~StageWatch() { end(); }
  StageWatch(const StageWatch&) = delete;

  void begin(std::string_view stage) {
    if (!observation_) return;
    end();
    if (stage == "pre_grad") keep_view("import");
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
    if (stage_.name == "post_grad_post" || stage_.name == "link") keep_view(stage_.name);
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
  void keep_view(std::string_view stage) {
    if (!observation_->graphs) return;
    auto& views = observation_->views;
    views.push_back(view_());
    views.back().stage = stage;
  }

  Observation* observation_;
  std::function<Sizes()> sizes_;
  std::function<GraphView()> view_;
  std::function<std::string()> text_of_;
  Stage stage_;
  std::string text_;  ///< the text of the previous stage
  Clock::time_point start_;
  bool open_ = false;
};

}  // namespace ferrite::core::observe
