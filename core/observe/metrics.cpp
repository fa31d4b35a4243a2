// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/observe/metrics.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>

#include "core/cache/folder.h"
#include "core/observe/peaks.h"
#include "core/support/file_descriptor.h"
#include "core/support/suggest.h"

namespace ferrite::core::observe {
namespace {

constexpr std::array<std::string_view, 4> table_names = {"graph", "fusion", "kernel", "cache"};
constexpr std::string_view text_folder =
    "metric_kernels";  // beside the tables: a file for each kernel's text

/// A table's lines: names of columns, then values. A value with a comma, a quote or the end of a line is quoted (RFC 4180).
class Table {
 public:
  explicit Table(std::vector<std::string> columns) { header_ = line(columns); }
  void add(const std::vector<std::string>& values) { rows_ += line(values); }
  const std::string& header() const { return header_; }
  const std::string& rows() const { return rows_; }

 private:
  static std::string line(const std::vector<std::string>& values) {
    std::string text;
    for (size_t k = 0; k < values.size(); ++k) {
      const auto& value = values[k];
      if (k > 0) text += ',';
      if (value.find_first_of(",\"\r\n") == std::string::npos) {
        text += value;
        continue;
      }
      text += '"';
      for (const char c : value) text += c == '"' ? std::string("\"\"") : std::string(1, c);
      text += '"';
    }
    return text + "\n";
  }
  std::string header_, rows_;
};

std::string known(int64_t value) { return value < 0 ? "unknown" : std::to_string(value); }

std::string estimate_text(std::optional<double> seconds) {
  return seconds ? fmt::format("{:.3f}", *seconds * 1e6) : "unknown";
}

std::string sizes_text(const std::vector<int64_t>& sizes) { return fmt::format("{}", fmt::join(sizes, "x")); }

Table graph_table(const std::string& model, const Observation& seen, const CompileStats& stats) {
  Table table({"model", "stage", "milliseconds", "nodes_before", "nodes_after", "statements_after",
               "groups_after", "statements", "nodes_before_fusion", "kernels"});
  size_t before_fusion = 0;
  for (const auto& stage : seen.stages)
    if (stage.name == "fuse") before_fusion = stage.before.statements;
  for (const auto& stage : seen.stages)
    table.add({model, stage.name, fmt::format("{:.3f}", stage.milliseconds),
               std::to_string(stage.before.nodes), std::to_string(stage.after.nodes),
               std::to_string(stage.after.statements), std::to_string(stage.after.groups),
               std::to_string(stats.statements), std::to_string(before_fusion),
               std::to_string(stats.kernels)});
  return table;
}

Table fusion_table(const std::string& model, const Ledger& ledger) {
  Table table({"model", "outcome", "category", "pairs", "bytes"});
  struct Sum {
    size_t pairs = 0;
    double bytes = 0;
  };
  std::map<std::pair<std::string, std::string>, Sum> sums;
  Sum tried;
  for (const auto& record : ledger.records()) {
    if (record.kind != "fusion") continue;
    for (auto* sum : {&tried, &sums[{record.outcome, record.category}]}) {
      ++sum->pairs;
      sum->bytes += record.score;
    }
  }
  const auto add = [&](const std::string& outcome, const std::string& category, const Sum& sum) {
    table.add({model, outcome, category, std::to_string(sum.pairs), fmt::format("{:.0f}", sum.bytes)});
  };
  add("tried", {}, tried);
  for (const auto& [key, sum] : sums) add(key.first, key.second, sum);
  return table;
}

Table kernel_table(const std::string& model, const Observation& seen, const run::Executable& executable,
                   const std::string& texts) {
  Table table({"model",          "kernel",           "candidate",  "provenance",  "category",  "size_hints",
               "reduced_sizes",  "reduction_hint",   "loads",      "stores",      "loops",     "atomics",
               "argument_bytes", "argument_size",    "operations", "estimate_us", "registers", "spills",
               "launches",       "launches_at_load", "text"});
  std::vector<std::optional<Peaks>> peaks;
  for (const auto& device : executable.devices) peaks.push_back(load_peaks(*device, executable.workers));
  const auto launches = [&](const std::vector<run::Launch>& steps, size_t kernel) {
    size_t count = 0;
    for (const auto& step : steps)
      count += step.copy == run::no_copy && !step.call.function && step.kernel == kernel;
    return std::to_string(count);
  };
  for (size_t k = 0; k < seen.kernels.size(); ++k) {
    const auto& kernel = seen.kernels[k];
    const auto& facts = kernel.facts;
    table.add({model,
               kernel.entry,
               kernel.candidate,
               kernel.provenance,
               facts.category,
               sizes_text(facts.sizes),
               sizes_text(facts.reduced),
               facts.reduction_hint,
               std::to_string(facts.loads),
               std::to_string(facts.stores),
               std::to_string(facts.loops),
               std::to_string(facts.atomics),
               std::to_string(facts.argument_bytes),
               bytes_text(facts.argument_bytes),
               fmt::format("{:.0f}", facts.operations),
               estimate_text(estimate(facts, peaks[executable.kernels[k].device])),
               known(kernel.registers),
               known(kernel.spills),
               launches(executable.steps, k),
               launches(executable.init, k),
               (std::filesystem::path(texts) / (kernel.entry + ".fe")).string()});
  }
  return table;
}

Table cache_table(const std::string& model, const cache::Counts& counts) {
  Table table({"model", "outcome", "reason", "kernels"});
  table.add({model, "hit", {}, std::to_string(counts.hits)});
  table.add({model, "miss", {}, std::to_string(counts.misses)});
  for (const auto& [reason, count] : counts.bypasses)
    table.add({model, "bypass", reason, std::to_string(count)});
  for (const auto& [reason, count] : counts.faults)
    table.add({model, "fault", reason, std::to_string(count)});
  return table;
}

Result<void> append(const std::string& path, const Table& table) {
  const auto failed = [&](std::string_view why) {
    return at(path, error(FE_EINVALID, "FE-C10", "the metric table cannot be written: {}", why));
  };
  const FileDescriptor file(open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666));
  if (!file) return failed(std::strerror(errno));
  // Another process may be about to write the first line too.
  if (flock(file.get(), LOCK_EX) != 0) return failed(std::strerror(errno));
  const auto& header = table.header();
  std::string first(header.size(), '\0');
  const ssize_t there = pread(file.get(), first.data(), first.size(), 0);
  if (there < 0) return failed(std::strerror(errno));
  if (there > 0 && first != header) return failed("it has other columns; move it away");
  const std::string text = there == 0 ? header + table.rows() : table.rows();
  for (size_t done = 0; done < text.size();) {
    const ssize_t written = write(file.get(), text.data() + done, text.size() - done);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return failed(std::strerror(errno));
    done += static_cast<size_t>(written);
  }
  return {};
}

}  // namespace

std::string bytes_text(int64_t bytes) {
  if (bytes < 1000) return fmt::format("{} B", bytes);
  auto value = static_cast<double>(bytes);
  for (const char* unit : {"kB", "MB", "GB"}) {
    value /= 1000;
    if (value < 999.95) return fmt::format("{:.1f} {}", value, unit);
  }
  return fmt::format("{:.1f} TB", value / 1000);
}

Result<Metrics> Metrics::from_environment() {
  Metrics metrics;
  const char* given = std::getenv("FERRITE_METRICS");
  std::string_view rest = given ? given : "";
  while (!rest.empty()) {
    const auto name = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), name.size() + 1));
    if (std::ranges::find(table_names, name) == table_names.end())
      return at("FERRITE_METRICS",
                error(FE_EINVALID, "FE-C09", "there is no metric table '{}'; the tables are {}{}", name,
                      fmt::join(table_names, ", "), did_you_mean(name, table_names)));
    metrics.tables_.emplace(name);
  }
  if (const char* folder = std::getenv("FERRITE_METRICS_DIR")) metrics.folder_ = folder;
  if (metrics.folder_.empty()) metrics.folder_ = ".";
  return metrics;
}

Result<void> Metrics::write(std::string_view model, const Observation& seen, const Compilation& compilation,
                            const Ledger& ledger) const {
  namespace fs = std::filesystem;
  std::error_code failed;
  fs::create_directories(folder_, failed);
  const std::string name(model);
  const auto add = [&](std::string_view table, const auto& make) -> Result<void> {
    if (!tables_.contains(table)) return {};
    return append((fs::path(folder_) / fmt::format("metric_{}.csv", table)).string(), make());
  };
  FE_CHECK(add("graph", [&] { return graph_table(name, seen, compilation.stats); }));
  FE_CHECK(add("fusion", [&] { return fusion_table(name, ledger); }));
  FE_CHECK(add("cache", [&] { return cache_table(name, compilation.stats.cache); }));
  if (!tables_.contains("kernel") || !compilation.executable) return {};
  const auto texts = (fs::path(folder_) / text_folder).string();
  for (const auto& kernel : seen.kernels)
    if (const auto fault = cache::write_file(texts, kernel.entry + ".fe", kernel.text); !fault.empty())
      return at(texts, error(FE_EINVALID, "FE-C10", "a kernel's text cannot be written: {}", fault));
  return add("kernel", [&] { return kernel_table(name, seen, *compilation.executable, texts); });
}

}  // namespace ferrite::core::observe
