// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "compiler.h"

#include <llvm/Config/llvm-config.h>
#include <llvm/IR/Verifier.h>
#include <llvm/Support/raw_ostream.h>

#include "blob.h"
#include "ferrite/emitter/grid.h"
#include "ferrite/emitter/kernel_emitter.h"
#include "ferrite/emitter/machine.h"
#include "ferrite/kernel.hpp"
#include "target.h"

namespace ferrite::cuda {

namespace {

constexpr int64_t local_bytes = 32 << 10;  // of shared memory, which reductions use too
constexpr uint32_t alignment = 256;        // of allocations
// So many kernels are at work on a multiprocessor that programs are cut for.
constexpr int64_t blocks_of_multiprocessor = 4;

struct CudaTarget : Target {
  Device device;
  emitter::Target machine;
};

loop::Kernel read(Bytes bytes) {
  std::string error;
  auto kernel = read_kernel(bytes, &error);
  if (!kernel) fail("ferrite.cuda/kernel", "the kernel cannot be read: ", error);
  return std::move(*kernel);
}

std::string comment(std::string_view text) {
  std::string result;
  while (!text.empty()) {
    const auto line = text.substr(0, text.find('\n'));
    result += "// " + std::string(line) + "\n";
    text.remove_prefix(std::min(text.size(), line.size() + 1));
  }
  return result;
}

class Compiler final : public Provider {
 public:
  std::string id() const override { return "cuda"; }
  std::string device_kind() const override { return "cuda"; }

  std::unique_ptr<Target> open_target(Bytes description) override {
    initialise_llvm();
    auto target = std::make_unique<CudaTarget>();
    target->device = parse_device({reinterpret_cast<const char*>(description.data()), description.size()});
    target->machine = target_of(target->device);
    target->name = target->device.architecture;
    target->vector_bytes = target->machine.vector_bytes;
    target->buffer_alignment = alignment;
    target->local_bytes = local_bytes;
    for (const auto kind : {FE_STATEMENT_MAP, FE_STATEMENT_REDUCE, FE_STATEMENT_SCATTER, FE_STATEMENT_SERIAL})
      target->statement_kinds |= uint64_t{1} << kind;
    auto& numbers = target->numbers;
    const auto& device = target->device;
    numbers.workers = device.multiprocessors * blocks_of_multiprocessor;
    numbers.line_bytes = 128;
    numbers.page_bytes = 2 << 20;
    numbers.uncoalesced = 16;
    numbers.launch_ns = 2000;
    numbers.join_ns = 1;
    numbers.bandwidth = device.gigabytes_a_second * 1'000'000'000 / numbers.workers;
    numbers.operations = device.clock_khz * 1000 * 128 / blocks_of_multiprocessor;
    return target;
  }

  std::vector<Candidate> propose(Target& target, Bytes bytes) override {
    const auto& opened = static_cast<CudaTarget&>(target);
    const auto kernel = read(bytes);
    if (auto reason = emitter::grid_unsupported_reason(opened.machine, kernel); !reason.empty())
      decline(reason);
    Candidate candidate;
    candidate.name = "grid";
    candidate.cost =
        emitter::estimate_seconds(opened.machine, kernel) / static_cast<double>(opened.numbers.workers);
    return {candidate};
  }

  CompileResult compile(Target& target, const CompileRequest& request) override {
    const auto& opened = static_cast<CudaTarget&>(target);
    llvm::LLVMContext context;
    auto kernel = read(request.kernel);
    Blob blob;
    blob.entry = request.entry;
    for (const auto& buffer : kernel.buffers)
      if (buffer.kind != FE_BUFFER_LOCAL)
        blob.arguments.push_back({buffer.bytes(), buffer.kind == FE_BUFFER_OUTPUT ? 1u : 0u, 0});
    auto emitted = emitter::emit_grid_kernel(context, opened.machine, std::move(kernel), request.entry);
    auto& module = *emitted.module;
    module.getFunction(llvm::StringRef(request.entry.data(), request.entry.size()))
        ->addFnAttr("nvvm.maxntid", std::to_string(emitted.threads));
    std::string problem;
    llvm::raw_string_ostream stream(problem);
    if (llvm::verifyModule(module, &stream))
      throw Failure(FE_EINTERNAL, "ferrite.cuda/emit", "the emitter made a malformed module: " + problem);
    emitter::Machine machine(opened.machine);
    machine.optimise(module);
    CompileResult result;
    if (request.want_listing)
      result.listing = comment(request.provenance) + emitter::listing_of(module) + "\n";
    blob.blocks = emitted.blocks;
    blob.threads = emitted.threads;
    blob.ptx = machine.assembly(module);
    if (request.want_listing) result.listing += blob.ptx;
    result.blob = write_blob(blob);
    result.tasks = emitted.blocks;
    result.shared_bytes = emitted.shared_bytes;
    return result;
  }

  std::string fingerprint() override { return "llvm " LLVM_VERSION_STRING " grid 1"; }
};

}  // namespace

std::unique_ptr<Provider> make_compiler() { return std::make_unique<Compiler>(); }

}  // namespace ferrite::cuda
