// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "code_object.h"

#include <fcntl.h>
#include <lld/Common/Driver.h>
#include <llvm/BinaryFormat/ELF.h>
#include <llvm/BinaryFormat/MsgPackDocument.h>
#include <llvm/Object/ELF.h>
#include <llvm/Support/raw_ostream.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <system_error>

#include "ferrite/error.hpp"

LLD_HAS_DRIVER(elf)

namespace ferrite::hip {

namespace {

constexpr const char* error_code = "ferrite.hip/linker";

/// An open file that closes with the object.
class File {
 public:
  explicit File(int descriptor) : descriptor_(descriptor) {
    if (descriptor < 0)
      fail(error_code, "the linker's files cannot be opened: ", std::system_category().message(errno),
           ": close other files");
  }
  ~File() { ::close(descriptor_); }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  int operator*() const { return descriptor_; }
  std::string path() const { return "/proc/self/fd/" + std::to_string(descriptor_); }

 private:
  int descriptor_;
};

void write_all(const File& file, const std::string& bytes) {
  for (size_t done = 0; done < bytes.size();) {
    const auto more = ::write(*file, bytes.data() + done, bytes.size() - done);
    if (more <= 0 && errno != EINTR) fail(error_code, "no room for the linker's input: make memory free");
    if (more > 0) done += static_cast<size_t>(more);
  }
}

/// Reads until all writers have closed the file.
std::string read_all(const File& file) {
  std::string result;
  std::array<char, 65536> part;
  for (;;) {
    const auto more = ::read(*file, part.data(), part.size());
    if (more == 0 || (more < 0 && errno != EINTR)) return result;
    if (more > 0) result.append(part.data(), static_cast<size_t>(more));
  }
}

/// Runs the linker, whose state is global. It also resets LLVM's command-line options, which belong to the
/// process.
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

/// The output goes through a pipe. LLVM would remove an output file when a signal stops the process; for that
/// it replaces the process's signal handlers, such as those that attribute a fault to a plugin.
std::string link_code_object(const std::string& object) {
  const File input(::memfd_create("kernel.o", MFD_CLOEXEC));
  write_all(input, object);
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) ends = {-1, -1};
  const File output(ends[0]);
  // Its destructor waits for the reader, which ends when `written` is closed.
  std::future<std::string> result;
  auto written = std::make_unique<File>(ends[1]);
  result = std::async(std::launch::async, [&] { return read_all(output); });
  run_linker({"ld.lld", "-shared", "--no-undefined", "--threads=1", input.path().c_str(), "-o",
              written->path().c_str()});
  written.reset();
  return result.get();
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
