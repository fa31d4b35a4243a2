// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The embedding API refuses what is wrong with a class, a code and a place, and can be used on afterwards.
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "ferrite/ferrite.h"
#include "ferrite/ferrite.hpp"

namespace {

constexpr const char* model_text =
    "ferrite graph 0\n"
    "graph @sum(%x: f32[$n,3], %y: f32[$n,3]) -> (%0 \"sum\") {\n"
    "  symbol $n in [1, 64]\n"
    "  %0 = add(%x, %y)\n"
    "}\n";

/// A float tensor on memory of its own, to be bent in one way each.
struct Bound {
  std::vector<float> elements;
  std::vector<int64_t> shape;
  DLTensor tensor{};
  explicit Bound(std::vector<int64_t> dims) : shape(std::move(dims)) {
    size_t count = 1;
    for (int64_t dim : shape) count *= static_cast<size_t>(dim);
    elements.assign(count, 1.0f);
    tensor.data = elements.data();
    tensor.device = {kDLCPU, 0};
    tensor.ndim = static_cast<int32_t>(shape.size());
    tensor.dtype = {kDLFloat, 32, 1};
    tensor.shape = shape.data();
  }
};

class EmbedTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() / ("ferrite-embed-test-" + std::to_string(::getpid()));
    std::filesystem::create_directories(folder_);
    std::ofstream(file("sum.fe")) << model_text;
    ASSERT_EQ(ferrite_session_open(nullptr, &session_), FERRITE_OK);
    ASSERT_EQ(ferrite_model_load(session_, file("sum.fe").c_str(), &model_), FERRITE_OK);
  }
  void TearDown() override {
    ferrite_model_free(model_);
    ferrite_session_close(session_);
    std::filesystem::remove_all(folder_);
  }
  std::string file(const char* name) const { return (folder_ / name).string(); }

  /// What the last call reported: status, code and place.
  static void refused(int32_t status, int32_t expected, const std::string& code, const std::string& where) {
    ferrite_error error{};
    error.size = sizeof error;
    ferrite_last_error(&error);
    EXPECT_EQ(status, expected) << error.text;
    EXPECT_EQ(error.status, expected);
    EXPECT_EQ(error.code, code) << error.text;
    EXPECT_NE(std::string(error.where).find(where), std::string::npos) << error.where;
    EXPECT_STRNE(error.text, "");
  }
  int32_t open_session(const ferrite_session_options& options) {
    ferrite_session* session = nullptr;
    const int32_t status = ferrite_session_open(&options, &session);
    EXPECT_EQ(session, nullptr);
    return status;
  }
  int32_t run(const DLTensor* x, const DLTensor* y, DLTensor* sum) {
    const DLTensor* inputs[] = {x, y};
    DLTensor* outputs[] = {sum};
    return ferrite_run(model_, inputs, 2, outputs, 1);
  }

  std::filesystem::path folder_;
  ferrite_session* session_ = nullptr;
  ferrite_model* model_ = nullptr;
  Bound x_{{2, 3}}, y_{{2, 3}}, sum_{{2, 3}};
};

ferrite_session_options session_options() {
  ferrite_session_options options{};
  options.size = sizeof options;
  return options;
}

TEST_F(EmbedTest, RunsWhatIsRight) {
  ASSERT_EQ(run(&x_.tensor, &y_.tensor, &sum_.tensor), FERRITE_OK);
  EXPECT_EQ(sum_.elements, std::vector<float>(6, 2.0f));
}

TEST_F(EmbedTest, ChangesInputsThatTheModelChanges) {
  std::ofstream(file("cache.fe"))
      << "ferrite graph 0\n"
         "graph @cache(%c: f32[2,3] mutated_by %0, %u: f32[2,3]) -> (%1 \"sum\") {\n"
         "  %0 = add(%c, %u)\n"
         "  %1 = reduce_sum(%0) {axes = [0, 1], keepdims = false}\n"
         "}\n";
  for (const char* device : {"cpu", "interpreter"}) {
    ferrite_session_options options{};
    options.size = sizeof options;
    options.device = device;
    ferrite_session* session = nullptr;
    ferrite_model* model = nullptr;
    ASSERT_EQ(ferrite_session_open(&options, &session), FERRITE_OK);
    ASSERT_EQ(ferrite_model_load(session, file("cache.fe").c_str(), &model), FERRITE_OK);
    Bound cache({2, 3}), update({2, 3}), sum({});
    const std::array<const DLTensor*, 2> inputs = {&cache.tensor, &update.tensor};
    const std::array<DLTensor*, 1> outputs = {&sum.tensor};
    for (const float step : {2.0f, 3.0f}) {
      EXPECT_EQ(ferrite_run(model, inputs.data(), 2, outputs.data(), 1), FERRITE_OK);
      EXPECT_EQ(sum.elements[0], 6 * step) << device;
      EXPECT_EQ(cache.elements, std::vector<float>(6, step)) << device;
    }
    ferrite_model_free(model);
    ferrite_session_close(session);
  }
}

TEST_F(EmbedTest, RefusesSessions) {
  refused(ferrite_session_open(nullptr, nullptr), FERRITE_EINVALID, "FE-X30", "ferrite_session_open");
  auto options = session_options();
  const auto missing = file("none.toml");
  options.manifest = missing.c_str();
  refused(open_session(options), FERRITE_EINVALID, "FE-M14", "none.toml");
  std::ofstream(file("bad.toml")) << "schema = 0\nenabel = []\n";
  const auto bad = file("bad.toml");
  options.manifest = bad.c_str();
  refused(open_session(options), FERRITE_EINVALID, "FE-M02", "bad.toml:2:1");
  options = session_options();
  options.log = "nothing";
  refused(open_session(options), FERRITE_EINVALID, "FE-C03", "");
  for (const char* path : {"", "none.so", "/dev/null"}) {
    options = session_options();
    options.plugins = &path;
    options.plugin_count = 1;
    refused(open_session(options), FERRITE_EINVALID, "FE-M06", "--plugin");
  }
  const char* none = nullptr;
  options.plugins = &none;
  refused(open_session(options), FERRITE_EINVALID, "FE-X30", "ferrite_session_open");
}

TEST_F(EmbedTest, RefusesDevicesThatAreNotThere) {
  for (const char* device : {"nothing", "cpu:7", "cpu:-1", "interpreter:9"}) {
    auto options = session_options();
    options.device = device;
    ferrite_session* session = nullptr;
    ferrite_model* model = nullptr;
    ASSERT_EQ(ferrite_session_open(&options, &session), FERRITE_OK);
    ASSERT_EQ(ferrite_model_load(session, file("sum.fe").c_str(), &model), FERRITE_OK);
    const DLTensor* inputs[] = {&x_.tensor, &y_.tensor};
    refused(ferrite_model_compile(model, inputs, 2), FERRITE_EINVALID, "FE-D01",
            std::string("device ") + device);
    ferrite_model_free(model);
    ferrite_session_close(session);
  }
}

TEST_F(EmbedTest, WritesPackages) {
  const DLTensor* inputs[] = {&x_.tensor, &y_.tensor};
  const auto path = file("sum.fepkg");
  ASSERT_EQ(ferrite_model_save(model_, inputs, 2, nullptr, 0, path.c_str()), FERRITE_OK);
  ferrite_model* package = nullptr;
  ASSERT_EQ(ferrite_model_load(session_, path.c_str(), &package), FERRITE_OK);
  DLTensor* outputs[] = {&sum_.tensor};
  ASSERT_EQ(ferrite_run(package, inputs, 2, outputs, 1), FERRITE_OK);
  EXPECT_EQ(sum_.elements, std::vector<float>(6, 2.0f));
  ferrite_model_free(package);
}

TEST_F(EmbedTest, RefusesPackages) {
  const DLTensor* inputs[] = {&x_.tensor, &y_.tensor};
  const auto path = file("refused.fepkg");
  const auto save = [&](uint64_t count, const char* const* targets, uint64_t target_count, const char* to) {
    return ferrite_model_save(model_, inputs, count, targets, target_count, to);
  };
  refused(save(1, nullptr, 0, path.c_str()), FERRITE_EINVALID, "FE-X01", "");
  refused(save(2, nullptr, 1, path.c_str()), FERRITE_EINVALID, "FE-X30", "ferrite_model_save");
  refused(save(2, nullptr, 0, nullptr), FERRITE_EINVALID, "FE-X30", "ferrite_model_save");
  const char* target = nullptr;
  refused(save(2, &target, 1, path.c_str()), FERRITE_EINVALID, "FE-X30", "ferrite_model_save");
  target = "no-such-target";
  refused(save(2, &target, 1, path.c_str()), FERRITE_EINVALID, "ferrite.cpu/target", "no-such-target");
  refused(save(2, nullptr, 0, file("none/refused.fepkg").c_str()), FERRITE_EINVALID, "FE-K55",
          "refused.fepkg");
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST_F(EmbedTest, RefusesModels) {
  ferrite_model* model = nullptr;
  refused(ferrite_model_load(nullptr, "sum.fe", &model), FERRITE_EINVALID, "FE-X30", "ferrite_model_load");
  refused(ferrite_model_load(session_, nullptr, &model), FERRITE_EINVALID, "FE-X30", "ferrite_model_load");
  refused(ferrite_model_load(session_, file("sum.fe").c_str(), nullptr), FERRITE_EINVALID, "FE-X30",
          "ferrite_model_load");
  refused(ferrite_model_load(session_, file("none.fe").c_str(), &model), FERRITE_EINVALID, "FE-I01",
          "none.fe");
  refused(ferrite_model_load(session_, "", &model), FERRITE_EINVALID, "FE-I01", "MODEL");
  refused(ferrite_model_load(session_, folder_.c_str(), &model), FERRITE_EINVALID, "FE-I01",
          folder_.string());
  std::ofstream(file("model.unknown")) << "something";
  refused(ferrite_model_load(session_, file("model.unknown").c_str(), &model), FERRITE_EUNSUPPORTED, "FE-I02",
          "model.unknown");
  std::ofstream(file("bad.fe")) << "ferrite graph 0\ngraph";
  refused(ferrite_model_load(session_, file("bad.fe").c_str(), &model), FERRITE_EINVALID, "FE-G02",
          "bad.fe:2:");
  EXPECT_EQ(model, nullptr);
}

TEST_F(EmbedTest, RefusesPorts) {
  ferrite_port port{};
  port.size = sizeof port;
  refused(ferrite_model_input(nullptr, 0, &port), FERRITE_EINVALID, "FE-X30", "ferrite_model_input");
  refused(ferrite_model_input(model_, 0, nullptr), FERRITE_EINVALID, "FE-X30", "ferrite_model_input");
  refused(ferrite_model_input(model_, 2, &port), FERRITE_EINVALID, "FE-X30", "ferrite_model_input");
  refused(ferrite_model_output(model_, 1, &port), FERRITE_EINVALID, "FE-X30", "ferrite_model_output");
  port.size = 0;
  refused(ferrite_model_output(model_, 0, &port), FERRITE_EINVALID, "FE-X30", "ferrite_model_output");
  EXPECT_EQ(ferrite_model_input_count(nullptr), 0u);
}

TEST_F(EmbedTest, RefusesTensorsThatDoNotFitTheModel) {
  const DLTensor* one[] = {&x_.tensor};
  DLTensor* outputs[] = {&sum_.tensor};
  refused(ferrite_run(model_, one, 1, outputs, 1), FERRITE_EINVALID, "FE-X01", "");
  const DLTensor* both[] = {&x_.tensor, &y_.tensor};
  refused(ferrite_run(model_, both, 2, outputs, 0), FERRITE_EINVALID, "FE-X01", "");
  refused(ferrite_run(model_, nullptr, 2, outputs, 1), FERRITE_EINVALID, "FE-X30", "");
  refused(ferrite_run(nullptr, both, 2, outputs, 1), FERRITE_EINVALID, "FE-X30", "ferrite_run");
  refused(run(&x_.tensor, nullptr, &sum_.tensor), FERRITE_EINVALID, "FE-X30", "'y'");

  Bound rank({6}), fixed({2, 4}), other({5, 3});
  refused(run(&rank.tensor, &y_.tensor, &sum_.tensor), FERRITE_EINVALID, "FE-X03", "sum.fe");
  refused(run(&fixed.tensor, &y_.tensor, &sum_.tensor), FERRITE_EINVALID, "FE-X04", "sum.fe");
  refused(run(&other.tensor, &y_.tensor, &sum_.tensor), FERRITE_EINVALID, "FE-X04", "sum.fe");

  Bound bent({2, 3});
  bent.tensor.dtype = {kDLFloat, 64, 1};
  refused(run(&bent.tensor, &y_.tensor, &sum_.tensor), FERRITE_EINVALID, "FE-X02", "'x'");
  bent.tensor.dtype = {kDLFloat, 32, 4};
  refused(run(&bent.tensor, &y_.tensor, &sum_.tensor), FERRITE_EINVALID, "FE-X02", "'x'");
  bent = Bound({2, 3});
  bent.tensor.device = {static_cast<DLDeviceType>(2), 0};
  refused(run(&bent.tensor, &y_.tensor, &sum_.tensor), FERRITE_EUNSUPPORTED, "FE-X33", "'x'");
  Bound null({2, 3});
  null.tensor.data = nullptr;
  refused(run(&null.tensor, &y_.tensor, &sum_.tensor), FERRITE_EINVALID, "FE-X30", "'x'");
  Bound shape({2, 3});
  shape.tensor.ndim = -1;
  refused(run(&shape.tensor, &y_.tensor, &sum_.tensor), FERRITE_EINVALID, "FE-X32", "'x'");
  shape.tensor.ndim = 2;
  shape.shape[0] = -2;
  refused(run(&shape.tensor, &y_.tensor, &sum_.tensor), FERRITE_EINVALID, "FE-X32", "'x'");
  shape.shape[0] = INT64_MAX;
  refused(run(&shape.tensor, &y_.tensor, &sum_.tensor), FERRITE_EINVALID, "FE-X32", "'x'");
  shape.tensor.shape = nullptr;
  refused(run(&shape.tensor, &y_.tensor, &sum_.tensor), FERRITE_EINVALID, "FE-X32", "'x'");
  EXPECT_EQ(run(&x_.tensor, &y_.tensor, &sum_.tensor), FERRITE_OK);
}

TEST_F(EmbedTest, RefusesOutputs) {
  Bound transposed({3, 2});
  refused(run(&x_.tensor, &y_.tensor, &transposed.tensor), FERRITE_EINVALID, "FE-X35", "'sum'");
  Bound strided({2, 3});
  int64_t strides[] = {1, 2};
  strided.tensor.strides = strides;
  refused(run(&x_.tensor, &y_.tensor, &strided.tensor), FERRITE_EINVALID, "FE-X35", "'sum'");
  Bound odd({2, 3});
  odd.tensor.byte_offset = 1;
  refused(run(&x_.tensor, &y_.tensor, &odd.tensor), FERRITE_EINVALID, "FE-X35", "'sum'");
  Bound null({2, 3});
  null.tensor.data = nullptr;
  refused(run(&x_.tensor, &y_.tensor, &null.tensor), FERRITE_EINVALID, "FE-X30", "'sum'");
  refused(run(&x_.tensor, &y_.tensor, nullptr), FERRITE_EINVALID, "FE-X30", "'sum'");
  const DLTensor* both[] = {&x_.tensor, &y_.tensor};
  DLManagedTensorVersioned* made[2] = {nullptr, nullptr};
  refused(ferrite_run_alloc(model_, both, 2, made, 2), FERRITE_EINVALID, "FE-X01", "ferrite_run_alloc");
  refused(ferrite_run_alloc(model_, both, 2, nullptr, 1), FERRITE_EINVALID, "FE-X30", "ferrite_run_alloc");
  EXPECT_EQ(made[0], nullptr);
}

TEST_F(EmbedTest, RefusesResultsThatNobodyCanHold) {
  std::ofstream(file("padded.fe")) << "ferrite graph 0\n"
                                      "graph @padded(%x: f32[2,3]) -> (%0 \"padded\") {\n"
                                      "  %0 = pad(%x) {low = [4999, 1300000000], high = [0, 0]}\n"
                                      "}\n";
  ferrite_model* model = nullptr;
  ASSERT_EQ(ferrite_model_load(session_, file("padded.fe").c_str(), &model), FERRITE_OK);
  const std::array<const DLTensor*, 1> inputs = {&x_.tensor};
  const std::array<DLTensor*, 1> outputs = {&sum_.tensor};
  refused(ferrite_run(model, inputs.data(), 1, outputs.data(), 1), FERRITE_ENOMEM, "FE-S30", "");
  ferrite_model_free(model);
}

TEST_F(EmbedTest, RefusesReportsBeforeARun) {
  ferrite_stats stats{};
  stats.size = sizeof stats;
  refused(ferrite_model_stats(model_, &stats), FERRITE_EINVALID, "FE-X34", "ferrite_model_stats");
  auto write = [](void*, const char*, uint64_t) {};
  refused(ferrite_model_ledger(model_, nullptr, write), FERRITE_EINVALID, "FE-X34", "ferrite_model_ledger");
  refused(ferrite_model_ledger(model_, nullptr, nullptr), FERRITE_EINVALID, "FE-X30", "ferrite_model_ledger");
  refused(ferrite_model_stats(model_, nullptr), FERRITE_EINVALID, "FE-X30", "ferrite_model_stats");
  ferrite_last_error(nullptr);
}

TEST_F(EmbedTest, RefusesWhatIsNull) {
  auto write = [](void*, const char*, uint64_t) {};
  const auto refuses = [](int32_t status, const char* function) {
    refused(status, FERRITE_EINVALID, "FE-X30", function);
  };
  ferrite_model *model = nullptr, *other = nullptr;
  refuses(ferrite_session_passes(nullptr, "pre_grad", nullptr, write), "ferrite_session_passes");
  refuses(ferrite_session_passes(session_, nullptr, nullptr, write), "ferrite_session_passes");
  refuses(ferrite_session_passes(session_, "pre_grad", nullptr, nullptr), "ferrite_session_passes");
  refuses(ferrite_session_identity(nullptr, nullptr, write), "ferrite_session_identity");
  refuses(ferrite_session_identity(session_, nullptr, nullptr), "ferrite_session_identity");
  const auto take = [](void*, const void*, uint64_t) {};
  refuses(ferrite_model_package(nullptr, nullptr, 0, nullptr, take), "ferrite_model_package");
  refuses(ferrite_model_package(model_, nullptr, 0, nullptr, nullptr), "ferrite_model_package");
  refuses(ferrite_model_load_bytes(nullptr, "sum.fe", "", 0, &model), "ferrite_model_load_bytes");
  refuses(ferrite_model_load_bytes(session_, nullptr, "", 0, &model), "ferrite_model_load_bytes");
  refuses(ferrite_model_load_bytes(session_, "sum.fe", nullptr, 1, &model), "ferrite_model_load_bytes");
  refuses(ferrite_model_load_bytes(session_, "sum.fe", "", 0, nullptr), "ferrite_model_load_bytes");
  refuses(ferrite_model_unsupported(nullptr, nullptr, write), "ferrite_model_unsupported");
  refuses(ferrite_model_unsupported(model_, nullptr, nullptr), "ferrite_model_unsupported");
  const auto regions = [&](ferrite_model* of, const char* phase, const uint64_t* outputs, uint64_t count) {
    return ferrite_model_changed_regions(of, phase, outputs, count, nullptr, write);
  };
  const uint64_t none_such = 1;
  refuses(regions(nullptr, "pre_grad", nullptr, 0), "ferrite_model_changed_regions");
  refuses(regions(model_, nullptr, nullptr, 0), "ferrite_model_changed_regions");
  refuses(regions(model_, "pre_grad", nullptr, 1), "ferrite_model_changed_regions");
  refuses(regions(model_, "pre_grad", &none_such, 1), "ferrite_model_changed_regions");
  refuses(ferrite_model_changed_regions(model_, "pre_grad", nullptr, 0, nullptr, nullptr),
          "ferrite_model_changed_regions");
  const std::array<uint8_t, 2> kinds = {FERRITE_INPUT_TRANSIENT, FERRITE_INPUT_TRANSIENT};
  const std::array<const char*, 1> names = {nullptr};
  const auto divides = [&](auto&& change) {
    ferrite_partition_options options{};
    options.size = sizeof options;
    options.input_kinds = kinds.data();
    change(options);
    return ferrite_model_partition(model_, &options, &model, &other);
  };
  refuses(ferrite_model_partition(model_, nullptr, &model, &other), "ferrite_model_partition");
  refuses(divides([](auto& options) { options.input_kinds = nullptr; }), "ferrite_model_partition");
  refuses(divides([](auto& options) { options.saved_count = 1; }), "ferrite_model_partition");
  refuses(divides([](auto& options) { options.recomputed_count = 1; }), "ferrite_model_partition");
  refuses(divides([&](auto& options) { options.saved = names.data(), options.saved_count = 1; }),
          "ferrite_model_partition");
  refuses(divides([&](auto& options) { options.recomputed = names.data(), options.recomputed_count = 1; }),
          "ferrite_model_partition");
  refuses(divides([](auto& options) { options.order_count = 1, options.reorder_op = "transpose"; }),
          "ferrite_model_partition");
  const std::array<int64_t, 2> numbers = {0, 1};
  for (const auto& order :
       {ferrite_saved_order{nullptr, numbers.data(), 2}, ferrite_saved_order{numbers.data(), nullptr, 2}})
    refuses(divides([&](auto& options) {
              options.orders = &order, options.order_count = 1, options.reorder_op = "transpose";
            }),
            "ferrite_model_partition");
  const ferrite_saved_order whole{numbers.data(), numbers.data(), 2};
  refuses(divides([&](auto& options) { options.orders = &whole, options.order_count = 1; }),
          "ferrite_model_partition");
  refused(divides([](auto& options) { options.forward_outputs = 2; }), FERRITE_EINVALID, "FE-G58",
          "ferrite_model_partition");
  for (const int64_t threads : {-1, 4097}) {
    auto options = session_options();
    options.threads = threads;
    refused(open_session(options), FERRITE_EINVALID, "FE-X30", "ferrite_session_open");
  }
  refuses(ferrite_model_joint(nullptr, 0, nullptr, &model), "ferrite_model_joint");
  refuses(ferrite_model_joint(model_, 0, nullptr, nullptr), "ferrite_model_joint");
  refused(ferrite_model_joint(model_, 2, nullptr, &model), FERRITE_EINVALID, "FE-G58", "ferrite_model_joint");
  refused(ferrite_model_joint(model_, 1, nullptr, &model), FERRITE_EINVALID, "FE-X04", "");
  EXPECT_EQ(model, nullptr);
  EXPECT_EQ(other, nullptr);
}

TEST_F(EmbedTest, WrapperDividesJointModels) {
  const std::string text =
      "ferrite graph 0\n"
      "graph @joint(%x: f32[4], %dy: f32[4]) -> (%y \"y\", %dx \"dx\") {\n"
      "  %y = sin(%x)\n"
      "  %c = cos(%x)\n"
      "  %dx = mul(%dy, %c)\n"
      "}\n";
  const ferrite::Session session;
  const ferrite::Model joint(session, "joint.fe", std::as_bytes(std::span(text)));
  EXPECT_THROW(joint.unsupported(), ferrite::Error);  // this format has no nodes of another system
  EXPECT_EQ(joint.changed_regions("pre_grad", std::array<uint64_t, 1>{0}), "[]");
  ferrite::PartitionOptions options;
  options.forward_outputs = 1;
  EXPECT_THROW(joint.partition(options), ferrite::Error);
  options.input_kinds = {FERRITE_INPUT_HELD, FERRITE_INPUT_TANGENT};
  auto [forward, backward] = joint.partition(options);
  ASSERT_EQ(forward.outputs().size(), 1U);
  ASSERT_EQ(backward.inputs().size(), 2U);
  const std::array<float, 4> zero{}, two = {2, 2, 2, 2};
  const auto x = ferrite::Tensor::of<float>({4}, zero), dy = ferrite::Tensor::of<float>({4}, two);
  EXPECT_EQ(forward.run({x})[0].elements<float>()[3], 0.0F);
  const bool x_first = backward.inputs()[0].name == "x";
  EXPECT_EQ(backward.run(x_first ? std::vector{x, dy} : std::vector{dy, x})[0].elements<float>()[3], 2.0F);
  EXPECT_EQ(joint.joint(1).run({x, dy})[1].elements<float>()[3], 2.0F);
  const std::vector inputs = {x};
  forward.save(file("forward.fepkg"), inputs);
  EXPECT_EQ(ferrite::Model(session, file("forward.fepkg")).run({x})[0].elements<float>()[0], 0.0F);
  EXPECT_NE(session.passes("post_grad_pre"), "");
  const auto bytes = forward.package(inputs);
  EXPECT_EQ(forward.package(inputs), bytes);
  ferrite::Model packaged(session, "forward.fepkg", std::as_bytes(std::span(bytes)));
  EXPECT_EQ(packaged.run({x})[0].elements<float>()[0], 0.0F);
  EXPECT_THROW(packaged.package(inputs), ferrite::Error);
}

TEST_F(EmbedTest, SessionsThatCompileAlikeAreIdentical) {
  std::ofstream(file("one.toml")) << "schema = 0\nextends = \"default\"\n";
  std::ofstream(file("other.toml")) << "schema = 0\nextends = \"default\"\n[pipeline]\nfuse = false\n";
  ferrite::SessionOptions options;
  options.manifest = file("one.toml");
  const auto identity = ferrite::Session(options).identity();
  EXPECT_EQ(ferrite::Session(options).identity(), identity);
  options.manifest = file("other.toml");
  EXPECT_NE(ferrite::Session(options).identity(), identity);
}

TEST_F(EmbedTest, PicksAProfileOrNothingButBuiltIns) {
  std::ofstream(file("ferrite.toml")) << "schema = 0\n[profile.none.pipeline]\ndevice = \"interpreter\"\n"
                                         "[profile.broken]\nenable = [\"acme.gone\"]\n";
  ferrite::SessionOptions options;
  options.manifest = file("ferrite.toml");
  auto code = [&] {
    try {
      const ferrite::Session session(options);
      return std::string("opened");
    } catch (const ferrite::Error& fault) {
      return std::string(fault.code());
    }
  };
  EXPECT_EQ(code(), "opened");
  options.profile = "none";
  EXPECT_EQ(code(), "opened");
  options.profile = "nothing";
  EXPECT_EQ(code(), "FE-M19");
  options.profile = "broken";
  EXPECT_EQ(code(), "FE-M05");
  options.safe_mode = true;
  EXPECT_EQ(code(), "opened");
  options.tune = "cached";
  options.tf32 = true;
  EXPECT_EQ(code(), "opened");
  options.tune = "fast";
  EXPECT_EQ(code(), "FE-M03");
}

TEST_F(EmbedTest, WrapperThrows) {
  const std::array<float, 6> elements{};
  try {
    ferrite::Tensor::of<float>({2, 4}, elements);
    FAIL() << "8 elements were made of 6";
  } catch (const ferrite::Error& fault) {
    EXPECT_EQ(std::string(fault.code()), "FE-X32");
  }
  const auto tensor = ferrite::Tensor::of<float>({2, 3}, elements);
  try {
    tensor.elements<double>();
    FAIL() << "f32 was read as f64";
  } catch (const ferrite::Error& fault) {
    EXPECT_EQ(std::string(fault.code()), "FE-X31");
  }
}

}  // namespace
