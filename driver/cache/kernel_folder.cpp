// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// An entry: the head, descriptive texts for users, the listing, the blob. The head's checksum covers
// everything after the head, and the head itself without the checksum.
#include "driver/cache/kernel_folder.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <numeric>

#include "core/support/digest.h"
#include "core/support/hash.h"
#include "core/support/log.h"
#include "runtime/launch_bounds.h"

namespace ferrite::core::cache {
namespace {

constexpr std::array<char, 8> magic = {'F', 'E', 'K', 'E', 'R', 'N', 'E', 'L'};
constexpr uint32_t format_version = 2;
constexpr size_t checksum_digits = 32, key_digits = 64;
constexpr uint64_t most_bytes = uint64_t{1} << 30;  // no kernel has more code and listing
constexpr size_t most_said = 256;                   // bytes of each descriptive text

struct Head {
  std::array<char, checksum_digits> checksum{};
  std::array<char, 8> magic{};
  uint32_t version = 0, listed = 0;
  std::array<char, key_digits> key{};
  int64_t tasks = 0, grain = 0, workspace_bytes = 0, registers = 0, spills = 0, shared_bytes = 0;
  uint64_t listing_bytes = 0, blob_bytes = 0;
  uint64_t device_bytes = 0, candidate_bytes = 0, nodes_bytes = 0;
};
static_assert(std::has_unique_object_representations_v<Head>, "padding would be part of the checksum");

template <size_t digits>
std::string_view text_of(const std::array<char, digits>& text) {
  return {text.data(), text.size()};
}

std::string checksum_of(std::string_view entry) { return hash128(entry.substr(checksum_digits)); }

struct Entry {
  CompiledKernel kernel;
  About about;
};

/// Reads an entry; `fault` gets the reason where it is invalid.
std::optional<Entry> parse(std::string_view bytes, std::string_view key, std::string& fault) {
  Head head;
  const auto refuse = [&](std::string reason) {
    fault = std::move(reason);
    return std::nullopt;
  };
  if (bytes.size() < sizeof head) return refuse("it is cut short");
  std::memcpy(&head, bytes.data(), sizeof head);
  if (head.magic != magic) return refuse("it is no entry of this cache");
  if (head.version != format_version) return refuse("it is of another version");
  if (text_of(head.key) != key) return refuse("it is another kernel's");
  const std::array sizes{head.device_bytes, head.candidate_bytes, head.nodes_bytes, head.listing_bytes,
                         head.blob_bytes};
  std::array<std::string_view, sizes.size()> parts;
  auto rest = bytes.substr(sizeof head);
  for (size_t k = 0; k < parts.size(); ++k) {
    if (sizes[k] > rest.size()) return refuse("it is cut short");
    parts[k] = rest.substr(0, sizes[k]);
    rest.remove_prefix(sizes[k]);
  }
  if (!rest.empty()) return refuse("it is longer than it says");
  if (text_of(head.checksum) != checksum_of(bytes)) return refuse("its contents were changed");
  // The hash proves only that the entry is unchanged; its numbers must be possible, too.
  if (auto why = runtime::unfit(head.tasks, head.grain, head.workspace_bytes); !why.empty())
    return refuse(std::move(why));
  const auto& [device, candidate, nodes, listing, blob] = parts;
  return Entry{{std::string(blob), std::string(listing), head.listed != 0, head.tasks, head.grain,
                head.workspace_bytes, head.registers, head.spills, head.shared_bytes},
               {std::string(device), std::string(candidate), std::string(nodes)}};
}

size_t total(const std::map<std::string, size_t>& by_reason) {
  return std::accumulate(by_reason.begin(), by_reason.end(), size_t{0},
                         [](size_t sum, const auto& each) { return sum + each.second; });
}

constexpr const char* unusable = "the stored code could not be used";

}  // namespace

size_t Counts::missed() const { return total(misses); }
size_t Counts::bypassed() const { return total(bypasses); }

KernelFolder::KernelFolder(std::string folder) : folder_(std::move(folder)) {
  Digest::prepare();  // workers make keys, so the hash is set up before them
  if (folder_.empty()) {
    closed_ = "the cache is off";
  } else if (auto why = distrusted(folder_); !why.empty()) {
    closed_ = folder_ + " is not used: " + why;
    log::print("kernels", "cache: {}", closed_);
  }
}

std::optional<CompiledKernel> KernelFolder::find(const std::string& key, bool listing) {
  if (!is_open() || key.empty()) {
    bypass(is_open() ? "the provider has no fingerprint" : closed_);
    return std::nullopt;
  }
  const std::string path = path_of(key);
  std::string why;
  std::optional<CompiledKernel> kernel;
  if (const auto bytes = read_file(path, most_bytes, why))
    if (auto entry = parse(*bytes, key, why)) kernel = std::move(entry->kernel);
  if (!why.empty()) fault(path + ": " + why);
  // The code was compiled when no listing was requested.
  const bool unlisted = kernel && listing && !kernel->listed;
  if (unlisted) kernel.reset();
  {
    const std::lock_guard lock(mutex_);
    if (kernel)
      ++counts_.hits;
    else
      ++counts_.misses[!why.empty() ? unusable
                       : unlisted   ? "it was kept without its listing"
                                    : "it was not kept yet"];
  }
  // Marks the time of the last use, for `ferrite cache clear --days`. Where this fails, the entry only seems
  // older.
  if (kernel) utimensat(AT_FDCWD, path.c_str(), nullptr, 0);
  return kernel;
}

void KernelFolder::drop(const std::string& key, const std::string& reason) {
  fault(path_of(key) + ": " + reason);
  const std::lock_guard lock(mutex_);
  // find() has counted it as a hit.
  --counts_.hits;
  ++counts_.misses[unusable];
}

void KernelFolder::keep(const std::string& key, const CompiledKernel& kernel, const About& about) {
  if (!is_open() || key.size() != key_digits) return;
  Head head;
  head.magic = magic;
  head.version = format_version;
  head.listed = kernel.listed ? 1 : 0;
  std::memcpy(head.key.data(), key.data(), key_digits);
  head.tasks = kernel.tasks;
  head.grain = kernel.grain;
  head.workspace_bytes = kernel.workspace_bytes;
  head.registers = kernel.registers;
  head.spills = kernel.spills;
  head.shared_bytes = kernel.shared_bytes;
  head.listing_bytes = kernel.listing.size();
  head.blob_bytes = kernel.blob.size();
  const std::array said{std::string_view(about.device).substr(0, most_said),
                        std::string_view(about.candidate).substr(0, most_said),
                        std::string_view(about.nodes).substr(0, most_said)};
  head.device_bytes = said[0].size();
  head.candidate_bytes = said[1].size();
  head.nodes_bytes = said[2].size();
  std::string entry(sizeof head, '\0');
  std::memcpy(entry.data(), &head, sizeof head);
  for (const auto part : said) entry += part;
  entry += kernel.listing;
  entry += kernel.blob;
  const std::string checksum = checksum_of(entry);
  std::memcpy(entry.data(), checksum.data(), checksum_digits);
  if (auto why = write_file(folder_, key + std::string(kernel_suffix), entry); !why.empty())
    fault(folder_ + ": " + why);
}

void KernelFolder::bypass(const std::string& reason) {
  const std::lock_guard lock(mutex_);
  ++counts_.bypasses[reason];
}

void KernelFolder::fault(const std::string& reason) {
  log::print("kernels", "cache: {}", reason);
  const std::lock_guard lock(mutex_);
  ++counts_.faults[reason];
}

std::string KernelFolder::path_of(const std::string& key) const {
  return folder_ + "/" + key + std::string(kernel_suffix);
}

Counts KernelFolder::counts() const {
  const std::lock_guard lock(mutex_);
  return counts_;
}

std::string kernel_folder(const std::optional<std::string>& setting) {
  // secure_getenv: a program that runs with another user's rights must not load code from a folder that its
  // caller chose.
  const char* given = setting ? setting->c_str() : secure_getenv("FERRITE_CACHE");
  const std::string_view text = given ? given : "on";
  if (text == "off") return {};
  return text == "on" ? user_folder("kernels") : std::string(text);
}

std::optional<About> look_at(const std::string& folder, const std::string& name, std::string& fault) {
  const auto bytes = read_file(folder + "/" + name, most_bytes, fault);
  if (!bytes) return std::nullopt;
  auto entry = parse(*bytes, std::string_view(name).substr(0, name.size() - kernel_suffix.size()), fault);
  return entry ? std::optional(std::move(entry->about)) : std::nullopt;
}

}  // namespace ferrite::core::cache
