// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Converts the model's probabilities to a label, with the tables of its configuration.
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
  /// Reads config.min.json and content_types_kb.min.json from the same folder. Throws std::runtime_error if
  /// they cannot be read or require a feature that this example does not implement.
  explicit Configuration(const std::string& path);

  const FeatureSizes& sizes() const { return sizes_; }
  size_t label_count() const { return labels_.size(); }
  /// The verdict for one row of label_count() probabilities.
  Verdict judge(std::span<const float> probabilities) const;

 private:
  FeatureSizes sizes_;
  std::vector<std::string> labels_;
  std::map<std::string, std::string> overwrite_;
  std::map<std::string, double> thresholds_;
  std::map<std::string, bool> is_text_;
  double threshold_ = 0;  ///< for labels without a threshold of their own
};

}  // namespace identify
