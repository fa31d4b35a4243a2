// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "library.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <optional>

#include "cuda_library/lazy_library.h"
#include "plan.h"

namespace ferrite::cudnn {
namespace {

using cuda_library::Settings;

using contraction::Activation, contraction::Problem;

constexpr int64_t most_workspace = 64 << 20;
constexpr int64_t most_choices = 16;

struct OpenTarget : Target {
  cuda_library::Device device;
};

const contraction::Abilities abilities{
    .library = "cuDNN",
    .types = contraction::bit_of(f16) | contraction::bit_of(bf16) | contraction::bit_of(f32),
    .epilogue_types = contraction::bit_of(f16) | contraction::bit_of(bf16) | contraction::bit_of(f32),
    .addends = 1,
    .groups = true,
    .activates = [](const Problem& p, Activation) { return p.convolution != 0; }};

/// The content of a blob. The rank identifies a plan among that many plans, requested from this version of
/// the library on a device of this generation.
struct Blob {
  Problem problem;
  int64_t tf32 = 0, choices = 1, rank = 0, workspace = 0, generation = 0;
  uint64_t version = 0;
};
static_assert(std::is_trivially_copyable_v<Blob>);

/// Maximum number of convolutions whose plans are cached.
constexpr size_t most_planned = 1024;

/// A convolution with the library's plans for it.
struct Planned {
  std::unique_ptr<Operation> operation;
  std::vector<Plan> plans;
  std::string others;  ///< the library's rejected engines, if it has no plan
};

/// An opened library with its driver and its state per device.
class Dnn {
 public:
  explicit Dnn(const Settings& settings) : library_(open(settings.library)), driver_(settings.driver) {}
  ~Dnn() {
    planned_.clear();
    for (const auto& [number, device] : devices_)
      if (device.handle) library_->destroy(device.handle);
  }
  Dnn(const Dnn&) = delete;

  const Library& library() const { return *library_; }
  cuda_library::Driver& driver() { return driver_; }

  /// Plans on a device whose context is the calling thread's. Each convolution is planned once.
  std::shared_ptr<const Planned> plan(uint32_t number, const Problem& problem, bool tf32, int most,
                                      int64_t workspace) {
    const std::lock_guard lock(mutex_);
    auto& device = devices_[number];
    if (!device.handle)
      if (const int status = library_->create(&device.handle); status != dnn::success)
        throw Failure(FE_EDEVICE, "ferrite.cudnn/failed",
                      "cuDNN does not start: " + std::string(library_->error_text(status)) + " (" +
                          std::to_string(status) + ")");
    std::string key(reinterpret_cast<const char*>(&problem), sizeof problem);
    for (const int64_t part : {static_cast<int64_t>(number), int64_t{tf32}, int64_t{most}, workspace})
      key.append(reinterpret_cast<const char*>(&part), sizeof part);
    // Running plans are held by their users. Old plans are dropped, since a process may see new shapes
    // forever.
    if (planned_.size() >= most_planned && !planned_.contains(key)) planned_.clear();
    auto& planned = planned_[key];
    if (!planned) {
      const std::lock_guard of_handle(device.mutex);  // runs use the handle, too
      auto made = std::make_shared<Planned>();
      made->operation = std::make_unique<Operation>(library_, device, convolution_of(problem, tf32));
      auto found = made->operation->plans(most, workspace);
      made->plans = std::move(found.list);
      made->others = std::move(found.others);
      // The host may refuse workspaces: make sure that a plan without one is included, if it exists.
      if (workspace > 0 && std::ranges::none_of(made->plans, [](const Plan& p) { return p.workspace == 0; }))
        for (auto& without : made->operation->plans(1, 0).list) made->plans.push_back(std::move(without));
      planned = std::move(made);
    }
    return planned;
  }

 private:
  std::shared_ptr<const Library> library_;
  cuda_library::Driver driver_;
  std::mutex mutex_;
  std::map<uint32_t, Device> devices_;                             // guarded by mutex_
  std::map<std::string, std::shared_ptr<const Planned>> planned_;  // guarded by mutex_
};

struct Exec {
  std::shared_ptr<Dnn> dnn;
  void* context = nullptr;
  std::shared_ptr<const Planned> planned;
  const Plan* plan = nullptr;
};

class CuDnn final : public LibraryProvider {
 public:
  CuDnn(Host host, Settings settings)
      : host_(host), opened_(host, "ferrite.cudnn"), settings_(std::move(settings)) {}
  std::string id() const override { return "cudnn"; }
  std::string device_kind() const override { return "cuda"; }

  std::unique_ptr<Target> open_target(Bytes description) override {
    auto target = std::make_unique<OpenTarget>();
    target->device =
        cuda_library::parse_device({reinterpret_cast<const char*>(description.data()), description.size()});
    target->name = "cuDNN for " + target->device.architecture;
    return target;
  }

  std::vector<Candidate> propose(Target& target, Bytes bytes) override {
    return cuda_library::or_decline([&] {
      const auto& device = static_cast<OpenTarget&>(target).device;
      const auto kernel = contraction::read_kernel_of(bytes, "ferrite.cudnn");
      auto read = contraction::read_problem(kernel, abilities);
      if (!read.problem.convolution) decline("it is a product");
      if (read.problem.covered > 1 && convolution_of(read.problem, settings_.tf32).is_better_alone())
        read = contraction::read_problem(kernel, abilities, 1);
      // If there is no engine with the whole epilogue, try shorter ones.
      while (true) {
        auto& problem = read.problem;
        std::optional<OperandLayout> packing;
        if (wants_packing(read)) packing = packing_of(read);
        if (packing) problem.packed = 1;
        const auto planned = plan(problem, device);
        if (!planned->plans.empty()) return candidates(problem, *planned, device, packing);
        const auto reason =
            "cuDNN has no engine for a " + planned->operation->convolution().text() +
            (planned->others.empty() ? "" : "; of those that it names there are " + planned->others);
        if (problem.covered == 1) decline(reason);
        host_.log(FE_LOG_INFO, "plugins", "ferrite.cudnn: " + reason);
        read = contraction::read_problem(kernel, abilities, static_cast<size_t>(problem.covered) - 1);
      }
    });
  }

  CompileResult compile(Target& target, const CompileRequest& request) override {
    return cuda_library::or_fail([&] {
      const auto kernel = contraction::read_kernel_of(request.kernel, "ferrite.cudnn");
      const auto problem = contraction::read_problem(kernel, abilities).problem;
      const auto& device = static_cast<OpenTarget&>(target).device;
      const auto planned = plan(problem, device);
      if (problem.covered != static_cast<int64_t>(kernel.statements.size()) ||
          request.candidate >= planned->plans.size())
        fail("ferrite.cudnn/kernel", "the kernel is not the one that was proposed for");
      const auto& chosen = planned->plans[request.candidate];
      const Blob blob{problem,
                      settings_.tf32,
                      settings_.choices,
                      static_cast<int64_t>(request.candidate),
                      chosen.workspace,
                      device.generation,
                      dnn()->library().version()};
      CompileResult result;
      result.blob.assign(reinterpret_cast<const char*>(&blob), sizeof(Blob));
      result.workspace_bytes = chosen.workspace;
      if (request.want_listing)
        result.listing = planned->operation->convolution().text() + ", workspace " +
                         std::to_string(chosen.workspace) + "\n";
      return result;
    });
  }

  std::string fingerprint() override {
    std::string version;
    try {
      version = dnn()->library().text;
    } catch (const cuda_library::Unavailable&) {
      version = "none";
    }
    return "cudnn 2 library " + version;
  }

  void* exec_create(Target&, const ExecRequest& request) override {
    Blob blob;
    if (request.blob.size() == sizeof(Blob)) std::memcpy(&blob, request.blob.data(), sizeof(Blob));
    if (request.blob.size() != sizeof(Blob) || !contraction::is_sound(blob.problem) || blob.workspace < 0 ||
        blob.rank < 0 || blob.choices < 1 || blob.choices > most_choices)
      fail("ferrite.cudnn/kernel", "the code is none of this provider");
    return cuda_library::or_fail([&] {
      auto exec = std::make_unique<Exec>();
      exec->dnn = dnn();
      auto& driver = exec->dnn->driver();
      exec->context = request.native_context ? request.native_context : driver.context(request.device);
      driver.enter(exec->context);
      const bool same = blob.version == exec->dnn->library().version() &&
                        blob.generation == driver.generation(request.device);
      exec->planned = exec->dnn->plan(request.device, blob.problem, blob.tf32 != 0,
                                      static_cast<int>(blob.choices), same ? most_workspace : blob.workspace);
      for (const auto& plan : exec->planned->plans)
        if (same ? &plan == exec->planned->plans.data() + blob.rank : plan.workspace <= blob.workspace) {
          exec->plan = &plan;
          break;
        }
      if (!exec->plan || exec->plan->workspace > blob.workspace)
        fail("ferrite.cudnn/failed", "cuDNN ", exec->dnn->library().text, " has no engine for a ",
             exec->planned->operation->convolution().text(), " with ", blob.workspace,
             " bytes of workspace; compile it anew");
      return exec.release();
    });
  }
  LaunchNeeds exec_needs(const void* exec) override {
    return {
        CompileResult().tasks, CompileResult().grain, static_cast<const Exec*>(exec)->plan->workspace, {}};
  }
  bool exec_recordable(const void*) override { return true; }
  void exec_destroy(void* exec) override { delete static_cast<Exec*>(exec); }
  void exec_launch(const fe_launch_args& args) override {
    auto& exec = *static_cast<Exec*>(args.function);
    cuda_library::or_fail([&] { exec.dnn->driver().enter(exec.context); });
    exec.planned->operation->run(*exec.plan, args.buffers, args.workspace, args.native_stream);
  }

 private:
  std::shared_ptr<Dnn> dnn() {
    return opened_.get([&] { return std::make_shared<Dnn>(settings_); });
  }

  std::shared_ptr<const Planned> plan(const Problem& problem, const cuda_library::Device& device) {
    const auto open = dnn();
    const auto number = cuda_library::enter_like(open->driver(), device, "cuDNN");
    return open->plan(number, problem, settings_.tf32, settings_.choices, most_workspace);
  }

  std::vector<Candidate> candidates(const Problem& problem, const Planned& planned,
                                    const cuda_library::Device& device,
                                    const std::optional<OperandLayout>& packing) const {
    // Each further plan costs slightly more than the one that the library prefers to it.
    constexpr double of_rank = 1e-3;
    const auto& convolution = planned.operation->convolution();
    std::string name = "cudnn.conv";
    if (convolution.tf32) name += ".tf32";
    if (convolution.has_bias) name += ".bias";
    if (convolution.has_r) name += ".sum";
    if (problem.activation != Activation::none) name += ".act";
    std::vector<Candidate> result;
    for (size_t k = 0; k < planned.plans.size(); ++k) {
      auto& candidate = result.emplace_back();
      candidate.id = k;
      candidate.name = name + (k == 0 ? "" : "#" + std::to_string(k + 1));
      candidate.cost = settings_.price * convolution.seconds(device) * (1 + of_rank * static_cast<double>(k));
      candidate.workspace_bytes = planned.plans[k].workspace;
      candidate.covered = static_cast<uint32_t>(problem.covered);
      if (packing) candidate.operand_layouts.push_back(*packing);
    }
    return result;
  }

  const Host host_;
  cuda_library::LazyLibrary<Dnn> opened_;
  const Settings settings_;
};

}  // namespace

std::unique_ptr<LibraryProvider> make_library(Host host, cuda_library::Settings settings) {
  return std::make_unique<CuDnn>(host, std::move(settings));
}

}  // namespace ferrite::cudnn
