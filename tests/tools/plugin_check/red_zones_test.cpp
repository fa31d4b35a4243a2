// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What kernels write beside their buffers, on a device with memory of its own.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <memory>
#include <string>

#include "core/link/arena_plan.h"
#include "runtime/device.h"
#include "tests/plugins/plugin_support.h"
#include "tools/plugin_check/backend.h"
#include "tools/plugin_check/conformance/kernel_text.h"

namespace ferrite::core::plugin_check {
namespace {

TEST(KeepApart, NoTwoPlacesTouch) {
  link::ArenaNeeds needs;
  needs.keep(7, 100, 0);
  needs.keep(3, 4096, 1);
  needs.keep(5, 0, 2);
  needs.workspaces = {{1000, 0, 0}, {50, 2, 2}};
  link::ArenaPlan plan(needs, 128, INT64_MAX);
  plan.keep_apart();
  const auto parts = plan.parts();
  ASSERT_EQ(parts.size(), 4u);
  int64_t end = 0;
  for (const auto& part : parts) {
    EXPECT_EQ(part.offset % 128, 0);
    EXPECT_GE(part.offset, end + 256);
    end = part.offset + part.bytes;
    if (part.buffer != loop::none) {
      EXPECT_EQ(plan.offsets().at(part.buffer), part.offset);
    }
  }
  EXPECT_GE(plan.bytes(), end + 256);
  for (const size_t group : {0u, 2u}) EXPECT_EQ(plan.workspaces().at(group), parts.back().offset);
}

class RedZones : public testing::Test {
 protected:
  void SetUp() override {
    config::Pipeline pipeline;
    pipeline.plugins.push_back(plugin::test::request("overrun"));
    auto session = Session::open(pipeline);
    ASSERT_TRUE(session) << session.error().message();
    session_ = std::move(*session);
    auto device = runtime::Device::open("overrun", session_->registry());
    ASSERT_TRUE(device) << device.error().message();
    devices_ = {*device};
  }

  /// The finding for a kernel that applies these primitives to a row, one after the other; "" if there is
  /// none.
  std::string said(const std::vector<std::string>& prims) {
    const Dims dims = {83};
    Text text;
    std::string from = text.input(f32, dims);
    const std::string out = text.output(f32, dims);
    for (size_t k = 0; k < prims.size(); ++k) {
      const auto to = k + 1 < prims.size() ? text.temporary(f32, dims) : out;
      text.line("map (i0 < 83) {{\n  %0 = load {}[i0] : f32\n  %1 = {} %0\n  store {}[i0] = %1\n}}", from,
                prims[k], to);
      from = to;
    }
    const auto result = run_case({"row", text.finish(out), {Values::ordinary}}, devices_, 1);
    if (result) return result->declined ? "declined: " + result->reason : "";
    EXPECT_EQ(result.error().code, "FE-P52");
    return result.error().text;
  }

  std::unique_ptr<Session> session_;
  runtime::Devices devices_;
};

#define EXPECT_SAYS(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)

TEST_F(RedZones, AreUntouchedByWhatIsRight) {
  EXPECT_EQ(said({"neg"}), "");
  EXPECT_EQ(said({"neg", "neg", "neg"}), "");
}

TEST_F(RedZones, BehindTheEnd) {
  EXPECT_SAYS(
      said({"abs"}),
      "memory of overrun:0 outside of every buffer was written, first 0 bytes after the end of output 0");
}

TEST_F(RedZones, BeforeTheBeginning) { EXPECT_SAYS(said({"exp"}), "4 bytes before output 0"); }

TEST_F(RedZones, BehindAWorkspace) { EXPECT_SAYS(said({"sqrt"}), "0 bytes after the end of a workspace"); }

TEST_F(RedZones, BesideWhatLivesBetweenKernels) {
  EXPECT_SAYS(said({"abs", "neg"}), "0 bytes after the end of buffer @2");
  // Nothing lies there that was written before, or is later.
  EXPECT_SAYS(said({"neg", "abs", "neg", "neg", "neg"}), "0 bytes after the end of buffer @3");
  EXPECT_SAYS(said({"neg", "exp", "neg"}), "4 bytes before buffer @3");
}

}  // namespace
}  // namespace ferrite::core::plugin_check
