// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Cases of the conformance list that are there for one way of laying out a kernel are laid out so.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <memory>

#include "driver/compile.h"
#include "driver/config/manifest.h"
#include "driver/session.h"
#include "tools/plugin_check/backend.h"
#include "tools/plugin_check/conformance/kernel_forms.h"

namespace ferrite::core::plugin_check {
namespace {

class Forms : public testing::Test {
 protected:
  void SetUp() override {
    const auto pipeline =
        config::read_pipeline_text("schema = 0\nenable = [\"ferrite.cuda\"]\n", "manifest.toml", {});
    ASSERT_TRUE(pipeline) << pipeline.error().message();
    auto session = Session::open(*pipeline);
    ASSERT_TRUE(session) << session.error().message();
    session_ = std::move(*session);
  }

  /// The code of a case for a target.
  std::string code(const KernelCase& kernel, const runtime::Target& target) {
    const std::vector<runtime::Target> targets = {target};
    const auto devices = runtime::open_devices(target.kind, session_->registry(), targets);
    EXPECT_TRUE(devices) << devices.error().message();
    if (!devices) return {};
    auto schedule = schedule_of(kernel, *devices);
    EXPECT_TRUE(schedule) << schedule.error().message();
    CompileOptions options;
    options.device = target.kind;
    options.targets = targets;
    options.from = "emit";
    options.to = "code";
    Ledger ledger;
    auto compiled = compile(std::move(*schedule), session_->registry(), options, ledger);
    EXPECT_TRUE(compiled) << compiled.error().message();
    return compiled ? compiled->text() : std::string();
  }

  /// The code of each of a cell's cases whose name has `part`, of which there are `count`, is one kernel that
  /// has `mark`.
  void expect(const KernelCell& cell, std::string_view part, size_t count, const runtime::Target& target,
              std::string_view mark) {
    size_t found = 0;
    for (const auto& kernel : cases_of(cell)) {
      if (kernel.name.find(part) == std::string::npos) continue;
      SCOPED_TRACE(
          fmt::format("{} {}, {}, for {}", cell.name, name_of(cell.dtype), kernel.name, target.description));
      const auto text = code(kernel, target);
      const auto first = text.find("\nkernel ");
      EXPECT_NE(first, std::string::npos);
      EXPECT_EQ(text.find("\nkernel ", first + 1), std::string::npos);
      EXPECT_NE(text.find(mark), std::string::npos);
      ++found;
    }
    EXPECT_EQ(found, count) << cell.name << " " << name_of(cell.dtype) << ", " << part;
  }

  std::unique_ptr<Session> session_;
};

const runtime::Target cuda = {"cuda", "sm_90a"}, cpu = {"cpu", "x86-64-v3"};

/// What the threads of the same columns have is combined by halves.
TEST_F(Forms, ReductionsByColumns) {
  for (const DType dtype : {f16, f32, f64, i8}) {
    const auto rows = rows_of_columns(dtype);
    for (const int64_t length : rows)
      for (const auto* kind : {"sum", "argmax"})
        expect({"reduce", dtype}, fmt::format("{} of {}x{}x{}", kind, rows_of_sums, outer_of_columns, length),
               1, cuda, "combine:");
  }
}

TEST_F(Forms, ProductsWhoseDepthAClusterShares) {
  for (const DType dtype : {f16, bf16, f32, f64}) expect({"contract", dtype}, "37x16x1788", 2, cuda, "mapa.");
}

/// The machine's exponentials are there only.
TEST_F(Forms, StreamingAttention) {
  for (const DType dtype : {f16, bf16})
    for (const auto* shape : {"26x40x24x16", "70x61x32x40", "65x136x40x24", "77x150x16x16"})
      expect({"contract", dtype}, shape, 1, cuda, "llvm.nvvm.ex2");
}

TEST_F(Forms, AttentionByTilesOfColumns) {
  for (const DType dtype : {f16, bf16, f32}) expect({"contract", dtype}, "20x7400x8x8", 1, cpu, "running:");
}

TEST_F(Forms, AttentionByWholeRows) {
  for (const auto* shape : {"26x40x24x16", "70x61x32x40", "65x136x40x24", "77x150x16x16"})
    expect({"contract", f32}, shape, 1, cpu, "panel");
}

}  // namespace
}  // namespace ferrite::core::plugin_check
