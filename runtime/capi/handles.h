// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The handles of ferrite.h: a session and its models.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ferrite/ferrite.h"
#include "runtime/arena_pool.h"
#include "runtime/capi/engine.h"
#include "runtime/capi/staging.h"
#include "runtime/capi/tensors.h"

namespace ferrite::core::capi {

/// The names and dims of a port as C strings and arrays.
struct PortText {
  std::string dtype_name;
  std::vector<const char*> dim_names;
};

}  // namespace ferrite::core::capi

struct ferrite_session {
  std::shared_ptr<ferrite::core::capi::Engine> engine;  // device tensors share it
  ferrite::core::runtime::ArenaPool arenas;             // of the devices that the engine has opened

  /// The tensor device, opened at first use. Errors are those of opening the device.
  ferrite::core::Result<ferrite::core::capi::TensorDevice> device();

 private:
  std::mutex mutex_;  // guards the members below
  std::optional<ferrite::core::capi::TensorDevice> device_;
};

struct ferrite_model {
  ferrite_session* session = nullptr;
  std::unique_ptr<ferrite::core::capi::LoadedModel> model;
  std::vector<ferrite::core::capi::PortText> input_texts, output_texts;

  mutable std::mutex mutex;  // guards the members below
  std::shared_ptr<const ferrite::core::capi::RunnableProgram> last;
  bool last_is_apart = false;  // its ports are in the device's memory
  double run_ms = 0;
  using RunKey = std::pair<std::shared_ptr<const ferrite::core::capi::RunnableProgram>,
                           void*>;  // a program and the caller's stream, or null
  std::map<RunKey, std::vector<std::unique_ptr<ferrite::core::capi::Staging>>> idle;

  /// A staging that no run uses, made if there is none; put_back() returns it.
  std::unique_ptr<ferrite::core::capi::Staging> take(const RunKey& place);
  void put_back(const RunKey& place, std::unique_ptr<ferrite::core::capi::Staging> staging);
  /// The session's device, opened if options or tensors in other memory than the host's require it. FE-X39
  /// for a stream if the device has none.
  ferrite::core::Result<ferrite::core::capi::TensorDevice> device(
      const ferrite_run_options& options, std::span<const DLTensor* const> tensors) const;
  /// The program for these shapes; `apart`: its ports are in the device's memory.
  ferrite::core::Result<std::shared_ptr<const ferrite::core::capi::RunnableProgram>> prepare(
      std::span<const ferrite::core::capi::BoundTensor> inputs, bool apart);
  /// Runs with the staging that was taken for the key, and returns it to the pool if the run succeeds.
  ferrite::core::Result<void> run(const RunKey& place, std::unique_ptr<ferrite::core::capi::Staging> staging,
                                  std::span<const ferrite::core::capi::BoundTensor> inputs,
                                  std::span<const ferrite::core::capi::BoundTensor> outputs,
                                  const ferrite_run_options& options);
};
