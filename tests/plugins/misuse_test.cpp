// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What only a program over the core can ask for: lowering before sizes are known, calls whose function is not
// in the text.
#include "core/ir/text/parse_loops.h"
#include "core/ir/text/print_loops.h"
#include "plugin_support.h"

namespace ferrite::core::plugin::test {
namespace {

TEST(Lowering, WantsSizes) {
  auto session = open({});
  ASSERT_TRUE(session) << session.error().message();
  Ledger ledger;
  auto compiled = compile(**session, R"(ferrite graph 0
graph @open(%x: f32[$n]) -> (%0 "y") {
  symbol $n in [1, 64]
  %0 = relu(%x)
}
)",
                          ledger);
  ASSERT_FALSE(compiled);
  EXPECT_EQ(compiled.error().code, "FE-G27") << compiled.error().message();
}

TEST(Kernel, OfAPluginIsNotInItsText) {
  auto session = open({request("c_kernel")});
  ASSERT_TRUE(session) << session.error().message();
  Ledger ledger;
  auto compiled = compile(
      **session,
      "ferrite graph 0\ngraph @one(%x: f32[4]) -> (%0 \"y\") {\n  %0 = test.running_sum(%x) : f32[4]\n}\n",
      ledger);
  ASSERT_TRUE(compiled) << compiled.error().message();
  EXPECT_TRUE(evaluate(*compiled, some_input));
  auto read = loop::parse_program(loop::print(*compiled->program), "printed.fe");
  ASSERT_TRUE(read) << read.error().message();
  compiled->program = std::move(*read);
  auto result = evaluate(*compiled, some_input);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, "FE-X22") << result.error().message();
}

}  // namespace
}  // namespace ferrite::core::plugin::test
