// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What an isolated plugin can do wrong, one at a time: setting mode. Graphs without relu are left in peace, so that a compilation
// after the failure shows whether anything was harmed.
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <vector>

#include "double_negation.h"

namespace {

using namespace ferrite;

bool has_relu(Graph& graph) {
  for (Node node : graph.nodes())
    if (node.op() == "relu") return true;
  return false;
}

/// An answer in place of the host's own, over the host's own connection: `sequence` as of the first pass of a session with the
/// standard ops.
void answer(uint32_t magic, uint32_t sequence, uint64_t bytes, const std::vector<char>& payload) {
  struct {
    uint32_t magic, sequence;
    uint64_t bytes;
  } message = {magic, sequence, bytes};
  if (::pwrite(5, payload.data(), payload.size(), 0) < 0 || ::send(3, &message, sizeof message, 0) < 0)
    std::abort();
  for (;;) ::pause();
}

[[noreturn]] void never_come_back() {
  for (std::atomic<uint64_t> turns = 0;;) ++turns;
}

void misbehave(std::string_view mode) {
  constexpr uint32_t right_magic = 0x69656546, first_pass = 3;
  if (mode == "abort") std::abort();
  if (mode == "segfault") {
    std::signal(SIGSEGV, SIG_DFL);  // a sanitizer's handler would exit with a status of its own
    std::raise(SIGSEGV);
  }
  if (mode == "exit") ::_exit(3);
  if (mode == "orphan") {
    // Out of the group that is ended with the child, with its end of the connection.
    if (::fork() == 0) {
      ::setsid();
      for (const int output : {0, 1, 2}) ::close(output);
      ::sleep(6);
      ::_exit(0);
    }
    ::_exit(3);
  }
  if (mode == "loop") never_come_back();
  if (mode == "memory") {
    // Addresses, not pages: a sanitizer's build has no limit and is to survive it.
    std::vector<std::unique_ptr<char[]>> hog;
    for (int k = 0; k < 256; ++k) hog.emplace_back(new char[16 << 20]);
    throw std::bad_alloc();
  }
  if (mode == "garbage") answer(0x12345678, first_pass, 8, std::vector<char>(8));
  if (mode == "other_request") answer(right_magic, first_pass + 1, 8, std::vector<char>(8));
  if (mode == "too_long") answer(right_magic, first_pass, uint64_t{1} << 60, {});
  if (mode == "longer_than_sent") answer(right_magic, first_pass, 1 << 20, std::vector<char>(8));
  if (mode == "no_status") answer(right_magic, first_pass, 2, std::vector<char>(2));
  // FE_OK, changed, and a log of eight bytes that is none.
  if (mode == "no_edits") {
    std::vector<char> payload(4 + 1 + 8 + 8, '\x7f');
    std::memset(payload.data(), 0, 13);
    payload[5] = 8;
    answer(right_magic, first_pass, payload.size(), payload);
  }
  if (mode == "closes") {
    ::shutdown(3, SHUT_RDWR);
    never_come_back();
  }
}

/// Edits of every kind.
bool edit_all(Graph& graph) {
  for (Node node : graph.nodes()) {
    if (node.op() != "relu") continue;
    graph.set_insertion(node);
    Value x = node.operand(0);
    Value one = graph.scalar(x.dtype(), 1.0), two = graph.make("add", {one, one});
    auto constant = graph.evaluate(two);
    if (!constant) fail("test.isolated/evaluate", "a sum of constants was not evaluated");
    Value product = graph.make("mul", {graph.make("neg", {x}), *constant});
    Value mean =
        graph.make("reduce_sum", {product}, {attr("axes", std::vector<int64_t>{0}), attr("keepdims", false)});
    auto change = sized<fe_attr_args>();
    change.node = mean.producer().handle();
    std::vector<fe_string> strings;
    const Attr keep = attr("keepdims", true);
    change.attr = keep.abi(strings);
    auto none = sized<fe_none>();
    call_host(graph.api(), graph.api().set_attr, change, none);
    graph.set_operand(node, 0, graph.make("add", {product, mean}));
    graph.erase(two.producer());
    graph.set_insertion(Node());
    Value other = graph.make("abs", {node.result()});
    graph.replace_uses(node.result(), other);
    graph.set_operand(other.producer(), 0, node.result());
    return true;
  }
  return false;
}

/// Reads all nodes and their operands, and gives each relu another operand.
bool edit_one_in_ten(Graph& graph) {
  size_t read = 0;
  for (Node node : graph.nodes()) {
    const Value x = node.operand(0);
    read += x.type().dims.size();
    if (node.op() != "relu") continue;
    graph.set_insertion(node);
    graph.set_operand(node, 0, graph.make("neg", {x}));
  }
  return read > 0;
}

struct ToyProvider : Provider {
  explicit ToyProvider(std::string mode) : mode_(std::move(mode)) {}
  std::string id() const override { return "test.toy"; }
  std::string device_kind() const override { return "toy"; }
  std::unique_ptr<Target> open_target(Bytes description) override {
    auto target = std::make_unique<Target>();
    target->name = "toy of " + std::to_string(description.size()) + " bytes";
    target->local_bytes = 4096;
    target->row_alignment = 128;
    target->row_padding_percent = 5;
    target->row_padding_from = 1 << 20;
    target->numbers.workers = 3;
    target->numbers.activations = FE_ACTIVATIONS_CHANNELS_LAST;
    target->numbers.products = mode_ == "no_such_choice" ? FE_PRODUCTS_SOFTMAX + 1 : FE_PRODUCTS_APART;
    return target;
  }
  std::vector<Candidate> propose(Target& target, Bytes kernel) override {
    Candidate plain, packed;
    plain.id = 1;
    plain.name = "plain for " + target.name;
    plain.cost = 2;
    packed.id = kernel.size();
    packed.name = "packed";
    packed.cost = 1;
    packed.workspace_bytes = 128;
    fe_flat_expr expr{};
    expr.op = 1;
    packed.operand_layouts.push_back({2, {4, 2}, {expr}, {0, 0}, 3, 1, {1, 2, 3, 4, 5, 6}});
    return {plain, packed};
  }
  CompileResult compile(Target& target, const CompileRequest& request) override {
    if (request.provenance == "bad") misbehave(mode_);
    CompileResult result;
    result.blob = "code of " + std::string(request.entry) + " for " + target.name;
    if (request.want_listing) result.listing = "listing";
    result.tasks = static_cast<int64_t>(request.kernel.size());
    result.grain = 7;
    return result;
  }
  std::string fingerprint() override { return "toy 1"; }

 private:
  std::string mode_;
};

void contribute(PluginBuilder& builder, const PluginContext& context) {
  const auto text = [&](const char* name) {
    return std::string(context.config.has(name) ? context.config.string(name) : std::string_view());
  };
  const std::string mode = text("mode"), kind = text("kind");
  if (kind == "provider") {
    builder.add(std::make_unique<ToyProvider>(mode));
  } else if (kind == "rules") {
    auto positive = [mode](const Match& match) {
      misbehave(mode);
      return match["x"].dtype() == f32 && match.root.op() == "relu";
    };
    Term x = any("x");
    builder.add(
        rules("pre_grad",
              rule("test.isolated.rule").match(op("relu")(x)).where(positive).yield(op("maximum")(x, 0.0))));
  } else if (kind == "tenth") {
    builder.add(pass("pre_grad", "test.isolated.pass", edit_one_in_ten));
  } else {
    builder.add(pass("pre_grad", "test.isolated.pass", [mode](Graph& graph) {
      if (!has_relu(graph)) return false;
      misbehave(mode);
      if (mode == "throws") fail("test.isolated/refused", "this graph is not liked");
      return mode == "nothing" ? false : edit_all(graph);
    }));
  }
}

}  // namespace

FERRITE_PLUGIN("test.isolated", "1.0.0", contribute)
