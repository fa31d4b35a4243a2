// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "driver/validate/reproducer.h"

#include <xxhash.h>

#include <cerrno>
#include <filesystem>
#include <fstream>

#include "core/ir/graph/print.h"
#include "core/support/files/file_fault.h"
#include "core/support/shell.h"
#include "ferrite/counted.hpp"

namespace ferrite::core::validate {
namespace {

namespace fs = std::filesystem;

/// Keeps letters, digits, dots, underscores and hyphens, and replaces all else by hyphens, so that no name of
/// a pass can leave the folder.
std::string file_name(std::string_view name) {
  std::string result;
  for (const char c : name) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '.' || c == '_' || c == '-';
    result += plain ? c : '-';
  }
  return result.substr(0, 100);
}

std::string as_comment(std::string_view text) {
  std::string result = "// ";
  for (const char c : text) {
    result += c;
    if (c == '\n') result += "// ";
  }
  return result + "\n";
}

}  // namespace

Result<std::string> write_reproducer(const graph::Graph& graph, const Reproducer& reproducer) {
  const std::string text = graph::print(graph);
  const auto hash = static_cast<uint32_t>(XXH3_64bits(text.data(), text.size()));
  const fs::path path =
      fs::path(reproducer.folder) / fmt::format("{}-{:08x}.fe", file_name(reproducer.pass), hash);
  const std::string pass =
      reproducer.rule.empty() ? reproducer.pass : reproducer.pass + "#" + reproducer.rule;
  const std::string command = fmt::format(
      "ferrite opt {}{}{} --validate-rules off --to {} --pass {} --check-passes", shell_word(path.string()),
      reproducer.options.empty() ? "" : " ", reproducer.options, reproducer.phase, shell_word(pass));
  std::error_code failed;
  fs::create_directories(reproducer.folder, failed);
  errno = 0;
  std::ofstream file(path);
  file << as_comment(reproducer.what) << as_comment(command) << text;
  file.close();
  if (!file)
    return at(path.string(), error(FE_EINVALID, "FE-R33", "{}; the graph that shows it cannot be written: {}",
                                   reproducer.what, file_fault(path.string(), errno)));
  return fmt::format(". A graph of {} shows it: {}", counted(graph.node_count(), "node"), command);
}

}  // namespace ferrite::core::validate
