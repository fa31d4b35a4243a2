// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "library.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <mutex>

#include "cuda_library/lazy_library.h"
#include "matmul.h"

namespace ferrite::cublaslt {
namespace {

using cuda_library::Settings;

using contraction::Activation, contraction::Problem;

// Maximum workspace of a product: PyTorch's value, so that the library finds the same algorithms.
constexpr int64_t most_workspace = 32 << 20;

struct OpenTarget : Target {
  cuda_library::Device device;
};

const contraction::Abilities abilities{
    .library = "cuBLASLt",
    .types = contraction::bit_of(f16) | contraction::bit_of(bf16) | contraction::bit_of(f32) |
             contraction::bit_of(f64),
    .epilogue_types = contraction::bit_of(f16) | contraction::bit_of(bf16) | contraction::bit_of(f32) |
                      contraction::bit_of(f64),
    .addends = 1,
    .activates = [](const Problem& p, Activation activation) {
      // Its approximate gelu for f64 has only f32 precision.
      return !p.convolution &&
             (activation == Activation::relu || (activation == Activation::gelu_tanh && p.type != f64));
    }};

/// The content of a blob. The algorithms, one per part, belong to this version of the library and this
/// generation of devices.
struct Blob {
  Problem problem;
  int64_t tf32 = 0, divided = 0, workspace = 0, generation = 0;
  uint64_t version = 0;
  std::array<lt::Algorithm, most_parts> algorithms{};
};
static_assert(std::is_trivially_copyable_v<Blob>);

/// An opened library with its driver and its handles per device.
class Lt {
 public:
  explicit Lt(const Settings& settings) : library_(open(settings.library)), driver_(settings.driver) {}
  ~Lt() {
    for (const auto& [device, handle] : handles_) library_->destroy(handle);
  }
  Lt(const Lt&) = delete;

  const std::shared_ptr<const Library>& library() const { return library_; }
  cuda_library::Driver& driver() { return driver_; }

  /// The handle of a device whose context is the calling thread's.
  lt::Handle handle(uint32_t device) {
    const std::lock_guard lock(mutex_);
    lt::Handle& handle = handles_[device];
    if (!handle)
      if (const int status = library_->create(&handle); status != lt::success)
        throw Failure(FE_EDEVICE, "ferrite.cublaslt/failed",
                      "cuBLASLt does not start: " + std::string(library_->status_name(status)) + " (" +
                          std::to_string(status) + ")");
    return handle;
  }

 private:
  std::shared_ptr<const Library> library_;
  cuda_library::Driver driver_;
  std::mutex mutex_;
  std::map<uint32_t, lt::Handle> handles_;  // guarded by mutex_
};

/// The parts of a product; the last one has nearly all the work.
using Parts = std::vector<std::unique_ptr<Matmul>>;

std::string text_of(const Parts& parts) {
  std::string text;
  for (const auto& part : parts) text += (text.empty() ? "" : "; ") + part->product().text();
  return text;
}

/// One way to compute the parts: an algorithm for each, with a shared workspace.
struct Way {
  bool divided = false;
  std::array<lt::Algorithm, most_parts> algorithms{};
  size_t workspace = 0;
  float waves = 0;     // waves of the last part
  double seconds = 0;  // estimate for all parts
};

/// Parts with algorithms of the loaded library.
struct Exec {
  std::shared_ptr<Lt> lt;
  void* context = nullptr;
  lt::Handle handle = nullptr;
  Parts parts;
  std::array<lt::Algorithm, most_parts> algorithms{};
  int64_t workspace = 0;
};

class CublasLt final : public LibraryProvider {
 public:
  CublasLt(Host host, Settings settings)
      : opened_(host, "ferrite.cublaslt"), settings_(std::move(settings)) {}
  std::string id() const override { return "cublaslt"; }
  std::string device_kind() const override { return "cuda"; }

  std::unique_ptr<Target> open_target(Bytes description) override {
    auto target = std::make_unique<OpenTarget>();
    target->device =
        cuda_library::parse_device({reinterpret_cast<const char*>(description.data()), description.size()});
    target->name = "cuBLASLt for " + target->device.architecture;
    return target;
  }

  std::vector<Candidate> propose(Target& target, Bytes bytes) override {
    return cuda_library::or_decline([&] {
      const auto& device = static_cast<OpenTarget&>(target).device;
      const auto kernel = contraction::read_kernel_of(bytes, "ferrite.cublaslt");
      auto problem = contraction::read_problem(kernel, abilities).problem;
      // If there is no algorithm with the whole epilogue, try shorter ones.
      while (true) {
        if (const auto found = ways(problem, device); !found.empty()) return candidates(problem, found);
        if (problem.covered == 1)
          decline("cuBLASLt has no algorithm for a ", product_of(problem, settings_.tf32).text());
        problem =
            contraction::read_problem(kernel, abilities, static_cast<size_t>(problem.covered) - 1).problem;
      }
    });
  }

  CompileResult compile(Target& target, const CompileRequest& request) override {
    return cuda_library::or_fail([&] {
      const auto kernel = contraction::read_kernel_of(request.kernel, "ferrite.cublaslt");
      const auto problem = contraction::read_problem(kernel, abilities).problem;
      const auto& device = static_cast<OpenTarget&>(target).device;
      const auto found = ways(problem, device);
      if (problem.covered != static_cast<int64_t>(kernel.statements.size()) ||
          request.candidate >= found.size())
        fail("ferrite.cublaslt/kernel", "the kernel is not the one that was proposed for");
      const auto& chosen = found[request.candidate];
      const Blob blob{problem,           settings_.tf32,
                      chosen.divided,    static_cast<int64_t>(chosen.workspace),
                      device.generation, lt()->library()->version(),
                      chosen.algorithms};
      CompileResult result;
      result.blob.assign(reinterpret_cast<const char*>(&blob), sizeof(Blob));
      result.workspace_bytes = blob.workspace;
      if (request.want_listing)
        result.listing = text_of(parts_of(problem, settings_.tf32, chosen.divided)) + ", workspace " +
                         std::to_string(blob.workspace) + ", waves " + std::to_string(chosen.waves) + "\n";
      return result;
    });
  }

  std::string fingerprint() override {
    std::string version;
    try {
      version = lt()->library()->text;
    } catch (const cuda_library::Unavailable&) {
      version = "none";
    }
    return "cublaslt 3 library " + version;
  }

  void* exec_create(Target&, const ExecRequest& request) override {
    Blob blob;
    const auto bytes = request.blob;
    if (bytes.size() == sizeof(Blob)) std::memcpy(&blob, bytes.data(), sizeof(Blob));
    if (bytes.size() != sizeof(Blob) || !contraction::is_sound(blob.problem) || blob.workspace < 0)
      fail("ferrite.cublaslt/kernel", "the code is none of this provider");
    return cuda_library::or_fail([&] {
      auto exec = std::make_unique<Exec>();
      exec->lt = lt();
      exec->context =
          request.native_context ? request.native_context : exec->lt->driver().context(request.device);
      exec->lt->driver().enter(exec->context);
      exec->handle = exec->lt->handle(request.device);
      exec->parts = parts_of(blob.problem, blob.tf32 != 0, blob.divided != 0);
      if (exec->parts.empty()) fail("ferrite.cublaslt/kernel", "the code is none of this provider");
      exec->algorithms = blob.algorithms;
      exec->workspace = blob.workspace;
      if (blob.version == exec->lt->library()->version() &&
          blob.generation == exec->lt->driver().generation(request.device))
        return exec.release();
      const auto found = search(exec->parts, exec->handle, blob.workspace, 1);
      if (found.empty())
        fail("ferrite.cublaslt/failed", "cuBLASLt ", exec->lt->library()->text, " has no algorithm for a ",
             text_of(exec->parts), " with ", blob.workspace, " bytes of workspace; compile it anew");
      exec->algorithms = found[0].algorithms;
      return exec.release();
    });
  }
  LaunchNeeds exec_needs(const void* exec) override {
    return {CompileResult().tasks, CompileResult().grain, static_cast<const Exec*>(exec)->workspace, {}};
  }
  bool exec_recordable(const void*) override { return true; }
  void exec_destroy(void* exec) override { delete static_cast<Exec*>(exec); }
  void exec_launch(const fe_launch_args& args) override {
    auto& exec = *static_cast<Exec*>(args.function);
    cuda_library::or_fail([&] { exec.lt->driver().enter(exec.context); });
    for (size_t k = 0; k < exec.parts.size(); ++k)
      exec.parts[k]->run(exec.handle, exec.algorithms[k], args.buffers, args.workspace, exec.workspace,
                         args.native_stream);
  }

 private:
  std::shared_ptr<Lt> lt() {
    return opened_.get([&] { return std::make_shared<Lt>(settings_); });
  }

  /// The product as a single part, or divided; empty if it cannot be divided.
  Parts parts_of(const Problem& problem, bool tf32, bool divided) {
    const auto product = product_of(problem, tf32);
    Parts parts;
    for (const auto& part : divided ? in_whole_vectors(product) : std::vector{product})
      parts.push_back(std::make_unique<Matmul>(lt()->library(), part));
    return parts;
  }

  /// Searches algorithms, in the library's order of preference for the last part; empty if a part has none.
  static std::vector<Way> search(const Parts& parts, lt::Handle handle, int64_t most_workspace, int most) {
    Way way;
    for (size_t k = 0; k + 1 < parts.size(); ++k) {
      const auto found = parts[k]->search(handle, most_workspace, 1);
      if (found.empty()) return {};
      way.algorithms[k] = found[0].algorithm;
      way.workspace = std::max(way.workspace, found[0].workspace);
    }
    std::vector<Way> ways;
    for (const auto& found : parts.back()->search(handle, most_workspace, most)) {
      auto& next = ways.emplace_back(way);
      next.algorithms[parts.size() - 1] = found.algorithm;
      next.workspace = std::max(way.workspace, found.workspace);
      next.waves = found.waves;
    }
    return ways;
  }

  /// Searches on a device of the target architecture, since the library queries the device. Ways for the
  /// undivided product come first.
  std::vector<Way> ways(const Problem& problem, const cuda_library::Device& device) {
    const auto open = lt();
    const auto handle = open->handle(cuda_library::enter_like(open->driver(), device, "cuBLASLt"));
    std::vector<Way> ways;
    for (const bool divided : {false, true}) {
      const auto parts = parts_of(problem, settings_.tf32, divided);
      if (parts.empty()) continue;
      auto found = search(parts, handle, most_workspace, settings_.choices);
      // The host may refuse workspaces: make sure that a way without one is included, if it exists.
      if (std::ranges::none_of(found, [](const Way& each) { return each.workspace == 0; }))
        for (const auto& without : search(parts, handle, 0, 1)) found.push_back(without);
      double seconds = 0;
      for (const auto& part : parts) seconds += part->product().seconds(device);
      for (auto& way : found) {
        way.divided = divided;
        way.seconds = seconds;
        ways.push_back(way);
      }
    }
    return ways;
  }

  std::vector<Candidate> candidates(const Problem& problem, const std::vector<Way>& ways) const {
    // Each further way costs slightly more than the one that the library prefers to it.
    constexpr double of_rank = 1e-3;
    const auto product = product_of(problem, settings_.tf32);
    std::string name = "cublaslt.matmul";
    if (product.tf32) name += ".tf32";
    if (product.bias.argument >= 0) name += ".bias";
    if (product.has_c) name += ".sum";
    if (problem.activation != Activation::none) name += ".act";
    std::vector<Candidate> result;
    int rank = 0;
    for (size_t k = 0; k < ways.size(); ++k) {
      const auto& way = ways[k];
      rank = k > 0 && way.divided == ways[k - 1].divided ? rank + 1 : 0;
      auto& candidate = result.emplace_back();
      candidate.id = k;
      candidate.name =
          name + (way.divided ? ".parts" : "") + (rank == 0 ? "" : "#" + std::to_string(rank + 1));
      candidate.cost = settings_.price * way.seconds * (1 + of_rank * rank);
      candidate.workspace_bytes = static_cast<int64_t>(way.workspace);
      candidate.covered = static_cast<uint32_t>(problem.covered);
    }
    return result;
  }

  cuda_library::LazyLibrary<Lt> opened_;
  const Settings settings_;
};

}  // namespace

std::unique_ptr<LibraryProvider> make_library(Host host, cuda_library::Settings settings) {
  return std::make_unique<CublasLt>(host, std::move(settings));
}

}  // namespace ferrite::cublaslt
