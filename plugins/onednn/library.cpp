// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "library.h"

#include <atomic>
#include <cstring>
#include <exception>
#include <string_view>

#include "packing.h"
#include "primitives.h"

namespace ferrite::onednn {
namespace {

struct OpenTarget : Target {
  int64_t vector_bytes_of_machine = 16;
};

using contraction::ReadProblem;

loop::Kernel read(Bytes bytes) { return contraction::read_kernel_of(bytes, "ferrite.onednn"); }

const contraction::Abilities abilities{.library = "oneDNN",
                                       .types = contraction::bit_of(f32) | contraction::bit_of(bf16),
                                       .epilogue_types = contraction::bit_of(f32),
                                       .addends = 2,
                                       .addends_repeat = true,
                                       .packs = true,
                                       // Some of its convolutions return 0 for the sigmoid of NaN.
                                       .activates = [](const Problem& p, Activation activation) {
                                         return activation != Activation::gelu_tanh &&
                                                !(p.convolution && activation == Activation::sigmoid);
                                       }};

/// The content of a blob. It includes the layout of packed weights, because oneDNN on another machine may
/// request a different one.
struct Blob {
  Problem problem;
  dnnl::MemoryDesc weights;
};

class OneDnn final : public LibraryProvider {
 public:
  OneDnn(Host host, std::shared_ptr<const Library> library, double price)
      : host_(host), library_(std::move(library)), price_(price) {}
  std::string id() const override { return "onednn"; }
  std::string device_kind() const override { return "cpu"; }

  std::unique_ptr<Target> open_target(Bytes description) override {
    const std::string_view text(reinterpret_cast<const char*>(description.data()), description.size());
    auto target = std::make_unique<OpenTarget>();
    target->name = "oneDNN " + library_->text;
    target->vector_bytes_of_machine = text.find("+avx512f") != text.npos ? 64
                                      : text.find("+avx2") != text.npos  ? 32
                                                                         : 16;
    return target;
  }

  std::vector<Candidate> propose(Target& target, Bytes bytes) override {
    const auto kernel = read(bytes);
    auto read = contraction::read_problem(kernel, abilities);
    auto& problem = read.problem;
    problem.workers = host_.workers();
    const bool pack = read.constant && !read.weight_dims.empty();
    const Computation computation(library_, problem, pack);
    Candidate candidate;
    candidate.name = problem.convolution ? "onednn.conv" : "onednn.matmul";
    if (problem.bias.argument >= 0) candidate.name += ".bias";
    if (problem.addend_count > 0) candidate.name += ".sum";
    if (problem.activation != Activation::none) candidate.name += ".act";
    candidate.cost = price_ * computation.seconds(static_cast<OpenTarget&>(target).vector_bytes_of_machine);
    candidate.workspace_bytes = computation.workspace_bytes();
    candidate.covered = static_cast<uint32_t>(problem.covered);
    if (pack) {
      auto layout = packing_of(computation.weights(), computation.weight_roles(), read.weight,
                               read.weight_dims, computation.column_chunks());
      if (!layout) decline("oneDNN wants the weights in a layout that is not made of blocks");
      candidate.operand_layouts.push_back(std::move(*layout));
    }
    return {candidate};
  }

  CompileResult compile(Target&, const CompileRequest& request) override {
    const auto kernel = read(request.kernel);
    auto read = contraction::read_problem(kernel, abilities);
    auto& problem = read.problem;
    problem.workers = host_.workers();
    if (problem.covered != static_cast<int64_t>(kernel.statements.size()))
      fail("ferrite.onednn/kernel", "the kernel is not the one that was proposed for");
    const Computation computation(library_, problem, problem.packed != 0);
    check_packing(kernel, read, computation);
    CompileResult result;
    const Blob blob{problem, computation.weights()};
    result.blob.assign(reinterpret_cast<const char*>(&blob), sizeof(Blob));
    result.tasks = computation.tasks();
    result.workspace_bytes = computation.workspace_bytes();
    if (request.want_listing) result.listing = computation.text();
    return result;
  }
  std::string fingerprint() override { return "onednn 2 library " + library_->text; }

  void* exec_create(Target&, const ExecRequest& request) override {
    const Bytes blob = request.blob;
    Blob made;
    if (blob.size() == sizeof(Blob)) std::memcpy(&made, blob.data(), sizeof(Blob));
    if (blob.size() != sizeof(Blob) || !is_sound(made.problem))
      fail("ferrite.onednn/kernel", "the code is none of this provider");
    const bool packed = made.problem.packed != 0;
    auto computation =
        std::make_unique<Computation>(library_, made.problem, packed, packed ? &made.weights : nullptr);
    computation->load();
    return computation.release();
  }
  LaunchNeeds exec_needs(const void* exec) override {
    const auto& computation = *static_cast<const Computation*>(exec);
    return {computation.tasks(), CompileResult().grain, computation.workspace_bytes(), {}};
  }
  void exec_destroy(void* exec) override { delete static_cast<Computation*>(exec); }
  void exec_launch(const fe_launch_args& args) override {
    struct Launch {
      const fe_launch_args& args;
      std::atomic<bool> failed{false};
      std::exception_ptr failure{};
    } launch{args};
    host_.parallel_for(args.tasks, args.grain, args.workers, &launch,
                       [](void* self, int64_t begin, int64_t end, int64_t worker) {
                         auto& s = *static_cast<Launch*>(self);
                         try {
                           static_cast<const Computation*>(s.args.function)
                               ->run(s.args.buffers, begin, end,
                                     static_cast<char*>(s.args.workspace) + worker * s.args.workspace_bytes);
                         } catch (...) {
                           if (!s.failed.exchange(true)) s.failure = std::current_exception();
                         }
                       });
    if (launch.failure) std::rethrow_exception(launch.failure);
  }

 private:
  /// The size of a packed operand must be what oneDNN reads.
  void check_packing(const loop::Kernel& kernel, const ReadProblem& read, const Computation& computation) {
    if (!read.problem.packed) return;
    const auto bytes = static_cast<int64_t>(library_->memory_desc_get_size(&computation.weights()));
    if (kernel.buffers[read.weight].bytes() != bytes * computation.column_chunks())
      fail("ferrite.onednn/kernel",
           "the weights are packed in another layout than the one that was proposed");
  }

  Host host_;
  std::shared_ptr<const Library> library_;
  double price_;
};

}  // namespace

std::unique_ptr<LibraryProvider> make_library(Host host, std::shared_ptr<const Library> library,
                                              double price) {
  return std::make_unique<OneDnn>(host, std::move(library), price);
}

}  // namespace ferrite::onednn
