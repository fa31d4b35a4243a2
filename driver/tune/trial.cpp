// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "driver/tune/trial.h"

#include <chrono>
#include <cstdlib>

#include "driver/tune/single_group.h"
#include "runtime/pool.h"

namespace ferrite::core::tune {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int least_runs = 3;
constexpr size_t alignment = 64;

/// Simulates the effect of a program's other kernels on the caches of each worker between two launches, so
/// that constants come from farther away. Inputs, which a program has often just computed, are treated in the
/// same way.
class Sweep {
 public:
  explicit Sweep(const runtime::Executable& executable) : workers_(executable.workers) {
    if (executable.devices[executable.default_device()]->host_memory)
      memory_.resize(static_cast<size_t>(workers_) * each);
  }
  void run() {
    if (memory_.empty()) return;
    runtime::Pool::process().parallel_for(
        workers_, 1, workers_, memory_.data(), [](void* memory, int64_t begin, int64_t end, int64_t) {
          auto* bytes = static_cast<unsigned char*>(memory);
          for (size_t k = static_cast<size_t>(begin) * each; k < static_cast<size_t>(end) * each; k += line)
            ++bytes[k];
        });
  }

 private:
  static constexpr size_t each = 4 << 20;  // larger than a worker's own caches
  static constexpr size_t line = 64;
  int64_t workers_;
  std::vector<unsigned char> memory_;
};

double seconds_between(Clock::time_point start, Clock::time_point end) {
  return std::chrono::duration<double>(end - start).count();
}

}  // namespace

void Trial::Free::operator()(std::byte* data) const { std::free(data); }

Result<std::byte*> Trial::take(const runtime::PortInfo& port) {
  const auto bytes = static_cast<size_t>(port.bytes);
  auto* data = static_cast<std::byte*>(std::aligned_alloc(alignment, (bytes / alignment + 1) * alignment));
  if (!data)
    return error(FE_ENOMEM, "FE-D03", "no memory for {} bytes; free memory, or use smaller sizes", bytes);
  blocks_.emplace_back(data);
  fill(port.dtype, {data, bytes});
  return data;
}

Result<std::unique_ptr<Trial>> Trial::make(const schedule::Schedule& schedule,
                                           const runtime::Devices& devices,
                                           const select::Placement& placement,
                                           const link::BuildOptions& options,
                                           select::CandidateBlocklist blocklist) {
  Ledger unheard;
  const size_t refused = blocklist.count();
  const auto dropped = [] {
    return error(FE_EUNSUPPORTED, "FE-K22", "a provider could not compile it, and is left out");
  };
  link::Builder builder(schedule, devices, placement, {}, options, blocklist, unheard);
  FE_CHECK(builder.select());
  FE_CHECK(builder.emit());
  if (blocklist.count() != refused) return dropped();
  FE_CHECK(builder.load());
  if (blocklist.count() != refused) return dropped();
  builder.plan();
  auto trial = std::make_unique<Trial>();
  FE_TRY(trial->executable_, builder.link());
  if (!trial->executable_) return dropped();
  trial->context_ = std::make_unique<runtime::Executable::Context>(*trial->executable_);
  trial->context_->keep_times();
  for (const auto& port : trial->executable_->inputs) {
    FE_TRY(const auto* data, trial->take(port));
    trial->inputs_.push_back(data);
  }
  for (const auto& port : trial->executable_->outputs) {
    FE_TRY(auto* data, trial->take(port));
    trial->outputs_.push_back(data);
  }
  return trial;
}

Result<double> Trial::measure(double seconds) {
  // The first run warms up.
  FE_CHECK(executable_->run(*context_, inputs_, outputs_));
  Sweep sweep(*executable_);
  const auto start = Clock::now();
  for (int run = 0; run < least_runs || seconds_between(start, Clock::now()) < seconds; ++run) {
    sweep.run();
    FE_CHECK(executable_->run(*context_, inputs_, outputs_));
    double kernels = 0;
    for (size_t k = 0; k < executable_->steps.size(); ++k) {
      // Copies between memories are the same for all candidates.
      if (executable_->steps[k].copy != runtime::no_copy) continue;
      kernels += seconds_between(context_->times()[k].start, context_->times()[k].end);
    }
    if (least_ == 0 || kernels < least_) least_ = kernels;
  }
  return least_;
}

}  // namespace ferrite::core::tune
