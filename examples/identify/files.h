// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The features of a file for the model: its first and last bytes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace identify {

/// Sizes from the model's configuration, in bytes.
struct FeatureSizes {
  int64_t beginning = 0, end = 0;
  int64_t block = 0;       ///< bytes to read at each end, before white space is stripped
  int64_t least_file = 0;  ///< shorter files are judged without the model
  int32_t padding_token = 0;
};

/// A row of the model's input, or the label of a file that needs no model.
struct Features {
  std::vector<int32_t> tokens;       ///< beginning + end
  std::optional<std::string> label;  ///< "directory", "empty", "txt", "unknown"
};

/// Throws std::runtime_error if the file does not exist or cannot be read.
Features read_features(const std::string& path, const FeatureSizes& sizes);

/// Strict: no overlong forms, no surrogates, nothing above 10FFFF, no truncated tail.
bool is_utf8(const std::string& bytes);

}  // namespace identify
