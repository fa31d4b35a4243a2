// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The parts of `ferrite plugin check` that need no plugin: messages, ELF files, tables of capabilities, the
// conformance list.
#include <gtest/gtest.h>

#include <fstream>
#include <limits>
#include <set>

#include "core/ir/loop/interpreter.h"
#include "core/ir/text/print_loops.h"
#include "core/support/files/weights.h"
#include "runtime/target/capability.h"
#include "tools/plugin_check/backend.h"
#include "tools/plugin_check/conformance/conformance_list.h"
#include "tools/plugin_check/harness/elf.h"
#include "tools/plugin_check/harness/report.h"

namespace ferrite::core::plugin_check {
namespace {

TEST(Messages, SurviveTheWay) {
  Message message;
  message.kind = Message::Kind::found;
  message.finding = {"L2", "ops: \"odd\"\n", Outcome::failed, "FE-P46", "line\nline \xff"};
  auto line = encode(message);
  EXPECT_EQ(line.find('\n'), line.size() - 1);
  auto back = decode(line);
  ASSERT_TRUE(back);
  EXPECT_EQ(back->kind, Message::Kind::found);
  EXPECT_EQ(back->finding.name, message.finding.name);
  EXPECT_EQ(back->finding.outcome, Outcome::failed);
  EXPECT_EQ(back->finding.code, "FE-P46");
  for (const char* wrong : {"", "{", "[]", "{\"outcome\": \"well\"}", "{\"outcome\": 3}", "plain words"})
    EXPECT_FALSE(decode(wrong)) << wrong;
}

TEST(Runner, GoesOnBehindWhatDied) {
  std::vector<std::string> said;
  auto say = [&](const Message& message) {
    said.push_back((message.kind == Message::Kind::begins ? "begins " : "found ") + message.finding.name +
                   " " + std::string(name_of(message.finding.outcome)) + message.finding.code);
  };
  auto checks = [](Runner& runner) {
    runner.run("a", [] { return Verdict(); });
    runner.run("b", []() -> Verdict { throw std::runtime_error("out of the plugin"); });
    runner.run("c", [] { return Verdict::skipped("why"); });
  };
  Runner all("L1", {}, 0, say);
  checks(all);
  const std::vector<std::string> expected = {"begins a passed",      "found a passed",  "begins b passed",
                                             "found b failedFE-P53", "begins c passed", "found c skipped"};
  EXPECT_EQ(said, expected);
  said.clear();
  Runner rest("L1", {}, 2, say);
  checks(rest);
  EXPECT_EQ(said, (std::vector<std::string>{"begins c passed", "found c skipped"}));
  EXPECT_TRUE(rest.resumed());
}

TEST(Badge, NamesWhatWasDone) {
  auto finding = [](const char* level, Outcome outcome) { return Finding{level, "x", outcome, {}, {}}; };
  EXPECT_EQ(badge({}), "none: 0 checks passed");
  EXPECT_EQ(badge({finding("L0", Outcome::passed)}), "L0: 1 check passed");
  EXPECT_EQ(badge({finding("L0", Outcome::passed), finding("L1", Outcome::failed),
                   finding("L2", Outcome::skipped), finding("L3", Outcome::passed)}),
            "L0 L1 L3: 2 checks passed, 1 failed, 1 skipped");
}

std::vector<std::byte> own_file() {
  auto file = graph::MappedFile::open("/proc/self/exe");
  EXPECT_TRUE(file);
  const auto bytes = (*file)->bytes();
  return {bytes.begin(), bytes.end()};
}

TEST(Elf, ReadsThisProgram) {
  auto library = ElfLibrary::parse(own_file());
  ASSERT_TRUE(library) << library.error().message();
  EXPECT_FALSE(library->needed.empty());
  EXPECT_FALSE(library->executable_stack);
  EXPECT_FALSE(library->interpreter.empty());
}

TEST(Elf, DamagedFilesAreRefusedOrRead) {
  auto bytes = own_file();
  ASSERT_GT(bytes.size(), 1000u);
  for (size_t size :
       {size_t{0}, size_t{3}, size_t{16}, size_t{63}, size_t{64}, size_t{500}, bytes.size() / 2}) {
    auto cut = ElfLibrary::parse(std::span(bytes).first(size));
    ASSERT_FALSE(cut) << size;
    EXPECT_EQ(cut.error().code, "FE-P40");
  }
  // Each byte of the file's header in turn: an answer of some kind, and no read outside of the bytes.
  for (size_t k = 0; k < 64; ++k)
    for (auto value : {std::byte{0}, std::byte{0xff}}) {
      const auto before = bytes[k];
      bytes[k] = value;
      static_cast<void>(ElfLibrary::parse(bytes));
      bytes[k] = before;
    }
}

runtime::CapabilityTable sample_table() {
  runtime::CapabilityTable table{"0123", "acme", "acme.backend 1.0.0", {}};
  table.cells[{"map", f32}] = runtime::Verdict::passed;
  table.cells[{"map", i32}] = runtime::Verdict::passed;
  table.cells[{"where", boolean}] = runtime::Verdict::failed;
  table.cells[{"contract", f64}] = runtime::Verdict::declined;
  return table;
}

TEST(Capabilities, AreReadAsWritten) {
  const auto table = sample_table();
  auto read = runtime::CapabilityTable::parse(table.text(), "table.toml");
  ASSERT_TRUE(read) << read.error().message();
  EXPECT_EQ(read->cells, table.cells);
  EXPECT_EQ(read->text(), table.text());
  EXPECT_EQ(read->find("map", f32), runtime::Verdict::passed);
  EXPECT_EQ(read->find("contract", f64), runtime::Verdict::declined);
  EXPECT_EQ(read->find("contract", f32), std::nullopt);
  EXPECT_EQ(read->file_name(), "0123.capabilities.toml");
}

TEST(Capabilities, FaultsHaveCodesAndPlaces) {
  const std::string head = "schema = 0\ntarget = \"t\"\nprovider = \"p\"\nplugin = \"x\"\n";
  for (const auto& [text, code, where] :
       {std::tuple{head + "[passed]\nmap = [\"f33\"]\n", "FE-P54", "t.toml:6:8"},
        {head + "[passed]\nmap = [\"f32\"]\n[failed]\nmap = [\"f32\"]\n", "FE-P54", "t.toml:6:8"},
        {head + "[passed]\nmapp = [\"f32\"]\n", "FE-P54", "t.toml:6:1"},
        {head + "[maybe]\n", "FE-P54", "t.toml:5:"},
        {head + "passed = 3\n", "FE-P54", "t.toml:5:10"},
        {head + "[passed]\nmap = 3\n", "FE-P54", "t.toml:6:7"},
        {std::string("schema = 0\n"), "FE-P54", "t.toml:1:1"},
        {std::string("schema = \n"), "FE-M01", "t.toml:"}}) {
    auto read = runtime::CapabilityTable::parse(text, "t.toml");
    ASSERT_FALSE(read) << text;
    EXPECT_EQ(read.error().code, code) << text;
    EXPECT_TRUE(read.error().where.starts_with(where)) << read.error().where << "\n" << text;
  }
  // The schema before all else that may be another in another version.
  auto later = runtime::CapabilityTable::parse("schema = 1\nkinds = 3\n", "t.toml");
  ASSERT_FALSE(later);
  EXPECT_EQ(later.error().where, "t.toml:1:10");
  EXPECT_NE(later.error().text.find("later version"), std::string::npos) << later.error().text;
  auto unknown = runtime::CapabilityTable::parse(head + "[passed]\nmap = [\"f33\"]\n", "t.toml");
  EXPECT_NE(unknown.error().text.find("'f33'"), std::string::npos) << unknown.error().text;
  auto written = sample_table().write("/proc/none/table.toml");
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().code, "FE-P54");
}

TEST(Capabilities, AreOfWhatTheyLieBeside) {
  const auto table = sample_table();
  const auto text = table.text();
  EXPECT_TRUE(runtime::CapabilityTable::parse(text, "t.toml", &table));
  for (const auto& [member, place] : {std::pair{&runtime::CapabilityTable::target, "t.toml:2:10"},
                                      {&runtime::CapabilityTable::provider, "t.toml:3:12"},
                                      {&runtime::CapabilityTable::plugin, "t.toml:4:10"}}) {
    auto wanted = table;
    (wanted.*member) += "1";
    auto read = runtime::CapabilityTable::parse(text, "t.toml", &wanted);
    ASSERT_FALSE(read);
    EXPECT_EQ(read.error().code, "FE-P54");
    EXPECT_EQ(read.error().where, place);
    EXPECT_NE(read.error().text.find("'" + wanted.*member + "'"), std::string::npos) << read.error().text;
  }
}

TEST(Capabilities, KeysTellTargetsApart) {
  const auto key = runtime::target_key("cpu", "llvm", "1");
  EXPECT_EQ(key.size(), 32u);
  EXPECT_EQ(key, runtime::target_key("cpu", "llvm", "1"));
  std::set<std::string> keys = {key, runtime::target_key("cp", "ullvm", "1"),
                                runtime::target_key("cpu", "llvm", "2"),
                                runtime::target_key("cpu2", "llvm", "1")};
  EXPECT_EQ(keys.size(), 4u);
}

/// Every case of the list is a program that the interpreter runs, or one that it stops for its index.
TEST(Conformance, EveryCaseIsAProgram) {
  size_t cases = 0;
  std::set<std::string> seen;
  for (const auto& name : kernel_names()) {
    EXPECT_FALSE(types_of(name).empty()) << name;
    for (const DType dtype : types_of(name))
      for (const auto& kernel : cases_of({name, dtype})) {
        SCOPED_TRACE(fmt::format("{} {}, {}", name, ferrite::name_of(dtype), kernel.name));
        EXPECT_TRUE(seen.insert(fmt::format("{} {} {}", name, ferrite::name_of(dtype), kernel.name)).second);
        auto program = loop::parse_program(kernel.text, "case");
        ASSERT_TRUE(program) << program.error().message() << "\n" << kernel.text;
        ASSERT_EQ(program->inputs.size(), kernel.inputs.size());
        // The smaller shapes are enough for this.
        if (++cases % 7 != 0 && !kernel.out_of_range) continue;
        validate::Random random(cases);
        std::vector<validate::Tensor> inputs, outputs;
        for (size_t k = 0; k < kernel.inputs.size(); ++k) {
          const auto& buffer = program->buffers[program->inputs[k]];
          inputs.push_back(values_of(buffer.dtype, buffer.elements(), kernel.inputs[k], random));
        }
        for (const auto id : program->outputs)
          outputs.emplace_back(static_cast<size_t>(program->buffers[id].bytes()));
        const std::vector<loop::ConstMemory> in(inputs.begin(), inputs.end());
        const std::vector<loop::Memory> out(outputs.begin(), outputs.end());
        auto ran = loop::evaluate(*program, in, out);
        EXPECT_EQ(ran.has_value(), !kernel.out_of_range) << (ran ? "" : ran.error().message());
        ASSERT_TRUE(schedule_of(kernel, {})) << kernel.text;
      }
  }
  EXPECT_GT(cases, 5000u);
}

TEST(Conformance, DistancesAreInUnitsInTheLastPlace) {
  auto between = [](DType dtype, double expected, double actual) {
    const uint64_t bits[2] = {
        dtype == f32 ? std::bit_cast<uint32_t>(static_cast<float>(expected))
                     : std::bit_cast<uint64_t>(expected),
        dtype == f32 ? std::bit_cast<uint32_t>(static_cast<float>(actual)) : std::bit_cast<uint64_t>(actual)};
    return ulp_between(dtype, reinterpret_cast<const std::byte*>(&bits[0]),
                       reinterpret_cast<const std::byte*>(&bits[1]));
  };
  const double nan = std::nan(""), infinity = std::numeric_limits<double>::infinity();
  EXPECT_EQ(between(f32, 1, 1 + 0x1p-23), 1);
  EXPECT_EQ(between(f32, 1, 1 - 0x1p-24), 0.5);
  EXPECT_EQ(between(f32, 0, 0x1p-149), 1);
  EXPECT_EQ(between(f64, 4, 4 + 0x1p-49), 2);
  EXPECT_EQ(between(f32, nan, nan), 0);
  EXPECT_EQ(between(f32, -infinity, -infinity), 0);
  EXPECT_EQ(between(f32, 0.0, -0.0), 0);
  EXPECT_EQ(between(f32, 1, nan), infinity);
  EXPECT_EQ(between(f32, infinity, 1), infinity);
  const int32_t a = 1, b = 2;
  EXPECT_EQ(ulp_between(i32, reinterpret_cast<const std::byte*>(&a), reinterpret_cast<const std::byte*>(&b)),
            infinity);
}

}  // namespace
}  // namespace ferrite::core::plugin_check
