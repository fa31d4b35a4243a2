// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Plugins in a process of their own: they do what they do in this one, and whatever goes wrong there harms
// nothing here.
#include <dirent.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <thread>

#include "core/ir/flat/flat_graph.h"
#include "core/ir/graph/verify.h"
#include "core/support/abi/abi.h"
#include "core/support/warning.h"
#include "driver/isolate/isolated_plugin.h"
#include "driver/validate/verdicts.h"
#include "ferrite/graph.hpp"
#include "runtime/target/number_table.h"
#include "tests/plugins/plugin_support.h"

namespace ferrite::core::plugin::test {
namespace {

using std::chrono::milliseconds;

const std::string other_text = R"(ferrite graph 0
graph @other(%x: f32[4]) -> (%0 "y") {
  %0 = neg(%x) : f32[4]
}
)";

/// The misbehaving plugin in a child, with these settings.
PluginRequest isolated(const std::string& mode, OnError on_error = OnError::fail,
                       const std::string& kind = "pass") {
  auto plugin = request("isolated", on_error, {{"mode", mode}, {"kind", kind}});
  plugin.isolation = Isolation::process;
  plugin.process_limits.timeout = milliseconds(20'000);
  plugin.process_limits.memory = uint64_t{1} << 30;
  if (mode == "loop") plugin.process_limits.timeout = milliseconds(300);
  if (mode == "orphan") plugin.process_limits.timeout = milliseconds(3'000);
  return plugin;
}

std::unique_ptr<Session> opened(std::vector<PluginRequest> requests) {
  auto session = open(std::move(requests));
  EXPECT_TRUE(session) << session.error().message();
  return session ? std::move(*session) : nullptr;
}

const LoadedPlugin& last_of(const Session& session) { return *session.registry().plugins().back(); }

size_t open_descriptors() {
  size_t count = 0;
  DIR* folder = ::opendir("/proc/self/fd");
  while (::readdir(folder)) ++count;
  ::closedir(folder);
  return count;
}

bool is_mapped_here(const std::string& library) {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);)
    if (line.ends_with("/" + library)) return true;
  return false;
}

/// Whether the process is there and no zombie.
bool is_running(pid_t process) {
  std::ifstream file("/proc/" + std::to_string(process) + "/stat");
  std::string line;
  if (!std::getline(file, line)) return false;
  return line.substr(line.rfind(')') + 2, 1) != "Z";
}

TEST(Isolation, APassDoesWhatItDoesInThisProcess) {
  auto here = opened({request("isolated_here")}), child = opened({isolated("all")});
  ASSERT_TRUE(here && child);
  Ledger first, second;
  const auto expected = compile(*here, relu_text, first), found = compile(*child, relu_text, second);
  ASSERT_TRUE(expected) << expected.error().message();
  ASSERT_TRUE(found) << found.error().message();
  EXPECT_EQ(graph::print(found->graph), graph::print(expected->graph));
  EXPECT_NE(graph::print(found->graph).find("by \"test.isolated.pass\""), std::string::npos);
  EXPECT_EQ(passes_of(second, "changed"), passes_of(first, "changed"));
  EXPECT_EQ(*evaluate(*found, some_input), *evaluate(*expected, some_input));
  EXPECT_FALSE(is_mapped_here("isolated.so"));
  EXPECT_TRUE(is_mapped_here("isolated_here.so"));
}

TEST(Isolation, OpsMayBeLoadedAfterThePluginThatNeedsThem) {
  config::Pipeline pipeline;
  pipeline.plugins = {isolated("all"), standard_ops()};
  auto session = Session::open(pipeline);
  ASSERT_TRUE(session) << session.error().message();
  Ledger ledger;
  const auto compiled = compile(**session, relu_text, ledger);
  ASSERT_TRUE(compiled) << compiled.error().message();
  EXPECT_NE(graph::print(compiled->graph).find("abs"), std::string::npos);
}

TEST(Isolation, OneChildServesManyCalls) {
  auto session = opened({isolated("all")});
  ASSERT_TRUE(session);
  const pid_t child = last_of(*session).process->child();
  ASSERT_GT(child, 0);
  for (int turn = 0; turn < 3; ++turn) {
    Ledger ledger;
    ASSERT_TRUE(compile(*session, relu_text, ledger));
  }
  EXPECT_EQ(last_of(*session).process->child(), child);
  session.reset();
  EXPECT_FALSE(is_running(child));
  EXPECT_EQ(::waitpid(child, nullptr, WNOHANG), -1);  // waited for already
}

TEST(Isolation, ARuleAsksItsPredicateInTheChild) {
  auto session = opened({isolated("all", OnError::fail, "rules")});
  ASSERT_TRUE(session);
  Ledger ledger;
  const auto compiled = compile(*session, relu_text, ledger);
  ASSERT_TRUE(compiled) << compiled.error().message();
  EXPECT_NE(graph::print(compiled->graph).find("by \"test.isolated.rule\""), std::string::npos);
  EXPECT_EQ(*evaluate(*compiled, some_input), (std::vector<float>{0, 2, 0, 4}));
}

struct Misbehaviour {
  std::string mode, code, text;
};
class IsolationFailures : public testing::TestWithParam<Misbehaviour> {};

TEST_P(IsolationFailures, OfAPassAreNamedAndHarmNothing) {
  const auto& [mode, code, text] = GetParam();
  const size_t descriptors = open_descriptors();
  {
    auto session = opened({isolated(mode, OnError::skip)});
    ASSERT_TRUE(session);
    const pid_t first = last_of(*session).process->child();
    auto graph = parse(*session, relu_text);
    const std::string before = graph::print(graph);
    Ledger ledger;
    ASSERT_TRUE(run_phase("pre_grad", graph, session->registry(), {}, ledger));
    EXPECT_EQ(graph::print(graph), before);
    EXPECT_TRUE(graph::verify(graph, session->registry().ops()));
    ASSERT_EQ(ledger.records().size(), 1u);
    const auto record = ledger.records()[0];
    EXPECT_EQ(record.outcome, "failed");
    EXPECT_NE(record.text.find(code), std::string::npos) << record.text;
    EXPECT_NE(record.text.find(text), std::string::npos) << record.text;
    EXPECT_NE(record.text.find("plugin 'test.isolated', pass 'test.isolated.pass'"), std::string::npos)
        << record.text;
    // The whole compilation goes on without the pass, and so does another, which has a child again.
    Ledger second, third;
    const auto skipped = compile(*session, relu_text, second);
    ASSERT_TRUE(skipped) << skipped.error().message();
    EXPECT_EQ(*evaluate(*skipped, some_input), (std::vector<float>{0, 2, 0, 4}));
    const auto other = compile(*session, other_text, third);
    ASSERT_TRUE(other) << other.error().message();
    EXPECT_EQ(passes_of(third, "unchanged"), std::vector<std::string>{"test.isolated.pass"});
    EXPECT_GT(last_of(*session).process->child(), 0);
    EXPECT_EQ(is_running(first), code == "FE-P32");
  }
  auto session = opened({isolated(mode)});
  ASSERT_TRUE(session);
  Ledger ledger;
  const auto failed = compile(*session, relu_text, ledger);
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().code, "FE-P10");
  EXPECT_NE(failed.error().text.find("pass 'test.isolated.pass' of plugin 'test.isolated'"),
            std::string::npos);
  EXPECT_NE(failed.error().text.find(code), std::string::npos) << failed.error().text;
  session.reset();
  EXPECT_EQ(open_descriptors(), descriptors);
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1) << "a child was not waited for";
}

INSTANTIATE_TEST_SUITE_P(
    All, IsolationFailures,
    testing::Values(
        Misbehaviour{"abort", "FE-P27", "signal 6"}, Misbehaviour{"segfault", "FE-P27", "signal 11"},
        Misbehaviour{"exit", "FE-P27", "exited with status 3"},
        Misbehaviour{"orphan", "FE-P27", "exited with status 3"}, Misbehaviour{"closes", "FE-P27", "is gone"},
        Misbehaviour{"loop", "FE-P28", "within 300 ms"}, Misbehaviour{"memory", "FE-P32", "1024 MiB"},
        Misbehaviour{"garbage", "FE-P29", "answer"}, Misbehaviour{"other_request", "FE-P29", "answer"},
        Misbehaviour{"too_long", "FE-P29", "answer"}, Misbehaviour{"longer_than_sent", "FE-P29", "answer"},
        Misbehaviour{"no_status", "FE-P29", "answer"}, Misbehaviour{"no_edits", "FE-P29", "edit"}),
    [](const auto& info) { return info.param.mode; });

TEST(Isolation, WhatBreaksTheGraphIsCaughtAsInThisProcess) {
  const std::string text = R"(ferrite graph 0
graph @sum(%x: f32[4]) -> (%1 "y") {
  %0 = relu(%x) : f32[4]
  %1 = add(%0, %x) : f32[4]
}
)";
  for (const auto& [mode, code] : {std::pair<std::string, std::string>{"erase", "FE-G04"},
                                   {"order", "FE-G55"},
                                   {"type", "FE-G"},
                                   {"stale", "FE-G03"}}) {
    auto plugin = request("corrupts", OnError::skip, {{"mode", mode}});
    plugin.isolation = Isolation::process;
    auto session = opened({plugin});
    ASSERT_TRUE(session);
    auto graph = parse(*session, text);
    Ledger ledger;
    ASSERT_TRUE(run_phase("pre_grad", graph, session->registry(), {}, ledger)) << mode;
    EXPECT_EQ(graph::print(graph), text) << mode;
    ASSERT_EQ(ledger.records().size(), 1u);
    EXPECT_EQ(ledger.records()[0].outcome, "failed") << mode;
    EXPECT_NE(ledger.records()[0].text.find(code), std::string::npos) << ledger.records()[0].text;
  }
}

TEST(Isolation, AnErrorOfThePluginIsItsOwnAndKeepsTheChild) {
  auto session = opened({isolated("throws")});
  ASSERT_TRUE(session);
  const pid_t child = last_of(*session).process->child();
  Ledger ledger;
  const auto failed = compile(*session, relu_text, ledger);
  ASSERT_FALSE(failed);
  EXPECT_NE(failed.error().text.find("test.isolated/refused this graph is not liked"), std::string::npos)
      << failed.error().text;
  EXPECT_EQ(last_of(*session).process->child(), child);
}

TEST(Isolation, APredicateThatAbortsIsNamed) {
  auto session = opened({isolated("abort", OnError::skip, "rules")});
  ASSERT_TRUE(session);
  Ledger ledger;
  const auto compiled = compile(*session, relu_text, ledger);
  ASSERT_TRUE(compiled) << compiled.error().message();
  ASSERT_FALSE(ledger.records().empty());
  EXPECT_NE(ledger.records()[0].text.find("plugin 'test.isolated', predicate 'test.isolated.rule#0'"),
            std::string::npos)
      << ledger.records()[0].text;
}

TEST(Isolation, APredicateThatFailsOnceIsTriedAgain) {
  namespace fs = std::filesystem;
  const fs::path folder = fs::temp_directory_path() / fmt::format("ferrite-isolation-test-{}", ::getpid());
  fs::remove_all(folder);
  config::Pipeline pipeline;
  pipeline.validate_rules = config::RuleValidation::off;
  pipeline.plugins = {standard_ops(), isolated("abort", OnError::fail, "rules")};
  auto session = Session::open(pipeline);
  ASSERT_TRUE(session) << session.error().message();
  const auto judge = [&](config::RuleValidation level) {
    return validate::validate_rules(const_cast<Registry&>((*session)->registry()), level,
                                    installed_files().plugin_folder, folder.string(), {});
  };
  log::show_warnings();
  testing::internal::CaptureStderr();
  EXPECT_TRUE(judge(config::RuleValidation::on));
  const std::string warned = testing::internal::GetCapturedStderr();
  EXPECT_NE(warned.find("failed while its rules were tried"), std::string::npos) << warned;
  EXPECT_NE(warned.find("FE-P27"), std::string::npos) << warned;
  EXPECT_NE(warned.find("signal 6"), std::string::npos) << warned;
  // Nothing of it is kept, and there are processes left to run with.
  EXPECT_FALSE(fs::exists(folder));
  const auto refused = judge(config::RuleValidation::strict);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, "FE-R36");
  EXPECT_NE(refused.error().text.find("FE-P27"), std::string::npos) << refused.error().text;
  fs::remove_all(folder);
}

TEST(Isolation, WhatTheHostGivesUpIsEnded) {
  auto plugin = isolated("loop");
  plugin.process_limits.timeout = milliseconds(50'000);
  auto session = opened({plugin});
  ASSERT_TRUE(session);
  auto graph = parse(*session, relu_text);
  graph::GraphApi api(graph, session->registry().ops());
  auto args = abi::sized<fe_pass_args>();
  args.graph = api.api();
  auto out = abi::sized<fe_pass_out>();
  abi::Call call;
  call.get()->cancelled = [](void*) { return int32_t{1}; };
  const fe_pass& pass = *session->registry().passes()[0].pass;
  const int32_t status = pass.run(pass.self, call.get(), &args, &out);
  EXPECT_EQ(status, FE_ECANCELLED);
  EXPECT_EQ(call.error(status, "", "").code, "FE-P28");
  EXPECT_EQ(last_of(*session).process->child(), -1);
  EXPECT_EQ(graph::print(graph), relu_text);
}

TEST(Isolation, ChildrenAreNotStartedForEver) {
  auto plugin = isolated("exit", OnError::skip);
  plugin.process_limits.starts = 2;
  auto session = opened({plugin});
  ASSERT_TRUE(session);
  std::vector<std::string> texts;
  for (int turn = 0; turn < 4; ++turn) {
    Ledger ledger;
    ASSERT_TRUE(compile(*session, relu_text, ledger));
    texts.push_back(ledger.records()[0].text);
  }
  EXPECT_NE(texts[1].find("FE-P27"), std::string::npos) << texts[1];
  EXPECT_NE(texts[2].find("FE-P31"), std::string::npos) << texts[2];
  EXPECT_NE(texts[3].find("FE-P31"), std::string::npos) << texts[3];
  EXPECT_NE(texts[3].find("the last one: FE-P27 pass 'test.isolated.pass'"), std::string::npos) << texts[3];
  EXPECT_NE(texts[3].find("exited with status 3"), std::string::npos) << texts[3];
}

TEST(Isolation, RefusesWhatItCannotRun) {
  for (const auto& [library, text] : {std::pair<std::string, std::string>{"c_kernel", "an op"},
                                      {"declining_lowering", "a lowering"},
                                      {"hooks", "for pre_fusion"}}) {
    auto plugin = request(library);
    plugin.isolation = Isolation::process;
    const auto session = open({plugin});
    ASSERT_FALSE(session) << library;
    EXPECT_EQ(session.error().code, "FE-P30");
    EXPECT_NE(session.error().text.find(text), std::string::npos) << session.error().text;
    EXPECT_FALSE(is_mapped_here(library + ".so"));
  }
  auto missing = request("there_is_no_such");
  missing.isolation = Isolation::process;
  const auto session = open({missing});
  ASSERT_FALSE(session);
  EXPECT_EQ(session.error().code, "FE-P01");
  auto exchanged = isolated("all");
  exchanged.library_sha256 = std::string(64, '0');
  const auto other = open({exchanged});
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().code, "FE-M23");
  const auto program = isolate::Process::start("/there/is/no/such/program");
  ASSERT_FALSE(program);
  EXPECT_EQ(program.error().code, "FE-P26");
}

TEST(Isolation, SeveralThreadsCompileAtOnce) {
  auto session = opened({isolated("all")});
  ASSERT_TRUE(session);
  std::vector<std::string> texts(4);
  std::vector<std::thread> threads;
  for (std::string& text : texts)
    threads.emplace_back([&] {
      for (int turn = 0; turn < 4; ++turn) {
        Ledger ledger;
        auto compiled = compile(*session, relu_text, ledger);
        text = compiled ? graph::print(compiled->graph) : compiled.error().message();
      }
    });
  for (std::thread& thread : threads) thread.join();
  for (const std::string& text : texts) {
    EXPECT_EQ(text, texts[0]);
    EXPECT_NE(text.find("abs"), std::string::npos) << text;
  }
}

TEST(Isolation, ABusyChildEndsWithItsParent) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const pid_t parent = ::fork();
  ASSERT_GE(parent, 0);
  if (parent == 0) {
    auto plugin = isolated("loop");
    plugin.process_limits.timeout = milliseconds(60'000);
    auto session = open({plugin});
    if (!session) ::_exit(1);
    const pid_t child = last_of(**session).process->child();
    if (::write(ends[1], &child, sizeof child) != sizeof child) ::_exit(1);
    Ledger ledger;
    static_cast<void>(compile(**session, relu_text, ledger));
    ::_exit(1);
  }
  pid_t child = -1;
  ASSERT_EQ(::read(ends[0], &child, sizeof child), static_cast<ssize_t>(sizeof child));
  std::this_thread::sleep_for(milliseconds(200));
  EXPECT_TRUE(is_running(child));
  ::kill(parent, SIGKILL);
  ::waitpid(parent, nullptr, 0);
  for (int turn = 0; turn < 500 && is_running(child); ++turn) std::this_thread::sleep_for(milliseconds(10));
  EXPECT_FALSE(is_running(child));
  for (const int end : ends) ::close(end);
}

TEST(Isolation, AForkedProcessHasAChildOfItsOwn) {
  auto session = opened({isolated("all")});
  ASSERT_TRUE(session);
  Ledger ledger;
  const pid_t child = last_of(*session).process->child(), forked = ::fork();
  if (forked == 0) {
    const bool good = compile(*session, relu_text, ledger) && last_of(*session).process->child() != child;
    session.reset();
    ::_exit(good ? 0 : 1);
  }
  int status = -1;
  EXPECT_TRUE(::waitpid(forked, &status, 0) == forked && status == 0) << status;
  EXPECT_TRUE(compile(*session, relu_text, ledger));
  EXPECT_EQ(last_of(*session).process->child(), child);
}

struct Proposed {
  std::vector<std::string> names;
  std::vector<fe_candidate> candidates;
  std::vector<std::vector<int64_t>> dims;
};

TEST(Isolation, AProviderIsAskedInTheChildAndOutlivesIt) {
  auto session = opened({isolated("exit", OnError::fail, "provider")});
  ASSERT_TRUE(session);
  ASSERT_EQ(session->registry().providers().size(), 1u);
  const fe_provider& provider = *session->registry().providers()[0].table;
  EXPECT_EQ(abi::view(provider.id), "test.toy");
  EXPECT_EQ(abi::view(provider.device_kind), "toy");
  abi::Call call;
  const std::string description = "seven b", kernel = "a kernel";
  auto open_args = abi::sized<fe_open_target_args>();
  open_args.description = {description.data(), description.size(), 1};
  auto target = abi::sized<fe_open_target_out>();
  ASSERT_EQ(provider.open_target(provider.self, call.get(), &open_args, &target), FE_OK);
  EXPECT_EQ(abi::view(target.name), "toy of 7 bytes");
  EXPECT_EQ(target.local_bytes, 4096);
  EXPECT_EQ(target.row_alignment, 128u);
  EXPECT_EQ(target.row_padding_percent, 5u);
  EXPECT_EQ(target.row_padding_from, 1 << 20);
  ASSERT_NE(target.numbers, nullptr);
  EXPECT_EQ(target.numbers->workers, 3);
  EXPECT_EQ(target.numbers->launch_ns, 0);
  EXPECT_EQ(target.numbers->activations, FE_ACTIVATIONS_CHANNELS_LAST);
  EXPECT_EQ(target.numbers->products, FE_PRODUCTS_APART);

  Proposed proposed;
  auto propose_args = abi::sized<fe_propose_args>();
  propose_args.target = target.target;
  propose_args.kernel = {kernel.data(), kernel.size(), 1};
  auto propose_out = abi::sized<fe_propose_out>();
  propose_out.host = &proposed;
  propose_out.add = [](void* host, const fe_candidate* candidate) -> int32_t {
    auto& to = *static_cast<Proposed*>(host);
    to.names.push_back(abi::string(candidate->name));
    to.candidates.push_back(*candidate);
    for (uint64_t k = 0; k < candidate->operand_layouts.count; ++k) {
      const auto layout = abi::element<fe_operand_layout>(candidate->operand_layouts, k);
      to.dims.emplace_back(layout.packed_dims, layout.packed_dims + layout.packed_rank);
      EXPECT_EQ(layout.buffer, 2u);
      EXPECT_EQ(layout.logical_rank, 2u);
      EXPECT_EQ(layout.expr_count, 1u);
      EXPECT_EQ(layout.term_count, 3u);
      EXPECT_EQ(layout.factor_dim, 1u);
      EXPECT_EQ(layout.factors.count, 6u);
      if (layout.factors.count == 6) {
        EXPECT_EQ(abi::element<double>(layout.factors, 5), 6);
      }
    }
    return FE_OK;
  };
  ASSERT_EQ(provider.propose(provider.self, call.get(), &propose_args, &propose_out), FE_OK);
  EXPECT_EQ(proposed.names, (std::vector<std::string>{"plain for toy of 7 bytes", "packed"}));
  EXPECT_EQ(proposed.candidates[1].id, kernel.size());
  EXPECT_EQ(proposed.candidates[1].workspace_bytes, 128);
  EXPECT_EQ(proposed.dims, (std::vector<std::vector<int64_t>>{{4, 2}}));

  auto compile_with = [&](const std::string& provenance, std::string& blob, std::string& text) {
    abi::Collector<> code, listing;
    abi::Call compile_call;
    auto args = abi::sized<fe_compile_args>();
    args.target = target.target;
    args.kernel = {kernel.data(), kernel.size(), 1};
    args.entry = abi::string(std::string_view("k_1"));
    args.provenance = abi::string(std::string_view(provenance));
    auto out = abi::sized<fe_compile_out>();
    out.blob = code.sink();
    out.listing = listing.sink();
    const int32_t status = provider.compile(provider.self, compile_call.get(), &args, &out);
    if (status == FE_OK) {
      EXPECT_EQ(out.tasks, 8);
      EXPECT_EQ(out.grain, 7);
      EXPECT_EQ(listing.bytes(), "listing");
    }
    blob = code.bytes();
    text = compile_call.error(status, "", "").message();
    return status;
  };
  std::string blob, text;
  ASSERT_EQ(compile_with("good", blob, text), FE_OK) << text;
  EXPECT_EQ(blob, "code of k_1 for toy of 7 bytes");
  EXPECT_NE(compile_with("bad", blob, text), FE_OK);
  EXPECT_NE(text.find("FE-P27 plugin 'test.isolated', compile of provider 'test.toy'"), std::string::npos)
      << text;
  // Another child, in which the target is opened again.
  ASSERT_EQ(compile_with("good", blob, text), FE_OK) << text;
  EXPECT_EQ(blob, "code of k_1 for toy of 7 bytes");

  abi::Collector<> print;
  auto sink = print.sink();
  auto none = abi::sized<fe_none>();
  ASSERT_EQ(provider.fingerprint(provider.self, call.get(), &none, &sink), FE_OK);
  EXPECT_EQ(print.bytes(), "toy 1");
  EXPECT_EQ(provider.close_target(provider.self, call.get(), &target, &none), FE_OK);
}

/// What the host says of the numbers that the target of a session's one provider states.
std::string said_of_numbers(const Session& session) {
  const fe_provider& provider = *session.registry().providers()[0].table;
  abi::Call call;
  const std::string description = "seven b";
  auto args = abi::sized<fe_open_target_args>();
  args.description = {description.data(), description.size(), 1};
  auto target = abi::sized<fe_open_target_out>();
  EXPECT_EQ(provider.open_target(provider.self, call.get(), &args, &target), FE_OK);
  runtime::SourcedNumbers numbers;
  const auto stated = runtime::state(numbers, abi::read(target.numbers));
  auto none = abi::sized<fe_none>();
  EXPECT_EQ(provider.close_target(provider.self, call.get(), &target, &none), FE_OK);
  return stated ? "" : stated.error().message();
}

TEST(Isolation, NumbersThatCannotBeAreRefusedAsInThisProcess) {
  const std::string mode = "no_such_choice", kind = "provider";
  auto here = opened({request("isolated_here", OnError::fail, {{"mode", mode}, {"kind", kind}})}),
       child = opened({isolated(mode, OnError::fail, kind)});
  ASSERT_TRUE(here && child);
  const std::string expected = said_of_numbers(*here);
  EXPECT_NE(expected.find("FE-P69 products is 3"), std::string::npos) << expected;
  EXPECT_EQ(said_of_numbers(*child), expected);
}

/// A log of edits, and the graph that it is for.
TEST(Edits, OfAHostileLogAreRefusedOrLeaveAGraph) {
  auto session = opened({});
  ASSERT_TRUE(session);
  const auto& ops = session->registry().ops();
  auto copy = parse(*session, relu_text), graph = parse(*session, relu_text);
  const std::string before = graph::print(graph);
  graph::GraphApi copy_api(copy, ops), api(graph, ops);
  isolate::Names names{copy.nodes(), {}}, here{graph.nodes(), {}};
  for (auto* list : {&names, &here}) {
    const auto& of = list == &names ? copy : graph;
    list->values = {of.inputs()[0].value, of.node(of.first()).results[0]};
  }
  isolate::Recorder recorder(copy_api, names);
  recorder.begin(false);
  Graph edited(recorder.api());
  for (Node node : edited.nodes()) {
    edited.set_insertion(node);
    Value one = edited.scalar(f32, 1);
    edited.set_operand(node, 0, edited.make("add", {node.operand(0), one}));
  }
  auto done = isolate::replay(recorder.log(), *api.api(), here);
  ASSERT_TRUE(done) << done.error().message();
  EXPECT_EQ(graph::print(graph), graph::print(copy));
  const auto start = graph.mark();
  size_t refused = 0;
  for (size_t at = 0; at < recorder.log().size(); ++at) {
    for (const int value : {0, 1, 9, 0x7f, 0xff}) {
      auto log = recorder.log();
      if (log[at] == static_cast<std::byte>(value)) continue;
      log[at] = static_cast<std::byte>(value);
      if (auto result = isolate::replay(log, *api.api(), here); !result) {
        ++refused;
        EXPECT_EQ(result.error().code, "FE-P29");
      }
      ASSERT_TRUE(graph.rollback(start));
    }
  }
  EXPECT_GT(refused, recorder.log().size());
  ASSERT_TRUE(graph.rollback({0, start.epoch}));
  EXPECT_EQ(graph::print(graph), before);
}

/// Reads every node of 10,000 and edits one in ten.
std::string large_text() {
  std::string text = "ferrite graph 0\ngraph @large(%x: f32[4]) -> (%9999 \"y\") {\n";
  for (int k = 0; k < 10'000; ++k)
    text += fmt::format("  %{} = {}(%{}) : f32[4] from \"node_{}\"\n", k, k % 10 == 0 ? "relu" : "neg",
                        k == 0 ? "x" : std::to_string(k - 1), k);
  return text + "}\n";
}

TEST(IsolationCost, OfAPassOverTenThousandNodes) {
  auto here = opened({request("isolated_here", OnError::fail, {{"kind", std::string("tenth")}})});
  auto child = opened({isolated("all", OnError::fail, "tenth")});
  ASSERT_TRUE(here && child);
  const std::string text = large_text();
  std::vector<std::vector<double>> times(2);
  std::vector<std::string> results(2);
  for (int turn = 0; turn < 7; ++turn)
    for (size_t k = 0; k < 2; ++k) {
      const Session& session = k == 0 ? *here : *child;
      auto graph = parse(session, text);
      Ledger ledger;
      ASSERT_TRUE(run_phase("pre_grad", graph, session.registry(), {}, ledger));
      times[k].push_back(ledger.records()[0].score);
      results[k] = graph::print(graph);
    }
  EXPECT_EQ(results[0], results[1]);
  EXPECT_NE(results[0], text);
  for (auto& list : times) std::sort(list.begin(), list.end());
  fmt::print(
      "a pass over 10,000 nodes that edits 1,000, median of 7: {:.1f} ms in this process, {:.1f} ms in a "
      "child, {:.1f} ms more\n",
      times[0][3], times[1][3], times[1][3] - times[0][3]);
}

}  // namespace
}  // namespace ferrite::core::plugin::test
