// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What random graphs are compiled for, and with which features of the scheduler.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/schedule/features.h"
#include "driver/session.h"
#include "runtime/device.h"

namespace ferrite::random_graphs {

using core::runtime::Target;
using core::schedule::Feature;
using core::schedule::feature_count;
using core::schedule::Features;

struct Options {
  uint64_t count = 300, seed = 1;
  std::string device = "cpu", dump, json, commit;
  std::string plugin;             ///< of the device, where the default pipeline has none
  std::optional<int64_t> policy;  ///< seed of the policy that decides at random what is fused
  Features without;               ///< not empty: graphs are compiled without these only
  bool pad = false;               ///< rows of everything between kernels are padded, however small it is
  bool stages = false;            ///< the text of each stage is read and gone on from; nothing is run
  bool print = false;
};

/// The devices that graphs are compiled for.
struct Here {
  std::vector<Target> devices;  ///< none: the interpreter
  Features idle;                ///< features that can change no schedule on these
};

core::Result<Here> open_here(const core::Session& session, const Options& options);

/// What counts as measured: nothing or, on some seeds, numbers by which small tensors, too, are divided among
/// workers, and launches are worth what little that saves.
fe_target_numbers numbers_for(uint64_t seed);

/// "launch_ns 4, join_ns 64, workers 8", of those that are there.
std::string text_of(const fe_target_numbers& numbers);

/// How a graph is compiled, and what its devices are said to be like from now on.
core::Result<core::CompileOptions> options_for(const Here& here, uint64_t seed, const Options& options);

Features only(Feature feature);

/// What is switched off, by variant of a graph.
std::vector<Features> variants(uint64_t seed, const Options& options);

std::string name_of(const Features& variant, const Options& options);

}  // namespace ferrite::random_graphs
