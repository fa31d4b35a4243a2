// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "driver/observe/metrics.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>

#include "core/support/files/file_descriptor.h"
#include "core/support/files/file_fault.h"
#include "core/support/files/user_folder.h"
#include "driver/observe/metric_tables.h"

namespace ferrite::core::observe {
namespace {

constexpr std::string_view text_folder =
    "metric_kernels";  // beside the tables: one file for each kernel's text

/// One line of a file: column names or values. A value with a comma, a quote or a line break is quoted (RFC
/// 4180).
std::string line(const std::vector<std::string>& values) {
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

Result<void> append(const std::string& path, const MetricTable& table) {
  const auto failed = [&](std::string_view why) {
    return at(path, error(FE_EINVALID, "FE-C10", "the metric table cannot be written: {}", why));
  };
  const FileDescriptor file(open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666));
  if (!file) return failed(file_fault(path, errno));
  // The lock covers the check for an empty file: another process may be about to write the header too.
  if (flock(file.get(), LOCK_EX) != 0) return failed(file_fault(path, errno));
  const auto header = line(table.columns);
  std::string first(header.size(), '\0');
  const ssize_t there = pread(file.get(), first.data(), first.size(), 0);
  if (there < 0) return failed(file_fault(path, errno));
  if (there > 0 && first != header) return failed("it has other columns; move it away");
  std::string text = there == 0 ? header : "";
  for (const auto& row : table.rows) text += line(row);
  for (size_t done = 0; done < text.size();) {
    const ssize_t written = write(file.get(), text.data() + done, text.size() - done);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return failed(file_fault(path, errno));
    done += static_cast<size_t>(written);
  }
  return {};
}

}  // namespace

Result<Metrics> Metrics::from_environment() {
  Metrics metrics;
  const char* given = std::getenv("FERRITE_METRICS");
  std::string_view rest = given ? given : "";
  while (!rest.empty()) {
    const auto name = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), name.size() + 1));
    if (auto known = check_metric_table(name); !known) return at("FERRITE_METRICS", std::move(known.error()));
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
  const bool kernels = tables_.contains("kernel") && compilation.executable;
  const auto texts = kernels ? (fs::path(folder_) / text_folder).string() : "";
  for (size_t k = 0; kernels && k < seen.kernels.size(); ++k)
    if (const auto fault = cache::write_file(texts, seen.kernels[k].entry + ".fe", seen.kernels[k].text);
        !fault.empty())
      return at(texts, error(FE_EINVALID, "FE-C10", "a kernel's text cannot be written: {}", fault));
  for (const auto& table : metric_tables([&](std::string_view name) { return tables_.contains(name); },
                                         {model, seen, compilation, ledger, texts}))
    FE_CHECK(append((fs::path(folder_) / fmt::format("metric_{}.csv", table.name)).string(), table));
  return {};
}

}  // namespace ferrite::core::observe
