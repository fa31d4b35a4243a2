// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "code_object.h"

#include <lld/Common/Driver.h>
#include <llvm/BinaryFormat/ELF.h>
#include <llvm/BinaryFormat/MsgPackDocument.h>
#include <llvm/Object/ELF.h>
#include <llvm/Support/raw_ostream.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <mutex>
#include <system_error>

#include "ferrite/error.hpp"

LLD_HAS_DRIVER(elf)

namespace ferrite::hip {

namespace {

constexpr const char* error_code = "ferrite.hip/linker";

/// A folder of its own for the linker's files, which are not kept.
class ScratchFolder {
 public:
  ScratchFolder() {
    std::error_code error;
    const auto parent = std::filesystem::temp_directory_path(error);
    std::string name = (parent / "ferrite-hip-XXXXXX").string();
    if (error || !mkdtemp(name.data()))
      fail(error_code, "no folder can be made for the linker's files, ", name,
           ": let TMPDIR name a folder that can be written to");
    path_ = name;
  }
  ~ScratchFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  std::string file(const char* name) const { return (path_ / name).string(); }

 private:
  std::filesystem::path path_;
};

/// Runs the linker, which keeps its state in variables of its own. It also sets LLVM's command-line options, which are the process', back
/// to what they are without any.
void run_linker(const std::vector<const char*>& words) {
  static std::mutex mutex;
  static bool broken = false;
  const std::lock_guard lock(mutex);
  if (broken)
    fail(error_code, "the linker has failed before in a way that it cannot run again after; restart");
  std::string said;
  llvm::raw_string_ostream stream(said);
  const auto result = lld::lldMain(words, stream, stream, {{lld::Gnu, &lld::elf::link}});
  broken = !result.canRunAgain;
  if (result.retCode != 0) fail(error_code, "the linker does not take the object: ", said);
}

}  // namespace

std::string link_code_object(const std::string& object) {
  const ScratchFolder folder;
  const auto from = folder.file("kernel.o"), to = folder.file("kernel.so");
  std::ofstream written(from, std::ios::binary);
  written.write(object.data(), static_cast<std::streamsize>(object.size()));
  written.close();
  if (!written) fail(error_code, "the linker's input cannot be written to ", from, ": make room there");
  run_linker({"ld.lld", "-shared", "--no-undefined", "--threads=1", from.c_str(), "-o", to.c_str()});
  std::ifstream linked(to, std::ios::binary);
  std::string result{std::istreambuf_iterator<char>(linked), {}};
  if (result.empty()) fail(error_code, "what the linker wrote to ", to, " cannot be read: make room there");
  return result;
}

KernelNumbers numbers_of_code_object(const std::string& code_object) {
  KernelNumbers numbers;
  auto file = llvm::object::ELF64LEFile::create(code_object);
  if (!file) return llvm::consumeError(file.takeError()), numbers;
  auto sections = file->sections();
  if (!sections) return llvm::consumeError(sections.takeError()), numbers;
  for (const auto& section : *sections) {
    if (section.sh_type != llvm::ELF::SHT_NOTE) continue;
    auto error = llvm::Error::success();
    for (const auto& note : file->notes(section, error)) {
      if (note.getType() != llvm::ELF::NT_AMDGPU_METADATA) continue;
      llvm::msgpack::Document document;
      if (!document.readFromBlob(note.getDescAsStringRef(section.sh_addralign), false)) continue;
      auto kernel = document.getRoot().getMap(true)["amdhsa.kernels"].getArray(true)[0].getMap(true);
      const auto number = [&](const char* key) {
        const auto& value = kernel[key];
        return value.getKind() == llvm::msgpack::Type::UInt ? static_cast<int64_t>(value.getUInt()) : 0;
      };
      numbers.vector_registers = number(".vgpr_count");
      numbers.spills = number(".vgpr_spill_count") + number(".sgpr_spill_count");
    }
    llvm::consumeError(std::move(error));
  }
  return numbers;
}

}  // namespace ferrite::hip
