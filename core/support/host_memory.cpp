// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/support/host_memory.h"

#include <sys/mman.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>

namespace ferrite::core {
namespace {

namespace fs = std::filesystem;

constexpr int64_t unlimited = std::numeric_limits<int64_t>::max();

int64_t machine_bytes() {
  struct sysinfo info{};
  if (sysinfo(&info) != 0) return unlimited;
  const auto units = static_cast<uint64_t>(info.totalram) + info.totalswap;
  return static_cast<int64_t>(std::min<uint64_t>(units * info.mem_unit, unlimited));
}

/// The number in the file. A file without a number, as in "max", means no limit.
int64_t limit_in(const fs::path& path) {
  int64_t bytes = 0;
  std::ifstream file(path);
  return file >> bytes ? bytes : unlimited;
}

/// The smallest limit of the process's control groups and their ancestors. In a container its own group may
/// appear as the root, so the root's limit counts too.
int64_t group_bytes() {
  int64_t least = unlimited;
  std::ifstream groups("/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    const auto controllers = line.find(':'), path = line.find(':', controllers + 1);
    if (controllers == std::string::npos || path == std::string::npos) continue;
    const auto names = line.substr(controllers + 1, path - controllers - 1);
    const bool unified = names.empty();
    if (!unified && names != "memory") continue;
    const fs::path root = unified ? "/sys/fs/cgroup" : "/sys/fs/cgroup/memory";
    const char* file = unified ? "memory.max" : "memory.limit_in_bytes";
    fs::path inside = fs::path(line.substr(path + 1)).relative_path();
    for (; !inside.empty(); inside = inside.parent_path())
      least = std::min(least, limit_in(root / inside / file));
    least = std::min(least, limit_in(root / file));
  }
  return least;
}

}  // namespace

int64_t host_memory_bytes() {
  static const int64_t bytes = std::min(machine_bytes(), group_bytes());
  return bytes;
}

void release_pages(const void* data, int64_t bytes) {
  static const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto address = reinterpret_cast<uintptr_t>(data);
  const auto begin = (address + page - 1) / page * page;
  const auto end = (address + static_cast<uintptr_t>(bytes)) / page * page;
  if (begin < end) (void)::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

}  // namespace ferrite::core
