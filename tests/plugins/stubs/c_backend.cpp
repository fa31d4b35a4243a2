// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A whole backend in a few hundred lines: the provider prints C and runs the C compiler, the runtime loads
// what that made.
#include <dlfcn.h>
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <new>

#include "c_printer.h"
#include "ferrite/kernel.hpp"
#include "ferrite/plugin.hpp"

extern char** environ;

namespace acme {
namespace {

using namespace ferrite;

constexpr std::string_view compiler = "cc";
constexpr const char* flags[] = {"-std=gnu11", "-O3", "-march=native", "-ffp-contract=off", "-fno-math-errno",
                                 "-fwrapv",    "-w",  "-fPIC",         "-shared",           "-o"};

/// A folder of its own, gone with its contents at the end.
struct Scratch {
  std::filesystem::path path = std::filesystem::temp_directory_path() / "acme-c-XXXXXX";
  Scratch() {
    std::string name = path.string();
    if (!mkdtemp(name.data()))
      fail("acme.c/scratch", "no folder can be made in ", path.parent_path().string());
    path = name;
  }
  ~Scratch() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
};
std::string contents(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// The shared object that the C compiler makes of a source.
std::string compile_c(const std::string& source) {
  Scratch scratch;
  const std::string from = scratch.path / "kernel.c", to = scratch.path / "kernel.so",
                    said = scratch.path / "said";
  std::ofstream(from) << source;
  std::vector<std::string> words{std::string(compiler)};
  words.insert(words.end(), std::begin(flags), std::end(flags));
  for (const auto& word : {to, from, std::string("-lm")}) words.push_back(word);
  std::vector<char*> arguments;
  for (auto& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 2, said.c_str(), O_WRONLY | O_CREAT, 0600);
  pid_t child = 0;
  int status = 0;
  const int fault = posix_spawnp(&child, arguments[0], &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (fault != 0) fail("acme.c/compiler", "'", compiler, "' cannot be run: ", std::strerror(fault));
  if (waitpid(child, &status, 0) != child || status != 0)
    fail("acme.c/compiler", "'", compiler, "' failed: ", contents(said).substr(0, 400));
  return contents(to);
}

class Compiler final : public Provider {
 public:
  explicit Compiler(int64_t workspace) : workspace_(workspace) {}

  std::string id() const override { return "c"; }
  std::string device_kind() const override { return "c"; }
  std::unique_ptr<Target> open_target(Bytes) override {
    auto target = std::make_unique<Target>();
    target->name = "C of this machine";
    for (uint32_t kind : {FE_STATEMENT_MAP, FE_STATEMENT_REDUCE, FE_STATEMENT_SCATTER, FE_STATEMENT_SERIAL})
      target->statement_kinds |= uint64_t{1} << kind;
    return target;
  }
  std::vector<Candidate> propose(Target&, Bytes bytes) override {
    const auto printed = Printer(read(bytes), "kernel").run();  // declines as compile would
    Candidate plain, roomy;  // the workspace of `roomy` is known only when it is compiled
    plain.name = "c", plain.cost = 1e-9 * printed.points;
    roomy.id = 1, roomy.name = "c.roomy", roomy.cost = plain.cost / 2;
    return workspace_ == 0 ? std::vector{plain} : std::vector{plain, roomy};
  }
  CompileResult compile(Target&, const CompileRequest& request) override {
    auto printed = Printer(read(request.kernel), request.entry).run();
    printed.blob = compile_c(printed.listing);
    if (request.candidate == 1) printed.workspace_bytes = std::max(printed.workspace_bytes, workspace_);
    return printed;
  }
  std::string fingerprint() override { return "acme.c 1"; }

 private:
  static loop::Kernel read(Bytes bytes) {
    std::string error;
    auto kernel = read_kernel(bytes, &error);
    if (!kernel) fail("acme.c/kernel", "the kernel cannot be read: ", error);
    return std::move(*kernel);
  }

  int64_t workspace_;  // of another candidate; 0: there is none
};

using Entry = void (*)(void* const* buffers, int64_t begin, int64_t end, char* workspace, int64_t* error);
using Module = std::vector<void*>;

class HostRuntime final : public Runtime {
 public:
  explicit HostRuntime(Host host) : host_(host) {}
  std::string id() const override { return "c"; }
  uint32_t device_count() override { return 1; }
  DeviceDescription describe(uint32_t) override { return {"", "this machine, by way of C"}; }
  void* alloc(uint32_t, uint64_t bytes) override {
    void* data = bytes > UINT64_MAX - 128 ? nullptr : std::aligned_alloc(64, (bytes / 64 + 1) * 64);
    if (!data) throw std::bad_alloc();
    return data;
  }
  void free(uint32_t, void* data) override { std::free(data); }
  void copy(const fe_copy_args& args) override {
    if (args.bytes != 0) std::memmove(args.to, args.from, args.bytes);
  }
  void* module_load(uint32_t, std::span<const Bytes> blobs, std::string_view) override {
    auto module = std::make_unique<Module>();
    Scratch scratch;
    for (const auto& blob : blobs) {
      const auto path = scratch.path / (std::to_string(module->size()) + ".so");
      std::ofstream(path, std::ios::binary)
          .write(reinterpret_cast<const char*>(blob.data()), static_cast<std::streamsize>(blob.size()));
      void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
      if (!library) fail("acme.c/load", "a kernel cannot be loaded: ", dlerror());
      module->push_back(library);
    }
    return module.release();
  }
  void module_unload(void* module) override {
    const std::unique_ptr<Module> libraries(static_cast<Module*>(module));
    for (void* library : *libraries) dlclose(library);
  }
  void* function(void* module, std::string_view entry) override {
    for (void* library : *static_cast<Module*>(module))
      if (void* found = dlsym(library, std::string(entry).c_str())) return found;
    fail("acme.c/load", "no kernel is named '", entry, "'");
  }
  void launch(const fe_launch_args& args) override {
    if (args.tasks <= 0) return;
    auto run = [](void* self, int64_t begin, int64_t end, int64_t worker) {
      const auto& a = *static_cast<const fe_launch_args*>(self);
      auto* workspace = static_cast<char*>(a.workspace);
      if (workspace) workspace += worker * a.workspace_bytes;
      reinterpret_cast<Entry>(a.function)(a.buffers, begin, end, workspace, a.error);
    };
    fe_launch_args copy = args;
    if (args.tasks <= args.grain || args.workers == 1) return run(&copy, 0, args.tasks, 0);
    host_.parallel_for(args.tasks, args.grain, args.workers, &copy, run);
  }

 private:
  Host host_;
};

}  // namespace
}  // namespace acme

FERRITE_PLUGIN("acme.c", "1.0.0", [](ferrite::PluginBuilder& builder, const ferrite::PluginContext& context) {
  builder.add(std::make_unique<acme::Compiler>(context.config.integer("workspace", 0)));
  builder.add(std::make_unique<acme::HostRuntime>(context.host));
})
