// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A model's inputs from the command line: files, sizes for dims, random contents.
#pragma once

#include <string>
#include <vector>

#include "tools/cli/common.h"
#include "tools/cli/tensor.h"

namespace ferrite::cli {

struct InputOptions {
  std::vector<std::string> files;  ///< NAME=FILE.npy
  std::vector<std::string> dims;   ///< NAME=N, or INPUT:AXIS=N for a dim without a name
  uint64_t seed = 0;

  void add_to(CLI::App& command);
};

/// The dims of each input. FE-C02 for an input that the model does not have, FE-C05 for open dims without a
/// size (all are listed) or an unknown dim, FE-C06 for sizes that contradict each other or are malformed.
Result<std::vector<std::vector<int64_t>>> resolve_dims(const core::Model& model, const InputOptions& options);

/// The inputs: from files, else random by type and shape. FE-X02 where a file has another dtype than the
/// input; types that NumPy lacks are stored as unsigned integers of their width.
Result<std::vector<Tensor>> make_inputs(const core::Model& model, const InputOptions& options);

}  // namespace ferrite::cli
