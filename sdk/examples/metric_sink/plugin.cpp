// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Logs a summary of each compilation's kernels. If a path is given, appends the rows of the table `kernel` to
// that file as lines of JSON, for tools that monitor many compilations.
#include <ferrite/counted.hpp>
#include <ferrite/plugin.hpp>

#include <cstdlib>
#include <fstream>

namespace {

using namespace ferrite;

std::string quoted(std::string_view text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    if (static_cast<unsigned char>(c) >= ' ') result += c;
  }
  return result + '"';
}

class KernelSums : public MetricSink {
 public:
  KernelSums(Host host, std::string_view path) : host_(host), path_(path) {}
  std::string id() const override { return "acme.kernel_sums"; }
  std::vector<std::string> tables() const override { return {"kernel"}; }

  void write(const MetricRows& rows) override {
    if (rows.rows() == 0) return;
    int64_t launches = 0, bytes = 0;
    std::ofstream file;
    if (!path_.empty()) file.open(path_, std::ios::app);
    for (size_t row = 0; row < rows.rows(); ++row) {
      const int64_t times = number(rows, row, "launches");
      launches += times;
      bytes += times * number(rows, row, "argument_bytes");
      for (size_t k = 0; k < rows.columns(); ++k)
        file << (k == 0 ? "{" : ", ") << quoted(rows.column(k)) << ": " << quoted(rows.value(row, k));
      file << "}\n";
    }
    if (!path_.empty() && !file) fail("acme.metric_sink/path", "the file cannot be written: ", path_);
    host_.log(FE_LOG_INFO, "plugins",
              std::string(rows.value(0, 0)) + ": " + counted(launches, "launch moves", "launches move") +
                  " " + counted(bytes, "byte"));
  }

 private:
  /// Find columns by name: later versions may add columns.
  static int64_t number(const MetricRows& rows, size_t row, std::string_view column) {
    for (size_t k = 0; k < rows.columns(); ++k)
      if (rows.column(k) == column) return std::atoll(std::string(rows.value(row, k)).c_str());
    fail("acme.metric_sink/column", "the table has no column ", column);
  }

  const Host host_;
  const std::string path_;
};

void add(PluginBuilder& builder, const PluginContext& context) {
  const auto path = context.config.has("path") ? context.config.string("path") : "";
  builder.add(std::make_unique<KernelSums>(context.host, path));
}

}  // namespace

FERRITE_PLUGIN("acme.metric_sink", "1.0.0", add)
