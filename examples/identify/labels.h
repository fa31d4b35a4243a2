// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// From the model's probabilities to a label: the tables of its configuration.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "identify/files.h"

namespace identify {

struct Verdict {
  std::string label;
  double score = 1.0;
};

class Configuration {
 public:
  /// Reads config.min.json and, beside it, content_types_kb.min.json. Throws std::runtime_error where they cannot be read
  /// or ask for what is not done here.
  explicit Configuration(const std::string& path);

  const FeatureSizes& sizes() const { return sizes_; }
  size_t label_count() const { return labels_.size(); }
  /// Of one row of probabilities, label_count() of them.
  Verdict judge(std::span<const float> probabilities) const;

 private:
  FeatureSizes sizes_;
  std::vector<std::string> labels_;
  std::map<std::string, std::string> overwrite_;
  std::map<std::string, double> thresholds_;
  std::map<std::string, bool> is_text_;
  double threshold_ = 0;  ///< of labels without one of their own
};

}  // namespace identify
