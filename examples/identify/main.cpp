// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Identifies file types with Magika's model. Uses only the embedding API.
#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include "ferrite/ferrite.hpp"
#include "identify/files.h"
#include "identify/labels.h"

namespace {

constexpr const char* usage =
    "Usage: identify --model MODEL.onnx --config config.min.json [--manifest FILE.toml] [--threads N] "
    "FILE...\n"
    "Prints one line a file: its path, its type and the model's probability of it; then one line on the "
    "model.\n";

struct Arguments {
  std::string model, config;
  ferrite::SessionOptions session;
  std::vector<std::string> files;
};

/// The number of workers; 0: one per processor. Throws std::invalid_argument.
int64_t read_threads(const std::string& text) {
  constexpr int64_t most = 4096;
  int64_t threads = -1;
  const char* end = text.data() + text.size();
  const auto [after, fault] = std::from_chars(text.data(), end, threads);
  if (fault != std::errc() || after != end || threads < 0 || threads > most)
    throw std::invalid_argument("--threads takes a number from 0 to " + std::to_string(most) + ", not '" +
                                text + "'");
  return threads;
}

/// Throws std::invalid_argument for an invalid command line.
Arguments parse(int argc, char** argv) {
  Arguments arguments;
  for (int k = 1; k < argc; ++k) {
    const std::string argument = argv[k];
    if (argument == "--") {
      arguments.files.insert(arguments.files.end(), argv + k + 1, argv + argc);
      break;
    }
    if (argument.rfind("--", 0) != 0) {
      arguments.files.push_back(argument);
      continue;
    }
    const bool known = argument == "--model" || argument == "--config" || argument == "--manifest" ||
                       argument == "--threads";
    if (!known) throw std::invalid_argument("there is no option '" + argument + "'");
    const std::string value = k + 1 < argc ? argv[++k] : "";
    if (value.empty()) throw std::invalid_argument(argument + " lacks its value");
    if (argument == "--model")
      arguments.model = value;
    else if (argument == "--config")
      arguments.config = value;
    else if (argument == "--manifest")
      arguments.session.manifest = value;
    else
      arguments.session.threads = read_threads(value);
  }
  if (arguments.model.empty()) throw std::invalid_argument("--model is missing");
  if (arguments.config.empty()) throw std::invalid_argument("--config is missing");
  if (arguments.files.empty()) throw std::invalid_argument("no file is given");
  return arguments;
}

/// Checks that the model matches the configuration: int32 [batch, tokens] -> f32 [batch, labels].
void check_model(const ferrite::Model& model, const identify::Configuration& configuration) {
  const auto inputs = model.inputs(), outputs = model.outputs();
  const auto tokens = configuration.sizes().beginning + configuration.sizes().end;
  const bool fits = inputs.size() == 1 && outputs.size() == 1 && inputs[0].dtype_name == "i32" &&
                    inputs[0].dims.size() == 2 && inputs[0].dims[1] == tokens &&
                    outputs[0].dtype_name == "f32";
  if (!fits) throw std::runtime_error("the model and the configuration do not belong together");
}

int identify_files(const Arguments& arguments) {
  const identify::Configuration configuration(arguments.config);
  ferrite::Session session(arguments.session);
  ferrite::Model model(session, arguments.model);
  check_model(model, configuration);

  size_t width = 0;
  for (const auto& path : arguments.files) width = std::max(width, path.size());
  double run_ms = 0;
  size_t runs = 0, failed = 0;
  for (const auto& path : arguments.files) {
    identify::Verdict verdict;
    try {
      const auto features = identify::read_features(path, configuration.sizes());
      if (features.label) {
        verdict.label = *features.label;
      } else {
        const auto count = static_cast<int64_t>(features.tokens.size());
        const auto row = ferrite::Tensor::view<const int32_t>({1, count}, features.tokens);
        const auto results = model.run({row});
        const auto probabilities = results[0].elements<float>();
        if (probabilities.size() != configuration.label_count())
          throw std::runtime_error("the model gives another number of labels than the configuration names");
        verdict = configuration.judge(probabilities);
        run_ms += model.stats().run_ms;
        ++runs;
      }
    } catch (const ferrite::Error&) {
      throw;  // the model is at fault, not this file
    } catch (const std::exception& fault) {
      std::fprintf(stderr, "identify: %s: %s\n", path.c_str(), fault.what());
      ++failed;
      continue;
    }
    std::printf("%-*s  %-12s  %.4f\n", static_cast<int>(width), path.c_str(), verdict.label.c_str(),
                verdict.score);
  }
  if (runs == 0) {
    std::printf("no file needed the model: nothing compiled, 0 runs\n");
  } else {
    const auto stats = model.stats();
    std::printf("%llu nodes, %llu statements, %llu kernels, compiled in %.1f ms, %zu runs in %.2f ms\n",
                static_cast<unsigned long long>(stats.nodes),
                static_cast<unsigned long long>(stats.statements),
                static_cast<unsigned long long>(stats.kernels), stats.compile_ms, runs, run_ms);
  }
  return failed == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 2 && std::strcmp(argv[1], "--help") == 0) {
    std::fputs(usage, stdout);
    return 0;
  }
  try {
    return identify_files(parse(argc, argv));
  } catch (const std::invalid_argument& fault) {
    std::fprintf(stderr, "identify: %s\n%s", fault.what(), usage);
    return 2;
  } catch (const std::exception& fault) {
    std::fprintf(stderr, "identify: %s\n", fault.what());
    return 3;
  }
}
