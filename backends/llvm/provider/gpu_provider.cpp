// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ferrite/emitter/gpu_provider.h"

#include <llvm/Config/llvm-config.h>

#include <algorithm>
#include <utility>

#include "backends/llvm/gpu/attention/gpu_attention.h"
#include "ferrite/emitter/gpu_kernel.h"
#include "ferrite/emitter/kernel_emitter.h"
#include "ferrite/emitter/provide.h"
#include "ferrite/error.hpp"
#include "ferrite/gpu_runtime/device_code.h"

namespace ferrite::emitter {

namespace {

// The number of blocks per multiprocessor for which programs are divided.
constexpr int64_t blocks_of_multiprocessor = 4;

constexpr double of_launch = 2e-6;  // seconds of a launch

// Nanoseconds per point if a scatter's points need an order (stores_at_once()): on an H100, 2,048 updates of
// f32 took 149 each, and 65,536 took 143. The thread waits for the index, and for the memory.
constexpr int64_t of_ordered_update = 140;

struct GpuTarget : ferrite::Target {
  emitter::Target machine;
  double bytes_a_second = 0;
};

/// Estimated seconds of a kernel without tiles: its memory traffic or its arithmetic, whichever takes longer.
double seconds_of(const GpuTarget& target, const loop::Kernel& kernel) {
  // The attainable fraction of the bandwidth. A worker is a quarter of a multiprocessor, 32 lanes; the
  // estimate counts vectors.
  constexpr double of_bandwidth = 0.87, lanes = 32;
  double bytes = 0;
  for (const auto& buffer : kernel.buffers)
    if (buffer.kind != FE_BUFFER_LOCAL) bytes += static_cast<double>(buffer.bytes());
  const bool sums = std::ranges::any_of(
      kernel.statements, [](const auto& statement) { return statement.kind == FE_STATEMENT_CONTRACT; });
  // Lanes wait for each other when products are summed.
  const double times = lanes / (target.machine.vector_bytes / 4.0) / (sums ? 4 : 1);
  const double computed =
      estimate_seconds(target.machine, kernel) / (static_cast<double>(target.numbers.workers) * times);
  return of_launch + std::max(computed, bytes / (target.bytes_a_second * of_bandwidth));
}

}  // namespace

std::unique_ptr<ferrite::Target> GpuProvider::open_target(Bytes description) {
  auto target = std::make_unique<GpuTarget>();
  GpuNumbers known;
  target->machine =
      machine_of({reinterpret_cast<const char*>(description.data()), description.size()}, known);
  const auto& machine = target->machine;
  target->name = machine.cpu.empty() ? id() : machine.cpu;
  target->vector_bytes = machine.vector_bytes;
  target->buffer_alignment = static_cast<uint32_t>(known.alignment);
  // Aligned rows let vectors and cache lines start at rows. Small buffers stay in caches, where padding costs
  // more than it saves.
  constexpr uint32_t most_percent = 5;
  constexpr int64_t least_bytes = 64 << 10;
  target->row_alignment = static_cast<uint32_t>(known.line_bytes);
  target->row_padding_percent = most_percent;
  target->row_padding_from = least_bytes;
  // Reserve shared memory for reductions.
  constexpr int64_t of_reductions = 2 << 10;
  target->local_bytes = machine.grid->shared_bytes - of_reductions;
  for (const auto kind : {FE_STATEMENT_MAP, FE_STATEMENT_REDUCE, FE_STATEMENT_CONTRACT, FE_STATEMENT_SCATTER,
                          FE_STATEMENT_SERIAL})
    target->statement_kinds |= uint64_t{1} << kind;
  if (!machine.f64) {
    const uint64_t others = ~(uint64_t{1} << static_cast<unsigned>(f64));
    for (uint32_t kind = FE_STATEMENT_MAP; kind < FE_STATEMENT_CALL; ++kind)
      target->capabilities.push_back({kind, 0, others});
    for (const auto& prim : prim_table)
      target->capabilities.push_back({0, static_cast<uint32_t>(prim.prim), others});
  }
  auto& numbers = target->numbers;
  numbers.workers = machine.grid->multiprocessors * blocks_of_multiprocessor;
  numbers.line_bytes = known.line_bytes;
  numbers.page_bytes = 2 << 20;
  numbers.uncoalesced = 16;
  numbers.launch_ns = known.launch_ns;
  numbers.join_ns = 1;
  numbers.ordered_ns = of_ordered_update;
  numbers.activations = FE_ACTIVATIONS_CHANNELS_LAST;  // vectors lie along the depth of windows
  // A block computes a tile of one product, or two products with a softmax in between.
  numbers.products = has_gpu_attention(*machine.grid) ? FE_PRODUCTS_SOFTMAX : FE_PRODUCTS_APART;
  numbers.bandwidth = known.bytes_a_second / numbers.workers;
  target->bytes_a_second = static_cast<double>(known.bytes_a_second);
  numbers.operations =
      static_cast<int64_t>(machine.cycles_per_second) * known.operations_a_cycle / blocks_of_multiprocessor;
  return target;
}

std::vector<Candidate> GpuProvider::propose(ferrite::Target& target, Bytes bytes) {
  const auto& opened = static_cast<GpuTarget&>(target);
  const auto kernel = read_kernel_bytes(bytes, "ferrite." + id() + "/kernel");
  if (auto reason = gpu_unsupported_reason(opened.machine, kernel); !reason.empty()) decline(reason);
  std::vector<Candidate> candidates;
  auto options = gpu_options(opened.machine, kernel);
  for (auto& option : options) option.seconds += of_launch;
  if (options.empty()) options.push_back({0, "", seconds_of(opened, kernel)});
  // The emitter's preferred option comes first; the others are there to be measured.
  for (const auto& option : options) {
    const bool first = candidates.empty();
    auto& candidate = candidates.emplace_back();
    candidate.id = first ? 0 : option.id;
    candidate.name = first ? "grid" : "grid." + option.name;
    candidate.cost = option.seconds;
    for (const auto& layout : option.layouts)
      candidate.operand_layouts.push_back({layout.buffer, layout.dims, layout.exprs, layout.unpack});
  }
  return candidates;
}

CompileResult GpuProvider::compile(ferrite::Target& target, const CompileRequest& request) {
  const auto& opened = static_cast<GpuTarget&>(target);
  const std::string family = "ferrite." + id();
  llvm::LLVMContext context;
  auto kernel = read_kernel_bytes(request.kernel, family + "/kernel");
  DeviceCode made;
  made.format = id();
  made.entry = request.entry;
  made.arguments = arguments_of(kernel);
  auto emitted =
      emit_gpu_kernel(context, opened.machine, std::move(kernel), request.entry, request.candidate);
  auto& module = *emitted.module;
  mark_entry(*module.getFunction(llvm::StringRef(request.entry.data(), request.entry.size())),
             emitted.threads);
  verify_module(module, family + "/emit");
  Machine machine(machines_, opened.machine);
  machine.optimise(module);
  CompileResult result;
  if (request.want_listing)
    result.listing = comment(request.provenance, comment_mark()) + listing_of(module) + "\n";
  auto code = generate(machine, module, request.want_listing);
  if (request.want_listing) result.listing += code.listing.empty() ? code.code : code.listing;
  made.blocks = emitted.blocks;
  made.threads = emitted.threads;
  made.shared_bytes = static_cast<unsigned>(emitted.dynamic_bytes);
  made.overlaps = !opened.machine.grid->launches_before.name.empty();
  made.code = std::move(code.code);
  result.blob = write_device_code(made);
  result.tasks = emitted.blocks;
  result.registers = code.registers;
  result.spills = code.spills;
  result.shared_bytes = emitted.shared_bytes;
  return result;
}

std::string GpuProvider::fingerprint() { return "llvm " LLVM_VERSION_STRING " grid 10"; }

}  // namespace ferrite::emitter
