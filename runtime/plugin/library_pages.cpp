// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "runtime/plugin/library_pages.h"

#include <mutex>

#include "core/support/host_memory.h"

namespace ferrite::core::plugin {
namespace {

struct Noted {
  std::mutex mutex;
  std::set<ElfW(Addr)> libraries;  ///< by the address to which the loader moved them
};
Noted& noted() {
  static Noted one;
  return one;
}

std::set<ElfW(Addr)> libraries_now() {
  std::set<ElfW(Addr)> found;
  ::dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* to) {
        static_cast<std::set<ElfW(Addr)>*>(to)->insert(info->dlpi_addr);
        return 0;
      },
      &found);
  return found;
}

/// Whether the loader has written to segments that are not writable: they are not as in the file.
bool has_text_relocations(const dl_phdr_info& info) {
  for (size_t k = 0; k < info.dlpi_phnum; ++k) {
    if (info.dlpi_phdr[k].p_type != PT_DYNAMIC) continue;
    const auto* entry = reinterpret_cast<const ElfW(Dyn)*>(info.dlpi_addr + info.dlpi_phdr[k].p_vaddr);
    for (; entry->d_tag != DT_NULL; ++entry)
      if (entry->d_tag == DT_TEXTREL || (entry->d_tag == DT_FLAGS && (entry->d_un.d_val & DF_TEXTREL)))
        return true;
  }
  return false;
}

/// Gives back the whole pages of a library's segments that nothing writes to.
void release_pages_of(const dl_phdr_info& info) {
  for (size_t k = 0; k < info.dlpi_phnum; ++k) {
    const auto& segment = info.dlpi_phdr[k];
    if (segment.p_type == PT_LOAD && !(segment.p_flags & PF_W))
      release_pages(reinterpret_cast<const void*>(info.dlpi_addr + segment.p_vaddr),
                    static_cast<int64_t>(segment.p_filesz));
  }
}

}  // namespace

NewLibraries::NewLibraries() : before_(libraries_now()) {}

NewLibraries::~NewLibraries() {
  const auto now = libraries_now();
  auto& all = noted();
  const std::lock_guard lock(all.mutex);
  for (const auto address : now)
    if (!before_.contains(address)) all.libraries.insert(address);
}

void release_library_pages() {
  auto& all = noted();
  const std::lock_guard lock(all.mutex);
  // The loader's lock is held meanwhile: none of them can be unloaded.
  ::dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* list) {
        if (static_cast<const std::set<ElfW(Addr)>*>(list)->contains(info->dlpi_addr) &&
            !has_text_relocations(*info))
          release_pages_of(*info);
        return 0;
      },
      &all.libraries);
}

}  // namespace ferrite::core::plugin
