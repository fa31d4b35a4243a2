// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Metric tables that are off cost nothing: none of their rows is made, and nothing is gathered of a
// compilation that nobody asked about.
#include "driver/observe/metric_tables.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <new>

#include "core/observe/observation.h"
#include "plugin_support.h"

namespace {

/// How often this thread took memory from the heap.
thread_local size_t allocations = 0;

void* allocate(size_t bytes) noexcept {
  ++allocations;
  return std::malloc(std::max<size_t>(bytes, 1));
}

}  // namespace

// Of the whole process, its plugins too. Arrays come here as well; what is aligned beyond that does not, and
// no row is. Inlined, they would be taken for free() of what new gave.
[[gnu::noinline]] void* operator new(size_t bytes) {
  if (void* data = allocate(bytes)) return data;
  throw std::bad_alloc();
}
[[gnu::noinline]] void* operator new(size_t bytes, const std::nothrow_t&) noexcept { return allocate(bytes); }
[[gnu::noinline]] void operator delete(void* data) noexcept { std::free(data); }
[[gnu::noinline]] void operator delete(void* data, size_t) noexcept { std::free(data); }

namespace ferrite::core::plugin::test {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view tables[] = {"graph", "fusion", "statement", "kernel", "cache", "selection"};

template <typename Work>
size_t allocations_of(const Work& work) {
  const size_t before = allocations;
  work();
  return allocations - before;
}

class Metrics : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "ferrite-metrics-XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
    model_path_ = (folder_ / "model.fe").string();
    unsetenv("FERRITE_METRICS");
    setenv("FERRITE_METRICS_DIR", name.c_str(), 1);
  }
  void TearDown() override {
    unsetenv("FERRITE_METRICS");
    unsetenv("FERRITE_METRICS_DIR");
    fs::remove_all(folder_);
  }

  /// Reads this text as a model, in a session of its own.
  void open_model(const std::string& text) {
    std::ofstream(model_path_) << text;
    auto pipeline = config::read_pipeline({});
    ASSERT_TRUE(pipeline) << pipeline.error().message();
    pipeline->plugins.push_back(request("c_kernel"));
    auto session = Session::open(*pipeline);
    ASSERT_TRUE(session) << session.error().message();
    model_.reset();  // it belongs to the session before
    session_ = std::move(*session);
    auto model = Model::open(*session_, model_path_);
    ASSERT_TRUE(model) << model.error().message();
    model_ = std::move(*model);
  }

  Result<std::shared_ptr<Program>> compiled(const std::vector<int64_t>& dims, observe::Observation* seen) {
    CompileOptions options;
    options.device = "cpu";
    options.threads = 1;
    options.observation = seen;
    return model_->program({&dims, 1}, options);
  }

  fs::path folder_;
  std::string model_path_;
  std::unique_ptr<Session> session_;
  std::unique_ptr<Model> model_;
};

TEST_F(Metrics, TablesThatAreOffTakeNoMemory) {
  open_model(R"(ferrite graph 0
graph @chain(%x: f32[64,64]) -> (%2 "y") {
  %0 = exp(%x) : f32[64,64] from "Exp"
  %1 = reduce_sum(%0) {axes = [1], keepdims = true} : f32[64,1] from "Sum"
  %2 = div(%0, %1) : f32[64,64] from "Div"
}
)");
  observe::Observation seen;
  seen.statements = true;
  const auto program = compiled({64, 64}, &seen);
  ASSERT_TRUE(program) << program.error().message();
  const observe::MetricSource source{model_path_, seen, (*program)->compilation, (*program)->ledger, {}};
  std::vector<observe::MetricTable> made;
  const auto cost = [&](const std::function<bool(std::string_view)>& wanted) {
    made.clear();
    return allocations_of([&] { made = observe::metric_tables(wanted, source); });
  };
  EXPECT_EQ(cost([](std::string_view) { return false; }), 0u);
  EXPECT_TRUE(made.empty());
  const size_t of_all = cost([](std::string_view) { return true; });
  ASSERT_EQ(made.size(), std::size(tables));
  for (const auto table : tables) {
    EXPECT_GT(cost([&](std::string_view name) { return name == table; }), 0u) << table;
    ASSERT_EQ(made.size(), 1u) << table;
    EXPECT_EQ(made[0].name, table);
    const size_t rows = made[0].rows.size();
    ASSERT_GT(rows, 0u) << table;
    // Beside tables that are on, too: each row is a list on the heap, whose first value is the model's name.
    EXPECT_LE(cost([&](std::string_view name) { return name != table; }) + 2 * rows, of_all) << table;
    EXPECT_EQ(made.size(), std::size(tables) - 1) << table;
  }
}

TEST_F(Metrics, NothingIsGatheredWhereNobodyAsks) {
  // The tables that are asked for ("": none), and who else looks. A function of a plugin is no kernel: all is
  // done by this thread, and each time the same.
  const auto cost = [&](const char* asked, observe::Observation* seen) {
    setenv("FERRITE_METRICS", asked, 1);
    if (!*asked) unsetenv("FERRITE_METRICS");
    open_model(
        "ferrite graph 0\ngraph @call(%x: f32[4,8]) -> (%y \"y\") {\n  %y = test.running_sum(%x)\n}\n");
    size_t taken = 0;
    if (HasFatalFailure()) return taken;
    taken = allocations_of([&] {
      const auto program = compiled({4, 8}, seen);
      ASSERT_TRUE(program) << program.error().message();
      ASSERT_TRUE((*program)->compilation.executable);
    });
    return taken;
  };
  cost("", nullptr);  // what the process keeps is made
  const size_t unasked = cost("", nullptr);
  observe::Observation seen;
  const size_t observed = cost("", &seen);
  EXPECT_FALSE(fs::exists(folder_ / "metric_graph.csv"));
  const size_t with_rows = cost("graph", nullptr);
  ASSERT_FALSE(HasFatalFailure());
  const size_t stages = seen.stages.size();
  ASSERT_GT(stages, 10u);
  // The span of a stage has its arguments on the heap, and a row its values.
  EXPECT_GE(observed, unasked + stages);
  EXPECT_GE(with_rows, observed + stages);
  std::ifstream file(folder_ / "metric_graph.csv");
  size_t lines = 0;
  for (std::string line; std::getline(file, line);) ++lines;
  EXPECT_EQ(lines, stages + 1);
}

}  // namespace
}  // namespace ferrite::core::plugin::test
