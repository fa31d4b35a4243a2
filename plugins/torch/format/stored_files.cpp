// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "format/stored_files.h"

#include <minizip/unzip.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string_view>

#include "ferrite/error.hpp"

namespace ferrite::from_torch {
namespace {

/// A position in bytes, as minizip's callbacks take it.
struct Cursor {
  Bytes bytes;
  uint64_t at = 0;
};

zlib_filefunc64_def memory_functions(Cursor* cursor) {
  zlib_filefunc64_def functions{};
  functions.opaque = cursor;
  functions.zopen64_file = [](void* opaque, const void*, int) -> void* {
    static_cast<Cursor*>(opaque)->at = 0;
    return opaque;
  };
  functions.zread_file = [](void*, void* stream, void* to, uLong count) -> uLong {
    auto& c = *static_cast<Cursor*>(stream);
    const uint64_t given =
        std::min<uint64_t>(count, c.bytes.size() - std::min<uint64_t>(c.at, c.bytes.size()));
    if (given) std::memcpy(to, c.bytes.data() + c.at, given);
    c.at += given;
    return given;
  };
  functions.ztell64_file = [](void*, void* stream) -> ZPOS64_T { return static_cast<Cursor*>(stream)->at; };
  functions.zseek64_file = [](void*, void* stream, ZPOS64_T offset, int origin) -> long {
    auto& c = *static_cast<Cursor*>(stream);
    const uint64_t base = origin == SEEK_SET ? 0 : origin == SEEK_CUR ? c.at : c.bytes.size();
    if (base + offset > c.bytes.size()) return -1;
    c.at = base + offset;
    return 0;
  };
  functions.zclose_file = [](void*, void*) -> int { return 0; };
  functions.zerror_file = [](void*, void*) -> int { return 0; };
  return functions;
}

}  // namespace

void damaged_archive(const std::string& what) {
  fail("FE-I51", "the archive is damaged: ", what, "; save it again with torch.export.save");
}

std::map<std::string, StoredRange> files_of(Bytes bytes) {
  Cursor cursor{bytes, 0};
  auto functions = memory_functions(&cursor);
  const std::unique_ptr<void, int (*)(void*)> archive(unzOpen2_64("", &functions), unzClose);
  if (!archive)
    fail("FE-I51",
         "the file is no archive of torch.export: it is no zip file; save it with torch.export.save");
  std::map<std::string, StoredRange> files;
  for (int status = unzGoToFirstFile(archive.get()); status != UNZ_END_OF_LIST_OF_FILE;
       status = unzGoToNextFile(archive.get())) {
    unz_file_info64 info;
    char name[1024];
    if (status != UNZ_OK ||
        unzGetCurrentFileInfo64(archive.get(), &info, name, sizeof name, nullptr, 0, nullptr, 0) != UNZ_OK)
      damaged_archive("its list of files cannot be read");
    if (info.size_filename >= sizeof name) damaged_archive("the name of a file is too long");
    if (info.compression_method != 0 || unzOpenCurrentFile(archive.get()) != UNZ_OK)
      damaged_archive("file '" + std::string(name) + "' is compressed or cannot be opened");
    const uint64_t offset = unzGetCurrentFileZStreamPos64(archive.get());
    unzCloseCurrentFile(archive.get());
    if (offset > bytes.size() || info.uncompressed_size > bytes.size() - offset)
      damaged_archive("file '" + std::string(name) + "' lies outside the archive");
    std::string_view inner(name);
    if (const auto slash = inner.find('/'); slash != std::string_view::npos) inner.remove_prefix(slash + 1);
    files[std::string(inner)] = {offset, info.uncompressed_size};
  }
  return files;
}

}  // namespace ferrite::from_torch
