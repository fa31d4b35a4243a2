// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "identify/labels.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>

namespace identify {
namespace {

nlohmann::json read_json(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw std::runtime_error(path + " cannot be read");
  return nlohmann::json::parse(file);
}

}  // namespace

Configuration::Configuration(const std::string& path) try {
  const auto config = read_json(path);
  sizes_.beginning = config.at("beg_size");
  sizes_.end = config.at("end_size");
  sizes_.block = config.at("block_size");
  sizes_.least_file = config.at("min_file_size_for_dl");
  sizes_.padding_token = config.at("padding_token");
  labels_ = config.at("target_labels_space").get<std::vector<std::string>>();
  overwrite_ = config.at("overwrite_map").get<std::map<std::string, std::string>>();
  thresholds_ = config.at("thresholds").get<std::map<std::string, double>>();
  threshold_ = config.at("medium_confidence_threshold");
  if (config.at("mid_size") != 0 || config.at("use_inputs_at_offsets") != false)
    throw std::runtime_error("it asks for a middle part or for parts at offsets");
  if (sizes_.least_file < 1 || sizes_.least_file > sizes_.beginning || sizes_.beginning >= sizes_.block ||
      sizes_.end < 1 || sizes_.end >= sizes_.block || sizes_.block > 1 << 24)
    throw std::runtime_error("its sizes contradict each other");
  const auto types =
      read_json((std::filesystem::path(path).parent_path() / "content_types_kb.min.json").string());
  for (const auto& [label, entry] : types.items()) is_text_[label] = entry.at("is_text");
} catch (const std::exception& fault) {
  throw std::runtime_error("configuration " + path + ": " + fault.what() +
                           "; give the config.min.json that lies beside the model, with "
                           "content_types_kb.min.json in its folder");
}

Verdict Configuration::judge(std::span<const float> probabilities) const {
  const auto best = std::max_element(probabilities.begin(), probabilities.end());  // the first one on a tie
  const auto& found = labels_.at(static_cast<size_t>(best - probabilities.begin()));
  const double score = *best;
  const auto overwrite = overwrite_.find(found);
  const auto& label = overwrite == overwrite_.end() ? found : overwrite->second;
  const auto own = thresholds_.find(found);
  if (score >= (own == thresholds_.end() ? threshold_ : own->second)) return {label, score};
  // Below the threshold, report only whether it is text.
  const auto text = is_text_.find(label);
  return {text != is_text_.end() && text->second ? "txt" : "unknown", score};
}

}  // namespace identify
